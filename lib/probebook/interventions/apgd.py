"""Auto-PGD (Croce & Hein 2020, "Reliable evaluation of adversarial robustness", algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError
from probebook.interventions.attack import (
    ChunkedAttack,
    NormBall,
    margin,
    steepest,
    target_loss,
    value_and_gradient,
)

MOMENTUM, RISES = 0.75, 0.75  # α and ρ of the paper


def targeted_dlr(logits: Tensor, to: Tensor) -> Tensor:
    """Difference of logits ratio, (max_{c≠to} zᶜ − z_to) / (z_π1 − (z_π3 + z_π4)/2), π sorting.

    [n, k ≥ 4] → [n]. This is the paper's targeted loss (eq. 7) with the best other class in place
    of the true one, so it is negative exactly where `to` wins. Neither a shift nor a scale of the
    logits changes it."""
    top = logits.topk(4, dim=1).values
    return margin(logits, to) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2).clamp_min(1e-12)


def checkpoints(steps: int) -> list[int]:
    """Steps ⌈p_j · steps⌉ at which the step size is reconsidered.

    p₀ = 0, p₁ = .22, p_{j+1} = p_j + max(p_j − p_{j−1} − .03, .06)."""
    p = [0, 22]  # in hundredths
    while p[-1] < 100:
        p.append(p[-1] + max(p[-1] - p[-2] - 3, 6))
    return sorted({-(-q * steps // 100) for q in p[1:]})


@dataclass(frozen=True)
class APGD(ChunkedAttack):
    """Attacks a probe without a step size to choose: PGD with momentum and steps that halve
    themselves, from 2ε.

    Each row returns to the best point that it has visited. At a checkpoint a row's step is halved,
    and the row goes back to its best point, if the loss fell in fewer than ρ = .75 of the steps
    since the last one (condition 1), or if neither step nor best loss has changed (condition 2).
    The start is h itself.

    `loss`: "log-odds" against `to`, or "dlr" (targeted, k ≥ 4 classes)."""

    steps: int = 100
    loss: Literal["log-odds", "dlr"] = "log-odds"

    def __post_init__(self):
        super().__post_init__()
        if self.steps < 1 or self.loss not in ("log-odds", "dlr"):
            raise UserError(
                f"steps={self.steps}, loss={self.loss!r}: give steps ≥ 1 and 'log-odds' or 'dlr'"
            )

    def _checked(self, h: ArrayLike, to: ArrayLike) -> tuple[Tensor, Tensor]:
        h, to = super()._checked(h, to)
        if self.loss == "dlr" and self.probe(h[:2]).shape[1] < 4:
            raise UserError("the targeted DLR loss needs 4 classes or more: use loss='log-odds'")
        return h, to

    def _evaluate(self, x: Tensor, to: Tensor) -> tuple[Tensor, Tensor]:
        loss = target_loss if self.loss == "log-odds" else targeted_dlr
        value, gradient = value_and_gradient(self.probe, x, to, loss)
        return value, steepest(gradient, self.norm)

    def _move(self, h: Tensor, to: Tensor) -> Tensor:
        ball, x, before = NormBall(h, self.eps, self.norm), h.clone(), h.clone()
        value, uphill = self._evaluate(x, to)
        best, best_uphill, best_value = x.clone(), uphill.clone(), value
        step = torch.full_like(h[:, :1], 2 * self.eps)
        falls, halved = torch.zeros_like(to), torch.zeros_like(to, dtype=torch.bool)
        last, last_best = 0, best_value
        when = checkpoints(self.steps)
        for i in range(1, self.steps + 1):
            z = ball.project(torch.addcmul(x, uphill, step, value=-1))
            if i > 1:  # x + α(z − x) + (1 − α)(x − before)
                z.lerp_(before.neg_().add_(x, alpha=2), 1 - MOMENTUM)
                ball.project(z)
            x, before, previous = z, x, value
            value, uphill = self._evaluate(x, to)
            falls += value < previous
            better = value < best_value
            best_value = torch.where(better, value, best_value)
            best = torch.where(better[:, None], x, best)
            best_uphill = torch.where(better[:, None], uphill, best_uphill)
            if i in when:
                stuck = ~halved & (last_best <= best_value)
                halved = (falls < RISES * (i - last)) | stuck
                step = torch.where(halved[:, None], step / 2, step)
                x = torch.where(halved[:, None], best, x)
                uphill = torch.where(halved[:, None], best_uphill, uphill)
                value = torch.where(halved, best_value, value)
                falls, last, last_best = torch.zeros_like(falls), i, best_value
        return best
