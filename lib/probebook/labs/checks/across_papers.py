"""Checks of the exercises of chapter 6, in the order of its pages; each takes what the student made."""
from __future__ import annotations

import numpy as np

from probebook.labs.checks.expect import interpretation, prediction, same_function

# 01 sweep report


def turned_round(found):
    """Exercise 1: a number of a hundred pairs of runs."""
    prediction(found, (0, 100))


def sweep_hours(found):
    """Exercise 2: a run for every layer of every model and every seed."""
    def wanted(layers, seeds, seconds, workers):
        runs = [(layer, seed) for size in layers for layer in range(size) for seed in range(seeds)]
        return len(runs) * seconds / workers / 3600

    same_function(found, wanted, [([12, 12, 6], 5, 60, 8), ([3], 1, 3600, 1), ([1, 2, 3], 2, 30, 4)],
                  why="runs = all layers of all models, times the seeds; 3600 seconds are an hour")


def by_chance(found):
    """Exercise 3: shares of the directions of each kind among all that are left when the mean is taken out."""
    def wanted(places, methods, seeds):
        size = places * methods * seeds
        means = {kind: _averaging(places, methods, seeds, kind) for kind in ("", "m", "p", "pm")}
        trace = {kind: np.trace(one) for kind, one in means.items()}
        a, b = trace["m"] - trace[""], trace["p"] - trace[""]
        between = trace["pm"] - trace[""]
        return np.array([a, b, between - a - b, size - trace["pm"]]) / (size - trace[""])

    cases = [(2, 3, 2), (4, 3, 3), (5, 2, 1)]
    same_function(found, wanted, cases,
                  why="[method, place, method × place, within]: how many numbers of a kind are free, of all that are")


def _averaging(places, methods, seeds, kept):
    """The matrix that replaces each value by the mean over all that share its place ("p") or method ("m")."""
    parts = [np.eye(places) if "p" in kept else np.full((places, places), 1 / places),
             np.eye(methods) if "m" in kept else np.full((methods, methods), 1 / methods),
             np.full((seeds, seeds), 1 / seeds)]
    return np.kron(np.kron(parts[0], parts[1]), parts[2])


def what_to_report(found):
    """Exercise 4: speaks of doing nothing, and of seeds or places."""
    interpretation(found, ["nothing|no edit|untouched", "seed|luck|draw", "place|layer|model"])
