"""Questions of a conversation about a generated story: their form, the words put forward, how they lean on the last."""
from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from probebook.corpora.stories.facts import UNKNOWN, Fact, Query, entails, told
from probebook.corpora.stories.schemas import MEN, SCHEMAS, VALUES, WOMEN, Schema

WH, YES_NO = .5, .35                        # of the questions; the others give two options
NEAR = .7                                   # of the false words put forward are words of the story, if it has any
FOLLOWS, PRONOUN, ELLIPSIS = .5, .8, .25    # goes on from the question before; then says she, he, it; says no more
TWO_STEPS = .1                              # What colour was the thing that Mary bought?
DENIED = .3                                 # of the facts that a question with the answer no is about
DENIAL_ONLY = .25                           # of the questions without an answer: the fact is denied, and no more said
SPOKEN_OF = .8                              # of the words of questions without an answer are words of the story
ENTITIES = ("person", "thing", "animal", "garment", "fixture", "opening", "building", "work")
PRONOUNS = {name: ("she", "her") for name in WOMEN} | {name: ("he", "him") for name in MEN}
_ROLE = re.compile(r"\{(\w+)\}")
_ASKED = [(name, role) for name, schema in SCHEMAS.items() for role in schema.roles
          if role in schema.wh or role in schema.yes_no]
_CAN_ASK = {*_ASKED}
_ROLES = {text: [role for role in _ROLE.findall(text) if role != "x"]
          for schema in SCHEMAS.values() for texts in (*schema.wh.values(), *schema.yes_no.values(),
                                                       schema.described.values()) for text in texts}


@dataclass
class Story:
    """A story that is being drawn up."""
    facts: list[Fact] = field(default_factory=list)
    taken: set = field(default_factory=set)                             # (schema, role, word)
    words: dict[str, list[str]] = field(default_factory=dict)           # type → those of the story
    shown: list[set] = field(default_factory=list)          # of each fact, its words that questions have brought up
    last: tuple[int, str, dict] = (-1, "", {})              # of the last question: fact, schema, role → word
    before: set = field(default_factory=set)                # the words of the last question and its answer


def ask(rng: random.Random, story: Story, deny: bool = False) -> tuple[str, Query] | None:
    """A question about a fact, for a word of it that no question has brought up. `deny`: the fact is then denied."""
    found = [(i, name, values, role) for i, fact in enumerate(story.facts) for name, values, holds, roles in told(fact)
             if holds for role in roles if values[role] not in story.shown[i] and (name, role) in _CAN_ASK]
    last = set(story.last[2].values()) if rng.random() < FOLLOWS else set()
    found = [c for c in found if any(word in last for role, word in c[2].items() if role != c[3])] or found
    if not found:
        return None
    i, name, values, role = rng.choice(found)
    schema, holds = SCHEMAS[name], rng.random() < .5
    form = 0 if deny else _form(rng, schema, role)
    if schema.pair and form == 1 and not holds:
        values = dict(zip(schema.roles, [values[r] for r in reversed(schema.roles)]))
    texts = [t for t in (schema.yes_no if form else schema.wh).get(role, ()) if values.keys() >= {*_ROLES[t]}]
    if not texts:
        return None
    text = rng.choice(texts)
    bound = {r: values[r] for r in _ROLES[text]}
    if deny and (schema.complement or schema.pair or not _deny(rng, story, i, name, {role, *bound})):
        return None
    if not form and story.last[:2] == (i, name) and text.startswith("Whe") and rng.random() < ELLIPSIS:
        text, bound = f"{text.split()[0]}?", {r: word for r, word in story.last[2].items() if r in values and r != role}
    word, put = values[role], ()
    if form == 1:
        denied = ((schema.complement or not holds) and not schema.pair and rng.random() < DENIED
                  and _deny(rng, story, i, name, {role, *bound}))
        put = (word if schema.pair or holds != denied else _false(rng, story, schema, role, values),)
    elif form == 2 and schema.pair:
        text = f"Who was {name}, {{x}}?" if "who" in values else f"Which was {name}, the {{x}}?"
        bound, put = {}, tuple(rng.sample([values[r] for r in schema.roles], 2))
    elif form == 2:
        put = tuple(rng.sample([word, _false(rng, story, schema, role, values)], 2))
    story.shown[i] |= {*bound.values(), word}
    story.last = (i, name, bound | {role: word})
    return _worded(rng, story, text, Query(name, role, bound, put), {*put} if form or deny else {word}, i)


def ask_unanswered(rng: random.Random, story: Story) -> tuple[str, Query] | None:
    """A question about persons and things of the story to which it has no answer."""
    if rng.random() < DENIAL_ONLY and (made := ask(rng, story, deny=True)):
        return made
    name, role = rng.choice(_ASKED)
    if rng.random() < .7:                                   # another question about what is spoken of
        of = rng.choice(story.facts).schema
        name, role = rng.choice([pair for pair in _ASKED if pair[0] == of] or [(name, role)])
    schema = SCHEMAS[name]
    form = _form(rng, schema, role)
    if form == 2 and schema.pair:
        return None
    text = rng.choice((schema.yes_no if form else schema.wh)[role])
    kinds = schema.roles
    bound = {r: rng.choice(rng.random() < SPOKEN_OF and story.words.get(kinds[r]) or VALUES[kinds[r]])
             for r in _ROLES[text]}
    put = ()
    for _ in range(form):
        put += (_false(rng, story, schema, role, bound | dict(enumerate(put))),)
    query = Query(name, role, bound, put)
    if len({*bound.values(), *put}) < len(bound) + len(put) or entails(story.facts, query) != UNKNOWN:
        return None
    for fact, shown in zip(story.facts, story.shown):
        if fact.schema == name and not {*bound.values()}.isdisjoint(fact.values.values()):
            shown.add("")                                   # a denial of it could be an answer
    story.last = (-1, name, bound)
    return _worded(rng, story, text, query, {*put})


def denial(rng: random.Random, fact: Fact, within: set[str] | None = None) -> Fact | None:
    """The same fact denied by "not", saying no more than the roles `within`."""
    within = fact.values.keys() if within is None else within & fact.values.keys()
    forms = [i for i, form in enumerate(SCHEMAS[fact.schema].forms)
             if not form.holds and not form.lexical and within >= {*form.roles}]
    if not forms:
        return None
    form = rng.choice(forms)
    return Fact(fact.schema, form, {role: fact.values[role] for role in SCHEMAS[fact.schema].forms[form].roles})


def _deny(rng: random.Random, story: Story, i: int, name: str, asked: set[str]) -> bool:
    """Turn a fact that nobody has asked about into its denial, if that decides a question with the asked roles."""
    fact = story.facts[i]
    if story.shown[i] or fact.schema != name or not (denied := denial(rng, fact, asked)):
        return False
    story.facts[i], story.shown[i] = denied, {*fact.values.values()}
    return True


def _form(rng: random.Random, schema: Schema, role: str) -> int:
    """0: who, what …; 1: yes or no; 2: one or the other."""
    if role not in schema.yes_no:
        return 0
    draw = rng.random()
    if role in schema.wh and draw < WH:
        return 0
    return 1 if draw < WH + YES_NO else 2


def _false(rng: random.Random, story: Story, schema: Schema, role: str, values: dict) -> str:
    """Another word of the role's type than the values."""
    kind = schema.roles[role]
    near = [word for word in story.words.get(kind, ()) if word not in values.values()]
    if near and rng.random() < NEAR:
        return rng.choice(near)
    return rng.choice([word for word in VALUES[kind] if word not in values.values()])


def _worded(rng: random.Random, story: Story, text: str, query: Query, new: set[str],
            i: int = -1) -> tuple[str, Query]:
    """The question in words: with a thing described by what happened to it, or pronouns for what was just spoken of."""
    before, story.before = story.before, {*query.bound.values(), *new}
    words = dict(query.bound)
    if i >= 0 and "to {" not in text and rng.random() < TWO_STEPS and (step := _step(rng, story, query, i)):
        role, text, inner = step[0], re.sub(rf"(the )?\{{{step[0]}\}}", step[1], text), step[2]
        query = query._replace(bound=query.bound | {role: inner})
    elif rng.random() < PRONOUN:
        for role, word in query.bound.items():
            if pronoun := _pronoun(story, word, role, before):
                text = re.sub(rf"(the )?\{{{role}\}}", pronoun, text)
    if len(query.values) == 2:
        text = re.sub(r"((?:the |a )?)\{x\}", r"\1{x} or \1{y}", text)
    return text.format(**words, **dict(zip("xy", query.values))), query


def _step(rng: random.Random, story: Story, query: Query, i: int) -> tuple[str, str, Query] | None:
    """(role of the question, description of its word by a fact nobody has asked about, query that finds the word)."""
    found = []
    for role, word in query.bound.items():
        for j, fact in enumerate(story.facts):
            schema = SCHEMAS[fact.schema]
            if j == i or story.shown[j] or not schema.forms[fact.form].holds:
                continue
            for own, text in schema.described.items():
                if fact.values.get(own) == word and fact.values.keys() >= {*_ROLES[text]}:
                    found.append((j, role, own, text))
    if not found:
        return None
    j, role, own, text = rng.choice(found)
    fact = story.facts[j]
    bound = {r: fact.values[r] for r in _ROLES[text]}
    story.shown[j] |= {fact.values[own], *bound.values()}
    return role, text.format(**bound), Query(fact.schema, own, bound)


def _pronoun(story: Story, word: str, role: str, before: set[str]) -> str | None:
    """What a word of the question before can be called, if only one of its words can be called so."""
    if word not in before:
        return None
    if word in PRONOUNS:
        alike = [w for w in before if PRONOUNS.get(w) == PRONOUNS[word]]
        return PRONOUNS[word][role == "whom"] if len(alike) == 1 else None
    things = {w for kind in ENTITIES[1:] for w in story.words.get(kind, ())}
    return "it" if word in things and len(before & things) == 1 else None
