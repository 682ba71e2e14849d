"""LEACE, R-LACE and INLP, each against a theorem or an independent computation."""

import numpy as np
import pytest
import torch
from references import official_inlp
from torch.nn import functional as F
from torch.testing import assert_close

from probebook.base import UserError
from probebook.interventions.alterrep import AlterRep
from probebook.interventions.inlp import INLP
from probebook.interventions.leace import LEACE
from probebook.interventions.rlace import RLACE, _Discriminant, mean_difference
from probebook.interventions.rlace_game import Game, project_to_fantope
from probebook.probes import LinearProbe

pytestmark = pytest.mark.library


def data(n=1500, d=12, k=2, seed=0, strength=1.0, dtype=torch.float64):
    """Correlated states with a mean far from 0, whose class means span k−1 directions."""
    g = torch.Generator().manual_seed(seed)
    z = torch.randint(k, (n,), generator=g)
    mix = torch.randn(d, d, generator=g, dtype=torch.float64) / d**0.5
    h = torch.randn(n, d, generator=g, dtype=torch.float64) @ mix + 3
    centres = torch.randn(k, d, generator=g, dtype=torch.float64)
    return (h + strength * centres[z] / d**0.5).to(dtype), z


def rotation(d, seed=9):
    g = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=g))[0]


def entropy(z):
    p = torch.bincount(z).double() / len(z)
    return float(-(p * p.log()).sum())


def probe_loss(h, z, C=1e6):
    h = h - h.mean(0)  # the bias absorbs the mean
    return float(F.cross_entropy(LinearProbe(C, tol=1e-5).fit(h, z)(h), z))


def class_means(h, z):
    return torch.stack([h[z == c].mean(0) for c in range(int(z.max()) + 1)])


def change(edit, h):
    return float((edit(h) - h).square().sum(1).mean())


@pytest.mark.parametrize("k", [2, 3, 5])
def test_leace_leaves_a_converged_probe_with_the_label_entropy(k):
    h, z = data(k=k)
    edit = LEACE().fit(h, z)
    x = edit(h)
    means = class_means(x, z)
    assert (means - means[0]).abs().max() < 1e-12
    assert probe_loss(h, z) < 0.9 * entropy(z)
    assert abs(probe_loss(x, z) - entropy(z)) < 1e-9
    assert_close(edit(x), x, atol=1e-12, rtol=0)
    assert_close(x.mean(0), h.mean(0), atol=1e-12, rtol=0)
    assert torch.linalg.matrix_rank(x - h) == k - 1
    assert edit.left.shape == edit.right.shape == (12, k - 1)
    one = torch.eye(k - 1, dtype=torch.float64)
    assert_close(edit.right.T @ edit.left, one, atol=1e-12, rtol=0)


@pytest.mark.parametrize("k", [2, 3])
def test_leace_changes_least_of_all_erasures(k):
    h, z = data(k=k, strength=0.6)
    edit = LEACE().fit(h, z)
    means = class_means(h, z)
    span = torch.linalg.svd((means - means.mean(0)).T, full_matrices=False)[0][:, : k - 1]
    centre = h.mean(0)

    def orthogonal(x):  # erases too: the class means coincide
        return x - (x - centre) @ span @ span.T

    game = RLACE(rank=k - 1).fit(h, z)
    assert abs(probe_loss(orthogonal(h), z) - entropy(z)) < 1e-9
    others = [orthogonal, game] + ([INLP(max_rank=12).fit(h, z)] if k == 2 else [])
    assert all(change(edit, h) < change(other, h) for other in others)
    # first-order optimality: a step towards any other affine erasure makes the change larger
    for t in (1e-3, -1e-3):
        for other in (orthogonal, lambda x: centre.expand_as(x)):
            assert change(lambda x: (1 - t) * edit(x) + t * other(x), h) > change(edit, h)


def test_leace_commutes_with_every_change_of_the_basis():
    h, z = data(k=3)
    x = LEACE().fit(h, z)(h)
    g = torch.Generator().manual_seed(3)
    for q in (rotation(12), torch.randn(12, 12, dtype=torch.float64, generator=g)):
        assert_close(LEACE().fit(h @ q, z)(h @ q), x @ q, atol=1e-9, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_leace_bears_a_rogue_and_a_constant_dimension(dtype):
    h, z = data(n=3000, d=32, strength=3)
    h[:, 3] *= 300
    h[:, 7] = 0.1
    h = h.to(dtype)
    edit = LEACE().fit(h, z)
    x = edit(h)
    assert x.dtype == dtype
    assert not edit.failed(x, h).any()
    assert torch.equal(x[:, 7], h[:, 7])
    slack = 1e-9 if dtype == torch.float64 else 1e-4
    assert abs(probe_loss(x / x.std(0).clamp_min(1), z) - entropy(z)) < slack
    assert (
        abs(
            float((LinearProbe().fit(x, z)(x).argmax(1) == z).double().mean())
            - float(torch.bincount(z).max() / len(z))
        )
        < 0.02
    )


def test_leace_with_fewer_rows_than_dimensions():
    h, z = data(n=30, d=50, k=3, strength=1)
    x = LEACE().fit(h, z)(h)
    assert (class_means(x, z) - x.mean(0)).abs().max() < 1e-12
    assert probe_loss(h, z) < 1e-3
    assert abs(probe_loss(x, z) - entropy(z)) < 1e-9


@pytest.mark.parametrize("kind", ["full", "dependent", "nearly dependent", "few rows"])
def test_leace_is_the_formula_with_the_square_root_of_the_covariance(kind):
    """Theorem 4.3 with eigenvectors: P = I − W⁺ U Uᵀ W, W = Σ^(−½) on standardised dimensions."""
    h, z = data(n=25 if kind == "few rows" else 600, d=40, k=3)
    if "dependent" in kind:
        h[:, [4, 9, 30]] = h[:, 10:13] @ rotation(3) + h[:, 1:4]
        noise = torch.randn(len(h), generator=torch.Generator().manual_seed(5))
        h[:, 9] += 1e-7 * noise * (kind != "dependent")
    before, edit = h.clone(), LEACE().fit(h, z)
    assert torch.equal(h, before)
    x = (h - h.mean(0)) / h.std(0)
    cross = x.T @ F.one_hot(z).double() / len(x)
    variance, axes = torch.linalg.eigh(x.T @ x / len(x))
    positive = variance > 1e-12 * variance[-1]
    variance, axes = variance[positive], axes[:, positive]
    u = torch.linalg.svd(axes / variance.sqrt() @ axes.T @ cross, full_matrices=False)[0][:, :2]
    right, left = axes / variance.sqrt() @ axes.T @ u, axes * variance.sqrt() @ axes.T @ u
    unseen = data(n=50, d=40, seed=7)[0]
    for states in (h, unseen):
        y = (states - h.mean(0)) / h.std(0)
        assert_close(edit(states), states - (y @ right) @ left.T * h.std(0), atol=1e-7, rtol=0)
    assert (class_means(edit(h), z) - h.mean(0)).abs().max() < 1e-11


@pytest.mark.parametrize(
    "k, strength, dtype",
    [(2, 1, torch.float64), (2, 6, torch.float64), (3, 2, torch.float64), (2, 6, torch.float32)],
)
def test_inlp_finds_the_directions_of_the_official_loop(k, strength, dtype):
    """INLP does not project the states: each round's weights are kept orthogonal instead."""
    h, z = data(n=800, d=20, k=k, strength=strength, dtype=dtype)
    before, edit = h.clone(), INLP(4 * (k - 1), tol=-1).fit(h, z)
    assert torch.equal(h, before)
    solver = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}
    projections = official_inlp(h.double().numpy(), z.numpy(), 4, **solver)
    one = torch.eye(4 * (k - 1), dtype=torch.float64)
    assert_close(edit.basis.T @ edit.basis, one, atol=1e-12, rtol=0)
    for i, projection in enumerate(projections, start=1):
        left = torch.from_numpy(projection) @ edit.basis[:, : i * (k - 1)]
        assert left.abs().max() < 1e-6


def test_leace_leaves_alone_what_says_nothing_of_the_labels():
    h, z = data()
    x = LEACE().fit(h, z)(h)
    assert LEACE().fit(x, z).left.shape == (12, 0)
    constant = torch.ones(20, 4)
    assert torch.equal(LEACE().fit(constant, z[:20])(constant), constant)


@pytest.mark.parametrize("k, rank", [(2, 1), (2, 3), (3, 1), (3, 2), (3, 6)])
@pytest.mark.parametrize("isotropic", [False, True])
def test_the_factored_game_is_the_dense_game_step_by_step(k, rank, isotropic):
    """The paper's game: k weight vectors, A a d × d matrix, an eigendecomposition per step."""
    h, z = data(n=640, d=10, k=k, strength=2)
    x, z, rng = (h - h.mean(0)).numpy(), z.numpy(), np.random.default_rng(0)
    lr, decay, onehot = 0.3, 0.01, np.eye(k)[z]
    start = np.linalg.qr(rng.normal(size=(10, rank)))[0]
    game = Game(start, k, width=10)
    a = start @ start.T
    if isotropic:
        game.u, game.s, game.c = np.zeros((10, 0)), np.zeros(0), rank / 10
        a = np.eye(10) * rank / 10
    theta, bias = np.zeros((k, 10)), np.zeros(k)

    def residual(rows):
        logits = x[rows] @ (theta - theta @ a).T + bias
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        return (p - onehot[rows]) / len(rows)

    for t in range(120):
        rows = np.arange(640)[64 * (t % 10) :][:64]
        r = residual(rows)
        theta = theta - lr * (r.T @ x[rows] @ (np.eye(10) - a) + decay * theta)
        bias = bias - lr * r.sum(0)
        gradient = -theta.T @ residual(rows).T @ x[rows]
        values, vectors = np.linalg.eigh(a + lr * (gradient + gradient.T) / 2)
        low, high = values.min() - 1, values.max()
        for _ in range(80):  # bisection for the shift
            middle = (low + high) / 2
            above = np.clip(values - middle, 0, 1).sum() > rank
            low, high = (middle, high) if above else (low, middle)
        a = vectors * np.clip(values - high, 0, 1) @ vectors.T
        game.step(x[rows], game.contrasts[z[rows]], lr, decay)
        held = game.c * np.eye(10) + game.u * (game.s - game.c) @ game.u.T
        assert np.abs(held - a).max() < 1e-10
        assert np.abs(game.w @ game.contrasts.T - theta.T).max() < 1e-10
        assert len(game.s) == 0 or np.abs(game.u.T @ game.u - np.eye(len(game.s))).max() < 1e-12
        assert abs(np.trace(held) - rank) < 1e-10


def test_a_narrow_game_keeps_the_trace_and_stays_in_the_fantope():
    h, z = data(n=640, d=40, k=3, strength=2)
    x, rng = (h - h.mean(0)).numpy(), np.random.default_rng(0)
    game = Game(np.linalg.qr(rng.normal(size=(40, 5)))[0], 3, width=3)
    for t in range(300):
        rows = slice(64 * (t % 10), 64 * (t % 10) + 64)
        game.step(x[rows], game.contrasts[z[rows].numpy()], 0.2, 0)
        assert len(game.s) <= 8
        assert game.s.min() >= 0
        assert game.s.max() <= 1
        assert 0 <= game.c <= 1
        assert abs(game.s.sum() + game.c * (40 - len(game.s)) - 5) < 1e-10


def test_fantope_finds_the_nearest_point():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, c = rng.normal(size=6), rng.normal()
        times, rank = int(rng.integers(0, 9)), int(rng.integers(0, 7))
        s, level = project_to_fantope(values, c, times, rank)
        every, nearest = np.append(values, [c] * times), np.append(s, [level] * times)
        assert abs(nearest.sum() - rank) < 1e-12
        assert nearest.min() >= 0
        assert nearest.max() <= 1
        inside = (nearest > 1e-12) & (nearest < 1 - 1e-12)  # KKT: one shift where no bound holds
        shift = (every - nearest)[inside]
        if len(shift):
            assert np.ptp(shift) < 1e-12
            assert (every[nearest <= 1e-12] <= shift[0] + 1e-12).all()
            assert (every[nearest >= 1 - 1e-12] >= shift[0] + 1 - 1e-12).all()


def test_rlace_of_two_classes_finds_the_mean_difference():
    h, z = data(n=4000, d=32, strength=3)
    edit = RLACE(rank=1, tol=1e-4).fit(h, z)
    direction = mean_difference(h, z)
    assert direction.shape == (32,)
    assert abs(float(direction.norm()) - 1) < 1e-12
    assert abs(float(edit.basis[:, 0] @ direction)) > 0.999
    assert probe_loss(h, z) < 0.8 * entropy(z)
    assert edit.loss > (1 - 2e-4) * entropy(z)
    without = h - (h @ direction)[:, None] * direction
    assert abs(probe_loss(without, z) - entropy(z)) < 1e-9


@pytest.mark.parametrize("k, rank", [(2, 1), (3, 1), (3, 2), (2, 4)])
def test_rlace_reports_the_loss_of_the_projection_that_it_returns(k, rank):
    h, z = data(k=k, strength=2)
    edit = RLACE(rank, steps=1500, C=100).fit(h, z)
    assert edit.basis.shape == (12, rank)
    assert edit.basis.dtype == torch.float64
    one = torch.eye(rank, dtype=torch.float64)
    assert_close(edit.basis.T @ edit.basis, one, atol=1e-12, rtol=0)
    x = (h - h.mean(0)) @ (torch.eye(12, dtype=torch.float64) - edit.basis @ edit.basis.T)
    again = LinearProbe(C=100, tol=1e-5).fit(x, z)
    assert abs(float(F.cross_entropy(again(x), z)) - edit.loss) < 2e-6
    accuracy = float((again(x).argmax(1) == z).double().mean())
    assert accuracy == pytest.approx(edit.accuracy, abs=2 / len(h))
    assert edit.entropy == pytest.approx(entropy(z))
    assert edit.loss <= edit.entropy + 1e-9


def test_rlace_of_three_classes():
    h, z = data(n=3000, k=3, strength=1.5)
    one, two = RLACE(rank=1, steps=10_000).fit(h, z), RLACE(rank=2).fit(h, z)
    assert two.loss > (1 - 3e-3) * entropy(z)
    assert two.steps < 20_000
    assert probe_loss(h, z, 1e4) < one.loss < two.loss
    assert one.steps == 10_000
    means = class_means(h, z)
    u, s, _ = torch.linalg.svd((means - means.mean(0)).T, full_matrices=False)
    assert float((u[:, :2].T @ two.basis).square().sum()) > 2 * 0.99  # the span of the class means
    # Rank 1: as good as the best direction there.
    angles = torch.linspace(0, torch.pi, 25, dtype=torch.float64)[:-1]
    losses = [
        probe_loss(h - (h @ b)[:, None] * b, z, 1e4)
        for b in (u[:, 0] * t.cos() + u[:, 1] * t.sin() for t in angles)
    ]
    assert one.loss > max(losses) - 0.03
    assert one.loss > np.quantile(losses, 0.75)


@pytest.mark.parametrize("k, strength", [(2, 0.1), (2, 1), (3, 0.1), (3, 1)])
def test_candidates_are_scored_by_the_loss_of_the_full_probe(k, strength):
    h, z = data(n=4000, k=k, strength=strength)
    x = (h - h.mean(0)).numpy()
    score = _Discriminant(x, z.numpy())
    for basis in np.linalg.qr(np.random.default_rng(0).normal(size=(3, 12, 2)))[0]:
        full = probe_loss(torch.from_numpy(x - x @ basis @ basis.T), z, 1e4)
        assert full - 1e-6 < score(basis) < full + 0.02 * (entropy(z) - full)
    if k == 2:
        assert score(mean_difference(h, z)[:, None].numpy()) == pytest.approx(entropy(z), abs=1e-9)


def test_rlace_commutes_with_a_rotation_and_a_scale_and_repeats_itself():
    h, z = data(k=3, strength=2)
    q = rotation(12)
    edit = RLACE(rank=2, steps=1000)
    first, x = edit.fit(h, z), edit.fit(h, z)(h)
    assert torch.equal(edit.fit(h, z).basis, first.basis)
    assert_close(edit.fit(h @ q, z)(h @ q), x @ q, atol=1e-6, rtol=0)
    assert_close(edit.fit(50 * h, z)(50 * h), 50 * x, atol=1e-6, rtol=0)
    assert not torch.equal(RLACE(rank=2, steps=1000, seed=1).fit(h, z).basis, first.basis)


def test_rlace_of_no_and_of_all_dimensions():
    h, z = data(n=300)
    none, whole = RLACE(rank=0).fit(h, z), RLACE(rank=12).fit(h, z)
    assert torch.equal(none(h), h)
    assert none.steps == 0
    assert none.loss == pytest.approx(probe_loss(h, z, 1e4))
    assert whole(h).abs().max() < 1e-12
    assert whole.loss == pytest.approx(entropy(z))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("fit", [INLP(3, tol=-1).fit, RLACE(2, steps=50).fit, LEACE().fit])
def test_erasures_say_which_rows_failed(fit, dtype):
    h, z = data(n=400)
    edit = fit(h, z)
    h = h.to(dtype)
    x = edit(h)
    failed = edit.failed(x, h)
    assert x.dtype == dtype
    assert failed.shape == (400,)
    assert failed.dtype == torch.bool
    assert not failed.any()


def test_a_row_fails_where_its_dtype_cannot_hold_the_edit():
    h, z = data(n=400)
    noise = torch.randn(400, generator=torch.Generator().manual_seed(1))
    h[:, 1] = h[:, 0] + 1e-4 * noise + 1e-3 * z
    edit = LEACE().fit(h, z)
    assert not edit.failed(edit(h), h).any()
    x = edit(h.half())  # z lies below the spacing of float16
    assert edit.failed(x, h.half()).double().mean() > 0.5
    assert torch.isfinite(x).all()


def test_alterrep_says_which_rows_its_classifier_still_refuses():
    h, z = data(strength=3)
    alter, to = AlterRep(max_rank=1).fit(h, z), 1 - z
    probe = LinearProbe().fit(h, z)
    shares = []
    for alpha in (0, 1, 4, 16):
        x = alter.at(alpha)(h, to=to)
        failed = alter.failed(x, to)
        assert torch.equal(failed, probe(x).argmax(1) != to)
        shares.append(float(failed.double().mean()))
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.3
    assert shares[-1] < 0.1


def test_raw_weights_count_their_length_twice():
    h, z = data(strength=3)
    unit, raw = AlterRep(max_rank=1).fit(h, z), AlterRep(max_rank=1, weights="raw").fit(h, z)
    probe = LinearProbe().fit(h, z)
    w = probe.weight[1] - probe.weight[0]
    square = float(w @ w)
    assert raw.inlp.norms[0] ** 2 == pytest.approx(square)
    x = raw.at(alpha=0.3)(h, to=1 - z)
    assert_close(x, unit.at(alpha=0.3 * square)(h, to=1 - z), atol=1e-9, rtol=0)
    b = w / w.norm()
    term = 0.3 * (1 - 2 * z).double()[:, None] * (h @ w).abs()[:, None] * w  # α s |w·h| w
    assert_close(x, h - (h @ b)[:, None] * b + term, atol=1e-9, rtol=0)
    assert torch.equal(raw.at(0)(h, to=z), unit.at(0)(h, to=z))


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda h, z: RLACE(rank=-1), "≥ 0"),
        (lambda h, z: RLACE(rank=13).fit(h, z), "0 … 12"),
        (lambda h, z: RLACE(steps=0), "at least 1"),
        (lambda h, z: RLACE().fit(h[:, 0], z), "give \\[n, d\\]"),
        (lambda h, z: RLACE(steps=5).fit(h, z)(h[:, :5]), "fitted on 12"),
        (lambda h, z: LEACE().fit(h, torch.zeros_like(z)), "class 1 has 0"),
        (lambda h, z: LEACE().fit(h, z)(h[:, :5]), "fitted on 12"),
        (lambda h, z: LEACE().fit(h * torch.nan, z), "NaN"),
        (lambda h, z: mean_difference(h, torch.arange(len(z)) % 3), "3 classes"),
        (lambda h, z: AlterRep(weights="long"), "expected unit, raw"),
    ],
)
def test_bad_input_gets_one_line(call, says):
    with pytest.raises(UserError, match=says) as error:
        call(*data(n=200))
    assert "\n" not in str(error.value)
