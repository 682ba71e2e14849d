"""A generated world of one-line biographies whose selection is known (McMilin, § 2 and § 3).

A text has a person of gender G, a time or place W, and a pronoun Y. In the population G and W are
independent. Selection S into the corpus depends on both, with strength s: P(S | female, w) = ½ + s
(t − ½), for males the same with −s, for others ½, where t in [0, 1] is the rank of w among the
times or places. So among the selected P(female | w) is .9 (½ + s (t − ½)), where .9 is the share of
those who are called she or he. This is exact, and linear in t.

A *specified* text names the gender of the pronoun's person by another word (the woman … she); in an
*unspecified* one only W goes with it. The world knows three sets of pronouns, as in the paper: she,
he and they. Its words stand in `data/corpora/biographies.yaml`.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from probebook.base import UserError, check_choice
from probebook.corpora.words import phrases, word_table

_WORDS = word_table("biographies")
YEARS = [str(year) for year in range(1801, 2017)]
PLACES = phrases(_WORDS["places"])  # the paper's order (appendix D)
GENDERS = ["female", "male", "neutral"]
SHARES = [0.45, 0.45, 0.10]  # of the population
STAGES = phrases(_WORDS["stages"])
JOBS = _WORDS["jobs"].split()
WORDS = {name: forms.split() for name, forms in _WORDS["forms"].items()}  # of the three genders
ALONE = phrases(_WORDS["one person, gender unnamed"])
NAMED = phrases(_WORDS["one person, gender named"])
CLAUSES = {who: phrases(text) for who, text in _WORDS["two persons"].items()}
GUESTS = phrases(_WORDS["guests"])
FORMS = {"alone": 0.5, "named": 0.2, "occupation": 0.15, "participant": 0.15}  # shares of the texts
_UP_TO = np.cumsum([*FORMS.values()]) / sum(FORMS.values())


def keep(gender: ArrayLike, t: ArrayLike, s: float) -> np.ndarray:
    """P(S = 1 | G, W) for gender 0, 1, 2 (its place in GENDERS), t and strength s in [0, 1]."""
    if not 0 <= s <= 1:
        raise UserError(f"s = {s}: a strength of selection between 0 and 1")
    return 0.5 + s * np.array([1, -1, 0])[np.asarray(gender)] * (np.asarray(t) - 0.5)


def share(t: ArrayLike, s: float, gender: str = "female") -> np.ndarray:
    """P(G | W, S = 1) at t: the share of G in the corpus.

    It is the share in the population times P(S | G, W), divided by the sum of these, which is ½.
    """
    place = GENDERS.index(check_choice(gender, "gender", GENDERS))
    return 2 * SHARES[place] * keep(place, t, s)


def generate(n: int, s: float = 0.5, seed: int = 0, reweighted: bool = False) -> pd.DataFrame:
    """`n` selected texts. UserError for n < 1 or s outside [0, 1].

    Columns: text, masked (with [MASK] for the pronoun), pronoun, gender, kind ("time" or "place"),
    w, t, form, specified, weight = ½ / P(S | G, W). Form "alone" and "named": one person;
    "occupation" and "participant": two persons, and which of them is meant. `reweighted`: the texts
    are drawn again, with replacement, in proportion to their weights; this undoes the selection
    unless some P(S) is 0.
    """
    if n < 1:
        raise UserError(f"n = {n}: at least 1 text")
    rng = np.random.default_rng(seed)
    selected: list[pd.DataFrame] = []
    while sum(map(len, selected)) < n:
        people = _population(2 * n + 10, rng)
        selected.append(people[rng.random(len(people)) < keep(people.g, people.t, s)])
    people = pd.concat(selected, ignore_index=True).iloc[:n]
    texts = pd.DataFrame(
        [_text(g, w, rng) for g, w in zip(people.g, people.w)],
        columns=["masked", "pronoun", "form", "specified"],
    )
    filled = [text.replace("[MASK]", word) for text, word in zip(texts.masked, texts.pronoun)]
    texts.insert(0, "text", filled)
    texts = texts.assign(
        gender=np.array(GENDERS)[people.g],
        kind=people.kind,
        w=people.w,
        t=people.t,
        weight=0.5 / keep(people.g, people.t, s),
    )
    if reweighted:
        rows = rng.choice(n, n, p=texts.weight / texts.weight.sum())
        texts = texts.iloc[rows].reset_index(drop=True)
    return texts


def ranks(w: ArrayLike) -> np.ndarray:
    """t in [0, 1] of times or places: their rank in the world. UserError for an unknown one."""
    t = {name: i / (len(names) - 1) for names in (YEARS, PLACES) for i, name in enumerate(names)}
    unknown = [name for name in w if name not in t]
    if unknown:
        raise UserError(
            f"{unknown[0]!r}: a year from {YEARS[0]} to {YEARS[-1]}, or one of "
            f"{len(PLACES)} countries"
        )
    return np.array([t[name] for name in w])


def words() -> list[str]:
    """All words and marks of the world, in lower case, sorted."""
    forms = [form for row in WORDS.values() for form in row]
    clauses = [clause for row in CLAUSES.values() for clause in row]
    texts = [*YEARS, *PLACES, *STAGES, *JOBS, *forms, *ALONE, *NAMED, *clauses, *GUESTS]
    plain = re.sub(r"{\w+}", "", " ".join([*texts, "in told . , :"])).lower()
    return sorted(set(re.findall(r"\w+|[^\w\s]", plain)))


def _population(n: int, rng: np.random.Generator) -> pd.DataFrame:
    time, rank = rng.random(n) < 0.5, rng.random(n)
    year, place = (rank * len(YEARS)).astype(int), (rank * len(PLACES)).astype(int)
    return pd.DataFrame(
        {
            "g": rng.choice(3, n, p=SHARES),
            "kind": np.where(time, "time", "place"),
            "w": np.where(time, np.array(YEARS)[year], np.array(PLACES)[place]),
            "t": np.where(time, year / (len(YEARS) - 1), place / (len(PLACES) - 1)),
        }
    )


def _text(g: int, w: str, rng: np.random.Generator) -> tuple[str, str, str, bool]:
    """Masked text, pronoun, form, and whether another word of the text names the gender."""

    def one(choices: list[str]) -> str:  # rng.choice, without its checks
        return choices[rng.integers(len(choices))]

    form = [*FORMS][_UP_TO.searchsorted(rng.random(), side="right")]
    job, other = (JOBS[i] for i in rng.choice(len(JOBS), 2, replace=False))
    if form in CLAUSES:
        guest = one(GUESTS)
        if form == "participant" and guest != "someone":
            guest = GUESTS[g]  # of neutral gender: someone
        body = f"the {job} told {guest} that {{she}} {one(CLAUSES[form])}"
        specified = form == "participant" and guest != "someone"
    else:
        body, specified = one(ALONE if form == "alone" else NAMED), form == "named"
    forms = {name: by_gender[g] for name, by_gender in WORDS.items()}
    forms |= {"stage": one(STAGES), "job": job, "other": other}
    masked = next(name for name in ("she", "her") if f"{{{name}}}" in body)  # the first pronoun
    body = body.replace(f"{{{masked}}}", "[MASK]", 1).format(**forms)
    text = [f"In {w}, {body}.", f"In {w}: {body}.", f"{body} in {w}."][rng.integers(3)]
    return text[0].upper() + text[1:], WORDS[masked][g], form, specified
