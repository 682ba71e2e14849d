"""Minimum description length of labels given states, as a variational code: labels and a Bayesian probe, in bits.

Voita & Titov (2020), § 2.1. The probe is that of Louizos, Ullrich & Welling (2017), § 3: every input of a layer has a
scale s, with q(s) = N(m, αm²) against the prior p(s) ∝ 1/abs(s), and weights with q = N(μ, σ²) against N(0, 1)
times s."""
from __future__ import annotations

from dataclasses import dataclass
from math import log, log2

import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import labels, states


@dataclass(frozen=True)
class VariationalCode:
    """Bits of the labels: `data`, their expected code under the probe, and `model`, its distance from the prior.

    `bits` their sum; `uniform` n · log₂ k; `compression` uniform / bits; `accuracy` of the mean weights on the labels
    that were coded; `kept`: of each layer, how many inputs have a scale with α < 1."""

    data: float
    model: float
    n: int
    k: int
    accuracy: float
    kept: tuple[int, ...]

    @property
    def bits(self) -> float:
        return self.data + self.model

    @property
    def uniform(self) -> float:
        return self.n * log2(self.k)

    @property
    def compression(self) -> float:
        return self.uniform / self.bits


def variational_code(h, z, hidden: int = 0, steps: int = 1500, batch: int = 256, lr: float = .1, seed: int = 0,
                     warm_up: float = .5, weight: float = 1.0, draws: int = 16) -> VariationalCode:
    """Length of labels z [n] given states h [n, d], with a linear probe or one of `hidden` ReLU units (§ 2.1).

    Minimises E_q[−log p(z | h)] + KL(q ‖ p) by Adam, its rate falling to 0 along a half cosine; float32. The KL's
    weight rises from 0 to 1 in the first `warm_up` of the steps: with all of it from the start, what a probe costs is
    felt before what it is good for, all inputs are shut, and every item gets the same label. `weight` multiplies the
    KL in training, not in the bits. States are standardised; they are the receiver's too, so that this costs nothing.
    Raises UserError for fewer than 2 examples of a class, or numbers that make no training."""
    h, z = states(h).detach().float(), labels(z, len(h))
    if hidden < 0 or min(steps, batch, draws) < 1 or not lr > 0 or not 0 <= warm_up <= 1 or not weight > 0:
        raise UserError(f"hidden={hidden}, steps={steps}, batch={batch}, draws={draws}, lr={lr}, warm_up={warm_up}, "
                        f"weight={weight}: hidden at least 0, a share for warm_up, the others positive")
    x, k, n = (h - h.mean(0)) / h.std(0).clamp_min(1e-6), int(z.max()) + 1, len(h)
    g = torch.Generator().manual_seed(seed)
    sizes = [h.shape[1], *([hidden] if hidden else []), k]
    layers = [_start(a, b, g) for a, b in zip(sizes, sizes[1:])]
    optimizer = torch.optim.Adam([p for layer in layers for p in layer], fused=True)
    order = torch.randperm(n, generator=g)
    with torch.enable_grad():
        for step in range(steps):
            if (step + 1) * batch % n < batch:
                order = torch.randperm(n, generator=g)
            rows = order[torch.arange(step * batch, step * batch + min(batch, n)) % n]
            share = weight * min(1.0, (step + 1) / (warm_up * steps + 1))
            optimizer.param_groups[0]["lr"] = lr * (1 + torch.cos(torch.tensor(torch.pi * step / steps)).item()) / 2
            loss = F.cross_entropy(_sampled(x[rows], layers, g), z[rows]) + share * _kl(layers) / n
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        data = sum(float(F.cross_entropy(_sampled(x, layers, g), z, reduction="sum")) for _ in range(draws)) / draws
        means = x
        for i, (scale, _, mean, _, bias, _) in enumerate(layers):
            means = (means.relu() if i else means) * scale @ mean + bias
        kept = tuple(int((_log_alpha(layer) < 0).sum()) for layer in layers)
        accuracy = float((means.argmax(1) == z).float().mean())
        return VariationalCode(data / log(2), float(_kl(layers)) / log(2), n, k, accuracy, kept)


def kl_of_scales(log_alpha: torch.Tensor) -> torch.Tensor:
    """KL of N(m, αm²) from p(s) ∝ 1/abs(s), in nats, 0 for α → ∞: Molchanov, Ashukha & Vetrov (2017), eq. 14."""
    return .63576 * torch.sigmoid(-1.87320 - 1.48695 * log_alpha) + .5 * F.softplus(-log_alpha)


def kl_of_weights(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """KL of N(μ, σ²) from N(0, 1), in nats."""
    return (log_variance.exp() + mean.square() - 1 - log_variance) / 2


def _start(a, b, g):
    """Scales' means and log variances [a], weights' [a, b], biases' [b]."""
    mean = a ** -.5 * torch.randn(a, b, generator=g)
    parts = torch.ones(a), torch.full((a,), -4.), mean, torch.full((a, b), -4.), torch.zeros(b), torch.full((b,), -4.)
    return [part.requires_grad_() for part in parts]


def _log_alpha(layer):
    return layer[1] - (layer[0].square() + 1e-8).log()


def _kl(layers):
    return sum(kl_of_scales(_log_alpha(layer)).sum() + kl_of_weights(*layer[2:4]).sum()
               + kl_of_weights(*layer[4:]).sum() for layer in layers)


def _sampled(x, layers, g):
    """Logits, for each item with weights of its own: scales are drawn, of the weights only what comes out."""
    for i, (scale, scale_lv, mean, lv, bias, bias_lv) in enumerate(layers):
        x = (x.relu() if i else x) * (scale + (scale_lv / 2).exp() * torch.randn(x.shape, generator=g))
        out, variance = torch.addmm(bias, x, mean), torch.addmm(bias_lv.exp(), x.square(), lv.exp())
        x = out + variance.sqrt() * torch.randn(out.shape, generator=g)
    return x
