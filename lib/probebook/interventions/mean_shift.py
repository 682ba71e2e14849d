"""A difference of means as a steering vector (Turner et al. 2023; Marks & Tegmark 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.probes.checks import check_labels, check_states, check_strength
from probebook.probes.moments import Moments


class MeanShift:
    """Moves states towards a class by one steering vector, a difference of means; others call it
    DiffMean or difference in means: h ↦ h + s (μ_to − μ_rest).

    μ_to is the mean of the wanted class, μ_rest that of all other states. Activation addition
    adds the difference of two contrasting states; over many labelled states it is the difference
    of their means (Marks & Tegmark). Every state moves by the same vector, also one that is of
    the wanted class already. At strength s = 1 the mean of the other states becomes that of the
    wanted class; spreads and all other moments stay as they are."""

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedMeanShift:
        """Means of h [n, d] by z [n] (any k ≥ 2), float64. UserError for bad states or labels."""
        h = check_states(h).detach().double()
        z = check_labels(z, len(h), device=h.device)
        counts = z.bincount().double()[:, None]
        sums = torch.zeros(len(counts), h.shape[1], dtype=h.dtype, device=h.device)
        sums.index_add_(0, z, h)
        return self._solved(sums, counts)

    def fit_moments(self, moments: Moments) -> FittedMeanShift:
        """The same from sums over states that were read block by block."""
        return self._solved(moments.sums, moments.counts[:, None], moments.origin)

    def _solved(self, sums: Tensor, counts: Tensor, origin: Tensor | float = 0) -> FittedMeanShift:
        """From the classes' sums [k, d] of states around an origin [d], and their counts [k, 1]."""
        rest = (sums.sum(0) - sums) / (counts.sum() - counts) + origin
        means = sums / counts + origin
        return FittedMeanShift(means, means - rest)


@dataclass(frozen=True)
class FittedMeanShift:
    """Moves states to a class: `edit(h, to=labels)` → [n, d] in the dtype and on the device of h.

    `means`, `shifts` [k, d] float64: of each class, and from the rest to it."""

    means: Tensor
    shifts: Tensor
    strength: float = 1.0

    def at(self, strength: float) -> FittedMeanShift:
        """The same vectors at strength s ≥ 0."""
        return replace(self, strength=check_strength(strength))

    def __call__(self, h: ArrayLike, to: ArrayLike) -> Tensor:
        """Edited states [n, d]."""
        h = check_states(h, self.means.shape[1])
        to = check_labels(to, len(h), len(self.means), h.device)
        return (h.double() + self.strength * self.shifts.to(h.device)[to]).to(h.dtype)

    def failed(self, edited: ArrayLike, to: ArrayLike) -> Tensor:
        """Which edited states do not have the mean of class `to` as their nearest: bool [n]."""
        edited = check_states(edited, self.means.shape[1])
        to = check_labels(to, len(edited), len(self.means), edited.device)
        return nearest_mean(edited, self.means) != to


def nearest_mean(h: Tensor, means: Tensor) -> Tensor:
    """The class [n] whose mean, a row of `means` [k, d], is nearest to each row of h [n, d]."""
    return torch.cdist(h.double(), means.to(h.device)).argmin(1)
