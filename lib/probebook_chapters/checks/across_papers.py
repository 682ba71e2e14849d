"""Checks of the exercises of chapter 6, in the order of its pages."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.stats import binom, kendalltau

from probebook_runs.labs.expect import prediction, reference_solution, written

# 01 sweep report

reversals = partial(prediction, among=(0, 100))


@reference_solution(
    lambda draw: [
        ([12, 12, 6], 5, 60, 8),
        ([3], 1, 3600, 1),
        ([1, 2, 3], 2, 30, 4),
        (draw.integers(1, 30, 4).tolist(), *draw.integers(1, 90, 3).tolist()),
    ],
    why="runs = all layers of all models, times the seeds; 3600 seconds are an hour",
)
def sweep_hours(layers: list[int], seeds: int, seconds: float, workers: int) -> float:
    """Exercise 2: hours of a sweep with one run for every layer of every model and every seed."""
    runs = [(layer, seed) for size in layers for layer in range(size) for seed in range(seeds)]
    return len(runs) * seconds / workers / 3600


@reference_solution(
    lambda draw: [(2, 3, 2), (4, 3, 3), (5, 2, 1), tuple(draw.integers(2, 8, 3).tolist())],
    why="[method, place, method × place, within]: how many numbers of a kind are free, of all "
    "that are",
)
def shares_by_luck(places: int, methods: int, seeds: int) -> np.ndarray:
    """Exercise 3: each kind's share of the directions that are left without the overall mean."""
    size = places * methods * seeds
    means = {kind: _averaging(places, methods, seeds, kind) for kind in ("", "m", "p", "pm")}
    trace = {kind: np.trace(matrix) for kind, matrix in means.items()}
    method, place = trace["m"] - trace[""], trace["p"] - trace[""]
    between = trace["pm"] - trace[""]
    within = size - trace["pm"]
    return np.array([method, place, between - method - place, within]) / (size - trace[""])


def _averaging(places: int, methods: int, seeds: int, shared: str) -> np.ndarray:
    """The matrix that replaces each value by the mean of all with its place ("p"), method ("m")."""
    by_place = np.eye(places) if "p" in shared else np.full((places, places), 1 / places)
    by_method = np.eye(methods) if "m" in shared else np.full((methods, methods), 1 / methods)
    return np.kron(np.kron(by_place, by_method), np.full((seeds, seeds), 1 / seeds))


what_to_report = written("nothing|no edit|untouched", "seed|luck|draw", "place|layer|model")

# 02 every yardstick

least_explained = partial(prediction, among=["agreement", "reviews", "biographies", "stories"])


@reference_solution(
    lambda draw: [tuple(draw.dirichlet(np.ones(k), (2, n))) for n, k in ((1, 2), (7, 4), (20, 5))],
    why="half of the summed absolute differences of each text, then the mean over the texts",
)
def kept(before: np.ndarray, after: np.ndarray) -> float:
    """Exercise 2: the mass that two distributions share, mean over the texts."""
    return float(np.minimum(before, after).sum(1).mean())


@reference_solution(
    lambda draw: [(draw.normal(size=(n, d)), draw.normal(size=d)) for n, d in ((1, 2), (5, 3))],
    why="the direction with length 1, times the length of each row of moves",
)
def matched(moves: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Exercise 3: moves along a direction, as long as others."""
    lengths = np.sqrt((moves**2).sum(1) / (direction**2).sum())
    return np.outer(lengths, direction)


what_to_ask = written("random|control", "close|state|distance", "kept|stay|leave|other")

# 03 layers and architectures

where_it_is_read = partial(prediction, among=["subject", "blank"])


@reference_solution(
    lambda draw: [
        ([1, 2, 3], [1, 3, 2]),
        tuple(draw.normal(size=(2, 4)).tolist()),
        tuple(draw.normal(size=(2, 7)).tolist()),
    ],
    why="of all pairs, those whose differences have one sign in both lists",
)
def ordered_alike(a: list[float], b: list[float]) -> float:
    """Exercise 2: the share of pairs that two lists put in the same order."""
    return float((kendalltau(a, b).statistic + 1) / 2)


@reference_solution(
    lambda draw: [
        (0, 3, True),
        (2, 3, True),
        (1, 3, False),
        (int(draw.integers(0, 5)), int(draw.integers(5, 9)), True),
    ],
    why="all tokens, or from left to right those from the edited one on",
)
def reached(i: int, n: int, left_to_right: bool) -> list[int]:
    """Exercise 3: the tokens that attend to token i."""
    attends = np.tril(np.ones((n, n))) if left_to_right else np.ones((n, n))
    return np.flatnonzero(attends[:, i]).tolist()


what_success_means = written("true state|rewritten|true one", "far|distance|close|length|random")

# 04 small and large

pairs_foretold = partial(prediction, among=(0, 100))


@reference_solution(
    lambda draw: [
        ([1, -1, 0, 1], [1, 1, -1, 0]),
        ([0, 0], [1, -1]),
        tuple(draw.integers(-1, 2, (2, 30)).tolist()),
    ],
    why="only what the larger model decides counts: the same sign, 0, the other sign",
)
def forecast(small: list[int], large: list[int]) -> np.ndarray:
    """Exercise 2: numbers that were foretold, left open, misled, where the larger model decides."""
    said = [a * b for a, b in zip(small, large) if b]
    return np.array([said.count(sign) for sign in (1, 0, -1)])


@reference_solution(
    lambda draw: [(3, 3), (0, 5), (8, 10), (int(draw.integers(10, 20)), 20)],
    why="the binomial law with one half: its terms from k to n",
)
def by_coin(k: int, n: int) -> float:
    """Exercise 3: the chance that a coin is right at least k times of n."""
    return float(binom.sf(k - 1, n, 0.5))


what_a_small_model_shows = written(
    "larger|real model|another model|size", "open|undecided|control|seed"
)

# 05 logit lens

percent_half_way = partial(prediction, among=(0, 100))


@reference_solution(
    lambda draw: [
        (draw.normal(size=(n, d)), draw.normal(size=d), draw.normal(size=(2, d)))
        for n, d in ((1, 2), (6, 4), (9, 3))
    ],
    why="divide each state by its root mean square, multiply by the weights, then by both rows",
)
def by_the_lens(h: np.ndarray, weight: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Exercise 2: which of two words the lens prefers, for a model with an RMS norm."""
    normed = h / np.linalg.norm(h, axis=1, keepdims=True) * h.shape[1] ** 0.5 * weight
    return (normed @ (words[1] - words[0]) > 0).astype(int)


what_the_lens_shows = written("translat|map|affine", "use|exchang|edit|true state", "probe")
