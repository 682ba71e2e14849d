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
    return area_and_recall(score, positive, 0.0, weights)[0]


def area_and_recall(
    score: ArrayLike, positive: ArrayLike, fpr: float, weights: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """`auroc`, and recall at a fixed false-alarm rate: the largest share of positive items above a
    threshold that at most `fpr` of the negative items exceed, chosen on these very items.

    Arguments and errors as of `auroc`. Returns [draws] each."""
    score, positive, weights = _check(score, positive, weights)
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=np.nan) != 0)
    weights, kind = weights[:, order], positive[order]
    positives, negatives = (
        np.add.reduceat(weights * some, starts, axis=1) for some in (kind, ~kind)
    )  # at each value of the score, rising
    all_positive, all_negative = positives.sum(1), negatives.sum(1)
    below = negatives.cumsum(1) - negatives / 2
    with np.errstate(invalid="ignore"):
        area = (positives * below).sum(1) / (all_positive * all_negative)
        above = positives[:, ::-1].cumsum(1) / all_positive[:, None]
        allowed = negatives[:, ::-1].cumsum(1) <= fpr * all_negative[:, None] + 1e-9
    return area, np.where(allowed, above, 0).max(1)


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


def _check(score: ArrayLike, positive: ArrayLike, weights: ArrayLike | None):
    score, positive = np.asarray(score, float), np.asarray(positive, bool)
    if score.shape != positive.shape or not 0 < positive.sum() < len(positive):
        raise UserError(
            f"{score.shape} scores, {positive.sum()} of {positive.size} items positive: one score "
            "per item, and items of both kinds"
        )
    return score, positive, np.ones((1, len(score))) if weights is None else np.asarray(weights)
