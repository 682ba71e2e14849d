"""Intervals against closed forms, exact counts and plain loops; groups, not items, are drawn."""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, binomtest, norm, sem, spearmanr, t, ttest_1samp

from probebook.base import UserError
from probebook.measures.intervals import (
    bootstrap,
    bootstrap_mean,
    clustered_mean,
    contrast,
    contrasts,
    draw_counts,
    figures_over_seeds,
    holm,
    least_over_seeds,
    mean_over_seeds,
    percentiles,
    rank_correlation,
    rate,
    resample_means,
    resample_seeds,
)

pytestmark = pytest.mark.library

# shares: Wilson's interval


def test_a_rate_of_single_items_has_wilsons_interval():
    for n, right in [(1, 0), (1, 1), (7, 3), (275, 259), (159, 0), (520, 520)]:
        values = np.arange(n) < right
        wilson = binomtest(right, n).proportion_ci(method="wilson")
        for groups in (None, np.arange(n)[::-1]):
            expected = [right / n, wilson.low, wilson.high, n]
            assert list(rate(values, groups)) == pytest.approx(expected, abs=1e-12)
    narrow = binomtest(3, 7).proportion_ci(0.8, method="wilson")
    found = rate([1, 1, 1, 0, 0, 0, 0], level=0.8)
    assert found[1:3] == pytest.approx((narrow.low, narrow.high))


def test_copies_within_a_group_count_once():
    values, groups = np.repeat([1, 0, 1, 1, 0, 1], 5), np.repeat(list("abcdef"), 5)
    once = rate([1, 0, 1, 1, 0, 1])
    assert rate(values, groups)[:3] == pytest.approx(once[:3])
    assert rate(values, groups).n == 30
    assert rate(np.ones(30), groups)[:3] == pytest.approx(rate(np.ones(6))[:3])
    opposed = rate(np.tile([1, 0], 15), np.repeat(range(15), 2))  # half of every group: no gain
    assert opposed == pytest.approx(rate(np.tile([1, 0], 15)))


def test_the_interval_over_groups_holds_the_share_95_times_in_100():
    rng, hits, simple = np.random.default_rng(0), 0, 0
    groups = np.repeat(np.arange(60), 8)
    for _ in range(600):
        values = rng.random(480) < np.repeat(rng.beta(2, 1, 60), 8)  # mean 2/3
        found, alone = rate(values, groups), rate(values)
        hits += found.low <= 2 / 3 <= found.high
        simple += alone.low <= 2 / 3 <= alone.high
    assert 0.92 <= hits / 600 <= 0.98
    assert simple / 600 < 0.87


def test_items_that_do_not_count_are_left_out():
    with_gaps = rate([1, np.nan, 0, np.nan], list("aabb"))
    assert with_gaps == pytest.approx(rate([1, 0], list("ab")))
    empty = rate([np.nan, np.nan])
    assert empty.n == 0
    assert np.isnan(empty[:3]).all()
    assert rate([]).n == 0
    with pytest.raises(UserError, match="0 and 1"):
        rate([0.5, 1])
    with pytest.raises(UserError, match="same items"):
        rate([0, 1], ["a"])


# means and paired differences: clustered standard errors


def test_a_mean_of_single_items_has_the_textbook_error():
    values = np.random.default_rng(0).normal(size=50)
    half = 1.96 * values.std() / 50**0.5
    assert_allclose(
        clustered_mean(values), [values.mean(), values.mean() - half, values.mean() + half]
    )


def test_a_mean_over_groups_has_the_error_of_their_means():
    """Groups of one size: the error is that of the mean of so many group means."""
    values, groups = np.random.default_rng(1).normal(size=60), np.repeat(np.arange(12), 5)
    means = values.reshape(12, 5).mean(1)
    assert_allclose(
        clustered_mean(values, groups, errors=1),
        means.mean() + np.array([0, -1, 1]) * means.std() / 12**0.5,
    )


def test_a_paired_difference_forgets_what_both_have_in_common():
    """Of a = b + c, the interval is that of the constant c, however much b varies."""
    b = np.random.default_rng(2).normal(size=40) * 100
    assert_allclose(clustered_mean((b + 0.25) - b, np.arange(40) // 4), [0.25] * 3)
    a, b = np.array([1, 1, 1, 0]), np.array([0, 1, 0, 1])  # differences 1, 0, 1, −1
    half = 1.96 * (11 / 16) ** 0.5 / 4**0.5
    assert_allclose(clustered_mean(a - b), [0.25, 0.25 - half, 0.25 + half])


# bootstrap


def test_draws_are_counts_of_groups():
    counts = draw_counts(7, n=2_000, seed=3)
    assert counts.shape == (2_000, 7)
    assert_array_equal(counts.sum(1), 7)
    assert_array_equal(counts, np.random.default_rng(3).multinomial(7, [1 / 7] * 7, 2_000))
    assert_allclose(counts.mean(0), 1, atol=0.1)
    assert_allclose(counts.var(0), 6 / 7, atol=0.1)  # of Bin(7, 1/7)


def test_percentiles_leave_25_of_1000_draws_at_either_end():
    draws = np.random.default_rng(0).permutation(1_001)
    assert_array_equal(percentiles(draws), [25, 975])
    assert_array_equal(percentiles(np.stack([draws, -draws], 1)), [[25, -975], [975, -25]])


def test_a_bootstrap_of_two_observations_has_three_outcomes():
    """Of 0 and 1 the mean of two draws is 0, ½ or 1, with ¼ at either end."""
    low, high = bootstrap(np.mean, np.array([0.0, 1.0]), n=400)
    assert (low, high) == (0, 1)
    low, high = bootstrap(np.mean, np.array([0.0, 1.0]), n=4_000, level=0.4)
    assert (low, high) == (0.5, 0.5)


def test_a_bootstrap_draws_all_arrays_together():
    x = np.random.default_rng(4).normal(size=30)
    low, high = bootstrap(lambda a, b, axis: (a - b).mean(axis), x + 1, x)
    assert_allclose([low, high], 1)


def test_interval_of_a_share():
    """Of 400 groups of one pair with a share of .3: the binomial's percentiles."""
    values = np.arange(400) < 120
    low, high = bootstrap_mean(values, np.arange(400), n=4_000)
    wanted = binom.ppf([0.025, 0.975], 400, 0.3) / 400
    assert [float(low), float(high)] == pytest.approx(wanted, abs=0.006)
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
    assert once / single == pytest.approx(8**0.5, rel=0.15)


def test_interval_of_groups_of_different_size():
    """Of groups of 1 to 9 pairs: a plain loop that draws groups and takes the pairs' mean."""
    rng = np.random.default_rng(2)
    groups = rng.permutation(np.repeat(np.arange(60), rng.integers(1, 10, 60)))
    values = rng.normal(size=len(groups)) + (groups % 5)
    by_group = [values[groups == g] for g in range(60)]
    means = [
        np.concatenate([by_group[g] for g in rng.integers(60, size=60)]).mean()
        for _ in range(3_000)
    ]
    found = bootstrap_mean(values, groups, n=3_000, level=0.9)
    assert [float(x) for x in found] == pytest.approx(np.percentile(means, [5, 95]), abs=0.05)


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


@pytest.mark.parametrize(
    "groups, says", [(["a", "a", "a"], "two groups at least"), ([0, 1], "one group for each value")]
)
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
    assert draws.a[1:].std() == pytest.approx(of_group.std(ddof=0) / 20, rel=0.05)
    found = contrast(draws.a)
    assert found["low"] == pytest.approx(found["here"] - 1.96 * draws.a.std(), abs=0.01)
    assert [contrast(draws.a - shift)["verdict"] for shift in (-1, 0, 1)] == [1, 0, -1]


def test_resampled_means_are_those_of_the_counted_groups():
    """Groups of 1, 2 and 3 pairs: each draw's mean by hand from how often each group is drawn."""
    values = pd.DataFrame({"x": [1.0, 2, 4, 8, 16, 32]})
    draws = resample_means(values, pd.Series([0, 1, 1, 2, 2, 2]), n=20, seed=1)
    for counts, mean in zip(draw_counts(3, 20, seed=1), draws.x[1:]):
        assert mean == pytest.approx(counts @ [1, 6, 56] / (counts @ [1, 2, 3]))


def test_an_item_that_does_not_count_in_a_column_is_left_out_there():
    values, groups = pd.DataFrame({"a": [1, np.nan, 3, 5], "b": [1.0, 2, 3, 4]}), list("xxyy")
    draws = resample_means(values, pd.Series(groups), n=200)
    assert_allclose(draws.iloc[0], [3, 2.5])
    x, y = [1, 1.5], [4, 3.5]  # means of a and b in x alone and in y alone
    possible = np.array([x, y, [3, 2.5]])
    assert (np.abs(draws.to_numpy()[:, None] - possible).max(2).min(1) < 1e-12).all()


# several trainings


def studies(seeds, sd_seed, sd_group, sd_item, sd_answer, times, groups=40, items=10, rng=0):
    """Answers [seeds, groups · items] of simulated studies: sums of normal deviations from 0."""
    normal = np.random.default_rng(rng).normal
    for _ in range(times):
        answers = (
            sd_seed * normal(size=(seeds, 1, 1))
            + sd_group * normal(size=(1, groups, 1))
            + sd_item * normal(size=(1, groups, items))
            + sd_answer * normal(size=(seeds, groups, items))
        )
        yield answers.reshape(seeds, -1)


GROUPS = pd.Series(np.repeat(np.arange(40), 10))


def test_seeds_that_do_not_differ_add_nothing():
    values = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 2)), columns=["a", "b"])
    found = resample_seeds([values] * 3, GROUPS, n=50, seed=4)
    pd.testing.assert_frame_equal(found, resample_means(values, GROUPS, n=50, seed=4))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_of_equal_groups_every_difference_has_students_interval(seeds):
    """No luck of items: the draws' quantiles are those of t, for columns and their differences."""
    means = np.random.default_rng(seeds).normal(size=(seeds, 3))
    tables = [pd.DataFrame([row] * 400, columns=list("abc")) for row in means]
    draws = resample_seeds(tables, GROUPS, n=40_000)
    assert_allclose(draws.iloc[0], means.mean(0))
    for weights in np.eye(3)[0], np.array([1, -1, 0]), np.array([1, 1, -2]):
        wanted = t(seeds - 1, (means @ weights).mean(), sem(means @ weights))
        found = percentiles((draws @ weights)[1:])
        half = np.diff(wanted.interval(0.95)) / 2
        assert_allclose(found, wanted.interval(0.95), atol=float(0.04 * half[0]))


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_interval_over_seeds_and_groups_holds_the_truth_95_times_in_100(seeds):
    """Seeds, groups and items matter; the intervals of one training and of the drawn groups alone
    do not hold it."""
    hits = np.zeros(3)
    for answers in studies(seeds, 0.5, 1, 1, 1, 300):
        plain = pd.DataFrame({"one": answers[0], "mean": answers.mean(0)})
        draws = np.column_stack(
            [resample_seeds(answers, GROUPS, n=500), resample_means(plain, GROUPS, n=500)]
        )
        hits += contrast(draws)["verdict"] == 0
    assert 0.93 <= hits[0] / 300 <= 0.98
    assert hits[1] / 300 < 0.7
    assert hits[2] / 300 < 0.9


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_mean_over_seeds_with_errors_of_shared_items_holds_the_truth(seeds):
    """Student's interval alone misses the items' luck; drawing so few seeds misses theirs, too."""
    hits, drawn = np.zeros(3), np.random.default_rng(0).integers(seeds, size=(500, seeds))
    for answers in studies(seeds, 0.3, 1, 1, 1, 500):
        of_groups, means = answers.reshape(seeds, 40, 10).mean(2), answers.mean(1)
        for i, errors in enumerate([of_groups.std(1, ddof=1) / 40**0.5, None]):
            found = mean_over_seeds(means, errors)
            hits[i] += found.low <= 0 <= found.high
        low, high = percentiles(means[drawn].mean(1))
        hits[2] += low <= 0 <= high
    assert 0.94 <= hits[0] / 500 <= 0.985
    assert hits[1] / 500 < 0.92
    assert hits[2] / 500 < 0.85


def test_figures_over_seeds_are_the_mean_over_seeds_of_each_row():
    """In any order of the long table, with one name for a row or two."""
    draw = np.random.default_rng(3)
    table = pd.MultiIndex.from_product(
        [range(4), ["b", "a"], ["x", "y"]], names=["run", "who", "what"]
    ).to_frame(index=False)
    table["error"], table["low"] = draw.normal(size=(2, len(table)))
    table["high"] = table.low + draw.random(len(table))
    runs = table.melt(["run", "who", "what"], var_name="metric").sample(frac=1, random_state=0)
    for shared in (True, False):
        found = figures_over_seeds(runs, ["who", "what"], "error", shared)
        assert (found.runs == 4).all()
        for key, part in table.groupby(["who", "what"]):
            own = (part.high - part.low) / (2 * norm.isf(0.025)) if shared else None
            assert_allclose(
                found.loc[key, ["mean", "low", "high"]].astype(float),
                mean_over_seeds(part.error, own),
            )
            wider = mean_over_seeds(part.error, own, 1 - 0.05 / 4)
            assert found.verdict[key] == (wider.low > 0) - (wider.high < 0)
    one = figures_over_seeds(runs[runs.what == "x"], ["who"], "error", shared=False)
    assert_allclose(
        one.loc["a", ["mean", "low", "high"]].astype(float),
        found.loc[("a", "x"), ["mean", "low", "high"]].astype(float),
    )


def test_intervals_that_hold_at_once_are_not_corrected_twice():
    """Bonferroni's wider intervals of the same draws say the same over seeds."""
    draw = np.random.default_rng(4)
    families = [
        {name: draw.normal(shift, 0.1) + draw.normal(size=20_001) / 9 for name in "abcde"}
        for shift in (0.2, 0.25, 0.3)
    ]

    def over(together: bool, at_once: int) -> pd.DataFrame:
        tables = [contrasts(family, together=together) for family in families]
        wide = pd.concat(tables, keys=range(3), names=["run", "who"]).reset_index()
        runs = wide.melt(["run", "who"], ["here", "low", "high"], "metric")
        return figures_over_seeds(runs, ["who"], "here", True, at_once).astype(float)

    assert_allclose(over(True, 5), over(False, 1), atol=0.005)
    assert (over(True, 1).high - over(False, 1).high).min() > 0.01


def test_the_mean_over_seeds_of_own_items_has_students_interval():
    values = np.random.default_rng(2).normal(size=4)
    found = mean_over_seeds(values)
    assert_allclose(found, [values.mean(), *t(3, values.mean(), sem(values)).interval(0.95)])
    half = found.high - found.mean
    with_errors = mean_over_seeds(values, [0.3, 0.4, 0.3, 0.4])
    assert with_errors.high - found.mean == pytest.approx(
        (half**2 + norm.ppf(0.975) ** 2 / 8) ** 0.5
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: resample_seeds(np.ones((1, 400)), GROUPS),
        lambda: resample_seeds(
            [pd.DataFrame(np.ones((400, 2))), pd.DataFrame(np.ones((400, 1)))], GROUPS
        ),
        lambda: mean_over_seeds([1.0]),
        lambda: mean_over_seeds([1.0, np.nan]),
    ],
)
def test_one_seed_has_no_spread(call):
    with pytest.raises(UserError, match="two") as e:
        call()
    assert "\n" not in str(e.value)


# families


def test_holms_p_is_the_largest_of_bonferronis_over_the_subsets():
    """Holm's correction is the closed test that tests each subset by Bonferroni."""
    p = np.random.default_rng(0).beta(0.5, 5, size=6)
    subsets = [list(some) for k in range(1, 7) for some in combinations(range(6), k)]
    closed = [
        max(min(1, len(some) * p[some].min()) for some in subsets if i in some) for i in range(6)
    ]
    assert_allclose(holm(p), closed)
    assert_allclose(
        holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]
    )  # Holm's steps by hand
    assert_array_equal(holm([0.7, 0.7]), [1, 1])


def test_a_family_of_one_is_a_contrast():
    draws = pd.DataFrame(np.random.default_rng(3).normal(size=(1001, 1)), columns=["x"])
    for shift in (-2.2, -1.7, 0, 1.7, 2.2):
        found, alone = contrasts(draws + shift).loc["x"], contrast(draws.x + shift)
        assert_allclose(
            found[["here", "low", "high", "verdict"]].astype(float), list(alone.values())
        )
        beyond = min((draws.x[1:] + shift <= 0).sum(), (draws.x[1:] + shift >= 0).sum())
        assert found.p == found.p_holm == pytest.approx(2 * (1 + beyond) / 1001)


def test_names_of_several_parts_are_levels():
    draws = np.linspace(1, 2, 201)
    found = contrasts({("a", "l2"): draws, ("b", "l2"): -draws})
    assert found.index.nlevels == 2
    assert found.verdict.tolist() == [1, -1]


@pytest.fixture(scope="module")
def counted():
    """Draws of 400 groups, used for many families."""
    return np.vstack([np.ones(400), draw_counts(400, 999)]) / 400


def test_of_20_true_nulls_hardly_any_verdict_is_not_0(counted):
    """Without correction more than half of the families would have one."""
    rng, wrong, without = np.random.default_rng(0), 0, 0
    for _ in range(300):
        found = contrasts(pd.DataFrame(counted @ rng.normal(size=(400, 20))))
        wrong += (found.verdict != 0).any()
        without += (found.p <= 0.05).any()
    assert wrong / 300 <= 0.07
    assert without / 300 > 0.5


def test_strong_effects_survive_the_correction(counted):
    effects = np.repeat([0, 0.4, -0.4], [14, 3, 3])
    for rng in range(20):
        values = np.random.default_rng(rng).normal(size=(400, 20)) + effects
        assert_array_equal(
            contrasts(pd.DataFrame(counted @ values)).verdict[14:], np.sign(effects[14:])
        )


def test_intervals_that_hold_together_are_bonferronis_and_decide(counted):
    """20 effects of 0 to 4 standard errors. Single intervals may leave out 0 where Holm's verdict
    is open; those of `together` never do, and the rest of the row is the same."""
    effects = np.linspace(0, 0.2, 20)
    values = np.random.default_rng(5).normal(size=(400, 20)) + effects
    draws = pd.DataFrame(counted @ values)
    found, each = contrasts(draws, together=True), contrasts(draws)
    ends = np.quantile(draws[1:], [0.05 / 20 / 2, 1 - 0.05 / 20 / 2], axis=0)
    assert_allclose(found.low, ends[0])
    assert_allclose(found.high, ends[1], atol=1e-3)
    assert_array_equal(found.verdict, (found.low > 0) * 1 - (found.high < 0) * 1)
    assert 0 < found.verdict.sum() <= each.verdict.sum() < (each.low > 0).sum()
    assert_allclose(found[["here", "p", "p_holm"]], each[["here", "p", "p_holm"]])


def test_a_family_too_large_for_its_draws_is_refused():
    draws = np.random.default_rng(0).normal(size=(400, 11))
    assert len(contrasts(pd.DataFrame(draws[:, :9]))) == 9  # needs 359
    with pytest.raises(UserError, match="11 comparisons at 0.05 need 439 draws"):
        contrasts(pd.DataFrame(draws))
    with pytest.raises(UserError, match="NaN"):
        contrasts({"x": np.full(1001, np.nan)})


# the best of several methods


@pytest.mark.parametrize("ahead", [0, 0.3])
def test_the_interval_of_the_least_lead_holds_it(counted, ahead):
    """One method against the best of nine others, all alike: the minimum's percentiles do not."""
    rng, least, minimum = np.random.default_rng(1), 0, 0
    for _ in range(200):
        means = counted @ (rng.normal(size=(400, 10)) + ahead * np.eye(10)[0])
        leads = means[:, :1] - means[:, 1:]
        found, plain = contrasts({"lead": leads}).loc["lead"], contrast(leads.min(1))
        least += found.low <= ahead <= found.high
        minimum += plain["low"] <= ahead <= plain["high"]
    assert least / 200 >= 0.94
    assert minimum / 200 < 0.75


def test_the_least_of_k_differences_is_above_0_if_each_is(counted):
    values = np.random.default_rng(2).normal(size=(400, 5)) * 0.1 + [1, 2, 3, 4, 5]
    draws = counted @ values
    found = contrasts({"above": draws, "not": draws - 2, "below": draws - 7, "alone": draws[:, 0]})
    assert found.verdict.tolist() == [1, -1, -1, 1]
    assert found.here["above"] == pytest.approx(values.mean(0).min())
    assert_allclose(found.low["above"], found.low["alone"])


def test_who_picks_the_best_on_other_items_keeps_the_interval(counted):
    """The lead of the method picked as best over the one picked as second, of ten, one of them
    ahead; on the same items it looks larger than it is."""
    rng, hits, true = np.random.default_rng(3), np.zeros(2), 0.15 * np.eye(10)[0]
    for _ in range(400):
        picking, judging = rng.normal(size=(2, 400, 10)) + true
        second, first = picking.mean(0).argsort()[-2:]
        leads = np.stack(
            [picking[:, first] - picking[:, second], judging[:, first] - judging[:, second]], 1
        )
        found = contrast(counted @ leads)
        lead = true[first] - true[second]
        hits += (found["low"] <= lead) & (lead <= found["high"])
    assert 0.93 <= hits[1] / 400 <= 0.98
    assert hits[0] / 400 < 0.92


def test_one_difference_over_seeds_is_students_test():
    values = np.random.default_rng(0).normal(0.3, 0.2, size=5)
    found = least_over_seeds(values)
    assert found["p"] == pytest.approx(ttest_1samp(values, 0).pvalue)
    assert (found["here"], found["low"], found["high"]) == pytest.approx(mean_over_seeds(values))


def test_the_least_of_several_leads_over_seeds_errs_as_often_as_it_says():
    """Two true leads of 0 and a large one: only chance finds a lead over each, or a deficit."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(2000, 5, 3)) + [0, 0, 9]
    significant = [least_over_seeds(one)["p"] <= 0.05 for one in noise]
    assert np.mean(significant) <= 0.05
    beaten = least_over_seeds(rng.normal([-9, 0, 9], 0.1, size=(5, 3)))
    assert beaten["high"] < 0
    assert beaten["p"] < 0.001
    ahead = least_over_seeds(rng.normal([1, 2, 9], 0.1, size=(5, 3)))
    assert ahead["low"] > 0
    assert ahead["p"] < 0.001


# rank correlations


def test_p_of_a_rank_correlation_counts_all_orders_and_ties():
    for a, b in [
        ([3, 1, 2, 5, 4, 6], [1, 2, 3, 4, 6, 5]),
        ([0.6, 0.6, 1, 1, 1.2, 0.8, 0.7], [1, 2, 2, 4, 5, 3, 3]),
    ]:
        found = rank_correlation(a, b)
        every = [spearmanr(a, order).statistic for order in permutations(b)]
        assert found.rho == pytest.approx(spearmanr(a, b).statistic)
        assert found.p == pytest.approx(np.mean(np.abs(every) >= abs(found.rho) - 1e-9))
    a, b = range(12), [5, 0, 3, 2, 1, 4, 11, 6, 7, 8, 9, 10]  # too many orders: random ones
    assert rank_correlation(a, b).p == pytest.approx(spearmanr(a, b).pvalue, abs=0.004)


def test_the_interval_of_a_rank_correlation_is_fishers_and_covers_the_true_one():
    a, b = [1, 2, 3, 4, 5, 6, 7, 8], [2, 1, 5, 3, 4, 8, 6, 7]
    rho = spearmanr(a, b).statistic
    z, error = 0.5 * np.log((1 + rho) / (1 - rho)), np.sqrt((1 + rho**2 / 2) / 5)
    ends = [np.tanh(z - 1.959964 * error), np.tanh(z + 1.959964 * error)]
    assert rank_correlation(a, b)[1:3] == pytest.approx(ends)
    assert rank_correlation(a, [-x for x in b])[1:3] == pytest.approx([-x for x in ends[::-1]])
    same = rank_correlation(a, a)
    assert same.low > 0.85
    assert (same.rho, same.high) == (pytest.approx(1), pytest.approx(1))
    rng = np.random.default_rng(0)
    for r in (0, 0.8):  # of normal pairs, whose ρ is known
        pairs = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], size=(1000, 8))
        true = 6 / np.pi * np.arcsin(r / 2)
        found = [rank_correlation(*one.T) for one in pairs]
        assert 0.93 <= np.mean([one.low <= true <= one.high for one in found]) <= 0.98, r
