"""Chapter 4's measures: hand-made tables, closed forms, one-line errors."""

from types import SimpleNamespace

import numpy as np
import pytest

from probebook.base import UserError
from probebook.measures import specification as spec

pytestmark = pytest.mark.library


def one(*positions):
    """What a model filled in: (token, {token: probability}) of each position."""
    return SimpleNamespace(
        tokens=[token for token, _ in positions], top=[top for _, top in positions]
    )


def test_the_mass_of_one_listed_position_counts_alone_else_all_are_averaged():
    she = ("She", {"she": 0.5, "He": 0.25, "they": 0.125, "it": 0.0625, "her": 0.0625})
    dot = (".", {".": 0.75, "he": 0.25})
    assert spec.gender_mass([one(she)]).tolist() == [[56.25, 25, 12.5]]
    # she alone is listed
    assert spec.gender_mass([one(dot, she, dot)]).tolist() == [[56.25, 25, 12.5]]
    assert spec.gender_mass([one(she, she)]).tolist() == [[56.25, 25, 12.5]]  # two are: (… + …) / 2
    assert spec.gender_mass([one(she, she, dot, dot)]).tolist() == [[28.125, 25, 6.25]]
    assert spec.gender_mass([one(dot, dot)]).tolist() == [[0, 25, 0]]  # none is
    assert spec.gender_mass([one()]).tolist() == [[0, 0, 0]]
    assert spec.gender_mass([]).shape == (0, 3)


def test_what_lies_outside_bounds_what_a_list_can_lack():
    """With ever more of the best tokens the mass rises, never by more than lay outside before."""
    draw = np.random.default_rng(0)
    words = [*sum(spec.LISTS.values(), []), "it", "who", "one", ".", ","]
    for _ in range(50):
        order = [draw.permutation(len(words)) for _ in range(3)]
        probs = [np.sort(draw.dirichlet(np.ones(len(words))))[::-1] for _ in range(3)]
        filled = [
            one(*[("it", {words[j]: p for j, p in zip(i[:k], x)}) for i, x in zip(order, probs)])
            for k in (2, 5, len(words))
        ]
        few, more, all_ = spec.gender_mass(filled)
        out = spec.remaining_mass(filled)
        assert (all_ - few).max() <= out[0] + 1e-9
        assert (all_ - more).max() <= out[1] + 1e-9
        assert out[2] == pytest.approx(0, abs=1e-9)


def test_what_lies_outside_is_that_of_the_positions_that_count():
    she, dot = ("She", {"she": 0.5, "it": 0.25}), (".", {".": 0.75, "he": 0.125})
    assert spec.remaining_mass([one(she), one(dot, she), one(dot, dot)]).tolist() == [25, 25, 12.5]
    assert spec.remaining_mass([one(she, she, dot)]) == pytest.approx(62.5 / 3)  # two are: the mean
    assert spec.remaining_mass([one()]).tolist() == [0]
    assert spec.remaining_mass([]).shape == (0,)


def test_shares_add_up_to_a_hundred_and_are_missing_without_mass():
    found = spec.shares([[1, 2, 1], [0, 0, 0], [0, 5, 0]])
    assert found[0].tolist() == [25, 50, 25]
    assert np.isnan(found[1]).all()
    assert found[2].tolist() == [0, 100, 0]


def test_slopes_are_those_of_the_lines_that_were_drawn():
    index = np.repeat(np.arange(30), 4)
    noise = np.tile([-1, 1, -2, 2], 30)
    mass = np.stack([10 + 0.5 * index + noise, 40 - 0.25 * index - noise, np.full(120, 3)], 1)
    found = spec.slopes(mass, index).set_index("gender")
    assert found.slope.to_dict() == pytest.approx(
        {"female": 0.5, "male": -0.25, "neutral": 0, "delta": 0.75}, abs=1e-12
    )
    assert found.r2.tolist() == pytest.approx([1, 1, 0, 1])
    np.testing.assert_allclose(found.low, found.slope)
    np.testing.assert_allclose(found.high, found.slope)


def test_the_interval_of_a_slope_holds_it_95_times_in_100():
    rng, hits, index = np.random.default_rng(0), 0, np.arange(20)
    for _ in range(400):
        mass = np.stack(
            [0.3 * index + rng.normal(size=20), rng.normal(size=20), rng.normal(size=20)], 1
        )
        female = spec.slopes(mass, index).iloc[0]
        hits += female.low <= 0.3 <= female.high
    assert 360 < hits < 400
    assert abs(hits - 380) < 4 * np.sqrt(400 * 0.05 * 0.95)


def test_scores_and_area_count_pairs():
    metric, unspecified = [3, 0.5, 0.6, 0, 2, 0.1], [True, True, True, False, False, False]
    assert spec.scores(metric, unspecified) == (2 / 3, 2 / 3, 2 / 3)
    pairs = np.mean([(a > b) + 0.5 * (a == b) for a in metric[:3] for b in metric[3:]])
    auc, low, high = spec.area(metric, unspecified)
    assert auc == pytest.approx(pairs)
    assert low <= auc <= high <= 1
    assert spec.area(metric, unspecified, seed=3) == spec.area(metric, unspecified, seed=3)
    assert spec.specification([60, 10], [10, 60]).tolist() == [50, 50]


def test_the_areas_interval_is_that_of_a_known_world_and_wider_for_larger_groups():
    """P(X > Y) of normals apart by 1 is Φ(1/√2) = .760; texts that come in copies of five know
    less."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(60):
        metric = np.concatenate([rng.normal(1, 1, 80), rng.normal(0, 1, 80)])
        _, low, high = spec.area(metric, np.arange(160) < 80, draws=200)
        hits += low <= 0.760 <= high
    assert hits >= 51
    few, unspecified = np.repeat(metric[::5], 5), np.repeat(np.arange(160) < 80, 1)
    alone, together = (
        spec.area(few, unspecified, groups) for groups in (None, np.repeat(np.arange(32), 5))
    )
    assert together[2] - together[1] > 1.5 * (alone[2] - alone[1])


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: spec.slopes(np.ones((4, 3)), [0, 0, 1, 1]), "at least 3"),
        (lambda: spec.scores([1, 2], [True, True]), "texts of both kinds"),
        (lambda: spec.area([1, 2], [True, False, True]), "one metric per text"),
    ],
)
def test_bad_input_gets_one_line(call, says):
    with pytest.raises(UserError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
