"""Chapter 2's experiment on a small world: effects pair by pair, the floor, the best constant,
choices made on dev."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from probebook.base import UserError
from probebook.corpora import cebab, reviews
from probebook.measures.concept_effects import DISTANCES, cace, icace_error
from probebook.measures.intervals import resample_means
from probebook.models.classifier import labels
from probebook.models.oracle import GlassOracle, Oracle
from probebook_chapters import concept_effects as experiment

pytestmark = pytest.mark.library


@pytest.fixture(scope="module")
def s():
    return experiment.prepare(n=150, seed=3)


@pytest.fixture(scope="module")
def box(s, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBEBOOK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield experiment.black_boxes(
            s, "pocket-english", [0], frozen=True, at="mean", lr=3e-3, epochs=30, batch=16
        )[0]


def exact(s):
    return Oracle(s.table)


def test_parts_are_those_of_the_splits_and_the_training_texts_one_a_group(s):
    for split, part in s.parts.items():
        np.testing.assert_array_equal(part.pairs.source_split, split)
        assert len(part.questions) == len(part.pairs)
        np.testing.assert_array_equal(
            part.questions.description.to_numpy(),
            s.table.description.iloc[part.pairs.source_row].to_numpy(),
        )
    assert s.train.original_id.is_unique
    assert not set(s.train.description) & set(s.parts["test"].questions.description)
    with pytest.raises(UserError, match="train_exclusive"):
        experiment.prepare(n=150, train="training")


def test_true_effects_are_those_of_each_pair(s):
    true, pairs = experiment.true_effects(exact(s), s), s.parts["test"].pairs
    probs = reviews.probabilities(s.table)
    np.testing.assert_allclose(true.numpy(), probs[pairs.target_row] - probs[pairs.source_row])
    torch.testing.assert_close(
        true.sum(1), torch.zeros(len(true), dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_macro_f1_of_the_readers_themselves_is_1(s):
    texts, z = s.examples("test")
    assert len(texts) == cebab.classes(s.table[s.table.split == "test"].review_majority).size
    assert experiment.macro_f1(lambda _: torch.eye(5)[torch.from_numpy(z)], s) == 1


def test_the_board_has_the_floor_the_truth_and_the_best_constant(s):
    true = experiment.true_effects(exact(s), s)
    best = experiment.mean_effects(s, true)
    pairs = s.parts["test"].pairs
    by_change = cace(pairs, true)
    np.testing.assert_allclose(
        best[0], by_change.loc[tuple(pairs[["concept", "source", "target"]].iloc[0])]
    )
    moved = best + 0.05 * torch.randn(
        5, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    assert (true - best).square().sum() < (true - moved).square().sum()
    found = experiment.errors(true, {"truth": true, "zero": 0 * true, "mean": best})
    board = experiment.board(s, [found, {name: 3 * e for name, e in found.items()}], draws=50)
    board = board.set_index(["explainer", "distance"])
    # where two effects cancel: cosine is 1 there
    none = (true.norm(dim=1) < 1e-12).double().mean().item()
    assert board.error["truth"].tolist() == pytest.approx([2 * none, 0, 0], abs=1e-9)
    assert 0 < none < 0.05
    assert board.error["zero", "cosine"] == 2
    assert board.error["zero", "l2"] == pytest.approx(2 * true.norm(dim=1).mean().item())
    # of m and 3 m
    assert board.sd["zero", "l2"] == pytest.approx(2**0.5 * true.norm(dim=1).mean().item())
    assert board.error["mean", "l2"] < board.error["zero", "l2"]
    assert (board.low <= board.error).all()
    assert (board.error <= board.high).all()
    assert list(found["zero"][:, DISTANCES.index("cosine")]) == [1] * len(true)


def test_strengths_are_chosen_on_dev(s, box):
    chosen = experiment.direction_explainers(s, box, alphas=[0.5, 50], radii=[0.25, 20])
    assert list(chosen) == ["LEACE", "AlterRep", "PGD"]
    true, questions = experiment.true_effects(box, s, "dev"), s.parts["dev"].questions
    for name, other in (("AlterRep", {"alpha": [0.5, 50]}), ("PGD", {"eps": [0.25, 20]})):
        ((setting, values),) = other.items()
        errors = {}
        for v in values:
            explainer = type(chosen[name])(v).fit(s.train, box)
            errors[v] = icace_error(true, explainer.effect(questions), "l2").mean().item()
        assert getattr(chosen[name], setting) == min(errors, key=errors.get)
        assert len(set(errors.values())) == 2


def test_penalties_are_compared_without_a_pair_of_texts(s, box):
    """By dev reviews' own labels: a hopeless penalty reads each aspect's most frequent label."""
    fitted, read = experiment.inlp_by_penalty(replace(s, parts={}), box, [1e-9, 1.0])
    assert {C: e.C for C, e in fitted.items()} == {1e-9: 1e-9, 1.0: 1.0}
    dev, known = s.table[s.table.split == "dev"], labels(s.train)
    frequent = [np.bincount(z[z >= 0]).argmax() for z in known.T]
    z = labels(dev)
    assert read[1e-9] == pytest.approx(
        np.mean([(z[:, i] == most)[z[:, i] >= 0].mean() for i, most in enumerate(frequent)])
    )
    assert read[1.0] > read[1e-9]


def test_the_papers_explainers_come_in_the_order_of_table_10():
    assert list(experiment.explainers())[1:] == [
        "Random",
        "Approx",
        "CONEXP",
        "S-Learner",
        "TCAV",
        "ConceptSHAP",
        "CausaLM",
        "INLP",
    ]
    released = experiment.explainers(5, "released", lr=1e-3, epochs=2)
    assert {e.variant for e in released.values() if hasattr(e, "variant")} == {"released"}
    assert (released["CausaLM"].lr, released["CausaLM"].epochs) == (1e-3, 2)
    assert released["Random"].seed == 5


def test_oracles_give_the_exact_probabilities_and_effects(s):
    oracle, glass = exact(s), GlassOracle(s.table)
    p = torch.from_numpy(reviews.probabilities(s.table))
    torch.testing.assert_close(oracle(s.table.description), p, rtol=0, atol=0)
    assert (glass(s.table.description) - p).abs().max() < 0.02
    pairs = s.parts["test"].pairs
    torch.testing.assert_close(
        experiment.true_effects(oracle, s),
        p[pairs.target_row.array] - p[pairs.source_row.array],
        rtol=0,
        atol=0,
    )
    h = glass.phi(s.table.description[:3])
    assert h.dtype == torch.float32
    torch.testing.assert_close(glass.head(h).softmax(1).double(), p[:3], rtol=0, atol=0.02)
    with pytest.raises(UserError, match="only the texts of its own world, not 'Another"):
        oracle([s.table.description[0], "Another text."])


def test_shuffled_labels_go_together_and_stay_in_their_shares(s):
    names = [f"{aspect}_aspect_majority" for aspect in cebab.ASPECTS]
    mixed = experiment.shuffle_labels(s.train, 0)
    assert mixed.drop(columns=names).equals(s.train.drop(columns=names))
    assert not mixed[names].equals(s.train[names])
    np.testing.assert_array_equal(
        mixed[names].value_counts().sort_index(), s.train[names].value_counts().sort_index()
    )


def test_errors_in_units_of_another_explainers():
    rng = np.random.default_rng(0)
    one = {"Random": rng.uniform(1, 2, (40, 3))}
    one["half"] = one["Random"] / 2
    draws = resample_means(experiment.per_pair([one]), pd.Series(np.arange(40) // 2), n=20)
    found = experiment.relative_errors(draws, "Random")
    np.testing.assert_allclose(found.loc["half"], 0.5)  # also in every draw
    found = experiment.relative_errors(draws, "half")
    np.testing.assert_allclose(found.loc["Random", list(DISTANCES)], 2)


def test_panels_of_a_board_keep_its_numbers_and_order():
    rows = pd.MultiIndex.from_product(
        [["b", "a"], ["l2", "cosine"]], names=["explainer", "distance"]
    )
    board = pd.DataFrame(np.arange(16.0).reshape(4, 4), rows, ["error", "low", "high", "sd"])
    found = experiment.panels(board).set_index("explainer")
    assert list(found.index) == ["b", "a"]
    assert found.loc["a"].to_dict() == {
        "L2 error": 8,
        "L2 error_low": 9,
        "L2 error_high": 10,
        "cosine error": 12,
        "cosine error_low": 13,
        "cosine error_high": 14,
    }


def test_effects_with_intervals_leave_out_pairs_without_stars():
    pairs = pd.DataFrame(
        {
            "concept": "food",
            "source": "Negative",
            "target": ["Positive"] * 4 + ["unknown"] * 3,
            "group": [0, 0, 1, 2, 0, 1, 1],
        }
    )
    found = experiment.effect_intervals(pairs, [1, 2, 3, np.nan, 1, 1, 1], draws=200)
    positive = found.loc["food", "Negative", "Positive"]
    assert positive.tolist() == [2, 1.5, 3]  # the two groups' means are the ends
    assert found.loc["food", "Negative", "unknown"].tolist() == [1, 1, 1]


def test_without_confounding_conexp_is_right_in_the_population():
    none, strong = (experiment.conexp_biases(c, 150) for c in (0.0, 1.5))
    np.testing.assert_allclose(none["population, exact"], 0, atol=1e-12)
    assert (strong["population, exact"] > 0).all()
    assert len(strong) == 12


def test_shares_of_all_originals_are_those_of_generated_ones():
    world = experiment.all_originals(reviews.CONFOUNDING)
    assert world.share.sum() == pytest.approx(1)
    texts = reviews.generate(3000, 1)
    texts = texts[texts.is_original & ~texts.split.isin(cebab.PARTS_OF_TRAIN)]
    good = world[(world.food_aspect_majority == "Positive") & (world.mood == "Positive")]
    drawn = (texts.food_aspect_majority == "Positive") & texts.opentable_metadata.map(
        lambda data: data["mood"] == 1
    )
    assert abs(drawn.mean() - good.share.sum()) < 0.03


def test_the_mean_effect_given_labels_leaves_the_mood_alone(s):
    true = experiment.true_effects(exact(s), s)
    known = experiment.mean_effects_given_labels(s)
    assert known.shape == true.shape
    np.testing.assert_allclose(known.sum(1), 0, atol=1e-12)
    change, nothing = experiment.mean_effects(s, true), 0 * true
    left = [float(((e - true) ** 2).sum(1).mean()) for e in (known, change, nothing)]
    assert left == sorted(left)


def test_an_order_has_all_labels_first(s):
    rng = np.random.default_rng(0)
    drawn = experiment.shuffled_with_all_labels(s.train, 60, rng)
    assert sorted(drawn.index) == sorted(s.train.index)
    for z in labels(drawn.iloc[:60]).T:
        assert np.bincount(z, minlength=3).min() >= 3
    with pytest.raises(UserError, match="never have all labels"):
        experiment.shuffled_with_all_labels(s.train, 4, rng)
