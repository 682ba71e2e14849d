"""Two Gaussian encoders, for which accuracies of linear probes and their differences are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import norm

from probebook.base import UserError, to_numpy

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)
_MOST = 0.99  # of a correlation; beyond it, `both` loses digits


class LinearRule(Protocol):
    """A linear probe of two classes: `weight` [2, d], `bias` [2]."""

    weight: torch.Tensor
    bias: torch.Tensor


def both(x: ArrayLike, y: ArrayLike, correlation: ArrayLike) -> np.ndarray:
    """P(X < x, Y < y) of two standard normals whose correlation is at most .99 in size (Plackett
    1954).

    Φ(x) Φ(y) + ∫ exp(−(x² + y² − 2xy sin t) / (2 cos² t)) dt / 2π, t from 0 to arcsin of the
    correlation. Arrays must have the same shape.
    """
    x, y, end = (np.asarray(v, float)[..., None] for v in (x, y, np.arcsin(correlation)))
    t = end * (_NODES + 1) / 2
    inner = np.exp(-(x**2 + y**2 - 2 * x * y * np.sin(t)) / (2 * np.cos(t) ** 2))
    integral = (inner @ _WEIGHTS) * end[..., 0] / (4 * np.pi)
    return norm.cdf(x)[..., 0] * norm.cdf(y)[..., 0] + integral


@dataclass(frozen=True)
class World:
    """Labels z = ±1, equally often, and the states of two encoders A and B.

    An encoder's states are (margin · z, 0, 0, …) plus a standard normal in each coordinate. The
    noise of a coordinate of A and of the same one of B has the correlation `shared`. The best probe
    is the sign of the first coordinate; it is right with probability Φ(margin).
    """

    margin_a: float
    margin_b: float
    shared: float

    @classmethod
    def of(cls, acc_a: float, acc_b: float, differ: float) -> World:
        """The world in which the best probes have these accuracies, and just one of the two is
        right on a share `differ` of the items.

        UserError if there is none: accuracies must lie between .5 and 1, and `differ` in a range
        that the message names.
        """
        if not (0.5 <= min(acc_a, acc_b) and max(acc_a, acc_b) < 1):
            raise UserError(f"accuracies {acc_a} and {acc_b}: at least .5 and below 1")
        x, y = norm.ppf([acc_a, acc_b])

        def differing(shared: float) -> float:
            return acc_a + acc_b - 2 * float(both(x, y, shared))

        least, most = differing(_MOST), differing(-_MOST)
        if not least <= differ <= most:
            raise UserError(
                f"differ={differ}: probes of accuracies {acc_a} and {acc_b} differ on "
                f"{least:.3f} to {most:.3f} of the items"
            )
        shared = brentq(lambda shared: differing(shared) - differ, -_MOST, _MOST, xtol=1e-13)
        return cls(float(x), float(y), float(shared))

    def best(self) -> tuple[float, float]:
        """Share of items that only the best probe of A gets right, and that only B's does."""
        agreed = both(self.margin_a, self.margin_b, self.shared)
        return float(norm.cdf(self.margin_a) - agreed), float(norm.cdf(self.margin_b) - agreed)

    def rates(self, probe_a: LinearRule, probe_b: LinearRule) -> tuple[float, float]:
        """The shares of `best` for any two linear probes, exactly: no test items are needed."""
        (w, b), (v, c) = (  # differences of the two classes' weights and biases
            (np.diff(to_numpy(probe.weight), axis=0)[0], float(probe.bias.diff()))
            for probe in (probe_a, probe_b)
        )
        size_w, size_v, z = np.linalg.norm(w), np.linalg.norm(v), np.array([-1, 1])
        x, y = (w[0] * self.margin_a + z * b) / size_w, (v[0] * self.margin_b + z * c) / size_v
        common = min(len(w), len(v))
        correlation = self.shared * float(w[:common] @ v[:common]) / (size_w * size_v)
        agreed = both(x, y, np.full(2, correlation))
        return float((norm.cdf(x) - agreed).mean()), float((norm.cdf(y) - agreed).mean())

    def draw(
        self, n: int, width_a: int, width_b: int, seed: int | Sequence[int] = 0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """`n` items: states of A [n, width_a] and of B [n, width_b], float32, and labels 0 and 1
        [n], half of each."""
        rng = np.random.default_rng(seed)
        z = rng.permutation(n) % 2
        a = rng.standard_normal((n, width_a), np.float32)
        b = rng.standard_normal((n, width_b), np.float32)
        common = min(width_a, width_b)
        own = (1 - self.shared**2) ** 0.5
        b[:, :common] = self.shared * a[:, :common] + own * b[:, :common]
        a[:, 0] += self.margin_a * (2 * z - 1)
        b[:, 0] += self.margin_b * (2 * z - 1)
        return torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(z)
