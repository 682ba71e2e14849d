"""What closed forms need to know of states that do not fit in memory: sums, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from probebook.probes.logistic_regression import gram


@dataclass(frozen=True)
class Moments:
    """Sums over n states around a fixed `origin` [d], all float64.

    `counts` [k]: states of each class; `sums` [k, d]: their sums; `products` [d, d]: Σ x xᵀ over
    all states. Moments around the same origin can be added."""

    counts: Tensor
    sums: Tensor
    products: Tensor
    origin: Tensor

    def __add__(self, other: Moments) -> Moments:
        assert torch.equal(self.origin, other.origin)
        return Moments(
            self.counts + other.counts,
            self.sums + other.sums,
            self.products + other.products,
            self.origin,
        )

    @property
    def means(self) -> Tensor:
        """The classes' means [k, d]."""
        return self.sums / self.counts[:, None] + self.origin

    @property
    def mean(self) -> Tensor:
        """The mean [d] of all states."""
        return self.sums.sum(0) / self.counts.sum() + self.origin

    def covariances(self) -> tuple[Tensor, Tensor]:
        """Σ_hh [d, d] of the states, and Σ_hz [d, k] with the one-hot labels, both divided by n."""
        n, away = self.counts.sum(), self.sums.sum(0) / self.counts.sum()
        cross = (self.sums - self.counts[:, None] * away).T / n
        return self.products / n - away[:, None] * away, cross


def scales(covariance: Tensor, mean: Tensor) -> Tensor:
    """Standard deviations [d] to divide by; infinite for a constant dimension, which becomes 0."""
    spread = covariance.diagonal().sqrt()
    return torch.where(spread > 1e-12 * mean.abs(), spread, torch.inf)


def moments(blocks: Iterable[tuple[Tensor, Tensor]], k: int, origin: Tensor) -> list[Moments]:
    """Moments under each of m labellings, from blocks of states [b, d] and labels [b, m] in
    0 … k−1; only one block is in memory, on the device of `origin`. The labellings share one
    `products`."""
    origin = origin.double()
    counts, sums = origin.new_zeros(1, k), origin.new_zeros(1)

    def centred() -> Iterator[Tensor]:
        nonlocal counts, sums
        for h, z in blocks:
            x = h.to(origin) - origin
            onehot = F.one_hot(z.T, k).to(origin)  # [m, b, k]
            counts, sums = counts + onehot.sum(1), sums + onehot.transpose(1, 2) @ x
            yield x

    products = gram(centred())
    return [Moments(*one, products, origin) for one in zip(counts, sums)]
