"""Who judges, and what edits do: usable judges, edits against controls, and what edits cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from probebook.base import to_numpy
from probebook.measures.intervals import rate, resample_seeds
from probebook.measures.reliability import completeness, reliability, selectivity
from probebook_audit.case import Case, predict_by_rule, split_groups, uncorrelated_rows
from probebook_audit.fitting import ACTUAL, CONTROLS, ERASE, JUDGES, RANDOM, Fit
from probebook_audit.layer import LayerResult, estimate, estimate_share
from probebook_audit.questions.readability import hits
from probebook_audit.verdict import percent


def judge_table(case: Case, fits: Sequence[Fit], fewest: int, draws: int) -> pd.DataFrame:
    """Every judge's examination on uncorrelated test items; columns as in
    `AuditResult.judges`."""
    exams = [_examine(case, one) for one in fits]
    table = []
    for judge in JUDGES:
        for name in ("", *case.keep):
            trained = min(one.trained[name] for one in fits)
            row: dict[str, Any] = {
                "judge": judge,
                "property": name,
                "accuracy": np.nan,
                "low": np.nan,
                "high": np.nan,
                "without states": np.nan,
                "trained": trained,
                "tested": 0,
                "usable": 0,
            }
            if all((judge, name) in exam for exam in exams):
                rows = exams[0][judge, name][0]
                right = np.array([exam[judge, name][1] for exam in exams])
                best = float(np.mean([exam[judge, name][2] for exam in exams]))
                group = pd.Series(case.group[to_numpy(rows)])
                drawn = estimate_share(resample_seeds(right, group, draws)[0].to_numpy())
                least = min(drawn["low"], rate(right.mean(0) > 0.5, group).low)
                row |= {
                    "accuracy": drawn["value"],
                    "low": least,
                    "high": drawn["high"],
                    "without states": best,
                    "tested": len(rows),
                    "usable": int(trained >= fewest and least > best),
                }
            table.append(row)
    return pd.DataFrame(table)


def _examine(case: Case, fitted: Fit) -> dict[tuple[str, str], tuple[Tensor, np.ndarray, float]]:
    """(kind, property) → test rows on which the property does not go with the other, whether the
    judge is right there, and the accuracy of the best answer without states."""
    exam = {}
    parts = split_groups(case, fitted.seed)
    for (kind, name), probe in fitted.judges.items():
        rows = uncorrelated_rows(case, case.test, name)
        if not len(rows):
            continue
        z = (case.keep[name] if name else case.z)[rows]
        others = {"": case.z} if name else dict(case.keep)
        k, labels = int(z.max()) + 1, case.keep[name] if name else case.z
        train = parts["oracle"][labels[parts["oracle"]] >= 0]
        best = [float(z.bincount().max() / len(z))]
        for other in others.values():
            predicted = predict_by_rule(
                to_numpy(other[train]), to_numpy(labels[train]), k, to_numpy(other[rows])
            )
            best.append(float((predicted == to_numpy(z)).mean()))
        exam[kind, name] = rows, hits(probe, case.h[rows], z), max(best)
    return exam


def answer_judges(layer: LayerResult) -> dict:
    """Which properties have a usable judge, and the figures of the concept's best one."""
    of_concept = layer.judges[layer.judges.property == ""]
    best = of_concept.sort_values(["usable", "low"]).iloc[-1]
    named = {name for _, name in layer.usable}
    kept = named & {*layer.case.keep}
    word = (
        "none"
        if not layer.usable
        else "concept only"
        if not kept
        else "usable"
        if kept == {*layer.case.keep}
        else "usable in part"
    )
    return {
        "word": word,
        "what": str(best.judge),
        "control": "the best answer without states",
        "control_value": float(best["without states"]),
        "value": float(best.accuracy),
        "low": float(best.low),
        "high": float(best.high),
    }


def score_edits(
    case: Case,
    fitted: Fit,
    usable: Sequence[tuple[str, str]],
    rows: Tensor,
    strengths: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Scores of every method, kind of edit and strength on `rows`: one column each, named
    (method, kind of edit, strength, measure), measure "complete: JUDGE" or "kept: JUDGE:
    PROPERTY". `strengths`: only that of each method."""
    x, to, columns = case.h[rows], case.target_labels(rows, fitted.seed), {}
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
                        _selectivity(case, fitted, judge, name, states, rows)
                        if name
                        else _completeness(case, fitted, judge, states, to, method)
                        for states in edited
                    ],
                    axis=0,
                )
    return pd.DataFrame(columns)


def _completeness(
    case: Case, fitted: Fit, kind: str, edited: Tensor, to: Tensor, method: str
) -> np.ndarray:
    """Completeness [m] of edited states by one kind of judge."""
    probs = fitted.judges[kind, ""](edited).double().softmax(1)
    return to_numpy(completeness(probs, None if method in ERASE else to))


def _selectivity(
    case: Case, fitted: Fit, kind: str, name: str, edited: Tensor, rows: Tensor
) -> np.ndarray:
    """Selectivity [m] for one property, NaN where an item has none."""
    probe, some = fitted.judges[kind, name], to_numpy(case.keep[name][rows] >= 0)
    scores = np.full(len(rows), np.nan)
    before, after = probe(case.h[rows]), probe(edited)
    scores[some] = to_numpy(selectivity(after.double().softmax(1), before.double().softmax(1)))[
        some
    ]
    return scores


def choose_strengths(
    case: Case, fits: Sequence[Fit], usable: list[tuple[str, str]], methods: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Each method's strength with the best reliability on the validation items, and that."""
    means = pd.concat(
        [score_edits(case, one, usable, one.valid).mean() for one in fits], axis=1
    ).mean(axis=1)
    chosen, reached = {}, {}
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
        chosen[method] = max(by_strength, key=by_strength.__getitem__)
        reached[method] = by_strength[chosen[method]]
    return chosen, reached


def edit_leads(layer: LayerResult, method: str) -> np.ndarray:
    """Draws of each lead that counts: completeness over the whole dose curve, by each judge, and
    reliability at the chosen strength, over both controls."""
    draws = []
    for control in CONTROLS:
        for judge in [judge for judge, name in layer.usable if not name]:
            draws.append(
                np.mean(
                    [
                        layer.edit_draws[method, ACTUAL, s, f"complete: {judge}"]
                        - layer.edit_draws[method, control, s, f"complete: {judge}"]
                        for s in layer.strengths(method)
                    ],
                    axis=0,
                )
            )
        s = layer.strength[method]
        draws.append(layer.reliability(method, ACTUAL, s) - layer.reliability(method, control, s))
    return np.stack(draws, 1)


def answer_edits(layer: LayerResult, beat: Sequence[str], least: np.ndarray | None) -> dict:
    """The methods that `beat` their controls; `least`: draws of the best one's smallest lead."""
    answer = {
        "word": "not judged" if not layer.usable else "some" if beat else "none",
        "what": ", ".join(beat),
        "control": "random edits, shuffled labels",
    }
    return answer if least is None else answer | estimate(least)


def answer_cost(layer: LayerResult, best: str, beat: bool, least: float) -> dict:
    """What the best edit keeps; too much is lost if its reliability may be below `least`."""
    if not best or not beat:
        return {"word": "not judged", "what": best, "control": ""}
    s = layer.strength[best]
    kept = layer.selectivity(best, ACTUAL, s)
    if kept is None:
        return {"word": "not asked", "what": best, "control": ""}
    r = estimate_share(layer.reliability(best, ACTUAL, s))
    if r["low"] < least:
        return {
            "word": "lost",
            "what": best,
            "control": f"{percent(least)} asked for",
            **r,
            "control_value": least,
        }
    random = layer.selectivity(best, RANDOM, s)
    return {
        "word": "kept",
        "what": best,
        "control": "random edits",
        **estimate_share(kept),
        "control_value": float(random[0]) if random is not None else np.nan,
    }
