"""Which edits do more than random ones, and than fits on shuffled labels?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from torch import Tensor

from probebook.base import to_numpy
from probebook.measures.reliability import completeness, reliability, selectivity
from probebook_audit.case import Case
from probebook_audit.fitting import ACTUAL, CONTROLS, ERASE, Fit
from probebook_audit.layer import Layer, figure


def judged(
    case: Case,
    fitted: Fit,
    usable: Sequence[tuple[str, str]],
    rows: Tensor,
    strengths: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Scores of every method, kind of edit and strength on `rows`: one column each, named
    (method, kind of edit, strength, measure), measure "complete: JUDGE" or "kept: JUDGE:
    PROPERTY". `strengths`: only that of each method."""
    x, to, columns = case.h[rows], case.wanted(rows, fitted.seed), {}
    for (method, kind), by_strength in fitted.edits.items():
        for strength, edits in by_strength.items():
            if strengths is not None and strength != strengths[method]:
                continue
            edited = [edit(x, to).detach() for edit in edits]
            for judge, name in usable:
                column = (
                    method,
                    kind,
                    strength,
                    f"kept: {judge}: {name}" if name else f"complete: {judge}",
                )
                columns[column] = np.mean(
                    [
                        kept(case, fitted, judge, name, states, rows)
                        if name
                        else complete(case, fitted, judge, states, to, method)
                        for states in edited
                    ],
                    axis=0,
                )
    return pd.DataFrame(columns)


def complete(
    case: Case, fitted: Fit, kind: str, edited: Tensor, to: Tensor, method: str
) -> np.ndarray:
    """Completeness [m] of edited states by one kind of judge."""
    said = fitted.judges[kind, ""](edited).double().softmax(1)
    return to_numpy(completeness(said, None if method in ERASE else to))


def kept(case: Case, fitted: Fit, kind: str, name: str, edited: Tensor, rows: Tensor) -> np.ndarray:
    """Selectivity [m] for one property, NaN where an item has none."""
    probe, some = fitted.judges[kind, name], to_numpy(case.keep[name][rows] >= 0)
    found = np.full(len(rows), np.nan)
    before, after = probe(case.h[rows]), probe(edited)
    found[some] = to_numpy(selectivity(after.double().softmax(1), before.double().softmax(1)))[some]
    return found


def choose(
    case: Case, fits: Sequence[Fit], usable: list[tuple[str, str]], methods: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Each method's strength with the best reliability on the validation items, and that."""
    means = pd.concat([judged(case, one, usable, one.valid).mean() for one in fits], axis=1).mean(
        axis=1
    )
    found, scored = {}, {}
    for method in methods:
        by_strength = {}
        for s in fits[0].edits[method, ACTUAL]:
            c = min(
                means[method, ACTUAL, s, f"complete: {judge}"] for judge, name in usable if not name
            )
            kept = [
                means[method, ACTUAL, s, f"kept: {judge}: {name}"] for judge, name in usable if name
            ]
            by_strength[s] = float(reliability(c, min(kept))) if kept else c
        found[method] = max(by_strength, key=by_strength.__getitem__)
        scored[method] = by_strength[found[method]]
    return found, scored


def leads(layer: Layer, method: str) -> np.ndarray:
    """Draws of each lead that counts: completeness over the whole dose curve, by each judge, and
    reliability at the chosen strength, over both controls."""
    found = []
    for control in CONTROLS:
        for judge in [judge for judge, name in layer.usable if not name]:
            found.append(
                np.mean(
                    [
                        layer.scores[method, ACTUAL, s, f"complete: {judge}"]
                        - layer.scores[method, control, s, f"complete: {judge}"]
                        for s in layer.strengths(method)
                    ],
                    axis=0,
                )
            )
        s = layer.strength[method]
        found.append(layer.r(method, ACTUAL, s) - layer.r(method, control, s))
    return np.stack(found, 1)


def answer(layer: Layer, beat: Sequence[str], least: np.ndarray | None) -> dict:
    """The methods that `beat` their controls; `least`: draws of the best one's smallest lead."""
    found = {
        "word": "not judged" if not layer.usable else "some" if beat else "none",
        "what": ", ".join(beat),
        "control": "random edits, shuffled labels",
    }
    return found if least is None else found | figure(least)
