"""From a case to the draws of its layer: every seed is fitted, and judged on the same items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.measures.intervals import resample_seeds
from probebook_audit.case import Case
from probebook_audit.fitting import ACTUAL, Fit, fit, of_others
from probebook_audit.layer import Layer
from probebook_audit.questions import behaviour, counterfactual, edits, judges, readable

LEVEL = 0.05  # of every family of comparisons


def check_draws(layers: int, methods: int, draws: int) -> None:
    """UserError if the bootstrap has too few draws for as many comparisons (Holm's correction)."""
    needed = math.ceil(2 * max(2, methods) * layers / LEVEL) - 1
    if draws < needed:
        raise UserError(
            f"{methods} methods at {layers} layers are so many comparisons that they "
            f"need {needed:,} draws at least: -p draws={needed}"
        )


def measure(
    case: Case,
    seeds: int,
    methods: Sequence[str],
    doses: Sequence[float],
    ranks: Sequence[int],
    fewest: int = 300,
    draws: int = 2000,
) -> Layer:
    """Fit and judge everything at one layer. Every seed is judged on the same test items.

    `fewest`: uncorrelated training items that a judge needs; `draws`: of the bootstrap."""
    fits = [
        fit(case, seed, methods, doses, ranks, others)
        for seed, others in enumerate(of_others(case, seeds))
    ]
    groups = pd.Series(case.group[to_numpy(case.test)])
    readings = [readable.reading(case, one) for one in fits]
    reading = resample_seeds(readings, groups, draws)
    tasks = [readable.control_task(case, seed) for seed in range(seeds)]
    control = None
    if all(task is not None for task in tasks):
        asked = [task.dropna() for task in tasks if task is not None]
        rows = sorted(set.intersection(*(set(one.index) for one in asked)))
        control = resample_seeds(
            [one.loc[rows].reset_index(drop=True) for one in asked],
            pd.Series(case.group[rows]),
            draws,
        )
    table = judges.examine(case, fits, fewest, draws)
    able = table[table.usable.astype(bool)]
    of_concept = set(able.judge[able.property == ""])
    usable = [
        (row.judge, row.property)
        for row in able.itertuples()
        if row.judge in of_concept or row.property
    ]
    if not of_concept:
        usable = []
    scores = beyond = pd.DataFrame()
    strength: dict[str, float] = {}
    valid: dict[str, float] = {}
    items = [one.add_prefix("probe|") for one in readings]
    if usable:
        strength, valid = edits.choose(case, fits, usable, methods)
        tables = [edits.judged(case, one, usable, case.test) for one in fits]
        scores = resample_seeds(tables, groups, draws)
        after = [consequences(case, one, strength) for one in fits]
        if after[0].shape[1]:
            some = [column for column in after[0] if after[0][column].notna().any()]
            beyond = resample_seeds([one[some] for one in after], groups, draws)
        items = [_of_items(*both, strength) for both in zip(items, tables, after)]
    return Layer(
        case,
        fits,
        readings,
        reading,
        control,
        table,
        usable,
        scores,
        beyond,
        strength,
        valid,
        sum(items[1:], items[0]) / seeds,
        fewest,
    )


def _of_items(
    read: pd.DataFrame, scored: pd.DataFrame, after: pd.DataFrame, strength: Mapping[str, float]
) -> pd.DataFrame:
    """One seed's scores of the edits themselves at their strength, with those of the probes."""
    found = {name: read[name] for name in read}
    for table in (scored, after):
        for method, kind, s, what in table:
            if kind == ACTUAL and s == strength[method]:
                found[f"edit|{method}|{what}"] = table[method, kind, s, what]
    return pd.DataFrame(found)


def consequences(case: Case, fitted: Fit, strengths: Mapping[str, float]) -> pd.DataFrame:
    """What edits at one strength do beyond the probes, on the test items; columns as in `judged`.

    "far": distance to the rewritten text's state, "way": that of the unedited state. "error": of
    the edit's effect on the model's probabilities, "effect": length of rewriting's effect;
    "follows": the model chooses as for the rewritten text; "moved": total variation by the edit,
    "rewriting": by rewriting the text."""
    rows = case.test
    x, to = case.h[rows], case.wanted(rows, fitted.seed)
    before = None if case.probs is None else case.probs(x, rows)
    columns = {}
    for (method, kind), by_strength in fitted.edits.items():
        strength = strengths[method]
        found = [
            _consequences(case, edit(x, to).detach(), before) for edit in by_strength[strength]
        ]
        for what in found[0]:
            columns[method, kind, strength, what] = np.mean([one[what] for one in found], axis=0)
    return pd.DataFrame(columns)


def _consequences(case: Case, edited: Tensor, before: Tensor | None) -> dict[str, np.ndarray]:
    """The scores of `consequences` for one edit's states of the test items."""
    return counterfactual.distances(case, edited) | (
        {} if before is None else behaviour.effects(case, edited, before)
    )
