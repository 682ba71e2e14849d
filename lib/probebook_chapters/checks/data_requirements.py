"""Checks of the exercises of chapter 3, in the order of its pages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import comb, log, log2

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import binom, norm, t

from probebook.measures.sample_size import constant, excess_risk, items_needed
from probebook_chapters.data_requirements import score_rules
from probebook_runs.labs.expect import (
    Answer,
    Cases,
    prediction,
    reference_solution,
    written,
)

# 01 from bounds to n

against_itself = partial(prediction, among=["falls", "stays", "grows"])


@reference_solution(
    lambda draw: [(1,), (10,), (300,), (768,), (int(draw.integers(2, 5000)),)],
    why="2 and δ stand in both logarithms; ln of a power is the exponent times ln of the base",
)
def times_more(dim: int) -> float:
    """Exercise 2: the ratio of the two rules' constants."""
    return constant(dim, "correct") / constant(dim)


@reference_solution(
    lambda draw: [(0.1, 768), (-0.05, 300), (draw.uniform(0.01, 0.2), int(draw.integers(2, 5000)))],
    tolerance=1e-3,
    why="the trained probes' difference lies between Δ − ε and Δ + ε",
)
def sign_safe(delta: float, dim: int) -> float:
    """Exercise 3: ε = Δ, so a quarter of the N at ε = Δ/2."""
    return constant(dim) / 4 / delta**2


@reference_solution(
    lambda draw: [
        (1, 1),
        (4, 1),
        (3, 5),
        (50, 8),
        (20_000, 300),
        (int(draw.integers(60, 400)), int(draw.integers(1, 40))),
    ],
    why="k runs from 0 to D, D among them; on 4 points of a line there are 8 labellings",
)
def log_labellings(n: int, dim: int) -> float:
    """Exercise 4: the logarithm of 2 Σ C(n − 1, k), in whole numbers."""
    return log(2 * sum(comb(n - 1, k) for k in range(dim + 1)))


what_was_verified = written("power|McNemar", "constant|factor|times|larger", "pilot", words=25)

# 02 power

power_at = partial(prediction, among=(0, 1))


@reference_solution(
    lambda draw: [(0.05,), (0.005,), (0.3,), (1e-4,), (draw.uniform(0.01, 0.6),)],
    tolerance=1e-3,
    why="p has two sides, and the next z lies around the one that was seen, with deviation 1",
)
def power_of_p(p: float) -> float:
    """Exercise 2: Φ(z of p/2 − z of .025)."""
    return norm.cdf(norm.isf(p / 2) - norm.isf(0.025))


def _hits(draw: np.random.Generator) -> Cases:
    same = np.repeat(draw.random((1, 40)) < 0.7, 5, axis=0)
    apart = draw.random((5, 200)) < np.linspace(0.2, 0.9, 200), draw.random((2, 30)) < 0.5
    return [(hits * 1.0,) for hits in (same, *apart)]


@reference_solution(
    _hits,
    why="seeds share the test items: take each item's mean over seeds, and the items as the sample",
)
def standard_error(hits: np.ndarray) -> float:
    """Exercise 3: the deviation of the items' means, over √items."""
    return hits.mean(0).std(ddof=1) / hits.shape[1] ** 0.5


false_alarms = written("train", "configuration", "draw|independent|data set|sample", words=25)

# 03 encoders and probes

what_moves = partial(prediction, among=["pooling", "weights"])


@reference_solution(
    lambda draw: [
        (n, dim)
        for dim in (192, int(draw.integers(100, 1000)))
        for n in (64, 1024, int(draw.integers(2000, 65_536)))
    ],
    why="the coin is tested on n/4 items, and each of its answers has a standard deviation of ½",
)
def coin_ratio(n: int, dim: int) -> float:
    """Exercise 2: ε over the coin's 1/√n, the same for every n."""
    return excess_risk(n, dim) * n**0.5


def _crossed(draw: np.random.Generator, crossed: pd.DataFrame) -> Cases:
    """`crossed` holds the page's accuracies: two models or more for each task."""
    drawn = [dict(zip(["cls", "pooler"], pair)) for pair in draw.random((2, 2)).tolist()]
    cases = [({"cls": 0.7, "pooler": 0.8}, {"cls": 0.6, "pooler": 0.65}), tuple(drawn)]
    for _, part in crossed[["cls", "pooler"]].groupby(level=0):
        first, *others = part.to_dict("records")
        cases += [(first, other) for other in others]
    return cases


@reference_solution(
    _crossed,
    why="both parts add up to own pooler − other cls; weights come first in the pair, and each "
    "part is the mean over both orders",
)
def shared_out(own: dict[str, float], other: dict[str, float]) -> tuple[float, float]:
    """Exercise 3: both orders of the two changes."""
    at_cls, at_pooler = own["cls"] - other["cls"], own["pooler"] - other["pooler"]
    weights = (at_cls + at_pooler) / 2
    return weights, own["pooler"] - other["cls"] - weights


@reference_solution(
    lambda draw: [
        (1, 16),
        (20, 16),
        (20, 128),
        (int(draw.integers(2, 200)), int(draw.integers(8, 600))),
    ],
    tolerance=0.005,
    why="the best of k coins has at most j right if all k have at most j right",
)
def luck(settings: int, items: int) -> float:
    """Exercise 4: the expected maximum of independent binomials."""
    least = binom.cdf(np.arange(items + 1), items, 0.5) ** settings
    return np.diff(least, prepend=0) @ np.arange(items + 1) / items


could_it_fail = written(
    "coin|control", "deviation|scatter|spread", "mean|centre|center|unlimited", words=25
)

# 04 collapse


def most_collapsed_rule(answer: Answer, rules: Iterable[str]) -> None:
    """Exercise 1: one of the page's rules."""
    prediction(answer, list(rules))


@reference_solution(
    lambda draw: [
        (64, 0.2),
        (4096, 0.2),
        (1024, 0.05),
        (256, 1.0),
        (int(draw.integers(64, 5000)), draw.uniform(0.02, 1)),
    ],
    tolerance=1e-4,
    why="the standard deviation of Δ̂ is √(differ/n), and Δ̂ may lie on both sides of 0",
)
def by_luck(n: int, differ: float) -> float:
    """Exercise 2: the normal distribution between ± .02."""
    return 1 - 2 * norm.sf(0.02 * (n / differ) ** 0.5)


@reference_solution(
    lambda draw: [
        (0.0, 0.01, 5),
        (0.012, 0.004, 5),
        (-0.012, 0.004, 5),
        (0.03, 0.01, 5),
        (draw.uniform(-0.03, 0.03), draw.uniform(0.004, 0.02), int(draw.integers(2, 20))),
    ],
    tolerance=1e-5,
    why="both Δ ≤ −.02 and Δ ≥ .02 have to be rejected, so the larger p counts",
)
def p_equal(delta: float, se: float, df: int) -> float:
    """Exercise 3: the larger of two one-sided p-values."""
    return t.sf((0.02 - abs(delta)) / se, df)


@reference_solution(
    lambda draw: [
        (64, 0.2),
        (2000, 0.2),
        (5000, 0.2),
        (5000, 0.2, 0.01),
        (20_000, 0.2, 0.03),
        (int(draw.integers(3000, 20_000)), draw.uniform(0.05, 0.4), draw.uniform(0, 0.01)),
    ],
    tolerance=1e-4,
    why='"equal" is said where |Δ̂| < .02 − 1.645 · √(differ/n); nowhere, if that is below 0',
)
def power_to_prove(n: int, differ: float, gap: float = 0.0) -> float:
    """Exercise 4: the probability that both one-sided tests reject; 0 where they never can."""
    width = 0.02 - norm.isf(0.05) * (differ / n) ** 0.5
    inside = norm.cdf(np.array([-width, width]), gap, (differ / n) ** 0.5)
    return max(0.0, inside[1] - inside[0])


nothing_found = written("power|few|small|items", "equivalen|margin|interval|.02", words=25)

# 05 description length

steadiest_criterion = most_collapsed_rule  # one of the page's criteria


@reference_solution(
    lambda draw: [
        (np.array([log(2)]), np.array([2, 10]), 2),
        (np.array([0.7, 0.4, 0.2]), np.array([2, 10, 40, 100]), 2),
        (draw.random(5), np.array([3, 9, 20, 50, 90, 300]), 6),
    ],
    why="losses are nats, means over the items of a block; the first block has none",
)
def code_length(losses: np.ndarray, ends: np.ndarray, k: int) -> float:
    """Exercise 2: uniform bits of the first block, then mean losses in nats times items."""
    blocks = [
        (end - begin) * loss for begin, end, loss in zip(ends[:-1], ends[1:], losses, strict=True)
    ]
    return ends[0] * log2(k) + sum(blocks) * log2(np.e)


@reference_solution(
    lambda draw: [
        (1000, 1600, 2, 2),
        (2000, 1600, 64, 6),
        (50, 100, 1, 2),
        (draw.uniform(300, 2000), 1600, *draw.integers(2, 64, 2).tolist()),
    ],
    why="a nat is 1/ln 2 bits, and the first block is in bits already",
)
def true_compression(reported: float, n: int, first: int, k: int) -> float:
    """Exercise 3: all blocks but the first from nats to bits."""
    plain = first * log2(k)
    return n * log2(k) / (plain + (reported - plain) / log(2))


@reference_solution(
    lambda draw: [
        (np.array([900.0, 850.0, 910.0, 1000.0]),),
        (np.array([50.0, 40.0]),),
        (np.array([7.0]),),
        (draw.uniform(50, 900, draw.integers(3, 9)),),
    ],
    why="the receiver has to be told which of the settings it was",
)
def decodable(bits: np.ndarray) -> float:
    """Exercise 4: the shortest code, and the name of its setting."""
    return np.min(bits) + log2(len(bits))


steady_order = written(
    "random", "overfit|width|wide|penalty|unit|confident|sure|spectrum", words=25
)

# 06 does it work

share_of_reversals = partial(prediction, among=(0, 1))


@reference_solution(
    lambda draw: [
        (np.array(numbers), 100.0)
        for numbers in (
            [50, 100, 400, np.inf],
            [99.0, 99, 99],
            [np.inf, np.inf],
            [1e6, 100, 2, np.inf, np.inf],
            np.where(draw.random(40) < 0.2, np.inf, draw.uniform(1, 300, 40)),
        )
    ],
    why="inf is no number: such a lab is neither covered nor short",
)
def marked(numbers: np.ndarray, enough: float) -> np.ndarray:
    """Exercise 2: the shares of covered, short and none; inf stands for no number."""
    return score_rules({"": numbers}, enough)[["covered", "short", "none"]].to_numpy()[0]


@reference_solution(
    lambda draw: [
        (0.05, 256, 0.2),
        (0.01, 256, 0.2),
        (0.02, 4096, 0.1),
        (draw.uniform(0.02, 0.1), int(draw.integers(64, 4096)), draw.uniform(0.15, 0.4)),
    ],
    tolerance=1e-3,
    why="the probability of sufficient numbers should be .95 at this constant",
)
def least_constant(gap: float, m: int, p: float) -> float:
    """Exercise 3: where the probability that c / Δ̂² suffices passes .95."""
    least: np.ndarray = 4 * items_needed((p + gap) / 2, (p - gap) / 2)
    spread = ((p - gap**2) / m) ** 0.5

    def surplus(c: float) -> float:
        low, high = norm.cdf([-((c / least) ** 0.5), (c / least) ** 0.5], gap, spread)
        return high - low - 0.95

    return brentq(surplus, 1e-3, 1e7)


def _looks(draw: np.random.Generator) -> Cases:
    cases = []
    for rates in ([0.1, 0.1, 0.8], [0.15, 0.1, 0.75], [0.01, 0.01, 0.98]):
        more = draw.multinomial([32, 32, 64, 128, 256], rates, (100, 5))
        cases.append(tuple(more.cumsum(1)[..., :2].transpose(2, 0, 1)))
    return cases


@reference_solution(_looks, why="a lab stops at its first p ≤ .05, on either side")
def ever_found(wins: np.ndarray, losses: np.ndarray) -> float:
    """Exercise 4: the share of labs with an exact p ≤ .05 at any look."""
    return _significant(wins, losses).any(1).mean()


def _significant(wins: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Exact p ≤ .05, two-sided."""
    return 2 * binom.cdf(np.minimum(wins, losses), wins + losses, 0.5) <= 0.05 + 1e-12


which_rule = written("pilot", "least difference|beforehand|care|matters|disagree|differ", words=25)

# 07 calculator

what_matters = partial(prediction, among=["disagreement", "route"])


@reference_solution(
    lambda draw: [
        (0.85, 0.8),
        (0.8, 0.85),
        (0.6, 0.4),
        (0.3, 0.2),
        (1.0, 0.5),
        tuple(draw.random(2)),
    ],
    why="at least the better one's lead; at most what is right, or wrong, of both together",
)
def ends_of_disagreement(a: float, b: float) -> tuple[float, float]:
    """Exercise 2: nested errors, and as many errors on different items as there can be."""
    return abs(a - b), 1 - abs(a + b - 1)


def _guesses(draw: np.random.Generator) -> Cases:
    cases = []
    for k in (2, 4):
        label = draw.integers(k, size=60)
        cases.append((draw.integers(k, size=60), np.where(draw.random(60) < 0.6, label, 0), label))
    return cases


@reference_solution(
    _guesses, why="two different wrong answers are no item that only one gets right"
)
def only_one(a: np.ndarray, b: np.ndarray, label: np.ndarray) -> tuple[float, float]:
    """Exercise 3: right and wrong, not same and other."""
    right = [pd.Categorical(answers == label, [False, True]) for answers in (a, b)]
    table = pd.crosstab(*right, dropna=False).to_numpy() / len(label)
    return table[1, 0], table[0, 1]


def _pilots(draw: np.random.Generator) -> Cases:
    cases = []
    for n, p, q in [(100, 0.2, 0.1), (400, 0.15, 0.1), (64, 0.11, 0.09)]:
        wins, losses, _ = draw.multinomial(n, [p, q, 1 - p - q], 500).T
        cases.append((wins, losses, n, p - q))
    return cases


@reference_solution(
    _pilots, why="only pilots with p ≤ .05 count, and their differences without the sign"
)
def overrated(wins: np.ndarray, losses: np.ndarray, n: int, gap: float) -> float:
    """Exercise 4: the mean of the differences that were found, over the true one."""
    return float(np.mean(np.abs(wins - losses)[_significant(wins, losses)])) / n / gap


no_upper_end = written("interval|end|infinit", "pilot", "items|larger|more|collect", words=25)

# 08 three theorems

both_guarantees = partial(prediction, among=["more often", "as often", "less often"])


@reference_solution(
    [(0.1, 100, 0.05), (0.2, 2, 0.05), (0.01, 4096, 1e-8)],
    why="each task may fail with half of δ, and the larger of two equal bounds is one of them",
)
def items_for_control(gap: float, size: int, fail: float) -> float:
    """Exercise 2: the bound at δ/2, solved for n."""
    return 2 * log(4 * size / fail) / gap**2


@reference_solution(
    [(10_000, 100, 0.1, 0.05), (500, 2, 0.3, 0.2), (10**6, 4096, 0.05, 1e-8)],
    why="the bound is proportional to B, and B is minus the logarithm of the least probability",
)
def least_probability(n: int, size: int, nats: float, fail: float) -> float:
    """Exercise 3: B is the excess over the bound at B = 1."""
    return float(np.exp(-nats / np.sqrt(2 * log(2 * size / fail) / n)))


which_blocks = written("last", "first", "labels|items|length|bits|term", words=25)
