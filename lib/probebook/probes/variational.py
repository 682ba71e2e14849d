"""Minimum description length of labels given states, as a variational code.

The code sends the labels and a Bayesian probe (Voita & Titov 2020, § 2.1). The probe is that of
Louizos, Ullrich & Welling (2017), § 3: every input of a layer has a scale s with q(s) = N(m, αm²)
against the prior p(s) ∝ 1/abs(s); the weights have q = N(μ, σ²) against N(0, 1) times s."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log2

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import check_labels, check_states


@dataclass(frozen=True)
class VariationalCode:
    """The length of a variational code, in bits."""

    data: float  # the expected code of the labels under the probe
    model: float  # the divergence of the probe from its prior
    n: int  # labels
    k: int  # classes
    accuracy: float  # of the mean weights, on the coded labels
    active_inputs: tuple[int, ...]  # how many inputs of each layer have a scale with α < 1

    @property
    def bits(self) -> float:
        """Bits of the labels and the probe."""
        return self.data + self.model

    @property
    def uniform(self) -> float:
        """Bits of the uniform code, n · log₂ k."""
        return self.n * log2(self.k)

    @property
    def compression(self) -> float:
        """Bits of the uniform code divided by those of this one."""
        return self.uniform / self.bits


def variational_code(
    h: ArrayLike,
    z: ArrayLike,
    hidden: int = 0,
    steps: int = 1500,
    batch: int = 256,
    lr: float = 0.1,
    seed: int = 0,
    warm_up: float = 0.5,
    weight: float = 1.0,
    draws: int = 16,
) -> VariationalCode:
    """The length of labels z [n] given states h [n, d], with a linear probe or a perceptron.

    Minimises E_q[−log p(z | h)] + KL(q ‖ p) in float32. The states are standardised; the receiver
    has them too, so that costs nothing. UserError for fewer than 2 examples of a class and for
    impossible settings.

    - `hidden`: ReLU units (0: a linear probe).
    - `steps`, `batch`: of Adam.
    - `lr`: its rate, which falls to 0 along a half cosine.
    - `seed`: of all draws.
    - `warm_up`: share of the steps in which the KL's weight rises from 0 to 1. With the full weight
      from the start, a probe pays for its inputs before it can use them, and drops them all.
    - `weight`: of the KL in training; the bits are counted without it.
    - `draws`: of the weights, over which `data` is averaged."""
    h = check_states(h).detach().float()
    z = check_labels(z, len(h), device=h.device)
    if (
        hidden < 0
        or min(steps, batch, draws) < 1
        or not lr > 0
        or not 0 <= warm_up <= 1
        or not weight > 0
    ):
        raise UserError(
            f"hidden={hidden}, steps={steps}, batch={batch}, draws={draws}, lr={lr}, "
            f"warm_up={warm_up}, weight={weight}: hidden at least 0, a share for "
            "warm_up, the others positive"
        )
    x, k, n = (h - h.mean(0)) / h.std(0).clamp_min(1e-6), int(z.max()) + 1, len(h)
    g = torch.Generator().manual_seed(seed)
    sizes = [h.shape[1], *([hidden] if hidden else []), k]
    layers = [_start(a, b, g, h.device) for a, b in zip(sizes, sizes[1:])]
    optimizer = torch.optim.Adam([p for layer in layers for p in layer], fused=True)
    order = torch.randperm(n, generator=g)
    with torch.enable_grad():
        for step in range(steps):
            if (step + 1) * batch % n < batch:
                order = torch.randperm(n, generator=g)
            first = step * batch
            rows = order[torch.arange(first, first + min(batch, n)) % n]
            share = weight * min(1.0, (step + 1) / (warm_up * steps + 1))
            cosine = torch.cos(torch.tensor(torch.pi * step / steps)).item()
            optimizer.param_groups[0]["lr"] = lr * (1 + cosine) / 2
            loss = F.cross_entropy(_sampled_logits(x[rows], layers, g), z[rows])
            loss = loss + share * _kl(layers) / n
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        losses = (
            F.cross_entropy(_sampled_logits(x, layers, g), z, reduction="sum") for _ in range(draws)
        )
        data = sum(float(loss) for loss in losses) / draws
        accuracy = float((_mean_logits(x, layers).argmax(1) == z).float().mean())
        active_inputs = tuple(int((_log_alpha(layer) < 0).sum()) for layer in layers)
        model = float(_kl(layers))
    return VariationalCode(data / log(2), model / log(2), n, k, accuracy, active_inputs)


def kl_of_scales(log_alpha: Tensor) -> Tensor:
    """KL(N(m, αm²) ‖ p(s) ∝ 1/abs(s)) in nats, 0 for α → ∞ (Molchanov et al. 2017, eq. 14)."""
    smooth_step = torch.sigmoid(-1.87320 - 1.48695 * log_alpha)
    return 0.63576 * smooth_step + 0.5 * F.softplus(-log_alpha)


def kl_of_weights(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, 1)) in nats."""
    return (log_variance.exp() + mean.square() - 1 - log_variance) / 2


def _start(a: int, b: int, g: torch.Generator, device: torch.device) -> list[Tensor]:
    """A layer's means and log variances: of the scales [a], the weights [a, b], the biases [b]."""
    scales = torch.ones(a), torch.full((a,), -4.0)
    weights = a**-0.5 * torch.randn(a, b, generator=g), torch.full((a, b), -4.0)
    biases = torch.zeros(b), torch.full((b,), -4.0)
    return [part.to(device).requires_grad_() for part in (*scales, *weights, *biases)]


def _log_alpha(layer: list[Tensor]) -> Tensor:
    mean, log_variance = layer[:2]
    return log_variance - (mean.square() + 1e-8).log()


def _kl(layers: list[list[Tensor]]) -> Tensor:
    of_layers = (
        kl_of_scales(_log_alpha(layer)).sum()
        + kl_of_weights(*layer[2:4]).sum()
        + kl_of_weights(*layer[4:]).sum()
        for layer in layers
    )
    return sum(of_layers, layers[0][0].new_zeros(()))


def _sampled_logits(x: Tensor, layers: list[list[Tensor]], g: torch.Generator) -> Tensor:
    """Logits with fresh weights for each item; sums of weights are drawn instead of weights."""
    for i, (scale, scale_lv, mean, lv, bias, bias_lv) in enumerate(layers):
        noise = torch.randn(x.shape, generator=g).to(x)
        x = (x.relu() if i else x) * (scale + (scale_lv / 2).exp() * noise)
        out, variance = torch.addmm(bias, x, mean), torch.addmm(bias_lv.exp(), x.square(), lv.exp())
        x = out + variance.sqrt() * torch.randn(out.shape, generator=g).to(x)
    return x


def _mean_logits(x: Tensor, layers: list[list[Tensor]]) -> Tensor:
    for i, (scale, _, mean, _, bias, _) in enumerate(layers):
        x = (x.relu() if i else x) * scale @ mean + bias
    return x
