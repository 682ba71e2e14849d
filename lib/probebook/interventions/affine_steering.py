"""Affine steering that matches mean and covariance (MiMiC; Singh et al. 2024)."""
from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError
from probebook.interventions.mean_shift import MeanShift
from probebook.probes.checks import check_labels, check_states


class AffineSteering:
    """h ↦ μ_to + A (h − μ_rest), the least move after which the other states have the wanted
    class's mean and covariance.

    A = Σ^−½ (Σ^½ Σ_to Σ^½)^½ Σ^−½ with the covariance Σ of the other states is the optimal
    transport between two Gaussians (Singh et al.; Knott & Smith 1984): of all affine maps
    with these moments it moves the states least on average. Where Σ has no spread, A adds none. As
    in `MeanShift`, a state that is asked for a class is taken to come from the others.

    `tol`: directions with less than this share of the largest variance count as empty."""

    def __init__(self, tol: float = 1e-10):
        self.tol = tol

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedAffineSteering:
        """Closed form from h [n, d], z [n] (any k ≥ 2), float64. UserError for bad states or
        labels."""
        h = check_states(h).detach().double()
        z = check_labels(z, len(h), device=h.device)
        maps = [_transport(_covariance(h[z != c]), _covariance(h[z == c]), self.tol)
                for c in range(int(z.max()) + 1)]
        shift = MeanShift().fit(h, z)
        return FittedAffineSteering(shift.means, shift.means - shift.shifts, torch.stack(maps))


def _covariance(h: Tensor) -> Tensor:
    centred = h - h.mean(0)
    return centred.T @ centred / len(h)


def _root(covariance: Tensor, tol: float, power: float = .5) -> Tensor:
    """A symmetric matrix to a power; directions without spread become 0."""
    spread, directions = torch.linalg.eigh(covariance)
    some = spread > tol * spread.max().clamp_min(torch.finfo(spread.dtype).tiny)
    return directions[:, some] * spread[some] ** power @ directions[:, some].T


def _transport(source: Tensor, target: Tensor, tol: float) -> Tensor:
    root, inverse = _root(source, tol), _root(source, tol, -.5)
    return inverse @ _root(root @ target @ root, 0.) @ inverse


@dataclass(frozen=True)
class FittedAffineSteering:
    """`edit(h, to=wanted)` → [n, d] in the dtype and on the device of h; `to`: labels [n].

    `means`, `rests` [k, d]: of each class and of all others; `maps` [k, d, d]: A; all float64."""

    means: Tensor
    rests: Tensor
    maps: Tensor
    strength: float = 1.0

    def at(self, strength: float) -> FittedAffineSteering:
        """The same map, of whose move each state makes the share s ≥ 0."""
        if not strength >= 0:
            raise UserError(f"strength={strength}: it must be ≥ 0")
        return replace(self, strength=float(strength))

    def __call__(self, h: ArrayLike, to: ArrayLike, *, return_failed: bool = False
                 ) -> Tensor | tuple[Tensor, Tensor]:
        """Edited states [n, d]; with `return_failed` also which rows [n] do not have the mean of
        class `to` as their nearest."""
        h = check_states(h, self.means.shape[1])
        to = check_labels(to, len(h), len(self.means), h.device)
        x, moved = h.double(), torch.zeros(h.shape, dtype=torch.float64, device=h.device)
        for c in to.unique().tolist():
            rows = to == c
            mean, rest, map_ = (t[c].to(h.device) for t in (self.means, self.rests, self.maps))
            moved[rows] = mean + (x[rows] - rest) @ map_.T - x[rows]
        edited = (x + self.strength * moved).to(h.dtype)
        if not return_failed:
            return edited
        return edited, torch.cdist(edited.double(), self.means.to(h.device)).argmin(1) != to
