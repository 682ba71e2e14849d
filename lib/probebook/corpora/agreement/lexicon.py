"""The lexicon of the agreement generator, read from `data/corpora/agreement.yaml`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from probebook.corpora.words import phrases, word_table

KINDS = ["person", "animal", "area", "spot", "thing", "text"]
_LETTERS = {"P": ["person"], "A": ["animal"], "L": ["area", "spot"], "T": ["thing"], "X": ["text"]}


@dataclass(frozen=True)
class Noun:
    """A countable noun. `pocket-agreement` is not trained on those of the split "test"."""

    singular: str
    plural: str
    kind: str
    split: str

    def form(self, number: int) -> str:
        """The singular for 0, the plural for 1."""
        return self.plural if number else self.singular


@dataclass(frozen=True)
class Lexicon:
    """Nouns, and for the kind of a sentence's subject the phrases that may follow it.

    `prepositions`: of (kind of subject, kind of attractor); a missing pair is never made."""

    nouns: list[Noun]
    predicates: dict[str, list[tuple[str, str, str]]]  # (plural form, singular form, continuation)
    prepositions: dict[tuple[str, str], list[str]]
    places: list[str]
    adjectives: dict[str, list[str]]
    relatives: dict[str, list[str]]
    object_relatives: dict[str, list[str]]  # verbs of "that the PERSON saw"
    place_relatives: dict[str, list[str]]  # clauses that a prepositional phrase of place completes
    adverbs: list[str]
    openings: list[str]
    determiners: list[str]


@cache
def load_lexicon() -> Lexicon:
    """All words of the generator."""
    table = word_table("agreement")
    places = phrases(table["place"])
    return Lexicon(
        nouns=[
            _noun(entry, kind, i)
            for kind in KINDS
            for i, entry in enumerate(table["nouns"][kind].split())
        ],
        predicates=_predicates(table["verbs"]),
        prepositions={
            (subject, attractor): [
                preposition
                for phrase in phrases(text)
                for preposition in (places if phrase == "PLACE" else [phrase])
            ]
            for subject, row in table["prepositions"].items()
            for attractor, text in row.items()
        },
        places=places,
        adjectives=_by_kind(table["adjectives"], str.split),
        relatives=_by_kind(table["relatives"], phrases),
        object_relatives=_by_kind(table["relatives of a person"], str.split),
        place_relatives=_by_kind(table["relatives of place"], phrases),
        adverbs=table["adverbs"].split(),
        openings=phrases(table["openings"]),
        determiners=table["determiners"].split(),
    )


def _by_kind(texts: dict[str, str], split: Callable[[str], list[str]]) -> dict[str, list[str]]:
    return {kind: split(text) for kind, text in texts.items()}


def _noun(entry: str, kind: str, place: int) -> Noun:
    singular, _, irregular = entry.partition(":")
    split = "test" if place % 5 in (1, 3) else "train"
    return Noun(singular, irregular or plural(singular), kind, split)


def plural(noun: str) -> str:
    """The regular plural."""
    if noun.endswith(("s", "sh", "ch", "x", "z")) or noun == "hero":
        return noun + "es"
    return noun[:-1] + "ies" if noun[-1] == "y" and noun[-2] not in "aeiou" else noun + "s"


def _predicates(text: str) -> dict[str, list[tuple[str, str, str]]]:
    """Lines "plural singular LETTERS: continuation; …" by the kinds that the letters stand for."""
    predicates: dict[str, list[tuple[str, str, str]]] = {kind: [] for kind in KINDS}
    for line in text.splitlines():
        verb, _, continuations = line.partition(": ")
        plural_form, singular_form, letters = verb.split()
        for letter in letters:
            for kind in _LETTERS[letter]:
                predicates[kind] += [
                    (plural_form, singular_form, continuation)
                    for continuation in phrases(continuations)
                ]
    return predicates
