"""Answers to questions about a text: exact match, F1, unknown, and what a change of the text does to them.

Chaturvedi et al., § 5, 6. A model's answer under an intervention on the text is had by asking again, so that Pearl's
(1999) probabilities of causation are plain shares: no assumption has to identify them. `story` [n] names the text that
a question belongs to; questions about one text are not independent."""
from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm

from probebook.base import UserError

_DROP = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case; no ASCII punctuation, then no a, an, the; single spaces (the official scripts of SQuAD and CoQA)."""
    if not isinstance(text, str):
        raise UserError(f"the answer {text!r} is no text: give a str, empty for no answer")
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_DROP)).split())


def exact_match(predicted: Sequence[str], gold: Sequence, leave_one_out: bool = False) -> np.ndarray:
    """1 where the normalised answers are the same, else 0; float64 [n].

    `gold`: for each item the right answer, or a list of several of which the best counts. `leave_one_out`: the score of
    CoQA's script for several answers: the mean, over each of them left out, of the best among the others."""
    return _best(predicted, gold, leave_one_out, lambda a, b: float(a == b))


def f1(predicted: Sequence[str], gold: Sequence, leave_one_out: bool = False) -> np.ndarray:
    """Harmonic mean of precision and recall over the bags of normalised words; float64 [n]. `gold` as in `exact_match`.

    Where an answer has no words, 1 if the other has none either (SQuAD 2.0, CoQA; SQuAD 1.1 gives 0 there)."""
    return _best(predicted, gold, leave_one_out, _overlap)


def _overlap(a, b) -> float:
    a, b = a.split(), b.split()
    return 2 * (Counter(a) & Counter(b)).total() / (len(a) + len(b)) if a and b else float(a == b)


def _best(predicted, gold, leave_one_out, score) -> np.ndarray:
    golds = [[one] if isinstance(one, str) else list(one) for one in gold]
    if isinstance(predicted, str) or isinstance(gold, str) or len(predicted) != len(golds) or not all(golds):
        raise UserError(f"{len(predicted)} answers, {sum(map(bool, golds))} items with a right one: two lists, and one "
                        "right answer (or a list of them) for each")
    found = [sorted(score(normalise(answer), normalise(one)) for one in several)
             for answer, several in zip(predicted, golds)]
    if leave_one_out:                                       # the best is left out once, the second best counts then
        return np.array([s[-1] if len(s) == 1 else ((len(s) - 1) * s[-1] + s[-2]) / len(s) for s in found], float)
    return np.array([s[-1] for s in found], float)


class Rate(NamedTuple):
    """A share of `n` items, and its interval."""

    share: float
    low: float
    high: float
    n: int


def rate(values, story=None, level: float = .95) -> Rate:
    """Share of 1s among values 0, 1 (or bool) [n]; NaN: the item is not at issue, and is left out. NaN if all are.

    Interval: Wilson's, which keeps a width at 0 and 1, where a bootstrap has none. Items of one `story` are a cluster:
    n is divided by the design effect, the ratio of the clustered to the simple variance, never below 1; where all
    values are the same, so that it has none, each story counts once (Korn & Graubard 1998)."""
    values, story = _items(values, story)
    keep = ~np.isnan(values)
    values, number = values[keep], np.unique(story[keep], return_inverse=True)[1]
    n = len(values)
    if not np.isin(values, (0, 1)).all():
        raise UserError("a share is taken of values 0, 1 (or NaN: not at issue): compare scores with a threshold first")
    if not n:
        return Rate(np.nan, np.nan, np.nan, 0)
    p = values.mean()
    simple, clustered = n * p * (1 - p), (np.bincount(number, values - p) ** 2).sum()
    effective = n * simple / max(simple, clustered) if simple else number.max() + 1
    z2 = norm.ppf((1 + level) / 2) ** 2 / effective
    middle, half = (p + z2 / 2) / (1 + z2), np.sqrt(z2 * (p * (1 - p) + z2 / 4)) / (1 + z2)
    return Rate(float(p), float(max(0, middle - half)), float(min(1, middle + half)), n)


def unknown_share(predicted: Sequence[str], story=None) -> Rate:
    """Share of the answers that say "unknown" (unk%, of 1)."""
    return rate([normalise(answer) == "unknown" for answer in predicted], story)


def comb(original, modified, story=None) -> pd.DataFrame:
    """Right answers before and after a change that turns the right answer round (§ 6); bool [n] both, n > 0.

    Rows: original (Org-Acc), modified (Mod-Acc), both (Comb-Acc), just one (of the two: all that a model can get which
    gives the same yes or no to both), drop (original − modified). Columns: share, low, high, n. The drop's interval is
    normal, with the variance of its sum over stories."""
    (a, story), b = _items(original, story), _items(modified, story)[0]
    table = _table({"original": a, "modified": b, "both": a * b, "just one": np.abs(a - b)}, story)
    drop, by_story = (a - b).mean(), np.unique(story, return_inverse=True)[1]
    half = norm.ppf(.975) * np.linalg.norm(np.bincount(by_story, a - b - drop)) / len(a)
    table.loc["drop"] = [drop, drop - half, drop + half, len(a)]
    return table.astype({"n": int})


def necessary(whole, without, entailed=None) -> np.ndarray:
    """Was the rationale necessary for the right answer? Float64 [n]: 1 the answer goes with it, 0 it is still given.

    `whole`, `without` [n] bool: the story's right answer is given for the whole story, and for the story without its
    rationale. NaN where it is not given for the whole story, or where the story without the rationale still entails it
    (`entailed` [n] bool). The mean is Pearl's probability of necessity, P(Y_without = 0 | Y_whole = 1)."""
    whole, without, entailed = _same(whole, without, entailed)
    return np.where((whole == 1) & (entailed == 0), 1 - without, np.nan)


def sufficient(with_it, without, entailed=None) -> np.ndarray:
    """Was the rationale sufficient? Float64 [n]: 1 the right answer comes with the rationale, 0 it does not.

    `with_it`, `without` [n] bool: the right answer is given with the rationale, and without it, in the same
    surroundings: the rest of the story, or nothing (the rationale alone against an empty story). NaN where it is given
    without it as well, or entailed there. The mean is Pearl's probability of sufficiency, P(Y_with = 1 | Y_without =
    0); the share of right answers on the rationale alone, on no condition, is `rate(alone)`."""
    with_it, without, entailed = _same(with_it, without, entailed)
    return np.where((without == 0) & (entailed == 0), with_it, np.nan)


def causes(whole, without, alone, entailed=None, story=None) -> pd.DataFrame:
    """Rows: necessity, sufficiency (in the rest of the story), both (P(Y_whole = 1, Y_without = 0)), alone (right on
    the rationale alone); columns share, low, high, n. Items whose deleted story entails the answer are in the last."""
    whole, without, left = _same(whole, without, entailed)
    return _table({"necessity": necessary(whole, without, left), "sufficiency": sufficient(whole, without, left),
                   "both": np.where(left == 0, whole * (1 - without), np.nan), "alone": alone}, story)


def _table(rows, story) -> pd.DataFrame:
    table = pd.DataFrame({name: rate(values, story) for name, values in rows.items()}, Rate._fields).T
    return table.astype({"n": int})


def _same(first, second, entailed):
    first, story = _items(first, None)
    return first, _items(second, story)[0], np.zeros(len(first)) if entailed is None else _items(entailed, story)[0]


def _items(values, story):
    values = np.asarray(values, float)
    story = np.arange(values.size) if story is None else np.asarray(story)
    if values.ndim != 1 or story.shape != values.shape:
        raise UserError(f"values {values.shape} beside {story.shape}: the same items in the same order, one value each")
    return values, story
