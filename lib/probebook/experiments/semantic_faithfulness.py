"""Chapter 5's experiments (Chaturvedi et al., § 5, § 6): readers by regime of training, and their answers to a story
and to what interventions leave of it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from probebook.base import UserError
from probebook.corpora import conversations, stories
from probebook.corpora.story_edits import append_answer, augment, delete_rationale, truncate
from probebook.measures.answers import exact_match, f1, rate
from probebook.models.loading import POCKET
from probebook.models.qa import FittedReader, Reader, load_reader

REGIMES = {                                          # what a reader is trained on
    "ot": ("OS",), "ibt": ("OS", "TS", "TS-R"), "ot-matched": ("OS",), "ibt-negated": ("OS", "TS", "TS-R", "negated")}


def questions(source: str, n: int, seed: int = 0) -> pd.DataFrame:
    """Questions about `n` stories: "stories" (generated), "coqa", "coqa-dev", "hotpotqa" …, or a file of CoQA's form."""
    return stories.generate(n, seed) if source == "stories" else conversations.load(source, n, seed)


def versions(table: pd.DataFrame, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The table under each intervention of `names` (OS, TS, TS-R, OS-R, TS-R+Aug, OS-R+Aug, OS+answer, TS+answer).

    An augmented version has a sentence with the answer in place of the bare answer. UserError for another name."""
    known = {"OS": lambda t: t, "TS": truncate, "TS-R": lambda t: delete_rationale(truncate(t)),
             "OS-R": delete_rationale, "TS-R+Aug": lambda t: augment(truncate(t)), "OS-R+Aug": augment,
             "OS+answer": append_answer, "TS+answer": lambda t: append_answer(truncate(t))}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"intervention {unknown[0]!r}: one of {', '.join(known)}")
    return {name: known[name](table) for name in names}


def answers(readers: Mapping[str, FittedReader], tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for each reader, version and question: story_id, turn, kind, gold, answer (what is right for this
    version), said, and 0 or 1: right, em, unknown; f1 (the last three as in the paper, against gold)."""
    found = []
    for (name, reader), (version, table) in ((r, t) for r in readers.items() for t in tables.items()):
        said = reader(table).said.to_numpy()
        found.append(table[["story_id", "turn", "kind", "gold", "answer"]].assign(
            reader=name, version=version, said=said, right=exact_match(said, table.answer),
            em=exact_match(said, table.gold), f1=f1(said, table.gold), unknown=exact_match(said, ["unknown"] * len(said))))
    return pd.concat(found, ignore_index=True)


def scores(found: pd.DataFrame, by: Sequence[str] = ("reader", "version")) -> pd.DataFrame:
    """EM, F1, unk% (percent, table 4) and the share that is right (of 1, with its interval over stories), by group."""
    rows = []
    for key, part in found.groupby(list(by), sort=False):
        right = rate(part.right, part.story_id)
        rows.append({**dict(zip(by, key)), "n": len(part), "EM": 100 * part.em.mean(), "F1": 100 * part.f1.mean(),
                     "unk%": 100 * part.unknown.mean(), "right": right.share, "right_low": right.low,
                     "right_high": right.high})
    return pd.DataFrame(rows)


def training(table: pd.DataFrame, regime: str, deleted: str = "TS-R") -> pd.DataFrame:
    """The rows that a regime trains on; `deleted`: "TS-R" (CoQA), or "OS-R" (HotpotQA: without any TS)."""
    if regime not in REGIMES:
        raise UserError(f"regime {regime!r}: one of {', '.join(REGIMES)}")
    names = [name for name in REGIMES[regime] if name != "negated"]
    if deleted == "OS-R":
        names = [name.replace("TS-R", "OS-R") for name in names if name != "TS"]
    parts = [*versions(table, names).values()]
    if "negated" in REGIMES[regime]:
        parts += [stories.negate(table, how) for how in ("negation", "value")]
    return pd.concat(parts, ignore_index=True)


def reader(regime: str, recipe: Reader, table: pd.DataFrame | None, deleted: str = "TS-R") -> FittedReader:
    """A reader trained by a regime on a table; without one the shipped reader of that regime.

    "ot-matched" sees the stories of OT as often as it takes for as many updates as IBT has."""
    if table is None:
        return load_reader(POCKET / f"pocket-stories-{regime}")
    if regime == "ot-matched":
        recipe = replace(recipe, updates=recipe.count(training(table, "ibt", deleted)))
    return recipe.fit(training(table, regime, deleted))
