"""Measures of concept effects against closed forms, and the published tables typed twice."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import cosine

from probebook.base import UserError
from probebook.corpora import cebab, reviews
from probebook.corpora.published import published
from probebook.measures.concept_effects import (
    DISTANCES,
    acace,
    acace_error,
    ate,
    cace,
    cace_error,
    icace_error,
)

pytestmark = pytest.mark.library

CHANGE = ["concept", "source", "target"]


def _pairs(*rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*CHANGE, "source_stars", "target_stars"])


@pytest.fixture(scope="module")
def world():
    """ICaCE pairs of generated reviews with their exact effects."""
    table = reviews.generate(200, seed=2)
    pairs, p = cebab.icace_pairs(table), reviews.probabilities(table)
    return pairs, p[pairs.target_row] - p[pairs.source_row]


# ICaCE-error


def test_distances_by_hand():
    true, estimated = [[3, 4], [1, 0], [0, 2]], [[4, 3], [0, 5], [0, -1]]
    wanted = {"cosine": [1 - 24 / 25, 1, 2], "l2": [2**0.5, 26**0.5, 3], "normdiff": [0, 4, 1]}
    for distance, values in wanted.items():
        found = icace_error(torch.tensor(true, dtype=torch.float32), np.array(estimated), distance)
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found, values, atol=1e-12)


def test_distances_of_zero():
    """Cosine 1 if either or both are zero (definition 3); a rounding error has no direction."""
    a, zero = [[0.3, -0.3]], [[0.0, 0.0]]
    for pair in ((a, zero), (zero, a), (zero, zero)):
        assert icace_error(*pair).item() == 1
    assert icace_error(zero, zero, "l2").item() == icace_error(zero, zero, "normdiff").item() == 0
    assert icace_error(np.array(a) * 1e-9, a).item() == pytest.approx(0, abs=1e-12)
    assert icace_error(np.array(a) * 1e-17, a).item() == pytest.approx(1, abs=1e-4)


def test_distances_of_random_vectors():
    """SciPy's cosine row by row; normdiff ≤ l2; cosine forgets lengths, normdiff directions."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200, 5))
    error = {distance: icace_error(a, b, distance).numpy() for distance in DISTANCES}
    np.testing.assert_allclose(error["cosine"], [cosine(x, y) for x, y in zip(a, b)], atol=1e-12)
    np.testing.assert_allclose(error["l2"], np.sqrt(((a - b) ** 2).sum(1)), atol=1e-12)
    assert (error["normdiff"] <= error["l2"]).all()
    assert (error["normdiff"] < error["l2"] - 0.1).any()
    np.testing.assert_allclose(icace_error(a, 7 * b), error["cosine"], atol=1e-12)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    np.testing.assert_allclose(icace_error(a, b @ turn, "normdiff"), error["normdiff"], atol=1e-12)


# ATE, CaCE, ACaCE


def test_ate_by_hand():
    pairs = _pairs(
        ("noise", "Negative", "unknown", 1, 3),
        ("food", "Positive", "unknown", 5, 3),
        ("food", "Negative", "Positive", 1, 5),
        ("food", "Negative", "Positive", 2, 4),
        ("food", "Negative", "Positive", np.nan, 4),
        ("food", "Negative", "Positive", 3, 4),
    )
    assert ate(pairs).values.tolist() == [
        ["food", "Negative", "Positive", 7 / 3, 3],
        ["food", "Positive", "unknown", -2, 1],
        ["noise", "Negative", "unknown", 2, 1],
    ]
    assert ate(pairs, "binary").values.tolist() == [["food", "Negative", "Positive", 1, 2]]
    assert ate(pairs, "ternary").effect.tolist() == [5 / 3, -1, 1]
    assert list(ate(pairs)) == [*CHANGE, "effect", "n"]


def test_cace_is_the_mean_effect_of_a_change(world):
    pairs, effects = world
    found = cace(pairs, effects)
    assert len(found) == 24
    assert found.shape[1] == 5
    assert found.index.get_level_values("concept").unique().tolist() == cebab.ASPECTS
    for change in (("food", "Negative", "Positive"), ("noise", "unknown", "Negative")):
        rows = (pairs[CHANGE] == change).all(axis=1).to_numpy()
        np.testing.assert_allclose(found.loc[change], effects[rows].mean(0), atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-12)  # effects on probabilities
    back = found.reorder_levels(["concept", "target", "source"]).loc[found.index.to_list()]
    np.testing.assert_allclose(back, -found, atol=1e-12)  # every pair is there both ways
    stars = cace(pairs, torch.tensor(effects @ np.arange(1, 6)))
    np.testing.assert_allclose(stars[0], found @ np.arange(1, 6), atol=1e-12)


def test_acace_by_hand():
    pairs = _pairs(
        *[("food", "Negative", "Positive", 1, 5)] * 2, ("food", "Negative", "unknown", 1, 3)
    )
    effects = np.array([[0.4, -0.4], [-0.2, 0.2], [0.3, -0.3]])  # CaCE (.1, −.1) and (.3, −.3)
    np.testing.assert_allclose(acace(pairs, effects).loc["food"], [0.2, 0.2])
    np.testing.assert_allclose(cace_error(pairs, effects, 0 * effects), [0.02**0.5, 0.18**0.5])
    np.testing.assert_allclose(cace_error(pairs, effects, 0 * effects, "cosine"), 1)
    # equation 20 takes the size of each estimate: (.3 + .3)/2 = .3 where ACaCE is .2
    assert acace_error(pairs, effects, effects, "normdiff")["food"] == pytest.approx(0.1 * 2**0.5)


def test_errors_of_the_truth(world):
    """The true effects themselves have a CaCE-error of 0, but an ACaCE-error above it where signs
    differ."""
    pairs, effects = world
    assert cace_error(pairs, effects, effects).max() == 0
    assert (acace_error(pairs, effects, effects) > 1e-3).all()
    of_change = cace(pairs, effects).loc[pd.MultiIndex.from_frame(pairs[CHANGE])]
    same = np.abs(effects) * np.sign(of_change.to_numpy())
    np.testing.assert_allclose(acace_error(pairs, same, same), 0, atol=1e-12)


def test_ate_of_generated_reviews_is_the_exact_effect():
    """Readers draw stars from the exact probabilities, so that their ATE is the exact one but for
    chance."""
    table = reviews.generate(1_500, seed=8)
    pairs, p = cebab.edit_pairs(table, originals=True), reviews.probabilities(table)
    exact = cace(pairs, (p[pairs.target_row] - p[pairs.source_row]) @ np.arange(1, 6))[0]
    assert np.abs(ate(pairs).set_index(CHANGE).effect - exact).max() < 0.12
    assert exact["food", "Negative", "Positive"] > 1.5


# bad input

GOOD = _pairs(("food", "Negative", "Positive", 1, 5))


@pytest.mark.parametrize(
    "call, says",
    [
        (
            lambda: icace_error([[1, 0]], [[1, 0]], "manhattan"),
            "'manhattan' is not a valid distance: expected cosine, l2, normdiff",
        ),
        (
            lambda: icace_error([[1, 0]], [[1, 0, 0]]),
            r"\(1, 2\), estimated \(1, 3\): \[pairs, classes\] both",
        ),
        (lambda: icace_error([1, 0], [1, 0]), r"\[pairs, classes\] both"),
        (lambda: icace_error([[1, 0]], [[float("nan"), 0]]), "not finite"),
        (lambda: ate(GOOD.drop(columns="source_stars")), "no column source_stars"),
        (
            lambda: ate(GOOD.assign(source_stars=3), "binary"),
            "no pair whose reviews both have a class in the binary task",
        ),
        (lambda: ate(GOOD, "4-way"), "'4-way' is not a valid task"),
        (lambda: cace(GOOD.drop(columns="target"), [[1, 0]]), "no column target"),
        (lambda: cace(GOOD, [[1, 0], [1, 0]]), "2 effects of 1 pairs"),
        (lambda: acace(GOOD[:0], np.zeros((0, 5))), "0 effects of 0 pairs"),
        (lambda: cace_error(GOOD, [[1, 0]], [[float("inf"), 0]]), "finite numbers"),
    ],
)
def test_refuses(call, says):
    with pytest.raises(UserError, match=says) as e:
        call()
    assert "\n" not in str(e.value)


# published figures, against sums that were taken from the paper's text by other means


def _table(number) -> pd.DataFrame:
    table = published(f"concept_effects_table{number}")
    assert table.source.str.startswith("Abraham et al., table ").all()
    return table


def test_published_table_3():
    labels = _table("3a").pivot(index="concept", columns="value", values="reviews")
    assert (
        labels.drop(columns="total").sum(axis=1).to_dict()
        == labels.total.to_dict()
        == {"food": 14_065, "service": 12_198, "ambiance": 10_849, "noise": 9_541}
    )
    percent = _table("3a").dropna().groupby("value").percent.sum()
    assert percent.to_dict() == {
        "Positive": 101,
        "Negative": 99,
        "unknown": 100,
        "no majority": 100,
    }
    shares = labels.drop(columns="total") / labels.drop(columns="total").sum() * 100
    told = _table("3a").dropna().pivot(index="concept", columns="value", values="percent")
    assert (shares - told).abs().max().max() < 1.1  # of the column; noise, Positive is 9.7
    stars = _table("3b")
    assert len(stars) == 6
    assert stars.reviews.sum() == 15_089
    assert stars.percent.sum() == 98
    assert ((stars.reviews / 150.89 - stars.percent).abs() < 1).all()
    counts = _table("3c")
    assert len(counts) == 12
    assert counts.pairs.sum() == 9_768
    assert counts.groupby("concept").pairs.sum().to_dict() == {
        "food": 3_505,
        "service": 2_646,
        "ambiance": 2_004,
        "noise": 1_613,
    }


@pytest.mark.parametrize(
    "number, column, sums",
    [
        ("3d", "effect", [2.19, 1.36, 1.34, 0.73]),
        ("7", "effect", [0.85, 0.29, 0.18, -0.02]),
        ("4", "effect", [2.08, 1.86, 1.56, 0.96]),
        ("4", "sd", [0.06, 0.09, 0.05, 0.04]),
    ],
)
def test_published_effects(number, column, sums):
    """Row sums of the tables of effects; from Negative and from Positive to unknown the signs are
    opposite."""
    table = _table(number)
    assert len(table) == 12
    assert table.groupby("concept", sort=False)[column].sum().round(2).to_dict() == dict(
        zip(cebab.ASPECTS, sums)
    )
    np.testing.assert_array_equal(table.effect < 0, table.from_value == "Positive")


def test_published_table_8():
    table = _table(8)
    assert len(table) == 64
    assert table.groupby(["split", "model"]).macro_f1.sum().round(2).to_dict() == {
        ("dev", "BERT"): 6.80,
        ("dev", "GPT-2"): 6.73,
        ("dev", "LSTM"): 6.44,
        ("dev", "RoBERTa"): 6.93,
        ("test", "BERT"): 6.80,
        ("test", "GPT-2"): 6.66,
        ("test", "LSTM"): 6.43,
        ("test", "RoBERTa"): 6.89,
    }
    sums = table.groupby(["train", "task"], sort=False).macro_f1.sum().round(2)
    assert sums.to_dict() == {
        ("exclusive", "binary"): 7.73,
        ("exclusive", "ternary"): 6.40,
        ("exclusive", "5-way"): 5.30,
        ("exclusive", "ABSA"): 6.92,
        ("inclusive", "binary"): 7.81,
        ("inclusive", "ternary"): 6.71,
        ("inclusive", "5-way"): 5.70,
        ("inclusive", "ABSA"): 7.11,
    }


EXPLAINERS = ["Random", "Approx", "CONEXP", "S-Learner", "TCAV", "ConceptSHAP", "CausaLM", "INLP"]


def test_published_table_10():
    table = _table(10)
    assert len(table) == 288
    assert not table.duplicated(["task", "model", "distance", "explainer"]).any()
    sums = table.groupby(["task", "model"])[["error", "sd"]].sum().round(2)
    wanted = {
        "5-way": [(18.50, 0.33), (16.68, 0.32), (18.46, 0.25), (19.09, 0.18)],
        "ternary": [(16.16, 0.25), (15.40, 0.23), (16.23, 0.24), (16.26, 0.23)],
        "binary": [(14.01, 0.46), (13.06, 0.14), (13.64, 0.21), (13.67, 0.28)],
    }
    for task, rows in wanted.items():
        found = sums.loc[task].loc[["BERT", "GPT-2", "LSTM", "RoBERTa"]]
        assert list(found.itertuples(index=False, name=None)) == rows
    by_explainer = table.groupby(["task", "distance", "explainer"]).error.sum().round(2)
    for (task, distance), row in {
        ("5-way", "l2"): [3.61, 3.22, 3.15, 2.85, 3.13, 4.79, 3.28, 3.15],
        ("5-way", "cosine"): [4.00, 2.44, 2.84, 2.50, 4.03, 4.17, 3.37, 2.91],
        ("5-way", "normdiff"): [2.53, 1.80, 2.35, 2.06, 2.96, 2.17, 2.70, 2.72],
        ("ternary", "l2"): [3.09, 2.25, 2.53, 2.20, 2.18, 3.54, 2.67, 2.42],
        ("ternary", "cosine"): [3.99, 2.53, 2.59, 2.26, 4.00, 4.35, 3.31, 3.19],
        ("ternary", "normdiff"): [2.31, 1.72, 2.06, 1.84, 2.11, 2.40, 2.35, 2.16],
        ("binary", "l2"): [2.36, 0.76, 2.03, 1.25, 1.20, 2.61, 2.01, 1.74],
        ("binary", "cosine"): [4.00, 2.99, 2.62, 2.69, 4.01, 4.34, 3.41, 3.40],
        ("binary", "normdiff"): [2.05, 0.76, 2.01, 1.24, 1.17, 2.08, 1.97, 1.68],
    }.items():
        assert by_explainer[task, distance].to_dict() == dict(zip(EXPLAINERS, row))


@pytest.mark.parametrize(
    "distance, row",
    [
        ("l2", [0.94, 0.81, 0.82, 0.74, 0.82, 1.25, 0.86, 0.80]),
        ("cosine", [1.00, 0.61, 0.72, 0.63, 1.00, 1.11, 0.78, 0.59]),
        ("normdiff", [0.67, 0.44, 0.62, 0.54, 0.78, 0.56, 0.68, 0.73]),
    ],
)
def test_published_table_10_bert_5_way(distance, row):
    found = _table(10).query("task == '5-way' and model == 'BERT' and distance == @distance")
    assert dict(zip(found.explainer, found.error)) == dict(zip(EXPLAINERS, row))
