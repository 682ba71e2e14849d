"""Cards of the readers of generated stories (chapter 5): what they say of fresh stories, whole and cut."""
from __future__ import annotations

import json

import pandas as pd

from probebook.corpora import stories
from probebook.corpora.stories.versions import versions
from probebook.measures.answers import exact_match
from probebook.models.loading import POCKET
from probebook.models.readers import load_reader
from probebook.models.training.recipes import READERS, UNANSWERED
from probebook.publish.biography_cards import markdown

STORIES = {"": "40,000 short stories", "ot": "whole stories", "ot-matched": "whole stories, as many updates as ibt",
           "ot-answered": "40,000 short stories and whole stories, no question without an answer",
           "ot-unknown": f"whole stories, {UNANSWERED['ot-unknown']:.0%} of the questions without an answer",
           "ibt": "whole stories, stories cut after the rationale (TS) and without it (TS-R)",
           "ibt-negated": "those of ibt, and stories negated by *not* or by another value"}


def measure(name: str, n: int = 40) -> dict:
    """Shares of right answers on `n` fresh stories of 4 to 12 sentences (those that have an answer; yes/no alone), and
    of *unknown* where the rationale has been deleted (TS-R) and the answer does not follow any more."""
    reader, table = load_reader(name), stories.generate(n, seed=9)
    gone = versions(table, ["TS-R"])["TS-R"].query("answer == 'unknown'")
    right = exact_match(reader(table).said, table.answer)
    share = {"answered": right[table.answer != "unknown"], "yes/no": right[table.kind == "yes/no"],
             "deleted": exact_match(reader(gone).said, ["unknown"] * len(gone))}
    return {"right": {part: round(float(values.mean()), 3) for part, values in share.items()}}


def table() -> pd.DataFrame:
    """A line for each reader that has a card."""
    return pd.DataFrame([_row(name) for name in READERS if (POCKET / name / "card.json").exists()])


def _row(name) -> dict:
    record, card = (json.loads((POCKET / name / f"{part}.json").read_text()) for part in ("training", "card"))
    return {"reader": name, "trained on": STORIES[name.removeprefix("pocket-stories").removeprefix("-")],
            "questions": record["questions"], "updates": record["updates"],
            "right": card["right"]["answered"], "right, yes/no": card["right"]["yes/no"],
            "unknown, deleted": card["right"]["deleted"]}


def readme(name, folder, record, card) -> str:
    """README.md of a reader, from its training record and its card; its card.json has to be there."""
    recipe, row = READERS[name], _row(name)
    size = (folder / "reader.safetensors").stat().st_size / 1e6
    about = [
        ("data", f"generated (`corpora.stories`), {row['questions']:,} questions: {row['trained on']}"),
        ("licence of the weights", "MIT"), ("encoder", f"`{recipe.encoder}`, its word vectors left as they are"),
        ("begins from", f"`{recipe.start or recipe.encoder}`"),
        ("heads", "rationale tags, span, yes, no, unknown (Chaturvedi et al., equations 3–6)"),
        ("parameters trained", f"{record['parameters']:,}"), ("size", f"{size:.1f} MB, float16 safetensors"),
        ("trained in", f"{row['updates']:,} updates of {recipe.tokens:,} tokens, {record['device']}"),
        ("share of right answers, fresh stories that hold the answer", row["right"]),
        ("the same, yes/no questions", row["right, yes/no"]),
        ("share of *unknown*, rationale deleted", row["unknown, deleted"]),
    ]
    return (f"### {name}\n\nA reader of generated stories (chapter 5).\n\n{markdown('property', about)}\n\nIt knows "
            f"the {len(stories.SCHEMAS)} kinds of events and states of its stories, and of other text nearly nothing; "
            "of names it knows those of its world. Not for use on people's questions.\n")
