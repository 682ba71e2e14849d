"""Deletion by the paper's rules on hand-made stories, branch by branch; edits of generated stories,
whose right answer follows from the facts."""

import re

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.corpora import stories
from probebook.corpora.stories import changes as story_changes
from probebook.corpora.stories.changes import negate, paraphrase
from probebook.corpora.stories.edits import (
    append_answer,
    augment,
    delete_other,
    delete_rationale,
    truncate,
)
from probebook.corpora.stories.facts import UNKNOWN, entails, sentence
from probebook.corpora.stories.schemas import all_schemas, words
from probebook.corpora.words import phrases, word_table

pytestmark = pytest.mark.library

SCHEMAS, VALUES = all_schemas(), words()
MENTIONS = {kind: phrases(text) for kind, text in word_table("stories")["mentions"].items()}
ALAN = "Alan works in an office.", "He goes to a nearby park after work.", "The park is small."


def row(texts, answer: str, rationale: list[int], kind: str = "span", gap: str = " ") -> dict:
    """A row as a loader gives it; the answer's first occurrence in the rationale is its place."""
    story, spans = "", []
    for text in texts:
        story += gap * bool(story)
        spans.append((len(story), len(story) + len(text)))
        story += text
    start, end = -1, -1
    if kind not in ("yes/no", UNKNOWN):
        start = story.index(answer, spans[rationale[0]][0])
        end = start + len(answer)
    return {
        "story_id": 0,
        "turn": 1,
        "story": story,
        "question": "Where does Alan go?",
        "history": [("Who?", "Alan")],
        "answer": answer,
        "gold": answer,
        "kind": kind,
        "start": start,
        "end": end,
        "rationale": [spans[i] for i in rationale],
        "sentences": spans,
        "edit": "OS",
    }


def only(edit, *made: dict) -> pd.Series:
    """The one row that is left of a table."""
    table = edit(pd.DataFrame([*made]))
    assert len(table) == 1
    assert list(table) == list(made[0])
    left = table.iloc[0]
    assert left.gold == made[0]["gold"]
    assert left.history == made[0]["history"]
    assert left.start < 0 or left.story[left.start : left.end] == left.answer
    assert all(left.story[a:b].strip() == left.story[a:b] != "" for a, b in left.sentences)
    assert {*left.rationale} <= {*left.sentences}
    return left


def ts_r(table: pd.DataFrame) -> pd.DataFrame:
    return delete_rationale(truncate(table))


# the rules, on stories whose facts are not known


def test_ts_ends_with_the_rationale():
    left = only(truncate, row(ALAN, "park", [1]))
    assert left.story == "Alan works in an office. He goes to a nearby park after work."
    assert (left.answer, left.edit, left.story[left.start : left.end]) == ("park", "TS", "park")
    # gaps stay as they are
    assert only(truncate, row(ALAN, "park", [1], gap="\n\n")).story == "\n\n".join(ALAN[:2])
    assert only(truncate, row(ALAN, "office", [0, 1])).story == " ".join(ALAN[:2])
    # nothing to end with
    assert only(truncate, row(ALAN, UNKNOWN, [], UNKNOWN)).story == " ".join(ALAN)


def test_ts_r_is_the_papers_example_without_a_full_stop():
    left = only(ts_r, row(ALAN, "park", [1]))
    assert left.story == "Alan works in an office. park"
    assert (left.answer, left.start, left.end) == (UNKNOWN, -1, -1)
    assert (left.rationale, left.edit) == ([], "TS-R")
    assert [left.story[a:b] for a, b in left.sentences] == [ALAN[0], "park"]


@pytest.mark.parametrize(
    "made, story",
    [
        (row(ALAN, "yes", [1], "yes/no"), ALAN[0]),  # no word to put there
        # is there
        (
            row(("The Park is far.", *ALAN), "park", [2]),
            "The Park is far. Alan works in an office.",
        ),
        # not as a word of its own
        (row(("Parks are far.", ALAN[1]), "park", [1]), "Parks are far. park"),
        # a rationale of two sentences
        (row(("One.", "Two.", "Three.", "Four."), "Two", [1, 2]), "One. Two"),
        # and what stands between them
        (row(("One.", "Two.", "Three.", "Four."), "Two", [1, 3]), "One. Two"),
        (
            row(("I saw two.", "He had three (3) dogs.", "Bye."), "three (3)", [1], "number"),
            "I saw two. three (3)",
        ),
    ],
)
def test_ts_r_branch_by_branch(made, story):
    left = only(ts_r, made)
    assert left.story == story
    assert left.answer == UNKNOWN


def test_ts_r_leaves_out_what_has_nothing_before_or_no_rationale():
    assert ts_r(
        pd.DataFrame(
            [row(ALAN, "office", [0]), row(ALAN, "office", [0, 2]), row(ALAN, UNKNOWN, [], UNKNOWN)]
        )
    ).empty


def test_os_r_deletes_the_rationale_wherever_it_stands():
    assert only(delete_rationale, row(ALAN, "office", [0, 2])).story == f"{ALAN[1]} office"
    left = only(delete_rationale, row(("One.", "Two.", "Three.", "Four."), "Two", [1, 3], gap="\n"))
    assert (left.story, left.edit) == ("One. Three. Two", "OS-R")
    middle = only(delete_rationale, row(ALAN, "park", [1]))
    assert middle.story == "Alan works in an office. The park is small."
    assert delete_rationale(pd.DataFrame([row(ALAN[:2], "park", [0, 1])])).empty


def test_nothing_is_put_there_and_its_control_deletes_others_of_like_length():
    left = only(lambda table: delete_rationale(table, put=False), row(ALAN, "office", [0]))
    assert (left.story, left.answer, left.edit) == (" ".join(ALAN[1:]), UNKNOWN, "OS-R0")
    other = only(delete_other, row(ALAN, "office", [0]))  # the last is nearest in length
    assert (other.story, other.edit) == (" ".join(ALAN[:2]), "OS-D")
    assert (other.answer, other.rationale) == ("office", [(0, 24)])
    assert other.story[other.start : other.end] == "office"
    both = only(delete_other, row(("One.", "Seven.", "Two.", "Thirteen."), "Two", [2]))
    assert both.story == "Seven. Two. Thirteen."
    assert delete_other(
        pd.DataFrame(
            [
                row(ALAN[:2], "park", [0, 1]),
                row(ALAN, "park", [0, 1]),
                row(ALAN, UNKNOWN, [], UNKNOWN),
            ]
        )
    ).empty


def test_augmented_stories_end_with_a_sentence_for_the_bare_answer():
    left = only(lambda table: augment(truncate(table)), row(ALAN, "park", [1]))
    assert left.edit == "TS-R+Aug"
    assert left.answer == UNKNOWN
    assert left.story in [f"{ALAN[0]} {text.format('park')}" for text in MENTIONS["word"]]
    same = only(lambda table: augment(truncate(table)), row(ALAN, "no", [1], "yes/no"))
    assert (same.story, same.edit) == (ALAN[0], "TS-R+Aug")
    assert only(augment, row(ALAN, "office", [0])).edit == "OS-R+Aug"


def test_the_control_has_the_whole_story_and_the_same_tail():
    made = row(ALAN, "park", [1])
    left, deleted = only(append_answer, made), only(ts_r, made)
    assert left.story == made["story"] + " park"
    assert left.edit == "OS+answer"
    assert left.story.removeprefix(made["story"]) == deleted.story.removeprefix(ALAN[0]) == " park"
    assert (left.answer, left.start, left.rationale) == ("park", made["start"], made["rationale"])
    assert only(lambda table: append_answer(truncate(table)), made).edit == "TS+answer"
    assert append_answer(pd.DataFrame([row(ALAN, "yes", [1], "yes/no")])).empty


@pytest.mark.parametrize(
    "edit, wrong, says",
    [
        (truncate, truncate, "the stories are TS: this edit is for OS"),
        (delete_rationale, append_answer, "are OS.answer: this edit is for OS or TS"),
        (augment, delete_rationale, "OS-R: this edit is for OS or TS"),
        (append_answer, augment, "OS-R.Aug"),
        (delete_other, truncate, "the stories are TS: this edit is for OS"),
        (
            truncate,
            lambda table: table.drop(columns=["rationale", "edit"]),
            "no column rationale, edit",
        ),
        (negate, lambda table: table, "known of generated stories only"),
        (paraphrase, lambda table: table, "known of generated stories only"),
        (
            lambda table: negate(table, "sarcasm"),
            lambda table: table,
            "expected negation, antonym, value, role",
        ),
    ],
)
def test_refuses(edit, wrong, says):
    table = wrong(pd.DataFrame([row(ALAN, "park", [1])]))
    with pytest.raises(UserError, match=says) as e:
        edit(table)
    assert "\n" not in str(e.value)


# the generated world


@pytest.fixture(scope="module")
def table():
    return stories.generate(1_200, seed=11, repeat=0.3)


def _consistent(edited: pd.DataFrame) -> None:
    for left in edited.itertuples():
        assert left.answer == entails(left.facts, left.query)
        assert len(left.facts) == len(left.sentences)
        assert (left.start >= 0) == (left.answer not in ("yes", "no", UNKNOWN))
        assert left.start < 0 or left.story[left.start : left.end] == left.answer
        assert bool(left.rationale) == (left.answer != UNKNOWN)
        assert {*left.rationale} <= {*left.sentences}
        for f, (a, b) in zip(left.facts, left.sentences):
            assert f is None or sentence(f)[0] == left.story[a:b]


def _before(table: pd.DataFrame, edited: pd.DataFrame) -> pd.DataFrame:
    """The rows of the table that were edited."""
    ids = list(zip(edited.story_id, edited.turn))
    return table.set_index(["story_id", "turn"]).loc[ids].reset_index()


def test_deletion_in_the_world(table):
    ts, answerable = truncate(table), table[table.kind != UNKNOWN]
    assert len(ts) == len(table)
    assert (ts.answer == table.answer).all()
    left, os_r = delete_rationale(ts), delete_rationale(table)
    for edited in (ts, left, os_r, augment(ts, seed=1), append_answer(table)):
        _consistent(edited)
    assert (left.answer == UNKNOWN).all()  # what goes before the first that suffices does not
    first = sum(row.rationale[0][0] == 0 for row in answerable.itertuples())
    assert len(left) == len(answerable) - first
    assert len(os_r) == len(answerable)
    again = os_r[os_r.answer != UNKNOWN]  # the fact is told elsewhere
    assert 0.1 < len(again) / len(os_r) < 0.5
    assert (again.answer == again.gold).all()
    once = delete_rationale(stories.generate(200, seed=12, repeat=0))
    assert (once.answer == UNKNOWN).all()
    control = append_answer(table)
    assert len(control) == (table.start >= 0).sum()
    assert (control.answer == control.gold).all()


def test_an_augmented_sentence_says_the_answer_and_nothing_of_it(table):
    ts = truncate(table)
    bare, fluent = delete_rationale(ts), augment(ts, seed=3)
    sentences = [text for texts in MENTIONS.values() for text in texts]
    frames = [re.escape(text).replace(re.escape("{}"), r"(?:the )?(\w+)") for text in sentences]
    changed = 0
    for one, two in zip(bare.itertuples(), fluent.itertuples()):
        if one.story == two.story:
            assert one.facts[-1] is not None
            continue
        start, end = two.sentences[-1]
        said = [match for frame in frames if (match := re.fullmatch(frame, two.story[start:end]))]
        assert len(said) == 1
        assert said[0][1] == one.gold
        assert two.answer == UNKNOWN
        changed += 1
    assert changed > 500
    assert not fluent.story.equals(augment(ts, seed=4).story)


@pytest.mark.parametrize("how", story_changes.HOW)
def test_negated_stories_contradict_the_answer(table, how):
    edited = negate(table, how, seed=5)
    _consistent(edited)
    before = table.set_index(["story_id", "turn"])
    kinds = {"yes": 0, "no": 0}
    for left in edited.itertuples():
        old = before.loc[(left.story_id, left.turn)]
        assert (left.gold, left.edit, left.kind) == (old.answer, how, old.kind)
        assert left.answer != left.gold
        if left.gold in kinds:
            kinds[left.gold] += 1
            assert left.answer == {"yes": "no", "no": "yes"}[left.gold]
        changed = [(f, g) for f, g in zip(old.facts, left.facts) if f != g]
        assert changed
        assert all(
            entails([f], left.query) != UNKNOWN for f, _ in changed if len(old.rationale) < 2
        )
        for f, g in changed:
            forms = SCHEMAS[f.schema].forms
            same_form = f.form == g.form
            assert f.schema == g.schema
            if how == "negation":
                assert forms[f.form].holds != forms[g.form].holds
                assert g.values.items() <= f.values.items()
            elif how == "antonym":
                assert (
                    same_form and f.values["state"] != g.values["state"]
                    if "state" in f.values
                    else forms[g.form].lexical and g.values.items() <= f.values.items()
                )
            elif how == "value":
                assert same_form
                assert sum(f.values[role] != word for role, word in g.values.items()) == 1
            else:
                assert same_form
                assert sorted(f.values.values()) == sorted(g.values.values())
                assert f.values != g.values
    assert min(kinds.values()) > 10
    assert len(edited) > 300


def test_every_telling_is_contradicted(table):
    """No sentence is left from which the old answer follows."""
    for how in story_changes.HOW:
        for left in negate(table, how, seed=6).itertuples():
            assert all(entails([f], left.query) != left.gold for f in left.facts)


def test_paraphrases_keep_every_answer(table):
    edited = paraphrase(table, seed=7)
    _consistent(edited)
    before = _before(table, edited)
    assert (edited.answer == before.answer).all()
    assert (edited.story != before.story).all()
    assert (edited.facts.map(len) == before.facts.map(len)).all()
    assert set(edited.edit) == {"paraphrase"}
    for old, new in zip(before.facts, edited.facts):
        assert [(f.schema, f.values) for f in old] == [(f.schema, f.values) for f in new]
    assert len(edited) > 0.8 * (table.kind != UNKNOWN).sum()


def test_edits_go_on_from_a_truncated_story(table):
    ts = truncate(table)
    edited = negate(ts, "value", seed=8)
    _consistent(edited)
    ends = ts.set_index(["story_id", "turn"]).sentences.map(len)
    lengths = ends.loc[list(zip(edited.story_id, edited.turn))]
    np.testing.assert_array_equal(edited.sentences.map(len), lengths)
    assert set(edited[edited.kind == "number"].answer) <= {*VALUES["number"]}


def test_the_control_of_a_deletion_leaves_the_answer_and_is_as_short(table):
    gone, other = (edit(table) for edit in (lambda t: delete_rationale(t, put=False), delete_other))
    _consistent(gone)
    _consistent(other)
    assert (other.answer == _before(table, other).answer).all()
    both = gone.merge(other, on=["story_id", "turn"])
    assert len(both) > 0.9 * len(gone)
    assert (both.sentences_x.map(len) == both.sentences_y.map(len)).all()
    assert abs(both.story_x.str.len() - both.story_y.str.len()).mean() < 12


@pytest.mark.parametrize("how", ["negation", "value"])
def test_an_edit_elsewhere_leaves_the_answer_and_its_rationale(table, how):
    edited = story_changes.negate_elsewhere(table, how, seed=9)
    _consistent(edited)
    before = _before(table, edited)
    assert (edited.answer == before.answer).all()
    assert (edited.story != before.story).all()
    assert not edited.answer.eq(UNKNOWN).any()
    assert set(edited.edit) == {"elsewhere"}
    assert len(edited) > 1_000
    for old, new in zip(before.itertuples(), edited.itertuples()):
        reasons = [[row.story[a:b] for a, b in row.rationale] for row in (old, new)]
        assert reasons[0] == reasons[1]
        assert len(old.facts) == len(new.facts)
        assert any(f != g for f, g in zip(old.facts, new.facts))
