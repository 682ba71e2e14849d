"""Probes against scikit-learn's optimum, a loop, and bad input."""

import numpy as np
import pytest
import torch
from references import network
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F
from torch.testing import assert_close

from probebook.base import UserError
from probebook.interventions import INLP, AlterRep
from probebook.probes import LinearProbe, MLPProbe
from probebook.probes.logistic_regression import Regression, gram
from probebook.probes.training import generator

pytestmark = pytest.mark.library


def blobs(n=600, d=12, k=2, seed=0, spread=1.0):
    g = torch.Generator().manual_seed(seed)
    z = torch.randint(k, (n,), generator=g)
    centres = torch.randn(k, d, generator=g, dtype=torch.float64) * spread
    return centres[z] + torch.randn(n, d, generator=g, dtype=torch.float64), z


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_binary_probe_is_the_optimum_of_newton_cholesky(C):
    h, z = blobs()
    probe = LinearProbe(C, tol=1e-12).fit(h, z)
    peer = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(h, z)
    assert np.abs((probe.weight[1] - probe.weight[0]).numpy() - peer.coef_[0]).max() < 1e-6
    assert abs(float(probe.bias[1] - probe.bias[0]) - peer.intercept_[0]) < 1e-6


@pytest.mark.parametrize("k", [3, 5])
def test_softmax_probe_is_the_optimum_of_newton_cholesky(k):
    h, z = blobs(k=k)
    h[:, 0] *= 300  # one rogue dimension
    probe = LinearProbe().fit(h, z)
    peer = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(h, z)
    ours = probe.weight - probe.weight.mean(0)
    assert np.abs(ours.numpy() - (peer.coef_ - peer.coef_.mean(0))).max() < 1e-6


def test_probe_is_equivariant_under_rotation():
    h, z = blobs()
    g = torch.Generator().manual_seed(1)
    q, _ = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64, generator=g))
    a, b = LinearProbe().fit(h, z), LinearProbe().fit(h @ q, z)
    assert_close(a(h), b(h @ q), atol=1e-6, rtol=0)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("spread", [0.3, 5.0])
def test_left_out_directions_are_as_if_projected_out(k, spread):
    h, z = blobs(k=k, spread=spread)
    g = torch.Generator().manual_seed(2)
    basis = torch.linalg.qr(torch.randn(12, 3, dtype=torch.float64, generator=g))[0]
    regression = Regression(h, z, 1.0)
    first = LinearProbe().fit_regression(regression)
    assert torch.equal(first.weight, LinearProbe().fit(h, z).weight)
    for r in (1, 3):
        regression.project_out(basis[:, :r])
        found = LinearProbe(tol=1e-10).fit_regression(regression)
        apart = LinearProbe(tol=1e-10).fit(h - h @ basis[:, :r] @ basis[:, :r].T, z)
        assert (found.weight - apart.weight).abs().max() < 1e-6
        assert (found.weight @ basis[:, :r]).abs().max() < 1e-12
        wanted = apart(h - h @ basis[:, :r] @ basis[:, :r].T).softmax(1)
        assert_close(regression.logits.T.softmax(1), wanted, atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("rows", [3, 50, 1024])
def test_the_gram_matrix_of_parts_is_that_of_the_whole(rows):
    x = torch.randn(130, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert_close(gram(x.split(rows)), x.T @ x, atol=1e-13, rtol=1e-13)
    assert torch.equal(gram(x.split(rows)), gram(x.split(rows)).T)


def test_separable_data_do_not_diverge():
    h, z = blobs(spread=20.0)
    probe = LinearProbe(C=1e6).fit(h, z)
    assert torch.isfinite(probe.weight).all()
    assert (probe(h).argmax(1) == z).all()


@pytest.mark.parametrize("n", [6, 40, 90])  # the last has more rows than dimensions
@pytest.mark.parametrize("C", [0.03, 1e4])
def test_probes_fitted_together_are_those_fitted_one_by_one(n, C):
    g = torch.Generator().manual_seed(0)
    hs = [5 + torch.randn(n, 64, generator=g) for _ in range(4)]
    zs = [torch.randperm(n, generator=g) % 2 for _ in hs]
    zs[1] = (torch.arange(n) < 2).long()  # few of a class
    together = LinearProbe(C, tol=1e-9).fit_all(hs, zs)
    for probe, h, z in zip(together, hs, zs):
        alone = LinearProbe(C, tol=1e-9).fit(h, z)
        assert_close(probe.weight, alone.weight, rtol=1e-4, atol=1e-6)
        assert_close(probe.bias, alone.bias, rtol=1e-4, atol=1e-5)


def test_data_sets_that_differ_in_shape_or_have_three_classes_are_fitted_all_the_same():
    g = torch.Generator().manual_seed(1)
    hs = [torch.randn(n, 20, generator=g) for n in (8, 12)]
    zs = [torch.arange(8) % 2, torch.arange(12) % 3]
    together = LinearProbe().fit_all(hs, zs)
    for probe, h, z in zip(together, hs, zs):
        assert_close(probe.weight, LinearProbe().fit(h, z).weight)


def test_grid_equals_a_loop_over_its_cells():
    h, z = blobs(400, 8, 3)
    h, valid, zt, zv = h[:300], h[300:], z[:300], z[300:]
    grid = MLPProbe.grid(
        layers=[1, 2], widths=[16, 32], lrs=[1e-3, 1e-2], seeds=[0, 1], epochs=3, batch=64
    )
    fitted = grid.fit(h, zt, valid, zv)
    loop = {c: c.fit(h, zt, valid, zv) for c in grid.cells}
    assert len(fitted.scores) == 16
    assert all(abs(a - loop[c].accuracy) < 1e-6 for c, a in fitted.scores)
    assert fitted.accuracy == max(a for _, a in fitted.scores)
    assert_close(fitted(valid), loop[fitted.cell](valid), atol=1e-4, rtol=0)


def plain(cell, h, z, h_valid, z_valid):
    """Validation losses, accuracies and logits, epoch by epoch, with torch's Adam and autograd."""
    x, x_valid = (h - h.mean(0)) / h.std(0), (h_valid - h.mean(0)) / h.std(0)
    net = network(cell, [h.shape[1]] + [cell.width] * cell.layers + [int(z.max()) + 1])
    optimizer, history = torch.optim.Adam(net.parameters(), lr=cell.lr), []
    for epoch in range(cell.epochs):
        order = torch.randperm(len(x), generator=generator(cell.seed, epoch, len(x)))
        for rows in order.split(cell.batch):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), z[rows]).backward()
            optimizer.step()
        logits = net(x_valid).detach()
        hit = (logits.argmax(1) == z_valid).float().mean()
        history.append((float(F.cross_entropy(logits, z_valid)), float(hit), logits))
    return zip(*history)


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_cells_take_the_steps_of_adam_and_stop_where_a_loop_stops(layers):
    h, z = blobs(260, 8, 3, spread=0.3)
    data = h[:150].float(), z[:150], h[150:].float(), z[150:]
    common = {
        "layers": [layers],
        "widths": [12],
        "lrs": [1e-3, 1e-2, 0.1],
        "seeds": [0, 1],
        "batches": [16, 64],
    }
    at_end = MLPProbe.grid(**common, epochs=12).fit_all(*data)
    stopped = MLPProbe.grid(**common, epochs=12, patience=2).fit_all(*data)
    assert [f.cell.lr for f in at_end[::4]] == [1e-3, 1e-2, 0.1]
    assert len(at_end) == 12
    ends = set()
    for last, best in zip(at_end, stopped):
        losses, accuracies, logits = plain(last.cell, *data)
        assert_close(last(data[2]), logits[-1], atol=2e-3, rtol=1e-3)
        since = [t - int(np.argmin(losses[: t + 1])) for t in range(12)]
        end = next((t for t in range(12) if since[t] == 2), 11)
        chosen = int(np.argmax(accuracies[: end + 1]))
        assert best.accuracy == pytest.approx(accuracies[chosen], abs=1e-6)
        assert_close(best(data[2]), logits[chosen], atol=2e-3, rtol=1e-3)
        ends.add(end)
    assert len(ends) > 2  # cells left the batch at different epochs
    assert min(ends) < 11


def test_no_layers_are_softmax_regression():
    h, z = blobs(600, 5, 3, spread=0.3)
    few = MLPProbe.grid([0], [7, 9], [0.1], epochs=200, batch=600)
    x = (h - h.mean(0)) / h.float().std(0)
    fitted = few.fit(h, z, h, z)
    assert len(few.cells) == 1
    assert [w.shape for w in fitted.weights] == [(5, 3)]
    peer = LogisticRegression(C=1e6).fit(x.numpy(), z)
    wanted = torch.from_numpy(peer.predict_proba(x.numpy()))
    assert float((fitted(h).softmax(1) - wanted).abs().max()) < 1e-3


def test_the_best_of_each_seed_and_rows_of_its_own():
    h, z = blobs(400, 6, spread=4.0)
    half, valid = torch.arange(400) < 200, (h[:100], z[:100])
    grid = MLPProbe.grid([0], [0], [1e-4, 1e-2], [3, 5], epochs=5)
    best, cells = grid.fit_seeds(h, z, *valid), grid.fit_all(h, z, *valid)
    assert {seed: f.accuracy for seed, f in best.items()} == {
        seed: max(f.accuracy for f in cells if f.cell.seed == seed) for seed in (3, 5)
    }
    turned = torch.where(half, z, 1 - z)  # the second half says the opposite
    rows = {3: torch.arange(200), 5: torch.arange(200, 400)}
    one, other = grid.fit_seeds(h, turned, *valid, rows).values()
    assert one.cell.lr == 1e-2
    assert one.accuracy > 0.95
    cells = {f.cell: f for f in grid.fit_all(h, turned, *valid, rows)}
    assert cells[MLPProbe(0, 0, 1e-2, 5, 5)].accuracy < 0.05
    single = MLPProbe.grid([0], [0], [1e-2], [3], epochs=5)
    (alone,) = single.fit_all(h, turned, *valid, {3: rows[3]})
    assert_close(alone(h), one(h), atol=1e-5, rtol=0)
    with pytest.raises(UserError, match="equally many"):
        grid.fit_all(h, z, *valid, {3: [0, 1], 5: [0]})
    with pytest.raises(UserError, match="validation rows too"):
        grid.fit_all(h, z, rows=rows)


def test_mlp_learns_what_no_linear_probe_can():
    g = torch.Generator().manual_seed(0)
    h = torch.randn(3000, 6, generator=g)
    z = ((h[:, 0] > 0) ^ (h[:, 1] > 0)).long()
    assert MLPProbe.grid(layers=[2], widths=[64], lrs=[1e-2]).fit(h, z).accuracy > 0.95
    assert (LinearProbe().fit(h, z)(h).argmax(1) == z).double().mean() < 0.6


def test_same_seed_same_probe_other_seed_another():
    h, z = blobs(200)
    a, b, c = (MLPProbe(seed=s, epochs=1).fit(h, z) for s in (0, 0, 1))
    assert torch.equal(a(h), b(h))
    assert not torch.equal(a(h), c(h))


@pytest.mark.parametrize(
    "probe", [LinearProbe(), MLPProbe(), MLPProbe.grid(layers=[1], widths=[8])]
)
@pytest.mark.parametrize(
    "spoil, says",
    [
        (lambda h, z: (h.index_fill(0, torch.tensor([3]), torch.nan), z), "NaN .*row 3"),
        (
            lambda h, z: (h, torch.zeros_like(z).index_fill(0, torch.tensor([0]), 1)),
            "class 1 has 1 examples",
        ),
        (lambda h, z: (h, torch.zeros_like(z)), "class 1 has 0 examples"),
        (lambda h, z: (h, z[:-1]), "one label per row"),
        (lambda h, z: (h, z - 1), "absent"),
        (lambda h, z: (h[0], z), r"\[n, d\]"),
    ],
)
def test_bad_input_gets_one_line(probe, spoil, says):
    with pytest.raises(UserError, match=says) as error:
        probe.fit(*spoil(*blobs(50)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "fit", [MLPProbe.grid([1], [4], [1e-2], [0]).fit, INLP().fit, AlterRep().fit]
)
def test_states_that_are_all_the_same_are_refused(fit):
    """As those of [MASK] at layer 0: nothing can be read from them."""
    h, z = torch.full((40, 6), 0.3), torch.arange(40) % 2
    message = "^all 40 hidden states are the same.*take layer 1 or above$"
    with pytest.raises(UserError, match=message):
        fit(h, z)
    h[7, 2] += 1  # one that differs is enough to go on
    fit(h, z)
