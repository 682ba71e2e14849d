"""Affine steering that matches mean and covariance (MiMiC; Singh et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.interventions.mean_shift import MeanShift, nearest_mean
from probebook.interventions.optimal_transport import class_moves, covariance, transport
from probebook.probes.checks import check_labels, check_states, check_strength


class AffineSteering:
    """Moves states so that they have the mean and covariance of a wanted class, changing them as
    little as possible: h ↦ μ_to + A (h − μ_rest).

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
        maps = [
            transport(covariance(h[z != c]), covariance(h[z == c]), self.tol)
            for c in range(int(z.max()) + 1)
        ]
        shift = MeanShift().fit(h, z)
        return FittedAffineSteering(shift.means, shift.means - shift.shifts, torch.stack(maps))


@dataclass(frozen=True)
class FittedAffineSteering:
    """Moves states to a class: `edit(h, to=labels)` → [n, d] in the dtype and on the device of h.

    `means`, `rests` [k, d]: of each class and of all others; `maps` [k, d, d]: A; all float64."""

    means: Tensor
    rests: Tensor
    maps: Tensor
    strength: float = 1.0

    def at(self, strength: float) -> FittedAffineSteering:
        """The same map, of whose move each state makes the share s ≥ 0."""
        return replace(self, strength=check_strength(strength))

    def __call__(self, h: ArrayLike, to: ArrayLike) -> Tensor:
        """Edited states [n, d]."""
        h = check_states(h, self.means.shape[1])
        to = check_labels(to, len(h), len(self.means), h.device)
        x = h.double()
        moved = class_moves(x, to, self.maps, self.rests, self.means)
        return (x + self.strength * moved).to(h.dtype)

    def failed(self, edited: ArrayLike, to: ArrayLike) -> Tensor:
        """Which edited states do not have the mean of class `to` as their nearest: bool [n]."""
        edited = check_states(edited, self.means.shape[1])
        to = check_labels(to, len(edited), len(self.means), edited.device)
        return nearest_mean(edited, self.means) != to
