"""A generated world of one-line biographies whose selection is known: pronouns, times, places (McMilin, § 2 and § 3).

A text has a person of gender G, a time or place W, and a pronoun Y. In the population G and W are independent. What
gets into the corpus is selected, S, by both, with strength s: P(S | female, w) = ½ + s (t − ½), for males the same with
−s, for others ½, where t in [0, 1] is the rank of w among the times or places. So among those selected P(female | w) is
.9 (½ + s (t − ½)), .9 being the share of those who are called she or he: exact, and linear in t. A *specified* text
names the gender of the pronoun's person by another word (the woman … she); in an *unspecified* one nothing but W goes
with it. Only three sets of pronouns are known here, as in the paper: she, he and they."""
from __future__ import annotations

import re

import numpy as np
import pandas as pd

from probebook.base import UserError

YEARS = [str(year) for year in range(1801, 2017)]
PLACES = ["Afghanistan", "Yemen", "Iraq", "Pakistan", "Syria", "Democratic Republic of Congo", "Iran", "Mali", "Chad",
          "Saudi Arabia", "Switzerland", "Ireland", "Lithuania", "Rwanda", "Namibia", "Sweden", "New Zealand", "Norway",
          "Finland", "Iceland"]                                                    # the paper's order (appendix D)
GENDERS = ["female", "male", "neutral"]
SHARES = [.45, .45, .10]                                                           # of the population
STAGES = ["a child", "an adolescent", "an adult", "a kid", "a teenager", "a grown up"]
JOBS = """teacher doctor farmer baker painter lawyer nurse carpenter writer clerk tailor miner singer plumber chemist
    manager cook driver librarian mechanic gardener broker surgeon scientist""".split()
WORDS = {"she": ["she", "he", "they"], "her": ["her", "his", "their"], "was": ["was", "was", "were"],
         "is": ["is", "is", "are"], "has": ["has", "has", "have"], "woman": ["woman", "man", "person"],
         "girl": ["girl", "boy", "child"], "mother": ["mother", "father", "parent"],
         "sister": ["sister", "brother", "cousin"]}                                # forms for the three genders
ALONE = """
    {she} {was} {stage}
    {she} {is} {stage}
    {she} will be {stage}
    {she} {has} been {stage}
    {she} became {stage}
    {she} becomes {stage}
    {she} will become {stage}
    {she} {is} becoming {stage}
    {she} {has} become {stage}
    {she} {is} being {stage}
    {she} worked as a {job}
    {she} became a {job}
    {she} lived with a {job}
    {she} wrote a book
    {she} learned to read
    {she} met a {job} and a {other}
    {her} house was sold to a {job}
    {her} book was read by a {other}
    a {job} said that {she} {was} {stage}""".strip().split("\n    ")
NAMED = """
    the {woman} said that {she} {was} {stage}
    the {woman} said that {she} will become a {job}
    the {woman} sold {her} house
    the {girl} lost {her} hat
    the {girl} said that {she} {was} {stage}
    the {mother} of a {job} said that {she} wrote a book
    the {sister} of a {job} sold {her} house
    a {job} met the {woman} and {she} became a {other}
    a {job} lived with the {girl} when {she} {was} {stage}""".strip().split("\n    ")
# of two persons; what the pronoun's one does tells which of them it is, as in Winograd's schemas
TOLD = {"occupation": ["had finished the work", "could help with it", "would send the bill", "knew the work well"],
        "participant": ["could pay with cash", "had paid for it", "needed help with the house", "had lost the bill"]}
GUESTS = ["the woman", "the man", "someone"]
FORMS = {"alone": .5, "named": .2, "occupation": .15, "participant": .15}          # shares of the texts
_UP_TO = np.cumsum([*FORMS.values()]) / sum(FORMS.values())


def keep(gender, t, s: float) -> np.ndarray:
    """P(S = 1 | G, W): gender 0, 1, 2 (places in GENDERS), t in [0, 1], strength s in [0, 1]; arrays work."""
    if not 0 <= s <= 1:
        raise UserError(f"s = {s}: a strength of selection between 0 and 1")
    return .5 + s * np.array([1, -1, 0])[np.asarray(gender)] * (np.asarray(t) - .5)


def share(t, s: float, gender: str = "female") -> np.ndarray:
    """The corpus' own P(G | W, S = 1) at t: share of the population times P(S | G, W), over the sum of these, ½."""
    if gender not in GENDERS:
        raise UserError(f"gender {gender!r}: {', '.join(GENDERS)}")
    place = GENDERS.index(gender)
    return 2 * SHARES[place] * keep(place, t, s)


def generate(n: int, s: float = .5, seed: int = 0, reweighted: bool = False) -> pd.DataFrame:
    """`n` selected texts: text, masked (the pronoun replaced by [MASK]), pronoun, gender, kind ("time" or "place"), w,
    t, form, specified, weight = ½ / P(S | G, W).

    Form: "alone" and "named" are of one person; "occupation" and "participant", of two, say who is meant. `reweighted`:
    the texts are drawn anew, with replacement, in proportion to their weights, which makes up for the selection unless
    some P(S) is 0. Raises UserError for n < 1 or s outside [0, 1]."""
    if n < 1:
        raise UserError(f"n = {n}: at least 1 text")
    rng, found = np.random.default_rng(seed), []
    while sum(map(len, found)) < n:
        people = _population(2 * n + 10, rng)
        found.append(people[rng.random(len(people)) < keep(people.g, people.t, s)])
    people = pd.concat(found, ignore_index=True).iloc[:n]
    texts = pd.DataFrame([_text(g, w, rng) for g, w in zip(people.g, people.w)],
                         columns=["masked", "pronoun", "form", "specified"])
    texts.insert(0, "text", [text.replace("[MASK]", pronoun) for text, pronoun in zip(texts.masked, texts.pronoun)])
    texts = texts.assign(gender=np.array(GENDERS)[people.g], kind=people.kind, w=people.w, t=people.t,
                         weight=.5 / keep(people.g, people.t, s))
    if reweighted:
        drawn = rng.choice(n, n, p=texts.weight / texts.weight.sum())
        texts = texts.iloc[drawn].reset_index(drop=True)
    return texts


def ranks(w) -> np.ndarray:
    """t in [0, 1] of times or places: their rank among the world's. UserError for one that it does not have."""
    places = {name: i / (len(names) - 1) for names in (YEARS, PLACES) for i, name in enumerate(names)}
    unknown = [name for name in w if name not in places]
    if unknown:
        raise UserError(f"{unknown[0]!r}: a year from {YEARS[0]} to {YEARS[-1]}, or one of {len(PLACES)} countries")
    return np.array([places[name] for name in w])


def words() -> list[str]:
    """All words and marks of the world, lower-case, sorted."""
    told = [text for texts in TOLD.values() for text in texts]
    texts = [*YEARS, *PLACES, *STAGES, *JOBS, *sum(WORDS.values(), []), *ALONE, *NAMED, *told, *GUESTS, "in told . , :"]
    return sorted(set(re.findall(r"\w+|[^\w\s]", re.sub(r"{\w+}", "", " ".join(texts)).lower())))


def _population(n, rng):
    time, rank = rng.random(n) < .5, rng.random(n)
    year, place = (rank * len(YEARS)).astype(int), (rank * len(PLACES)).astype(int)
    return pd.DataFrame({"g": rng.choice(3, n, p=SHARES), "kind": np.where(time, "time", "place"),
                         "w": np.where(time, np.array(YEARS)[year], np.array(PLACES)[place]),
                         "t": np.where(time, year / (len(YEARS) - 1), place / (len(PLACES) - 1))})


def _text(g, w, rng):
    """Masked text, pronoun, form, and whether another word of the text tells the gender."""
    def one(of):                                                          # rng.choice, without its checks
        return of[rng.integers(len(of))]

    form = [*FORMS][_UP_TO.searchsorted(rng.random(), side="right")]
    job, other = (JOBS[i] for i in rng.choice(len(JOBS), 2, replace=False))
    if form in TOLD:
        guest = one(GUESTS)
        if form == "participant" and guest != "someone":
            guest = GUESTS[g]                                         # of neutral gender: someone
        body = f"the {job} told {guest} that {{she}} {one(TOLD[form])}"
        specified = form == "participant" and guest != "someone"
    else:
        body, specified = one(ALONE if form == "alone" else NAMED), form == "named"
    words = {name: forms[g] for name, forms in WORDS.items()}
    asked = next(name for name in ("she", "her") if f"{{{name}}}" in body)        # the first pronoun is masked
    words |= {"stage": one(STAGES), "job": job, "other": other}
    body = body.replace(f"{{{asked}}}", "[MASK]", 1).format(**words)
    text = [f"In {w}, {body}.", f"In {w}: {body}.", f"{body} in {w}."][rng.integers(3)]
    return text[0].upper() + text[1:], WORDS[asked][g], form, specified
