"""A generated world of short stories with conversations about them; every right answer is known.

It follows from what the sentences state, whatever is done to the text. No sentence depends on
another: each names the persons and things it speaks of. The answer cannot be guessed from the
question: the words put forward are drawn alike for true and false, and in each schema yes and no
are equally likely.

    table = stories.generate(100)            # one row per question
"""

from __future__ import annotations

import random
from itertools import count

import pandas as pd

from probebook.base import UserError
from probebook.corpora.stories.facts import (
    UNKNOWN,
    Fact,
    Query,
    answer_span,
    entails,
    rationale,
    rephrase,
    sentence,
    spans_of,
    statements,
)
from probebook.corpora.stories.questions import ENTITIES, Story, ask, ask_unanswered, denial
from probebook.corpora.stories.schemas import all_schemas, words

REUSE = 0.35  # share of a sentence's persons and things that are in the story already
DENIALS = 0.08  # share of the facts that no question is about
TURNS = (3, 6)
TRIES = 9  # to find one more fact of a schema of the story; then of any schema


def generate(
    n: int,
    seed: int = 0,
    length: tuple[int, int] = (4, 12),
    distractors: float = 0.5,
    repeat: float = 0.1,
    unknown: float = 0.1,
) -> pd.DataFrame:
    """`n` stories of `length` sentences (from, to), each with 3 to 6 questions: one row per
    question.

    - `distractors`: share of the facts whose schema the story has already, with other words
    - `repeat`: share of the facts that are stated twice, in other words
    - `unknown`: share of the questions to which the story has no answer

    Short stories may have fewer questions. Columns:

    - story_id, turn, story, question, history, answer
    - gold: the answer to the original story
    - kind: "span", "yes/no", "number", "option" or "unknown"
    - start, end: of the answer; −1 if it is no word of the story
    - rationale: spans of the first sentences from which the answer follows (one or two)
    - sentences: spans; edit: "OS", the original story
    - facts (one per sentence) and query, from which `facts.entails` computes the answer

    UserError for impossible sizes and shares.
    """
    if n < 1 or not 1 <= length[0] <= length[1] <= 40:
        raise UserError(
            f"n = {n}, length = {length}: at least 1 story, of 1 to 40 sentences, as (from, to)"
        )
    for name, share in (("distractors", distractors), ("repeat", repeat), ("unknown", unknown)):
        if not 0 <= share <= 1:
            raise UserError(f"{name} = {share}: a share from 0 to 1")
    rng, rows = random.Random(seed), []
    for number in range(n):
        facts, questions = _draw(rng, rng.randint(*length), distractors, repeat, unknown)
        rows += _rows(number, facts, questions)
    return pd.DataFrame(rows)


def _draw(
    rng: random.Random, size: int, distractors: float, repeat: float, unknown: float
) -> tuple[list[Fact], list[tuple[str, Query]]]:
    """The facts in the order of their sentences, and the questions."""
    story, twice = Story(), 0
    while len(story.facts) + twice < size:
        _add(rng, story, distractors)
        twice += rng.random() < repeat and len(story.facts) + twice < size
    questions = []
    for _ in range(rng.randint(*TURNS)):
        draw = ask_unanswered if rng.random() < unknown else ask
        for _ in range(4):
            if question := draw(rng, story):
                questions.append(question)
                break
    facts = [
        denial(rng, fact) or fact if not mentions and rng.random() < DENIALS else fact
        for fact, mentions in zip(story.facts, story.mentions)
    ]
    facts += [rephrase(rng, fact, fewer=True) for fact in rng.sample(facts, twice)]
    rng.shuffle(facts)
    return facts, questions


def _add(rng: random.Random, story: Story, distractors: float) -> None:
    """One more fact that agrees with the others: what is true of one thing is true of no other."""
    for attempt in count():
        again = story.facts and attempt < TRIES and rng.random() < distractors
        name = rng.choice(story.facts).schema if again else rng.choice(list(all_schemas()))
        fact = _fact(rng, story, name)
        uses = _uses(fact)
        values = fact.values.values()
        distinct = len({*values}) == len(values) and len({*uses}) == len(uses)
        if distinct and story.uses.isdisjoint(uses):
            break
    story.uses.update(uses)
    story.facts.append(fact)
    story.mentions.append(set())
    for role, word in fact.values.items():
        known = story.words.setdefault(all_schemas()[name].roles[role], [])
        if word not in known:
            known.append(word)


def _fact(rng: random.Random, story: Story, name: str) -> Fact:
    """A fact of a schema, some of whose persons and things are in the story already."""
    schema = all_schemas()[name]
    form = rng.choice(schema.statements)
    values = {}
    for role in schema.forms[form].roles:
        kind = schema.roles[role]
        known = story.words.get(kind) if kind in ENTITIES and rng.random() < REUSE else None
        values[role] = rng.choice(known or words()[kind])
    return Fact(name, form, values)


def _uses(fact: Fact) -> list[tuple[str, str, str]]:
    """(schema, role, word) of what a fact states; words of types that have only two may recur."""
    uses = []
    for name, values, _, roles in statements(fact):
        kinds = all_schemas()[name].roles
        uses += [
            (name, role, word)
            for role, word in values.items()
            if role in roles and len(words()[kinds[role]]) > 2
        ]
    if all_schemas()[fact.schema].pair:  # no chains: older is transitive
        uses += [(fact.schema, "pair", word) for word in fact.values.values()]
    return uses


def _rows(number: int, facts: list[Fact], questions: list[tuple[str, Query]]) -> list[dict]:
    texts = [sentence(fact)[0] for fact in facts]
    spans = spans_of(texts)
    story, rows = " ".join(texts), []
    history: list[tuple[str, str]] = []
    for turn, (question, query) in enumerate(questions):
        answer = entails(facts, query)
        start, end = answer_span(facts, spans, query, answer)
        rows.append(
            {
                "story_id": number,
                "turn": turn,
                "story": story,
                "question": question,
                "history": history,
                "answer": answer,
                "gold": answer,
                "kind": _kind(query, answer),
                "start": start,
                "end": end,
                "rationale": [spans[i] for i in rationale(facts, query)],
                "sentences": spans,
                "edit": "OS",
                "facts": facts,
                "query": query,
            }
        )
        history = [*history, (question, answer)]
    return rows


def _kind(query: Query, answer: str) -> str:
    if answer == UNKNOWN:
        return UNKNOWN
    number = all_schemas()[query.schema].roles[query.asks] == "number"
    return ["number" if number else "span", "yes/no", "option"][len(query.values)]
