"""Fast adaptive boundary attack (Croce & Hein 2020, "Minimally distorted adversarial examples")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError
from probebook.interventions.attack import (
    ChunkedAttack,
    NormBall,
    chunks,
    length,
    margin,
    value_and_gradient,
)

ALPHA_MAX, ETA, BETA = 0.1, 1.05, 0.9  # the paper's values
INWARD = 0.01  # share of the margin at h by which a step aims past the boundary
SEARCH = 5  # queries of the final search
OVERSHOOT = 5e-5  # share of the way by which the search goes past the boundary


@dataclass(frozen=True)
class FAB(ChunkedAttack):
    """Finds the nearest point that the probe puts into class `to` (algorithm 1).

    Project on the linearised boundary, come back, repeat. Without a box, the projection on
    {m(x) + ∇m·δ = 0}, m the margin of the best other class over `to`, has the closed form
    δ = −m/‖∇m‖_* · v, with v the steepest unit direction and ‖·‖_* the dual norm: one backward
    pass per step. Each step is mixed with the projection of h itself, with weight α ≤ .1.

    Two changes let it end inside where three or more boundaries meet. The bound on α is .1/j in
    the j-th step since the row was last in class `to`. A step aims 1 % of the first margin past
    the boundary; a search on the segment to h then returns to the boundary. With k ≥ 3 the
    distance is an upper bound, because one boundary is met at a time.

    `minimal(h, to)` does not depend on ε; `attack(h, to=wanted)` is that point, projected on the
    ball of radius ε. A row for which no point is found stays unchanged."""

    steps: int = 100

    def __post_init__(self):
        super().__post_init__()
        if self.steps < 1:
            raise UserError(f"steps={self.steps}: give a number of steps ≥ 1")

    def minimal(self, h: ArrayLike, to: ArrayLike) -> tuple[Tensor, Tensor]:
        """Points [n, d] and their distances [n] from h (0: already in class `to`; inf: none)."""
        h, to = self._checked(h, to)
        x, distance = zip(*(self._minimal(*some) for some in chunks(h, to)))
        return torch.cat(x).to(h.device), torch.cat(distance).to(h.device)

    def _move(self, h: Tensor, to: Tensor) -> Tensor:
        return NormBall(h, self.eps, self.norm).project(self._minimal(h, to)[0])

    def _minimal(self, h: Tensor, to: Tensor) -> tuple[Tensor, Tensor]:
        x, nearest, start = h.clone(), h.clone(), self._margin(h, to)
        distance = torch.where(start < 0, 0, torch.inf).to(h.dtype)
        tries = torch.ones_like(distance)
        for _ in range(self.steps):
            m, gradient = value_and_gradient(self.probe, x, to, margin)
            dual = length(gradient, "l2") if self.norm == "l2" else gradient.abs().sum(1)
            m_h = m + (gradient * (h - x)).sum(1)  # the linearised margin at h
            a, b = m.abs(), m_h.abs()  # distances of x and h to the boundary, times dual
            alpha = torch.minimum(a / (a + b).clamp_min(1e-30), ALPHA_MAX / tries)
            reach = ETA * torch.lerp(m, m_h, alpha) + INWARD * start
            move = torch.where(dual > 0, reach / dual, 0)
            if self.norm == "linf":
                v = gradient.sign_()
            else:
                v = gradient.div_(dual.clamp_min(1e-30)[:, None])
            x = torch.lerp(x, h, alpha[:, None]).addcmul_(v, move[:, None], value=-1)
            inside, r = self._margin(x, to) < 0, length(x - h, self.norm)
            better, tries = inside & (r < distance), torch.where(inside, 1, tries + 1)
            distance = torch.where(better, r, distance)
            nearest = torch.where(better[:, None], x, nearest)
            x = torch.where(inside[:, None], torch.lerp(h, x, BETA), x)
        return self._search(h, to, nearest, start, distance)

    def _search(
        self, h: Tensor, to: Tensor, nearest: Tensor, m_low: Tensor, distance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Secant steps towards the boundary, from h (m_low ≥ 0) to `nearest` (m_high < 0)."""
        low, high = torch.zeros_like(distance), torch.ones_like(distance)
        m_high, segment = self._margin(nearest, to), nearest - h
        searching = distance.isfinite() & (distance > 0)
        for _ in range(SEARCH):
            share = m_low / (m_low - m_high).clamp_min(1e-30)
            s = torch.minimum(torch.lerp(low, high, share) * (1 + OVERSHOOT), high)
            s = torch.where(searching, s, 1)
            x = torch.addcmul(h, segment, s[:, None])
            m = self._margin(x, to)
            inside = searching & (m < 0)
            nearest = torch.where(inside[:, None], x, nearest)
            high, m_high = torch.where(inside, s, high), torch.where(inside, m, m_high)
            low, m_low = torch.where(inside, low, s), torch.where(inside, m_low, m)
        return nearest, torch.where(searching, length(nearest - h, self.norm), distance)

    @torch.no_grad()
    def _margin(self, x: Tensor, to: Tensor) -> Tensor:
        return margin(self.probe(x), to)
