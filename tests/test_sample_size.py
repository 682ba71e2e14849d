"""How many items a comparison needs: the paper's own numbers, brute force, simulation, and
limits."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest, chi2

from probebook.base import UserError
from probebook.measures import pilots
from probebook.measures import sample_size as size

pytestmark = pytest.mark.library

# Differences as whole numbers of items (5 seeds × test size), the width, the N of Tables 2 to 7.
PRINTED = [
    (42, 320, 768, 22_263),
    (11, 320, 768, 324_563),
    (7, 320, 768, 801_472),
    (62, 960, 4096, 95_156),
]


@pytest.mark.parametrize("items, of, dim, printed", PRINTED)
def test_the_bound_gives_the_printed_numbers(items, of, dim, printed):
    assert size.recommend(items / of, dim) == size.recommend(-items / of, dim) == printed


def test_the_correct_count_of_probes_asks_for_356_times_more_at_768_dimensions():
    assert size.recommend(1, 768) == 383
    assert size.recommend(1, 768, "correct") == pytest.approx(136_609, abs=1)
    assert size.log_functions(768, "correct") == pytest.approx(769 * 32 * np.log(2))


@pytest.mark.parametrize("rule", ["paper", "correct"])
def test_at_the_recommended_size_the_bound_is_half_the_difference(rule):
    n = size.recommend(0.05, 300, rule)
    assert size.excess_risk(n, 300, rule) == pytest.approx(0.025, rel=1e-4)
    np.testing.assert_allclose(size.excess_risk([n, 4 * n], 300, rule), [0.025, 0.0125], rtol=1e-4)


def test_the_critical_number_of_wins_is_that_of_the_test_itself():
    for m in range(80):
        wins = range(m // 2 + 1, m + 1)
        assert size.critical(m) == next(
            (k for k in wins if binomtest(k, m, 0.5).pvalue <= 0.05), m + 1
        )
        by_chi2 = (k for k in wins if m and chi2.sf((2 * k - m) ** 2 / m, 1) <= 0.05)
        assert size.critical(m, test="chi2") == next(by_chi2, m + 1)


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.8, 1e-6, 2 * 0.5**6, 2 * 7 * 0.5**6])  # ties last
def test_the_critical_number_is_scipys_quantile_at_small_and_at_large_sizes(alpha):
    some = (
        np.arange(300),
        np.arange(1000, 2100),
        np.arange(100_000, 100_200),
        10**8 + np.arange(200),
    )
    for m in (*some, np.array([[7, 1], [90, 90]])):
        np.testing.assert_array_equal(
            size.critical(m, alpha), np.clip(binom.isf(alpha / 2, m, 0.5) + 1, 1, m + 1)
        )


def test_exact_power_is_that_of_all_tables_of_a_few_items():
    a, b, n = 0.35, 0.15, 14
    from scipy.stats import multinomial

    tables = [(x, y) for x in range(n + 1) for y in range(n + 1 - x)]
    chance = multinomial.pmf([(x, y, n - x - y) for x, y in tables], n, [a, b, 1 - a - b])
    wins = [x > y and binomtest(x, x + y, 0.5).pvalue <= 0.05 for x, y in tables]
    assert size.mcnemar_power(a, b, n) == pytest.approx(chance @ wins, abs=1e-12)
    assert size.mcnemar_power(b, a, n) == pytest.approx(size.mcnemar_power(a, b, n), abs=1e-12)


@pytest.mark.parametrize("test", size.TESTS)
def test_exact_power_equals_simulated_power_on_50_random_tables(test):
    rng, z = np.random.default_rng(7), []
    for seed in range(50):
        a, b, _ = rng.dirichlet([1, 1, 4])
        n = int(rng.integers(10, 2000))
        exact = size.mcnemar_power(a, b, n, test=test)
        drawn = size.mcnemar_power(a, b, n, method="simulate", test=test, draws=20_000, seed=seed)
        z.append((drawn - exact) / max((exact * (1 - exact) / 20_000) ** 0.5, 1e-4))
    assert np.abs(z).max() < 4
    assert np.square(z).mean() < 1.6


def test_equal_probabilities_are_found_different_at_most_as_often_as_alpha():
    for n in (20, 200, 5000):
        assert size.mcnemar_power(0.1, 0.1, n) <= 0.05
        assert size.mcnemar_power(0.1, 0.1, n, test="chi2", alpha=0.2) > 0.05
    assert size.mcnemar_power(0, 0, 100) == 0
    assert size.mcnemar_power(0.2, 0, 10_000) == pytest.approx(1)


@pytest.mark.parametrize("a, b", [(0.1, 0.05), (0.3, 0.25), (0.02, 0.01)])
def test_the_size_needed_reaches_the_power_and_the_approximation_is_near(a, b):
    n = size.items_needed_exactly(a, b)
    assert size.mcnemar_power(a, b, n) >= 0.8 > size.mcnemar_power(a, b, n - 1)
    assert size.items_needed(a, b) == pytest.approx(n, rel=0.12)
    assert np.isinf(size.items_needed(a, a))


def pilot(n, only_a, only_b, right=0.6):
    a, b, both = (round(n * share) for share in (only_a, only_b, right))
    first = np.zeros(n), np.zeros(n)
    first[0][: a + both], first[1][a : a + both + b] = 1, 1
    return first


def test_the_verdict_on_a_pilot():
    clear, tiny, open_ = pilot(2000, 0.15, 0.05), pilot(20_000, 0.05, 0.049), pilot(200, 0.12, 0.08)
    assert [size.judge_pilot(*p, dim=768).word for p in (clear, tiny, open_)] == [
        "enough",
        "collapsed",
        "need N",
    ]
    found = size.judge_pilot(*open_, dim=768)
    assert found.delta == pytest.approx(0.04)
    assert found.low < 0 < found.high
    assert found.paper == size.recommend(0.04, 768)
    assert found.correct == size.recommend(0.04, 768, "correct")
    assert found.by_power == np.ceil(4 * size.items_needed(0.12, 0.08))
    assert found.power_low < found.by_power
    assert found.power_high == np.inf  # the interval of the difference holds 0
    assert size.judge_pilot(*(np.stack([x] * 5) for x in open_), dim=768) == found
    assert size.judge_pilot(clear[0], clear[0]).paper is None


def test_the_items_for_a_difference_that_matters_depend_on_the_disagreement_alone():
    items = size.items_for_difference(np.array([0.2, 0.05, 0.01]))
    powers = [
        size.mcnemar_power((p + 0.02) / 2, (p - 0.02) / 2, int(n / 4))
        for p, n in zip((0.2, 0.05, 0.02), items)
    ]
    assert powers[:2] == [pytest.approx(0.9, abs=0.02)] * 2
    assert powers[2] > 0.9  # never below the difference
    pilots = [pilot(400, a, 0.2 - a) for a in (0.1, 0.15, 0.2)]
    assert {size.judge_pilot(*p).cared for p in pilots} == {np.ceil(items[0])}


def test_the_interval_of_the_size_holds_the_right_one_as_often_as_it_says():
    rng, a, b, n = np.random.default_rng(0), 0.2, 0.1, 400
    right, hits = 4 * size.items_needed(a, b), 0
    for _ in range(300):
        table = rng.choice(3, size=n, p=[a, b, 1 - a - b])
        found = size.judge_pilot(table == 0, table == 1, draws=1000)
        hits += found.power_low <= right <= found.power_high
    assert 0.92 <= hits / 300 <= 0.98


def test_pilots_from_files(tmp_path):
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    a.write_text("id,prediction,label\n1,x,x\n2,y,x\n3,x,y\n")
    b.write_text("id,prediction,label\n3,y,y\n1,y,x\n2,y,x\n")
    first, second = pilots.read(a, b)
    assert first.tolist() == [[1, 0, 0]]
    assert second.tolist() == [[0, 0, 1]]
    a.write_text("prediction,label\nNone,None\nNA,null\n")
    assert pilots.read(a, a)[0].tolist() == [[1, 0]]
    a.write_text("s1,s2\n1,0\n1,1\n")
    b.write_text("s1,s2\n0,0\n1,1\n")
    assert [p.tolist() for p in pilots.read(a, b)] == [[[1, 1], [0, 1]], [[0, 1], [0, 1]]]
    for text, says in [
        ("s1\n1\n2\n", "0 and 1 .right. in one column"),
        ("s1\n1\n", "a.csv has 2 items, .*b.csv 1"),
        ("", "give a CSV file"),
        ("id\n1\n1\n", "0 and 1"),
    ]:
        b.write_text(text)
        with pytest.raises(UserError, match=says):
            pilots.read(a, b)
    with pytest.raises(UserError, match="give a CSV file"):
        pilots.read(a, tmp_path / "none.csv")


def test_the_command_line(tmp_path):
    from typer.testing import CliRunner

    from probebook_cli import app

    says = lambda *words: CliRunner().invoke(app, ["sample-size", *map(str, words)])
    found = says("--acc-a", 0.71, "--acc-b", 0.68, "--dim", 768)
    assert found.exit_code == 0
    assert f"{size.recommend(0.71 - 0.68, 768):,}" in found.output
    fewest, most = (4 * size.items_needed(*p) for p in [(0.03, 0), (0.71 * 0.32, 0.68 * 0.29)])
    assert f"{np.ceil(fewest):,.0f} (nested errors) to {np.ceil(most):,.0f}" in found.output
    for name, right in zip("ab", pilot(2000, 0.15, 0.05)):
        pd.DataFrame({"seed 1": right.astype(int)}).to_csv(tmp_path / f"{name}.csv", index=False)
    files = ["--pilot-a", tmp_path / "a.csv", "--pilot-b", tmp_path / "b.csv"]
    assert "enough" in says(*files).output.splitlines()[0]
    assert says(*files, "--acc-a", 0.7).exit_code == 2
    assert "give --acc-a and --acc-b, or" in says("--acc-a", 0.7).output


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: size.from_accuracies(71, 68, 768), "shares between 0 and 1"),
        (lambda: size.recommend(0, 768), "delta=0: a difference of two accuracies"),
        (lambda: size.recommend(5, 768), "as a share"),
        (lambda: size.recommend(0.1, 0), "dim=0: the width"),
        (lambda: size.recommend(0.1, 768, "honest"), "expected paper, correct"),
        (lambda: size.mcnemar_power(0.7, 0.6, 10), "add up to at most 1"),
        (lambda: size.mcnemar_power(0.2, 0.1, 0), "at least one item"),
        (lambda: size.mcnemar_power(0.2, 0.1, 10, method="guess"), "'exact' or 'simulate'"),
        (lambda: size.mcnemar_power(0.2, 0.1, 10, test="t"), "expected exact, chi2"),
        (lambda: size.items_needed_exactly(0.1, 0.1), "no number of items"),
        (lambda: size.judge_pilot([1, 0], [1, 0, 1]), "same shape"),
        (lambda: size.judge_pilot([0.5, 1], [1, 0]), "only 0 and 1"),
    ],
)
def test_bad_input_gets_one_clear_line(call, says):
    with pytest.raises(UserError, match=says) as e:
        call()
    assert "\n" not in str(e.value)


@pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ, reason="PROBEBOOK_DATA is not set: no reported figures"
)
def test_all_190_reported_recommendations_follow_from_whole_numbers_of_items():
    """Five seeds, each on a test set of whole items; the rows of two probes hold Δ/2 in place of
    Δ."""
    table = pd.read_csv(
        Path(os.environ["PROBEBOOK_DATA"]) / "probing_dataset" / "reported_recommendations.csv"
    )
    width, follow = {"infersent": 4096, "glove": 300}, 0
    for row in table.itertuples():
        answers = 5 * row.test_items_per_class * (6 if row.task == "sentence_length" else 2)
        scale = 2 if row.comparison == "classifiers" else 1
        printed, tick = abs(row.mean_delta_accuracy) * scale, 0.00005 * scale + 1e-6
        items = range(max(0, int((printed - tick) * answers)), int((printed + tick) * answers) + 2)
        near = [k for k in items if abs(k / answers - printed) <= tick]
        wanted = [row.recommended_n_a, row.recommended_n_b]
        found = [
            [
                size.recommend(k / answers, width.get(name, 768))
                for name in (row.config_a, row.config_b)
            ]
            for k in near
            if k
        ]
        follow += wanted in found or (np.isnan(wanted).all() and 0 in near)
    assert follow == len(table) == 190
