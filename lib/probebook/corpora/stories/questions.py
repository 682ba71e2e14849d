"""The questions of a conversation about a story: their form, their words, how they refer to the
last."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from probebook.corpora.stories.facts import UNKNOWN, Fact, Query, entails, statements
from probebook.corpora.stories.schemas import Schema, all_schemas, pronouns, words

# shares of the questions
WH, YES_NO = 0.5, 0.35  # who, what …; yes or no; the others offer two options
FOLLOW = 0.5  # continue the question before
PRONOUN = 0.8  # use she, he, it for a word of the question before
ELLIPSIS = 0.25  # of those about the same fact as the one before: just "Where?"
TWO_STEPS = 0.1  # What colour was the thing that Mary bought?
# shares of something else
NEAR = 0.7  # of the false words: words of the story, if it has any
DENIALS = 0.3  # of the facts that a question with the answer no is about
DENIAL_ONLY = 0.25  # of the questions without an answer: a fact is just denied
IN_STORY = 0.8  # of the words of questions without an answer
RELATED = 0.7  # of the questions without an answer: on a schema of the story
ENTITIES = ("person", "thing", "animal", "garment", "fixture", "opening", "building", "work")


@dataclass
class Story:
    """A story that is being drawn up.

    uses: (schema, role, word) of what is true of one thing and so of no other
    words: type → words of the story
    mentions: for each fact, its words that questions have brought up
    last: fact, schema and role → word of the last question
    last_words: words of the last question and its answer
    """

    facts: list[Fact] = field(default_factory=list)
    uses: set[tuple[str, str, str]] = field(default_factory=set)
    words: dict[str, list[str]] = field(default_factory=dict)
    mentions: list[set[str]] = field(default_factory=list)
    last: tuple[int, str, dict] = (-1, "", {})
    last_words: set = field(default_factory=set)


class _Topic(NamedTuple):
    """A word to ask for: number of the fact, schema, role → word, and the role of the word."""

    fact: int
    schema: str
    values: dict
    role: str


@cache
def _topics() -> list[tuple[str, str]]:
    """Every (schema, role) that some question asks about."""
    return [
        (name, role)
        for name, schema in all_schemas().items()
        for role in schema.roles
        if role in schema.wh or role in schema.yes_no
    ]


@cache
def _roles(text: str) -> list[str]:
    """The roles in a template, without {x}."""
    return [role for role in re.findall(r"\{(\w+)\}", text) if role != "x"]


def ask(rng: random.Random, story: Story, deny: bool = False) -> tuple[str, Query] | None:
    """A question for a word of the story that no question has brought up; None if the draw fails.

    `deny`: the story then denies the fact.
    """
    topic = _topic(rng, story)
    if topic is None:
        return None
    i, name, values, role = topic
    schema, holds = all_schemas()[name], rng.random() < 0.5
    form = 0 if deny else _question_form(rng, schema, role)
    if schema.pair and form == 1 and not holds:
        values = dict(zip(schema.roles, [values[r] for r in reversed(schema.roles)]))
    texts = [
        text
        for text in (schema.yes_no if form else schema.wh).get(role, ())
        if values.keys() >= {*_roles(text)}
    ]
    if not texts:
        return None
    text = rng.choice(texts)
    bound = {r: values[r] for r in _roles(text)}
    if deny:
        unfit = schema.complement or schema.pair
        if unfit or not _deny(rng, story, i, name, {role, *bound}):
            return None
    same_fact = not form and story.last[:2] == (i, name) and text.startswith("Whe")
    if same_fact and rng.random() < ELLIPSIS:
        text = f"{text.split()[0]}?"
        bound = {r: word for r, word in story.last[2].items() if r in values and r != role}
    word = values[role]
    put: tuple[str, ...] = ()
    if form == 1:
        denied = (
            (schema.complement or not holds)
            and not schema.pair
            and rng.random() < DENIALS
            and _deny(rng, story, i, name, {role, *bound})
        )
        true = schema.pair or holds != denied
        put = (word if true else _false_word(rng, story, schema, role, values),)
    elif form == 2 and schema.pair:
        text = f"Who was {name}, {{x}}?" if "who" in values else f"Which was {name}, the {{x}}?"
        bound, put = {}, tuple(rng.sample([values[r] for r in schema.roles], 2))
    elif form == 2:
        put = tuple(rng.sample([word, _false_word(rng, story, schema, role, values)], 2))
    story.mentions[i] |= {*bound.values(), word}
    story.last = (i, name, bound | {role: word})
    new = {*put} if form or deny else {word}
    return _wording(rng, story, text, Query(name, role, bound, put), new, i)


def _topic(rng: random.Random, story: Story) -> _Topic | None:
    """A word that no question has brought up, often one that continues the last question."""
    topics = []
    for i, fact in enumerate(story.facts):
        for name, values, holds, roles in statements(fact):
            schema = all_schemas()[name]
            topics += [
                _Topic(i, name, values, role)
                for role in roles
                if holds
                and values[role] not in story.mentions[i]
                and (role in schema.wh or role in schema.yes_no)
            ]
    last = set(story.last[2].values()) if rng.random() < FOLLOW else set()
    related = [
        topic
        for topic in topics
        if any(word in last for role, word in topic.values.items() if role != topic.role)
    ]
    return rng.choice(related or topics) if topics else None


def ask_unanswered(rng: random.Random, story: Story) -> tuple[str, Query] | None:
    """A question about the story to which it has no answer; None if the draw fails."""
    if rng.random() < DENIAL_ONLY and (question := ask(rng, story, deny=True)):
        return question
    name, role = rng.choice(_topics())
    if rng.random() < RELATED:
        of = rng.choice(story.facts).schema
        name, role = rng.choice([pair for pair in _topics() if pair[0] == of] or [(name, role)])
    schema = all_schemas()[name]
    form = _question_form(rng, schema, role)
    if form == 2 and schema.pair:
        return None
    text = rng.choice((schema.yes_no if form else schema.wh)[role])
    bound = {}
    for r in _roles(text):
        kind = schema.roles[r]
        in_story = rng.random() < IN_STORY and story.words.get(kind)
        bound[r] = rng.choice(in_story or words()[kind])
    put: tuple[str, ...] = ()
    for _ in range(form):
        put += (_false_word(rng, story, schema, role, bound | dict(enumerate(put))),)
    query = Query(name, role, dict(bound), put)
    repeats = len({*bound.values(), *put}) < len(bound) + len(put)
    if repeats or entails(story.facts, query) != UNKNOWN:
        return None
    for fact, mentions in zip(story.facts, story.mentions):
        if fact.schema == name and not {*bound.values()}.isdisjoint(fact.values.values()):
            mentions.add("")  # so it is never denied: that could be an answer
    story.last = (-1, name, bound)
    return _wording(rng, story, text, query, {*put})


def denial(rng: random.Random, fact: Fact, within: set[str] | None = None) -> Fact | None:
    """The same fact denied by "not", with no other roles than `within`; None if no form fits."""
    allowed = set(fact.values) if within is None else within & fact.values.keys()
    forms = all_schemas()[fact.schema].forms
    fitting = [
        i
        for i, form in enumerate(forms)
        if not form.holds and not form.lexical and allowed >= {*form.roles}
    ]
    if not fitting:
        return None
    form = rng.choice(fitting)
    return Fact(fact.schema, form, {role: fact.values[role] for role in forms[form].roles})


def _deny(rng: random.Random, story: Story, i: int, name: str, roles: set[str]) -> bool:
    """Replace a fact that no question mentions by its denial, if that decides a question of these
    roles."""
    fact = story.facts[i]
    if story.mentions[i] or fact.schema != name or not (denied := denial(rng, fact, roles)):
        return False
    story.facts[i], story.mentions[i] = denied, {*fact.values.values()}
    return True


def _question_form(rng: random.Random, schema: Schema, role: str) -> int:
    """0: who, what …; 1: yes or no; 2: one or the other."""
    if role not in schema.yes_no:
        return 0
    draw = rng.random()
    if role in schema.wh and draw < WH:
        return 0
    return 1 if draw < WH + YES_NO else 2


def _false_word(rng: random.Random, story: Story, schema: Schema, role: str, values: dict) -> str:
    """Another word of the role's type than the values."""
    kind = schema.roles[role]
    near = [word for word in story.words.get(kind, ()) if word not in values.values()]
    if near and rng.random() < NEAR:
        return rng.choice(near)
    return rng.choice([word for word in words()[kind] if word not in values.values()])


def _wording(
    rng: random.Random, story: Story, text: str, query: Query, new: set[str], i: int = -1
) -> tuple[str, Query]:
    """The question in words: perhaps with a thing described by another fact, or with pronouns for
    words of the last question."""
    before, story.last_words = story.last_words, {*query.bound.values(), *new}
    values = dict(query.bound)
    two_steps = i >= 0 and "to {" not in text and rng.random() < TWO_STEPS
    if two_steps and (step := _description(rng, story, query, i)):
        role, description, inner = step
        text = re.sub(rf"(the )?\{{{role}\}}", description, text)
        query = query._replace(bound=query.bound | {role: inner})
    elif rng.random() < PRONOUN:
        for role, word in query.bound.items():
            if isinstance(word, str) and (pronoun := _pronoun(story, word, role, before)):
                text = re.sub(rf"(the )?\{{{role}\}}", pronoun, text)
    if len(query.values) == 2:
        text = re.sub(r"((?:the |a )?)\{x\}", r"\1{x} or \1{y}", text)
    return text.format(**values, **dict(zip("xy", query.values))), query


def _description(
    rng: random.Random, story: Story, query: Query, i: int
) -> tuple[str, str, Query] | None:
    """A role of the query, the description of its word by a fact that no question mentions, and the
    query that finds the word."""
    found = []
    for role, word in query.bound.items():
        for j, fact in enumerate(story.facts):
            schema = all_schemas()[fact.schema]
            if j == i or story.mentions[j] or not schema.forms[fact.form].holds:
                continue
            for own, text in schema.descriptions.items():
                if fact.values.get(own) == word and fact.values.keys() >= {*_roles(text)}:
                    found.append((j, role, own, text))
    if not found:
        return None
    j, role, own, text = rng.choice(found)
    fact = story.facts[j]
    bound = {r: fact.values[r] for r in _roles(text)}
    story.mentions[j] |= {fact.values[own], *bound.values()}
    return role, text.format(**bound), Query(fact.schema, own, dict(bound))


def _pronoun(story: Story, word: str, role: str, before: set[str]) -> str | None:
    """The pronoun for a word of the last question, if it can stand for no other word of it."""
    if word not in before:
        return None
    if word in pronouns():
        alike = [w for w in before if pronouns().get(w) == pronouns()[word]]
        return pronouns()[word][role == "whom"] if len(alike) == 1 else None
    things = {w for kind in ENTITIES[1:] for w in story.words.get(kind, ())}
    return "it" if word in things and len(before & things) == 1 else None
