"""95 % intervals of shares, means, differences and any other statistic: the one place for all of
them.

Items of one group (a story, a review, an occupation) are not independent. Every function that takes
`groups` [n] therefore treats whole groups as the unit: it draws them, or sums over them. An
interval of a paired difference a − b is the interval of the differences themselves: pass `a - b` as
`values`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from probebook.base import UserError


class Rate(NamedTuple):
    """A share of `n` items, and its interval."""

    share: float
    low: float
    high: float
    n: int


class Mean(NamedTuple):
    """A mean, and its interval."""

    mean: float
    low: float
    high: float


def rate(values: ArrayLike, groups: ArrayLike | None = None, level: float = .95) -> Rate:
    """Share of 1s among values 0 and 1 [n], with Wilson's interval, which has a width at 0 and 1
    too.

    NaN marks an item that does not count; the share is NaN if no item counts. Groups divide n by
    the design effect (the ratio of the clustered to the simple variance, at least 1). Where all
    values are equal, there is no such ratio, and each group counts once (Korn & Graubard 1998)."""
    values, groups = same_items(values, groups)
    keep = ~np.isnan(values)
    values, number = values[keep], np.unique(groups[keep], return_inverse=True)[1]
    n = len(values)
    if not np.isin(values, (0, 1)).all():
        raise UserError("a share needs values 0 and 1 (or NaN for an item that does not count): "
                        "compare scores with a threshold first")
    if not n:
        return Rate(np.nan, np.nan, np.nan, 0)
    p = values.mean()
    simple, clustered = n * p * (1 - p), (np.bincount(number, values - p) ** 2).sum()
    effective = n * simple / max(simple, clustered) if simple else number.max() + 1
    z2 = stats.norm.ppf((1 + level) / 2) ** 2 / effective
    middle = (p + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * (p * (1 - p) + z2 / 4)) / (1 + z2)
    return Rate(float(p), float(max(0, middle - half)), float(min(1, middle + half)), n)


def clustered_mean(values: ArrayLike, groups: ArrayLike | None = None,
                   errors: float = 1.96) -> Mean:
    """Mean of values [n] ± `errors` standard errors; the error is that of sums over groups."""
    values, groups = same_items(values, groups)
    mean, number = values.mean(), np.unique(groups, return_inverse=True)[1]
    half = errors * np.linalg.norm(np.bincount(number, values - mean)) / len(values)
    return Mean(mean, mean - half, mean + half)


def bootstrap(statistic: Callable[..., np.ndarray], *data: np.ndarray, n: int = 1000,
              level: float = .95, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap (`scipy.stats.bootstrap`): low and high ends of a statistic's interval.

    A draw takes the same positions of the last axis from every array of `data`. `statistic` takes
    the arrays and an `axis` along which it reduces them; it may return several values at once."""
    rng = np.random.default_rng(seed)
    found = stats.bootstrap(data, statistic, paired=True, axis=-1, vectorized=True, n_resamples=n,
                            batch=50, confidence_level=level, method="percentile", rng=rng)
    return found.confidence_interval.low, found.confidence_interval.high


def bootstrap_mean(values: ArrayLike, groups: ArrayLike, n: int = 1000, level: float = .95,
                   seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap of a mean over items, drawing whole groups: low and high.

    `values` [n], or [n, m] for m means on the same drawn groups; `groups` [n]. UserError for fewer
    than two groups, or not one group for each value."""
    values = np.asarray(values, float)
    number, labels = pd.factorize(np.asarray(groups))
    if len(number) != len(values) or len(labels) < 2:
        raise UserError(f"{len(values)} values, the groups of {len(number)}, {len(labels)} groups "
                        "in all: one group for each value, two groups at least")
    total = pd.DataFrame(values).groupby(number).sum().to_numpy().T
    size = np.bincount(number)[None].repeat(len(total), 0)
    low, high = bootstrap(lambda total, size, axis: total.sum(axis) / size.sum(axis), total, size,
                          n=n, level=level, seed=seed)
    shape = values.shape[1:]
    return low.reshape(shape), high.reshape(shape)


def draw_counts(groups: int, n: int = 1000, seed: int = 0) -> np.ndarray:
    """How often each of so many groups is drawn in n bootstrap samples; int64 [n, groups]."""
    return np.random.default_rng(seed).multinomial(groups, np.full(groups, 1 / groups), n)


def resample_means(values: pd.DataFrame, groups: pd.Series, n: int = 1000,
                   seed: int = 0) -> pd.DataFrame:
    """Means of the columns over all items (row 0) and over n draws of whole groups (the other
    rows).

    All columns share the draws, so that differences, ratios and the best of several columns have
    intervals too: see `contrast`."""
    parts = values.groupby(groups.to_numpy())
    total, size = parts.sum(), parts.size().to_numpy()
    counts = np.vstack([np.ones(len(size)), draw_counts(len(size), n, seed)])
    means = counts @ total.to_numpy() / (counts @ size)[:, None]
    return pd.DataFrame(means, columns=values.columns)


def percentiles(draws: ArrayLike) -> np.ndarray:
    """The 2.5 % and 97.5 % points of draws [n] or [n, m]: [2] or [2, m]."""
    return np.percentile(draws, [2.5, 97.5], axis=0)


def contrast(draws: ArrayLike) -> dict[str, np.ndarray]:
    """Value, interval and verdict of a comparison whose draws are rows as in `resample_means`.

    `draws` [1 + n] or [1 + n, m]. Keys: here (row 0), low and high (`percentiles` of the other
    rows), verdict (1: the interval lies above 0; −1: below 0; 0: it contains 0)."""
    draws = np.asarray(draws)
    low, high = percentiles(draws[1:])
    return {"here": draws[0], "low": low, "high": high, "verdict": (low > 0) * 1 - (high < 0) * 1}


def same_items(values: ArrayLike, groups: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Values as float64 [n] and their groups [n]; without groups, each item is a group of its
    own."""
    values = np.asarray(values, float)
    groups = np.arange(values.size) if groups is None else np.asarray(groups)
    if values.ndim != 1 or groups.shape != values.shape:
        raise UserError(f"values {values.shape} beside {groups.shape}: give the same items in the "
                        "same order, one value each")
    return values, groups
