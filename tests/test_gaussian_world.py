"""Two Gaussian encoders: closed forms against scipy, against drawn items, and in the cases that
need no computer."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

from probebook.base import UserError
from probebook.probes import LinearProbe
from probebook_chapters.gaussian_world import World, both

pytestmark = pytest.mark.library


def test_both_below_is_scipys_and_has_its_closed_forms():
    rng = np.random.default_rng(0)
    for r in (-0.99, -0.5, 0, 0.3, 0.9, 0.99):
        points = rng.normal(0, 1.5, (10, 2))
        expected = [multivariate_normal.cdf(p, cov=[[1, r], [r, 1]]) for p in points]
        assert both(*points.T, np.full(10, r)) == pytest.approx(expected, abs=1e-6)
        # Sheppard 1899
        assert float(both(0, 0, r)) == pytest.approx(0.25 + np.arcsin(r) / (2 * np.pi), abs=1e-12)
    assert float(both(0.7, -0.2, 0)) == pytest.approx(norm.cdf(0.7) * norm.cdf(-0.2))
    assert float(both(1, 9, 0.5)) == pytest.approx(norm.cdf(1))


@pytest.mark.parametrize(
    "acc_a, acc_b, differ", [(0.85, 0.8, 0.2), (0.8, 0.8, 0.2), (0.9, 0.6, 0.4), (0.7, 0.75, 0.1)]
)
def test_a_world_has_the_rates_that_were_asked_for(acc_a, acc_b, differ):
    world = World.of(acc_a, acc_b, differ)
    only_a, only_b = world.best()
    assert only_a - only_b == pytest.approx(acc_a - acc_b)
    assert only_a + only_b == pytest.approx(differ)
    assert norm.cdf([world.margin_a, world.margin_b]) == pytest.approx([acc_a, acc_b])


def test_swapping_the_encoders_swaps_the_rates():
    assert World.of(0.85, 0.8, 0.2).best() == pytest.approx(World.of(0.8, 0.85, 0.2).best()[::-1])


@pytest.fixture(scope="module")
def trained():
    world = World.of(0.85, 0.75, 0.25)
    a, b, z = world.draw(300, 12, 5, seed=1)
    z[:40] = 1  # wrong labels: a bias that is not 0
    return world, LinearProbe().fit(a, z), LinearProbe().fit(b, z)


def test_rates_of_trained_probes_are_those_on_many_drawn_items(trained):
    world, probe_a, probe_b = trained
    a, b, z = world.draw(200_000, 12, 5, seed=2)
    right_a, right_b = probe_a(a).argmax(1) == z, probe_b(b).argmax(1) == z
    drawn = (right_a & ~right_b).double().mean().item(), (right_b & ~right_a).double().mean().item()
    assert abs(float(probe_a.bias.diff())) > 0.1
    assert world.rates(probe_a, probe_b) == pytest.approx(drawn, abs=0.004)


def test_the_probe_along_the_first_coordinate_is_the_best_one(trained):
    world, *probes = trained
    first = []
    for probe in probes:
        best = LinearProbe()
        best.weight, best.bias = torch.zeros_like(probe.weight), torch.zeros(2, dtype=torch.float64)
        best.weight[1, 0] = 3.0
        first.append(best)
    assert world.rates(*first) == pytest.approx(world.best())
    # one of the two gets worse
    for learnt, other in ((probes[0], first[1]), (first[0], probes[1])):
        only_a, only_b = world.rates(learnt, other)
        assert (only_a - only_b < 0.1) == (learnt is probes[0])


def test_draws_are_balanced_shared_as_said_and_repeat():
    world = World.of(0.8, 0.8, 0.2)
    a, b, z = world.draw(40_000, 4, 6, seed=3)
    assert a.shape == (40_000, 4)
    assert b.shape == (40_000, 6)
    assert int(z.sum()) == 20_000
    between = np.corrcoef(a.T, b.T)[:4, 4:]
    assert between[1:4, 1:4] == pytest.approx(np.eye(3) * world.shared, abs=0.03)
    assert between[:, 4:] == pytest.approx(0, abs=0.03)
    assert a.var(0)[1:].tolist() + b.var(0)[1:].tolist() == pytest.approx([1] * 8, abs=0.05)
    torch.testing.assert_close(world.draw(40_000, 4, 6, seed=3)[0], a, rtol=0, atol=0)
    assert (a != world.draw(40_000, 4, 6, seed=4)[0]).any()


@pytest.mark.parametrize(
    "given, match",
    [
        ((0.85, 0.8, 0.01), "differ on 0.05"),
        ((0.85, 0.8, 0.5), "to 0.3"),
        ((1, 0.8, 0.2), "below 1"),
        ((0.4, 0.8, 0.4), "at least .5"),
    ],
)
def test_errors_are_one_line_that_says_what_would_be_right(given, match):
    with pytest.raises(UserError, match=match) as error:
        World.of(*given)
    assert "\n" not in str(error.value)
