"""Every edit against a theorem."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from probebook.base import UserError
from probebook.interventions import FGSM, INLP, AlterRep
from probebook.probes import LinearProbe, MLPProbe

pytestmark = pytest.mark.library


def data(n=800, d=16, k=2, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    z = torch.randint(k, (n,), generator=g)
    h = torch.randn(n, d, generator=g, dtype=torch.float64)
    centres = torch.randn(3, 3, generator=g, dtype=torch.float64)
    h[:, :3] += 2.0 * F.one_hot(z, max(k, 3))[:, :3].double() @ centres
    return h.to(dtype), z


def rotation(d=16):
    g = torch.Generator().manual_seed(9)
    return torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=g))[0]


@pytest.mark.parametrize("k", [2, 4])
def test_inlp_basis_is_orthonormal_and_the_edit_idempotent(k):
    h, z = data(k=k)
    edit = INLP(max_rank=9, tol=-1).fit(h, z)
    b = edit.basis
    assert b.shape == (16, 9)
    assert (b.T @ b - torch.eye(9)).abs().max() < 1e-12
    assert_close(edit(edit(h)), edit(h), atol=1e-12, rtol=0)
    assert (edit(h) @ b).abs().max() < 1e-10
    assert torch.equal(edit.at(rank=0)(h), h)
    assert torch.linalg.matrix_rank(edit.at(rank=5)(h)) == 16 - 5


def test_inlp_removes_what_a_linear_probe_reads():
    h, z = data(n=4000)
    before = (LinearProbe().fit(h, z)(h).argmax(1) == z).double().mean()
    x = INLP(max_rank=16).fit(h, z)(h)
    after = F.cross_entropy(LinearProbe().fit(x, z)(x), z)
    p = z.double().mean()
    entropy = -(p * p.log() + (1 - p) * (1 - p).log())
    assert before > 0.85
    assert after > 0.99 * entropy


def test_inlp_stops_when_nothing_is_left():
    g = torch.Generator().manual_seed(0)
    z = torch.randint(2, (5000,), generator=g)
    h = torch.randn(5000, 16, generator=g, dtype=torch.float64)
    h[:, 0] += 3 * z
    edit = INLP(max_rank=16, tol=0.01).fit(h, z)
    assert 1 <= edit.rank < 6
    assert edit.at(rank=16).basis is edit.basis


def test_first_direction_is_the_probe_weight():
    h, z = data()
    probe = LinearProbe().fit(h, z)
    w = probe.weight[1] - probe.weight[0]
    b = INLP(max_rank=1).fit(h, z).basis[:, 0]
    assert_close(b, w / w.norm(), atol=1e-8, rtol=1e-5)


def test_alterrep_at_zero_is_inlp():
    h, z = data()
    alter = AlterRep(max_rank=4).fit(h, z)
    assert torch.equal(alter.at(alpha=0)(h, to=1 - z), INLP(max_rank=4).fit(h, z)(h))


def test_alterrep_at_one_reflects_to_the_wanted_side_and_is_isometric():
    h, z = data()
    alter = AlterRep(max_rank=4).fit(h, z).at(alpha=1)
    b = alter.inlp.basis
    for to in (torch.ones_like(z), torch.zeros_like(z)):
        x = alter(h, to=to)
        assert_close(x.norm(dim=1), h.norm(dim=1), atol=1e-8, rtol=1e-5)
        assert ((x @ b) * (2 * to - 1)[:, None] >= -1e-9).all()
        assert_close(x - x @ b @ b.T, h - h @ b @ b.T, atol=1e-8, rtol=1e-5)


def test_alterrep_with_three_classes_moves_towards_each():
    h, z = data(n=3000, k=3)
    probe, alter = LinearProbe().fit(h, z), AlterRep(max_rank=2).fit(h, z).at(alpha=4)
    for c in range(3):
        to = torch.full_like(z, c)
        before, after = (probe(x).softmax(1)[:, c].mean() for x in (h, alter(h, to=to)))
        assert after > before + 0.2


def test_fgsm_on_a_linear_probe_has_a_closed_form():
    h, z = data()
    probe = LinearProbe().fit(h, z)
    w = probe.weight[1] - probe.weight[0]
    to, eps = 1 - z, 0.07
    x = FGSM(probe).at(eps=eps)(h, to=to)
    sign = (2 * to - 1)[:, None]
    assert_close(x, h + eps * sign * w.sign(), atol=1e-12, rtol=1e-5)
    gain = sign[:, 0] * ((x - h) @ w)
    # The best in the ball is ε‖w‖₁.
    assert_close(gain, torch.full_like(gain, eps * float(w.abs().sum())), atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [2, 3])
def test_fgsm_stays_in_its_ball_and_does_not_vanish_for_confident_probes(k, dtype):
    h, z = data(k=k, dtype=dtype)
    probe = MLPProbe(layers=2, width=32, lr=1e-2, epochs=4).fit(h, z)
    confident = lambda x: 100 * probe(x)
    to = (z + 1) % k
    x = FGSM(confident).at(eps=0.1)(h, to=to)
    assert (x - h).abs().max() <= 0.1 * (1 + 1e-5)
    assert ((x - h).abs().sum(1) > 0).all()
    assert x.dtype == dtype
    before, after = (probe(y).softmax(1)[range(len(z)), to].mean() for y in (h, x))
    assert after > before


@pytest.mark.parametrize(
    "fit",
    [
        lambda h, z: INLP(max_rank=3).fit(h, z),
        lambda h, z: lambda x: AlterRep(max_rank=3).fit(h, z).at(alpha=2)(x, to=1 - z),
    ],
)
def test_linear_edits_commute_with_a_rotation_of_the_basis(fit):
    h, z = data()
    q = rotation()
    assert_close(fit(h, z)(h) @ q, fit(h @ q, z)(h @ q), atol=1e-6, rtol=0)


def test_edits_keep_dtype_and_leave_their_input_alone():
    h, z = data(dtype=torch.float32)
    copy = h.clone()
    probe = LinearProbe().fit(h, z)
    outs = [INLP(2).fit(h, z)(h), AlterRep(2).fit(h, z)(h, to=1 - z), FGSM(probe)(h, to=1 - z)]
    assert all(x.dtype == torch.float32 and not torch.equal(x, h) for x in outs)
    assert torch.equal(h, copy)


def test_fits_accept_numpy_and_do_not_depend_on_it():
    h, z = data()
    assert torch.equal(INLP(3).fit(h.numpy(), z.numpy())(h.numpy()), INLP(3).fit(h, z)(h))


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda h, z: INLP(max_rank=-1), "≥ 0"),
        (lambda h, z: INLP(4).fit(h, z).at(rank=5), "0 … 4"),
        (lambda h, z: INLP(4).fit(h, z)(h[:, :5]), "fitted on 16"),
        (lambda h, z: AlterRep(4).fit(h, z).at(alpha=-1), "≥ 0"),
        (lambda h, z: AlterRep(4).fit(h, z)(h, to=z + 1), "beyond the 2 classes"),
        (lambda h, z: FGSM(LinearProbe().fit(h, z)).at(eps=-0.1), "≥ 0"),
        (lambda h, z: FGSM(LinearProbe().fit(h, z))(h * torch.nan, to=z), "NaN"),
        (lambda h, z: INLP(4).fit(h, torch.zeros_like(z)), "class 1 has 0"),
    ],
)
def test_bad_input_gets_one_line(call, says):
    with pytest.raises(UserError, match=says) as error:
        call(*data())
    assert "\n" not in str(error.value)
