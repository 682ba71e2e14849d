"""What the sentences of a story state, and what follows from them: answers are computed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from probebook.corpora.stories.schemas import all_schemas, words

UNKNOWN = "unknown"
Span = tuple[int, int]


class Fact(NamedTuple):
    """What one sentence states: a schema, the number of the form that states or denies it, and
    role → word."""

    schema: str
    form: int
    values: dict[str, str]


class Query(NamedTuple):
    """A question. `values`: the words that it puts forward: none (who, what), one (yes or no), two
    (one or the other)."""

    schema: str
    asks: str  # the role asked about
    bound: dict[str, str | Query]  # the other roles → a word, or a query that finds one
    values: tuple[str, ...] = ()


class Statement(NamedTuple):
    """A schema with role → word, whether it holds, and its roles → the roles of the fact that says
    so."""

    schema: str
    values: dict
    holds: bool
    roles: dict[str, str]


def statements(fact: Fact) -> Iterator[Statement]:
    """What a fact states and implies."""
    schema = all_schemas()[fact.schema]
    holds = schema.forms[fact.form].holds
    own = {role: role for role in fact.values}
    yield Statement(fact.schema, _with_pair(fact.schema, fact.values), holds, own)
    if holds:
        for name, roles in schema.implications:
            if fact.values.keys() >= {*roles.values()}:
                values = {role: fact.values[of] for role, of in roles.items()}
                yield Statement(name, values, True, roles)
    elif schema.complement and schema.complement in fact.values:
        role = schema.complement
        opposite_word = opposite(schema.roles[role], fact.values[role])
        yield Statement(fact.schema, fact.values | {role: opposite_word}, True, {})


@cache
def _sources(name: str) -> frozenset[str]:
    """Schemas whose facts state something of the schema `name`: itself and those that imply it."""
    return frozenset(
        of for of, schema in all_schemas().items() if of == name or name in schema.implied_schemas
    )


def _statements_about(facts: Iterable[Fact | None], name: str) -> list[tuple[int, Fact, Statement]]:
    """What the facts state of the schema `name`: number of the fact, the fact, a statement."""
    sources = _sources(name)
    return [
        (i, fact, statement)
        for i, fact in enumerate(facts)
        if fact and fact.schema in sources
        for statement in statements(fact)
        if statement.schema == name
    ]


def opposite(kind: str, word: str) -> str:
    """The other word of a type that has two."""
    one, two = words()[kind]
    return two if word == one else one


def entails(facts: Iterable[Fact | None], query: Query) -> str:
    """The word, "yes" or "no" that follows from the facts, else "unknown".

    A fact denies whatever has the same key and another word in some role (*the coat was red*: it
    was not blue). A denial denies whatever includes it. It says nothing else, unless there are two
    words of which one must be true.
    """
    facts = list(facts)
    bound = resolve(facts, query).bound
    if UNKNOWN in bound.values():
        return UNKNOWN
    found = [statement for *_, statement in _statements_about(facts, query.schema)]
    if len(query.values) == 1:
        wanted = _with_pair(query.schema, bound | {query.asks: query.values[0]})
        return _verdict(found, wanted, query.schema)
    answers = set()
    for _, values, holds, _ in found:
        if holds and query.asks in values and bound.items() <= values.items():
            word = values[query.asks]
            if word in (query.values or [word]) and _in_pair(values, query):
                answers.add(word)
    return answers.pop() if len(answers) == 1 else UNKNOWN


def resolve(facts: Iterable[Fact | None], query: Query) -> Query:
    """The query with words in place of descriptions ("unknown" where nothing fits one)."""
    if not any(isinstance(value, Query) for value in query.bound.values()):
        return query
    return query._replace(
        bound={
            role: entails(facts, value) if isinstance(value, Query) else value
            for role, value in query.bound.items()
        }
    )


def _verdict(found: list[Statement], wanted: dict, name: str) -> str:
    """ "yes", "no" or "unknown" to the question whether something wanted holds."""
    key = ("pair",) if all_schemas()[name].pair else all_schemas()[name].key
    for _, values, holds, _ in found:
        if holds and wanted.items() <= values.items():
            return "yes"
    for _, values, holds, _ in found:
        if not holds:
            if values.items() <= wanted.items():
                return "no"
        elif all(role in values and values[role] == wanted.get(role) for role in key):
            if any(values.get(role, word) != word for role, word in wanted.items()):
                return "no"
    return UNKNOWN


def _in_pair(values: dict, query: Query) -> bool:
    """Whether a comparison is between the two words that a query puts forward."""
    compared = len(query.values) == 2 and "pair" in values
    return not compared or values["pair"] == frozenset(query.values)


def _with_pair(name: str, values: dict) -> dict:
    return values | {"pair": frozenset(values.values())} if all_schemas()[name].pair else values


def rationale(facts: Sequence[Fact | None], query: Query) -> list[int]:
    """Numbers of the first sentences from which the answer follows; none if it is unknown."""
    if entails(facts, query) == UNKNOWN:
        return []
    inner = [value for value in query.bound.values() if isinstance(value, Query)]
    needed = {i for value in inner for i in rationale(facts, value)}
    resolved = resolve(facts, query)
    needed.add(next(i for i, fact in enumerate(facts) if entails([fact], resolved) != UNKNOWN))
    return sorted(needed)


def sentence(fact: Fact) -> tuple[str, dict[str, Span]]:
    """The text of a fact, and the spans of its roles' words."""
    parts, text, spans = all_schemas()[fact.schema].forms[fact.form].parts, "", {}
    for i, part in enumerate(parts):
        if i % 2:
            word = fact.values[part]
            spans[part] = (len(text), len(text) + len(word))
            part = word
        text += part
    return text, spans


def answer_span(facts: Sequence[Fact | None], spans: list[Span], query: Query, answer: str) -> Span:
    """The span of the answer in a story whose sentences have `spans`; (−1, −1) if it is no word of
    it."""
    if answer in ("yes", "no", UNKNOWN):
        return -1, -1
    bound = resolve(facts, query).bound
    for i, fact, (_, values, holds, roles) in _statements_about(facts, query.schema):
        if holds and bound.items() <= values.items() and query.asks in roles:
            if values[query.asks] == answer and _in_pair(values, query):
                first, last = sentence(fact)[1][roles[query.asks]]
                return spans[i][0] + first, spans[i][0] + last
    return -1, -1


def spans_of(texts: list[str]) -> list[Span]:
    """(start, end) of each text when blanks join them."""
    spans, at = [], 0
    for text in texts:
        spans.append((at, at + len(text)))
        at += len(text) + 1
    return spans


def rephrase(rng: random.Random, fact: Fact, fewer: bool = False) -> Fact:
    """The same fact in another form, if there is one.

    `fewer`: if no other form says all of it, take one that says as much as possible.
    """
    forms = all_schemas()[fact.schema].forms
    others = [
        i
        for i, form in enumerate(forms)
        if i != fact.form
        and form.holds == forms[fact.form].holds
        and not form.lexical
        and fact.values.keys() >= {*form.roles}
    ]
    size = len(fact.values)
    if fewer:
        size = max((len(forms[i].roles) for i in others), default=0)
    form = rng.choice([i for i in others if len(forms[i].roles) == size] or [fact.form])
    return Fact(fact.schema, form, {role: fact.values[role] for role in forms[form].roles})
