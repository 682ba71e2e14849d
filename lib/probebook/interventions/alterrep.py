"""AlterRep (Ravfogel et al. 2021; Canby et al., § 4.1): INLP's directions with a wanted side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError, check_choice
from probebook.interventions.inlp import INLP, FittedINLP
from probebook.probes.checks import check_labels, check_states


class AlterRep:
    """Moves states to the side of a wanted class, along the directions that INLP erases:
    h ↦ P h + α Σⱼ s_to,ⱼ abs(bⱼ·h) bⱼ over INLP's unit directions bⱼ.

    s = ±1 is the side of bⱼ on which the wanted class lies; with more than two classes s is in
    [−1, 1], in proportion to the class's weight along bⱼ. P is INLP's nullspace projection, so
    α = 0 is INLP and α = 1 reflects the components on the wrong side. (The formula printed in
    Canby et al. ends in h where Ravfogel et al. have the direction.)

    - `max_rank`, `C`: of INLP.
    - `weights`: "unit" as above. "raw" takes the classifiers' weights wⱼ = ‖wⱼ‖ bⱼ instead of bⱼ,
      so the length counts twice: α raw equals α ‖w‖² unit, and α = 1 no longer reflects."""

    def __init__(self, max_rank: int = 8, C: float = 1.0, weights: Literal["unit", "raw"] = "unit"):
        check_choice(weights, "kind of weights", ("unit", "raw"))
        self.inlp, self.weights = INLP(max_rank, C), weights

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedAlterRep:
        """Find the directions on h [n, d], z [n]."""
        return FittedAlterRep(self.inlp.fit(h, z), 1.0, self.weights)


@dataclass(frozen=True)
class FittedAlterRep:
    """Moves states to a class: `edit(h, to=labels)` → [n, d], in the dtype of h and where h is."""

    inlp: FittedINLP
    alpha: float
    weights: Literal["unit", "raw"] = "unit"

    def at(self, alpha: float, rank: int | None = None) -> FittedAlterRep:
        """The same fit at strength α ≥ 0, with the first `rank` directions if given."""
        if not alpha >= 0:
            raise UserError(f"alpha={alpha}: the strength must be ≥ 0")
        inlp = self.inlp if rank is None else self.inlp.at(rank)
        return replace(self, alpha=float(alpha), inlp=inlp)

    def __call__(self, h: ArrayLike, to: ArrayLike) -> Tensor:
        """Edited states [n, d]."""
        h = check_states(h, len(self.inlp.basis))
        to = check_labels(to, len(h), len(self.inlp.sides), h.device)
        r = self.inlp.rank
        b, sides = self.inlp.basis[:, :r].to(h.device), self.inlp.sides[:, :r].to(h.device)
        x = h.double()
        along = x @ b
        gain = self.alpha * (self.inlp.norms[:r].to(b) ** 2 if self.weights == "raw" else 1)
        return (x - along @ b.T + (gain * sides[to] * along.abs()) @ b.T).to(h.dtype)

    def failed(self, edited: ArrayLike, to: ArrayLike) -> Tensor:
        """Which edited states are not in class `to`: bool [n].

        The judge is INLP's first classifier, the one of the unedited states."""
        edited = check_states(edited, len(self.inlp.basis))
        to = check_labels(to, len(edited), len(self.inlp.sides), edited.device)
        return self.inlp.probe(edited.double()).argmax(1) != to
