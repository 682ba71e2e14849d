"""Quadratic erasure: equal moments, no quadratic reader, the least move, as theorems."""

import pytest
import torch
from torch.nn import functional as F

from probebook.base import UserError, must_agree
from probebook.interventions import LEACE, QLEACE
from probebook.interventions.optimal_transport import barycenter, covariance, roots, transport
from probebook.probes import LinearProbe

pytestmark = pytest.mark.library

G = torch.Generator().manual_seed(0)
D = 5


def states(k: int = 2, n: int = 960) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes of different sizes, means and covariances, float64."""
    z = torch.randint(k + 1, (n,), generator=G).clamp_max(k - 1)
    mixing = torch.randn(k, D, D, generator=G, dtype=torch.float64)
    h = torch.randn(n, 1, D, generator=G, dtype=torch.float64) @ mixing[z]
    return h[:, 0] + 3 * torch.randn(k, D, generator=G, dtype=torch.float64)[z], z


def moments(h, z):
    classes = [h[z == c] for c in range(int(z.max()) + 1)]
    return torch.stack([x.mean(0) for x in classes]), torch.stack([covariance(x) for x in classes])


def quadratic(h):
    """All hᵢ and hᵢhⱼ, standardised."""
    i, j = torch.triu_indices(h.shape[1], h.shape[1])
    features = torch.cat([h, h[:, i] * h[:, j]], 1)
    return (features - features.mean(0)) / features.std(0)


def gain(h, z):
    """What a converged quadratic probe saves of the label entropy (nats)."""
    features, shares = quadratic(h), z.bincount() / len(z)
    logits = LinearProbe(1e6, tol=1e-5).fit(features, z)(features)
    return float(-(shares * shares.log()).sum() - F.cross_entropy(logits, z)), logits.argmax(1)


@pytest.mark.parametrize("k", [2, 4])
def test_all_classes_have_one_mean_and_one_covariance(k):
    h, z = states(k)
    means, covariances = moments(QLEACE().fit(h, z)(h, z), z)
    must_agree(means, h.mean(0), "means", atol=1e-8, rtol=0)
    must_agree(covariances, covariances[0], "covariances", atol=1e-8, rtol=0)


@pytest.mark.parametrize("k", [2, 4])
def test_no_quadratic_probe_beats_the_majority_where_one_does_after_leace(k):
    h, z = states(k)
    saved, answers = gain(QLEACE().fit(h, z)(h, z), z)
    assert abs(saved) < 1e-6
    assert (answers == z.bincount().argmax()).all()
    saved, answers = gain(LEACE().fit(h, z)(h), z)
    assert saved > 0.1
    assert (answers == z).double().mean() > z.bincount().max() / len(z) + 0.05


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_barycenter_is_the_fixed_point_of_its_equation(k):
    h, z = states(k)
    covariances, shares = moments(h, z)[1], z.bincount().double() / len(z)
    centre = barycenter(covariances, shares)
    root = roots(centre)[0]
    mean = sum(p * roots(root @ c @ root)[0] for p, c in zip(shares, covariances))
    must_agree(mean, centre, "both sides", atol=1e-9)
    # The maps to it, each with its class's share, add up to no change.
    back = sum(p * transport(centre, c) for p, c in zip(shares, covariances))
    must_agree(back, torch.eye(D), "mean of the maps back", atol=1e-8)


def test_the_barycenter_of_covariances_with_the_same_axes_has_the_mean_of_their_deviations():
    axes = torch.linalg.qr(torch.randn(D, D, generator=G, dtype=torch.float64))[0]
    deviations = torch.rand(3, D, generator=G, dtype=torch.float64) + 0.1
    shares = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    centre = barycenter(axes * deviations[:, None] ** 2 @ axes.T, shares)
    must_agree(centre, axes * (shares @ deviations) ** 2 @ axes.T, "barycenter", atol=1e-10)


@pytest.mark.parametrize("k", [2, 4])
def test_of_all_common_moments_it_takes_those_that_move_the_states_least(k):
    h, z = states(k)
    edited = QLEACE().fit(h, z)(h, z)
    least = (edited - h).square().sum(1).mean()
    (means, covariances), centre = moments(h, z), covariance(edited)
    for size in (0.01, 0.1, 1.0):
        for _ in range(5):
            noise = size * torch.randn(D, D, generator=G, dtype=torch.float64)
            way = torch.eye(D) + noise @ noise.T
            maps = torch.stack([transport(c, way @ centre @ way) for c in covariances])
            other = h.mean(0) + ((h - means[z])[:, None] @ maps[z])[:, 0]
            must_agree(*moments(other, z)[1][:2], "covariances", atol=1e-8)
            assert (other - h).square().sum(1).mean() > least


def test_edits_turn_with_the_coordinates():
    h, z = states(3)
    turn = torch.linalg.qr(torch.randn(D, D, generator=G, dtype=torch.float64))[0]
    must_agree(
        QLEACE().fit(h @ turn, z)(h @ turn, z),
        QLEACE().fit(h, z)(h, z) @ turn,
        "turned before and after",
        atol=1e-8,
    )


def test_equal_covariances_make_it_leave_the_shape_and_move_the_means():
    h, _ = states()
    h, z = torch.cat([h, h + torch.arange(D)]), torch.arange(2).repeat_interleave(len(h))
    shift = torch.where(z == 1, -0.5, 0.5).double()[:, None] * torch.arange(D)
    must_agree(QLEACE().fit(h, z)(h, z), h + shift, "edits", atol=1e-8)


def test_strength_is_the_share_of_each_move():
    h, z = states()
    edit = QLEACE().fit(h, z)
    assert torch.equal(edit.at(0)(h, z), h)
    must_agree(edit.at(0.25)(h, z) - h, 0.25 * (edit(h, z) - h), "moves", atol=1e-10)


def test_where_one_class_has_no_spread_none_has_any():
    """A constant dimension of one class, and a class of fewer states than dimensions."""
    h, z = states()
    h[z == 0, 2] = 7.0
    few = torch.cat([torch.where(z == 0)[0][:4], torch.where(z == 1)[0]])
    for rows, rank in ((slice(None), D - 1), (few, 3)):
        x, y = h[rows], z[rows]
        edited = QLEACE().fit(x, y)(x, y)
        means, covariances = moments(edited, y)
        must_agree(means[0], means[1], "means", atol=1e-8)
        must_agree(covariances[0], covariances[1], "covariances", atol=1e-8)
        assert torch.linalg.matrix_rank(covariances[1], hermitian=True, rtol=1e-9) == rank


def test_dtype_is_kept_and_bad_input_is_said_in_a_line():
    h, z = states()
    edit = QLEACE().fit(h.float(), z)
    assert edit(h.float(), z).dtype == torch.float32
    for message, wrong in (
        ("must be ≥ 0", lambda: edit.at(-1)),
        ("beyond the 2 classes", lambda: edit(h, z + 1)),
        ("one label per row", lambda: edit(h, z[1:])),
        ("fitted on 5", lambda: edit(h[:, 1:], z)),
        ("at least 2 of each class", lambda: QLEACE().fit(h[:3], [0, 0, 1])),
        ("no direction has spread in every class", lambda: QLEACE().fit(h[:4], [0, 0, 1, 1])),
    ):
        with pytest.raises(UserError, match=message) as said:
            wrong()
        assert "\n" not in str(said.value)


@pytest.mark.parametrize("k", [2, 4])
def test_it_agrees_with_the_authors_package(k):
    """The package weighs class means equally, so the classes here have one size."""
    theirs = pytest.importorskip("concept_erasure")
    h, _ = states(k)
    z = torch.arange(len(h)) % k
    h = h * (1 + z[:, None]) + z[:, None]
    other = theirs.LeaceFitter.fit(h, F.one_hot(z).double(), shrinkage=False).eraser
    must_agree(LEACE().fit(h, z)(h), other(h), "LEACE", atol=1e-10, rtol=0)
    quadratic_eraser = theirs.QuadraticFitter.fit(h, z, shrinkage=False).eraser
    must_agree(
        QLEACE().fit(h, z)(h, z), quadratic_eraser(h, z), "quadratic erasers", atol=1e-6, rtol=0
    )
