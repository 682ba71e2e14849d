"""Negations and paraphrases of generated stories.

The sentences that decide a question are rewritten, and the right answer follows from the new facts.
(Chaturvedi et al., § 6, edit 275 + 159 stories by hand.)
"""

from __future__ import annotations

import random
from itertools import combinations

import pandas as pd

from probebook.base import UserError, check_choice
from probebook.corpora.stories.edits import solve
from probebook.corpora.stories.facts import (
    UNKNOWN,
    Fact,
    Query,
    entails,
    opposite,
    rephrase,
    resolve,
    sentence,
    spans_of,
    statements,
)
from probebook.corpora.stories.schemas import Form, all_schemas, words

HOW = ("negation", "antonym", "value", "role")


def negate(table: pd.DataFrame, how: str = "negation", seed: int = 0) -> pd.DataFrame:
    """The stories with the deciding fact contradicted wherever it is stated: yes becomes no, no
    yes.

    - "negation": by not (*did not buy*); a denial loses its not
    - "antonym": by an opposite (*sad* for *happy*), or *refused to buy*
    - "value": another word for what is asked about (*Tom* for *Mary*), or the word that a question
      with the answer no puts forward
    - "role": two roles change places (*Tom gave Mary …* for *Mary gave Tom …*; two colours)

    Questions with who or what then have another answer, or none. Rows are left out if they have no
    answer, or if it would not change, or would change from yes or no to unknown. `seed` draws the
    words. Columns as before; edit = how. UserError for a table without facts, or another `how`.
    """
    contradict = {"negation": _negation, "antonym": _antonym, "value": _value, "role": _role}[
        check_choice(how, "kind of change", HOW)
    ]
    rng, rows = random.Random(seed), []
    for row in _rows(table):
        query = resolve(row["facts"], row["query"])
        deciding = [
            i for i, fact in enumerate(row["facts"]) if fact and entails([fact], query) != UNKNOWN
        ]
        if not deciding:
            continue
        new = contradict(rng, row, query, [row["facts"][i] for i in deciding])
        found = [fact for fact in new if fact]
        possible = len(found) == len(new)
        changed = _rewrite(row, dict(zip(deciding, found)), how) if possible else row
        answer = changed["answer"]
        lost = row["answer"] in ("yes", "no") and answer == UNKNOWN
        if answer == row["answer"] or lost:
            continue
        if answer in ("yes", "no", UNKNOWN) or changed["start"] >= 0:
            rows.append(changed)
    return pd.DataFrame(rows, columns=table.columns)


def paraphrase(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The stories with their rationale in other words; no answer changes. edit = "paraphrase"."""
    rng, rows = random.Random(seed), []
    for row in _rows(table):
        needed = {*map(tuple, row["rationale"])}
        new = {
            i: rephrase(rng, row["facts"][i])
            for i, span in enumerate(row["sentences"])
            if tuple(span) in needed
        }
        if any(fact != row["facts"][i] for i, fact in new.items()):
            rows.append(_rewrite(row, new, "paraphrase"))
    return pd.DataFrame(rows, columns=table.columns)


def negate_elsewhere(table: pd.DataFrame, how: str = "negation", seed: int = 0) -> pd.DataFrame:
    """The stories with a contradicted sentence that decides only a *later* question of theirs.

    It is a control: as much text changes as by `negate`, and nothing that the question needs. Rows
    without an answer, and those whose own answer or rationale would change, are left out. `how`,
    `seed`: as in `negate`. Give the whole table: the later questions are found in it. edit =
    "elsewhere".
    """
    later: dict[int, list[dict]] = {}
    rows = []
    for row in _rows(negate(table, how, seed)):
        later.setdefault(row["story_id"], []).append(row)
    for row in _rows(table):
        reasons = _rationale_texts(row)
        for changed in later.get(row["story_id"], ()):
            if reasons and changed["turn"] > row["turn"]:
                story = {name: changed[name] for name in ("story", "sentences", "facts")}
                new = solve(row | story | {"edit": "elsewhere"})
                if new["answer"] == row["answer"] and _rationale_texts(new) == reasons:
                    rows.append(new)
                    break
    return pd.DataFrame(rows, columns=table.columns)


def _rationale_texts(row: dict) -> list[str]:
    return [row["story"][start:end] for start, end in row["rationale"]]


def _rows(table: pd.DataFrame) -> list[dict]:
    if not {"facts", "query"} <= {*table.columns}:
        raise UserError(
            "what a sentence states is known of generated stories only: give a table "
            "of stories.generate"
        )
    return table.to_dict("records")


def _rewrite(row: dict, new: dict[int, Fact], edit: str) -> dict:
    """The row with other facts in some of its sentences."""
    texts = [
        sentence(new[i])[0] if i in new else row["story"][start:end]
        for i, (start, end) in enumerate(row["sentences"])
    ]
    facts = [new.get(i, fact) for i, fact in enumerate(row["facts"])]
    return solve(
        row | {"story": " ".join(texts), "sentences": spans_of(texts), "facts": facts, "edit": edit}
    )


# each returns the deciding facts contradicted, with None where that is impossible


def _negation(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    return [_other_form(rng, fact, query) for fact in facts]


def _antonym(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    new: list[Fact | None] = []
    for fact in facts:
        if "state" in fact.values:
            word = opposite(fact.schema, fact.values["state"])
            new.append(fact._replace(values=fact.values | {"state": word}))
        else:
            new.append(_other_form(rng, fact, query, lexical=True))
    return new


def _other_form(rng: random.Random, fact: Fact, query: Query, lexical: bool = False) -> Fact | None:
    """The fact in a form that contradicts it and adds nothing; None if the query is about an
    implication.

    `lexical`: the form denies the fact by another verb, else by "not".
    """
    forms = all_schemas()[fact.schema].forms
    held = forms[fact.form].holds

    def contradicts(form: Form) -> bool:
        return held and form.lexical if lexical else form.holds != held and not form.lexical

    fitting = [
        i
        for i, form in enumerate(forms)
        if contradicts(form) and fact.values.keys() >= {*form.roles}
    ]
    if not fitting or fact.schema != query.schema:
        return None
    form = rng.choice(fitting)
    return Fact(fact.schema, form, {role: fact.values[role] for role in forms[form].roles})


def _value(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    vocabulary = words()[all_schemas()[query.schema].roles[query.asks]]
    in_story = {word for fact in row["facts"] if fact for word in fact.values.values()}
    excluded = (in_story - {*query.values}) | {row["answer"]}
    if row["answer"] == "yes":
        excluded |= {*query.values}
    put_forward = row["answer"] == "no" or len(query.values) == 2
    free = [word for word in (query.values if put_forward else vocabulary) if word not in excluded]
    if not free or len(vocabulary) == 2:
        return [None]
    word = rng.choice(free)
    new: list[Fact | None] = []
    for fact in facts:
        role = _role_of_answer(fact, query)
        if role and word not in fact.values.values():
            new.append(fact._replace(values=fact.values | {role: word}))
        else:
            new.append(None)
    return new


def _role_of_answer(fact: Fact, query: Query) -> str | None:
    """The role of a fact whose word answers the query; None if the fact denies something."""
    for name, _, holds, roles in statements(fact):
        if holds and name == query.schema and entails([fact], query) != UNKNOWN:
            return roles.get(query.asks)
    return None


def _role(rng: random.Random, row: dict, query: Query, facts: list[Fact]) -> list[Fact | None]:
    new = []
    for fact in facts:
        kinds, swapped = all_schemas()[fact.schema].roles, []
        for one, two in combinations(fact.values, 2):
            exchanged = {one: fact.values[two], two: fact.values[one]}
            candidate = fact._replace(values=fact.values | exchanged)
            if kinds[one] == kinds[two] and entails([candidate], query) != entails([fact], query):
                swapped.append(candidate)
        new.append(rng.choice(swapped) if swapped else None)
    return new
