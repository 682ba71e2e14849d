"""What an audit found as tidy tables, for the page and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probebook.base import to_numpy
from probebook_audit.fitting import ACTUAL, CONTROLS, ERASE, RANDOM, SHUFFLED
from probebook_audit.layer import Layer, figure, figure_of_share

SHARES = ("complete", "kept", "reliability")  # measures of an edit that lie in [0, 1]


@dataclass(frozen=True)
class Findings:
    """What an audit found, as tidy tables; ids in words, figures as numbers.

    - `answers`: question, word, what, control; place (1 to 10), value, low, high,
      control_value, have, need
    - `readings`: layer, reader; value, low, high
    - `judges`: layer, judge, property; accuracy, low, high, without states, trained, usable
    - `doses`: layer, method, kind (edit or control), strength; complete, kept, reliability, ends
    - `edits`: layer, method, word, symbol, strength, measure; value, low, high
    - `shortcuts`: layer, source; association, rule (share right), rule low, rule high, conflicts,
      probe (right where the rule is wrong), low, high, usual (the majority)
    - `items`: item (row), kind, name, layer, measure; value"""

    answers: pd.DataFrame
    readings: pd.DataFrame
    judges: pd.DataFrame
    doses: pd.DataFrame
    edits: pd.DataFrame
    shortcuts: pd.DataFrame
    items: pd.DataFrame

    @property
    def word(self) -> str:
        """The verdict."""
        return str(self.answers.word[self.answers.question == "change"].iloc[0])


def tables(layers: Sequence[Layer], passed: Mapping, least: float) -> dict[str, pd.DataFrame]:
    """The tables readings, judges, doses and edits of `Findings`; `passed`: (layer's place,
    method) → does the edit beat its controls?"""
    readings: list[dict] = []
    judges: list[pd.DataFrame] = []
    doses: list[dict] = []
    edits: list[dict] = []
    for i, layer in enumerate(layers):
        depth = layer.case.layer
        readings += [
            {"layer": depth, "reader": name, **figure_of_share(layer.reading[name].to_numpy())}
            for name in layer.reading
        ]
        if layer.control is not None:
            readings += [
                {
                    "layer": depth,
                    "reader": f"{name}, seen groups",
                    **figure_of_share(layer.control[name].to_numpy()),
                }
                for name in layer.control
            ]
        judges.append(layer.judges.assign(layer=depth))
        for method in layer.strength:
            symbol = "rank" if method in ERASE else "dose"
            for kind in (ACTUAL, *CONTROLS):
                for s in layer.strengths(method):
                    doses.append(_dose(layer, method, kind, s) | {"symbol": symbol})
            edits += _edit(layer, method, passed[i, method], least, symbol)
    return {
        "readings": pd.DataFrame(readings),
        "judges": pd.concat(judges, ignore_index=True),
        "doses": pd.DataFrame(doses),
        "edits": pd.DataFrame(edits),
    }


def _dose(layer: Layer, method: str, kind: str, s: float) -> dict:
    kept = layer.s(method, kind, s)
    r = figure_of_share(layer.r(method, kind, s))
    c = figure_of_share(layer.c(method, kind, s))
    return {
        "layer": layer.case.layer,
        "method": method,
        "kind": kind,
        "strength": s,
        "complete": c["value"],
        "complete low": c["low"],
        "complete high": c["high"],
        "kept": np.nan if kept is None else float(kept[0]),
        "reliability": r["value"],
        "reliability low": r["low"],
        "reliability high": r["high"],
    }


def _edit(layer: Layer, method: str, beat: bool, least: float, symbol: str) -> list[dict]:
    s = layer.strength[method]
    kept, r = layer.s(method, ACTUAL, s), layer.r(method, ACTUAL, s)
    word = (
        "no better than chance"
        if not beat
        else "cost unknown"
        if kept is None
        else "costs too much"
        if figure(r)["low"] < least
        else "reliable in the state"
    )
    found = {
        "complete": layer.c(method, ACTUAL, s),
        "reliability": r,
        "lead over random edits": r - layer.r(method, RANDOM, s),
        "lead over shuffled labels": r - layer.r(method, SHUFFLED, s),
    }
    if kept is not None:
        found["kept"] = kept
    for what, of, whole in (("closeness", "far", "way"), ("explained", "error", "effect")):
        if (method, ACTUAL, s, of) in layer.beyond:
            found[what] = layer.share(method, ACTUAL, of, whole)
            found[f"{what}, random edits"] = layer.share(method, RANDOM, of, whole)
    for what in ("follows", "moved"):
        if (method, ACTUAL, s, what) in layer.beyond:
            found[what] = layer.beyond[method, ACTUAL, s, what].to_numpy()
    return [
        {
            "layer": layer.case.layer,
            "method": method,
            "word": word,
            "symbol": symbol,
            "strength": s,
            "measure": name,
            **(figure_of_share if name in SHARES else figure)(draws),
        }
        for name, draws in found.items()
    ]


def items(layers: Sequence[Layer]) -> pd.DataFrame:
    """Every score of every test item, mean over the seeds; `row` is the item's row in the data."""
    found = []
    for layer in layers:
        long = (
            layer.items.assign(row=to_numpy(layer.case.test))
            .melt(id_vars="row", var_name="column", value_name="value")
            .dropna()
        )
        parts = long.column.str.split("|")
        edit = parts.str[0] == "edit"
        found.append(
            pd.DataFrame(
                {
                    "row": long.row,
                    "kind": parts.str[0],
                    "name": parts.str[1],
                    "layer": layer.case.layer,
                    "measure": parts.str[2].where(edit, "right"),
                    "value": long.value,
                }
            )
        )
    return pd.concat(found, ignore_index=True)


def fitted_edits(layers: Sequence[Layer]) -> dict[str, Any]:
    """Name of a file → the edit that the first seed fitted, at the chosen strength."""
    return {
        f"layer{layer.case.layer}_{method}.safetensors": layer.fits[0].fitted[method][strength]
        for layer in layers
        for method, strength in layer.strength.items()
    }


def tidy(frame: pd.DataFrame, ids: Sequence[str]) -> pd.DataFrame:
    """A table in the form figure, number, without what was not measured."""
    long = frame.melt(id_vars=[*ids], var_name="figure", value_name="number")
    return long.dropna(subset="number")
