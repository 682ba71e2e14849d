"""Chapter 3's experiment: hand-made tables, a Gaussian world whose answer is known, one-line
errors."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import binomtest

from probebook.base import UserError
from probebook.corpora.probing_tasks.plain_sentences import generate
from probebook.measures.folds import assign_folds, rotations
from probebook.measures.sample_size import mcnemar_power, recommend
from probebook.models import load
from probebook.probes import MLPProbe
from probebook_chapters import data_requirements as experiment
from probebook_chapters.data_requirements import (
    RATES,
    add_noise,
    compare,
    correct_answers,
    sufficient_from,
)

pytestmark = pytest.mark.library

SPLIT = np.repeat(["train", "dev", "test"], [400, 100, 400])


@pytest.fixture(scope="module")
def world():
    """Two Gaussians of deviation 1, apart by 3 along one of 5 axes."""
    z = np.arange(len(SPLIT)) % 2
    h = torch.randn(len(z), 5, generator=torch.Generator().manual_seed(0))
    h[:, 0] += 3 * (torch.from_numpy(z) - 0.5)
    return h, z


def test_a_comparison_counts_what_one_alone_gets_right():
    a = np.array([[1, 1, 1, 0, 1, 1, 1, 1, 1, 0], [1] * 10])
    b = np.array([[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], [1] * 10])
    found = compare(a, b, dim=768)
    assert (found.items, found.acc_a, found.acc_b) == (10, 0.9, 0.6)
    assert found.delta == pytest.approx(0.3)
    assert found.only_a == pytest.approx(0.35)
    assert found.only_b == pytest.approx(0.05)
    assert found.power == pytest.approx(mcnemar_power(0.7, 0.1, 10) / 2) == found.agreed
    assert found.simulated == pytest.approx(found.power, abs=0.04)
    assert found.recommended == recommend(0.3, 768)


def test_swapping_the_two_changes_signs_only():
    a, b = np.random.default_rng(0).random((2, 4, 60)) < [[[0.8]], [[0.6]]]
    one, other = compare(a, b, 300), compare(b, a, 300)
    assert one.delta == pytest.approx(-other.delta)
    assert (one.only_a, one.only_b) == (other.only_b, other.only_a)
    assert one.power == pytest.approx(other.power)
    assert one.recommended == other.recommended


def test_seeds_that_contradict_each_other_do_not_agree():
    a = np.array([[1] * 30 + [0] * 30, [0] * 40 + [1] * 20])
    found = compare(a, 1 - a, 10)
    powers = [mcnemar_power(0.5, 0.5, 60), mcnemar_power(2 / 3, 1 / 3, 60)]
    assert found.power == pytest.approx(np.mean(powers))
    assert found.agreed == pytest.approx(powers[1] / 2)


def test_no_difference_has_no_power_and_the_n_of_one_answer():
    a = np.ones((5, 64))
    found = compare(a, a, 768)
    assert (found.delta, found.power, found.simulated, found.agreed) == (0, 0, 0, 0)
    assert found.recommended == recommend(1 / 320, 768)


def test_a_power_suffices_from_the_size_after_which_it_never_falls_back():
    assert sufficient_from([16, 32, 64, 128], [0.9, 0.7, 0.8, 1]) == 64
    assert sufficient_from([128, 16, 64, 32], [1, 0.9, 0.8, 0.7]) == 64  # in any order
    assert sufficient_from([16, 32], [0.8, 0.9]) == 16
    assert np.isnan(sufficient_from([16, 32], [1, 0.79]))


def test_the_probes_are_near_the_best_there_is_and_the_majority_is_not(world):
    for probe in ("linear", "mlp"):
        accuracy = correct_answers(*world, SPLIT, probe, seeds=[0, 1]).mean()
        assert accuracy == pytest.approx(0.933, abs=0.03), probe  # Φ(1.5)
    majority = correct_answers(*world, SPLIT, "majority", seeds=[0, 1])
    assert majority.shape == (2, 400)
    assert majority.dtype == bool
    assert majority.mean() == 0.5


def test_without_draws_a_seed_is_only_start_and_order(world):
    linear = correct_answers(*world, SPLIT, seeds=[0, 1], draw=False)
    np.testing.assert_array_equal(linear[0], linear[1])
    for probe in ("LogReg", "MLP-20"):
        found = correct_answers(*world, SPLIT, probe, seeds=[0, 1], draw=False, epochs=8)
        assert (found[0] != found[1]).any(), probe
        assert found.mean() == pytest.approx(0.933, abs=0.03), probe
        again = correct_answers(*world, SPLIT, probe, seeds=[1], draw=False, epochs=8)
        assert (found[1:] == again).mean() > 0.99


def test_the_search_takes_the_best_of_the_batch_sizes_that_are_given(world):
    h, z = world[0], torch.tensor(world[1])
    part = {name: np.flatnonzero(SPLIT == name) for name in ("train", "dev", "test")}
    found = correct_answers(h, z, SPLIT, "LogReg", seeds=[2], draw=False, epochs=3, batches=[64])
    search = dict(layers=[0], widths=[20], lrs=RATES, batches=[64], epochs=3, patience=5, seeds=[2])
    probe = MLPProbe.grid(**search).fit(
        h[part["train"]], z[part["train"]], h[part["dev"]], z[part["dev"]]
    )
    np.testing.assert_array_equal(
        found[0], (probe(h[part["test"]]).argmax(1) == z[part["test"]]).numpy()
    )


def test_power_grows_with_noise_and_with_size(world):
    h, z = world
    clean = correct_answers(h, z, SPLIT)
    powers = [
        compare(clean, correct_answers(add_noise(h, scale), z, SPLIT), 5).power
        for scale in (0, 0.1, 0.5, 1)
    ]
    assert powers[0] == 0
    assert powers == sorted(powers)
    assert powers[-1] > 0.999
    sizes = {"train": 40, "dev": 10, "test": 40}
    small = np.concatenate([np.flatnonzero(SPLIT == name)[:size] for name, size in sizes.items()])
    few = [
        correct_answers(states[small], z[small], SPLIT[small]) for states in (h, add_noise(h, 1))
    ]
    assert compare(*few, 5).power < powers[-1] - 0.2


def test_the_same_states_and_seeds_give_the_same_and_other_seeds_are_seldom_told_apart(world):
    h, z = world
    one = correct_answers(h, z, SPLIT, seeds=range(5))
    np.testing.assert_array_equal(one, correct_answers(h, z, SPLIT, seeds=range(5)))
    np.testing.assert_array_equal(one[2:3], correct_answers(h, z, SPLIT, seeds=[2]))
    again = correct_answers(h, z, SPLIT, seeds=range(5, 45)).reshape(2, 20, -1)
    p = [binomtest(int((a & ~b).sum()), max(1, int((a ^ b).sum()))).pvalue for a, b in zip(*again)]
    assert compare(*again, 5).power < 0.25
    assert np.mean(np.array(p) <= 0.05) <= 0.05
    mlp = correct_answers(h, z, SPLIT, "mlp", seeds=[3], epochs=2)
    np.testing.assert_array_equal(mlp, correct_answers(h, z, SPLIT, "mlp", seeds=[3], epochs=2))


def test_a_seed_draws_the_same_training_items_whatever_the_states(world):
    h, z = world
    np.testing.assert_array_equal(
        correct_answers(h, z, SPLIT), correct_answers(h.clone(), list(z), list(SPLIT))
    )
    turned = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(1)))[0]
    # the probe sees no axes
    assert (correct_answers(h, z, SPLIT) == correct_answers(h @ turned, z, SPLIT)).mean() > 0.999


def test_in_folds_each_item_is_judged_once_by_a_probe_that_has_not_seen_it(world):
    h, z = world
    found = experiment.fold_accuracies(h, z, seed=4)
    split = np.full(len(z), "train")
    _, dev, test = list(rotations(assign_folds(z, seed=4)))[2]
    split[dev], split[test] = "dev", "test"
    assert found.shape == (6,)
    assert found[2] == correct_answers(h, z, split, seeds=[2]).mean()
    assert found.mean() == pytest.approx(0.933, abs=0.03)  # Φ(1.5)
    shuffled = np.random.default_rng(0).permutation(z)
    assert experiment.fold_accuracies(h, shuffled).mean() == pytest.approx(0.5, abs=0.07)


def test_noise_has_the_given_deviation():
    h = torch.zeros(2000, 20)
    assert add_noise(h, 0.3).std().item() == pytest.approx(0.3, rel=0.02)
    np.testing.assert_array_equal(add_noise(h, 0), h)
    np.testing.assert_array_equal(add_noise(h, 1, 0), add_noise(h, 1, 0))
    assert (add_noise(h, 1, 0) != add_noise(h, 1, 1)).all()


def test_data_sets_are_balanced_cut_without_changing_splits_and_drawn_by_seed():
    table = experiment.prepare("bigram_shift", n=600, per_class=64)
    counts = pd.crosstab(table.split, table.z)
    np.testing.assert_array_equal(
        counts.loc[["train", "dev", "test"]].to_numpy(), [[64, 64], [16, 16], [16, 16]]
    )
    small = table.iloc[experiment.rows(table, 16)]
    assert small.text.is_unique
    assert small.groupby(["split", "z"]).size().tolist() == [4, 4, 4, 4, 16, 16]
    assert set(experiment.rows(table, 16, 1)) != set(experiment.rows(table, 16))
    assert sorted(experiment.rows(table, 64, 1)) == list(range(len(table)))


def test_states_by_encoder_and_pooling(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    texts = generate(6, 0)
    names = [
        "pocket-english mean",
        "pocket-english cls",
        "pocket-english max",
        "pocket-english pooler",
        "random:pocket-english mean",
        "pocket-english-gpt last",
    ]
    found = {name: experiment.states(texts, name) for name in names}
    assert all(h.shape == (6, 256) and h.isfinite().all() for h in found.values())
    assert len({float(h.sum()) for h in found.values()}) == len(names)
    assert (
        experiment.encoder.__wrapped__("random:pocket-english").fingerprint
        == experiment.encoder.__wrapped__("random:pocket-english").fingerprint
    )
    monkeypatch.setattr("probebook.models.twins.SENTENCES", 40)
    twin = experiment.encoder.__wrapped__("corrupted-2:pocket-english")
    assert twin.name == "corrupted-2:pocket-english"
    assert twin.fingerprint != load("pocket-english").fingerprint
    narrow = experiment.states(texts, "pocket-vectors-100 mean")
    assert narrow.shape == (6, 100)
    torch.testing.assert_close(
        narrow, experiment.states(texts, "pocket-vectors mean")[:, :100], rtol=0, atol=0
    )
    (tmp_path / "two.txt").write_text("the 1 0\n. 0 1\n", encoding="utf-8")
    assert experiment.states(["The the .", "?"], f"{tmp_path}/two.txt mean").tolist() == [
        pytest.approx([2 / 3, 1 / 3]),
        [0, 0],
    ]


@pytest.mark.parametrize(
    "wrong, match",
    [
        (lambda: experiment.states(["A."], "pocket-english"), "a name, a space and"),
        (lambda: experiment.states(["A."], "pocket-english first"), "pooler, cls, mean, max, last"),
        (lambda: experiment.states(["A."], "pocket-english-gpt cls"), "use last, max or mean"),
        (lambda: experiment.states(["A."], "glove.txt cls"), "only the mean"),
        (
            lambda: correct_answers(torch.zeros(9, 2), np.zeros(9), SPLIT[:9], "linear"),
            "train, dev and test",
        ),
        (
            lambda: correct_answers(torch.zeros(900, 2), np.arange(900) % 2, SPLIT, "tree"),
            "linear, majority, mlp",
        ),
        (lambda: compare(np.ones((2, 8)), np.ones((2, 9)), 5), "[seeds, items]"),
        (lambda: compare(np.ones((2, 8)), np.full((2, 8), 0.5), 5), "only 0 and 1"),
    ],
)
def test_errors_are_one_line_that_says_what_would_be_right(wrong, match):
    with pytest.raises(UserError, match=match) as error:
        wrong()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("pocket-english mean", "pocket-english, mean"),
        ("random:pocket-english cls", "untrained pocket-english, [CLS]"),
        ("pocket-vectors-100 mean", "static vectors of 100 numbers, mean"),
        ("corrupted-200:pocket-english pooler", "twin after 200 steps, pooler"),
        ("control task", "control task"),
    ],
)
def test_encoders_in_words(name, shown):
    assert experiment.display_name(name) == shown
