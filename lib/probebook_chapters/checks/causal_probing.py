"""Checks of the exercises of chapter 1, in the order of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import permutations, product

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from torch import Tensor

from probebook.base import to_numpy
from probebook.measures.counterfactual import relative_distance
from probebook.measures.reliability import completeness, reliability
from probebook_runs.labs.expect import (
    Answer,
    Cases,
    NotRight,
    close,
    entries,
    given,
    numbers,
    prediction,
    reference_solution,
    tick,
    written,
)

# 01 agreement and embeddings

incongruent_share = partial(prediction, among=(0, 1))


@reference_solution(
    lambda draw: [
        (np.array([0, 0, 1, 1]), np.array([-1, 1, 1, 0])),
        (np.array([0, 0, 0, 1, 1]), np.array([-1, -1, 1, 0, -1])),
        (np.array([0, 1]), np.array([1, 0])),
        (draw.integers(0, 2, 50), draw.integers(-1, 2, 50)),
    ],
    why="without an attractor (-1) the subject is the nearest noun",
)
def nearest_accuracy(zc: np.ndarray, ze: np.ndarray) -> float:
    """Exercise 2: right without an attractor, or where it has the subject's number."""
    return float(np.mean([c == (c if e < 0 else e) for c, e in zip(zc, ze)]))


def majority_ze(answer: Answer, ze: ArrayLike, test: ArrayLike) -> None:
    """Exercise 3: over the test sentences that have an attractor."""
    labels = pd.Series(np.asarray(ze)[np.asarray(test)])
    close(
        answer,
        labels[labels >= 0].value_counts(normalize=True).max(),
        "majority_ze",
        why="count test sentences only, and of these only the ones with an attractor",
    )


read_or_used = written("attractor", "verb|choose|choice|flip")

# 02 oracle probes

leaning_accuracy = partial(prediction, among=(0, 1))


@reference_solution(
    lambda draw: [
        (np.array(counts),)
        for counts in (
            [[30, 10], [10, 30]],
            [[70, 20], [6, 4]],
            [[8, 4], [4, 2]],
            [[50, 20, 10], [5, 9, 6]],
            draw.integers(1, 60, (2, 3)),
        )
    ],
    why="every row has the shares of Z_e among all sentences; its scarcest cell says how long it "
    "is",
)
def keep_shares_of_ze(counts: np.ndarray) -> np.ndarray:
    """Exercise 2: each row in the proportions of Z_e, filled up to its scarcest cell."""
    shares = counts.sum(0) / counts.sum()
    return np.array([min(row / shares) * shares for row in counts])


def gap_closed(answer: Answer, table2: pd.DataFrame) -> None:
    """Exercise 3: of what the majority gets wrong, the share that the probe gets right."""
    given(answer, "gap_closed")
    wanted = 1 - (1 - table2["here"]) / (1 - table2["majority here"])
    close(
        answer,
        wanted,
        "gap_closed",
        why="from the majority to the probe, divided by from the majority to 1",
    )


wrong_judge = written("correlat|congruent", "subject")

# 03 first interventions

winner = partial(prediction, among=["INLP", "AlterRep", "FGSM"])


@reference_solution(
    lambda draw: [
        (np.array(p),)
        for p in ([0.9, 0.1], [0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0], draw.dirichlet(np.ones(4)))
    ],
    why="the farthest answer puts all on the least likely label",
)
def largest_distance(p: np.ndarray) -> float:
    """Exercise 2: m of equation 3 is 1 - min p."""
    return 1 - p.min()


@reference_solution(
    lambda draw: [(alpha, torch.from_numpy(draw.normal(size=8))) for alpha in (1.0, 4.0)],
    why="|h·w| w holds the length of w twice",
)
def raw_alpha(alpha: float, w: Tensor) -> Tensor:
    """Exercise 3: the raw step holds the squared length of w once too often."""
    return alpha / (w @ w)


incomplete_erasure = written("oracle|judge|perceptron|nonlinear|non-linear", "uniform|shares")

# 04 nullifying

silenced_probes = partial(prediction, among=["neither", "linear", "perceptron", "both"])


@reference_solution(
    lambda draw: [(0.6,), (1.0,), (0.0,), (0.95,), (draw.random(),)],
    why="what is left of δ is at a right angle to b",
)
def gap_left(c: float) -> float:
    """Exercise 2: the length of the part of δ that is at a right angle to b."""
    delta, b = np.array([1.0, 0.0]), np.array([c, (1 - c * c) ** 0.5])
    return float(np.linalg.norm(delta - b * (b @ delta)))


def equal_means(singulars: Answer, plurals: Answer) -> None:
    """Exercise 3: the class means are equal, and no state is in both classes."""
    classes = []
    for name, rows in (("singulars", singulars), ("plurals", plurals)):
        points = numbers(rows, name, "rows of numbers, as in [[0., 1.], [2., 3.]]")
        if points.ndim != 2 or not 0 < points.size <= 10_000 or not np.isfinite(points).all():
            raise NotRight(
                f"{name} has shape {points.shape}: give one or more rows of finite "
                "numbers, [m, d], 10,000 in all at most"
            )
        classes.append(points)
    a, b = classes
    if a.shape[1] != b.shape[1]:
        raise NotRight(
            f"singulars have {a.shape[1]} coordinates, plurals {b.shape[1]}: give both the same"
        )
    if not np.allclose(a.mean(0), b.mean(0), atol=1e-6):
        means = f"{a.mean(0).round(3)} and {b.mean(0).round(3)}"
        raise NotRight(f"the class means are {means}: where they differ, LEACE moves the states")
    if (shared := np.abs(a[:, None] - b).max(2).min(1) < 1e-6).any():
        raise NotRight(
            f"{a[shared][0]} is a state of both classes: nobody can read the number there"
        )
    tick("equal means, and every state still tells its class")


gone_for_whom = written("linear", "perceptron|oracle|judge")

# 05 counterfactual

most_selective_edit = partial(
    prediction, among=["FGSM", "PGD", "AutoAttack", "AlterRep, unit", "AlterRep, raw"]
)


@reference_solution(
    lambda draw: [
        (np.array([7.0, -1.0, 0.0]), np.array([3.0, -4.0])),
        (draw.normal(size=6), draw.normal(size=5)),
    ],
    why="each coordinate moves by ε, so the log-odds by ε times the sum of |w|; no radius is "
    "below 0",
)
def smallest_radius(against: np.ndarray, w: np.ndarray) -> list[float]:
    """Exercise 2: the log-odds over the L1 length of w; 0 where the probe already agrees."""
    return [max(a, 0) / sum(map(abs, w)) for a in against]


@reference_solution(
    lambda draw: [
        (np.array([[3.0, -4.0]]), np.array([1.0]), 1.0),
        (np.array([[3.0, -4.0]]), np.array([-1.0]), 0.0),
        (draw.normal(size=(4, 3)), np.array([1.0, -1.0, -1.0, 1.0]), 2.5),
    ],
    why="a component on the wrong side moves by 1 + α of itself, one on the right side by |α − 1|",
)
def moved_by(along: np.ndarray, sides: np.ndarray, alpha: float) -> np.ndarray:
    """Exercise 3: the distance between the coordinates before and after, row by row."""
    after = alpha * np.abs(along) * sides[:, None]
    return np.linalg.norm(after - along, axis=1)


transfer = written("oracle|judge|another probe|other probe", "attack|own probe|its probe")

# 06 reliability

erasure_over_rank = partial(prediction, among=["rises", "stays", "falls"])


@reference_solution(
    lambda draw: [(0.4,), (1.0,), (0.05,), (0.0,), (draw.random(),)],
    why="R grows with C, so put C at its largest",
)
def best_possible(s: float) -> float:
    """Exercise 2: the harmonic mean at full completeness."""
    return float(reliability(np.linspace(0, 1, 11), s).max())


def optimism(answer: Answer, curves: pd.DataFrame, table: pd.DataFrame) -> None:
    """Exercise 3: best score on the test sentences minus that of the strength chosen on others."""
    ids = ["oracle", "method"]
    wanted = curves.groupby(ids).reliability.max() - table.set_index(ids).reliability
    answer = entries(answer, wanted, "optimism", each="pair of oracle and method")
    close(answer, wanted, "optimism", why="chosen on the test sentences minus chosen on others")


def lead(answer: Answer, draws: Mapping[tuple[str, str], np.ndarray]) -> None:
    """Exercise 4: percentiles of the paired difference over the resamples."""
    paired = (draws["mlp", "PGD"] - draws["mlp", "FGSM"])[2, 1:]
    close(
        answer,
        np.quantile(paired, [0.025, 0.975]),
        "lead",
        why="subtract draw by draw, and leave out the first column, which is no resample",
    )


verdicts = written("sentence", "model|oracle|judge|probe|seed")

# 07 layers

completeness_at_last_layer = partial(prediction, among=(0, 1))


@reference_solution(
    lambda draw: [(0.7,), (0.5,), (1.0,), (0.2,), (draw.integers(1001) / 1000,)],
    why="a singular sentence wants plural, and a share q is singular",
)
def do_nothing(q: float) -> float:
    """Exercise 2: the score of doing nothing, by an oracle that answers with the shares."""
    singular = round(1000 * q)
    to = [1] * singular + [0] * (1000 - singular)
    return float(completeness([[q, 1 - q]] * 1000, to=to).mean())


def survived(answer: Answer, results: pd.DataFrame) -> None:
    """Exercise 3: completeness at the last layer over that at the edited one, learned edits."""
    learned = results[results.directions == "learned"]
    made = learned.set_index(["judged", "method", "layer"]).completeness
    wanted = (made["at the last layer"] / made["at its layer"]).sort_index()
    answer = entries(answer, wanted, "survived", each="pair of method and layer")
    close(answer, wanted, "survived", why="learned edits alone: what arrived ÷ what was made")


opinion = written("oracle|judge|probe", "subject|position|attention|block")

# 08 true counterfactual

truth_selectivity = partial(prediction, among=(0, 1))


@reference_solution(
    lambda draw: [
        (1.0, 0.0),
        (0.5, 0.0),
        (1.0, 2.0),
        (0.0, 0.0),
        (1.5, 0.5),
        tuple(2 * draw.random(2)),
    ],
    why="what is left of the way and the sideways move are at a right angle",
)
def distance(share: float, sideways: float) -> float:
    """Exercise 2: the library's relative distance, of states that are made to order."""
    h, h_true = np.array([[1.0, 2.0, 2.0]]), np.array([[1.0, 2.0, 5.0]])
    return float(relative_distance(h + [[0.0, 3 * sideways, 3 * share]], h, h_true)[0])


@reference_solution(
    lambda draw: [
        (np.array([[0.0, 1.0], [4.0, 5.0]]), np.array([[2.0, 1.0], [0.0, 5.0]]), np.array([0, 1])),
        (draw.normal(size=(7, 3)), draw.normal(size=(7, 3)), np.array([0, 0, 1, 0, 1, 1, 0])),
    ],
    why="a plural sentence goes the other way: turn its sign, or the ways cancel",
)
def one_vector(h: np.ndarray, h_true: np.ndarray, zc: np.ndarray) -> np.ndarray:
    """Exercise 3: the mean way from singular to plural; plural sentences count reversed."""
    return np.mean([(b - a) if c == 0 else (a - b) for a, b, c in zip(h, h_true, zc)], axis=0)


@reference_solution(
    lambda draw: [(4,), (3,), (int(draw.integers(5, 9)),)],
    why="of all orders of m methods two have ρ = ±1",
)
def by_chance(m: int) -> float:
    """Exercise 4: the share of all orders that are the given one or its reverse."""
    orders = list(permutations(range(m)))
    return sum(o == orders[0] or o == orders[-1] for o in orders) / len(orders)


calibration = written("truth|true|flip", "oracle|probe|judge")

# 09 audit

complete_at_a_tenth = partial(prediction, among=["unit", "raw", "both", "neither"])


@reference_solution(
    lambda draw: [(0.9,), (0.604,), (1.0,), (0.0,), (draw.random(),)],
    tolerance=1e-3,
    why="C = 1 − 2 (q − .5) for q of .5 or more",
)
def share_for(c: float) -> float:
    """Exercise 2: the share at which the library gives the ignorant oracle this completeness."""
    shares = np.linspace(0.5, 1, 1001)
    return shares[np.abs(to_numpy(completeness(np.c_[shares, 1 - shares])) - c).argmin()]


def _scores(draw: np.random.Generator) -> Cases:
    pairs = product((1.0, 0.6, 0.35, draw.uniform(0.3, 1)), (0.784, draw.uniform(0.2, 1)))
    return [(float(reliability(c, s)), c) for c, s in pairs]


@reference_solution(_scores, tolerance=1e-5, why="solve r = 2cs/(c + s) for s")
def selectivity_for(r: float, c: float) -> float:
    """Exercise 3: the selectivity from which equation 4 gives this reliability."""
    return brentq(lambda s: float(reliability(c, s)) - r, 0, 2)


def per_sentence(answer: Answer, alter: pd.Series) -> None:
    """Exercise 4: the mean selectivity, and the mean R at C = 1, are the printed ones."""
    s = numbers(answer, "per_sentence", "an array of selectivities")
    if s.ndim != 1 or not s.size or not ((s >= 0) & (s <= 1)).all():
        raise NotRight("per_sentence should be a row of selectivities, each from 0 to 1")
    close(s.mean(), alter.selectivity, "the mean of per_sentence", tolerance=1e-3)
    close(
        np.mean(2 * s / (1 + s)),
        alter.reliability,
        "the mean of R over per_sentence",
        tolerance=1e-3,
        why="equal selectivities give the largest mean of R, selectivities of 0 and 1 the smallest",
    )


what_stands = written("arithmetic|printed|table", "model|sentences|run|here")
