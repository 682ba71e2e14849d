"""Multinomial logistic regression, solved to its optimum in float64."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import torch
from scipy.linalg.blas import dsyrk
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import labels, states

ROWS, STEPS = 1024, 15                       # at a time in a product of float64; until the Hessian is computed again


class LinearProbe:
    """Linear softmax classifier: logits = h Wᵀ + b, minimising mean cross-entropy + ‖W‖²/(2·C·n).

    The same objective as scikit-learn's `LogisticRegression(C=…)` (the bias is not penalised). The optimum is
    unique, so the result depends on nothing but the data. Two classes are solved with one weight vector
    w = W₁ − W₀ and returned as the symmetric pair (−w/2, w/2), of which softmax sees only the difference.

    The fit is L-BFGS (Nocedal & Wright 2006, algorithm 7.5) that begins with the exact Hessian of the bias-only
    probe, so it does not depend on the scale or the correlation of the dimensions; with two classes it computes the
    exact Hessian again every 15 steps. It ends when the Newton decrement √(gᵀH⁻¹g), with L-BFGS's H, falls below
    `tol` (the loss is then within about tol²/2 of its minimum).

    `C`: inverse strength of the penalty. `weight` [k, d] and `bias` [k] are float64 after `fit`."""

    def __init__(self, C: float = 1.0, tol: float = 1e-8, max_steps: int = 1000):
        if not C > 0:
            raise UserError(f"C={C}: the inverse penalty must be positive")
        self.C, self.tol, self.max_steps = C, tol, max_steps

    def fit(self, h, z, start: LinearProbe | None = None, covariance: torch.Tensor | None = None) -> LinearProbe:
        """Fit on states h [n, d] and labels z [n] (0 … k−1).

        `start`: a fitted probe to begin from. `covariance` [d, d] float64: that of h (divided by n), if known."""
        regression = Regression(h, z, self.C, covariance)
        if start is not None:
            regression.begin(start)
        return self.take(regression)

    def take(self, regression: Regression) -> LinearProbe:
        """The minimum of a regression with the same C; `fit` is this for a new one."""
        self.weight, self.bias = regression.minimise(self.tol, self.max_steps)
        return self

    def __call__(self, h) -> torch.Tensor:
        """Logits [n, k] in the dtype of h."""
        h = torch.as_tensor(h)
        return h @ self.weight.to(h).T + self.bias.to(h)


class Regression:
    """The objective of a `LinearProbe` on h [n, d], z [n], to be minimised once, or again with fewer directions.

    It is a function of theta [k−1, d+1], one weight vector and bias for each contrast of the classes, with x = h less
    its mean: the mean cross-entropy of `logits` = contrasts @ theta @ [x, 1]ᵀ [k, n] plus the penalty."""

    def __init__(self, h, z, C: float, covariance: torch.Tensor | None = None):
        h = states(h).detach()
        self.z = z = labels(z, len(h), device=h.device)
        self.x = torch.ones(len(h), h.shape[1] + 1, dtype=torch.float64, device=h.device)
        x, k = self.x[:, :-1].copy_(h), int(z.max()) + 1
        self.mean = x.mean(0)
        x -= self.mean
        shares = torch.bincount(z).double() / len(z)
        at_start = shares.diag() - shares[:, None] * shares                  # Hessian in the logits, bias-only probe
        contrasts = _contrasts(k).to(x)
        curvature, turn = torch.linalg.eigh(contrasts.T @ at_start @ contrasts)
        self.contrasts = contrasts @ turn                                    # [k, k−1]; makes that block-diagonal
        self.onehot, self.basis = F.one_hot(z).T.double().contiguous(), self.x.new_zeros(len(self.x.T), 0)
        self.theta = F.pad(x.new_zeros(k - 1, x.shape[1]), (0, 1))
        self.penalties = F.pad(torch.full_like(self.theta[:, 1:], 1 / (C * len(h))), (0, 1))
        self.theta[:, -1] = torch.linalg.pinv(self.contrasts) @ shares.log()
        if covariance is None:
            covariance = gram(self.x.split(ROWS)) / len(h)
        else:
            covariance = torch.block_diag(covariance, covariance.new_ones(1, 1))
        self._curve(curvature[:, None, None] * covariance)

    def begin(self, probe: LinearProbe) -> None:
        """Start from a fitted probe."""
        weight, bias = probe.weight.to(self.x), probe.bias.to(self.x)
        self.theta = torch.linalg.pinv(self.contrasts) @ torch.cat([weight, (bias + weight @ self.mean)[:, None]], 1)

    def leave_out(self, basis: torch.Tensor) -> None:
        """Keep all weights orthogonal to the columns of `basis` [d, r], as if those were projected out of h.

        Start where the quadratic model of the loss around theta is smallest under this condition."""
        self.basis = F.pad(basis, (0, 0, 0, 1))
        self._tie()
        self.theta = self._allowed(self.theta)

    def minimise(self, tol: float, max_steps: int, memory: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights [k, d] and biases [k] of the classes at the minimum; `logits` are then those of theta."""
        steps = deque(maxlen=memory)
        self.logits = f = self.contrasts @ (self.theta @ self.x.T)
        g = self._gradient(f.softmax(0))
        for _ in range(max_steps):
            q, alphas = g, []
            for s, y, rho in reversed(steps):
                alphas.append(rho * torch.sum(s * q))
                q = q - alphas[-1] * y
            q = self._newton(q)
            for s, y, rho in steps:
                q = q + (alphas.pop() - rho * torch.sum(y * q)) * s
            decrement = float((g * q).sum())
            if not decrement > tol * tol:
                break
            along, penalty = self.contrasts @ (q @ self.x.T), self.penalties * q
            t, p = _line_search(f, along, self.onehot, float((penalty * self.theta).sum()),
                                float((penalty * q).sum()), decrement)
            self.theta, f, before = self.theta - t * q, f - t * along, g
            self.logits, g = f, self._gradient(p)
            fall = float(((before - g) * q).sum())
            if not fall > 0:                                             # nothing but rounding is left
                break
            steps.append((-t * q, g - before, 1 / (t * fall)))
            if len(p) == 2 and len(steps) == STEPS:                      # more classes would need more products
                weights = (p[0] * p[1] / len(self.x)).sqrt()[:, None]
                self._curve(gram(x * w for x, w in zip(self.x.split(ROWS), weights.split(ROWS)))[None])
                steps.clear()
        raw = self.contrasts @ self.theta
        weight = raw[:, :-1].contiguous()
        return weight, raw[:, -1] - weight @ self.mean

    def _gradient(self, p):
        return self.contrasts.T @ (p - self.onehot) / len(self.x) @ self.x + self.penalties * self.theta

    def _curve(self, hessian):
        """Begin L-BFGS with this Hessian [k−1, d+1, d+1], to which the penalties are added here."""
        diagonal = hessian.diagonal(dim1=1, dim2=2)
        least = 1e-12 * float(diagonal[:, :-1].mean()) + 1e-300                      # dimensions may be constant
        diagonal.mul_(1 + 1e-10).add_(self.penalties + least)
        self.factor = torch.linalg.cholesky(hessian)
        self._tie()

    def _tie(self):
        """What `_allowed` subtracts along each column of the basis: H⁻¹B (BᵀH⁻¹B)⁻¹ [k−1, d+1, r]."""
        across = torch.cholesky_solve(self.basis.expand(len(self.factor), -1, -1), self.factor)
        self.ties = torch.linalg.solve(self.basis.T @ across, across, left=False)

    def _newton(self, g):
        """H⁻¹ g; with a basis, the inverse is that of H among the weights orthogonal to it."""
        return self._allowed(torch.cholesky_solve(g[..., None], self.factor)[..., 0])

    def _allowed(self, q):
        if not self.basis.shape[1]:
            return q
        q = q - (self.ties @ (q @ self.basis)[..., None])[..., 0]
        return q - q @ self.basis @ self.basis.T                                     # rounding


def gram(parts: Iterable[torch.Tensor]) -> torch.Tensor:
    """The sum of xᵀx [d, d] over float64 parts x [m, d]; on the CPU, BLAS computes each pair of columns once."""
    total = None
    for x in parts:
        if x.is_cuda:
            total = x.T @ x if total is None else total.addmm_(x.T, x)
        else:
            total = dsyrk(1., x.numpy().T, beta=1., c=total, overwrite_c=True)
    if isinstance(total, torch.Tensor):
        return total
    half = torch.from_numpy(total.T)                                                 # the lower triangle
    return half + half.tril(-1).T


def _contrasts(k: int) -> torch.Tensor:
    """Columns [k, k−1] that sum to 0, which is all that softmax sees; orthonormal, but ±½ for two classes."""
    if k == 2:
        return torch.tensor([[-.5], [.5]], dtype=torch.float64)
    return torch.linalg.qr(torch.eye(k, dtype=torch.float64)[:, 1:] - 1 / k)[0]


def _line_search(f, along, onehot, linear, quadratic, slope):
    """The t where the loss along f − t·along is flat to a tenth of its `slope` at 0, and its softmax there.

    Newton's method, kept in a bracket."""
    low, high, t = 0.0, float("inf"), 1.0
    for _ in range(60):
        p = (f - t * along).softmax(0)
        rise = float(((onehot - p) * along).sum()) / f.shape[1] - linear + t * quadratic
        if abs(rise) <= .1 * slope:
            break
        low, high = (t, high) if rise < 0 else (low, t)
        bend = (p * along * along).sum(0) - (p * along).sum(0).square()
        t -= rise / (float(bend.mean()) + quadratic + 1e-300)
        if not low < t < high:
            t = (low + high) / 2 if high < float("inf") else 2 * low
    return t, p
