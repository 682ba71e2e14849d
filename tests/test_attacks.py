"""Attacks against closed forms on linear probes, and against each other on perceptrons."""

import functools

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from probebook.base import UserError
from probebook.interventions.apgd import APGD, checkpoints, targeted_dlr
from probebook.interventions.attack import (
    CHUNK,
    NormBall,
    flipped,
    length,
    margin,
    steepest,
    target_loss,
)
from probebook.interventions.autoattack import AutoAttack
from probebook.interventions.fab import FAB
from probebook.interventions.fgsm import FGSM
from probebook.interventions.pgd import PGD
from probebook.interventions.square import Square
from probebook.probes import LinearProbe, MLPProbe

pytestmark = pytest.mark.library

NORMS = ["linf", "l2"]
GRADIENT = [FGSM, functools.partial(PGD, steps=20), functools.partial(APGD, steps=20)]
ALL = [
    *GRADIENT,
    functools.partial(FAB, steps=20),
    functools.partial(Square, queries=60),
    functools.partial(AutoAttack, steps=20, queries=60),
]


def data(n=400, d=16, k=2, dtype=torch.float64):
    g = torch.Generator().manual_seed(k)
    z = torch.arange(n) % k
    h = torch.randn(n, d, generator=g, dtype=torch.float64)
    centres = torch.randn(k, d, generator=g, dtype=torch.float64)
    h += 2.0 * F.one_hot(z, k).double() @ centres / d**0.5
    return h.to(dtype), z


@functools.cache
def mlp(k=2, d=16):
    return MLPProbe(layers=2, width=48, lr=1e-2, epochs=6).fit(*data(1000, d, k))


@functools.cache
def linear(k=2):
    return LinearProbe().fit(*data(1000, k=k))


def wrong_rows(k=2, dtype=torch.float64, probe=None):
    """States that the probe does not put into class `to` yet, and `to`."""
    h, z = data(k=k, dtype=dtype)
    to = (z + 1) % k
    keep = ~flipped((probe or linear(k))(h), to)
    return h[keep], to[keep]


def dual(w, norm):
    return float(w.abs().sum() if norm == "linf" else w.norm())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("attack", GRADIENT)
def test_gradient_attacks_reach_the_best_point_of_the_ball_on_a_linear_probe(attack, norm):
    h, to = wrong_rows()
    w, eps = linear().weight[1] - linear().weight[0], 0.17
    x = attack(linear(), norm=norm).at(eps=eps)(h, to=to)
    unit = w.sign() if norm == "linf" else w / w.norm()
    assert_close(x, h + eps * (2 * to - 1)[:, None] * unit, atol=1e-9, rtol=1e-5)
    lowest = target_loss(linear()(h), to) - eps * dual(w, norm)
    assert_close(target_loss(linear()(x), to), lowest, atol=1e-9, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_fab_finds_the_distance_to_a_linear_boundary(norm):
    h, to = wrong_rows()
    w = linear().weight[1] - linear().weight[0]
    x, distance = FAB(linear(), norm=norm, steps=10).minimal(h, to)
    exact = margin(linear()(h), to) / dual(w, norm)
    assert_close(distance, exact, atol=0, rtol=1e-4)
    assert (distance >= exact).all()
    assert flipped(linear()(x), to).all()
    assert_close(length(x - h, norm), distance, atol=1e-8, rtol=1e-5)
    eps = float(exact.sort().values[len(h) // 2 :][:2].mean())  # between two rows, not on one
    attack = FAB(linear(), eps, norm, steps=10)
    failed = attack.failed(attack(h, to=to), to)
    assert torch.equal(failed, distance > eps)
    assert 0 < failed.sum() < len(h)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [3, 5])
def test_fab_distances_are_bounded_by_the_nearest_halfspaces_and_by_its_own_points(norm, k):
    h, to = wrong_rows(k)
    x, distance = FAB(linear(k), norm=norm).minimal(h, to)
    logits, weight = linear(k)(h), linear(k).weight
    wanted, need = logits.gather(1, to[:, None])[:, 0], []
    for c in range(k):  # every other class is passed
        slopes = torch.tensor([max(dual(weight[c] - weight[t], norm), 1e-9) for t in to])
        need.append((logits[:, c] - wanted) / slopes)
    bound = torch.stack(need, 1).max(1).values
    assert (distance >= bound * (1 - 1e-9)).all()
    assert (distance / bound).median() < 1.15
    assert flipped(linear(k)(x), to).all()
    already = linear(k)(h).argmax(1)
    x, distance = FAB(linear(k), norm=norm).minimal(h, already)
    assert torch.equal(x, h)
    assert (distance == 0).all()


def test_square_finds_the_sign_solution_of_a_linear_probe():
    h, to = wrong_rows()
    w = linear().weight[1] - linear().weight[0]
    needed = margin(linear()(h), to) / dual(w, "linf")
    eps = float(needed.median())
    attack = Square(linear(), eps, queries=1500)
    x = attack(h, to=to)
    failed = attack.failed(x, to)
    clear = (needed / eps - 1).abs() > 1e-3
    assert torch.equal(failed[clear], (needed > eps)[clear])
    assert 0 < failed.sum() < len(h)
    best = target_loss(linear()(h), to) - eps * dual(w, "linf")
    assert_close(target_loss(linear()(x), to)[failed], best[failed], atol=1e-3, rtol=0)
    assert_close((x - h).abs(), torch.full_like(h, eps), atol=1e-12, rtol=0)


def test_square_in_l2_comes_near_the_best_point():
    h, to = wrong_rows()
    w = linear().weight[1] - linear().weight[0]
    eps = float((margin(linear()(h), to) / w.norm()).min()) * 0.9  # no row can be flipped
    x = Square(linear(), eps, "l2", queries=1500)(h, to=to)
    gain = (margin(linear()(h), to) - margin(linear()(x), to)) / (eps * w.norm())
    assert (gain > 0.97).all()
    assert (gain <= 1 + 1e-9).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [2, 5])
def test_autoattack_is_never_weaker_than_its_parts(k, norm):
    probe = mlp(k)
    h, to = wrong_rows(k, probe=probe)
    partly = 0
    for eps in (0.1, 0.3, 0.6) if norm == "linf" else (0.4, 1, 2):
        attack = AutoAttack(probe, eps, norm, steps=30, queries=100)
        x = attack(h, to=to)
        failed = attack.failed(x, to)
        clean = AutoAttack(probe, eps, norm, 30, 100, unflipped="clean")
        kept = clean(h, to=to)
        assert torch.equal(failed, clean.failed(kept, to))
        assert torch.equal(kept[failed], h[failed])
        assert torch.equal(kept[~failed], x[~failed])
        parts = attack.attacks(k)
        assert len(parts) == (4 if k >= 4 else 3)
        for part in parts:
            point = part(h, to=to)
            assert not (failed & ~part.failed(point, to)).any()
            loss, part_loss = (target_loss(probe(p), to)[failed] for p in (x, point))
            assert (loss <= part_loss + 1e-9).all()
        assert length(x - h, norm).max() <= eps * (1 + 1e-5)
        partly += 0 < failed.sum() < len(h)
    assert partly  # some radius left the attacks work to do


def test_autoattack_asks_the_later_attacks_only_about_rows_that_are_left():
    h, to = wrong_rows(probe=mlp())
    rows = 0

    def counted(x):
        nonlocal rows
        rows += len(x)
        return mlp()(x)

    attack = AutoAttack(counted, eps=5.0, steps=10)
    assert not attack.failed(attack(h, to=to), to).any()
    assert rows < 20 * len(h)  # Square alone may ask 5,000 times a row


def test_autoattack_still_moves_rows_that_are_in_the_wanted_class():
    h, z = data()
    to = mlp()(h).argmax(1)
    x = AutoAttack(mlp(), steps=10)(h, to=to)
    assert (target_loss(mlp()(x), to) < target_loss(mlp()(h), to)).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_more_steps_lower_the_loss_of_a_perceptron(k, norm):
    h, to = wrong_rows(k, probe=mlp(k))
    eps = 0.1 if norm == "linf" else 0.4
    start, fgsm, pgd, apgd = (
        float(target_loss(mlp(k)(x), to).mean())
        for x in (h, *(attack(mlp(k), eps, norm)(h, to=to) for attack in (FGSM, PGD, APGD)))
    )
    assert apgd <= pgd + 1e-3 < fgsm < start


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("attack", ALL)
def test_confident_probes_are_attacked_as_well(attack, k, norm):
    probe, eps = mlp(k), 0.3 if norm == "linf" else 1.0
    h, to = wrong_rows(k, torch.float32, probe)
    confident = lambda x: 100 * probe(x)
    sharp, smooth = attack(confident, eps, norm), attack(probe, eps, norm)
    x = sharp(h, to=to)
    failed, plain = sharp.failed(x, to), smooth.failed(smooth(h, to=to), to)
    # With k ≥ 3 a confident probe's loss has a sharper maximum.
    assert failed.float().mean() <= plain.float().mean() + (0 if k == 2 else 0.05)
    # FAB leaves a row for which it finds no point.
    assert ((x - h).abs().sum(1) > 0).double().mean() > 0.98


@pytest.mark.parametrize("probe", [linear, mlp])
@pytest.mark.parametrize("attack", [*GRADIENT, functools.partial(FAB, eps=9.0, steps=20)])
def test_l2_attacks_commute_with_a_rotation_of_the_basis(attack, probe):
    g = torch.Generator().manual_seed(9)
    q = torch.linalg.qr(torch.randn(16, 16, dtype=torch.float64, generator=g))[0]
    h, to = wrong_rows(3, probe=probe(3))
    straight = attack(probe(3), norm="l2")(h, to=to)
    turned = attack(lambda x: probe(3)(x @ q.T), norm="l2")(h @ q, to=to)
    assert_close(straight @ q, turned, atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("attack", ALL)
def test_a_row_does_not_depend_on_the_others_nor_on_the_run(attack, norm, monkeypatch):
    h, to = wrong_rows(3, probe=mlp(3))
    edit = attack(mlp(3), 0.3 if norm == "linf" else 1.0, norm)
    x = edit(h, to=to)
    assert torch.equal(edit(h, to=to), x)
    assert_close(edit(h[::3], to=to[::3]), x[::3], atol=1e-9, rtol=0)
    monkeypatch.setitem(CHUNK, "cpu", 50)
    assert_close(edit(h, to=to), x, atol=1e-9, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "scale, eps", [(1, 0.1), (30, 0.1), (1e3, 1e-3), (1e3, 1e-5), (1, 0.0), (1e-3, 5.0)]
)
@pytest.mark.parametrize("attack", ALL)
def test_every_attack_stays_in_its_ball_after_rounding(attack, scale, eps, dtype, norm):
    h, to = wrong_rows(3, dtype, mlp(3))
    h, to = scale * h[:80], to[:80]
    copy = h.clone()
    x = attack(lambda x: mlp(3)(x / scale), norm=norm).at(eps=eps)(h, to=to)
    assert x.dtype == dtype
    assert x.isfinite().all()
    assert torch.equal(h, copy)
    assert length(x.double() - h.double(), norm).max() <= eps * (1 + 1e-5)
    if eps == 0:
        assert torch.equal(x, h)


@pytest.mark.parametrize("norm", NORMS)
def test_project_is_the_identity_inside_and_lands_on_the_border_outside(norm):
    h, _ = data(50)
    inside, outside = h + 0.01, h + 3 * torch.randn_like(h)
    ball = NormBall(h, 0.5, norm)
    assert_close(ball.project(inside.clone()), inside, atol=1e-8, rtol=1e-5)
    radius, one = torch.full_like(h[:, 0], 0.5), torch.ones_like(h[:, 0])
    assert_close(length(ball.project(outside.clone()) - h, norm), radius, atol=1e-8, rtol=1e-5)
    assert_close(length(steepest(outside - h, norm), norm), one, atol=1e-8, rtol=1e-5)


def test_the_ball_of_a_large_float32_state_keeps_what_can_be_represented():
    h = torch.full((1, 4), 1e3)  # neighbours 6e-5 apart
    ball = NormBall(h, 1e-3, "linf")
    assert 9e-4 < float((ball.high - h).min()) <= 1e-3
    assert torch.equal(NormBall(h, 1e-5, "linf").high, h)


def test_modules_are_attacked_without_gradients_of_their_weights_even_under_no_grad():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    h, z = data(100, dtype=torch.float32)
    with torch.no_grad():
        x = PGD(net, eps=0.5)(h.numpy(), to=z.numpy())
    assert (target_loss(net(x), z) < target_loss(net(h), z)).all()
    assert not x.requires_grad
    assert all(p.grad is None for p in net.parameters())


def test_targeted_dlr_ignores_scale_and_shift_and_its_sign_says_who_wins():
    logits = torch.randn(500, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    to = torch.arange(500) % 5
    loss = targeted_dlr(logits, to)
    assert_close(targeted_dlr(100 * logits + 7, to), loss, atol=1e-8, rtol=1e-5)
    assert torch.equal(loss < 0, flipped(logits, to))


def test_the_paper_s_checkpoints():
    assert [c for c in checkpoints(100) if c <= 100] == [22, 41, 57, 70, 80, 87, 93, 99]


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda h, z: PGD(linear()).at(eps=-0.1), "≥ 0"),
        (lambda h, z: AutoAttack(linear(), eps=float("nan")), "≥ 0"),
        (lambda h, z: APGD(linear(), norm="l1"), "expected linf, l2"),
        (lambda h, z: PGD(linear(), steps=0), "steps ≥ 1"),
        (lambda h, z: APGD(linear(), loss="ce"), "'log-odds' or 'dlr'"),
        (lambda h, z: APGD(linear(), loss="dlr")(h, to=z), "4 classes"),
        (lambda h, z: Square(linear(), queries=0), "queries"),
        (lambda h, z: AutoAttack(linear(), unflipped="keep"), "expected move, clean"),
        (lambda h, z: FAB(linear(), steps=0), "steps"),
        (lambda h, z: AutoAttack(linear())(h, to=z + 1), "beyond the 2 classes"),
        (lambda h, z: Square(linear())(h, to=-z), "0 … k−1"),
        (lambda h, z: FAB(linear())(h * torch.nan, to=z), "NaN"),
        (lambda h, z: PGD(linear())(h[:, :5], to=z), "5 dimensions"),
        (lambda h, z: PGD(torch.nn.Linear(16, 2))(h, to=z), "float64"),
        (lambda h, z: FGSM(lambda x: linear()(x).detach())(h, to=z), "not differentiable"),
        (lambda h, z: FGSM(lambda x: x.sum(1))(h, to=z), "k ≥ 2"),
    ],
)
def test_bad_input_gets_one_line(call, says):
    with pytest.raises(UserError, match=says) as error:
        call(*data())
    assert "\n" not in str(error.value)
