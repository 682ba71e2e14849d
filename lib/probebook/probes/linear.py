"""Multinomial logistic regression, solved to its optimum in float64."""
from __future__ import annotations

from collections import deque

import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import labels, states


class LinearProbe:
    """Linear softmax classifier: logits = h Wᵀ + b, minimising mean cross-entropy + ‖W‖²/(2·C·n).

    The same objective as scikit-learn's `LogisticRegression(C=…)` (the bias is not penalised). The optimum is
    unique, so the result depends on nothing but the data. Two classes are solved with one weight vector
    w = W₁ − W₀ and returned as the symmetric pair (−w/2, w/2), of which softmax sees only the difference.

    The fit is L-BFGS (Nocedal & Wright 2006, algorithm 7.5) that begins with the exact Hessian of the bias-only
    probe, so it does not depend on the scale or the correlation of the dimensions. It ends when the Newton decrement
    √(gᵀH⁻¹g), with L-BFGS's H, falls below `tol` (the loss is then within about tol²/2 of its minimum).

    `C`: inverse strength of the penalty. `weight` [k, d] and `bias` [k] are float64 after `fit`."""

    def __init__(self, C: float = 1.0, tol: float = 1e-8, max_steps: int = 1000):
        if not C > 0:
            raise UserError(f"C={C}: the inverse penalty must be positive")
        self.C, self.tol, self.max_steps = C, tol, max_steps

    def fit(self, h, z, start: LinearProbe | None = None, covariance: torch.Tensor | None = None) -> LinearProbe:
        """Fit on states h [n, d] and labels z [n] (0 … k−1).

        `start`: a fitted probe to begin from. `covariance` [d, d] float64: that of h (divided by n), if known."""
        h = states(h)
        z = labels(z, len(h), device=h.device)
        mean = h.double().mean(0)
        x, k = h.double() - mean, int(z.max()) + 1
        covariance = x.T @ x / len(x) if covariance is None else covariance
        shares = torch.bincount(z).double() / len(z)
        at_start = shares.diag() - shares[:, None] * shares                  # Hessian in the logits, bias-only probe
        contrasts = _contrasts(k).to(x)
        curvature, turn = torch.linalg.eigh(contrasts.T @ at_start @ contrasts)
        contrasts = contrasts @ turn                                         # [k, k−1]; makes that block-diagonal
        theta = F.pad(x.new_zeros(k - 1, x.shape[1]), (0, 1))                # the bias is one more column
        theta[:, -1] = torch.linalg.pinv(contrasts) @ shares.log()
        if start is not None:
            weight, bias = start.weight.to(x), start.bias.to(x)
            theta = torch.linalg.pinv(contrasts) @ torch.cat([weight, (bias + weight @ mean)[:, None]], 1)
        raw = contrasts @ _minimise(x, z, contrasts, theta, 1 / (self.C * len(x)), covariance, curvature, self.tol,
                                    self.max_steps)
        self.weight = raw[:, :-1].contiguous()
        self.bias = raw[:, -1] - self.weight @ mean
        return self

    def __call__(self, h) -> torch.Tensor:
        """Logits [n, k] in the dtype of h."""
        h = torch.as_tensor(h)
        return h @ self.weight.to(h).T + self.bias.to(h)


def _contrasts(k: int) -> torch.Tensor:
    """Columns [k, k−1] that sum to 0, which is all that softmax sees; orthonormal, but ±½ for two classes."""
    if k == 2:
        return torch.tensor([[-.5], [.5]], dtype=torch.float64)
    return torch.linalg.qr(torch.eye(k, dtype=torch.float64)[:, 1:] - 1 / k)[0]


def _minimise(x, z, contrasts, theta, penalty, covariance, curvature, tol, max_steps, memory=20):
    """Minimise mean cross-entropy of (x uᵀ + b) contrastsᵀ + penalty ‖u‖²/2 over theta = [u, b] [k−1, d+1].

    Logits are held as [k, n], which is quicker for few classes."""
    hessian = curvature[:, None, None] * covariance
    least = penalty + 1e-12 * float(covariance.diagonal().mean()) + 1e-300       # dimensions may be constant
    hessian.diagonal(dim1=1, dim2=2).mul_(1 + 1e-10).add_(least)
    factor, penalties = torch.linalg.cholesky(hessian), F.pad(torch.full_like(theta[:, 1:], penalty), (0, 1))
    onehot, steps = F.one_hot(z).T.double().contiguous(), deque(maxlen=memory)

    def newton(g):                                                   # H₀⁻¹ g
        return torch.cat([torch.cholesky_solve(g[:, :-1, None], factor)[..., 0], g[:, -1:] / curvature[:, None]], 1)

    def logits(theta):
        return contrasts @ (theta[:, :-1] @ x.T + theta[:, -1:])

    def gradient(p, theta):
        r = contrasts.T @ (p - onehot) / len(x)
        return torch.cat([r @ x, r.sum(1, keepdim=True)], 1) + penalties * theta

    f = logits(theta)
    g = gradient(f.softmax(0), theta)
    for _ in range(max_steps):
        q, alphas = g, []
        for s, y, rho in reversed(steps):
            alphas.append(rho * (s * q).sum())
            q = q - alphas[-1] * y
        q = newton(q)
        for s, y, rho in steps:
            q = q + (alphas.pop() - rho * (y * q).sum()) * s
        decrement = float((g * q).sum())
        if not decrement > tol * tol:
            break
        along = logits(q)
        t, p = _line_search(f, along, onehot, float((penalties * theta * q).sum()),
                            float((penalties * q * q).sum()), decrement)
        theta, f, before = theta - t * q, f - t * along, g
        g = gradient(p, theta)
        fall = float(((before - g) * q).sum())
        if not fall > 0:                                             # nothing but rounding is left
            break
        steps.append((-t * q, g - before, 1 / (t * fall)))
    return theta


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
