"""Checks of the exercises of chapter 2, in the order of its pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from torch import Tensor

from probebook_runs.labs.expect import (
    Answer,
    Cases,
    Function,
    close,
    draws,
    given,
    prediction,
    reference_solution,
    same_function,
    written,
)

# 01 reviews and edits

where_strangers_meet = partial(prediction, among=["many", "few", "no difference"])


def _reviews(draw: np.random.Generator) -> Cases:
    cases = [([7, 7, 7], ["a", "a", "b"], ["Positive", "Negative", "Negative"])]
    for n in (12, 30):
        review = draw.integers(0, 8, n)
        labels = draw.choice(["Negative", "Positive", "unknown"], n)
        cases.append(((review % 3).tolist(), review.tolist(), labels.tolist()))
    return cases


@reference_solution(
    _reviews,
    why="a pair has one number, two reviews and two labels, and is counted once, in either order",
)
def strangers_in(number: list[int], review: list, label: list[str]) -> float:
    """Exercise 2: pairs of one number with different labels, without those of one review."""
    return _differing(number, label) - _differing(list(zip(number, review)), label)


def _differing(keys: list, labels: list[str]) -> float:
    """Unordered pairs of one key with different labels: all its pairs less those of one label."""
    both = Counter(zip(keys, labels))
    return (sum(n**2 for n in Counter(keys).values()) - sum(n**2 for n in both.values())) / 2


def effect_of_one_review(answer: Function, mixture: pd.DataFrame, weight: pd.Series) -> None:
    """Exercise 3: all pairs' mean mixes true pairs and strangers by their shares of the pairs."""
    cases = [
        (1.5, 0.5, 1.0),
        (1.2, 0.4, 0.9),
        (-0.6, 0.25, -0.3),
        tuple(draws().uniform(-0.9, 0.9, 3)),
    ]
    same_function(
        answer,
        lambda ate, share, strange: (ate - share * strange) / (1 - share),
        cases,
        why="the published effect is a mean of two means, weighted by their shares of the pairs",
    )
    columns = ["as published", "one review", "strangers", "share"]
    rows = mixture.assign(share=weight).dropna(subset=columns).query("share < 1")
    close(
        answer(rows["as published"], rows.share, rows.strangers),
        rows["one review"],
        "the effect in pairs of one review, from the other columns of the table",
    )


pull_towards_zero = written("stranger", "original|head start")

# 02 black boxes


def smaller_effects(answer: Answer, n: int) -> None:
    """Exercise 1: a number of the changes."""
    prediction(answer, (0, n))


@reference_solution(
    lambda draw: [
        (np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0])),
        (np.array([2, 1, 0, 2]), np.array([2, 1, 0, 1])),
        (draw.integers(0, 5, 60), draw.integers(0, 5, 60)),
    ],
    why="every class counts alike, also one that is never named: its F1 is 0",
)
def mean_f1(z: np.ndarray, guess: np.ndarray) -> float:
    """Exercise 2: macro-F1 from precision and recall."""
    scores = []
    for c in np.union1d(z, guess):
        hits = int(np.sum((z == c) & (guess == c)))
        precision, recall = hits / max(np.sum(guess == c), 1), hits / max(np.sum(z == c), 1)
        scores.append(2 * precision * recall / (precision + recall) if hits else 0)
    return float(np.mean(scores))


@reference_solution(
    lambda draw: [
        (np.array([0.1, 0.2, 0.4, 0.2, 0.1]), np.array([0.0, 0.1, 0.4, 0.3, 0.2])),
        *map(tuple, draw.dirichlet(np.ones(5), (3, 2))),
    ],
    why="[most probable star after less before, expected stars after less before], with stars "
    "1 … 5",
)
def both_effects(p: np.ndarray, p_new: np.ndarray) -> list[float]:
    """Exercise 3: the change of the most probable star, and of the expected stars."""
    of_label = float(p_new.argmax()) - float(p.argmax())
    return [of_label, (4 - p_new.cumsum()[:4].sum()) - (4 - p.cumsum()[:4].sum())]


@reference_solution(
    lambda draw: [(0.0,), (0.4,), (0.8,), (1.0,), (draw.random(),)],
    why="the gaps are |s - w| and |s - 1| times the effect: for which s are they equal?",
)
def break_even(w: float) -> float:
    """Exercise 4: the classifier's effect lies midway between the other two."""
    return float(np.mean([w, 1.0]))


stand_in = written("pair", "mean|average", "reader")

# 03 explainers

worse_than_silence = smaller_effects  # a number of the explainers


def _outcomes(draw: np.random.Generator) -> Cases:
    y, z = np.array([2.0, 4, 4, 4, 1, 1, 1, 3]), np.array([0, 1, 1, 1, 0, 0, 0, 1])
    cases: list[tuple] = [(y, z, np.repeat([0, 1], 4))]
    for n in (40, 90):
        w, z = draw.integers(0, 3, n), draw.integers(0, 2, n)
        w[:6], z[:6] = [0, 0, 1, 1, 2, 2], [0, 1] * 3
        cases.append((z * (1.0 + w) - 2 * w + draw.normal(size=n), z, w))
    return cases


@reference_solution(
    _outcomes,
    why="a difference of means in each stratum of w, weighted by the stratum's share of all rows",
)
def adjusted(y: np.ndarray, z: np.ndarray, w: np.ndarray) -> float:
    """Exercise 2: weighting by the inverse share of z in each stratum gives the same."""
    share = np.array([z[w == value].mean() for value in w])
    return float(np.mean(y * z / share) - np.mean(y * (1 - z) / (1 - share)))


def cost_of_drawing(answer: Function) -> None:
    """Exercise 3: mean squared error of one draw less that of the mean of all, for any truth."""
    draw = draws()
    cases = [
        (np.array([[0.2, -0.2], [0.4, -0.4]]),),
        (draw.normal(size=(6, 5)),),
        (np.ones((3, 4)),),
    ]

    def wanted(estimates: np.ndarray) -> float:
        truth = draw.normal(size=estimates.shape[1])
        of_mean = ((estimates.mean(0) - truth) ** 2).sum()
        return ((estimates - truth) ** 2).sum(1).mean() - of_mean

    same_function(
        answer,
        wanted,
        cases,
        why="the classes' variances over the draws, summed; divide by m, not by m - 1",
    )


@reference_solution(
    lambda draw: [
        (np.array([1.0, 0, 0]), np.array([0.5, 0.25, 0.25])),
        *((draw.normal(size=k), draw.dirichlet(np.ones(k))) for k in (2, 5)),
    ],
    why="a softmax rises with its logit and falls with every other: the entries must sum to 0",
)
def slope_of_probs(slopes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Exercise 4: the effect of a small step along the slopes, from logits that give p."""
    up, down = (p * np.exp(step * slopes) for step in (1e-5, -1e-5))
    return (up / up.sum() - down / down.sum()) / 2e-5


without_direction = written("direction|goal|wanted", "TCAV|INLP|CausaLM|ConceptSHAP")

# 04 scoreboard

better_than_nothing = smaller_effects  # a number of the explainers


def three_answers(answer: Answer) -> None:
    """Exercise 2: rows zero, double, reversed; columns cosine, L2, normdiff."""
    length = 0.32**0.5
    close(
        answer,
        [[1, length, length], [0, length, length], [2, 2 * length, 0]],
        "the table of errors",
        tolerance=0.006,
        why="rows: zero, double, reversed; columns: cosine, L2, normdiff; the cosine error of a "
        "zero vector is 1",
    )


@reference_solution(
    lambda draw: [
        (np.array([[1.0, -1.0]]), np.array([[2.0, -2.0]])),
        (draw.normal(size=(7, 5)), draw.normal(size=(7, 5))),
    ],
    why="set the derivative of the sum of |e - t ê|² by t to 0",
)
def best_scale(true: np.ndarray, estimated: np.ndarray) -> float:
    """Exercise 3: the minimum of the parabola through three points."""
    at = [((true - t * estimated) ** 2).sum() for t in (-1, 0, 1)]
    return (at[0] - at[2]) / (2 * (at[0] + at[2] - 2 * at[1]))


@reference_solution(
    lambda draw: [
        (np.array([0.0, 0, 3]), np.array(["a", "a", "b"]), ["a", "b"]),
        (np.array([0.0, 0, 3]), np.array(["a", "a", "b"]), ["b", "b"]),
        (draw.normal(size=20), np.repeat([*"abcd"], [2, 3, 5, 10]), [*"cabc"]),
    ],
    why="every pair of a drawn group counts, as often as the group was drawn; the mean is over "
    "pairs, not over groups",
)
def mean_of_draw(values: np.ndarray, groups: np.ndarray, drawn: list[str]) -> float:
    """Exercise 4: the mean over the pairs of the drawn groups."""
    times = Counter(drawn)
    return np.average(values, weights=[times[group] for group in groups])


survives_the_swap = written("length|norm|size", "pair", "direction|cosine")

# 05 audit

most_changed_explainer = prediction  # any of the five


def reviews_lost_to_or(answer: Answer, train: pd.DataFrame) -> None:
    """Exercise 2: the reviews with the label Negative, aspect by aspect."""
    aspects = ("food", "service", "ambiance", "noise")
    labels = train[[f"{aspect}_aspect_majority" for aspect in aspects]]
    close(
        answer,
        (labels == "Negative").sum(),
        "the reviews that the slip drops",
        why="kept by the right dictionary less kept by the wrong one, for food, service, "
        "ambiance, noise",
    )


def gradients(answer: Function, head: Callable[[Tensor], Tensor], state: Tensor) -> None:
    """Exercise 3: the gradients predict what a small step in any direction does to the outputs."""
    rows = given(answer(head, state), "class_gradients(head, h)")
    drawn = draws().normal(size=(3, len(state)))
    directions = [state.new_tensor(v) for v in drawn]
    steps = [(head(state + 1e-5 * v) - head(state - 1e-5 * v)) / 2e-5 for v in directions]
    wanted = np.array([step.detach().tolist() for step in steps])
    along = [[float((row * v).sum()) for row in rows] for v in directions]
    close(
        along,
        wanted,
        "the gradients along three random directions",
        tolerance=1e-4 * np.abs(wanted).max(),
        why="class j must have its own gradient alone, not a sum over classes",
    )


@reference_solution(
    lambda draw: [
        (5, 0.5),
        (2, 0.5),
        (5, 0.2),
        (3, 0.5),
        (4, 0.0),
        (int(draw.integers(2, 12)), draw.random()),
    ],
    why="a softmax less b has the sum 1 - k b, and the shortest vector of that sum has equal "
    "entries",
)
def least_length(k: int, less: float) -> float:
    """Exercise 4: the shortest vector with that sum has equal entries."""
    return float(np.linalg.norm(np.full(k, 1 / k - less)))


cause_of_one = written("TCAV", "direction|opposite|both orders|reverse", "slip|released|code")

# 06 known world

share_left = partial(prediction, among=(0, 2))


@reference_solution(
    lambda draw: [
        (np.array([[1.0, -1], [3.0, -3], [0, 0]]), np.array(["a", "a", "b"])),
        (draw.normal(size=(30, 5)), draw.integers(0, 4, 30)),
        (draw.normal(size=(4, 2)), np.arange(4)),
    ],
    why="one answer for each value of `known`: the mean effect of its rows; then the squared "
    "distances, summed over classes, mean over rows",
)
def left_by_best(effects: np.ndarray, known: np.ndarray) -> float:
    """Exercise 2: the mean square of the effects less that of their group means."""
    share = pd.Series(known).value_counts(normalize=True)
    explained = sum(share[key] * (effects[known == key].mean(0) ** 2).sum() for key in share.index)
    return (effects**2).sum(1).mean() - explained


@reference_solution(
    lambda draw: [
        (np.array([[0.2, -0.2], [-0.2, 0.2]]),),
        (np.array([[0.2, -0.2], [0.1, -0.1]]),),
        (draw.normal(size=(9, 5)),),
    ],
    why="|mean| on one side, mean of | | on the other; then the L2 distance",
)
def error_of_truth(effects: np.ndarray) -> float:
    """Exercise 3: twice the smaller of the positive and the negative part of each mean."""
    up, down = np.clip(effects, 0, None).mean(0), np.clip(-effects, 0, None).mean(0)
    return float(np.linalg.norm(2 * np.minimum(up, down)))


@reference_solution(
    lambda draw: [(0.0, 0.5), (1.2, 0.5), (3.0, 0.25), (0.6, 1.0), tuple(draw.uniform(0.1, 2, 2))],
    why="P(quality | label) by Bayes, then the mean mood given the quality; the two labels' mean "
    "stars are each other's negative",
)
def mood_bias(c: float, b: float) -> float:
    """Exercise 4: a sum over the eight combinations of quality, label and mood."""
    kinds = pd.DataFrame(product([-1, 1], repeat=3), columns=["quality", "label", "mood"])
    quality, others = kinds.quality.to_numpy()[:, None], kinds[["label", "mood"]].to_numpy()
    chances = 1 / (1 + np.exp(-c * quality * others))
    kinds["share"], kinds["stars"] = chances.prod(1) / 2, b * kinds.mood
    groups = kinds.groupby("label")
    means = [np.average(group.stars, weights=group.share) for _, group in groups]
    return means[1] - means[0]


better_explainer = written(
    "network|classifier|black box|model", "world|reader|exact", "ICaCE|effect"
)
