"""The solver of `LinearProbe`: L-BFGS that begins with an exact Hessian."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.linalg.blas import dsyrk
from torch import Tensor
from torch.nn import functional as F

from probebook.base import to_numpy
from probebook.probes.checks import check_labels, check_states

ROWS = 1024  # rows that a float64 product takes at a time
RESTART = 15  # steps after which the Hessian is computed again


class Regression:
    """Regularised logistic regression of z [n] on h [n, d], to be minimised once or several times.

    With x = h − mean it is a function of theta [k−1, d+1], a weight vector and a bias for each
    contrast of the classes: the mean cross-entropy of the logits contrasts @ theta @ [x, 1]ᵀ [k, n]
    plus the penalty. Between two fits, directions can be projected out of h (`project_out`)."""

    def __init__(self, h: ArrayLike, z: ArrayLike, C: float, covariance: Tensor | None = None):
        h = check_states(h).detach()
        self.z = z = check_labels(z, len(h), device=h.device)
        self.x = torch.ones(len(h), h.shape[1] + 1, dtype=torch.float64, device=h.device)
        x, k = self.x[:, :-1].copy_(h), int(z.max()) + 1
        self.mean = x.mean(0)
        x -= self.mean
        shares = torch.bincount(z).double() / len(z)
        # The Hessian of a bias-only probe in the logits; `turn` makes it block-diagonal.
        in_logits = shares.diag() - shares[:, None] * shares
        contrasts = _contrasts(k).to(x)
        curvature, turn = torch.linalg.eigh(contrasts.T @ in_logits @ contrasts)
        self.contrasts = contrasts @ turn
        self.onehot = F.one_hot(z).T.double().contiguous()
        self.basis = self.x.new_zeros(len(self.x.T), 0)
        self.theta = F.pad(x.new_zeros(k - 1, x.shape[1]), (0, 1))
        self.penalties = F.pad(torch.full_like(self.theta[:, 1:], 1 / (C * len(h))), (0, 1))
        self.theta[:, -1] = torch.linalg.pinv(self.contrasts) @ shares.log()
        if covariance is None:
            covariance = gram(self.x.split(ROWS)) / len(h)
        else:
            covariance = torch.block_diag(covariance, covariance.new_ones(1, 1))
        self._set_hessian(curvature[:, None, None] * covariance)

    def project_out(self, basis: Tensor) -> None:
        """Keep all weights orthogonal to the columns of `basis` [d, r].

        The minimum is then that for states with the basis projected out. It is sought from the
        point where, under this condition, the quadratic model of the loss around theta is least."""
        self.basis = F.pad(basis, (0, 0, 0, 1))
        self._update_correction()
        self.theta = self._orthogonal(self.theta)

    def minimise(self, tol: float, max_steps: int) -> tuple[Tensor, Tensor]:
        """Weights [k, d] and biases [k] at the minimum; `logits` [k, n] are then those of theta.

        The first Hessian is that of the bias-only probe, so the steps depend neither on the scale
        nor on the correlation of the dimensions. With two classes the exact Hessian is computed
        again every `RESTART` steps. The search ends when the Newton decrement √(gᵀH⁻¹g), with
        L-BFGS's H, falls below `tol`."""
        steps: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=20)
        self.logits = f = self.contrasts @ (self.theta @ self.x.T)
        g = self._gradient(f.softmax(0))
        for _ in range(max_steps):
            q = self._lbfgs_direction(g, steps)
            decrement = float((g * q).sum())
            if not decrement > tol * tol:
                break
            along, penalty = self.contrasts @ (q @ self.x.T), self.penalties * q
            linear, quadratic = float((penalty * self.theta).sum()), float((penalty * q).sum())
            t, p = _line_search(f, along, self.onehot, linear, quadratic, decrement)
            self.theta, f, before = self.theta - t * q, f - t * along, g
            self.logits, g = f, self._gradient(p)
            decrease = float(((before - g) * q).sum())
            if not decrease > 0:  # only rounding is left
                break
            steps.append((-t * q, g - before, 1 / (t * decrease)))
            if len(p) == 2 and len(steps) == RESTART:  # more classes would need more products
                weights = (p[0] * p[1] / len(self.x)).sqrt()[:, None]
                parts = zip(self.x.split(ROWS), weights.split(ROWS))
                self._set_hessian(gram(x * w for x, w in parts)[None])
                steps.clear()
        raw = self.contrasts @ self.theta
        weight = raw[:, :-1].contiguous()
        return weight, raw[:, -1] - weight @ self.mean

    def _gradient(self, p: Tensor) -> Tensor:
        residual = self.contrasts.T @ (p - self.onehot) / len(self.x)
        return residual @ self.x + self.penalties * self.theta

    def _lbfgs_direction(self, g: Tensor, steps: deque) -> Tensor:
        """H⁻¹ g by the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4)."""
        alphas = []
        for s, y, rho in reversed(steps):
            alphas.append(rho * torch.sum(s * g))
            g = g - alphas[-1] * y
        g = self._orthogonal(torch.cholesky_solve(g[..., None], self.factor)[..., 0])
        for s, y, rho in steps:
            g = g + (alphas.pop() - rho * torch.sum(y * g)) * s
        return g

    def _set_hessian(self, hessian: Tensor) -> None:
        """Begin L-BFGS with this Hessian [k−1, d+1, d+1], to which the penalties are added here."""
        diagonal = hessian.diagonal(dim1=1, dim2=2)
        least = 1e-12 * float(diagonal[:, :-1].mean()) + 1e-300  # dimensions may be constant
        diagonal.mul_(1 + 1e-10).add_(self.penalties + least)
        self.factor = torch.linalg.cholesky(hessian)
        self._update_correction()

    def _update_correction(self) -> None:
        """H⁻¹B (BᵀH⁻¹B)⁻¹ [k−1, d+1, r], which `_orthogonal` subtracts along the basis B."""
        across = torch.cholesky_solve(self.basis.expand(len(self.factor), -1, -1), self.factor)
        self.correction = torch.linalg.solve(self.basis.T @ across, across, left=False)

    def _orthogonal(self, q: Tensor) -> Tensor:
        """The point orthogonal to the basis that is nearest to q in the norm of the Hessian."""
        if not self.basis.shape[1]:
            return q
        q = q - (self.correction @ (q @ self.basis)[..., None])[..., 0]
        return q - q @ self.basis @ self.basis.T  # what rounding has left


def gram(parts: Iterable[Tensor]) -> Tensor:
    """The sum of xᵀx [d, d] over float64 parts x [m, d]; on the CPU half the products suffice."""
    total: Tensor | None = None
    half: np.ndarray | None = None
    for x in parts:
        if x.device.type != "cpu":
            total = x.T @ x if total is None else total.addmm_(x.T, x)
        else:
            half = dsyrk(1.0, to_numpy(x).T, beta=1.0, c=half, overwrite_c=True)
    if total is not None:
        return total
    assert half is not None  # there is at least one part
    lower = torch.from_numpy(half.T)
    return lower + lower.tril(-1).T


def _contrasts(k: int) -> Tensor:
    """Columns [k, k−1] that sum to 0, which is all that softmax sees; orthonormal, ±½ if k = 2."""
    if k == 2:
        return torch.tensor([[-0.5], [0.5]], dtype=torch.float64)
    return torch.linalg.qr(torch.eye(k, dtype=torch.float64)[:, 1:] - 1 / k)[0]


def _line_search(
    f: Tensor, along: Tensor, onehot: Tensor, linear: float, quadratic: float, slope: float
) -> tuple[float, Tensor]:
    """The t at which the loss along f − t·along is flat to a tenth of its `slope` at 0.

    Newton's method within a bracket; also returns the softmax at t."""
    low, high, t = 0.0, float("inf"), 1.0
    for _ in range(60):
        p = (f - t * along).softmax(0)
        rise = float(((onehot - p) * along).sum()) / f.shape[1] - linear + t * quadratic
        if abs(rise) <= 0.1 * slope:
            break
        low, high = (t, high) if rise < 0 else (low, t)
        bend = (p * along * along).sum(0) - (p * along).sum(0).square()
        t -= rise / (float(bend.mean()) + quadratic + 1e-300)
        if not low < t < high:
            t = (low + high) / 2 if high < float("inf") else 2 * low
    return t, p
