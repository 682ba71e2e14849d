"""The result of an audit as tables: what the page shows, a run keeps, and the report reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probebook.base import to_numpy
from probebook.measures.intervals import contrasts
from probebook_audit.fitting import ACTUAL, CONTROLS, ERASE, RANDOM, SHUFFLED
from probebook_audit.layer import LayerResult, estimate, estimate_share
from probebook_audit.questions.edit_scores import (
    answer_cost,
    answer_edits,
    answer_judges,
    edit_leads,
)
from probebook_audit.questions.readability import (
    PERCEPTRON,
    answer_data,
    answer_readable,
    reader_leads,
)
from probebook_audit.questions.rewriting import answer_behaviour, answer_pairs
from probebook_audit.questions.shortcut import answer_shortcut, shortcut_table
from probebook_audit.verdict import Verdict, decide

IDS = {  # of each table, the columns that name a row; all others are figures
    "answers": ["question", "word", "what", "control"],
    "readings": ["layer", "reader"],
    "judges": ["layer", "judge", "property"],
    "doses": ["layer", "method", "kind", "symbol", "strength"],
    "edits": ["layer", "method", "word", "symbol", "strength", "measure"],
    "shortcuts": ["layer", "source"],
    "items": ["row", "kind", "name", "layer", "measure"],
    "notes": ["note"],
}
SHARES = ("complete", "kept", "reliability")  # measures of an edit that lie in [0, 1]


@dataclass(frozen=True)
class AuditResult:
    """The tables of an audit. Rows are named by the columns in `IDS`, figures are numbers.

    - `answers`: place (1 to 10), value, low, high, control_value, have, need
    - `readings`: value, low, high
    - `judges`: accuracy, low, high, without states, trained, tested, usable
    - `doses` (kind: edit or control): complete, kept, reliability, closeness, ends of intervals
    - `edits`: value, low, high
    - `shortcuts`: association, rule (share right), rule low, rule high, conflicts, probe (right
      where the rule is wrong), low, high, usual (the majority), beats (1: significantly)
    - `items` (row: the item's row in the data): value
    - `notes`: place; what was assumed, merged, cut, drawn or left out, a sentence each"""

    answers: pd.DataFrame
    readings: pd.DataFrame
    judges: pd.DataFrame
    doses: pd.DataFrame
    edits: pd.DataFrame
    shortcuts: pd.DataFrame
    items: pd.DataFrame
    notes: pd.DataFrame

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return Verdict(self.answers.word[self.answers.question == "change"].iloc[0])

    def to_long(self) -> dict[str, pd.DataFrame]:
        """The tables with a figure in each row (`IDS`, figure, number), without empty ones."""
        long = {}
        for name, ids in IDS.items():
            table = getattr(self, name)
            if table.empty:
                continue
            figures = table.melt(ids, var_name="figure", value_name="number")
            figures = figures.astype({"number": float}).dropna(subset="number")
            if len(figures):
                long[name] = figures
        return long

    @classmethod
    def from_long(cls, tables: Mapping[str, pd.DataFrame]) -> AuditResult:
        """The result whose `to_long` a run has kept, with the numbers in the column `value`."""
        return cls(**{name: _widen(tables.get(name), ids) for name, ids in IDS.items()})


def _widen(table: pd.DataFrame | None, ids: list[str]) -> pd.DataFrame:
    if table is None:
        return pd.DataFrame(columns=ids)
    filled = table.fillna(dict.fromkeys(ids, ""))
    wide = filled.pivot_table(index=ids, columns="figure", values="value", sort=False)
    return wide.reset_index().rename_axis(columns=None)


def conclude(
    layers: Sequence[LayerResult], least: float = 0.5, n: int = 0, notes: Sequence[str] = ()
) -> AuditResult:
    """Answer every question from what was measured, and give the verdict.

    Args:
        layers: what was measured at each layer; the answers speak of the best one.
        least: the reliability below which an edit does not count.
        n: how many items there are in all.
        notes: those of the data; the cases' and the layers' join them.
    """
    by_reader: dict[tuple, np.ndarray] = {}
    leads: dict[tuple, pd.DataFrame] = {}
    for i, layer in enumerate(layers):
        by_reader |= {(i, name): draws for name, draws in reader_leads(layer).items()}
        leads |= {(i, method): edit_leads(layer, method) for method in layer.strength}
    readings, passed = contrasts(by_reader), {}
    if leads:
        compared = contrasts({key: one.to_numpy() for key, one in leads.items()})
        passed = {key: bool(verdict > 0) for key, verdict in compared.verdict.items()}
    at = _best_layer(layers, readings, passed, least)
    layer = layers[at]
    beat = [method for method in layer.strength if passed[at, method]]
    best = max(
        beat or layer.strength, key=lambda method: _validated(layer, method, least), default=""
    )
    shortcuts = shortcut_table(layer)
    answers = {
        "data": answer_data(layer, n),
        "readable": answer_readable(layer, readings.loc[at]),
        "judges": answer_judges(layer),
        "edits": answer_edits(layer, beat, best, leads[at, best] if best else None),
        "cost": answer_cost(layer, best, bool(beat), least),
        "pairs": answer_pairs(layer, best),
        "behaviour": answer_behaviour(layer, best),
        "shortcut": answer_shortcut(shortcuts, layer.case.k),
    }
    verdict = decide({question: answer["word"] for question, answer in answers.items()})
    of_source = verdict in (Verdict.SHORTCUT, Verdict.CANNOT_BE_TOLD)
    what = answers["shortcut"]["what"] if of_source else best
    end = {"word": verdict.value, "what": what, "control": ""}
    if best and layer.usable:
        end |= estimate_share(layer.reliability(best, ACTUAL, layer.strength[best]))
    near = {f"closeness {of}": answers["pairs"].get(of) for of in ("value", "low", "high")}
    answers |= {"change": end, "paper": end | near | {"control": answers["pairs"]["word"]}}
    told = [[*layer.case.notes, *layer.notes] for layer in layers]
    sentences = [*dict.fromkeys(sum(told, [*notes]))]
    rows = [
        {"question": question, "place": place, **answer}
        for place, (question, answer) in enumerate(answers.items(), 1)
    ]
    return AuditResult(
        pd.DataFrame(rows),
        _reading_table(layers),
        pd.concat([one.judges.assign(layer=one.case.layer) for one in layers], ignore_index=True),
        _dose_table(layers),
        _edit_table(layers, passed, least),
        shortcuts,
        _item_table(layers),
        pd.DataFrame({"note": sentences, "place": range(len(sentences))}),
    )


def _validated(layer: LayerResult, method: str, least: float) -> tuple[bool, float]:
    """How good an edit is on the validation items: is it reliable enough, without moving away from
    the rewritten texts' states; then the behaviour it explains, or its reliability."""
    row = layer.validation.loc[method]
    score = row.reliability if np.isnan(row.behaviour) else row.behaviour
    return bool(row.reliability >= least and not row.closeness < 0), float(score)


def _best_layer(
    layers: Sequence[LayerResult], readings: pd.DataFrame, passed: Mapping, least: float
) -> int:
    """The layer of the best edit on the validation items, else that of the clearest reading."""
    reached = {
        i: max(_validated(layer, method, least) for method in layer.strength if passed[i, method])
        for i, layer in enumerate(layers)
        if any(passed[i, method] for method in layer.strength)
    }
    lead = {
        i: (False, float(readings.loc[i].here.drop(PERCEPTRON, errors="ignore").min()))
        for i in range(len(layers))
    }
    return max(reached or lead, key=(reached or lead).__getitem__)


def _reading_table(layers: Sequence[LayerResult]) -> pd.DataFrame:
    rows = []
    for layer in layers:
        readers = dict(layer.reader_draws)
        if layer.control_draws is not None:
            readers |= dict(layer.control_draws.add_suffix(", seen groups"))
        for name, draws in readers.items():
            share = estimate_share(draws.to_numpy())
            rows.append({"layer": layer.case.layer, "reader": name, **share})
    return pd.DataFrame(rows)


def _symbol(method: str) -> str:
    return "rank" if method in ERASE else "dose"


def _dose_table(layers: Sequence[LayerResult]) -> pd.DataFrame:
    rows = []
    for layer in layers:
        for method in layer.strength:
            for kind in (ACTUAL, *CONTROLS):
                for strength in layer.strengths(method):
                    edit = (method, kind, strength)
                    kept = layer.selectivity(*edit)
                    near = layer.reduction(method, kind, "far", "way", strength)
                    row = dict(zip(("method", "kind", "strength"), edit))
                    row |= {"layer": layer.case.layer, "symbol": _symbol(method)}
                    row["kept"] = np.nan if kept is None else float(kept[0])
                    for name, ends in (
                        ("complete", estimate_share(layer.completeness(*edit))),
                        ("reliability", estimate_share(layer.reliability(*edit))),
                        ("closeness", {} if near is None else estimate(near)),
                    ):
                        row[name] = ends.get("value")
                        row |= {f"{name} {end}": ends.get(end) for end in ("low", "high")}
                    rows.append(row)
    return pd.DataFrame(rows)


def _edit_table(layers: Sequence[LayerResult], passed: Mapping, least: float) -> pd.DataFrame:
    """Every edit at its strength; `passed`: (layer's place, method) → does it beat its controls?"""
    rows = []
    for i, layer in enumerate(layers):
        for method, strength in layer.strength.items():
            beat = passed[i, method]
            words = {
                "edits": "some" if beat else "none",
                "cost": answer_cost(layer, method, beat, least)["word"],
                "pairs": answer_pairs(layer, method)["word"],
                "behaviour": answer_behaviour(layer, method)["word"],
            }
            edit = {"layer": layer.case.layer, "method": method, "word": decide(words).value}
            edit |= {"symbol": _symbol(method), "strength": strength}
            for measure, draws in _edit_measures(layer, method).items():
                interval = (estimate_share if measure in SHARES else estimate)(draws)
                rows.append({**edit, "measure": measure, **interval})
    return pd.DataFrame(rows)


def _edit_measures(layer: LayerResult, method: str) -> dict[str, np.ndarray]:
    """Draws of everything that is reported of a method at its strength."""
    s = layer.strength[method]
    reliability, kept = layer.reliability(method, ACTUAL, s), layer.selectivity(method, ACTUAL, s)
    measures = {
        "complete": layer.completeness(method, ACTUAL, s),
        "reliability": reliability,
        "lead over random edits": reliability - layer.reliability(method, RANDOM, s),
        "lead over shuffled labels": reliability - layer.reliability(method, SHUFFLED, s),
    }
    if kept is not None:
        measures["kept"] = kept
    for name, left, whole in (("closeness", "far", "way"), ("explained", "error", "effect")):
        for kind, of in ((ACTUAL, ""), (RANDOM, ", random edits")):
            draws = layer.reduction(method, kind, left, whole)
            if draws is not None:
                measures[f"{name}{of}"] = draws
    for name in ("follows", "moved"):
        if (method, ACTUAL, s, name) in layer.effect_draws:
            measures[name] = layer.effect_draws[method, ACTUAL, s, name].to_numpy()
    return measures


def _item_table(layers: Sequence[LayerResult]) -> pd.DataFrame:
    """Every score of every test item, mean over the seeds; `row` is the item's row in the data."""
    tables = []
    for layer in layers:
        for column in layer.items:
            kind, name, *measure = column.split("|")
            about = {"kind": kind, "name": name, "layer": layer.case.layer}
            table = pd.DataFrame({"row": to_numpy(layer.case.test), **about})
            table = table.assign(measure=measure[0] if measure else "right")
            tables.append(table.assign(value=layer.items[column]).dropna(subset="value"))
    return pd.concat(tables, ignore_index=True)


def fitted_edits(layers: Sequence[LayerResult]) -> dict[str, Any]:
    """Name of a file → the edit that the first seed fitted, at the chosen strength."""
    return {
        f"layer{layer.case.layer}_{method}.safetensors": layer.fits[0].fitted[method][strength]
        for layer in layers
        for method, strength in layer.strength.items()
    }
