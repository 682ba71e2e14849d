"""Variational code lengths: the KL divergences, noise, plain signals, and one-line errors."""

from math import log, log2

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torch.distributions import Normal, kl_divergence
from torch.testing import assert_close

from probebook.base import UserError
from probebook.probes.description_length import online_code
from probebook.probes.variational import kl_of_scales, kl_of_weights, variational_code

pytestmark = pytest.mark.library


def world(noise, n=1000, d=8, seed=0):
    """Two classes of n/2 items; one of d coordinates tells them apart, up to Gaussian noise."""
    g = torch.Generator().manual_seed(seed)
    z = torch.arange(n) % 2
    h = torch.randn(n, d, generator=g)
    h[:, 0] = 2 * z - 1 + noise * h[:, 0]
    return h, z


@pytest.mark.parametrize("alpha", [0.01, 0.2, 1, 5, 50])
def test_the_cost_of_a_scale_is_its_divergence_from_the_prior(alpha):
    """KL = E ln|x| − ½ ln α + const for x ~ N(1, α); the constant makes it 0 for α → ∞."""

    def density(x):
        return norm.pdf(x, 1, alpha**0.5) * log(abs(x)) if x else 0.0

    reach = 12 * alpha**0.5
    sides = (
        quad(density, 1 - reach, 0, limit=400, points=[-1e-3])[0]
        + quad(density, 0, 1 + reach, limit=400, points=[1e-3, 1])[0]
    )
    wanted = sides - 0.5 * log(alpha) + (np.euler_gamma + log(2)) / 2
    assert float(kl_of_scales(torch.tensor(log(alpha)))) == pytest.approx(wanted, abs=0.01)


def test_a_shut_input_costs_nothing_and_an_exact_one_half_a_nat_for_each_of_alpha():
    assert float(kl_of_scales(torch.tensor(40.0))) == pytest.approx(0, abs=1e-6)
    far = kl_of_scales(torch.tensor([-40.0, -42.0], dtype=torch.float64))
    assert float(far[1] - far[0]) == pytest.approx(1, abs=1e-6)


def test_the_cost_of_weights_is_the_divergence_of_two_gaussians():
    mean, log_variance = torch.tensor([0.0, 1.5, -2.0]), torch.tensor([0.0, -3.0, 1.0])
    wanted = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0))
    assert_close(kl_of_weights(mean, log_variance), wanted, atol=1e-6, rtol=0)
    assert float(wanted[0]) == 0


@pytest.mark.parametrize("hidden", [0, 20])
def test_random_labels_cost_their_entropy_and_a_cheap_model(hidden):
    """No code is shorter than n·H on average; 1,000 labels, shares .8 and .2, ± 4 deviations."""
    g = torch.Generator().manual_seed(1)
    h, z = torch.randn(1000, 8, generator=g), (torch.rand(1000, generator=g) < 0.2).long()
    code, entropy = variational_code(h, z, hidden, steps=800), -(0.2 * log2(0.2) + 0.8 * log2(0.8))
    deviation = (1000 * 0.16) ** 0.5 * log2(0.8 / 0.2)
    assert 1000 * entropy - 4 * deviation < code.bits < 1000 * entropy + 4 * deviation + 30
    assert code.bits < code.uniform == 1000
    assert code.model < 30
    assert sum(code.active_inputs) <= 4
    share = float(z.float().mean())
    own_entropy = -(share * log2(share) + (1 - share) * log2(1 - share))  # of these labels
    assert code.bits > 1000 * own_entropy


@pytest.mark.parametrize("hidden", [0, 20])
def test_what_is_plain_to_see_is_cheap_and_noise_makes_it_dear(hidden):
    codes = [variational_code(*world(noise), hidden, steps=800) for noise in (0.2, 0.8, 2.0)]
    assert codes[0].compression > 8
    assert codes[0].bits < codes[1].bits < codes[2].bits < 1010
    assert codes[0].active_inputs[0] == 1
    assert codes[0].accuracy == 1
    for code in codes:
        assert code.bits == code.data + code.model
        assert code.uniform == 1000


def test_the_online_code_is_of_the_same_order():
    h, z = world(0.8)
    assert 0.6 < variational_code(h, z, steps=800).bits / online_code(h, z).bits < 1.5


def test_it_comes_from_the_seed_and_not_from_the_units_of_the_states():
    h, z = world(0.8, 300)
    code = variational_code(h, z, steps=100, seed=3)
    assert code == variational_code(h, z, steps=100, seed=3)
    assert code != variational_code(h, z, steps=100, seed=4)
    scaled = variational_code(1024 * h, z, steps=100, seed=3)
    assert scaled.bits == pytest.approx(code.bits, rel=1e-3)
    state = torch.random.get_rng_state()
    variational_code(h, z, steps=2)
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_model_that_is_paid_for_too_often_says_one_thing_to_all():
    h, z = world(0.8, 300)
    z[:20] = 1
    over = variational_code(h, z, steps=800, weight=300)
    assert over.accuracy == pytest.approx(float(z.float().mean()))
    assert over.active_inputs == (0,)
    assert variational_code(h, z, steps=800).accuracy > 0.8


def test_more_classes():
    g = torch.Generator().manual_seed(0)
    z = torch.randint(6, (600,), generator=g)
    h = torch.randn(600, 8, generator=g) + 6 * torch.eye(8)[z]
    code = variational_code(h, z, 20, steps=800)
    assert code.uniform == pytest.approx(600 * log2(6))
    assert code.compression > 2
    assert len(code.active_inputs) == 2


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda h, z: variational_code(h, 0 * z), "class 1 has 0 examples"),
        (lambda h, z: variational_code(h, z[:5]), "one label per row"),
        (lambda h, z: variational_code(h * torch.nan, z), "NaN or infinite"),
        (lambda h, z: variational_code(h, z, hidden=-1), "hidden at least 0"),
        (lambda h, z: variational_code(h, z, steps=0), "the others positive"),
        (lambda h, z: variational_code(h, z, warm_up=2), "a share for warm_up"),
    ],
)
def test_errors_are_one_line_that_says_what_would_be_right(call, says):
    with pytest.raises(UserError, match=says) as error:
        call(*world(0.5, 20))
    assert "\n" not in str(error.value)
