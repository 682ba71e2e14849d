"""Checks of the exercises of chapter 4, in the order of its pages; each takes what the student made."""
from __future__ import annotations

import numpy as np

from probebook.labs.expect import interpretation, prediction, same_function

# 01 toy world


def weak_text(found):
    """Exercise 1: any of the three signs."""
    prediction(found, ["positive", "about zero", "negative"])


def sign_after(found):
    """Exercise 2: the covariance after selection is that of W and T times that of G and T, with a minus before it."""
    cases = [(1., 1.), (1., -1.), (-1., -1.), (-2., .5), (0., 1.)]
    same_function(found, lambda u, v: -np.sign(u) * np.sign(v), cases,
                  why="c holds u Var W and v Var G; the covariance goes down by a positive multiple of their product")


def limit(found):
    """Exercise 3: the partial correlation of W and G given T, from the inverse of their covariance."""
    def partial(alpha, noise):
        w, g = alpha ** 2 / 4, alpha ** 2
        p = np.linalg.inv([[w, 0, w], [0, g, g], [w, g, w + g + noise ** 2]])
        return -p[0, 1] / (p[0, 0] * p[1, 1]) ** .5
    same_function(found, partial, [(10., 1.), (10., 10.), (1., 1.), (3., .5)], 1e-5,
                  why="λ(λ − a) goes to 1: what is left is the covariance given T, in which both variances shrink too")


def unpromised_zero(found):
    """Exercise 4: speaks of the two effects that cancel, and of the graph or faithfulness."""
    interpretation(found, ["cancel|opposite|compensat", "graph|faithful"])
