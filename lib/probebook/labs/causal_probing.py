"""Checks of the exercises of chapter 1, in the order of its pages; each takes what the student made."""
from __future__ import annotations

import numpy as np

from probebook.labs.expect import interpretation, prediction, same_function

# 03 first interventions


def winner(found):
    """Exercise 1: any of the three methods."""
    prediction(found, ["INLP", "AlterRep", "FGSM"])


def largest_distance(found):
    """Exercise 2: m of equation 3 is 1 - min p."""
    cases = [(np.array(p),) for p in ([.9, .1], [.5, .5], [.2, .3, .5], [1., 0.])]
    same_function(found, lambda p: 1 - p.min(), cases, why="the farthest answer puts all on the least likely label")


def raw_alpha(found):
    """Exercise 3: the raw step holds the squared length of w once too often."""
    draw = np.random.default_rng(0)
    cases = [(alpha, draw.normal(size=8)) for alpha in (1., 4.)]
    same_function(found, lambda alpha, w: alpha / (w @ w), cases, why="|h·w| w holds the length of w twice")


def incomplete_erasure(found):
    """Exercise 4: speaks of the oracle or its perceptron, and of the uniform goal or label shares."""
    interpretation(found, ["oracle|perceptron|nonlinear|non-linear", "uniform|shares"])
