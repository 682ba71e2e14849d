"""Chapter 5's readers by name: shipped ones, untrained ones, and those that a run trains on an
encoder."""
import numpy as np
import pytest

from probebook.base import UserError
from probebook.corpora import stories
from probebook.experiments import semantic_faithfulness as experiment
from probebook.models.readers import FittedReader, Network, Reader
from probebook.models.training.recipes import READERS, training_stories


def test_pocket_encoders_are_trained_like_the_shipped_readers():
    assert experiment.recipe("pocket-stories") == READERS["pocket-stories"]
    pocket = experiment.recipe("pocket-agreement", seed=3)
    assert (pocket.encoder, pocket.optimizer, pocket.tokens, pocket.seed) == (
        "pocket-agreement", "muon", 1_024, 3)


def test_an_untrained_reader_answers_and_the_same_each_time():
    table = stories.generate(2, seed=5)
    one, other = (experiment.readers(["untrained"], "pocket-english")["untrained"]
                  for _ in range(2))
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
    monkeypatch.setattr(experiment, "reader", reader)
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
        "base": "pocket-stories", "ot-matched": "pocket-stories-ot-matched",
        "ibt": "pocket-stories-ibt"}


def test_generated_stories_for_a_regime_are_those_of_the_shipped_readers(monkeypatch):
    shares = {}
    monkeypatch.setattr(experiment, "reader", lambda regime, recipe, table, deleted: shares.update(
        {regime: (len(table), (table.answer == "unknown").mean())}))
    experiment.readers(["ot", "ot-unknown"], "pocket-english", train=100)
    tables = {name: training_stories(name, 100) for name in shares}
    assert shares == {name: (len(table), (table.answer == "unknown").mean())
                      for name, table in tables.items()}
    assert shares["ot"][1] < .03 < .15 < shares["ot-unknown"][1] < .25


@pytest.mark.parametrize("names, encoder, source", [
    (["base"], "pocket-english", "stories"), (["bert"], "pocket-stories", "stories"),
    (["ot-unknown"], "pocket-english", "coqa:dev"),
    (["ot-answered"], "pocket-english", "coqa:dev")])
def test_other_names_are_refused(names, encoder, source):
    with pytest.raises(UserError, match="one of ot, ot-matched, .*ibt"):
        experiment.readers(names, encoder, source)


@pytest.fixture(scope="module")
def untrained():
    recipe = Reader(max_length=256)
    return FittedReader(recipe, Network(recipe))


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


def test_only_tagging_readers_have_a_summary():
    recipe = Reader(heads="typed")
    with pytest.raises(UserError, match="tagging"):
        experiment.reader_states(FittedReader(recipe, Network(recipe)), stories.generate(1))
