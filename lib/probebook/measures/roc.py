"""Scores against two labels: the ROC curve's area, its recall, and what a threshold does.

Every function takes weights [draws, n], so that all draws of a bootstrap are computed at once; a
row of ones is the estimate itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from probebook.base import UserError


def auroc(score: ArrayLike, positive: ArrayLike, weights: ArrayLike | None = None) -> np.ndarray:
    """The area under the ROC curve: P(score of a positive item > of a negative one), ties half.

    `score` [n], `positive` [n] bool, `weights` [draws, n] (none: ones). Returns [draws]; NaN where
    a draw has no item of one kind. UserError: other shapes, or items of one kind only."""
    positives, negatives = _levels(score, positive, weights)
    below = negatives.cumsum(1) - negatives / 2
    pairs = positives.sum(1) * negatives.sum(1)
    return np.divide(
        (positives * below).sum(1), pairs, where=pairs > 0, out=np.full(len(pairs), np.nan)
    )


def recall_at(
    score: ArrayLike, positive: ArrayLike, fpr: float, weights: ArrayLike | None = None
) -> np.ndarray:
    """The largest share of positive items above a threshold that at most `fpr` of the negative
    items exceed: recall at a fixed false-alarm rate, the threshold chosen on these very items.

    Arguments and errors as of `auroc`. Returns [draws]."""
    positives, negatives = (one[:, ::-1].cumsum(1) for one in _levels(score, positive, weights))
    allowed = negatives <= fpr * negatives[:, -1:] + 1e-9
    return np.where(allowed, positives, 0).max(1) / positives[:, -1]


def shares_above(
    score: ArrayLike, positive: ArrayLike, threshold: float, weights: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Recall and false-alarm rate, [draws] each: the shares of positive and of negative items with
    a score of at least `threshold`. Arguments and errors as of `auroc`."""
    score, positive, weights = _check(score, positive, weights)
    above = score >= threshold
    recall, alarms = (
        weights[:, kind] @ above[kind] / weights[:, kind].sum(1) for kind in (positive, ~positive)
    )
    return recall, alarms


def _levels(score: ArrayLike, positive: ArrayLike, weights: ArrayLike | None):
    """Weight of the positive and of the negative items at each value of the score, rising."""
    score, positive, weights = _check(score, positive, weights)
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=np.nan) != 0)
    weights, positive = weights[:, order], positive[order]
    return (np.add.reduceat(weights * kind, starts, axis=1) for kind in (positive, ~positive))


def _check(score: ArrayLike, positive: ArrayLike, weights: ArrayLike | None):
    score, positive = np.asarray(score, float), np.asarray(positive, bool)
    if score.shape != positive.shape or not 0 < positive.sum() < len(positive):
        raise UserError(
            f"{score.shape} scores, {positive.sum()} of {positive.size} items positive: one score "
            "per item, and items of both kinds"
        )
    return score, positive, np.ones((1, len(score))) if weights is None else np.asarray(weights)
