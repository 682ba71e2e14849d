"""Compare two systems on the same items: their difference, and how many items would show it.

The items are shared, so every figure here is one of the differences, item by item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from probebook.base import UserError
from probebook.measures.sample_size import (
    CARE,
    items_needed,
    items_needed_exactly,
    mcnemar_power,
)

POWER, ALPHA = 0.8, 0.05
MCNEMAR = "exact McNemar test"
STUDENT = "paired t-test"
GROUPED = "paired t-test over groups"
SIGNS = "exact test of signs"


@dataclass(frozen=True)
class Comparison:
    """The result of comparing the scores of A and B on the same items.

    - `test`: `MCNEMAR` where all scores are 0 or 1, else `STUDENT`; `GROUPED` where items come in
      groups; `SIGNS` where all differences are equal
    - `items`, `groups`: how many; `mean_a`, `mean_b`: mean scores
    - `delta`, `low`, `high`: mean of A less mean of B, with its 95 % interval; `p`, two-sided
    - `power`: chance that the test is significant on as many new items if `delta` is the truth
    - `needed`: items for a chance of 80 % if `delta` is the truth (inf: no difference)
    - `least`: the smallest true difference that so many items show with a chance of 80 %
    - `only_a`, `only_b`: items that only one of them gets right; None for graded scores"""

    test: str
    items: int
    groups: int
    mean_a: float
    mean_b: float
    delta: float
    low: float
    high: float
    p: float
    power: float
    needed: float
    least: float
    only_a: int | None = None
    only_b: int | None = None

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.p <= ALPHA:
            better, worse = "AB" if self.delta > 0 else "BA"
            return f"{better} is better than {worse} on such items"
        if -CARE < self.low and self.high < CARE and self.least > 0:
            return f"any remaining difference is below {CARE}"
        if np.isinf(self.needed):
            return "open: no difference in these items"
        return (
            f"open: if the difference is as large as here, about {self.needed:,.0f} items "
            "would show it"
        )

    def lines(self) -> dict[str, str]:
        """The verdict as names and texts, one line each."""
        sides = "only A right, only B right"
        only = {} if self.only_a is None else {sides: f"{self.only_a:,}, {self.only_b:,} items"}
        groups = f" in {self.groups:,} groups" if self.groups < self.items else ""
        needed = "none (no difference)" if np.isinf(self.needed) else f"{self.needed:,.0f}"
        return {
            "verdict": self.sentence,
            "items": f"{self.items:,}{groups}",
            "score of A, of B": f"{self.mean_a:.4f}, {self.mean_b:.4f}",
            "A less B (95 % interval)": f"{self.delta:+.4f} [{self.low:+.4f}, {self.high:+.4f}]",
            **only,
            self.test: f"p = {self.p:.2g}",
            "power if the difference is as here": f"{self.power:.3f}",
            f"items for power {POWER}, likewise": needed,
            "least difference that so many items show": f"{self.least:.4f}",
        }


def compare(a: ArrayLike, b: ArrayLike, groups: ArrayLike | None = None) -> Comparison:
    """Compare scores [n] of A and B on the same items.

    Scores of 0 and 1: the exact McNemar test, and Bonett & Price's interval (2012), a Wald interval
    after adding one item to each side on which they differ. Other scores: Student's test and
    interval of the differences; the test of signs where all differences are equal. `groups` [n]:
    items of one group are not independent; the standard error is that of sums over groups, and
    Student's t has a degree of freedom less than there are groups. UserError for scores that are no
    numbers, or for fewer than two items or groups."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.ndim != 1 or a.shape != b.shape or not np.isfinite([a, b]).all():
        raise UserError(
            f"scores of shapes {a.shape} and {b.shape}: one number for each item, the "
            "same items, none of them NaN"
        )
    n, number = len(a), np.arange(len(a))
    if groups is not None:
        number = np.unique(np.asarray(groups), return_inverse=True)[1]
    count = int(number.max(initial=-1)) + 1
    if count < 2:
        raise UserError(f"{n} items in {count} groups: two groups at least")
    d = a - b
    about = {"items": n, "groups": count, "delta": float(d.mean())}
    about |= {"mean_a": float(a.mean()), "mean_b": float(b.mean())}
    if count == n and np.isin([a, b], (0, 1)).all():
        return _compare_binary(about, int((d > 0).sum()), int((d < 0).sum()))
    return _compare_graded(about, d, number, STUDENT if count == n else GROUPED)


def _compare_binary(about: dict, only_a: int, only_b: int) -> Comparison:
    n, differ = about["items"], only_a + only_b
    x, y = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    half = stats.norm.ppf(1 - ALPHA / 2) * np.sqrt((x + y - (x - y) ** 2) / (n + 2))
    shares = only_a / n, only_b / n
    reach = stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)
    needed = float(np.ceil(items_needed(*shares, POWER, ALPHA)))
    if needed < 100_000:  # beyond, the normal approximation is exact too
        needed = items_needed_exactly(*shares, POWER, ALPHA)
    return Comparison(
        MCNEMAR,
        **about,
        low=max(-1.0, x - y - half),
        high=min(1.0, x - y + half),
        p=float(stats.binomtest(only_a, differ).pvalue) if differ else 1.0,
        power=mcnemar_power(*shares, n) if differ else 0.0,
        needed=needed,
        least=float(reach * np.sqrt(x + y) / np.sqrt(n)),
        only_a=only_a,
        only_b=only_b,
    )


def _compare_graded(about: dict, d: np.ndarray, number: np.ndarray, test: str) -> Comparison:
    n, count, delta = about["items"], about["groups"], about["delta"]
    sums = np.bincount(number, d - delta)
    error = float(np.sqrt(count / (count - 1)) * np.linalg.norm(sums) / n)
    df = count - 1
    edge = stats.t.ppf(1 - ALPHA / 2, df)
    reach = stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)
    if error <= 1e-12 * np.abs(d).max():  # all differences are equal
        p = 2 * 0.5**count if delta else 1.0
        fewest = np.ceil(np.log2(2 / ALPHA))
        needed = float(np.ceil(n * fewest / count)) if delta else np.inf
        about |= {"power": float(p <= ALPHA), "needed": needed, "least": 0.0}
        return Comparison(SIGNS, **about, low=delta, high=delta, p=p)
    t = delta / error
    power = stats.nct.sf(edge, df, abs(t))
    needed = np.ceil(n * (reach / t) ** 2) if delta else np.inf
    return Comparison(
        test,
        **about,
        low=delta - edge * error,
        high=delta + edge * error,
        p=float(2 * stats.t.sf(abs(t), df)),
        power=float(power),
        needed=float(needed),
        least=float(reach * error),
    )
