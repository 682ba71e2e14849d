"""What a sentence of a story states, and what follows from it: the answer to a question is computed, not annotated."""
from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from probebook.corpora.stories.schemas import SCHEMAS, VALUES

UNKNOWN = "unknown"
_IMPLIED = {name: {of for of, _ in schema.implied} for name, schema in SCHEMAS.items()}


class Fact(NamedTuple):
    """What one sentence states: a schema, the number of the form that tells or denies it, role → word."""
    schema: str
    form: int
    values: dict[str, str]


class Query(NamedTuple):
    """A question: the role asked about, what the others are bound to (words, or a query that finds one), the words
    that are put forward (none: who, what; one: yes or no; two: one or the other)."""
    schema: str
    asks: str
    bound: dict
    values: tuple[str, ...] = ()


def entails(facts: Iterable[Fact | None], query: Query) -> str:
    """The word, "yes" or "no" that follows from the facts, else "unknown".

    A fact denies what has the same key and another word in some role (*the coat was red*: it was not blue); a denial
    denies whatever includes it and says nothing else, unless there are two words of which one must be true."""
    facts = list(facts)
    bound = plain(facts, query).bound
    if UNKNOWN in bound.values():
        return UNKNOWN
    stated = [(values, holds) for fact in facts for values, holds, _ in _about(fact, query.schema)]
    if len(query.values) == 1:
        return _verdict(stated, _with_pair(query.schema, bound | {query.asks: query.values[0]}), query.schema)
    found = {values[query.asks] for values, holds in stated if holds and query.asks in values
             and bound.items() <= values.items() and values[query.asks] in (query.values or [values[query.asks]])
             and _in_pair(values, query)}
    return found.pop() if len(found) == 1 else UNKNOWN


def plain(facts: Iterable[Fact | None], query: Query) -> Query:
    """The query with words in the place of descriptions ("unknown" where nothing fits one)."""
    return query._replace(bound={role: entails(facts, value) if isinstance(value, Query) else value
                                 for role, value in query.bound.items()})


def _verdict(stated: list[tuple[dict, bool]], wanted: dict, name: str) -> str:
    key = ("pair",) if SCHEMAS[name].pair else SCHEMAS[name].key
    for values, holds in stated:
        if holds and wanted.items() <= values.items():
            return "yes"
    for values, holds in stated:
        if not holds:
            if values.items() <= wanted.items():
                return "no"
        elif all(role in values and values[role] == wanted.get(role) for role in key):
            if any(values.get(role, word) != word for role, word in wanted.items()):
                return "no"
    return UNKNOWN


def told(fact: Fact) -> Iterator[tuple[str, dict, bool, dict]]:
    """(schema, role → word, holds, role → role of the fact) of what a fact states and implies."""
    schema = SCHEMAS[fact.schema]
    holds = schema.forms[fact.form].holds
    yield fact.schema, _with_pair(fact.schema, fact.values), holds, {role: role for role in fact.values}
    if holds:
        for name, roles in schema.implied:
            if fact.values.keys() >= {*roles.values()}:
                yield name, {role: fact.values[of] for role, of in roles.items()}, True, roles
    elif schema.complement and schema.complement in fact.values:
        role = schema.complement
        yield fact.schema, fact.values | {role: other(schema.roles[role], fact.values[role])}, True, {}


def _about(fact: Fact | None, name: str) -> list[tuple[dict, bool, dict]]:
    """What is told of one schema."""
    if fact is None or fact.schema != name and name not in _IMPLIED[fact.schema]:
        return []
    return [rest for of, *rest in told(fact) if of == name]


def other(kind: str, word: str) -> str:
    """The other word of a type that has two."""
    one, two = VALUES[kind]
    return two if word == one else one


def _in_pair(values: dict, query: Query) -> bool:
    return len(query.values) != 2 or "pair" not in values or values["pair"] == frozenset(query.values)


def _with_pair(name: str, values: dict) -> dict:
    return values | {"pair": frozenset(values.values())} if SCHEMAS[name].pair else values


def rationale(facts: list[Fact | None], query: Query) -> list[int]:
    """Numbers of the first sentences from which the answer follows; none if it is unknown."""
    if entails(facts, query) == UNKNOWN:
        return []
    needed = {i for value in query.bound.values() if isinstance(value, Query) for i in rationale(facts, value)}
    one = plain(facts, query)
    needed.add(next(i for i, fact in enumerate(facts) if entails([fact], one) != UNKNOWN))
    return sorted(needed)


def sentence(fact: Fact) -> tuple[str, dict[str, tuple[int, int]]]:
    """Its text, and where in it the words of the roles stand."""
    parts, text, places = SCHEMAS[fact.schema].forms[fact.form].parts, "", {}
    for i, part in enumerate(parts):
        if i % 2:
            word = fact.values[part]
            places[part] = (len(text), len(text) + len(word))
            part = word
        text += part
    return text, places


def place(facts: list[Fact | None], spans: list[tuple[int, int]], query: Query, answer: str) -> tuple[int, int]:
    """Where the answer stands in a story whose sentences are the `spans`: (−1, −1) if it is no word of it."""
    if answer in ("yes", "no", UNKNOWN):
        return -1, -1
    bound = plain(facts, query).bound
    for fact, (start, _) in zip(facts, spans):
        for values, holds, roles in _about(fact, query.schema):
            if holds and bound.items() <= values.items() and query.asks in roles:
                if values[query.asks] == answer and _in_pair(values, query):
                    first, last = sentence(fact)[1][roles[query.asks]]
                    return start + first, start + last
    return -1, -1


def spans_of(texts: list[str]) -> list[tuple[int, int]]:
    """(start, end) of each text when they are joined by blanks."""
    spans, at = [], 0
    for text in texts:
        spans.append((at, at + len(text)))
        at += len(text) + 1
    return spans


def retold(rng: random.Random, fact: Fact, fewer: bool = False) -> Fact:
    """The same fact in other words, if there are any; `fewer`: else as much of it as other words can say."""
    forms = SCHEMAS[fact.schema].forms
    others = [i for i, form in enumerate(forms) if i != fact.form and form.holds == forms[fact.form].holds
              and not form.lexical and fact.values.keys() >= {*form.roles}]
    most = max((len(forms[i].roles) for i in others), default=0) if fewer else len(fact.values)
    form = rng.choice([i for i in others if len(forms[i].roles) == most] or [fact.form])
    return Fact(fact.schema, form, {role: fact.values[role] for role in forms[form].roles})
