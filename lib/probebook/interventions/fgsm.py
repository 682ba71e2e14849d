"""Fast gradient sign method (Goodfellow et al. 2015, § 4; Canby et al., § 4.1) on hidden states."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from probebook.interventions.attack import ChunkedAttack, NormBall, steepest, value_and_gradient


@dataclass(frozen=True)
class FGSM(ChunkedAttack):
    """Moves states so that a probe reads a wanted class, by one step of length ε:
    h ↦ h − ε · sign ∇_h loss(probe(h), to).

    In L2 the step is along ∇/‖∇‖₂. The loss is the log-odds against `to`.
    `FGSM(probe).at(eps=.1)(h, to=wanted)` → [n, d]."""

    def _move(self, h: Tensor, to: Tensor) -> Tensor:
        _, gradient = value_and_gradient(self.probe, h, to)
        x = h.sub(steepest(gradient, self.norm), alpha=self.eps)
        return NormBall(h, self.eps, self.norm).project(x)
