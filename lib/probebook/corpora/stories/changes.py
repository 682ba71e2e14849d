"""Negation interventions and paraphrases of generated stories: the sentences that decide a question are told anew, and
the right answer follows from the new facts (Chaturvedi et al., § 6, which edits 275 + 159 stories by hand)."""
from __future__ import annotations

import random
from itertools import combinations

import pandas as pd

from probebook.base import UserError
from probebook.corpora.stories.edits import answered
from probebook.corpora.stories.facts import (
    UNKNOWN,
    Fact,
    Query,
    entails,
    other,
    plain,
    retold,
    sentence,
    spans_of,
    told,
)
from probebook.corpora.stories.schemas import SCHEMAS, VALUES

HOW = ("negation", "antonym", "value", "role")


def negate(table: pd.DataFrame, how: str = "negation", seed: int = 0) -> pd.DataFrame:
    """The stories with the deciding fact contradicted, wherever it is told: a yes becomes a no and a no a yes.

    `how`: "negation", by not (*did not buy*; a denial loses its not); "antonym", by an opposite (*sad* for *happy*, or
    *refused to buy*); "value", another word for what is asked about (*Tom* for *Mary*; the word that a question
    answered by no puts forward); "role", two roles change places (*Tom gave Mary …* for *Mary gave Tom …*, two
    colours). Who- and what-questions then have another answer, or none. Left out are rows without an answer, those
    whose answer would not change, or from yes or no to unknown. `seed` draws the words. Columns as before; edit = how.
    UserError for a table without facts, or another `how`."""
    if how not in HOW:
        raise UserError(f"how = {how!r}: one of {', '.join(HOW)}")
    rng, rows = random.Random(seed), []
    for row in _rows(table):
        query = plain(row["facts"], row["query"])
        deciding = [i for i, fact in enumerate(row["facts"]) if fact and entails([fact], query) != UNKNOWN]
        if not deciding:
            continue
        change = {"negation": _negation, "antonym": _antonym, "value": _value, "role": _role}[how]
        new = change(rng, row, query, [row["facts"][i] for i in deciding])
        changed = _told(row, dict(zip(deciding, new)), how) if all(new) else row
        answer = changed["answer"]
        if answer == row["answer"] or row["answer"] in ("yes", "no") and answer == UNKNOWN:
            continue
        if answer in ("yes", "no", UNKNOWN) or changed["start"] >= 0:
            rows.append(changed)
    return pd.DataFrame(rows, columns=table.columns)


def paraphrase(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The stories with their rationale in other words that state the same; no answer changes. edit = "paraphrase"."""
    rng, rows = random.Random(seed), []
    for row in _rows(table):
        of = {*map(tuple, row["rationale"])}
        new = {i: retold(rng, row["facts"][i]) for i, span in enumerate(row["sentences"]) if tuple(span) in of}
        if any(fact != row["facts"][i] for i, fact in new.items()):
            rows.append(_told(row, new, "paraphrase"))
    return pd.DataFrame(rows, columns=table.columns)


def elsewhere(table: pd.DataFrame, how: str = "negation", seed: int = 0) -> pd.DataFrame:
    """The stories with a sentence contradicted that decides a *later* question of the conversation: no answer changes.

    `how`, `seed`: as in `negate`. Left out are rows without an answer, and those whose own answer or rationale would
    change. A control: as much of the text is changed as by `negate`, and nothing that the question needs. Give the
    whole table: the other questions are found in it. edit = "elsewhere"."""
    later, rows = {}, []
    for row in _rows(negate(table, how, seed)):
        later.setdefault(row["story_id"], []).append(row)
    for row in _rows(table):
        why = _texts(row)
        for changed in later.get(row["story_id"], ()):
            new = {name: changed[name] for name in ("story", "sentences", "facts")}
            if why and changed["turn"] > row["turn"]:
                new = answered(row | new | {"edit": "elsewhere"})
                if new["answer"] == row["answer"] and _texts(new) == why:
                    rows.append(new)
                    break
    return pd.DataFrame(rows, columns=table.columns)


def _texts(row: dict) -> list[str]:
    return [row["story"][start:end] for start, end in row["rationale"]]


def _rows(table: pd.DataFrame) -> list[dict]:
    if not {"facts", "query"} <= {*table.columns}:
        raise UserError("what a sentence states is known of generated stories only: give a table of stories.generate")
    return table.to_dict("records")


def _told(row: dict, new: dict[int, Fact], edit: str) -> dict:
    """The row with some sentences told anew."""
    texts = [sentence(new[i])[0] if i in new else row["story"][start:end]
             for i, (start, end) in enumerate(row["sentences"])]
    facts = [new.get(i, fact) for i, fact in enumerate(row["facts"])]
    return answered(row | {"story": " ".join(texts), "sentences": spans_of(texts), "facts": facts, "edit": edit})


# each: the deciding facts contradicted, None where that cannot be

def _negation(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    return [_turned(rng, fact, lambda form, was: form.holds != was and not form.lexical, query) for fact in facts]


def _antonym(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    return [fact._replace(values=fact.values | {"state": other(fact.schema, fact.values["state"])})
            if "state" in fact.values else _turned(rng, fact, lambda form, was: was and form.lexical, query)
            for fact in facts]


def _turned(rng: random.Random, fact: Fact, wanted, query: Query) -> Fact | None:
    """The fact in another form, which speaks of nothing new; None if the question is about something it implies."""
    forms = SCHEMAS[fact.schema].forms
    found = [i for i, form in enumerate(forms)
             if wanted(form, forms[fact.form].holds) and fact.values.keys() >= {*form.roles}]
    if not found or fact.schema != query.schema:
        return None
    form = rng.choice(found)
    return Fact(fact.schema, form, {role: fact.values[role] for role in forms[form].roles})


def _value(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    kind = SCHEMAS[query.schema].roles[query.asks]
    taken = {word for fact in row["facts"] if fact for word in fact.values.values()} - {*query.values}
    words = query.values if row["answer"] == "no" or len(query.values) == 2 else VALUES[kind]
    free = [word for word in words if word not in taken | {row["answer"]}
            and not (row["answer"] == "yes" and word in query.values)]
    if not free or len(VALUES[kind]) == 2:
        return [None]
    word, new = rng.choice(free), []
    for fact in facts:
        role = next((roles.get(query.asks) for name, _, holds, roles in told(fact)
                     if holds and name == query.schema and entails([fact], query) != UNKNOWN), None)
        fits = role and word not in fact.values.values()
        new.append(fact._replace(values=fact.values | {role: word}) if fits else None)
    return new


def _role(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    new = []
    for fact in facts:
        kinds, swapped = SCHEMAS[fact.schema].roles, []
        for one, two in combinations(fact.values, 2):
            turned = fact._replace(values=fact.values | {one: fact.values[two], two: fact.values[one]})
            if kinds[one] == kinds[two] and entails([turned], query) != entails([fact], query):
                swapped.append(turned)
        new.append(rng.choice(swapped) if swapped else None)
    return new
