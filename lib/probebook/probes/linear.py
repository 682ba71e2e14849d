"""Multinomial logistic regression as a probe, solved to its optimum in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import check_labels, check_states
from probebook.probes.logistic_regression import Regression


class Linear:
    """A fitted linear classifier, `weight` [k, d] and `bias` [k]: called with states it gives their
    logits."""

    weight: Tensor
    bias: Tensor

    def __call__(self, h: ArrayLike) -> Tensor:
        """Logits [n, k] in the dtype of h."""
        h = torch.as_tensor(h)
        return h @ self.weight.to(h).T + self.bias.to(h)


@dataclass(eq=False)
class LinearProbe(Linear):
    """Linear softmax classifier: logits = h Wᵀ + b, minimising mean cross-entropy + ‖W‖²/(2·C·n).

    The objective is that of scikit-learn's `LogisticRegression(C=…)`; the bias is not penalised.
    The optimum is unique, so the result depends on the data alone. Two classes have one weight
    vector w = W₁ − W₀, returned as the symmetric pair (−w/2, w/2).

    `tol` bounds the Newton decrement; the loss ends within about tol²/2 of its minimum. After
    `fit`, `weight` [k, d] and `bias` [k] are float64."""

    C: float = 1.0  # inverse strength of the penalty
    tol: float = 1e-8
    max_steps: int = 1000  # of the solver (`Regression.minimise`)
    weight: Tensor = field(init=False, repr=False)
    bias: Tensor = field(init=False, repr=False)

    def __post_init__(self):
        if not self.C > 0:
            raise UserError(f"C={self.C}: the inverse penalty must be positive")

    def fit(
        self,
        h: ArrayLike,
        z: ArrayLike,
        covariance: Tensor | None = None,
    ) -> LinearProbe:
        """Fit on states h [n, d] and labels z [n] (0 … k−1).

        `covariance` [d, d]: that of h in float64 (divided by n), if it is known."""
        return self.fit_regression(Regression(h, z, self.C, covariance))

    def fit_regression(self, regression: Regression) -> LinearProbe:
        """Take the minimum of a regression with the same C, minimised before or not."""
        self.weight, self.bias = regression.minimise(self.tol, self.max_steps)
        return self

    def fit_all(self, hs: Sequence[ArrayLike], zs: Sequence[ArrayLike]) -> list[LinearProbe]:
        """Fit one probe with these settings on each of several data sets.

        Small data sets of one shape and two classes are fitted in one batch, which is many times
        faster than one by one.

        - `hs`, `zs`: states [n, d] and labels [n] of each data set."""
        hs = [check_states(h).detach() for h in hs]
        zs = [check_labels(z, len(h), device=h.device) for h, z in zip(hs, zs, strict=True)]
        probes = [LinearProbe(self.C, self.tol, self.max_steps) for _ in hs]
        small = len({h.shape for h in hs}) == 1 and len(hs[0]) < hs[0].shape[1]
        if not small or any(int(z.max()) != 1 for z in zs):
            return [probe.fit(h, z) for probe, h, z in zip(probes, hs, zs)]
        fitted = _fit_batch(torch.stack(hs), torch.stack(zs), self.C, self.tol, self.max_steps)
        for probe, weight, bias in zip(probes, *fitted):
            probe.weight = torch.stack([-weight / 2, weight / 2])
            probe.bias = torch.stack([-bias / 2, bias / 2])
        return probes


def _fit_batch(h: Tensor, z: Tensor, C: float, tol: float, max_steps: int) -> tuple[Tensor, Tensor]:
    """Weights w [b, d] and biases [b] of logistic regressions on h [b, n, d] and z [b, n] of 0, 1.

    At the optimum w = C xᵀu, where x are the centred states and u [b, n] sums to 0. So Newton's
    method is run on u, with the n × n matrix C x xᵀ (Rasmussen & Williams 2006, algorithm 3.1).
    Each step is halved until it lowers the loss."""
    y, mean = z.double(), h.double().mean(1, keepdim=True)
    x = h.double() - mean
    gram = C * x @ x.mT
    share = y.mean(1, keepdim=True).clamp(1e-6, 1 - 1e-6)
    u, b = torch.zeros_like(y), share.logit()
    identity = torch.eye(y.shape[1], dtype=y.dtype, device=y.device)

    def times_gram(v: Tensor) -> Tensor:
        return (gram @ v[..., None])[..., 0]

    def loss(f: Tensor, u: Tensor, ku: Tensor) -> Tensor:
        return (F.softplus(f) - y * f + u * ku / 2).sum(1, keepdim=True)

    ku = times_gram(u)
    for _ in range(max_steps):
        f = ku + b
        p = f.sigmoid()
        root = (p * (1 - p)).clamp_min(1e-12).sqrt()
        factor = torch.linalg.cholesky(identity + root[..., None] * gram * root[:, None])
        sides = torch.stack([root * f + (y - p) / root, root], -1)
        one, other = (root[..., None] * torch.cholesky_solve(sides, factor)).unbind(-1)
        to_b = one.sum(1, keepdim=True) / other.sum(1, keepdim=True)
        du, db = one - to_b * other - u, to_b - b
        dku = times_gram(du)
        slope = ((p - y + u) * dku).sum(1, keepdim=True) + (p - y).sum(1, keepdim=True) * db
        unfinished = -slope > tol * tol * y.shape[1]
        if not unfinished.any():
            break
        step, before = unfinished.double(), loss(f, u, ku)
        for _ in range(40):
            after = loss(f + step * (dku + db), u + step * du, ku + step * dku)
            worse = after > before + 1e-4 * step * slope + 1e-12 * before.abs()
            if not worse.any():
                break
            step = torch.where(worse, step / 2, step)
        u, b, ku = u + step * du, b + step * db, ku + step * dku
    weight = C * (u[:, None] @ x)[:, 0]
    return weight, b[:, 0] - (weight * mean[:, 0]).sum(1)
