"""Fast gradient sign method (Goodfellow et al. 2015, § 4; Canby et al., § 4.1) on hidden states."""
from __future__ import annotations

from dataclasses import dataclass

from probebook.interventions.ball import Ball, ChunkedAttack, steepest, value_and_gradient


@dataclass(frozen=True)
class FGSM(ChunkedAttack):
    """One step of length ε towards the wanted class: h ↦ h − ε · sign ∇_h loss(probe(h), to)  (L2: ∇/‖∇‖₂).

    `FGSM(probe).at(eps=.1)(h, to=wanted)` → [n, d]. The loss is the log-odds against `to`."""

    def _move(self, h, to):
        _, gradient = value_and_gradient(self.probe, h, to)
        return Ball(h, self.eps, self.norm).project(h.sub(steepest(gradient, self.norm), alpha=self.eps))
