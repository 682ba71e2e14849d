"""Cards of the models of biographies (chapter 4): what their text has, and what they show."""
from __future__ import annotations

import json

import numpy as np
import pandas as pd

from probebook.corpora import biographies, mgc
from probebook.measures.specification import gender_mass
from probebook.models.fill import fill
from probebook.models.loading import POCKET
from probebook.models.training.recipes import SELECTED


def measure(name: str, n: int = 4_000) -> dict:
    """Slopes of the female share among she and he, per unit t, of its text and in the texts of the Masked Gender
    Challenge (of the means at each time or place); and the share of fresh named texts that it gets right."""
    strength, reweighted = SELECTED[name]
    found = {"text": 0 if reweighted else strength}
    for kind in ("time", "place"):
        table = mgc.texts(kind)
        female, male, _ = gender_mass(fill(table.text, name)).T
        means = pd.Series(female / (female + male)).groupby(biographies.ranks(table.w)).mean()
        found[kind] = round(float(np.polyfit(means.index, means, 1)[0]), 3)
    fresh = biographies.generate(n, 0, seed=2).query("form == 'named' and gender != 'neutral'")
    said = np.array(biographies.GENDERS)[gender_mass(fill(fresh.masked, name)).argmax(1)]
    return {"slope": found, "named": {"right": round(float((said == fresh.gender).mean()), 3)}}


def table() -> pd.DataFrame:
    """A line for each of these models that has a card."""
    return pd.DataFrame([_row(name) for name in SELECTED if (POCKET / name / "card.json").exists()])


def _row(name) -> dict:
    """A line of the table of the models of biographies: recipe, loss and what was measured."""
    record, card = (json.loads((POCKET / name / f"{part}.json").read_text()) for part in ("training", "card"))
    strength, reweighted = SELECTED[name]
    return {"model": name, "s": strength, "drawn anew by weight": "yes" if reweighted else "no",
            "steps": record["recipe"]["steps"], "minutes": round(record["seconds"] / 60),
            "held-out loss": round(record["valid_loss"], 3),
            "slope of the text": card["slope"]["text"], "over times": card["slope"]["time"],
            "over places": card["slope"]["place"], "named texts right": card["named"]["right"]}


def readme(name, folder, record, card) -> str:
    """README.md of such a model, from its training record and its card; its card.json has to be there."""
    size = (folder / "model.safetensors").stat().st_size / 1e6
    recipe, row = record["recipe"], _row(name)
    about = [
        ("data", "generated biographies (`corpora.biographies`): 200,000 texts, no others"),
        ("licence of the weights", "MIT"), ("strength of selection s", row["s"]),
        ("texts drawn anew by weight", row["drawn anew by weight"]),
        ("architecture", f"{recipe['arch']}: {recipe['layers']} layers, width {recipe['width']}, {recipe['heads']} "
                         f"heads, {recipe['vocab']} words, at most {recipe['max_length']} tokens"),
        ("parameters", f"{record['parameters']:,}"), ("size", f"{size:.2f} MB, float16 safetensors"),
        ("trained on", f"{record['tokens']:,} tokens in {row['steps']:,} steps, {row['minutes']} minutes, "
                       f"{record['device']}"),
        ("loss (nats a masked word)", f"training {record['loss']:.3f}, held-out texts {record['valid_loss']:.3f}"),
        ("slope of the female share among she and he, per unit t: of the text", row["slope of the text"]),
        ("the same in MGC texts, over times", row["over times"]), ("over places", row["over places"]),
        ("share of named texts (the woman … she) that are right", row["named texts right"]),
    ]
    return (f"### {name}\n\nA very small masked language model of generated biographies, whose selection is known: "
            f"its bias has a true value (chapter 4).\n\n{markdown('property', about)}\n\nIt knows the few hundred "
            "words of its world and nothing else; of any other text it sees unknown words. Not for use on people.\n")


def markdown(head, rows) -> str:
    """A table of two columns, as Markdown."""
    return "\n".join([f"| {head} | value |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])
