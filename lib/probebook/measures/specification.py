"""Gender mass at a blank, its slope over times or places, and the task-specification metric.

McMilin, § 4 and § 5. Masses and shares are in percent, as in the paper. "female", "male" and
"neutral" are three lists of pronouns and two more words; no other words for persons are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from probebook.base import UserError
from probebook.measures.intervals import draw_counts, percentiles
from probebook.measures.roc import auroc

LISTS = {
    "female": ["she", "her", "female"],
    "male": ["he", "him", "his", "male"],
    "neutral": ["they"],
}
_PLACE = {word: place for place, words in enumerate(LISTS.values()) for word in words}


def gender_mass(filled: Sequence) -> np.ndarray:
    """Sum the probability of each list in percent, [n, 3] (female, male, neutral; app. G).

    `filled`: what `models.fill` returns: `tokens`, and `top`, the probabilities by token at each
    position. If exactly one generated token is in the lists, its position counts; otherwise the
    mass is the mean over all positions."""
    return np.array([_mass(one) for one in filled]).reshape(-1, len(LISTS))


def remaining_mass(filled: Sequence) -> np.ndarray:
    """Probability in percent of all tokens that are not among the best ones, [n].

    It is that of the positions which `gender_mass` reads. A listed word that is not among the best
    tokens counts 0 there; so no list's mass lacks more than this."""
    inside = [[sum(one.top[i].values()) for i in _places(one)] for one in filled]
    return np.array([100 * max(0.0, 1 - float(np.mean(p))) if p else 0.0 for p in inside])


def _places(one: Any) -> Sequence[int]:
    """The position of the one listed token, else all positions."""
    listed = [i for i, token in enumerate(one.tokens) if token.lower() in _PLACE]
    return listed if len(listed) == 1 else range(len(one.top))


def _mass(one: Any) -> np.ndarray:
    places, mass = _places(one), np.zeros(len(LISTS))
    for i in places:
        for token, p in one.top[i].items():
            if token.lower() in _PLACE:
                mass[_PLACE[token.lower()]] += 100 * p
    return mass / max(1, len(places))


def shares(mass: ArrayLike) -> np.ndarray:
    """Divide female, male and neutral by their sum, in percent, [n, 3]; NaN without any mass."""
    mass = np.asarray(mass, float)
    total = mass.sum(-1, keepdims=True)
    return np.divide(100 * mass, total, out=np.full_like(mass, np.nan), where=total > 0)


def slopes(mass: ArrayLike, index: ArrayLike) -> pd.DataFrame:
    """Fit lines to the mean mass at each w over its index (§ 4.1; figures 3 and 6).

    `mass` [n, 3] of texts, `index` [n] of their times or places. Rows female, male, neutral and
    delta (female − male). Columns: slope in percentage points per step, the ends `low` and `high`
    of its 95 % interval, r2. UserError for fewer than three w's."""
    table = pd.DataFrame(np.asarray(mass, float), columns=[*LISTS])
    table = table.groupby(np.asarray(index)).mean()
    if len(table) < 3:
        raise UserError(f"{len(table)} different w: a line and its interval need at least 3")
    table["delta"] = table.female - table.male
    errors, rows = stats.t.ppf(0.975, len(table) - 2), []
    for name, means in table.items():
        fit = stats.linregress(table.index, means)
        away, r2 = np.nan_to_num([errors * fit.stderr, fit.rvalue**2])  # constant means: 0
        rows.append((name, fit.slope, fit.slope - away, fit.slope + away, r2))
    return pd.DataFrame(rows, columns=["gender", "slope", "low", "high", "r2"])


def specification(late: ArrayLike, early: ArrayLike) -> np.ndarray:
    """Absolute difference of the shares at the latest and the earliest year, in percentage points.

    It is large if the text leaves the gender unspecified (§ 5)."""
    return np.abs(np.subtract(late, early))


class Scores(NamedTuple):
    """Detection of unspecified texts at a threshold."""

    tpr: float  # share of the unspecified texts that are detected
    tnr: float  # share of the well-specified texts that are left
    balanced: float  # the mean of the two


def scores(metric: ArrayLike, unspecified: ArrayLike, threshold: float = 0.5) -> Scores:
    """Score the rule "metric > threshold means unspecified" (Table 3).

    UserError unless there are texts of both kinds."""
    metric, unspecified = _check_metric(metric, unspecified)
    detected = metric > threshold
    tpr, tnr = float(detected[unspecified].mean()), float((~detected)[~unspecified].mean())
    return Scores(tpr, tnr, (tpr + tnr) / 2)


def area(
    metric: ArrayLike,
    unspecified: ArrayLike,
    groups: ArrayLike | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Compute the area under the ROC curve, and the ends of its 95 % bootstrap interval.

    The area is P(metric of an unspecified text > of a well-specified one). `groups`: what the
    bootstrap draws, occupations, say; by default each text."""
    metric, unspecified = _check_metric(metric, unspecified)
    groups = np.arange(len(metric)) if groups is None else pd.factorize(np.asarray(groups))[0]
    times = draw_counts(groups.max() + 1, draws, seed)[:, groups]  # how often each text is drawn
    resampled = auroc(metric, unspecified, times)
    (whole,) = auroc(metric, unspecified)
    return float(whole), *percentiles(resampled[~np.isnan(resampled)]).tolist()


def _check_metric(metric: ArrayLike, unspecified: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    metric = np.nan_to_num(np.asarray(metric, float))
    unspecified = np.asarray(unspecified, bool)
    if metric.shape != unspecified.shape or not 0 < unspecified.sum() < len(unspecified):
        raise UserError(
            f"{metric.shape} metrics, {unspecified.sum()} of {unspecified.size} texts "
            "unspecified: one metric per text, and texts of both kinds"
        )
    return metric, unspecified
