"""AlterRep (Ravfogel et al. 2021; Canby et al., § 4.1): move a state to the wanted side of INLP's directions."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from probebook.base import UserError
from probebook.interventions.inlp import INLP, FittedINLP
from probebook.probes.checks import labels, states


class AlterRep:
    """`h ↦ P h + α Σⱼ s_to,ⱼ |bⱼ·h| bⱼ` over INLP's unit directions bⱼ; s = ±1 is the wanted class's side of bⱼ.

    P is INLP's nullspace projection, so α = 0 is INLP and α = 1 reflects the components that lie on the wrong side.
    With more than two classes s lies in [−1, 1], in proportion to the class's weight along bⱼ. (The formula printed
    in Canby et al. ends in h where Ravfogel et al. have the direction.)

    `weights`: "unit" as above; "raw" takes the classifiers' weights wⱼ = ‖wⱼ‖ bⱼ in place of bⱼ, so that a term is
    `α s |wⱼ·h| wⱼ` and the length counts twice: α raw equals α ‖w‖² unit, and α = 1 no longer reflects."""

    def __init__(self, max_rank: int = 8, C: float = 1.0, weights: Literal["unit", "raw"] = "unit"):
        if weights not in ("unit", "raw"):
            raise UserError(f"weights={weights!r}: choose 'unit' or 'raw'")
        self.inlp, self.weights = INLP(max_rank, C), weights

    def fit(self, h, z) -> FittedAlterRep:
        """Find the directions on h [n, d], z [n]."""
        return FittedAlterRep(self.inlp.fit(h, z), 1.0, self.weights)


@dataclass(frozen=True)
class FittedAlterRep:
    """`edit(h, to=wanted)` → [n, d] in the dtype and device of h; `to`: wanted labels [n]."""

    inlp: FittedINLP
    alpha: float
    weights: Literal["unit", "raw"] = "unit"

    def at(self, alpha: float, rank: int | None = None) -> FittedAlterRep:
        """The same fit at strength α ≥ 0 (and with the first `rank` directions)."""
        if not alpha >= 0:
            raise UserError(f"alpha={alpha}: the strength must be ≥ 0")
        return replace(self, alpha=float(alpha), inlp=self.inlp if rank is None else self.inlp.at(rank))

    def __call__(self, h, to, *, return_failed: bool = False):
        """Edited states [n, d]; with `return_failed` also the rows [n] that INLP's first classifier, the one of the
        unedited states, does not put into class `to`."""
        h = states(h, len(self.inlp.basis))
        to = labels(to, len(h), len(self.inlp.sides), h.device)
        r = self.inlp.rank
        b, sides = self.inlp.basis[:, :r].to(h.device), self.inlp.sides[:, :r].to(h.device)
        x = h.double()
        along = x @ b
        gain = self.alpha * (self.inlp.norms[:r].to(b) ** 2 if self.weights == "raw" else 1)
        edited = (x - along @ b.T + (gain * sides[to] * along.abs()) @ b.T).to(h.dtype)
        return (edited, self.inlp.probe(edited.double()).argmax(1) != to) if return_failed else edited
