"""Online code lengths: by hand, of noise, of what is plain to see, and their invariances."""

from math import log2

import pytest
import torch

from probebook.base import UserError
from probebook.probes import LinearProbe, MLPProbe
from probebook.probes.description_length import SHARES, online_code, online_codes

pytestmark = pytest.mark.library


@pytest.fixture(scope="module")
def data():
    g = torch.Generator().manual_seed(0)
    z = torch.randint(3, (2000,), generator=g)
    return torch.randn(2000, 8, generator=g) + 3 * torch.eye(8)[z], z


def test_a_code_of_known_probabilities_has_the_length_that_these_give():
    z = torch.arange(40) % 4
    sure = lambda h, z: (
        lambda h: torch.log(torch.tensor([0.5, 0.25, 0.125, 0.125])).expand(len(h), 4)
    )
    code = online_code(torch.zeros(40, 2), z, sure, shares=[0.5, 1])
    assert code.ends == (20, 40)
    assert code.blocks[0] == 40
    assert code.uniform == 80
    z2 = z[torch.randperm(40, generator=torch.Generator().manual_seed(1))]
    whole = online_code(torch.zeros(40, 2), z2, sure, shares=[0.5, 0.75, 1])
    assert whole.bits - whole.blocks[0] == pytest.approx(sum(whole.blocks[1:]))
    assert len(whole.blocks) == 3
    least, most = 20 * 1, 20 * 3
    assert least <= code.blocks[1] <= most
    assert (code.blocks[1] % 1) == pytest.approx(0, abs=1e-6)


def test_noise_needs_about_the_uniform_code_and_signal_much_less(data):
    h, z = data
    noise = online_code(torch.randn(2000, 8, generator=torch.Generator().manual_seed(1)), z)
    plain = online_code(h, z)
    assert plain.ends == tuple(sorted({max(1, round(s * 2000)) for s in SHARES}))
    assert noise.uniform == pytest.approx(2000 * log2(3))
    assert 0.85 < noise.compression < 1.0 < 4 < plain.compression
    logits = LinearProbe(C=0.1).fit(h, z)(h)
    entropy = float(torch.nn.functional.cross_entropy(logits, z)) / torch.log(torch.tensor(2.0))
    assert plain.bits > 2000 * entropy  # learning on the way costs more than knowing at once


def test_the_code_does_not_hang_on_the_basis_and_comes_from_the_seed(data):
    h, z = data
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(2)))[0]
    assert online_code(h @ turn, z).bits == pytest.approx(online_code(h, z).bits, rel=1e-4)
    assert online_code(h, z, seed=3) == online_code(h, z, seed=3) != online_code(h, z, seed=4)


def test_any_probe_will_do(data):
    h, z = data[0][:600], data[1][:600]
    code = online_code(h, z, MLPProbe(width=20, epochs=20, lr=1e-2).fit, shares=[0.25, 0.5, 1])
    assert code.compression > 2


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda h, z: online_code(h, z, shares=[0.5]), "rising from above 0 to 1"),
        (lambda h, z: online_code(h, z, shares=[0.5, 0.2, 1]), "rising"),
        (lambda h, z: online_code(h, 0 * z), "class 1 has 0 examples"),
    ],
)
def test_bad_input_gets_one_clear_line(data, call, says):
    with pytest.raises(UserError, match=says):
        call(*data)


def test_codes_of_several_data_sets_are_those_of_each_of_them():
    g = torch.Generator().manual_seed(3)
    zs = [torch.randint(2, (90,), generator=g) for _ in range(3)]
    hs = [torch.randn(90, 70, generator=g) + z[:, None] for z in zs]
    probe = LinearProbe(C=0.1, tol=1e-6)
    together = online_codes(hs, zs, probe.fit_all, seeds=[4, 5, 6])
    for code, h, z, seed in zip(together, hs, zs, [4, 5, 6]):
        alone = online_code(h, z, lambda h, z: LinearProbe(C=0.1, tol=1e-6).fit(h, z), seed=seed)
        assert code.ends == alone.ends
        assert code.blocks == pytest.approx(alone.blocks, abs=1e-3)
    with pytest.raises(UserError, match="differ in size"):
        online_codes([hs[0][:80], hs[1]], [zs[0][:80], zs[1]])
