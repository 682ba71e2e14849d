"""Projected gradient descent (Madry et al. 2018, § 2.1; Canby et al., § 4.1) on hidden states."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from probebook.base import UserError
from probebook.interventions.attack import ChunkedAttack, NormBall, steepest, value_and_gradient


@dataclass(frozen=True)
class PGD(ChunkedAttack):
    """Moves states so that a probe reads a wanted class, by many short steps within ε of h: from
    x = h repeat x ← Π(x − η · steepest ∇ₓ loss(probe(x), to)).

    Π is the projection on the ball. The T = `steps` steps have length η = `step_share` · ε / T, so
    a straight walk crosses the ball. There is no random start, and the last iterate is returned.
    The loss is the log-odds against `to`."""

    steps: int = 40
    step_share: float = 2.5

    def __post_init__(self):
        super().__post_init__()
        if self.steps < 1 or not self.step_share > 0:
            raise UserError(
                f"steps={self.steps}, step_share={self.step_share}: give steps ≥ 1 and a share > 0"
            )

    def _move(self, h: Tensor, to: Tensor) -> Tensor:
        ball, x = NormBall(h, self.eps, self.norm), h.clone()
        step = self.step_share * self.eps / self.steps
        for _ in range(self.steps):
            _, gradient = value_and_gradient(self.probe, x, to)
            x = ball.project(x.sub_(steepest(gradient, self.norm), alpha=step))
        return x
