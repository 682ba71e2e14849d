"""Checks of the exercises of chapter 7, in the order of its pages."""
from __future__ import annotations

from functools import partial

import numpy as np

from probebook.labs.checks.expect import interpretation, prediction, reference_solution

# 01 audit

first_verdict = partial(prediction, among=["reliable", "not enough data", "costs too much"])


@reference_solution(
    lambda draw: [(np.array([0, 1, 1]), np.array([1, 1, 0]), np.array([0, 1, 1])),
                  *(tuple(draw.integers(0, 2, (3, n))) for n in (20, 50))],
    why="keep the items whose rule is wrong, then average whether the probe is right")
def right_against_rule(label: np.ndarray, rule: np.ndarray, probe: np.ndarray) -> float:
    """Exercise 2: how often a probe is right where a rule is wrong."""
    return float(((probe == label) & (rule != label)).sum() / (rule != label).sum())


for_the_paper = partial(interpretation, about=[
    "random|control|shuffled", "interval|%", "not test|not measure|untested|other"])
