"""Marks of rules: by hand, and in cases where power has a closed form or one answer."""

import numpy as np
import pytest

from probebook.base import UserError
from probebook.measures.sample_size import items_needed_exactly, judge_pilot, mcnemar_power
from probebook_chapters.data_requirements import (
    least_training_items,
    score_rules,
    share_enough,
    true_power,
)

pytestmark = pytest.mark.library


def test_marks_by_hand():
    found = score_rules(
        {"rule": np.array([50.0, 100, 200, np.inf]), "silent": np.full(4, np.inf)}, 100
    ).set_index("rule")
    assert found.loc["rule", ["covered", "short", "none", "N", "times"]].tolist() == [
        0.5,
        0.25,
        0.25,
        100,
        1,
    ]
    assert found.loc["rule", ["low", "high"]].tolist() == pytest.approx([0.55, 1.9])
    assert found.loc["silent", ["covered", "short", "none"]].tolist() == [0, 0, 1]
    assert found.loc["silent", ["N", "times"]].isna().all()


def test_enough_is_what_the_verdicts_say():
    rng = np.random.default_rng(0)
    one, other, _ = rng.multinomial(80, [0.25, 0.08, 0.67], 30).T
    said = [
        judge_pilot(np.arange(80) < a, np.arange(80) >= 80 - b).word == "enough"
        for a, b in zip(one, other)
    ]
    assert share_enough(one, other, 80) == pytest.approx(np.mean(said))
    assert 0 < np.mean(said) < 1


def test_without_learning_the_true_power_is_mcnemars_and_the_least_number_the_known_one():
    rates = np.array([[[0.125, 0.075]] * 3] * 2)
    assert true_power(1000, [10, 1000], rates) == pytest.approx(mcnemar_power(0.125, 0.075, 250))
    assert true_power(1000, [10, 1000], rates, sign=-1) == 0
    assert least_training_items([64, 1000], rates) == pytest.approx(
        4 * items_needed_exactly(0.125, 0.075), rel=0.05
    )
    assert least_training_items([64, 1000], rates[..., ::-1], sign=-1) == least_training_items(
        [64, 1000], rates
    )


def test_curves_that_cross_need_the_training_items_of_the_crossing():
    sizes, cross = [64, 4096, 4097], np.array([[[0.0, 0.3]], [[0.0, 0.3]], [[0.3, 0.0]]])
    assert least_training_items(sizes, cross) == pytest.approx(4097, rel=0.06)
    assert true_power(512, sizes, cross) == 0
    assert true_power(512, sizes, cross, sign=-1) > 0.99


def test_rates_are_interpolated_over_the_logarithm_and_draws_are_averaged():
    rates = np.array([[[0.1, 0.1], [0.2, 0.0]], [[0.3, 0.1], [0.2, 0.0]]])
    expected = (mcnemar_power(0.2, 0.1, 25) + mcnemar_power(0.2, 0, 25)) / 2
    assert true_power(100, [10, 1000], rates) == pytest.approx(expected)
    with pytest.raises(UserError, match="draws, 2"):
        true_power(100, [10, 1000, 5000], rates)
