"""AlterRep (Ravfogel et al. 2021; Canby et al., § 4.1): move a state to the wanted side of INLP's directions."""
from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from probebook.base import UserError
from probebook.interventions.inlp import INLP, FittedINLP
from probebook.probes.checks import labels, states


class AlterRep:
    """h ↦ P h + α Σⱼ s_to,ⱼ |bⱼ·h| bⱼ over INLP's unit directions bⱼ; s = ±1 is the wanted class's side of bⱼ.

    P is INLP's nullspace projection, so α = 0 is INLP and α = 1 reflects the components that lie on the wrong side.
    With more than two classes s lies in [−1, 1], in proportion to the class's weight along bⱼ. (The formula printed
    in Canby et al. ends in h where Ravfogel et al. have the direction.)"""

    def __init__(self, max_rank: int = 8, C: float = 1.0):
        self.inlp = INLP(max_rank, C)

    def fit(self, h, z) -> FittedAlterRep:
        """Find the directions on h [n, d], z [n]."""
        return FittedAlterRep(self.inlp.fit(h, z), alpha=1.0)


@dataclass(frozen=True)
class FittedAlterRep:
    """`edit(h, to=wanted)` → [n, d] in the dtype and device of h; `to`: wanted labels [n]."""

    inlp: FittedINLP
    alpha: float

    def at(self, alpha: float, rank: int | None = None) -> FittedAlterRep:
        """The same fit at strength α ≥ 0 (and with the first `rank` directions)."""
        if not alpha >= 0:
            raise UserError(f"alpha={alpha}: the strength must be ≥ 0")
        return replace(self, alpha=float(alpha), inlp=self.inlp if rank is None else self.inlp.at(rank))

    def __call__(self, h, to) -> torch.Tensor:
        h = states(h, len(self.inlp.basis))
        to = labels(to, len(h), len(self.inlp.sides), h.device)
        r = self.inlp.rank
        b, sides = self.inlp.basis[:, :r].to(h.device), self.inlp.sides[:, :r].to(h.device)
        x = h.double()
        along = x @ b
        return (x - along @ b.T + self.alpha * (sides[to] * along.abs()) @ b.T).to(h.dtype)
