"""Plan how many items a comparison of two probing configurations needs: by a bound, by power.

Zhu, Wang, Li & Rudzicz (2022), § 3 and § 4; power is that of McNemar's test. Accuracies and their
differences are shares, not percent. `p_only_a` is the probability that configuration A is right and
B wrong on an item, `p_only_b` the reverse."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, gammaln, ndtri, xlog1py, xlogy
from scipy.stats import binom

from probebook.base import UserError, check_choice
from probebook.measures.intervals import percentiles

FAIL = 1e-8  # δ: the probability with which the bound may fail (paper, § 3)
BITS = 32  # of one weight of a linear probe, as in the paper's count of probes
COLLAPSE = 0.02  # differences below it "may never" be separated (paper, § 4)
CARE = 0.02  # the least difference of interest, unless another is given
TRAIN_TO_TEST = 4  # 4:1:1
TESTS = ("exact", "chi2")
BLOCK = 1024  # sizes whose critical numbers are computed at once and cached


def log_functions(dim: int, rule: str = "paper") -> float:
    """Count the linear probes of states of width `dim`: ln #F; each has D + 1 weights of 32 bits.

    "paper": #F = (D + 1) · 2³², as printed; "correct": (2³²)^(D + 1), since every weight is chosen
    for itself."""
    check_choice(rule, "rule", ("paper", "correct"))
    if not dim >= 1:
        raise UserError(f"dim={dim}: the width of the states, at least 1")
    ways = BITS * np.log(2)
    return float(np.log(dim + 1) + ways if rule == "paper" else (dim + 1) * ways)


def constant(dim: int, rule: str = "paper", fail: float = FAIL) -> float:
    """8 ln(2 #F/δ) = N · Δ²: everything in the rule of `recommend` except the difference."""
    if not 0 < fail < 1:
        raise UserError(f"fail={fail}: a probability between 0 and 1")
    return 8 * (np.log(2 / fail) + log_functions(dim, rule))


def answers_behind(recommended: ArrayLike, answers: ArrayLike, dim: ArrayLike) -> np.ndarray:
    """Recover the difference in right answers, among `answers`, behind an N that the paper
    recommends. Arrays work."""
    ratio = np.vectorize(constant)(dim) / (np.asarray(recommended) + 0.5)
    return np.round(answers * np.sqrt(ratio)).astype(int)


def excess_risk(n: ArrayLike, dim: int, rule: str = "paper", fail: float = FAIL) -> np.ndarray:
    """ε = √(2 ln(2 #F/δ) / n), the finite-class bound (paper, § 3); n may be an array.

    With probability 1 − `fail`, the probe that is best on n items is at most ε worse than the
    best."""
    n = np.asarray(n, float)
    if not (n > 0).all():
        raise UserError("n must be positive")
    return np.sqrt(constant(dim, rule, fail) / 4 / n)


def recommend(delta: float, dim: int, rule: str = "paper", fail: float = FAIL) -> int:
    """Recommend a number of training items N from a pilot, by the paper's bound.

    The bound of `excess_risk` falls to Δ/2 at N = int(2 ln(2 #F/δ) / (Δ/2)²). Dev and test items
    come on top, half as many in all (4:1:1).

    Args:
        delta: Mean difference of the two accuracies on the pilot; its sign does not matter.
        dim: Width of the wider configuration's states.
        rule: How probes are counted: "paper" or "correct" (`log_functions`).
        fail: Probability with which the bound may fail."""
    if not 0 < abs(delta) <= 1:
        raise UserError(
            f"delta={delta}: a difference of two accuracies as a share, not 0 and at most 1"
        )
    return int(constant(dim, rule, fail) / delta**2)


def mcnemar_power(
    p_only_a: float,
    p_only_b: float,
    n: int,
    alpha: float = 0.05,
    method: str = "exact",
    test: str = "exact",
    draws: int = 5000,
    seed: int = 0,
) -> float:
    """Compute the power of McNemar's test: that p ≤ alpha and the sign is that of the truth.

    Card et al. (2020). `p_only_a`, `p_only_b`: the probability that only A (B) is right on one of
    the n items. If they are equal, either sign counts.

    - `method`: "exact" adds up the probabilities of all outcomes; "simulate" draws tables
    - `test`: "exact" is the two-sided binomial test of the items on which A and B differ (the
      authors' code); "chi2" compares (a − b)² / (a + b) with χ² with one degree of freedom (their
      text)"""
    _check(p_only_a, p_only_b, alpha, test)
    if n < 1 or method not in ("exact", "simulate"):
        raise UserError(f"n={n}, method {method!r}: at least one item, and 'exact' or 'simulate'")
    signs = [p_only_a >= p_only_b, p_only_b >= p_only_a]  # which side may win
    differ = min(1.0, p_only_a + p_only_b)
    if method == "simulate":
        rates = [p_only_a, p_only_b, 1 - differ]
        wins = np.random.default_rng(seed).multinomial(n, rates, draws)[:, :2]
        m = wins.sum(1)
        return float(((wins >= critical(m, alpha, test)[:, None]) & signs).any(1).mean())
    if differ == 0:
        return 0.0
    m = np.arange(*_likely(n, differ))  # items on which they differ
    least = critical(m, alpha, test)
    wins = sum(
        _tails(m, least, p / differ) for p, counts in zip((p_only_a, p_only_b), signs) if counts
    )
    return min(1.0, float(binom.pmf(m, n, differ) @ wins))


def critical(differ: ArrayLike, alpha: float = 0.05, test: str = "exact") -> np.ndarray:
    """Of m items on which A and B differ, how many one of them must win for p ≤ alpha.

    m + 1 where m items are too few."""
    m = np.asarray(differ)
    if test == "chi2":
        return _normal(m, alpha, -1e-9).astype(int)
    if not m.size:
        return m.astype(int)
    first, last = int(m.min()) // BLOCK, int(m.max()) // BLOCK
    blocks = [_least(block, alpha) for block in range(first, last + 1)]
    return np.concatenate(blocks)[m - first * BLOCK]


@lru_cache(maxsize=1024)
def _least(block: int, alpha: float) -> np.ndarray:
    """`critical` of the exact test for BLOCK sizes: least c with 2 P(X ≥ c) ≤ alpha, X ~ Bin(m,
    ½)."""
    sizes = np.arange(block * BLOCK, (block + 1) * BLOCK)
    least = _normal(sizes, alpha, 0.5)
    tail, tie = _tails(sizes, least, 0.5), 1e-6 * alpha
    before = tail + _pmf(least - 1, sizes, 0.5)
    unsure = np.flatnonzero((tail > alpha / 2 - tie) | (before < alpha / 2 + tie))
    while len(unsure):  # the normal approximation is seldom off by more than 1
        n, c = sizes[unsure], least[unsure]
        step = (binom.sf(c - 1, n, 0.5) > alpha / 2) * 1 - (binom.sf(c - 2, n, 0.5) <= alpha / 2)
        least[unsure] += step
        unsure = unsure[step != 0]
    return least.astype(int)


def _normal(m: np.ndarray, alpha: float, more: float) -> np.ndarray:
    """`critical` by the normal approximation; `more` is added before rounding up."""
    return np.clip(np.ceil((m - ndtri(alpha / 2) * np.sqrt(m)) / 2 + more), 1, m + 1)


def items_needed(
    p_only_a: ArrayLike, p_only_b: ArrayLike, power: float = 0.8, alpha: float = 0.05
) -> np.ndarray:
    """Count the test items at which McNemar's test reaches a power, by the normal approximation.

    Connor (1987): (z_α √p + z_β √(p − Δ²))² / Δ² with p = p_only_a + p_only_b and
    Δ = p_only_a − p_only_b; inf where Δ = 0. Arrays work."""
    p, delta = np.add(p_only_a, p_only_b), np.subtract(p_only_a, p_only_b)
    reach = -ndtri(alpha / 2) * np.sqrt(p)
    reach = reach + ndtri(power) * np.sqrt(np.clip(p - delta**2, 0, None))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(delta == 0, np.inf, (reach / delta) ** 2)


def items_for_difference(differ: ArrayLike, least: float = CARE) -> np.ndarray:
    """Count the training items needed to detect with power .9 that one probe is better by `least`.

    `differ`: the share of items on which the two probes differ. This is the number to plan if a
    difference below `least` would not matter. Arrays work."""
    p = np.maximum(differ, least)
    return TRAIN_TO_TEST * items_needed((p + least) / 2, (p - least) / 2, 0.9)


def items_needed_exactly(
    p_only_a: float, p_only_b: float, power: float = 0.8, alpha: float = 0.05, test: str = "exact"
) -> int:
    """Count the test items at which the exact power crosses `power`, by bisection.

    The exact power is a rising saw: a smaller n may reach `power` too, and a slightly larger one
    may fall below it, within the width of a tooth."""
    _check(p_only_a, p_only_b, alpha, test)
    if p_only_a == p_only_b:
        raise UserError("equal probabilities: no number of items tells A from B")
    low, high = 0, 2 * int(items_needed(p_only_a, p_only_b, power, alpha)) + 20
    while high - low > 1:
        middle = (low + high) // 2
        reached = mcnemar_power(p_only_a, p_only_b, middle, alpha, test=test) >= power
        low, high = (low, middle) if reached else (middle, high)
    return high


@dataclass(frozen=True)
class PilotVerdict:
    """What a pilot says about a comparison.

    - `delta`, `low`, `high`: acc A − acc B with its 95 % interval
    - `only_a`, `only_b`: shares of items that only one of them gets right
    - `paper`, `correct`: training items by the bound, by either count of the probes; None without a
      width or a difference
    - `by_power`, `power_low`, `power_high`: training items by power, with a 95 % interval (inf: no
      number), for a test set of a quarter of that size"""

    word: str  # "enough", "need N" or "collapsed"
    items: int  # items in the pilot
    delta: float
    low: float
    high: float
    only_a: float
    only_b: float
    power: float  # of McNemar's test on the pilot's items if these shares are the truth
    paper: int | None
    correct: int | None
    by_power: float
    power_low: float
    power_high: float
    cared: float  # `items_for_difference` of the pilot's disagreement alone

    def lines(self) -> dict[str, str]:
        """The verdict as names and texts, one line each."""
        interval = f"[{self.low:+.4f}, {self.high:+.4f}]"
        by_power = f"{self.by_power:,.0f} [{self.power_low:,.0f} to {self.power_high:,.0f}]"
        return {
            "verdict": self.word,
            "items in the pilot": f"{self.items:,}",
            "accuracy of A less that of B": f"{self.delta:+.4f} {interval}",
            "only A right, only B right": f"{self.only_a:.4f}, {self.only_b:.4f}",
            "power of McNemar's test on the pilot": f"{self.power:.3f}",
            **_training_items(self.paper, self.correct),
            "training items for power .8 (95 % interval)": by_power.replace("inf", "∞"),
            f"training items to see a difference of {CARE} (power .9)": f"{self.cared:,.0f}",
        }


def from_accuracies(acc_a: float, acc_b: float, dim: int) -> dict[str, str]:
    """Plan from two accuracies (shares) alone: names and texts, one line each.

    How often A and B err on the same items is unknown. The power route therefore gives two ends:
    all errors of the better one are also errors of the other (fewest items), or errors are
    independent."""
    if not (0 <= min(acc_a, acc_b) and max(acc_a, acc_b) <= 1):
        raise UserError(f"accuracies {acc_a} and {acc_b}: shares between 0 and 1")
    delta, (least, most) = acc_a - acc_b, sorted((acc_a, acc_b))
    bound = [recommend(delta, dim, rule) for rule in ("paper", "correct")]
    nested, independent = (abs(delta), 0), (most * (1 - least), least * (1 - most))
    low, high = (
        np.ceil(TRAIN_TO_TEST * items_needed(only_a, only_b))
        for only_a, only_b in (nested, independent)
    )
    return {
        "accuracy of A less that of B": f"{delta:+.4f}",
        **_training_items(*bound),
        "training items for power .8": (
            f"{low:,.0f} (nested errors) to {high:,.0f} (independent errors)"
        ),
    }


def _training_items(paper: int | None, correct: int | None) -> dict[str, str]:
    sizes = {
        "training items, the paper's bound": paper,
        "training items, probes counted rightly": correct,
    }
    return {
        name: "none (no difference)" if items is None else f"{items:,}"
        for name, items in sizes.items()
    }


def judge_pilot(
    pilot_a: ArrayLike,
    pilot_b: ArrayLike,
    dim: int | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    draws: int = 10_000,
    seed: int = 0,
) -> PilotVerdict:
    """Judge from a pilot whether a comparison of two configurations has enough items.

    The verdict's word is

    - "enough": the power on the pilot's items is at least `power`
    - "collapsed": the 95 % interval of the difference lies within ± .02, where the paper saw no
      difference ever become clear
    - "need N": anything else

    The interval of N comes from draws of the true shares given the pilot's counts (Dirichlet,
    Jeffreys' prior). Seeds share items, so the mean over seeds counts as one pilot.

    Args:
        pilot_a: Right (1) and wrong (0) answers of A, [items] or [seeds, items].
        pilot_b: The same of B; UserError if it differs in shape, or one holds other values.
        dim: Width of the wider states, for the paper's bound.
        power: Wanted power.
        alpha: Level of McNemar's test."""
    a, b = (np.asarray(pilot, float) for pilot in (pilot_a, pilot_b))
    binary = (a * a == a).all() and (b * b == b).all()
    if a.shape != b.shape or a.ndim not in (1, 2) or a.size == 0 or not binary:
        raise UserError(
            f"pilots of shapes {a.shape} and {b.shape}: both must have the same shape, [items] or "
            "[seeds, items], and contain only 0 and 1"
        )
    n = a.shape[-1]
    only_a, only_b = float((a > b).mean()), float((b > a).mean())
    counts = n * np.array([only_a, only_b, 1 - only_a - only_b])
    x, y, _ = np.random.default_rng(seed).dirichlet(counts + 0.5, draws).T
    low, high = percentiles(x - y)
    delta = only_a - only_b
    reached = mcnemar_power(only_a, only_b, n, alpha)
    same_sign = (x - y) * delta > 0
    of_draws = np.where(same_sign, items_needed(x, y, power, alpha), np.inf)
    ends = np.percentile(of_draws, [2.5, 97.5], method="nearest")
    test_items = items_needed(only_a, only_b, power, alpha), *ends
    collapsed = max(-low, high) < COLLAPSE
    word = "enough" if reached >= power else "collapsed" if collapsed else "need N"
    paper, correct = (
        recommend(delta, dim, rule) if dim and delta else None for rule in ("paper", "correct")
    )
    by_power, power_low, power_high = (
        float(np.ceil(TRAIN_TO_TEST * items)) for items in test_items
    )
    return PilotVerdict(
        word,
        n,
        delta,
        float(low),
        float(high),
        only_a,
        only_b,
        reached,
        paper,
        correct,
        by_power,
        power_low,
        power_high,
        float(np.ceil(items_for_difference(only_a + only_b))),
    )


def _check(p_only_a: float, p_only_b: float, alpha: float, test: str) -> None:
    shares = min(p_only_a, p_only_b) >= 0 and p_only_a + p_only_b <= 1 + 1e-12
    if not (shares and 0 < alpha < 1):
        raise UserError(
            f"p_only_a={p_only_a}, p_only_b={p_only_b}, alpha={alpha}: probabilities, "
            "the first two of which add up to at most 1"
        )
    check_choice(test, "test", TESTS)


def _pmf(k: ArrayLike, m: ArrayLike, p: float) -> np.ndarray:
    ways = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
    return np.exp(ways + xlogy(k, p) + xlog1py(m - k, -p))


def _tails(m: np.ndarray, least: np.ndarray, p: float) -> np.ndarray:
    """P(X ≥ least), X ~ Bin(m, p), for consecutive m whose `least` rises by 0 or 1: step by
    step."""
    risen = least[1:] > least[:-1]
    more = p * _pmf(least[:-1] - 1, m[:-1], p) - risen * _pmf(least[:-1], m[1:], p)
    return bdtrc(least[0] - 1, m[0], p) + np.append(0, more.cumsum())


def _likely(n: int, p: float) -> tuple[int, int]:
    """The range of a binomial count, without values whose probability is less than about 1e-15."""
    spread = 9 * np.sqrt(n * p * (1 - p)) + 30
    return max(0, int(n * p - spread)), min(n, int(n * p + spread)) + 1
