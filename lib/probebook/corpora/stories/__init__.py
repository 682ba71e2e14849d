"""A generated world of short stories with conversations about them, in which the right answer to every question follows
from what the sentences state, whatever is done to the text.

Sentences do not lean on each other: whom and what they speak of is named. The answer cannot be guessed from the
question: the words put forward are drawn alike for true and false, yes and no are equally likely in each schema."""
from __future__ import annotations

import random
from itertools import count

import pandas as pd

from probebook.base import UserError
from probebook.corpora.stories.facts import (
    UNKNOWN,
    Fact,
    Query,
    entails,
    place,
    rationale,
    retold,
    sentence,
    spans_of,
    told,
)
from probebook.corpora.stories.questions import ENTITIES, Story, ask, ask_unanswered, denial
from probebook.corpora.stories.schemas import SCHEMAS, VALUES

AGAIN = .35                                 # of the persons and things of a sentence are in the story already
ALSO_DENIED = .08                           # of the facts that nobody asks about
TURNS = (3, 6)
PATIENCE = 9                                # tries to find one more fact of a schema that the story has; then any
_NAMES = list(SCHEMAS)
_SAID = {name: [i for i, form in enumerate(schema.forms) if form.holds] for name, schema in SCHEMAS.items()}


def generate(n: int, seed: int = 0, length: tuple[int, int] = (4, 12), distractors: float = .5, repeat: float = .1,
             unknown: float = .1) -> pd.DataFrame:
    """`n` stories of `length` sentences (from, to), each with 3 to 6 questions (fewer on a short one): a row each.

    `distractors`: share of the facts that are of a schema that the story has already, with other persons and words;
    `repeat`: share of the facts that are told twice, in other words; `unknown`: share of the questions to which the
    story has no answer. Columns: story_id, turn, story, question, history, answer, gold, kind ("span", "yes/no",
    "number", "option", "unknown"), start, end (of the answer; −1: it is no word of the story), rationale (the first
    sentences from which the answer follows: one, or two), sentences (spans of characters), edit ("OS"); facts (of
    each sentence) and query, which `story_facts.entails` needs. UserError for impossible sizes and shares."""
    if n < 1 or not 1 <= length[0] <= length[1] <= 40:
        raise UserError(f"n = {n}, length = {length}: at least 1 story, of 1 to 40 sentences, as (from, to)")
    for name, share in (("distractors", distractors), ("repeat", repeat), ("unknown", unknown)):
        if not 0 <= share <= 1:
            raise UserError(f"{name} = {share}: a share from 0 to 1")
    rng = random.Random(seed)
    return pd.DataFrame([row for i in range(n)
                         for row in _rows(i, *_draw(rng, rng.randint(*length), distractors, repeat, unknown))])


def _draw(rng: random.Random, size: int, distractors: float, repeat: float,
          unknown: float) -> tuple[list[Fact], list[tuple[str, Query]]]:
    """The facts in the order in which they are told, and the questions."""
    story, twice = Story(), 0
    while len(story.facts) + twice < size:
        _add(rng, story, distractors)
        twice += rng.random() < repeat and len(story.facts) + twice < size
    asked = []
    for _ in range(rng.randint(*TURNS)):
        unanswered = rng.random() < unknown
        for _ in range(4):
            if made := (ask_unanswered if unanswered else ask)(rng, story):
                asked.append(made)
                break
    facts = [denial(rng, fact) if not shown and rng.random() < ALSO_DENIED else fact
             for fact, shown in zip(story.facts, story.shown)]
    facts += [retold(rng, fact, fewer=True) for fact in rng.sample(facts, twice)]
    rng.shuffle(facts)
    return facts, asked


def _add(rng: random.Random, story: Story, distractors: float) -> None:
    """One more fact, which agrees with the others: what is true of one thing is true of no other."""
    for attempt in count():
        repeated = story.facts and attempt < PATIENCE and rng.random() < distractors
        name = rng.choice(story.facts).schema if repeated else rng.choice(_NAMES)
        schema = SCHEMAS[name]
        form = rng.choice(_SAID[name])
        values: dict[str, str] = {}
        for role in schema.forms[form].roles:
            kind = schema.roles[role]
            known = story.words.get(kind) if kind in ENTITIES and rng.random() < AGAIN else None
            values[role] = rng.choice(known or VALUES[kind])
        fact = Fact(name, form, values)
        new = [(of, role, word) for of, words, _, roles in told(fact) for role, word in words.items()
               if role in roles and len(VALUES[SCHEMAS[of].roles[role]]) > 2]
        if schema.pair:
            new += [(name, "pair", word) for word in values.values()]       # no chains: older is transitive
        if len({*values.values()}) == len(values) and len({*new}) == len(new) and story.taken.isdisjoint(new):
            break
    story.taken.update(new)
    story.facts.append(fact)
    story.shown.append(set())
    for role, word in values.items():
        words = story.words.setdefault(schema.roles[role], [])
        if word not in words:
            words.append(word)


def _rows(number: int, facts: list[Fact], asked: list[tuple[str, Query]]) -> list[dict]:
    texts = [sentence(fact)[0] for fact in facts]
    spans = spans_of(texts)
    story, history, rows = " ".join(texts), [], []
    for turn, (question, query) in enumerate(asked):
        answer = entails(facts, query)
        start, end = place(facts, spans, query, answer)
        rows.append({"story_id": number, "turn": turn, "story": story, "question": question, "history": history,
                     "answer": answer, "gold": answer, "kind": _kind(query, answer), "start": start, "end": end,
                     "rationale": [spans[i] for i in rationale(facts, query)], "sentences": spans, "edit": "OS",
                     "facts": facts, "query": query})
        history = [*history, (question, answer)]
    return rows


def _kind(query: Query, answer: str) -> str:
    if answer == UNKNOWN:
        return UNKNOWN
    number = SCHEMAS[query.schema].roles[query.asks] == "number"
    return ["number" if number else "span", "yes/no", "option"][len(query.values)]
