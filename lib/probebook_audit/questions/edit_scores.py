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
from probebook_audit.fitting import ACTUAL, CONTROLS, ERASE, JUDGES, RANDOM, SHUFFLED, Fit
from probebook_audit.layer import NEAR, LayerResult, estimate, estimate_share
from probebook_audit.questions.readability import hits
from probebook_audit.questions.rewriting import LEAST_EFFECT, score_effects
from probebook_audit.verdict import WORDS, percent

REASONS = WORDS["unusable"]
BOTH = "random edits, shuffled labels"
NAMED = {RANDOM: "random edits", SHUFFLED: "fits on shuffled labels"}
NEARLY = 0.02  # a score that lies as near to the best counts as the best

KINDS = (ACTUAL, *CONTROLS)  # of edits


def judge_table(case: Case, fits: Sequence[Fit], fewest: int, draws: int) -> pd.DataFrame:
    """Every judge's examination on uncorrelated test items; columns as in
    `AuditResult.judges`."""
    exams = [_examine(case, one) for one in fits]
    table = []
    for judge in JUDGES:
        for name in ("", *case.keep):
            trained = min(one.trained[name] for one in fits)
            row: dict[str, Any] = {"judge": judge, "property": name}
            row |= dict.fromkeys(("accuracy", "low", "high", "without states"), np.nan)
            row |= {"trained": trained, "tested": 0, "usable": 0}
            if all((judge, name) in exam for exam in exams):
                rows = exams[0][judge, name][0]
                right = np.array([exam[judge, name][1] for exam in exams])
                best = float(np.mean([exam[judge, name][2] for exam in exams]))
                group = pd.Series(case.group[to_numpy(rows)])
                drawn = estimate_share(resample_seeds(right, group, draws)[0].to_numpy())
                least = min(drawn["low"], rate(right.mean(0) > 0.5, group).low)
                row |= {"accuracy": drawn["value"], "low": least, "high": drawn["high"]}
                row |= {"without states": best, "tested": len(rows)}
                row["usable"] = int(trained >= NEAR * fewest and least > best)
            table.append(row)
    return pd.DataFrame(table)


def _examine(case: Case, fitted: Fit) -> dict[tuple[str, str], tuple[Tensor, np.ndarray, float]]:
    """(kind, property) → test rows on which the property does not go with the other, whether the
    judge is right there, and the accuracy of the best answer without states."""
    exam = {}
    parts = split_groups(case.group, case.test, fitted.seed)
    for (kind, name), probe in fitted.judges.items():
        rows = uncorrelated_rows(case, case.test, name)
        if not len(rows):
            continue
        z = (case.keep[name] if name else case.z)[rows]
        k, labels = int(z.max()) + 1, case.keep[name] if name else case.z
        train = parts["oracle"][labels[parts["oracle"]] >= 0]
        best = [float(z.bincount().max() / len(z))]
        for other in [case.z] if name else case.keep.values():
            seen, wanted = to_numpy(other[train]), to_numpy(labels[train])
            predicted = predict_by_rule(seen, wanted, k, to_numpy(other[rows]))
            best.append(float((predicted == to_numpy(z)).mean()))
        exam[kind, name] = rows, hits(probe, case.h[rows], z), max(best)
    return exam


def answer_judges(layer: LayerResult) -> dict:
    """Which properties have a usable judge, the figures of the concept's best one, and the reason
    if there is none."""
    best = _best_judge(layer, "")
    others = {name: _best_judge(layer, name) for name in layer.case.keep}
    missing = [name for name, judge in others.items() if not judge.usable]
    word = "usable in part" if missing else "usable"
    if not others:
        word = "none named"
    elif len(missing) == len(others):
        word = "concept only"
    if not layer.usable:
        word = _unusable(best, layer.fewest)
    reasons = (f"{name} ({REASONS[_unusable(others[name], layer.fewest)]})" for name in missing)
    answer: dict[str, Any] = {"word": word}
    answer |= {"what": "; ".join(reasons), "control": "the best answer without states"}
    answer |= {"have": float(best.trained), "need": float(layer.fewest)}
    if not best.tested:
        return answer
    answer |= {"control_value": float(best["without states"]), "value": float(best.accuracy)}
    return answer | {"low": float(best.low), "high": float(best.high)}


def _best_judge(layer: LayerResult, name: str) -> pd.Series:
    judges = layer.judges[layer.judges.property == name]
    return judges.sort_values(["usable", "low"], na_position="first").iloc[-1]


def _unusable(judge: pd.Series, fewest: int) -> str:
    """Why a judge is not usable: a word of the question about judges."""
    if judge.trained < NEAR * fewest:
        return "too few"
    return "none" if judge.tested else "not examined"


def score_edits(
    case: Case,
    fitted: Fit,
    usable: Sequence[tuple[str, str]],
    rows: Tensor,
    kinds: Sequence[str] = KINDS,
) -> pd.DataFrame:
    """Scores of every method, kind of edit and strength on `rows`: one column each, named
    (method, kind of edit, strength, measure), measure "complete: JUDGE" or "kept: JUDGE:
    PROPERTY"."""
    x, to, columns = case.h[rows], case.target_labels(rows, fitted.seed), {}
    for (method, kind), by_strength in fitted.edits.items():
        for strength, edits in by_strength.items() if kind in kinds else ():
            edited = [edit(x, to).detach() for edit in edits]
            for judge, name in usable:
                measure = f"kept: {judge}: {name}" if name else f"complete: {judge}"
                if name:
                    scores = [_selectivity(case, fitted, judge, name, one, rows) for one in edited]
                else:
                    scores = [_completeness(case, fitted, judge, one, to, method) for one in edited]
                columns[method, kind, strength, measure] = np.mean(scores, axis=0)
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
    both = (one.double().softmax(1) for one in (after, before))
    scores[some] = to_numpy(selectivity(*both))[some]
    return scores


def choose_strengths(
    case: Case, fits: Sequence[Fit], usable: list[tuple[str, str]], methods: Sequence[str]
) -> pd.DataFrame:
    """Each method's strength, chosen on the validation items: the smallest whose score is nearly
    the best.

    The score is the *behaviour* that the edit explains beyond a random one, where rewriting the
    text moves the model's choice, else the *reliability*. Returns columns strength, reliability,
    behaviour and closeness (NaN: not measured), a row for each method."""
    means = {
        name: float(np.mean([table[name] for table in tables]))
        for score in (
            lambda one: score_edits(case, one, usable, one.valid, kinds=(ACTUAL,)),
            lambda one: score_effects(case, one, one.valid),
        )
        for tables in [[score(one).mean() for one in fits]]
        for name in tables[0].index
    }
    rows = {}
    for method in methods:
        strengths = fits[0].edits[method, ACTUAL]
        table = pd.DataFrame([_validate(means, method, s, usable) for s in strengths])
        score = table.behaviour.fillna(table.reliability)
        rows[method] = table[score >= score.max() - NEARLY].sort_values("strength").iloc[0]
    return pd.DataFrame(rows).T


def _validate(
    means: Mapping[tuple, float], method: str, strength: float, usable: list[tuple[str, str]]
) -> dict[str, float]:
    """One strength's row, from means of `score_edits` and `score_effects`, named as there."""
    edit, random = ((method, kind, strength) for kind in (ACTUAL, RANDOM))
    complete = min(means[*edit, f"complete: {judge}"] for judge, name in usable if not name)
    kept = [means[*edit, f"kept: {judge}: {name}"] for judge, name in usable if name]
    score = float(reliability(complete, min(kept))) if kept else complete
    row = {"strength": strength, "reliability": score, "behaviour": np.nan, "closeness": np.nan}
    if means.get((*edit, "way"), 0) > 0:
        row["closeness"] = 1 - means[*edit, "far"] / means[*edit, "way"]
    if means.get((*edit, "rewriting"), 0) >= LEAST_EFFECT:
        gain = means[*random, "error"] - means[*edit, "error"]
        row["behaviour"] = gain / means[*edit, "effect"]
    return row


def edit_leads(layer: LayerResult, method: str) -> pd.DataFrame:
    """Draws of each lead that counts: completeness over the whole dose curve, by each judge, and
    reliability at the chosen strength, over both controls. Columns: control, what leads."""
    draws, strengths = {}, layer.strengths(method)
    for control in CONTROLS:
        for judge in [judge for judge, name in layer.usable if not name]:
            curves = [
                np.mean(
                    [layer.edit_draws[method, kind, s, f"complete: {judge}"] for s in strengths], 0
                )
                for kind in (ACTUAL, control)
            ]
            draws[control, f"completeness by the {judge} judge"] = np.subtract(*curves)
        ends = (
            layer.reliability(method, kind, layer.strength[method]) for kind in (ACTUAL, control)
        )
        draws[control, "reliability"] = np.subtract(*ends)
    return pd.DataFrame(draws)


def answer_edits(
    layer: LayerResult, beat: Sequence[str], best: str, leads: pd.DataFrame | None
) -> dict:
    """The methods that `beat` their controls; `leads`: those of the best one, the smallest of which
    is the figure, and the reason if none beats them."""
    if leads is None:
        return {"word": "not judged", "what": "", "control": ""}
    control, measure = leads.iloc[0].idxmin()
    about = {"word": "none", "what": f"the {measure} of {best}", "control": NAMED[control]}
    if beat:
        about = {"word": "some", "what": ", ".join(beat), "control": BOTH}
    return about | estimate(leads.min(axis=1).to_numpy())


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
        complete = float(layer.completeness(best, ACTUAL, s)[0])
        word = "lost" if kept[0] < complete else "too little"
        about = {"word": word, "what": best, "control": f"{percent(least)} asked for"}
        return about | {"complete": complete, "kept": float(kept[0]), **r, "control_value": least}
    random = layer.selectivity(best, RANDOM, s)
    control = float(random[0]) if random is not None else np.nan
    about = {"word": "kept", "what": best, "control": "random edits"}
    return about | estimate_share(kept) | {"control_value": control}
