"""Quadratic concept erasure (QLEACE; Quirke & Belrose 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError
from probebook.interventions import optimal_transport
from probebook.probes.checks import check_labels, check_states, check_strength


class QLEACE:
    """Erases a concept so that no quadratic probe can read it either, changing states as little as
    possible: h ↦ μ + A_z (h − μ_z).

    Of all affine edits, one for each class, that give all classes the same mean and covariance, it
    is the one that changes h least.

    A_z is the optimal transport from the covariance Σ_z of class z to the barycenter of all
    classes' covariances, μ the mean of all states. Afterwards every feature hᵢ and hᵢhⱼ has the
    same mean in all classes, so on the data of the fit every quadratic classifier with a convex
    loss does no better than the label shares (Belrose et al. 2023, theorem 3.1). A single
    affine map could do this only by emptying every direction in which the shapes differ, so the
    edit must be told each state's class.

    A class that has no spread in a direction cannot get one, so no class keeps any there.

    `tol`: directions with less than this share of a class's largest variance count as empty."""

    def __init__(self, tol: float = 1e-10):
        self.tol = tol

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedQLEACE:
        """Covariances, barycenter and maps from h [n, d], z [n] (any k ≥ 2), float64.

        UserError for bad states or labels, or if no direction has spread in every class."""
        h = check_states(h).detach().double()
        z = check_labels(z, len(h), device=h.device)
        counts = z.bincount()
        shares, classes = counts.double() / len(z), [h[z == c] for c in range(len(counts))]
        means = torch.stack([states.mean(0) for states in classes])
        covariances = torch.stack([optimal_transport.covariance(states) for states in classes])
        inside = self._shared(covariances)  # [d, r]
        spreads = inside.T @ covariances @ inside  # [k, r, r], ≻ 0
        centre = optimal_transport.barycenter(spreads, shares)
        maps = torch.stack([optimal_transport.transport(spread, centre) for spread in spreads])
        return FittedQLEACE(means, shares @ means, inside @ maps @ inside.T)

    def _shared(self, covariances: Tensor) -> Tensor:
        """Orthonormal directions [d, r] in which every class has spread."""
        bases = [optimal_transport.spectrum(c, self.tol)[1] for c in covariances]
        if all(len(b) == b.shape[1] for b in bases):
            return torch.eye(len(bases[0])).to(covariances)
        # The mean of the projections onto the classes' ranges is 1 where all of them meet.
        projections = torch.stack([b @ b.T for b in bases])
        common, inside = optimal_transport.spectrum(projections.mean(0), 1 - 1e-9)
        if not (common > 1 - 1e-9).any():
            raise UserError(
                "no direction has spread in every class: give more states per class "
                "than there are dimensions"
            )
        return inside


@dataclass(frozen=True)
class FittedQLEACE:
    """Gives all classes one shape: `edit(h, z)` → [n, d] in the dtype and on the device of h, with
    the states' labels `z` [n].

    `means` [k, d] of the classes, `mean` [d] of all states, `maps` [k, d, d]: A; all float64."""

    means: Tensor
    mean: Tensor
    maps: Tensor
    strength: float = 1.0

    def at(self, strength: float) -> FittedQLEACE:
        """The same maps, of whose move each state makes the share s ≥ 0; at s = 1 z is erased."""
        return replace(self, strength=check_strength(strength))

    def __call__(self, h: ArrayLike, z: ArrayLike) -> Tensor:
        """Edited states [n, d] of states whose labels are z [n]."""
        h = check_states(h, len(self.mean))
        z = check_labels(z, len(h), len(self.means), h.device)
        moved = optimal_transport.class_moves(
            h.double(), z, self.maps, self.means, self.mean.expand_as(self.means)
        )
        return (h + self.strength * moved).to(h.dtype)
