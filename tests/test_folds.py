"""Re-partitioned pilots: each sixth is the test set once; the tests against scipy, closed forms,
and a known world."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from probebook.base import UserError
from probebook.measures.folds import assign_folds, fold_test, rotations

pytestmark = pytest.mark.library

GAPS = np.array([0.03, -0.01, 0.02, 0.05, 0, 0.01])


def test_every_item_is_tested_once_and_splits_are_stratified_and_4_1_1():
    z = np.repeat([0, 1, 2], [60, 36, 24])
    tested = []
    for train, dev, test in rotations(assign_folds(z, seed=3)):
        assert sorted([*train, *dev, *test]) == list(range(120))
        assert [np.bincount(z[rows]).tolist() for rows in (train, dev, test)] == [
            [40, 24, 16],
            [10, 6, 4],
            [10, 6, 4],
        ]
        tested += test.tolist()
    assert sorted(tested) == list(range(120))


def test_folds_of_a_class_differ_by_one_item_at_most_and_are_drawn_by_seed():
    z = np.repeat([0, 1], [20, 31])
    counts = [np.bincount(assign_folds(z, 6)[z == c]) for c in (0, 1)]
    assert all(np.ptp(c) == 1 and len(c) == 6 for c in counts)
    np.testing.assert_array_equal(assign_folds(z), assign_folds(z))
    assert (assign_folds(z) != assign_folds(z, seed=1)).any()


def test_without_a_correction_it_is_students_test():
    a = np.linspace(0.7, 0.8, 6)
    found = fold_test(GAPS, 0)
    assert (
        found.p
        == pytest.approx(ttest_1samp(GAPS, 0).pvalue)
        == pytest.approx(ttest_rel(a + GAPS, a).pvalue)
    )
    assert found.delta == pytest.approx(GAPS.mean())
    assert found.se == pytest.approx(GAPS.std(ddof=1) / 6**0.5)


def test_equivalence_is_the_worse_of_two_one_sided_tests():
    for gaps in (GAPS, -GAPS, GAPS + 0.1):
        one = ttest_1samp(gaps, -0.03, alternative="greater").pvalue
        other = ttest_1samp(gaps, 0.03, alternative="less").pvalue
        assert fold_test(gaps, 0, margin=0.03).p_equal == pytest.approx(max(one, other))


def test_the_correction_stretches_the_standard_error_by_a_known_factor():
    plain, corrected = fold_test(GAPS, 0), fold_test(GAPS, 1 / 4)
    assert corrected.se / plain.se == pytest.approx(np.sqrt(1 + 6 / 4))
    assert corrected.p > plain.p
    many = fold_test(np.tile(GAPS, 1000), 1 / 4)  # repeating cannot take it below √(1/4) s
    assert many.se == pytest.approx(GAPS.std() / 2, rel=0.01)


def test_the_sign_test_leaves_ties_out():
    assert fold_test([0.1] * 5 + [0.2]).p_sign == pytest.approx(2 / 64)
    assert fold_test(GAPS).p_sign == pytest.approx(2 * 6 / 32)  # 4 of 5
    assert fold_test([0.0] * 6).p_sign == 1


def test_no_spread_at_all():
    same, apart, little = fold_test([0.0] * 6), fold_test([0.5] * 6), fold_test([0.0078125] * 6)
    assert (same.p, same.p_equal, apart.p, apart.p_equal, little.p, little.p_equal) == (
        1,
        0,
        0,
        1,
        0,
        0,
    )


def test_dependent_folds_alarm_falsely_and_the_correction_holds():
    """d_j = common + own, correlated as n_test / (n_test + n_train) = 1/5, which the correction
    assumes."""
    rng = np.random.default_rng(0)
    d = rng.normal(size=(4000, 1)) * 0.2**0.5 + rng.normal(size=(4000, 6)) * 0.8**0.5
    plain, corrected = (
        np.mean([fold_test(row, ratio).p <= 0.05 for row in d]) for ratio in (0, 1 / 4)
    )
    assert plain > 0.12
    assert corrected == pytest.approx(0.05, abs=0.012)


@pytest.mark.parametrize(
    "wrong, match",
    [
        (lambda: assign_folds([0, 1] * 3), "k items of each class"),
        (lambda: assign_folds([0] * 9, 2), "at least 3 folds"),
        (lambda: fold_test([0.1]), "at least 2 folds"),
        (lambda: fold_test([0.1, np.nan]), "finite"),
        (lambda: fold_test(GAPS, -1), "at least 0"),
        (lambda: fold_test(GAPS, margin=0), "above 0"),
    ],
)
def test_errors_say_what_would_be_right(wrong, match):
    with pytest.raises(UserError, match=match):
        wrong()
