"""Paired comparisons against scipy, closed forms and simulation."""

import numpy as np
import pytest
from scipy import stats

from probebook.base import UserError
from probebook.measures import paired
from probebook.measures.sample_size import mcnemar_power

pytestmark = pytest.mark.library


def scores(only_a, only_b, both, neither):
    a = np.repeat([1, 0, 1, 0], [only_a, only_b, both, neither])
    b = np.repeat([0, 1, 1, 0], [only_a, only_b, both, neither])
    return a, b


def test_right_and_wrong_are_compared_by_the_exact_mcnemar_test():
    found = paired.compare(*scores(30, 12, 40, 18))
    assert found.test == paired.MCNEMAR
    assert found.p == stats.binomtest(30, 42).pvalue
    assert (found.only_a, found.only_b, found.delta) == (30, 12, pytest.approx(0.18))
    assert found.low > 0
    assert found.sentence == "A is better than B on such items"
    back = paired.compare(*scores(30, 12, 40, 18)[::-1])
    assert (back.p, back.delta, back.low) == (found.p, -found.delta, pytest.approx(-found.high))
    assert back.sentence == "B is better than A on such items"
    n = int(found.needed)
    assert mcnemar_power(0.3, 0.12, n) >= 0.8 > mcnemar_power(0.3, 0.12, n - 1)


def test_graded_scores_are_compared_by_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.random(60), rng.random(60)
    found, right = paired.compare(a, b), stats.ttest_rel(a, b)
    assert found.test == paired.STUDENT
    assert found.p == pytest.approx(right.pvalue)
    assert (found.low, found.high) == pytest.approx(right.confidence_interval())
    each = np.arange(60)  # groups of one item are no groups
    assert paired.compare(a, b, each) == found
    assert paired.compare(a, b, np.repeat(np.arange(30), 2)).test == paired.GROUPED


def test_repeated_items_in_a_group_add_nothing():
    """Each item ten times: the interval of the groups is that of the single items."""
    a, b = np.random.default_rng(1).random((2, 40))
    once, often = (
        paired.compare(a, b),
        paired.compare(np.repeat(a, 10), np.repeat(b, 10), np.repeat(np.arange(40), 10)),
    )
    assert (often.low, often.high, often.p) == pytest.approx((once.low, once.high, once.p))
    assert paired.compare(np.repeat(a, 10), np.repeat(b, 10)).p < once.p


@pytest.mark.parametrize(
    "only_a, only_b, n", [(0.1, 0.1, 60), (0.15, 0.05, 200), (0.02, 0.01, 100)]
)
def test_the_interval_of_shares_holds_the_truth(only_a, only_b, n):
    rng, held = np.random.default_rng(0), 0
    for x, y, rest in rng.multinomial(n, [only_a, only_b, 1 - only_a - only_b], 400):
        found = paired.compare(*scores(x, y, rest, 0))
        held += found.low <= only_a - only_b <= found.high
    assert held >= 0.94 * 400


def test_the_power_and_the_items_of_a_t_test():
    """So many items as are needed give about the power asked for, by simulation."""
    rng = np.random.default_rng(2)
    d = rng.normal(size=100)
    d = (d - d.mean()) / d.std(ddof=1) + 0.2  # mean .2, deviation 1
    found = paired.compare(d, np.zeros(100))
    n = int(found.needed)
    p = stats.ttest_1samp(rng.normal(0.2, 1, (2000, n)), 0, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.03)
    now = stats.ttest_1samp(rng.normal(0.2, 1, (2000, 100)), 0, axis=1).pvalue
    assert (now < 0.05).mean() == pytest.approx(found.power, abs=0.04)
    assert found.least == pytest.approx(0.28, abs=0.01)


def test_the_same_twice_and_what_is_no_score():
    a, b = scores(0, 0, 5, 5)
    found = paired.compare(a, b)
    assert (found.p, found.power, found.needed) == (1, 0, np.inf)
    assert "none (no difference)" in found.lines().values()
    everywhere = paired.compare(a / 2 + 0.25, b / 2)
    assert everywhere.p == pytest.approx(stats.binomtest(10, 10).pvalue)
    assert everywhere.test == paired.SIGNS
    assert paired.compare([0.3] * 7, [0.2] * 7).p == pytest.approx(stats.binomtest(7, 7).pvalue)
    twice = paired.compare([0.75, 0.75], [0.25, 0.25])
    assert twice.sentence.endswith("about 6 items would show it")
    assert paired.compare([0.5] * 6, [0.25] * 6).p < 0.05 < paired.compare([0.5] * 5, [0.25] * 5).p
    assert paired.compare([0.5, 0.25], [0.5, 0.25]).sentence == "open: no difference in these items"
    many = paired.compare(*scores(50, 50, 5000, 5000))
    assert many.sentence == "any remaining difference is below 0.02"
    for wrong in [(a, b[:3]), (a, b * np.nan), (a[:1], b[:1]), ([], [])]:
        with pytest.raises(UserError):
            paired.compare(*wrong)
