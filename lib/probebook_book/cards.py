"""Model cards: measure a shipped model, and write card.json and README.md beside its weights.

The words are data (`data/models/cards.yaml`); `card_measures` makes the figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from probebook import hub
from probebook.base import UserError
from probebook.corpora import stories
from probebook.models.loading import POCKET
from probebook_book import card_measures
from probebook_book.card_measures import WORDS
from probebook_training.recipes import BIOGRAPHIES, READERS, STARTS, UNANSWERABLE

# Each series has a table of its models.
SERIES: dict[str, Mapping[str, object]] = {"biographies": BIOGRAPHIES, "readers": READERS}
MEASURED = {
    "prose": card_measures.prose,
    "biographies": card_measures.biography,
    "readers": card_measures.reader,
}


def write(name: str) -> Path:
    """Measure a shipped model and write its card; of a series also the table. Returns the folder.

    UserError: no such model is shipped, or the card would lack figures, for want of data.
    """
    hub.check_shipped(name)
    folder, kind, card = POCKET / name, _kind(name), measure(name)
    if "left_out" in card:
        raise UserError(
            f"the card of {name} stays as it is, for it would lose figures: {card['left_out']}"
        )
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    (folder / "README.md").write_text(readme(name))
    if kind in SERIES:
        (POCKET / f"{kind}.csv").write_text(table(kind))
    return folder


def measure(name: str) -> dict[str, Any]:
    """The measured figures of a card."""
    return MEASURED[_kind(name)](name)


def readme(name: str) -> str:
    """The text of README.md, from training.json and card.json beside the weights."""
    kind, record, card = _kind(name), *_stored(name)
    [weights] = (POCKET / name).glob("*.safetensors")
    values = record | {"name": name, "megabytes": weights.stat().st_size / 1e6}
    if kind != "readers":
        values["minutes"] = round(record["seconds"] / 60)
    if kind == "prose":
        values |= {
            "about": WORDS["prose"]["about"][name],
            "more_data": "; generated agreement sentences" if name in STARTS else "",
            "piece": "piece" if record["recipe"]["arch"] == "causal" else "masked piece",
            "measured": _share_rows(card),
        }
    elif kind == "biographies":
        values["row"] = _biography_row(name)
    else:
        recipe = READERS[name]
        values |= {
            "row": _reader_row(name),
            "recipe": recipe,
            "schemas": len(stories.all_schemas()),
            "begins_from": recipe.start or recipe.encoder,
        }
    return WORDS[kind]["readme"].format_map(values)


def table(kind: str) -> str:
    """CSV with a row for each model of a series ("biographies" or "readers") that has a card."""
    row = {"biographies": _biography_row, "readers": _reader_row}[kind]
    names = [name for name in SERIES[kind] if (POCKET / name / "card.json").exists()]
    return pd.DataFrame(map(row, names)).to_csv(index=False, float_format="%.3f")


def _kind(name: str) -> str:
    return next((kind for kind, names in SERIES.items() if name in names), "prose")


def _stored(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The training record and the card."""
    record, card = (POCKET / name / f"{part}.json" for part in ("training", "card"))
    return json.loads(record.read_text()), json.loads(card.read_text())


def _share_rows(card: dict[str, Any]) -> str:
    """The rows of a Markdown table with all shares of a card of a model of prose."""
    rows = []
    for part, value in card.items():
        label = part.replace("_", " ")
        if part.startswith("verb_choice"):
            rows += [(f"{label}, {cell}", share) for cell, share in value.items()]
        elif part.startswith("probe"):
            by_property = {"zc": value} if part == "probe_linzen" else value
            for z, shares in by_property.items():
                rows += [(f"{label}, {z}, {probe}", share) for probe, share in shares.items()]
    pronouns = card["pronouns"]
    against = f"against the other pronoun, {pronouns['sentences']} neutral sentences"
    rows += [(f"mean P({word}) {against}", pronouns[word]) for word in ("he", "she")]
    return "\n".join(f"| {label} | {share:.3f} |" for label, share in rows)


def _biography_row(name: str) -> dict[str, Any]:
    record, card = _stored(name)
    strength, reweighted = BIOGRAPHIES[name]
    return {
        "model": name,
        "s": str(strength),
        "drawn anew by weight": "yes" if reweighted else "no",
        "steps": record["recipe"]["steps"],
        "minutes": round(record["seconds"] / 60),
        "held-out loss": round(record["valid_loss"], 3),
        "slope of the text": card["slope"]["text"],
        "over times": card["slope"]["time"],
        "over places": card["slope"]["place"],
        "named texts right": card["named"]["right"],
    }


def _reader_row(name: str) -> dict[str, Any]:
    record, card = _stored(name)
    trained_on = WORDS["readers"]["trained_on"][name].format(**UNANSWERABLE)
    return {
        "reader": name,
        "trained on": trained_on,
        "questions": record["questions"],
        "updates": record["updates"],
        "right": card["right"]["answered"],
        "right, yes/no": card["right"]["yes/no"],
        "unknown, deleted": card["right"]["deleted"],
    }
