"""Scores of answers to questions about a text, and what a change of the text does to the answers.

Chaturvedi et al., § 5 and § 6. An intervention on the text is carried out, and the model is asked
again. Pearl's (1999) probabilities of causation are therefore plain shares; no assumption is needed
to identify them. `story` [n] names the text that a question belongs to, since questions about one
text are not independent."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm

from probebook.base import UserError
from probebook.measures.intervals import Rate, clustered_mean, rate, same_items

_DROP = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """A text in lower case without ASCII punctuation, then without a, an, the; single spaces.

    These are the rules of the official scripts of SQuAD and CoQA."""
    if not isinstance(text, str):
        raise UserError(f"{text!r} is not a valid answer: expected a str, empty for no answer")
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_DROP)).split())


def exact_match(
    predicted: Sequence[str],
    gold: Sequence[str] | Sequence[Sequence[str]],
    leave_one_out: bool = False,
) -> np.ndarray:
    """Score answers by whether they equal the right one, both normalised: 1 or 0, float64 [n].

    - `gold`: the right answer of each item, or a list of several, of which the best counts
    - `leave_one_out`: leave out each of several right answers in turn, score the best of the
      others, and take the mean, as CoQA's script does"""
    return _best(predicted, gold, leave_one_out, lambda a, b: float(a == b))


def f1(
    predicted: Sequence[str],
    gold: Sequence[str] | Sequence[Sequence[str]],
    leave_one_out: bool = False,
) -> np.ndarray:
    """Score answers by F1, the harmonic mean of precision and recall over their words; float64 [n].

    The arguments are those of `exact_match`. If one answer has no words, the score is 1 if the
    other has none either, else 0 (SQuAD 2.0, CoQA; SQuAD 1.1 gives 0 in both cases)."""
    return _best(predicted, gold, leave_one_out, _overlap)


def _overlap(a: str, b: str) -> float:
    of_a, of_b = a.split(), b.split()
    if not of_a or not of_b:
        return float(of_a == of_b)
    return 2 * (Counter(of_a) & Counter(of_b)).total() / (len(of_a) + len(of_b))


def _best(
    predicted: Sequence[str],
    gold: Sequence,
    leave_one_out: bool,
    score: Callable[[str, str], float],
) -> np.ndarray:
    golds = [[one] if isinstance(one, str) else list(one) for one in gold]
    texts = isinstance(predicted, str) or isinstance(gold, str)
    if texts or len(predicted) != len(golds) or not all(golds):
        raise UserError(
            f"{len(predicted)} answers, {sum(map(bool, golds))} items with a right "
            "one: give two lists, with one right answer (or a list of them) for "
            "each item"
        )
    results = []
    for answer, several in zip(predicted, golds):
        scores = sorted(score(normalise(answer), normalise(one)) for one in several)
        n = len(scores)
        if leave_one_out and n > 1:  # without the best, the second best counts
            results.append(((n - 1) * scores[-1] + scores[-2]) / n)
        else:
            results.append(scores[-1])
    return np.array(results, float)


def comb(original: ArrayLike, modified: ArrayLike, story: ArrayLike | None = None) -> pd.DataFrame:
    """Combine right answers before and after an edit that reverses the right answer (§ 6).

    Whether each answer is right: bool [n]. `story`: the text that each question belongs to. The
    columns are share, low, high, n, the rows

    - original, modified: Org-Acc and Mod-Acc
    - both: Comb-Acc
    - just one: one of the two, which is all that a model can reach if it answers both alike
    - drop: original − modified, with the interval of a paired difference (`clustered_mean`)"""
    (a, story), b = same_items(original, story), same_items(modified, story)[0]
    table = _rates({"original": a, "modified": b, "both": a * b, "just one": np.abs(a - b)}, story)
    table.loc["drop"] = [*clustered_mean(a - b, story, errors=norm.ppf(0.975)), len(a)]
    return table.astype({"n": int})


def necessity(
    whole: ArrayLike, without: ArrayLike, entailed: ArrayLike | None = None
) -> np.ndarray:
    """Mark where the right answer disappears with the rationale: 1, and 0 where it stays.

    The mean is Pearl's probability of necessity, P(Y_without = 0 | Y_whole = 1).

    Args:
        whole: Whether the story's right answer is given for the whole story, bool [n].
        without: Whether it is given for the story without its rationale.
        entailed: Whether the story without the rationale still entails it.

    Returns:
        float64 [n], NaN where the answer is not given for the whole story or is still entailed."""
    whole, without, entailed = _same(whole, without, entailed)
    return np.where((whole == 1) & (entailed == 0), 1 - without, np.nan)


def sufficiency(
    with_it: ArrayLike, without: ArrayLike, entailed: ArrayLike | None = None
) -> np.ndarray:
    """Mark where the right answer appears with the rationale: 1, and 0 where it does not.

    The mean is Pearl's probability of sufficiency, P(Y_with = 1 | Y_without = 0). The unconditional
    share of right answers on the rationale alone is `rate(alone)`.

    Args:
        with_it: Whether the right answer is given with the rationale, bool [n].
        without: Whether it is given without, in the same surroundings: the rest of the story, or
            nothing (the rationale alone against an empty story).
        entailed: Whether it is entailed without the rationale.

    Returns:
        float64 [n], NaN where the answer is given without the rationale, or is entailed there."""
    with_it, without, entailed = _same(with_it, without, entailed)
    return np.where((without == 0) & (entailed == 0), with_it, np.nan)


def causes(
    whole: ArrayLike,
    without: ArrayLike,
    alone: ArrayLike,
    entailed: ArrayLike | None = None,
    story: ArrayLike | None = None,
) -> pd.DataFrame:
    """Rate a rationale as a cause of the right answer; columns share, low, high, n.

    The arguments are those of `necessity` and `sufficiency`. Rows:

    - necessity, and sufficiency in the rest of the story
    - both: P(Y_whole = 1, Y_without = 0)
    - alone: right on the rationale alone; only this row counts items whose deleted story entails
      the answer"""
    whole, without, left = _same(whole, without, entailed)
    return _rates(
        {
            "necessity": necessity(whole, without, left),
            "sufficiency": sufficiency(whole, without, left),
            "both": np.where(left == 0, whole * (1 - without), np.nan),
            "alone": alone,
        },
        story,
    )


def _rates(rows: Mapping[str, ArrayLike], story: ArrayLike | None) -> pd.DataFrame:
    rates = {name: rate(values, story) for name, values in rows.items()}
    return pd.DataFrame(rates, Rate._fields).T.astype({"n": int})


def _same(first: ArrayLike, second: ArrayLike, entailed: ArrayLike | None) -> list[np.ndarray]:
    """Check that three arrays have the same items; by default nothing is entailed."""
    first, items = same_items(first, None)
    entailed = np.zeros(len(first)) if entailed is None else entailed
    return [first, same_items(second, items)[0], same_items(entailed, items)[0]]
