"""Chapter 5's readers by name: shipped ones, untrained ones, and those that a run trains on an
encoder."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

import tiny_encoders
from probebook.base import UserError
from probebook.corpora import stories
from probebook.corpora.published import published
from probebook.models.readers import FittedReader, Network, Reader
from probebook_chapters import semantic_faithfulness as experiment
from probebook_training.recipes import READERS, training_stories

pytestmark = pytest.mark.library


def test_pocket_encoders_are_trained_like_the_shipped_readers():
    assert experiment.recipe("pocket-stories") == READERS["pocket-stories"]
    pocket = experiment.recipe("pocket-agreement", seed=3)
    assert (pocket.encoder, pocket.optimizer, pocket.tokens, pocket.seed) == (
        "pocket-agreement",
        "muon",
        1_024,
        3,
    )


def test_an_untrained_reader_answers_and_the_same_each_time():
    table = stories.generate(2, seed=5)
    one, other = (
        experiment.readers(["untrained"], "pocket-english")["untrained"] for _ in range(2)
    )
    assert one.net.fingerprint == other.net.fingerprint
    found = experiment.answers({"untrained": one}, {"OS": table})
    assert len(found) == len(table)
    assert found.right.isin([0, 1]).all()
    np.testing.assert_array_equal(experiment.scores(found).n, len(table))


def test_readers_of_an_encoder_are_trained_by_their_regimes_on_the_training_part(monkeypatch):
    asked = {}

    def questions(source, n):
        asked["source"] = source
        table = stories.generate(n)
        # no span: left out
        table.loc[table.index[0], ["answer", "start", "end"]] = "told freely", -1, -1
        return table

    def reader(regime, recipe, table, deleted):
        asked[regime] = recipe.encoder, len(table), deleted, "told freely" in set(table.answer)
        return regime

    monkeypatch.setattr(experiment, "questions", questions)
    monkeypatch.setattr(experiment, "train_reader", reader)
    names = ["ibt", "ot"]
    assert list(experiment.readers(names, "pocket-english", "hotpotqa:dev_100", 4)) == names
    assert asked["source"] == "hotpotqa:train_100"
    wanted = "pocket-english", len(stories.generate(4, 0)) - 1, "OS-R", False
    assert asked["ot"] == wanted
    assert asked["ibt"] == wanted
    assert experiment.deletion("stories") == experiment.deletion("coqa:dev") == "TS-R"


def test_shipped_readers_are_loaded_by_regime(monkeypatch):
    monkeypatch.setattr(experiment, "load_reader", lambda name: name)
    assert experiment.readers(["base", "ot-matched", "ibt"]) == {
        "base": "pocket-stories",
        "ot-matched": "pocket-stories-ot-matched",
        "ibt": "pocket-stories-ibt",
    }


def test_generated_stories_for_a_regime_are_those_of_the_shipped_readers(monkeypatch):
    shares = {}
    monkeypatch.setattr(
        experiment,
        "train_reader",
        lambda regime, recipe, table, deleted: shares.update(
            {regime: (len(table), (table.answer == "unknown").mean())}
        ),
    )
    experiment.readers(["ot", "ot-unknown"], "pocket-english", train=100)
    tables = {name: training_stories(name, 100) for name in shares}
    assert shares == {
        name: (len(table), (table.answer == "unknown").mean()) for name, table in tables.items()
    }
    assert shares["ot"][1] < 0.03 < 0.15 < shares["ot-unknown"][1] < 0.25


@pytest.mark.parametrize(
    "names, encoder, source",
    [
        (["base"], "pocket-english", "stories"),
        (["bert"], "pocket-stories", "stories"),
        (["ot-unknown"], "pocket-english", "coqa:dev"),
        (["ot-answered"], "pocket-english", "coqa:dev"),
    ],
)
def test_other_names_are_refused(names, encoder, source):
    with pytest.raises(UserError, match="expected ot, ot-matched, .*ibt"):
        experiment.readers(names, encoder, source)


@pytest.fixture(scope="module")
def untrained():
    recipe = Reader(max_length=256)
    return FittedReader(recipe, Network(recipe))


def test_who_asks_for_states_is_in_no_mode_of_torch(untrained):
    """So that a reading that is left half-way leaves none behind when it is collected."""
    table = stories.generate(3, seed=5)
    for _ in untrained.states(table):
        assert not torch.is_inference_mode_enabled()
        break
    batches = untrained.batches(untrained.windows(table))
    next(batches)
    assert not torch.is_inference_mode_enabled()


def test_inside_are_the_states_that_the_heads_read(untrained):
    table = stories.generate(3, seed=5)
    said, cls, q, ids, tokens = experiment.reader_states(untrained, table, tokens=True)
    assert cls.shape == (5, len(table), 256)
    assert q.shape == (len(table), 256)
    assert said.equals(untrained(table))  # known from that reading
    for place, of, h, at in untrained.states(table):
        np.testing.assert_allclose(h[at], cls[-1, place], atol=1e-5)
        np.testing.assert_array_equal(ids[place], of)
        np.testing.assert_allclose(h, tokens[place], atol=1e-5)
    assert experiment.reader_states(untrained, table.iloc[:2])[3:] == ([], [])
    asked = FittedReader(untrained.recipe, untrained.net)(table)
    np.testing.assert_array_equal(said.said, asked.said)
    np.testing.assert_allclose(said.unknown, asked.unknown, atol=1e-4)
    head, d = untrained.net.heads.spoken, 256
    w, b = head.weight.detach().numpy(), head.bias.detach().numpy()
    scores = 2 * (cls[-1] @ w[:, :d].T + q @ w[:, d:].T + b)
    np.testing.assert_allclose(scores, untrained(table)[["yes", "no", "unknown"]], atol=1e-3)
    assert np.ptp(cls[0], axis=0).max() < 1e-5  # [CLS] is one word before the first block


def test_inside_of_xlnet_are_its_last_token_and_the_story_weighted_by_starts(tmp_path):
    table = stories.generate(2, seed=5, length=(4, 6))
    words = {
        word
        for text in (*table.story, *table.question)
        for word in re.findall(r"\w+", text.lower())
    }
    recipe = experiment.recipe(tiny_encoders.save(tmp_path, sorted(words))["xlnet"])
    reader = FittedReader(recipe, Network(recipe))
    said, cls, q, ids, tokens = experiment.reader_states(reader, table, tokens=True)
    assert cls.shape == (3, len(table), 32)
    assert {int(row[-1]) for row in ids} == {reader.net.body.tokenizer.cls_token_id}
    np.testing.assert_array_equal(cls[-1], [h[-1] for h in tokens])
    cut, span = reader.windows(table), reader.net.heads.span
    assert len(cut.item) == len(table)  # one window each
    for h, (begin, end), found in zip(tokens, cut.story, q):
        start = span(torch.from_numpy(h[begin:end]))[:, 0].softmax(0).detach().numpy()
        np.testing.assert_allclose(start @ h[begin:end], found, atol=1e-6)
    heads = reader.net.heads
    w, b = heads.weights().detach().numpy(), heads.kind.bias.detach().numpy()
    logits = cls[-1] @ w[:, :32].T + q @ w[:, 32:].T + b
    scores = said[[*heads.forms]].to_numpy()
    np.testing.assert_allclose(logits - logits[:, -1:], scores - scores[:, -1:], atol=1e-5)


def test_scores_against_several_people_leave_each_out_in_turn():
    table = stories.generate(2, seed=5).iloc[:4]
    said = ["red", "a hat", "unknown", "blue"]
    several = [
        ["red", "dark red", "red", "blue"],
        ["hat"] * 4,
        ["unknown", *["a hat"] * 3],
        ["dark blue", "red", "dark", "sky blue"],
    ]
    reader = lambda part: pd.DataFrame({"said": said})
    many = experiment.answers({"r": reader}, {"OS": table.assign(references=several)})
    np.testing.assert_allclose(many.em, [1, 1, 3 / 4, 0])
    np.testing.assert_allclose(many.f1, [1, 1, 3 / 4, 2 / 3])
    np.testing.assert_array_equal(many.old, [1, 1, 1, 0])
    alone = [[people[0]] for people in several]
    one = experiment.answers({"r": reader}, {"OS": table.assign(references=alone)})
    plain = experiment.answers(
        {"r": reader}, {"OS": table.assign(gold=[people[0] for people in several])}
    )
    np.testing.assert_array_equal(one[["em", "f1", "old"]], plain[["em", "f1", "old"]])
    np.testing.assert_array_equal(one.em, one.old)


def test_questions_with_two_wordings_have_one_answer_and_know_whether_their_word_stands():
    found = experiment.two_wordings(stories.generate(60, seed=3))
    first, second = (found[found.way == way].reset_index(drop=True) for way in (0, 1))
    assert len(first) == len(second) > 5
    assert (first.question != second.question).all()
    assert (first.answer == second.answer).all()
    assert {*first.answer} <= {"yes", "no", "unknown"}
    assert not found.history.map(len).any()
    stands = [
        re.search(rf"\b{row.query.values[0]}\b", row.story) is not None
        for row in found.itertuples()
    ]
    assert found["in text"].tolist() == stands


def test_a_run_has_the_row_of_its_own_model_beside_it():
    for model, name in experiment.MODELS.items():
        assert experiment.printed_models(model) == [name]
        assert experiment.printed_models(f"/some/folder/{model}") == [name]
    for number in (4, 5, 7, 8, 9, 10, 12):
        printed = published(f"semantic_faithfulness_table{number}")
        assert {*printed.model} == {*experiment.printed_models("pocket-stories")}
