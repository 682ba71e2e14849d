"""Multinomial logistic regression, solved to its optimum in float64 by Newton's method."""
from __future__ import annotations

import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import labels, states


class LinearProbe:
    """Linear softmax classifier: logits = h Wᵀ + b, minimising mean cross-entropy + ‖W‖²/(2·C·n).

    The same objective as scikit-learn's `LogisticRegression(C=…)` (the bias is not penalised). The optimum is
    unique, so the result depends on nothing but the data. Two classes are solved with one weight vector
    w = W₁ − W₀ and returned as the symmetric pair (−w/2, w/2), of which softmax sees only the difference.

    `C`: inverse strength of the penalty. `weight` [k, d] and `bias` [k] are float64 after `fit`."""

    def __init__(self, C: float = 1.0, tol: float = 1e-8, max_steps: int = 100):
        if not C > 0:
            raise UserError(f"C={C}: the inverse penalty must be positive")
        self.C, self.tol, self.max_steps = C, tol, max_steps

    def fit(self, h, z, start: LinearProbe | None = None) -> LinearProbe:
        """Fit on states h [n, d] and labels z [n] (0 … k−1); `start`: a fitted probe to begin from."""
        h = states(h)
        z = labels(z, len(h), device=h.device)
        x = F.pad(h.double(), (0, 1), value=1.0)                        # the bias is one more column
        k = int(z.max()) + 1
        theta = x.new_zeros(1 if k == 2 else k, x.shape[1])
        if start is not None:
            s = F.pad(start.weight, (0, 1)) + F.pad(start.bias[:, None], (x.shape[1] - 1, 0))
            theta = (s[1:] - s[:1]) if k == 2 else s.clone()
        penalty = torch.full_like(theta[0], 1 / (self.C * len(x)))
        penalty[-1] = 0
        theta = (_newton_binary if k == 2 else _newton_softmax)(x, z, theta, penalty, self.tol, self.max_steps)
        if k == 2:
            theta = torch.cat([-theta / 2, theta / 2])
        self.weight, self.bias = theta[:, :-1].clone(), theta[:, -1].clone()
        return self

    def __call__(self, h) -> torch.Tensor:
        """Logits [n, k] in the dtype of h."""
        h = torch.as_tensor(h)
        return h @ self.weight.to(h).T + self.bias.to(h)


def _newton_binary(x, z, theta, penalty, tol, max_steps):
    """Minimise mean softplus(−y·xw) + Σ penalty·w²/2 by damped Newton steps; theta [1, d+1]."""
    w, y = theta[0], 2.0 * z - 1

    def value(w):
        return F.softplus(-y * (x @ w)).mean() + (penalty * w * w).sum() / 2

    for _ in range(max_steps):
        p = torch.sigmoid(x @ w)
        gradient = x.T @ (p - z) / len(x) + penalty * w
        if gradient.abs().max() < tol:
            break
        hessian = (x * (p * (1 - p) / len(x))[:, None]).T @ x
        hessian.diagonal().add_(penalty + 1e-12)
        w = _line_search(value, w, torch.linalg.solve(hessian, gradient), gradient)
    return w[None]


def _newton_softmax(x, z, theta, penalty, tol, max_steps):
    """L-BFGS with strong-Wolfe line search on the k-class loss; theta [k, d+1].

    Run on standardised columns, whose Hessian is better conditioned; the penalty stays on the raw weights."""
    scale = x.std(0).clamp_min(1e-12)
    scale[-1] = 1
    u = (theta * scale).requires_grad_()
    opt = torch.optim.LBFGS([u], max_iter=100 * max_steps, tolerance_grad=tol / 10, tolerance_change=0,
                            history_size=30, line_search_fn="strong_wolfe")
    xs = x / scale

    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(xs @ u.T, z) + (penalty * (u / scale) ** 2).sum() / 2
        loss.backward()
        return loss

    with torch.enable_grad():
        opt.step(closure)
    return u.detach() / scale


def _line_search(value, w, step, gradient):
    """Halve the Newton step until the loss falls enough (Armijo)."""
    before, slope, t = value(w), (gradient * step).sum(), 1.0
    while t > 1e-8 and value(w - t * step) > before - 1e-4 * t * slope:
        t /= 2
    return w - t * step
