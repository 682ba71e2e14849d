"""The story world: entailment against all worlds in which the facts hold, rationales, balance,
conversations."""

import itertools
import random
import re

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.corpora import stories
from probebook.corpora.stories.facts import (
    UNKNOWN,
    Fact,
    Query,
    answer_span,
    entails,
    rationale,
    sentence,
    spans_of,
    statements,
)
from probebook.corpora.stories.schemas import all_schemas, articles, pronouns, words

pytestmark = pytest.mark.library

PRONOUNS, SCHEMAS, VALUES = pronouns(), all_schemas(), words()

COLUMNS = [
    "story_id",
    "turn",
    "story",
    "question",
    "history",
    "answer",
    "gold",
    "kind",
    "start",
    "end",
    "rationale",
    "sentences",
    "edit",
    "facts",
    "query",
]


@pytest.fixture(scope="module")
def table():
    return stories.generate(3_000, seed=1)


def fact(schema: str, holds: bool = True, **values) -> Fact:
    """The fact told in the first form that has just these roles."""
    forms = enumerate(SCHEMAS[schema].forms)
    return Fact(
        schema,
        next(i for i, form in forms if form.holds == holds and {*form.roles} == {*values}),
        values,
    )


# schemas


def test_schemas_have_several_phrasings_and_questions_that_fit():
    assert len(SCHEMAS) >= 30
    for name, schema in SCHEMAS.items():
        texts = [form.text for form in schema.forms]
        assert len(set(texts)) == len(texts), name
        assert sum(form.holds for form in schema.forms) >= 3, name
        assert any(not form.holds and not form.lexical for form in schema.forms), name
        for form in schema.forms:
            assert set(form.roles) <= {*schema.roles}, name
            assert len(set(form.roles)) == len(form.roles), name
        stated_together = [set(form.roles) for form in schema.forms if form.holds]
        for questions in (schema.wh, schema.yes_no):
            for role, asked in questions.items():
                for text in asked:
                    roles = {*re.findall(r"\{(\w+)\}", text)} - {"x"}
                    assert ("{x}" in text) == (questions is schema.yes_no)
                    assert role not in roles
                    assert any(roles | {role} <= together for together in stated_together), text
        assert set(schema.key) <= {*schema.roles}
        assert {*schema.roles.values()} <= {*VALUES}
        for of, roles in schema.implications:
            assert {schema.roles[role] for role in roles.values()} >= {"colour"}
            assert of == "colour"
    assert all(len({*words}) == len(words) for words in VALUES.values())
    assert {*articles()} <= {*VALUES}


def test_a_sentence_says_its_words_where_it_says_it_does():
    rng = random.Random(0)
    for name, schema in SCHEMAS.items():
        for i, form in enumerate(schema.forms):
            values = {role: rng.choice(VALUES[schema.roles[role]]) for role in form.roles}
            text, places = sentence(Fact(name, i, values))
            assert text[0].isupper()
            assert text.endswith(".")
            assert "{" not in text
            assert {role: text[a:b] for role, (a, b) in places.items()} == values
            assert form.holds == (not re.search(r"\b(not|no|refused|failed|forgot)\b", text))


# entailment

COAT = [fact("colour", what="coat", colour="red"), fact("colour", what="hat", colour="blue")]
BUY = [
    fact("buy", who="Mary", what="hat", where="market"),
    fact("buy", False, who="Tom", what="box"),
]
GIVE = [fact("give", who="Mary", what="hat", whom="Tom", where="inn")]
OLD = [fact("older", who="Mary", whom="Tom")]


@pytest.mark.parametrize(
    "facts, query, answer",
    [
        (COAT, ("colour", "colour", {"what": "coat"}), "red"),
        (COAT, ("colour", "colour", {"what": "coat"}, ("red",)), "yes"),
        (COAT, ("colour", "colour", {"what": "coat"}, ("blue",)), "no"),
        (COAT, ("colour", "colour", {"what": "coat"}, ("blue", "red")), "red"),
        (COAT, ("colour", "colour", {"what": "coat"}, ("blue", "black")), UNKNOWN),
        (COAT, ("colour", "colour", {"what": "bag"}, ("blue",)), UNKNOWN),
        ([], ("colour", "colour", {"what": "coat"}), UNKNOWN),
        ([None], ("colour", "colour", {"what": "coat"}, ("red",)), UNKNOWN),
        (
            [fact("colour", False, what="coat", colour="red")],
            ("colour", "colour", {"what": "coat"}, ("red",)),
            "no",
        ),
        (
            [fact("colour", False, what="coat", colour="red")],
            ("colour", "colour", {"what": "coat"}, ("blue",)),
            UNKNOWN,
        ),
        (
            [fact("colour", False, what="coat", colour="red")],
            ("colour", "colour", {"what": "coat"}),
            UNKNOWN,
        ),
        (
            [fact("open/shut", False, what="door", state="open")],
            ("open/shut", "state", {"what": "door"}, ("shut",)),
            "yes",
        ),
        (
            [fact("open/shut", False, what="door", state="open")],
            ("open/shut", "state", {"what": "door"}, ("open",)),
            "no",
        ),
        (
            [fact("happy/sad", False, who="Tom", state="sad")],
            ("happy/sad", "state", {"who": "Tom"}, ("happy",)),
            UNKNOWN,
        ),
        (
            [fact("happy/sad", who="Tom", state="sad")],
            ("happy/sad", "state", {"who": "Tom"}, ("happy",)),
            "no",
        ),
        (BUY, ("buy", "who", {"what": "hat"}), "Mary"),
        (BUY, ("buy", "who", {"what": "hat"}, ("Tom",)), "no"),  # a hat is bought once
        (BUY, ("buy", "what", {"who": "Mary"}, ("box",)), UNKNOWN),  # but Mary may buy two things
        (BUY, ("buy", "where", {"what": "hat"}, ("inn",)), "no"),
        (BUY, ("buy", "where", {"what": "hat", "who": "Tom"}, ("market",)), "no"),
        (BUY, ("buy", "where", {"what": "hat", "who": "Tom"}), UNKNOWN),  # he did not
        (BUY, ("buy", "when", {"what": "hat"}), UNKNOWN),
        (BUY, ("buy", "who", {"what": "box"}, ("Tom",)), "no"),
        # not at all, so not in the inn
        (BUY, ("buy", "where", {"what": "box", "who": "Tom"}, ("inn",)), "no"),
        (BUY, ("buy", "where", {"what": "box"}, ("inn",)), UNKNOWN),  # somebody else may have
        (GIVE, ("give", "who", {"what": "hat", "whom": "Tom"}), "Mary"),
        (GIVE, ("give", "who", {"what": "hat", "whom": "Mary"}), UNKNOWN),
        (GIVE, ("give", "whom", {"what": "hat", "who": "Tom"}, ("Mary",)), "no"),
        (OLD, ("older", "who", {"whom": "Tom"}), "Mary"),
        (OLD, ("older", "who", {"whom": "Tom"}, ("Mary",)), "yes"),
        (OLD, ("older", "who", {"whom": "Mary"}, ("Tom",)), "no"),
        (OLD, ("older", "who", {"whom": "Ned"}, ("Mary",)), UNKNOWN),
        (OLD, ("older", "who", {}, ("Tom", "Mary")), "Mary"),
        (OLD, ("older", "who", {}, ("Mary", "Ned")), UNKNOWN),
        (
            [fact("lie", what="hat", colour="red", other="box", other_colour="blue")],
            ("colour", "colour", {"what": "box"}, ("red",)),
            "no",
        ),
        (
            [*BUY, fact("colour", what="hat", colour="pink")],
            ("colour", "colour", {"what": Query("buy", "what", {"who": "Mary"})}),
            "pink",
        ),
        (COAT, ("colour", "colour", {"what": Query("buy", "what", {"who": "Mary"})}), UNKNOWN),
    ],
)
def test_what_follows(facts, query, answer):
    assert entails(facts, Query(*query)) == entails(facts[::-1], Query(*query)) == answer


def _truth(worlds, statement) -> str:
    true = {bool(statement(world)) for world in worlds}
    return {(True,): "yes", (False,): "no"}.get(tuple(true), UNKNOWN)


def test_yes_and_no_are_what_holds_and_fails_in_all_worlds():
    """Every set of up to two facts about a small domain: with each thing's colour, each door open
    or shut, each mood happy, sad or neither, each thing's buyer and place, and two persons' ages as
    what worlds differ in."""
    colours = VALUES["colour"][:4]
    people, places = ["Mary", "Tom", "Ned", "Amy"], ["inn", "hall", "park", "cave"]
    cases = {
        "colour": (
            [{"what": w, "colour": c} for w in ("hat", "coat") for c in colours[:3]],
            "colour",
            [dict(zip(("hat", "coat"), world)) for world in itertools.product(colours, repeat=2)],
            lambda world, said: world[said["what"]] == said["colour"],
        ),
        "open/shut": (
            [{"what": w, "state": s} for w in ("door", "gate") for s in ("open", "shut")],
            "state",
            [
                dict(zip(("door", "gate"), world))
                for world in itertools.product(("open", "shut"), repeat=2)
            ],
            lambda world, said: world[said["what"]] == said["state"],
        ),
        "happy/sad": (
            [{"who": w, "state": s} for w in ("Tom", "Amy") for s in ("happy", "sad")],
            "state",
            [
                dict(zip(("Tom", "Amy"), w))
                for w in itertools.product(("happy", "sad", ""), repeat=2)
            ],
            lambda world, said: world[said["who"]] == said["state"],
        ),
        "buy": (
            [
                {"who": p, "what": "hat", **at}
                for p in people[:3]
                for at in [{}, *({"where": w} for w in places)]
            ],
            "who",
            [{"what": "hat", "who": p, "where": w} for p in people for w in places]
            + [{"what": "hat", "who": "", "where": ""}],  # nobody bought it
            lambda world, said: said.items() <= world.items(),
        ),
        "older": (
            [{"who": a, "whom": b} for a, b in itertools.permutations(people[:3], 2)],
            "who",
            [dict(zip(people, ages)) for ages in itertools.product(range(4), repeat=4)],
            lambda world, said: world[said["who"]] > world[said["whom"]],
        ),
    }
    counted = 0
    for name, (said, asks, worlds, true) in cases.items():
        forms = [
            [
                fact(name, holds, **values)
                for holds in (True, False)
                if any(
                    form.holds == holds and set(form.roles) == {*values}
                    for form in SCHEMAS[name].forms
                )
            ]
            for values in said
        ]
        stated_facts = [(f, values) for group, values in zip(forms, said) for f in group]
        for facts in [
            *itertools.combinations(stated_facts, 1),
            *itertools.combinations(stated_facts, 2),
        ]:
            left = [
                world
                for world in worlds
                if all(true(world, v) == SCHEMAS[name].forms[f.form].holds for f, v in facts)
            ]
            if name == "older" and len({frozenset(v.values()) for _, v in facts}) > 1:
                continue  # that older is transitive is not in the fragment
            if left:
                for values in said:
                    bound = {role: word for role, word in values.items() if role != asks}
                    got = entails([f for f, _ in facts], Query(name, asks, bound, (values[asks],)))
                    assert got == _truth(left, lambda world: true(world, values)), (facts, values)
                    counted += 1
    assert counted > 1_000


# generated stories


def test_columns_are_those_of_the_contract(table):
    assert list(table) == COLUMNS
    assert set(table.edit) == {"OS"}
    assert table.turn.tolist() == table.groupby("story_id").cumcount().tolist()
    assert table.story_id.nunique() == 3_000
    for row in table.itertuples():
        assert " ".join(row.story[a:b] for a, b in row.sentences) == row.story
        assert len(row.facts) == len(row.sentences)
        assert row.sentences == spans_of([sentence(f)[0] for f in row.facts])
        assert (row.start >= 0) == (row.kind in ("span", "number", "option"))
        assert row.start < 0 or row.story[row.start : row.end] == row.answer
        assert row.answer == row.gold == entails(row.facts, row.query)
        assert (row.answer in ("yes", "no")) == (row.kind == "yes/no")
        assert (row.answer == UNKNOWN) == (row.kind == UNKNOWN)
        assert row.question.endswith("?")
        assert "{" not in row.question
        assert row.kind != "number" or row.answer in VALUES["number"]
        assert row.kind != "option" or row.answer in re.findall(r"\w+", row.question)
        assert row.start < 0 or any(a <= row.start < row.end <= b for a, b in row.rationale)


def test_history_is_the_turns_before(table):
    for _, turns in table.groupby("story_id"):
        for i, history in enumerate(turns.history):
            assert history == list(zip(turns.question[:i], turns.answer[:i]))


def test_the_rationale_is_the_first_that_suffices(table):
    for row in table[table.rationale.map(len) > 0].sample(800, random_state=0).itertuples():
        at = rationale(row.facts, row.query)
        assert [row.sentences[i] for i in at] == row.rationale
        assert entails([row.facts[i] for i in at], row.query) == row.answer
        for i in at:  # none of them can be spared, and nothing does before them
            assert entails([row.facts[j] for j in at if j != i], row.query) == UNKNOWN
        for end in (at[-1], at[0]):
            assert entails(row.facts[:end], row.query) == UNKNOWN
    assert table.rationale.map(len).value_counts().index.isin([0, 1, 2]).all()
    assert ((table.rationale.map(len) == 0) == (table.kind == UNKNOWN)).all()
    assert (table.rationale.map(len) == 2).sum() > 50


def _far(successes: int, n: int, p: float = 0.5) -> float:
    return abs(successes - n * p) / np.sqrt(n * p * (1 - p))


def test_answers_cannot_be_guessed_from_the_question(table):
    yes_no = table[table.kind == "yes/no"].assign(
        schema=lambda t: t["query"].map(lambda q: q.schema)
    )
    yes = yes_no.groupby("schema").answer.agg(lambda a: (a == "yes").sum())
    counts = yes, yes_no.schema.value_counts()
    assert len(counts[1]) > 50
    assert _far((yes_no.answer == "yes").sum(), len(yes_no)) < 4
    assert max(_far(counts[0][name], counts[1][name]) for name in counts[1].index) < 4.5
    options = table[table.kind == "option"]
    first = sum(
        query.values[0] == answer for query, answer in zip(options["query"], options.answer)
    )
    assert _far(first, len(options)) < 4
    colours = table[
        (table.kind == "span") & table.answer.isin(VALUES["colour"])
    ].answer.value_counts()
    assert max(_far(colours.get(word, 0), colours.sum(), 0.1) for word in VALUES["colour"]) < 4.5


def test_no_question_gives_away_a_later_answer(table):
    """No two turns about the same fact, of which the earlier tells the word that the later asks
    for."""
    for _, turns in table[table.rationale.map(len) == 1].groupby("story_id"):
        for one, two in itertools.combinations(turns.itertuples(), 2):
            if one.rationale == two.rationale and two.kind != "yes/no" and one.answer != "no":
                words = {
                    *one.query.bound.values(),
                    *(one.query.values if one.answer == "yes" else [one.answer]),
                }
                assert two.answer not in words, (one.question, two.question)


def test_questions_follow_on(table):
    """A pronoun stands for a word of the turn before; "Where?" and "When?" for a question about the
    same fact."""
    leaning = 0
    for _, turns in table.groupby("story_id"):
        for one, two in itertools.pairwise(turns.itertuples()):
            words = [w for w in two.query.bound.values() if isinstance(w, str)]
            before = {
                *(w for w in one.query.bound.values() if isinstance(w, str)),
                *one.query.values,
                one.answer,
            }
            described = any(isinstance(word, Query) for word in one.query.bound.values())
            for forms, sex in ((("she", "her"), "she"), (("he", "him"), "he"), (("it",), "it")):
                if {*forms} & {*re.findall(r"\w+", two.question.lower())}:
                    meant = [w for w in words if (PRONOUNS.get(w, ("it",))[0] == sex)]
                    assert {*meant} & before or described, two.question
                    leaning += 1
            leaning += two.question in ("Where?", "When?") and one.query.schema == two.query.schema
    assert leaning > 0.1 * len(table)


def _key(f: Fact) -> tuple[str, ...]:
    """What a fact is about: its schema and the words of the schema's key."""
    return f.schema, *(f.values[role] for role in SCHEMAS[f.schema].key)


def test_shares_are_the_ones_asked_for():
    for share in (0.0, 0.3, 1.0):
        kinds = stories.generate(400, seed=3, unknown=share).kind
        assert abs((kinds == UNKNOWN).mean() - share) < 0.06
        first = stories.generate(400, seed=3, repeat=share, length=(10, 10)).drop_duplicates(
            "story_id"
        )
        twice = [len(facts) - len(set(map(_key, facts))) for facts in first.facts]
        facts = sum(map(len, first.facts)) - sum(twice)
        assert abs(sum(twice) / facts - share) < 0.05
        assert set(map(len, first.facts)) == {10}
    alike = [
        np.mean(
            [
                len({f.schema for f in facts})
                for facts in stories.generate(
                    200, seed=4, distractors=share, repeat=0, length=(8, 8)
                )
                .drop_duplicates("story_id")
                .facts
            ]
        )
        for share in (0, 0.5, 1)
    ]
    assert alike[0] > 7 > alike[1] > alike[2]
    assert alike[2] < 1.5
    lengths = stories.generate(300, seed=5, length=(4, 6)).sentences.map(len)
    assert set(lengths) == {4, 5, 6}


def test_what_is_told_twice_is_told_in_other_words():
    table = stories.generate(200, seed=6, repeat=1.0).drop_duplicates("story_id")
    for story in table.itertuples():
        texts = [story.story[a:b] for a, b in story.sentences]
        assert len(set(texts)) == len(texts)


def test_facts_of_a_story_agree(table):
    """Whatever a fact says of a key, no other fact of the story says otherwise."""
    for facts in table.drop_duplicates("story_id").facts:
        said: dict = {}
        for f in facts:
            for name, values, holds, _ in statements(f):
                if holds:
                    roles = ("pair",) if SCHEMAS[name].pair else SCHEMAS[name].key
                    key = (name, *(values[role] for role in roles))
                    for role, word in values.items():
                        assert said.setdefault((key, role), word) == word


def test_the_seed_decides():
    one, two = stories.generate(20, seed=7), stories.generate(20, seed=7)
    pd.testing.assert_frame_equal(one, two)
    assert not one.story.equals(stories.generate(20, seed=8).story)


def test_place_is_that_of_the_first_telling():
    facts = [
        fact("sons", who="Tom", number="two"),
        fact("colour", what="hat", colour="red"),
        Fact("colour", 1, {"what": "hat", "colour": "red"}),
    ]
    texts = [sentence(f)[0] for f in facts]
    query = Query("colour", "colour", {"what": "hat"})
    start, end = answer_span(facts, spans_of(texts), query, "red")
    assert " ".join(texts)[start:end] == "red"
    assert start == len("Tom had two sons. The hat was ")
    assert answer_span(facts, spans_of(texts), query._replace(values=("red",)), "yes") == (-1, -1)


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"n": 0}, "at least 1 story"),
        ({"length": (0, 3)}, "1 to 40 sentences"),
        ({"length": (5, 4)}, "as .from, to."),
        ({"length": (4, 99)}, "1 to 40 sentences"),
        ({"unknown": 1.2}, "unknown = 1.2: a share from 0 to 1"),
        ({"repeat": -1}, "repeat = -1: a share"),
        ({"distractors": 2}, "distractors = 2: a share"),
    ],
)
def test_refuses(wrong, says):
    with pytest.raises(UserError, match=says) as e:
        stories.generate(**{"n": 5} | wrong)
    assert "\n" not in str(e.value)
