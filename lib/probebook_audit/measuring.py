"""From a case to the draws of its layer: every seed is fitted, and judged on the same items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from probebook.base import UserError, to_numpy
from probebook.measures.intervals import resample_seeds
from probebook_audit.case import Case
from probebook_audit.fitting import ACTUAL, fit, of_others
from probebook_audit.layer import LayerResult
from probebook_audit.questions import edit_scores, readability, rewriting, shortcut

LEVEL = 0.05  # of every family of comparisons


def check_draws(comparisons: int, draws: int) -> None:
    """UserError if the bootstrap has too few draws for a family of comparisons (Holm)."""
    needed = math.ceil(2 * comparisons / LEVEL) - 1
    if draws < needed:
        raise UserError(
            f"methods at layers, or sources of the label, are {comparisons} comparisons, which "
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
) -> LayerResult:
    """Fit and judge everything at one layer. Every seed is judged on the same test items.

    `fewest`: uncorrelated training items that a judge needs; `draws`: of the bootstrap."""
    fits = [
        fit(case, seed, methods, doses, ranks, others)
        for seed, others in enumerate(of_others(case, seeds))
    ]
    groups = pd.Series(case.group[to_numpy(case.test)])
    rules = shortcut.rule_hits(case, fits)
    hits = [readability.reader_hits(case, *both) for both in zip(fits, rules)]
    z = to_numpy(case.z[case.test])
    usual = (z == np.bincount(z).argmax()).astype(float)  # the best answer that is always the same
    commonest = pd.Series(usual)
    told = [rule.apply(lambda hit: hit.fillna(commonest)).assign(usual=usual) for rule in rules]
    rule_draws = resample_seeds(told, groups, draws)
    reader_draws = resample_seeds(hits, groups, draws)
    tasks = [readability.control_task_hits(case, seed) for seed in range(seeds)]
    control_draws = None
    if all(task is not None for task in tasks):
        asked = [task.dropna() for task in tasks if task is not None]
        rows = sorted(set.intersection(*(set(one.index) for one in asked)))
        shared = [one.loc[rows].reset_index(drop=True) for one in asked]
        control_draws = resample_seeds(shared, pd.Series(case.group[rows]), draws)
    judges = edit_scores.judge_table(case, fits, fewest, draws)
    able = judges[judges.usable.astype(bool)]
    of_concept = set(able.judge[able.property == ""])
    pairs = zip(able.judge, able.property) if of_concept else ()
    usable = [(judge, name) for judge, name in pairs if judge in of_concept or name]
    edit_draws = effect_draws = validation = pd.DataFrame()
    notes: list[str] = []
    items = [one.add_prefix("probe|") for one in hits]
    if usable:
        validation = edit_scores.choose_strengths(case, fits, usable, methods)
        strength = dict(validation.strength)
        scores = [edit_scores.score_edits(case, one, usable, case.test) for one in fits]
        edit_draws = resample_seeds(scores, groups, draws)
        effects = [rewriting.score_effects(case, one, case.test, strength) for one in fits]
        if effects[0].shape[1]:
            some = [column for column in effects[0] if effects[0][column].notna().any()]
            effect_draws = resample_seeds([one[some] for one in effects], groups, draws)
            chosen = [effects[0][column] for column in some if column[-1] == "moved"]
            unknown = int(chosen[0].isna().sum()) if chosen else 0
            of = f"{unknown:,} of {len(z):,} test items"
            note = f"Left out of the model's choice, without words of one token: {of}."
            notes += [note] * (unknown > 0)
        items = [_item_scores(*tables, strength) for tables in zip(items, scores, effects)]
    return LayerResult(
        case,
        fits,
        hits,
        rules,
        reader_draws,
        rule_draws,
        control_draws,
        judges,
        usable,
        edit_draws,
        effect_draws,
        validation,
        sum(items[1:], items[0]) / seeds,
        fewest,
        tuple(notes),
    )


def _item_scores(
    hits: pd.DataFrame, scores: pd.DataFrame, effects: pd.DataFrame, strength: Mapping[str, float]
) -> pd.DataFrame:
    """One seed's scores of the edits themselves at their strength, with those of the probes."""
    found = {name: hits[name] for name in hits}
    for table in (scores, effects):
        for method, kind, s, what in table:
            if kind == ACTUAL and s == strength[method]:
                found[f"edit|{method}|{what}"] = table[method, kind, s, what]
    return pd.DataFrame(found)
