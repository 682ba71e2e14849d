"""Projected gradient descent (Madry et al. 2018, § 2.1; Canby et al., § 4.1) on hidden states."""
from __future__ import annotations

from dataclasses import dataclass

from probebook.base import UserError
from probebook.interventions.ball import Ball, ChunkedAttack, steepest, value_and_gradient


@dataclass(frozen=True)
class PGD(ChunkedAttack):
    """Many short steepest-descent steps, each projected back: x ← Π(x − η · steepest ∇ₓ loss(probe(x), to)), from h.

    `steps` T of length η = `step_share` · ε / T, so that a walk of one direction crosses the ball. Deterministic:
    it starts at h itself and returns the last iterate. The loss is the log-odds against `to`."""

    steps: int = 40
    step_share: float = 2.5

    def __post_init__(self):
        super().__post_init__()
        if self.steps < 1 or not self.step_share > 0:
            raise UserError(f"steps={self.steps}, step_share={self.step_share}: give steps ≥ 1 and a share > 0")

    def _move(self, h, to):
        ball, x, step = Ball(h, self.eps, self.norm), h.clone(), self.step_share * self.eps / self.steps
        for _ in range(self.steps):
            _, gradient = value_and_gradient(self.probe, x, to)
            x = ball.project(x.sub_(steepest(gradient, self.norm), alpha=step))
        return x
