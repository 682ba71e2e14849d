"""Steering: what a difference of means and a matched covariance do, as theorems."""

import pytest
import torch
from scipy.linalg import sqrtm

from probebook.base import UserError, must_agree
from probebook.interventions import AffineSteering, MeanShift
from probebook.probes import LinearProbe

pytestmark = pytest.mark.library

G = torch.Generator().manual_seed(0)
N, D = 900, 5


def states(k: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes with other means and covariances, float64."""
    z = torch.arange(N) % k
    mixing = torch.randn(k, D, D, generator=G, dtype=torch.float64)
    h = torch.randn(N, 1, D, generator=G, dtype=torch.float64) @ mixing[z]
    return h[:, 0] + 3 * torch.randn(k, D, generator=G, dtype=torch.float64)[z], z


def moments(h):
    return h.mean(0), torch.cov(h.T, correction=0)


@pytest.mark.parametrize("k", [2, 4])
def test_at_strength_1_the_mean_of_the_others_is_that_of_the_wanted_class(k):
    h, z = states(k)
    edit = MeanShift().fit(h, z)
    for c in range(k):
        rest = h[z != c]
        moved = edit(rest, to=torch.full((len(rest),), c))
        must_agree(moved.mean(0), h[z == c].mean(0), "means", atol=1e-10)
        must_agree(moments(moved)[1], moments(rest)[1], "covariances", atol=1e-10)


def test_strength_scales_the_vector_and_0_changes_nothing():
    h, z = states()
    edit = MeanShift().fit(h, z)
    assert torch.equal(edit.at(0)(h, to=1 - z), h)
    must_agree(edit.at(2.5)(h, to=1 - z) - h, 2.5 * (edit(h, to=1 - z) - h), "moves", atol=1e-10)


@pytest.mark.parametrize("k", [2, 4])
def test_affine_steering_gives_the_others_the_moments_of_the_wanted_class(k):
    h, z = states(k)
    edit = AffineSteering().fit(h, z)
    for c in range(k):
        rest = h[z != c]
        mean, covariance = moments(edit(rest, to=torch.full((len(rest),), c)))
        wanted = moments(h[z == c])
        must_agree(mean, wanted[0], "means", atol=1e-8)
        must_agree(covariance, wanted[1], "covariances", atol=1e-8)


def test_of_all_maps_with_these_moments_it_moves_the_states_least():
    """Any other map is A composed with a rotation in the whitened space of the wanted class."""
    h, z = states()
    rest, wanted = h[z == 0], moments(h[z == 1])
    moved = AffineSteering().fit(h, z)(rest, to=torch.ones(len(rest)))
    least = (moved - rest).square().sum(1).mean()
    root = torch.tensor(sqrtm(wanted[1].numpy()))
    for _ in range(20):
        turn = torch.linalg.qr(torch.randn(D, D, generator=G, dtype=torch.float64))[0]
        other = (moved - wanted[0]) @ torch.linalg.inv(root) @ turn @ root + wanted[0]
        must_agree(moments(other)[1], wanted[1], "covariances", atol=1e-8)
        assert (other - rest).square().sum(1).mean() > least


def test_equal_covariances_make_it_a_mean_shift():
    h, _ = states()
    h, z = torch.cat([h, h + torch.arange(D)]), torch.arange(2).repeat_interleave(len(h))
    to = 1 - z
    must_agree(
        AffineSteering().fit(h, z)(h, to=to), MeanShift().fit(h, z)(h, to=to), "edits", atol=1e-8
    )


@pytest.mark.parametrize("method", [MeanShift, AffineSteering])
def test_edits_turn_with_the_coordinates(method):
    h, z = states()
    turn = torch.linalg.qr(torch.randn(D, D, generator=G, dtype=torch.float64))[0]
    first = method().fit(h @ turn, z)(h @ turn, to=1 - z)
    then = method().fit(h, z)(h, to=1 - z) @ turn
    must_agree(first, then, "turned before and after", atol=1e-8)


def test_a_dimension_without_spread_is_left_without_it():
    h, z = states()
    h[:, 2] = 7.0
    edited = AffineSteering().fit(h, z)(h, to=1 - z)
    assert torch.isfinite(edited).all()
    must_agree(edited[:, 2], torch.full((N,), 7.0), "the constant dimension", atol=1e-8)


@pytest.mark.parametrize("method", [MeanShift, AffineSteering])
def test_dtype_is_kept_failures_are_said_and_a_probe_is_turned(method):
    h, z = states()
    h = h.float()
    edit = method().fit(h, z)
    edited = edit(h, to=1 - z)
    assert edited.dtype == torch.float32
    assert edit.failed(edited, 1 - z).shape == (N,)
    probe = LinearProbe().fit(h, z)
    before = (probe(h).argmax(1) == z).double().mean()
    assert (probe(edited).argmax(1) == 1 - z).double().mean() > before - 0.1
    with pytest.raises(UserError, match="must be ≥ 0"):
        edit.at(-1)
    with pytest.raises(UserError, match="beyond the 2 classes"):
        edit(h, to=torch.full((N,), 2))
