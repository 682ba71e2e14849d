"""Sentences in plain English for probing tasks: 5 to 28 words, one clause or two, past or present.

A clause has a person or a thing as its subject and a verb with words that fit it. An adverb,
manner, place, time, purpose and circumstances (with or without a verb) are added until the sentence
has the length that was drawn. A second clause often has the first one's subject. The words stand in
`data/corpora/plain_sentences.yaml`, where [was|is] is past and present, and {my}, {him} are
pronouns of the subject.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from probebook.base import UserError
from probebook.corpora.words import phrases, word_table

SHORTEST, LONGEST = 5, 28  # words
_PAIR = re.compile(r"\[(\w+)\|(\w+)\]")
_PARTS = {"m": "manners", "p": "places", "t": "times", "u": "purposes", "s": "circumstances"}
_SLOTS = {"acts": "mptu", "states": "t", "moves": "mtu"}  # parts that may follow a verb


class Verb(NamedTuple):
    """A verb and the phrases that may follow it."""

    base: str
    third: str
    past: str
    complements: list[str]


@dataclass(frozen=True)
class Phrasebook:
    """All words of the generator."""

    pronouns: dict[str, dict[str, str]]  # subject → role ("he", "him", "my") → form
    persons: dict[str, list[str]]  # pronoun → nouns
    adjectives: list[str]
    adverbs: list[str]
    verbs: list[tuple[str, Verb]]  # letters of the parts that may follow, verb of a person
    things: list[tuple[list[str], list[Verb]]]  # subjects ("+" marks a plural), verbs
    parts: dict[str, list[str]]  # letter of `_PARTS` → phrases
    reactions: list[str]  # second clauses about the subject of the first
    openings: list[str]


@cache
def phrasebook() -> Phrasebook:
    """The words of `data/corpora/plain_sentences.yaml`."""
    table = word_table("plain_sentences")
    pronouns = {
        name: dict(zip(("he", "him", "my"), forms.split()))
        for name, forms in table["pronouns"].items()
    }
    persons = {pronoun: nouns.split() for pronoun, nouns in table["persons"].items()}
    parts = {letter: phrases(table[name]) for letter, name in _PARTS.items()}
    verbs = [(slots, verb) for name, slots in _SLOTS.items() for verb in _verbs(table[name])]
    return Phrasebook(
        pronouns,
        persons,
        table["adjectives"].split(),
        table["adverbs"].split(),
        verbs,
        _things(table["things"]),
        parts,
        phrases(table["reactions"]),
        phrases(table["openings"]),
    )


def _verbs(text: str) -> list[Verb]:
    """Lines "base third past: complement; …"."""
    lines = [line.split(":") for line in text.splitlines()]
    return [_verb(forms.split(), phrases(complements)) for forms, complements in lines]


def _verb(forms: list[str], complements: list[str]) -> Verb:
    base, third, past = forms
    return Verb(base, third, past, complements)


def _things(text: str) -> list[tuple[list[str], list[Verb]]]:
    """Lines "subject; …: base third past complement; …"."""
    things = []
    for line in text.splitlines():
        subjects, predicates = line.split(": ")
        verbs = [phrase.split(maxsplit=3) for phrase in phrases(predicates)]
        things.append((phrases(subjects), [_verb(forms[:3], forms[3:]) for forms in verbs]))
    return things


def generate(n: int, seed: int = 0) -> list[str]:
    """`n` different sentences: about half in the past, more than half with two clauses.

    10,000 take less than a second. UserError for n < 1.
    """
    if n < 1:
        raise UserError(f"n = {n}: at least 1 sentence")
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        text = _sentence(rng)
        if SHORTEST <= text.count(" ") + 1 <= LONGEST:
            found[f"{text[0].upper()}{text[1:]}."] = None
    return list(found)


def _sentence(rng: random.Random) -> str:
    book = phrasebook()
    past, length = rng.random() < 0.5, rng.randint(SHORTEST, LONGEST + 5)
    opening = rng.choice(book.openings) + ", " if rng.random() < 0.1 else ""
    if length < 9 or rng.random() < (0.5 if length < 17 else 0.25):
        return opening + _clause(rng, past, length, None, "s")[0]
    share, kind = rng.uniform(0.3, 0.7), rng.random()
    first, pronoun = _clause(rng, past, round(length * share), None, "")
    rest = round(length * (1 - share))
    if kind < 0.3 and pronoun:
        reaction = _inflect(rng.choice(book.reactions), past, pronoun)
        second = _extend(rng, reaction, past, rest, pronoun, "t")
    else:
        second = _clause(rng, past, rest, pronoun if kind < 0.75 else None, "s")[0]
    same_subject = pronoun and 0.3 <= kind < 0.75
    link = rng.choice(("and", "and", "but", "or") if same_subject else ("and", "and", "but"))
    return f"{opening}{first}, {link} {second}"


def _clause(
    rng: random.Random, past: bool, length: int, pronoun: str | None, last: str
) -> tuple[str, str | None]:
    """A clause of about `length` words, and the pronoun of its subject (None: a thing).

    `pronoun`: the subject, None for a new one; `last`: "s" if circumstances may follow.
    """
    book = phrasebook()
    if pronoun is None and rng.random() < 0.15:
        subjects, verbs = rng.choice(book.things)
        subject, verb = rng.choice(subjects), rng.choice(verbs)
        present = verb.base if subject.startswith("+") else verb.third
        text = " ".join([subject.lstrip("+"), verb.past if past else present, *verb.complements])
        return _extend(rng, text, past, length, None, "t" + last), None
    subject, pronoun = (pronoun, pronoun) if pronoun else _subject(rng)
    slots, verb = rng.choice(book.verbs)
    present = verb.third if pronoun in ("he", "she") else verb.base
    form = verb.past if past else present
    if rng.random() < 0.06:
        modals = ("could", "would", "did not") if past else ("can", "must", "will")
        form = f"{rng.choice(modals)} {verb.base}"
    elif rng.random() < 0.2:
        form = f"{rng.choice(book.adverbs)} {form}"
    text = _inflect(f"{subject} {form} {rng.choice(verb.complements)}", past, pronoun)
    return _extend(rng, text, past, length, pronoun, slots + last), pronoun


def _subject(rng: random.Random) -> tuple[str, str]:
    """Words and pronoun of one person or several: the pronoun alone, or a noun."""
    book = phrasebook()
    pronoun = rng.choice(("I", "he", "she", "we", "they", "you", "he", "she", "they"))
    if pronoun not in book.persons or rng.random() < 0.25:
        return pronoun, pronoun
    adjective = rng.choice(book.adjectives) + " " if rng.random() < 0.4 else ""
    noun = adjective + rng.choice(book.persons[pronoun])
    others = ("these", "some") if pronoun == "they" else ("a", "this")
    determiner = rng.choice(("the", "the", "the", "our", *others))
    if determiner == "a" and noun[0] in "aeiou":
        determiner = "an"
    return f"{determiner} {noun}", pronoun


def _extend(
    rng: random.Random, text: str, past: bool, length: int, pronoun: str | None, slots: str
) -> str:
    """The clause with as many of the parts in `slots` as `length` asks for, in the parts' order."""
    book = phrasebook()
    parts, missing = dict.fromkeys(_PARTS, ""), length - text.count(" ") - 1
    for slot in rng.sample(slots, len(slots)):
        phrase = rng.choice(book.parts[slot])
        if missing >= 2 and (pronoun or "{" not in phrase):
            parts[slot] = _inflect(phrase, past, pronoun)
            missing -= parts[slot].count(" ") + 1
    return " ".join([text, *filter(None, parts.values())]).replace(" which", ", which")


def _inflect(phrase: str, past: bool, pronoun: str | None) -> str:
    """The phrase in its tense, with the pronouns put in."""
    phrase = _PAIR.sub(r"\1" if past else r"\2", phrase)
    return phrase.format(**phrasebook().pronouns[pronoun]) if pronoun else phrase
