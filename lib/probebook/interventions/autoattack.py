"""AutoAttack (Croce & Hein 2020, "Reliable evaluation of adversarial robustness", § 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import check_choice
from probebook.interventions.apgd import APGD
from probebook.interventions.attack import Attack, target_loss
from probebook.interventions.fab import FAB
from probebook.interventions.square import Square


@dataclass(frozen=True)
class AutoAttack(Attack):
    """Moves states within ε of h so that a probe reads a wanted class, if any of several attacks
    can: APGD, APGD on the DLR loss (k ≥ 4), FAB and Square, each run on the rows not yet flipped.

    A row takes the point of the first attack that flips it. Rows in class `to` from the start are
    moved too, to APGD's point of lowest loss. `unflipped`: what becomes of a row that no attack
    flips. "move" (an intervention): the point of lowest target loss that any attack found. "clean"
    (an evaluation): h unchanged."""

    steps: int = 100  # of APGD and FAB
    queries: int = 5000  # of Square
    seed: int = 0  # of Square
    unflipped: Literal["move", "clean"] = "move"

    def __post_init__(self):
        super().__post_init__()
        check_choice(self.unflipped, "value of unflipped", ("move", "clean"))
        self.attacks(2)  # they check steps and queries

    def attacks(self, k: int) -> list[Attack]:
        """The attacks for a probe with k classes, in the order in which they run."""
        probe, eps, norm = self.probe, self.eps, self.norm
        dlr = [APGD(probe, eps, norm, self.steps, "dlr")] if k >= 4 else []
        return [
            APGD(probe, eps, norm, self.steps),
            *dlr,
            FAB(probe, eps, norm, self.steps),
            Square(probe, eps, norm, self.queries, self.seed),
        ]

    def __call__(self, h: ArrayLike, to: ArrayLike) -> Tensor:
        h, to = self._checked(h, to)
        x, left = h.clone(), torch.arange(len(h), device=h.device)
        with torch.no_grad():
            k = self.probe(h[:2]).shape[1]
            lowest = torch.full_like(h[:, 0], torch.inf)
        for attack in self.attacks(k):
            new = attack(h[left], to[left])
            failed = attack.failed(new, to[left])
            with torch.no_grad():
                loss = target_loss(self.probe(new), to[left]).to(lowest)
            better = ~failed | (loss < lowest[left])
            x[left[better]], lowest[left[better]] = new[better], loss[better]
            left = left[failed]
            if not len(left):
                break
        if self.unflipped == "clean":
            x[left] = h[left]
        return x
