"""Intervals against closed forms, exact counts and plain loops; groups, not items, are drawn."""
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, binomtest

from probebook.base import UserError
from probebook.measures.intervals import (
    bootstrap,
    bootstrap_mean,
    clustered_mean,
    contrast,
    draw_counts,
    percentiles,
    rate,
    resample_means,
)

# shares: Wilson's interval


def test_a_rate_of_single_items_has_wilsons_interval():
    for n, right in [(1, 0), (1, 1), (7, 3), (275, 259), (159, 0), (520, 520)]:
        values = np.arange(n) < right
        wilson = binomtest(right, n).proportion_ci(method="wilson")
        for groups in (None, np.arange(n)[::-1]):
            expected = [right / n, wilson.low, wilson.high, n]
            assert list(rate(values, groups)) == pytest.approx(expected, abs=1e-12)
    narrow = binomtest(3, 7).proportion_ci(.8, method="wilson")
    found = rate([1, 1, 1, 0, 0, 0, 0], level=.8)
    assert found[1:3] == pytest.approx((narrow.low, narrow.high))


def test_copies_within_a_group_count_once():
    values, groups = np.repeat([1, 0, 1, 1, 0, 1], 5), np.repeat(list("abcdef"), 5)
    once = rate([1, 0, 1, 1, 0, 1])
    assert rate(values, groups)[:3] == pytest.approx(once[:3])
    assert rate(values, groups).n == 30
    assert rate(np.ones(30), groups)[:3] == pytest.approx(rate(np.ones(6))[:3])
    opposed = rate(np.tile([1, 0], 15), np.repeat(range(15), 2))     # half of every group: no gain
    assert opposed == pytest.approx(rate(np.tile([1, 0], 15)))


def test_the_interval_over_groups_holds_the_share_95_times_in_100():
    rng, hits, simple = np.random.default_rng(0), 0, 0
    groups = np.repeat(np.arange(60), 8)
    for _ in range(600):
        values = rng.random(480) < np.repeat(rng.beta(2, 1, 60), 8)                  # mean 2/3
        found, alone = rate(values, groups), rate(values)
        hits += found.low <= 2 / 3 <= found.high
        simple += alone.low <= 2 / 3 <= alone.high
    assert .92 <= hits / 600 <= .98
    assert simple / 600 < .87


def test_items_that_do_not_count_are_left_out():
    with_gaps = rate([1, np.nan, 0, np.nan], list("aabb"))
    assert with_gaps == pytest.approx(rate([1, 0], list("ab")))
    empty = rate([np.nan, np.nan])
    assert empty.n == 0
    assert np.isnan(empty[:3]).all()
    assert rate([]).n == 0
    with pytest.raises(UserError, match="0 and 1"):
        rate([.5, 1])
    with pytest.raises(UserError, match="same items"):
        rate([0, 1], ["a"])


# means and paired differences: clustered standard errors

def test_a_mean_of_single_items_has_the_textbook_error():
    values = np.random.default_rng(0).normal(size=50)
    half = 1.96 * values.std() / 50 ** .5
    assert_allclose(clustered_mean(values), [values.mean(), values.mean() - half,
                                             values.mean() + half])


def test_a_mean_over_groups_has_the_error_of_their_means():
    """Groups of one size: the error is that of the mean of so many group means."""
    values, groups = np.random.default_rng(1).normal(size=60), np.repeat(np.arange(12), 5)
    means = values.reshape(12, 5).mean(1)
    assert_allclose(clustered_mean(values, groups, errors=1),
                    means.mean() + np.array([0, -1, 1]) * means.std() / 12 ** .5)


def test_a_paired_difference_forgets_what_both_have_in_common():
    """Of a = b + c, the interval is that of the constant c, however much b varies."""
    b = np.random.default_rng(2).normal(size=40) * 100
    assert_allclose(clustered_mean((b + .25) - b, np.arange(40) // 4), [.25] * 3)
    a, b = np.array([1, 1, 1, 0]), np.array([0, 1, 0, 1])             # differences 1, 0, 1, −1
    half = 1.96 * (11 / 16) ** .5 / 4 ** .5
    assert_allclose(clustered_mean(a - b), [.25, .25 - half, .25 + half])


# bootstrap

def test_draws_are_counts_of_groups():
    counts = draw_counts(7, n=2_000, seed=3)
    assert counts.shape == (2_000, 7)
    assert_array_equal(counts.sum(1), 7)
    assert_array_equal(counts, np.random.default_rng(3).multinomial(7, [1 / 7] * 7, 2_000))
    assert_allclose(counts.mean(0), 1, atol=.1)
    assert_allclose(counts.var(0), 6 / 7, atol=.1)                    # of Bin(7, 1/7)


def test_percentiles_leave_25_of_1000_draws_at_either_end():
    draws = np.random.default_rng(0).permutation(1_001)
    assert_array_equal(percentiles(draws), [25, 975])
    assert_array_equal(percentiles(np.stack([draws, -draws], 1)), [[25, -975], [975, -25]])


def test_a_bootstrap_of_two_observations_has_three_outcomes():
    """Of 0 and 1 the mean of two draws is 0, ½ or 1, with ¼ at either end."""
    low, high = bootstrap(np.mean, np.array([0.0, 1.0]), n=400)
    assert (low, high) == (0, 1)
    low, high = bootstrap(np.mean, np.array([0.0, 1.0]), n=4_000, level=.4)
    assert (low, high) == (.5, .5)


def test_a_bootstrap_draws_all_arrays_together():
    x = np.random.default_rng(4).normal(size=30)
    low, high = bootstrap(lambda a, b, axis: (a - b).mean(axis), x + 1, x)
    assert_allclose([low, high], 1)


def test_interval_of_a_share():
    """Of 400 groups of one pair with a share of .3: the binomial's percentiles."""
    values = np.arange(400) < 120
    low, high = bootstrap_mean(values, np.arange(400), n=4_000)
    wanted = binom.ppf([.025, .975], 400, .3) / 400
    assert [float(low), float(high)] == pytest.approx(wanted, abs=.006)
    assert np.shape(low) == ()


def test_the_bootstrap_of_single_items_is_that_of_their_mean():
    values = np.random.default_rng(5).normal(size=100)
    assert_array_equal(bootstrap_mean(values, np.arange(100)), bootstrap(np.mean, values))


def test_interval_counts_groups_not_pairs():
    """Each value eight times over in its group is no more evidence; as single pairs it looks so."""
    rng = np.random.default_rng(1)
    values, groups = np.repeat(rng.normal(size=300), 8), np.repeat(np.arange(300), 8)
    once = np.subtract(*bootstrap_mean(values[::8], np.arange(300), seed=1))
    assert np.subtract(*bootstrap_mean(values, groups, seed=1)) == pytest.approx(once)
    single = np.subtract(*bootstrap_mean(values, np.arange(2_400), seed=1))
    assert once / single == pytest.approx(8 ** .5, rel=.15)


def test_interval_of_groups_of_different_size():
    """Of groups of 1 to 9 pairs: a plain loop that draws groups and takes the pairs' mean."""
    rng = np.random.default_rng(2)
    groups = rng.permutation(np.repeat(np.arange(60), rng.integers(1, 10, 60)))
    values = rng.normal(size=len(groups)) + (groups % 5)
    by_group = [values[groups == g] for g in range(60)]
    means = [np.concatenate([by_group[g] for g in rng.integers(60, size=60)]).mean()
             for _ in range(3_000)]
    found = bootstrap_mean(values, groups, n=3_000, level=.9)
    assert [float(x) for x in found] == pytest.approx(np.percentile(means, [5, 95]), abs=.05)


def test_interval_of_several_columns_draws_the_same_groups():
    values = np.random.default_rng(3).normal(size=(200, 3))
    groups = np.arange(200) // 4
    low, high = bootstrap_mean(np.column_stack([values, values[:, 0] - 1]), groups, n=200)
    assert low.shape == high.shape == (4,)
    assert (low < high).all()
    assert low[3] == pytest.approx(low[0] - 1)
    assert high[3] == pytest.approx(high[0] - 1)
    again = [bootstrap_mean(values[:, 1], groups, n=200, seed=5) for _ in range(2)]
    assert_array_equal(*again)


@pytest.mark.parametrize("groups, says", [(["a", "a", "a"], "two groups at least"),
                                          ([0, 1], "one group for each value")])
def test_groups_that_do_not_fit_are_refused(groups, says):
    with pytest.raises(UserError, match=says) as e:
        bootstrap_mean([1, 2, 3], groups)
    assert "\n" not in str(e.value)


def test_means_over_drawn_groups_have_the_spread_of_their_groups():
    rng = np.random.default_rng(0)
    groups = pd.Series(np.repeat(range(400), 5))
    values = pd.DataFrame({"a": rng.normal(size=400)[groups], "b": 1.0})
    draws = resample_means(values, groups, n=4000)
    of_group = values.a.groupby(groups).first()
    assert len(draws) == 4001
    assert draws.a[0] == pytest.approx(values.a.mean())
    assert_allclose(draws.b, 1)
    assert draws.a[1:].std() == pytest.approx(of_group.std(ddof=0) / 20, rel=.05)
    found = contrast(draws.a)
    assert found["low"] == pytest.approx(found["here"] - 1.96 * draws.a.std(), abs=.01)
    assert [contrast(draws.a - shift)["verdict"] for shift in (-1, 0, 1)] == [1, 0, -1]


def test_resampled_means_are_those_of_the_counted_groups():
    """Groups of 1, 2 and 3 pairs: each draw's mean by hand from how often each group is drawn."""
    values = pd.DataFrame({"x": [1.0, 2, 4, 8, 16, 32]})
    draws = resample_means(values, pd.Series([0, 1, 1, 2, 2, 2]), n=20, seed=1)
    for counts, mean in zip(draw_counts(3, 20, seed=1), draws.x[1:]):
        assert mean == pytest.approx(counts @ [1, 6, 56] / (counts @ [1, 2, 3]))
