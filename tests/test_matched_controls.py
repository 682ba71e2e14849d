"""Negative controls: as far as the edit in every row, elsewhere, and blind to the labels."""

import pytest
import torch

from probebook.base import UserError, must_agree
from probebook.interventions import (
    INLP,
    LEACE,
    PGD,
    AffineSteering,
    AlterRep,
    MatchedDirection,
    MatchedSubspace,
    MeanShift,
    shuffled,
)
from probebook.probes import LinearProbe

pytestmark = pytest.mark.library

G = torch.Generator().manual_seed(7)
N, D = 400, 12
Z = torch.arange(N) % 2
H = torch.randn(N, D, generator=G, dtype=torch.float64) + 2 * Z[:, None]
EDITS = {
    "shift": MeanShift().fit(H, Z),
    "affine": AffineSteering().fit(H, Z),
    "alterrep": AlterRep(max_rank=2).fit(H, Z),
    "pgd": PGD(LinearProbe().fit(H, Z), steps=5),
    "inlp": INLP(max_rank=3).fit(H, Z),
    "leace": LEACE().fit(H, Z),
}
BOTH = pytest.mark.parametrize("control", [MatchedDirection, MatchedSubspace])


def target(name: str) -> dict[str, torch.Tensor]:
    """`to`, where the edit takes one."""
    return {} if name in ("inlp", "leace") else {"to": 1 - Z}


@BOTH
@pytest.mark.parametrize("name", EDITS)
def test_every_row_moves_exactly_as_far(control, name):
    lengths = (EDITS[name](H, **target(name)) - H).norm(dim=1)
    moves = control(EDITS[name], seed=1)(H, **target(name)) - H
    must_agree(moves.norm(dim=1), lengths, "lengths", atol=1e-13, rtol=1e-12)
    assert lengths.min() < lengths.max() or name == "shift"
    edited = EDITS[name](H, **target(name)) - H
    assert not torch.allclose(moves, edited, atol=0.01)


@BOTH
def test_at_another_strength_it_moves_as_far_as_the_edit_there(control):
    to, edit = 1 - Z, EDITS["shift"]
    there = control(edit).at(2.5)
    must_agree(
        (there(H, to=to) - H).norm(dim=1),
        (edit.at(2.5)(H, to=to) - H).norm(dim=1),
        "lengths",
        rtol=1e-12,
    )
    assert torch.equal(control(edit).at(0)(H, to=to), H)


def test_a_direction_is_one_line_and_to_says_which_way():
    moves = MatchedDirection(EDITS["affine"])(H, to=1 - Z) - H
    assert torch.linalg.matrix_rank(moves, rtol=1e-10) == 1
    unit = moves / moves.norm(dim=1, keepdim=True)
    must_agree(unit @ unit[0], torch.where(Z == Z[0], 1.0, -1.0), "signs", atol=1e-10)
    erasing = MatchedDirection(EDITS["leace"])(H) - H
    must_agree(
        erasing / erasing.norm(dim=1, keepdim=True), unit[Z == 0][0], "all go along u", atol=1e-10
    )


def test_further_classes_have_directions_of_their_own_whoever_else_is_there():
    z = torch.arange(N) % 4
    edit = MeanShift().fit(H + z[:, None] * torch.eye(D)[0], z)
    control = MatchedDirection(edit)
    moves = [control(H, to=torch.full((N,), c)) - H for c in range(4)]
    units = torch.stack([move[0] / move[0].norm() for move in moves])
    must_agree(units[::2], -units[1::2], "pairs", atol=1e-12)
    assert abs(units[0] @ units[2]) < 0.9
    mixed = control(H, to=z) - H
    for c in range(4):
        must_agree(mixed[z == c], moves[c][z == c], "moves of a class", atol=1e-12)


@pytest.mark.parametrize(("name", "rank"), [("shift", 1), ("leace", 1), ("inlp", 3)])
def test_a_subspace_keeps_the_angles_between_moves_and_so_their_rank(name, rank):
    edited = EDITS[name](H, **target(name)) - H
    moves = MatchedSubspace(EDITS[name])(H, **target(name)) - H
    must_agree(moves @ moves.T, edited @ edited.T, "inner products", atol=1e-10)
    assert torch.linalg.matrix_rank(moves, rtol=1e-10) == rank


@BOTH
def test_where_it_moves_does_not_depend_on_labels_or_on_other_rows(control):
    """Edits fitted on other labels: the same direction, and the same rotation, by the seed."""
    other = shuffled(Z, seed=3)
    first, second = (MeanShift().fit(H, z) for z in (Z, other))
    to = torch.ones(N, dtype=torch.long)
    if control is MatchedDirection:
        a, b = (control(edit, seed=5)(H, to=to) - H for edit in (first, second))
        must_agree(a[0] / a[0].norm(), b[0] / b[0].norm(), "directions", atol=1e-10)
    else:
        both = torch.stack([control(edit, seed=5)(H, to=to)[0] - H[0] for edit in (first, second)])
        straight = torch.stack([edit(H, to=to)[0] - H[0] for edit in (first, second)])
        must_agree(both @ both.T, straight @ straight.T, "one rotation for both", atol=1e-10)
    whole, part = control(first)(H, to=to), control(first)(H[:7], to=to[:7])
    must_agree(part, whole[:7], "some rows alone", atol=1e-12)
    assert not torch.allclose(whole, control(first, seed=1)(H, to=to), atol=0.01)


@pytest.mark.parametrize(
    ("control", "name", "rank"),
    [(MatchedDirection, "shift", 1), (MatchedSubspace, "shift", 1), (MatchedSubspace, "inlp", 3)],
)
def test_on_average_it_holds_the_share_rank_over_d_of_any_direction(control, name, rank):
    """And the mean overlap is 0: no side of the edit's own direction is preferred."""
    given = torch.linalg.svd(EDITS[name](H, **target(name)) - H)[2][0]
    shares, signed = [], []
    for seed in range(300):
        moves = (
            control(EDITS[name], seed)(H[:8], **{k: t[:8] for k, t in target(name).items()}) - H[:8]
        )
        plane = torch.linalg.svd(moves)[2][:rank]
        shares.append((plane @ given).square().sum())
        signed.append(moves[0] @ given / moves[0].norm())
    shares, signed = torch.stack(shares), torch.stack(signed)
    for found, expected in ((shares, rank / D), (signed, 0)):
        error = found.std() / len(found) ** 0.5
        assert abs(found.mean() - expected) < 4 * error
    assert shares.std() > 0.01


@BOTH
def test_a_probe_is_not_turned_by_the_control_of_an_edit_that_turns_it(control):
    probe, edit = LinearProbe().fit(H, Z), EDITS["shift"]
    assert (probe(edit(H, to=1 - Z)).argmax(1) == 1 - Z).double().mean() > 0.95
    turned = [
        (probe(control(edit, seed)(H, to=1 - Z)).argmax(1) == 1 - Z).double().mean()
        for seed in range(20)
    ]
    assert torch.stack(turned).mean() < 0.4


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_dtype_is_kept(control, dtype):
    h, edit = H.to(dtype), EDITS["alterrep"]
    moved = control(edit)(h, to=1 - Z)
    assert moved.dtype == dtype
    must_agree(
        (moved - h).double().norm(dim=1),
        (edit(h, to=1 - Z) - h).double().norm(dim=1),
        "lengths",
        atol=4 * torch.finfo(dtype).eps * float(H.norm(dim=1).max()),
    )


@BOTH
def test_any_function_of_state_and_target_has_a_control(control):
    moved = control(lambda h, to: h + to[:, None])(H, to=Z)
    must_agree((moved - H).norm(dim=1), Z * D**0.5, "lengths", atol=1e-12)


def test_shuffled_labels_keep_their_shares_in_every_group():
    groups = [f"noun {i % 7}" for i in range(N)]
    z = torch.randint(3, (N,), generator=G)
    mixed = shuffled(z, groups, seed=1)
    assert not torch.equal(mixed, z)
    for group in set(groups):
        rows = torch.tensor([name == group for name in groups])
        assert torch.equal(mixed[rows].bincount(minlength=3), z[rows].bincount(minlength=3))
    assert torch.equal(mixed, shuffled(z, groups, seed=1))
    assert not torch.equal(mixed, shuffled(z, groups, seed=2))
    assert torch.equal(shuffled(z).bincount(), z.bincount())


def test_labels_that_a_group_determines_stay():
    assert torch.equal(shuffled(Z, Z, seed=1), Z)
    assert torch.equal(shuffled(Z, torch.arange(N), seed=1), Z)


def test_every_order_is_equally_likely():
    """Six orders of three labels in each of two groups: every one as often as chance has it."""
    z, groups = torch.tensor([0, 3, 1, 4, 2, 5]), [0, 1, 0, 1, 0, 1]
    drawn = torch.stack([shuffled(z, groups, seed) for seed in range(1200)])
    assert torch.equal(drawn[:, ::2].sort(1).values, z[::2].expand(1200, -1))
    orders, counts = drawn[:, ::2].unique(dim=0, return_counts=True)
    assert len(orders) == 6
    assert (counts - 200).abs().max() < 4 * (200 * 5 / 6) ** 0.5


def test_a_fit_on_shuffled_labels_has_lost_the_concept():
    """The difference of means falls to what chance leaves, and a probe is not turned by it."""
    probe, true = LinearProbe().fit(H, Z), MeanShift().fit(H, Z)
    blind = [MeanShift().fit(H, shuffled(Z, seed=seed)) for seed in range(10)]
    lengths = torch.stack([edit.shifts[1].square().sum() for edit in blind])
    spread = H.var(0, correction=0).sum() * N / (N - 1)
    assert lengths.mean() == pytest.approx(float(4 * spread / N), rel=0.8)
    assert lengths.mean() < 0.02 * true.shifts[1].square().sum()
    assert (probe(true(H, to=1 - Z)).argmax(1) == 1 - Z).double().mean() > 0.95
    for edit in blind:
        assert (probe(edit(H, to=1 - Z)).argmax(1) == Z).double().mean() > 0.95
    erased = INLP(max_rank=1).fit(H, shuffled(Z, seed=1))(H)
    assert (LinearProbe().fit(erased, Z)(erased).argmax(1) == Z).double().mean() > 0.95


def test_bad_input_is_refused_in_one_line():
    for wrong in (lambda: shuffled(Z, [0, 1]), lambda: shuffled(Z[:, None])):
        with pytest.raises(UserError, match="give one of each per row") as found:
            wrong()
        assert "\n" not in str(found.value)
    for control in (MatchedDirection, MatchedSubspace):
        with pytest.raises(UserError, match="must be ≥ 0"):
            control(EDITS["shift"]).at(-1)
        with pytest.raises(UserError, match="beyond the 2 classes"):
            control(EDITS["shift"])(H, to=Z + 1)
