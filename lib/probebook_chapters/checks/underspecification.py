"""Checks of the exercises of chapter 4, in the order of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from probebook.measures.specification import shares
from probebook_runs.labs.expect import (
    Answer,
    Cases,
    Function,
    NotRight,
    close,
    draws,
    entries,
    numbers,
    prediction,
    reference_solution,
    same_function,
    tick,
    written,
)

# 01 toy world

weak_text = partial(prediction, among=["positive", "about zero", "negative"])


@reference_solution(
    lambda draw: [
        (1.0, 1.0),
        (1.0, -1.0),
        (-1.0, -1.0),
        (-2.0, 0.5),
        (0.0, 1.0),
        *map(tuple, draw.normal(size=(6, 2))),
    ],
    why="c holds u Var W and v Var G; the covariance goes down by a positive multiple of their "
    "product",
)
def sign_after(u: float, v: float) -> float:
    """Exercise 2: selection lowers the covariance by a multiple of u v."""
    return 0 - np.sign(u) * np.sign(v)


@reference_solution(
    lambda draw: [
        (10.0, 1.0),
        (10.0, 10.0),
        (1.0, 1.0),
        (3.0, 0.5),
        tuple(draw.uniform(0.5, 9, 2)),
    ],
    tolerance=1e-5,
    why="λ(λ − a) goes to 1: what is left is the covariance given T, in which both variances "
    "shrink too",
)
def limit(alpha: float, noise: float) -> float:
    """Exercise 3: the partial correlation of W and G given T."""
    w, g = alpha**2 / 4, alpha**2
    p = np.linalg.inv([[w, 0, w], [0, g, g], [w, g, w + g + noise**2]])
    return -p[0, 1] / (p[0, 0] * p[1, 1]) ** 0.5


unpromised_zero = written("cancel|opposite|compensat", "graph|faithful")

# 02 correlations

delta_over_places = partial(prediction, among=["above 0", "around 0", "below 0"])


def _series(draw: np.random.Generator, means: Mapping[str, pd.DataFrame]) -> Cases:
    """The page's means by kind, and short random series."""
    series = [(np.arange(float(n)), draw.normal(size=n)) for n in (4, 12)]
    for mean in means.values():
        x = mean.index.to_numpy(float)
        series += [
            (x, mean[gender].to_numpy(float))
            for gender in ("female", "male")
            if mean[gender].nunique() > 1
        ]  # a mass that never varies has no error
    return series


@reference_solution(
    _series,
    tolerance=1e-5,
    why="the residuals' variance divides by n − 2, and few points need Student's t in place of "
    "1.96",
)
def interval(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Exercise 2: SciPy's fit."""
    fit = stats.linregress(x, y)
    half = stats.t.ppf(0.975, len(x) - 2) * fit.stderr
    return fit.slope, fit.slope - half, fit.slope + half


def mass_up_share_down(answer: Answer) -> None:
    """Exercise 3: two triples of masses; the female mass rises while its share falls."""
    triples = numbers(
        answer, "your example", "two triples of numbers: (female, male, neutral), twice"
    )
    if triples.shape != (2, 3):
        raise NotRight(
            f"your example has shape {triples.shape}: it should be (2, 3), that is "
            "(female, male, neutral) before and after"
        )
    before, after = triples
    for name, mass in {"before": before, "after": after}.items():
        if mass.min() < 0 or not 0 < mass.sum() <= 100:
            raise NotRight(
                f"the masses {name} are {mass.tolist()}: probabilities in percent, that "
                "is from 0 to 100 in sum, and not all 0"
            )
    share_before, share_after = shares([before, after])[:, 0]
    if not after[0] > before[0]:
        raise NotRight(f"the female mass goes from {before[0]:g} to {after[0]:g}: it should rise")
    if not share_after < share_before:
        raise NotRight(
            f"the female share goes from {share_before:.1f} to {share_after:.1f} %: it "
            "should fall, so the others' masses have to grow by a larger factor"
        )
    tick("your example")


years_that_are_none = written("digit|number|token", "shuffl|permut|null", "time|year", words=30)

# 03 detection

strength_needed = partial(prediction, among=[0, 0.1, 0.2, 0.5, 1, 2, 4, "more than 4"])


def area_by_hand(answer: Function, table: pd.DataFrame) -> None:
    """Exercise 2: Mann and Whitney's count of ranks, on cases with ties and the page's sets."""
    cases = [
        (np.array([3.0, 1.0, 2.0, 0.0]), np.array([True, True, False, False])),
        (np.array([1.0, 1.0, 1.0, 0.0, 2.0]), np.array([True, False, True, False, False])),
    ]
    metric, unspecified = draws().integers(0, 6, 30) / 5, np.arange(30) < draws().integers(5, 25)
    cases += [(metric, unspecified)]
    cases += [
        (part.female.to_numpy(), part.unspecified.to_numpy())
        for _, part in table.groupby("set", sort=False)
    ]

    def wanted(metric: np.ndarray, unspecified: np.ndarray) -> float:
        ranks, m = stats.rankdata(metric), unspecified.sum()
        return (ranks[unspecified].sum() - m * (m + 1) / 2) / (m * (~unspecified).sum())

    same_function(
        answer, wanted, cases, why="count pairs of one text of each kind, equal ones as one half"
    )


@reference_solution(
    lambda draw: [
        (50.0, 1.0),
        (10.0, 1.0),
        (98.0, 1.0),
        (2.0, -0.5),
        (30.0, 0.0),
        (draw.uniform(2, 98), draw.normal()),
    ],
    tolerance=1e-5,
    why="β p (1 − p) holds for small β only; the exact share comes from the log-odds plus β, in "
    "percent",
)
def change_of_share(share: float, beta: float) -> float:
    """Exercise 3: a shift of log-odds multiplies the odds."""
    odds = share / (100 - share) * np.exp(beta)
    return 100 * odds / (1 + odds) - share


upside_down = written(
    "label|answer|after|afterwards|hindsight", "room|level|share|50|middle", words=30
)

# 04 trained worlds

better_learned_kind = partial(prediction, among=["times", "places"])


@reference_solution(
    lambda draw: [
        (0.5, 0.1),
        (1.0, 0.1),
        (0.5, 0.0),
        (0.3, 0.6),
        (0.0, 0.1),
        tuple(draw.random(2)),
    ],
    why="the mass of she is the share of those called she or he times ½ + s (t − ½)",
)
def two_slopes(s: float, neutral: float) -> tuple[float, float]:
    """Exercise 2: differences of Bayes' law between t = 0 and t = 1, by numbers."""
    selected = 0.5 + s * np.outer([-0.5, 0.5], [1, -1, 0])  # rows: t = 0 and t = 1
    joint = selected * [(1 - neutral) / 2, (1 - neutral) / 2, neutral]
    joint /= joint.sum(1, keepdims=True)
    return np.diff(joint[:, 0]).item(), np.diff(joint[:, 0] / joint[:, :2].sum(1)).item()


@reference_solution(
    lambda draw: [(0.75,), (0.25,), (0.5,), (draw.uniform(0.1, 0.9),)],
    tolerance=1e-3,
    why="E[w²] among the selected is Σ P(G) ∫ P(S) w² dt / P(S = 1); those called "
    "they keep the weight 1",
)
def texts_that_count(s: float) -> float:
    """Exercise 3: the moments of the weights on a fine grid of t."""
    t = (np.arange(200_000) + 0.5) / 200_000
    chance = 0.5 + s * np.outer(t - 0.5, [1, -1, 0])
    weight, selected = 0.5 / chance, chance * [0.45, 0.45, 0.1] / len(t)
    selected /= selected.sum()
    return (weight * selected).sum() ** 2 / (weight**2 * selected).sum()


one_sided = written("learn|gain|train", "slope", "other|cause|style|something like", words=30)

# 05 audit

below_a_coin = partial(prediction, among=(0, 11))


@reference_solution(
    lambda draw: [
        (
            np.array(
                [
                    [True, True, True],
                    [True, False, False],
                    [False, False, False],
                    [False, True, True],
                ]
            ),
        ),
        *((draw.random((n, 3)) < p,) for n, p in ((48, 0.5), (360, 0.9), (7, 0.1))),
    ],
    why="each text may have any of its three metrics, apart from the other texts",
)
def rate_bounds(above: np.ndarray) -> tuple[float, float]:
    """Exercise 2: certainly found by all three metrics, possibly by one."""
    votes = above.sum(axis=1)
    return float(np.mean(votes == 3)), float(np.mean(votes > 0))


@reference_solution(
    lambda draw: [(1,), (2,), (3,), (int(draw.integers(4, 12)),)],
    why="the first value is divided by k as often as there are values, the last one once",
)
def weights_as_drawn(k: int) -> np.ndarray:
    """Exercise 3: the running sum, divided each time, of one 1 among 0s."""
    mean = np.zeros(k)
    for row in np.eye(k):
        mean = (mean + row) / k
    return mean


def elsewhere(answer: Answer, scan: pd.DataFrame) -> None:
    """Exercise 4: Winogender's score at the lowest best threshold of the simplified texts."""
    wanted = {}
    for model, part in scan.groupby("model"):
        part = part.set_index("threshold")
        here, there = (part.balanced[part.texts == kind] for kind in ("simplified", "winogender"))
        wanted[model] = there[here.index[here == here.max()].min()]
    wanted = pd.Series(wanted)
    if isinstance(answer, pd.Series):
        answer = entries(answer, wanted, "elsewhere", each="model")
    close(
        answer,
        wanted,
        "elsewhere",
        why="the threshold is chosen on one set of texts and scored "
        "on the other; of equally good ones the lowest counts",
    )


what_survives = written("order|rank|best", "gender|file", "threshold|area|curve", words=30)
