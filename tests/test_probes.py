"""Probes against scikit-learn's optimum, a loop, and bad input."""
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from probebook.base import UserError
from probebook.probes import LinearProbe, MLPProbe


def blobs(n=600, d=12, k=2, seed=0, spread=1.0):
    g = torch.Generator().manual_seed(seed)
    z = torch.randint(k, (n,), generator=g)
    centres = torch.randn(k, d, generator=g, dtype=torch.float64) * spread
    return centres[z] + torch.randn(n, d, generator=g, dtype=torch.float64), z


@pytest.mark.parametrize("C", [.01, 1.0, 100.0])
def test_binary_probe_is_the_optimum_of_newton_cholesky(C):
    h, z = blobs()
    probe = LinearProbe(C, tol=1e-12).fit(h, z)
    peer = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(h, z)
    assert np.abs((probe.weight[1] - probe.weight[0]).numpy() - peer.coef_[0]).max() < 1e-6
    assert abs(float(probe.bias[1] - probe.bias[0]) - peer.intercept_[0]) < 1e-6


@pytest.mark.parametrize("k", [3, 5])
def test_softmax_probe_is_the_optimum_of_newton_cholesky(k):
    h, z = blobs(k=k)
    h[:, 0] *= 300                                              # one rogue dimension
    probe = LinearProbe().fit(h, z)
    peer = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(h, z)
    ours = probe.weight - probe.weight.mean(0)
    assert np.abs(ours.numpy() - (peer.coef_ - peer.coef_.mean(0))).max() < 1e-6


def test_probe_is_equivariant_under_rotation():
    h, z = blobs()
    q, _ = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    a, b = LinearProbe().fit(h, z), LinearProbe().fit(h @ q, z)
    assert torch.allclose(a(h), b(h @ q), atol=1e-6)


def test_warm_start_reaches_the_same_optimum():
    h, z = blobs()
    first = LinearProbe(C=.1).fit(h, z)
    assert torch.allclose(LinearProbe().fit(h, z, start=first).weight, LinearProbe().fit(h, z).weight, atol=1e-6)


def test_separable_data_do_not_diverge():
    h, z = blobs(spread=20.0)
    probe = LinearProbe(C=1e6).fit(h, z)
    assert torch.isfinite(probe.weight).all() and (probe(h).argmax(1) == z).all()


def test_grid_equals_a_loop_over_its_cells():
    h, z = blobs(400, 8, 3)
    h, valid, zt, zv = h[:300], h[300:], z[:300], z[300:]
    grid = MLPProbe.grid(layers=[1, 2], widths=[16, 32], lrs=[1e-3, 1e-2], seeds=[0, 1], epochs=3, batch=64)
    fitted = grid.fit(h, zt, valid, zv)
    loop = {c: c.fit(h, zt, valid, zv) for c in grid.cells}
    assert len(fitted.scores) == 16
    assert all(abs(a - loop[c].accuracy) < 1e-6 for c, a in fitted.scores)
    assert fitted.accuracy == max(a for _, a in fitted.scores)
    assert torch.allclose(fitted(valid), loop[fitted.cell](valid), atol=1e-4)


def test_mlp_learns_what_no_linear_probe_can():
    g = torch.Generator().manual_seed(0)
    h = torch.randn(3000, 6, generator=g)
    z = ((h[:, 0] > 0) ^ (h[:, 1] > 0)).long()
    assert MLPProbe.grid(layers=[2], widths=[64], lrs=[1e-2]).fit(h, z).accuracy > .95
    assert (LinearProbe().fit(h, z)(h).argmax(1) == z).double().mean() < .6


def test_same_seed_same_probe_other_seed_another():
    h, z = blobs(200)
    a, b, c = (MLPProbe(seed=s, epochs=1).fit(h, z) for s in (0, 0, 1))
    assert torch.equal(a(h), b(h)) and not torch.equal(a(h), c(h))


@pytest.mark.parametrize("probe", [LinearProbe(), MLPProbe(), MLPProbe.grid(layers=[1], widths=[8])])
@pytest.mark.parametrize("spoil, says", [
    (lambda h, z: (h.index_fill(0, torch.tensor([3]), torch.nan), z), "NaN .*row 3"),
    (lambda h, z: (h, torch.zeros_like(z).index_fill(0, torch.tensor([0]), 1)), "class 1 has 1 examples"),
    (lambda h, z: (h, torch.zeros_like(z)), "class 1 has 0 examples"),
    (lambda h, z: (h, z[:-1]), "one label a row"),
    (lambda h, z: (h, z - 1), "absent"),
    (lambda h, z: (h[0], z), r"\[n, d\]"),
])
def test_bad_input_gets_one_line(probe, spoil, says):
    with pytest.raises(UserError, match=says) as error:
        probe.fit(*spoil(*blobs(50)))
    assert "\n" not in str(error.value)
