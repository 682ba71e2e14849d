"""CoQA and HotpotQA as tables: a small hand-made file of each format with its quirks, the two
subsets; the predicate–argument questions."""

import itertools
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from probebook.base import UserError
from probebook.corpora import answer_spans, conversations
from probebook.corpora.answer_spans import sentences
from probebook.corpora.conversations import coqa, hotpotqa
from probebook.corpora.fetch import entries
from probebook.corpora.predicate_argument import colours, negated, questions, sample, schemes
from probebook.corpora.stories.edits import augment, delete_rationale, truncate

pytestmark = pytest.mark.library

COLOURS, SCHEMES = colours(), schemes()
STORY = (
    "Mrs. Gray kept three hens behind the mill.  Every morning her son Will fed them.\n\n"
    '"They are fat," said Mr. Hale at 8 a.m. He wanted to buy a hen or a duck. '
    "Mrs. Gray sold him the brown one."
)
ASKED = [  # question, annotated span, answer, what other annotators said
    ("How many hens were there?", "three hens", "three", ["3", "three"]),
    ("Who fed them?", "Every morning her son Will fed them", "Her son, Will.", ["Will", "her son"]),
    ("Did he feed them daily?", "Every morning her son Will fed them.", "Yes.", ["yes", "yes"]),
    ("Was Mr. Hale rude?", "", "unknown", ["unknown", "no"]),
    (
        "Did he want a hen or a sheep?",
        "He wanted to buy a hen or a duck",
        "a hen",
        ["hen", "a hen"],
    ),
    (
        "Did he get one?",
        "He wanted to buy a hen or a duck. Mrs. Gray sold him the brown one",
        "yes",
        ["yes", "yes"],
    ),
    ("How many did he get?", "sold him the brown one", "1", ["one", "1"]),
    ("In which year?", "at 8 a.m.", "never told", ["unknown", "unknown"]),
]


def _spot(text: str) -> dict:
    start = STORY.index(text) if text else -1
    return {
        "span_start": start,
        "span_end": start + len(text) if text else -1,
        "span_text": text or "unknown",
    }


def _coqa(**changes) -> dict:
    answers = [
        _spot(span) | {"input_text": said, "turn_id": i + 1}
        for i, (_, span, said, _) in enumerate(ASKED)
    ]
    more = {
        str(k): [
            {"input_text": others[k], "turn_id": i + 1} for i, (*_, others) in enumerate(ASKED)
        ]
        for k in range(2)
    }
    asked = [{"input_text": question, "turn_id": i + 1} for i, (question, *_) in enumerate(ASKED)]
    first = {
        "source": "mctest",
        "id": "a1",
        "filename": "a",
        "story": STORY,
        "questions": asked,
        "answers": answers,
        "additional_answers": more,
    } | changes
    second = {
        "id": "b2",
        "story": "Tom ran.",
        "questions": [{"input_text": "Who ran?", "turn_id": 1}],
        "answers": [
            {
                "span_start": 0,
                "span_end": 8,
                "span_text": "Tom ran.",
                "input_text": "Tom",
                "turn_id": 1,
            }
        ],
    }
    return {"version": "1.0", "data": [first, second]}


@pytest.fixture
def save(tmp_path):
    def write(content) -> Path:
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "data.json").write_text(text, encoding="utf-8")
        return tmp_path / "data.json"

    return write


# CoQA


def test_sentences_end_neither_at_titles_nor_at_hours():
    texts = [STORY[a:b] for a, b in sentences(STORY)]
    assert texts == [
        "Mrs. Gray kept three hens behind the mill.",
        "Every morning her son Will fed them.",
        '"They are fat," said Mr. Hale at 8 a.m.',
        "He wanted to buy a hen or a duck.",
        "Mrs. Gray sold him the brown one.",
    ]
    assert sentences("  \n ") == []
    assert sentences("é. ") == [(0, 2)]


def test_coqa_turn_by_turn(save):
    table = coqa(save(_coqa()))
    one = table[table.story_id == "a1"].reset_index(drop=True)
    assert one.kind.tolist() == [
        "number",
        "span",
        "yes/no",
        "unknown",
        "option",
        "yes/no",
        "number",
        "span",
    ]
    assert one.answer.tolist() == [
        "three",
        "her son Will",
        "yes",
        "unknown",
        "a hen",
        "yes",
        "1",
        "never told",
    ][:4] + ["hen", "yes", "1", "never told"]
    assert one.gold.tolist() == [said for _, _, said, _ in ASKED]
    assert one.turn.tolist() == [*range(8)]
    assert one.references[0] == ["three", "3", "three"]
    assert table.references.iloc[-1] == ["Tom"]
    for i, row in enumerate(one.itertuples()):
        assert (
            (row.story[row.start : row.end] == row.answer) == (row.start >= 0) == (i in (0, 1, 4))
        )
        assert row.history == [(question, said) for question, _, said, _ in ASKED[:i]]
        assert row.sentences == sentences(STORY)
        assert row.edit == "OS"
    numbers = [[row.sentences.index(span) for span in row.rationale] for row in one.itertuples()]
    assert numbers == [[0], [1], [1], [], [3], [3, 4], [4], [2]]
    assert len(coqa(save(_coqa()), n=1)) == 8


def test_the_best_stretch_is_that_of_a_search_over_all():
    """Against F1 of every stretch that an article neither begins nor ends."""
    text = "the old man and the old dog of the man ran to an old mill"
    gold = "an old man's dog, the man"
    found = [*answer_spans._WORD.finditer(text)]
    wanted = Counter(answer_spans.words(gold))

    def f1(i: int, j: int) -> float:
        said = Counter(answer_spans.words(text[found[i].start() : found[j].end()]))
        return 2 * (said & wanted).total() / (said.total() + wanted.total())

    named = [i for i, word in enumerate(found) if word[0] not in ("a", "an", "the")]
    _, i, j = min((-f1(i, j), i, j) for i in named for j in named if i <= j)
    assert answer_spans.best_span(text, 0, len(text), gold) == (found[i].start(), found[j].end())
    assert answer_spans.best_span(text, 0, len(text), "cat") == (-1, -1)


def test_the_papers_rules_on_coqa(save):
    table = coqa(save(_coqa()))
    ts = truncate(table)
    assert len(ts) == 9
    assert ts.story[1] == STORY[: STORY.index('\n\n"They')]
    assert ts.story[3] == STORY
    assert [row.story[row.start : row.end] for row in ts.itertuples() if row.start >= 0] == [
        "three",
        "her son Will",
        "hen",
        "Tom",
    ]
    left = delete_rationale(ts)
    assert (
        left.story.tolist()
        == [  # the first begins with its rationale, the fourth has none
            "Mrs. Gray kept three hens behind the mill. her son Will",
            "Mrs. Gray kept three hens behind the mill.",
            STORY[: STORY.index(" He wanted")] + " hen",
            STORY[: STORY.index(" He wanted")],
            STORY[: STORY.index(" Mrs. Gray sold")],
            STORY[: STORY.index("\n\n")],
        ]
    )
    assert set(left.answer) == {"unknown"}
    assert left.gold[0] == "Her son, Will."
    assert set(left.start) == {-1}
    assert len(augment(ts)) == 6


@pytest.mark.parametrize(
    "content, says",
    [
        ("not json", "not JSON"),
        ({"version": "1.0"}, "not CoQA's format .KeyError: 'data'."),
        ({"data": [{"story": "A."}]}, "not CoQA's format"),
        (_coqa(story="  "), r"story 0 \(a1\) is empty"),
        (
            _coqa(story="Short."),
            r"story 0 \(a1\), turn 1: a span from 15 in a story of 6 characters",
        ),
        (_coqa(answers=[]), "8 questions, 0 answers"),
        (_coqa(answers=[{}] * 8), "KeyError: 'input_text'"),
    ],
)
def test_a_bad_file_is_refused(save, content, says):
    with pytest.raises(UserError, match=says) as e:
        coqa(save(content))
    assert "\n" not in str(e.value)


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    for call in (
        lambda: coqa("test"),
        lambda: hotpotqa(tmp_path / "none.json"),
        lambda: coqa("dev", n=0),
    ):
        monkeypatch.setattr(conversations, "fetch", lambda name: tmp_path / name)
        with pytest.raises(
            UserError, match="one of train, dev|or a path to a file of|no such file"
        ):
            call()
    assert {*conversations.COQA.values(), *conversations.HOTPOTQA.values()} <= {*entries()}


# HotpotQA

PARAGRAPHS = [
    ["Mill", ["The mill was built in 1820.", " It stands by the river Ouse.", " "]],
    ["Goose", ["A goose is a bird."]],
    ["Ann Gray", ["Ann Gray (born 1820) was a miller.", " She built the Mill at the Ouse."]],
]


def _hotpot(
    question="Who built it?", answer="ann gray", facts=(("Ann Gray", 1), ("Mill", 0), ("Mill", 9))
):
    return [
        {
            "_id": "q1",
            "question": question,
            "answer": answer,
            "type": "bridge",
            "level": "easy",
            "supporting_facts": [*map(list, facts)],
            "context": PARAGRAPHS,
        }
    ]


def test_hotpotqa_row(save):
    row = hotpotqa(save(_hotpot())).iloc[0]
    assert row.story == (
        "The mill was built in 1820. It stands by the river Ouse. "
        "Ann Gray (born 1820) was a miller. She built the Mill at the Ouse."
    )
    texts = [row.story[a:b] for a, b in row.rationale]
    assert texts == ["The mill was built in 1820.", "She built the Mill at the Ouse."]
    assert (row.answer, row.kind) == ("Ann Gray", "span")
    assert (row.gold, row.references) == ("ann gray", ["ann gray"])
    assert row.story[row.start : row.end] == "Ann Gray"
    assert len(row.sentences) == 4
    assert row.history == []
    assert row.story_id == "q1"


@pytest.mark.parametrize(
    "question, answer, facts, kind, start",
    [
        # there, though it stands before as well
        ("When?", "1820", [("Ann Gray", 0), ("Mill", 1)], "number", 72),
        (
            "Who was older, the mill or Ann Gray?",
            "Ann Gray",
            [("Ann Gray", 0), ("Mill", 1)],
            "option",
            57,
        ),
        ("Were both built?", "no", [("Mill", 0), ("Ann Gray", 0)], "yes/no", -1),
        ("Where?", "Ous", [("Mill", 1)], "span", -1),
        ("Where?", "Ouse", [("Mill", 0)], "span", 51),
    ],
)
def test_hotpotqa_answers(save, question, answer, facts, kind, start):
    row = hotpotqa(save(_hotpot(question, answer, facts))).iloc[0]
    assert (row.kind, row.start) == (kind, start)
    assert row.answer == answer


def test_hotpotqa_as_on_the_hub_is_the_same(save):
    official = hotpotqa(save(_hotpot()))
    item = _hotpot()[0]
    item["context"] = {
        "title": [title for title, _ in PARAGRAPHS],
        "sentences": [texts for _, texts in PARAGRAPHS],
    }
    item["supporting_facts"] = {
        "title": [t for t, _ in item["supporting_facts"]],
        "sent_id": [i for _, i in item["supporting_facts"]],
    }
    del item["_id"]
    assert hotpotqa(save([item])).drop(columns="story_id").equals(official.drop(columns="story_id"))
    rest = "It stands by the river Ouse. Ann Gray (born 1820) was a miller."
    assert delete_rationale(official).story[0] == rest


@pytest.mark.parametrize(
    "content, says",
    [
        ({"a": 1}, "not HotpotQA's format"),
        ([{"question": "Who?"}], "not HotpotQA's format .KeyError: 'context'."),
        (_hotpot(facts=[("Nobody", 0)]), "question 0: its gold paragraphs are empty"),
    ],
)
def test_a_bad_hotpotqa_file_is_refused(save, content, says):
    with pytest.raises(UserError, match=says):
        hotpotqa(save(content))


@pytest.mark.skipif(
    not list(Path(os.environ.get("PROBEBOOK_DATA") or "/nowhere").glob("hotpotqa/*.json")),
    reason="HotpotQA's subsets are not under PROBEBOOK_DATA",
)
@pytest.mark.parametrize(
    "name, kinds, deleted",
    [
        ("train_100", {"span": 80, "yes/no": 9, "number": 7, "option": 4}, 98),
        ("dev_100", {"span": 72, "yes/no": 12, "number": 11, "option": 5}, None),
    ],
)
def test_the_subsets(name, kinds, deleted):
    table = hotpotqa(name)
    assert len(table) == 100
    assert table.kind.value_counts().to_dict() == kinds
    assert ((table.start < 0) == (table.kind == "yes/no")).all()
    assert all(
        len(row.rationale) >= 2 and row.story[row.start : row.end] == row.answer
        for row in table.itertuples()
        if row.start >= 0
    )
    left = delete_rationale(table)
    assert len(left) == len(
        [row for row in table.itertuples() if len(row.rationale) < len(row.sentences)]
    )
    assert deleted is None or len(left) == deleted
    assert len(hotpotqa(name, n=7)) == 7


# predicate–argument structure


@pytest.mark.parametrize(
    "wording, first",
    [
        ("original", "Was the car red?"),
        ("there", "Was there a red car?"),
        ("the", "Was the a red car?"),
    ],
)
def test_130_stories_and_520_questions(wording, first):
    table = questions(wording)
    assert len(table) == 520
    assert table.story.nunique() == table.story_id.nunique() == 130
    assert table.question[0] == first
    assert table.answer.value_counts().to_dict() == {"yes": 260, "no": 260}
    assert (table.groupby("scheme").story.nunique() == 26).all()
    assert table.scheme.nunique() == 5
    assert (
        table.groupby("story").answer.agg(lambda a: sorted(a)).map(tuple)
        == ("no", "no", "yes", "yes")
    ).all()
    for row in table.itertuples():
        thing = next(
            thing for thing in SCHEMES[[*SCHEMES][row.scheme]] if f" {thing}" in row.question
        )
        asked = next(colour for colour in COLOURS if f" {colour}" in row.question)
        assert (f"{asked} {thing}" in row.story) == (row.answer == "yes")
    assert (table.story == questions("original").story).all()
    assert (table.answer == questions("original").answer).all()


def test_neither_question_nor_colours_tell_the_answer():
    table = questions()
    assert (table.groupby("question").answer.agg(lambda a: (a == "yes").mean()) == 0.5).all()
    pair = table.colours.map(sorted).map(tuple).rename("pair")
    assert (table.groupby([pair, "question"]).answer.nunique() == 2).all()
    assert len(set(COLOURS)) == 13
    assert len({*zip(table.scheme, table.colours)}) == 130
    assert all(one != two for one, two in itertools.pairwise(COLOURS + COLOURS[:1]))


def test_the_open_question_has_the_colour_of_its_thing_for_an_answer():
    table = questions("open")
    assert len(table) == 260
    assert table.question[0] == "What colour was the car?"
    assert table.answer[0] == "red"
    assert all(
        row.story[row.start : row.end] == row.answer == row.colours[row.which]
        for row in table.itertuples()
    )
    assert all(f"{row.answer} {row.thing}" in row.story for row in table.itertuples())


def test_the_contrast_set_denies_what_its_original_states():
    table, original = negated(), questions()
    assert len(table) == 520
    assert table.story.nunique() == table.story_id.nunique() == 260
    assert (table.groupby("scheme").story.nunique() == 52).all()
    assert (table.groupby("story").answer.agg(set) == {"yes", "no"}).all()
    pair = ["scheme", "colours", "question"]
    assert (table.groupby(pair).answer.agg(sorted).map(tuple) == ("no", "yes")).all()
    assert (table.merge(original, on=pair).answer_y == "yes").all()  # without the negation
    for row in table.itertuples():
        denied = f"{row.thing} that was not {row.colour}" in row.story
        assert denied == (row.answer == "no")
        assert (f" {row.colour} {row.thing}" in row.story) == (row.answer == "yes")
        assert row.story.count(" not ") == 1
        assert "{" not in row.story
    assert "The blue car was standing in front of a house that was not scarlet." in {*table.story}
    assert not {*table.story} & {*original.story}


def test_drawn_stories_are_asked_the_same_questions():
    text = "The {one} on a {c2} {two} was {c1}."
    closed, opened = sample(text, 30, seed=3), sample(text, 30, "open", seed=3)
    assert len(closed) == 120
    assert len(opened) == 60
    assert (closed.groupby("story_id").story.nunique() == 1).all()
    assert (closed.answer == "yes").mean() == 0.5
    assert {*closed.story} == {*opened.story}
    for row in opened.itertuples():
        assert row.story.endswith(f"was {row.answer}.") == (row.which == 0)
        assert row.which == 0 or f"{row.answer} {row.thing}" in row.story
    assert not sample(text, 30, seed=4).story.equals(closed.story)


def test_another_wording_is_refused():
    with pytest.raises(UserError, match="expected original, there, the, open"):
        questions("new")
    with pytest.raises(UserError, match="n = 0: at least 1 story"):
        sample("{one} {two} {c1} {c2}", 0)
