"""A generated world of restaurant reviews whose rating model is known, in CEBaB's columns.

A visit has a quality q ~ N(0, 1). It is the common cause of what is said of the four aspects and of
a remark on the whole visit (its mood). Labels and mood alone decide the rating: a score is the sum
of their effects and of interactions, and the stars follow an ordered logit, P(stars ≤ j) = σ((j + ½
− score)/SCALE). Everything that decides stands in the text. The phrases are in
`data/corpora/reviews.yaml`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy.special import expit

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS, SPLITS, VALUES
from probebook.corpora.words import phrase_table

BASE, SCALE = 3.2, 0.3  # in stars, as are the effects of each of VALUES:
EFFECTS = {
    "food": [-1.0, 0.9, 0],
    "service": [-0.7, 0.5, 0],
    "ambiance": [-0.5, 0.5, 0],
    "noise": [-0.35, 0.25, 0],
}
MOOD = 0.5  # of a remark; its negative for a bad mood
INTERACTIONS = {
    ("food", "Negative", "service", "Negative"): 0.4,
    ("food", "Positive", "service", "Positive"): 0.3,
    ("food", "Negative", "ambiance", "Positive"): -0.2,
    ("ambiance", "Positive", "noise", "Negative"): -0.3,
}
MENTIONED = {
    "food": 0.85,
    "service": 0.65,
    "ambiance": 0.5,
    "noise": 0.35,
}  # share of the originals
LEAN = {"food": 0.3, "service": 0, "ambiance": 0.3, "noise": -0.5}  # log-odds of Positive at q = 0
CONFOUNDING = 1.2  # log-odds of Positive per unit of q
EDITED = 0.71  # share of an original's eight possible edits
HELD_OUT = 0.118  # share of the originals in dev, and in test
TRAIN, EXCLUSIVE, OBSERVATIONAL, DEV, TEST = SPLITS


@dataclass(frozen=True)
class Causes:
    """What stands between an explainer and the exact effects in a world; each can be switched off.

    - `confounding`: log-odds of Positive, and of a good mood, per unit of the visit's quality
    - `mood`: stars of a remark, of which no label tells
    - `interactions`: stars of two labels together"""

    confounding: float = CONFOUNDING
    mood: float = MOOD
    interactions: Mapping[tuple[str, str, str, str], float] = field(
        default_factory=lambda: INTERACTIONS
    )


USUAL = Causes()


@dataclass(frozen=True)
class _Clause:
    """One statement about an aspect; without a subject it is a whole clause.

    `joins`: it continues the sentence before it. `like`, `unlike`: the word between the two, if
    they have the same value, or different ones.
    """

    subject: str
    words: str
    joins: bool
    like: str
    unlike: str


@dataclass(frozen=True)
class _Review:
    """A text before it is written out; the aspects stand in the order in which they come up."""

    values: dict[str, str]
    clauses: dict[str, tuple[_Clause, ...]]
    before: tuple[str, ...]
    after: tuple[str, ...]


def generate(n: int, seed: int = 0, causes: Causes = USUAL) -> pd.DataFrame:
    """`n` reviews and their edits (about 6.7 n texts), in the columns and splits of `cebab.load`.

    An edit gives one aspect another value and keeps the rest of the text, where it can also the
    subject of a clause. Five readers agree on the aspects and draw the stars from `probabilities`.
    Only a review whose texts all have a majority can be in dev or test (§ 5). `opentable_metadata`
    holds the visit's quality and mood (1, −1; 0: no remark). UserError for n < 50.
    """
    if n < 50:
        raise UserError(f"n = {n}: at least 50 reviews, so that there are some for each split")
    rng, draws = random.Random(seed), np.random.default_rng(seed)
    table = pd.DataFrame(
        [row for number in range(n) for row in _group(rng, number, causes.confounding)]
    )
    votes = draws.multinomial(5, probabilities(table, causes))  # [rows, 5]
    majority = np.where(votes.max(1) >= 3, (votes.argmax(1) + 1).astype(str), "no majority")
    table["review_majority"] = majority
    stars: list[list[str]] = [np.repeat([*"12345"], row).tolist() for row in votes]
    table["review_label_distribution"] = [dict(Counter(row)) for row in stars]
    table["review_workers"] = [_readers(row) for row in stars]
    part = _parts(table, n, draws)
    # numbers go on from train to dev to test, as in version 1.1
    place: np.ndarray = np.empty(n, int)
    place[np.argsort([SPLITS.index(name) for name in part], kind="stable")] = np.arange(n)
    ids = [f"{i:06d}" for i in place[table.number]]
    table = table.assign(split=part[table.number], original_id=ids)
    table.insert(0, "id", table.original_id + "_" + table.edit_id)
    table = table.drop(columns="number").sort_values("id", ignore_index=True)
    train = table[table.split == TRAIN]
    one = train.iloc[draws.permutation(len(train))].drop_duplicates("original_id").sort_index()
    return pd.concat(
        [
            train,
            one.assign(split=EXCLUSIVE),
            train[train.is_original].assign(split=OBSERVATIONAL),
            table[table.split == DEV],
            table[table.split == TEST],
        ],
        ignore_index=True,
    )


def _parts(table: pd.DataFrame, n: int, draws: np.random.Generator) -> np.ndarray:
    """The split of each of the `n` groups."""
    has_majority = table.review_majority.ne("no majority").groupby(table.number).all()
    clear = draws.permutation(np.flatnonzero(has_majority))
    held_out = min(round(HELD_OUT * n), len(clear) // 3)
    part: np.ndarray = np.full(n, TRAIN, dtype=object)
    part[clear[:held_out]] = DEV
    part[clear[held_out : 2 * held_out]] = TEST
    return part


def probabilities(table: pd.DataFrame, causes: Causes = USUAL) -> np.ndarray:
    """Exact probabilities of 1 … 5 stars given each generated review, float64 [n, 5].

    This is the oracle classifier. The difference of two rows, p[pairs.target_row] −
    p[pairs.source_row], is the exact effect of an edit, whatever its words: the expectation over
    texts of definition 1 and the difference of definition 2 are the same. UserError for other
    tables.
    """
    try:
        mood = np.array([data["mood"] for data in table["opentable_metadata"]], float)
        values = {
            aspect: table[f"{aspect}_aspect_majority"].map(VALUES.index).to_numpy(int)
            for aspect in ASPECTS
        }
    except (KeyError, TypeError, ValueError):
        raise UserError(
            "exact probabilities are known of generated reviews only: give a table of "
            f"reviews.generate, with every aspect {', '.join(VALUES)}"
        ) from None
    effects = sum(np.array(EFFECTS[aspect])[values[aspect]] for aspect in ASPECTS)
    score = BASE + causes.mood * mood + effects
    for (aspect, value, other, its_value), effect in causes.interactions.items():
        both = (values[aspect] == VALUES.index(value)) & (values[other] == VALUES.index(its_value))
        score += effect * both
    at_most = expit((np.arange(1.5, 5) - score[:, None]) / SCALE)  # 1 … 4 stars
    return np.diff(at_most, axis=1, prepend=0, append=1)


def _group(rng: random.Random, number: int, confounding: float) -> list[dict]:
    """An original and its edits as rows without id, split and stars."""
    quality = rng.gauss(0, 1)
    mood = _sign(rng, confounding * quality) if rng.random() < 0.5 else 0
    original = _original(rng, confounding * quality, mood)
    texts: list[tuple[_Review, str | None, str | None]] = [(original, None, None)]
    for aspect in ASPECTS:
        for value in VALUES:
            if value != original.values[aspect] and rng.random() < EDITED:
                texts.append((_edit(rng, original, aspect, value), aspect, value))
    data = {"quality": round(quality, 3), "mood": mood}
    rows = []
    for i, (review, edited, goal) in enumerate(texts):
        row = {
            "edit_id": f"{i:06d}",
            "is_original": edited is None,
            "edit_goal": goal,
            "edit_type": edited,
            "edit_worker": edited and f"w{rng.randrange(50)}",
            "description": _text(review),
            "number": number,
        }
        for name in ASPECTS:
            label = review.values[name]
            row |= {
                f"{name}_aspect_majority": label,
                f"{name}_aspect_label_distribution": {label: 5},
                f"{name}_aspect_validation_workers": _readers([label] * 5),
            }
        rows.append(row | {"opentable_metadata": data})
    return rows


def _readers(votes: list[str]) -> dict[str, str]:
    return {f"w{i}": vote for i, vote in enumerate(votes)}


def _sign(rng: random.Random, log_odds: float) -> int:
    return 1 if rng.random() < expit(log_odds) else -1


def _original(rng: random.Random, log_odds: float, mood: int) -> _Review:
    values = {}
    for aspect in rng.sample(ASPECTS, len(ASPECTS)):
        value = "Positive" if _sign(rng, LEAN[aspect] + log_odds) > 0 else "Negative"
        values[aspect] = value if rng.random() < MENTIONED[aspect] else "unknown"
    clauses = {aspect: _statement(rng, aspect, value) for aspect, value in values.items()}
    few = sum(map(bool, clauses.values())) < 2  # an edit may drop a clause, not the whole text
    book = phrase_table("reviews")
    before = [rng.choice(book["openings"])] if few or rng.random() < 0.4 else []
    after = [rng.choice(book["remarks"]["good" if mood > 0 else "bad"])] if mood else []
    if rng.random() < 0.3:
        rng.choice([before, after]).append(rng.choice(book["fillers"]))
    return _Review(values, clauses, tuple(before), tuple(after))


def _statement(rng: random.Random, aspect: str, value: str) -> tuple[_Clause, ...]:
    """One clause on an aspect, sometimes two different ones; none if its value is unknown."""
    if value == "unknown":
        return ()
    clauses = [_clause(rng, aspect, value)]
    if rng.random() < 0.3:
        clauses.append(_clause(rng, aspect, value, clauses[0]))
    return tuple(clauses)


def _clause(
    rng: random.Random, aspect: str, value: str, first: _Clause | None = None, subject: str = ""
) -> _Clause:
    """A clause with `subject`, else with any or none; other words and subject than in `first`."""
    book = phrase_table("reviews")
    first_subject, first_words = (first.subject, first.words) if first else ("", "")
    singular, plural = (book["subjects"][aspect][number] for number in ("singular", "plural"))
    if subject or rng.random() < 0.5:
        others = [noun for noun in singular + plural if noun != first_subject]
        subject = subject or rng.choice(others)
        was = "were" if subject in plural else "was"
        choices = [words.format(was=was) for words in book["predicates"][aspect][value]]
    else:
        choices = book["clauses"][aspect][value]
    words = rng.choice([choice for choice in choices if choice != first_words])
    joins = rng.random() < 0.45
    like, unlike = rng.choice(book["alike"]), rng.choice(book["unlike"])
    return _Clause(subject, words, joins, like, unlike)


def _edit(rng: random.Random, review: _Review, aspect: str, value: str) -> _Review:
    """The same text with another value of one aspect: its clauses are dropped, rewritten or new."""
    old = review.clauses[aspect]
    new: tuple[_Clause, ...] = ()
    if value == "unknown" or not old:
        new = _statement(rng, aspect, value)
    else:
        for clause in old:
            first = new[0] if new else None
            keep = rng.random() < 0.7 and not (first and first.subject == clause.subject)
            fresh = _clause(rng, aspect, value, first, clause.subject if keep else "")
            new += (replace(fresh, joins=clause.joins, like=clause.like, unlike=clause.unlike),)
    return replace(
        review, values=review.values | {aspect: value}, clauses=review.clauses | {aspect: new}
    )


def _text(review: _Review) -> str:
    """Sentences of one clause or two; the word between two says whether they agree."""
    sentences, last = [*review.before], None  # last: value of a clause that can go on
    for aspect, clauses in review.clauses.items():
        for clause in clauses:
            value, words = review.values[aspect], f"{clause.subject} {clause.words}".strip()
            if clause.joins and last:
                link = clause.like if value == last else clause.unlike
                sentences[-1] += f", {link} {words}"
                last = None
            else:
                sentences.append(words)
                last = value
    return " ".join(f"{s[0].upper()}{s[1:]}." for s in (*sentences, *review.after))
