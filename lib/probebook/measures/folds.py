"""Pilots divided into six folds, each of which is the test set once, and tests on such folds.

Zhu et al. (2022), § 3.6. Folds share training items, so their differences are not independent, and
the variance of their mean has no unbiased estimate (Bengio & Grandvalet 2004). Nadeau & Bengio
(2003) replace 1/k by 1/k + n_test/n_train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, stdtr

from probebook.base import UserError
from probebook.measures.sample_size import COLLAPSE, TRAIN_TO_TEST

FOLDS = 6  # 4:1:1


def assign_folds(z: ArrayLike, k: int = FOLDS, seed: int = 0) -> np.ndarray:
    """The fold 0 … k − 1 of each item; within a class, fold sizes differ by at most one item.

    z [n]: classes. UserError for fewer than 3 folds, or a class with fewer items than folds."""
    z, rng = np.asarray(z), np.random.default_rng(seed)
    if k < 3 or not z.size or np.unique(z, return_counts=True)[1].min() < k:
        raise UserError(
            f"k = {k} folds of {z.size} items: at least 3 folds, and k items of each class"
        )
    fold: np.ndarray = np.empty(len(z), int)
    for c in np.unique(z):
        fold[z == c] = rng.permutation(np.arange((z == c).sum()) % k)
    return fold


def rotations(fold: ArrayLike) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(train, dev, test) rows, once for each fold: it is test, the next one dev, all others
    train."""
    fold = np.asarray(fold)
    k = fold.max() + 1
    for test in range(k):
        dev = (test + 1) % k
        others = ~np.isin(fold, (test, dev))
        yield np.flatnonzero(others), np.flatnonzero(fold == dev), np.flatnonzero(fold == test)


class FoldTest(NamedTuple):
    """A test of the mean difference over folds.

    - `p_equal`: equivalence (TOST), the larger p of the two one-sided tests against ± margin; a
      small value says that the difference is less than the margin
    - `p_sign`: two-sided sign test without the folds that show no difference (1 if there are no
      others)"""

    delta: float  # the mean difference
    se: float  # its standard error
    p: float  # two-sided t-test of no difference
    p_equal: float
    p_sign: float


def fold_test(
    differences: ArrayLike, test_to_train: float = 1 / TRAIN_TO_TEST, margin: float = COLLAPSE
) -> FoldTest:
    """Test the mean of k folds' differences of accuracy [k].

    `test_to_train`: n_test / n_train of a fold, for Nadeau & Bengio's corrected resampled t-test,
    se² = (1/k + n_test/n_train) s²; 0 gives Student's. UserError for fewer than 2 folds or
    impossible values."""
    d = np.asarray(differences, float)
    if d.ndim != 1 or len(d) < 2 or not np.isfinite(d).all():
        raise UserError(
            f"differences of shape {d.shape}: one finite number for each of at least 2 folds"
        )
    if not test_to_train >= 0 or not margin > 0:
        raise UserError(
            f"test_to_train={test_to_train}, margin={margin}: the first at least 0, "
            "the second above 0"
        )
    k, delta = len(d), float(d.mean())
    se = float(np.sqrt((1 / k + test_to_train) * d.var(ddof=1)))
    if se:
        p = 2 * stdtr(k - 1, -abs(delta) / se)
        p_equal = stdtr(k - 1, (abs(delta) - margin) / se)
    else:
        p, p_equal = float(delta == 0), float(abs(delta) >= margin)
    wins, losses = int((d > 0).sum()), int((d < 0).sum())
    p_sign = min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)))
    return FoldTest(delta, se, float(p), float(p_equal), p_sign)
