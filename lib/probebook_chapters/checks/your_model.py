"""Checks of the exercises of chapter 7, in the order of its pages."""

from __future__ import annotations

from functools import partial

import numpy as np

from probebook_chapters.planted import Planted, world
from probebook_runs.labs.expect import (
    choice,
    prediction,
    reference_solution,
    written,
)

# 01 audit

first_verdict = partial(prediction, among=["passes", "not enough data", "costs too much"])


@reference_solution(
    lambda draw: [
        (np.array([0, 1, 1]), np.array([1, 1, 0]), np.array([0, 1, 1])),
        *(tuple(draw.integers(0, 2, (3, n))) for n in (20, 50)),
    ],
    why="keep the items whose rule is wrong, then average whether the probe is right",
)
def right_against_rule(label: np.ndarray, rule: np.ndarray, probe: np.ndarray) -> float:
    """Exercise 2: how often a probe is right where a rule is wrong."""
    return float(((probe == label) & (rule != label)).sum() / (rule != label).sum())


for_the_paper = written(
    "random|control|shuffled", "interval|%", "not test|not measure|untested|other"
)

# 02 can the audit be trusted

false_alarms = partial(prediction, among=(0, 100))


@reference_solution(
    lambda draw: [
        (np.array([0.0, 1.0]), np.array([1.0, 3.0]), np.array([0.5, 0.5])),
        *(
            tuple(np.sort(draw.random((3, n)), 0)[[0, 2, 1]] + np.array([[0], [0], [0.2]]))
            for n in (20, 50)
        ),
    ],
    why="an interval holds the truth if low ≤ truth ≤ high",
)
def coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    """Exercise 2: the share of intervals that hold the truth."""
    return float(((truth >= low) & (truth <= high)).mean())


def riddle(n: int, seed: int) -> Planted:
    """Exercise 3: a world with something wrong."""
    return world(RIDDLE, n, seed)


RIDDLE = "leaking"
what_is_wrong = partial(
    choice,
    right=RIDDLE,
    what="what is wrong",
    others={
        "absent": "then the probe would also fail on new items of groups that it has seen",
        "noisy": "then the probe would also fail on new items of groups that it has seen",
        "shortcut": "then a rule that reads the other property would give the label",
        "unused": "then the probe would be right on unseen groups; look at the readings",
        "few": "the readings of seen groups are clear; a probe of a few items could not be so sure",
    },
)
held_against = written("world|planted|real", "judge|probe|named|property", "interval|%|verdict")

# 03 monitor

percent_negated = partial(prediction, among=(0, 100))


@reference_solution(
    lambda draw: [
        (np.array([2.0, 1.0]), np.array([1.0, 0.0])),
        *((draw.normal(size=n) + 0.5, draw.normal(size=n + 3).round(1)) for n in (20, 50)),
    ],
    why="compare each score with an alarm due with each one without; a tie counts one half",
)
def area_by_pairs(alarm: np.ndarray, quiet: np.ndarray) -> float:
    """Exercise 2: the AUROC as a share of pairs."""
    pairs = (alarm[:, None] > quiet) + 0.5 * (alarm[:, None] == quiet)
    return float(pairs.mean())


@reference_solution(
    lambda draw: [(300,), (1,), *((int(n),) for n in draw.integers(10, 1000, 3))],
    why="solve (1 − f)ⁿ = .05 for f",
)
def largest_rate(n: int) -> float:
    """Exercise 3: the largest false-alarm rate after n texts without an alarm, at 95 %."""
    return 1 - 0.05 ** (1 / n)


before_it_ships = written(
    "other text|collection|elsewhere|domain",
    "control|words|length|random weights|match",
    "threshold|false alarm|rate",
)
