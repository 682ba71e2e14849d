"""Least-squares concept erasure (Belrose et al. 2023): the smallest edit after which no linear classifier sees z."""
from __future__ import annotations

from dataclasses import dataclass

import torch

from probebook.interventions.inlp import remains
from probebook.probes.checks import labels, states


class LEACE:
    """h ↦ h − L Rᵀ(h − μ): of all affine edits that leave no linear information on z, the one that changes h least.

    Theorem 4.3: in coordinates whitened by W = Σ_hh^(−½) project orthogonally onto the complement of W Σ_hz; back in
    the coordinates of h this is an oblique projection of rank k−1. Afterwards the classes have equal means, so on the
    data of the fit every linear classifier with a convex loss does no better than the label shares (theorem 3.1).

    In float64 on standardised dimensions, so that one dimension with a very large spread harms no other.
    Directions with less than the share `tol` of the largest variance count as empty."""

    def __init__(self, tol: float = 1e-12):
        self.tol = tol

    def fit(self, h, z) -> FittedLEACE:
        """Closed form from h [n, d], z [n] (any k ≥ 2). Raises UserError for bad states or labels."""
        h = states(h).detach()
        z = labels(z, len(h), device=h.device)
        x = h.double()
        mean, spread = x.mean(0), x.std(0)
        x = x - mean
        scale = torch.where(spread > 1e-12 * mean.abs(), spread, torch.inf)          # a constant column becomes 0
        onehot = torch.nn.functional.one_hot(z).double()
        cross = x.T @ (onehot - onehot.mean(0)) / len(x)                             # Σ_hz [d, k]
        variance, axes = torch.linalg.eigh((x / scale).T @ (x / scale) / len(x))
        kept = variance > self.tol * variance[-1]
        whiten = axes[:, kept] / variance[kept].sqrt()                               # W [d, r] of x / scale
        u, s, vt = torch.linalg.svd(whiten.T @ (cross / scale[:, None]), full_matrices=False)
        u, s, v = u[:, s > 1e-8], s[s > 1e-8], vt[s > 1e-8].T                        # at most k−1: Σ_hz 1 = 0
        # L = W⁺u = Σ_hz v / s: taken from Σ_hz itself, so that L Rᵀ Σ_hz = Σ_hz to the last digit
        return FittedLEACE(cross @ v / s, whiten @ u / scale[:, None], mean)


@dataclass(frozen=True)
class FittedLEACE:
    """`edit(h)` = h − ((h − mean) @ right) @ leftᵀ, [n, d] in the dtype and device of h.

    `left`, `right` [d, ≤ k−1] with rightᵀ left = I, and `mean` [d], all float64."""

    left: torch.Tensor
    right: torch.Tensor
    mean: torch.Tensor

    def __call__(self, h, *, return_failed: bool = False):
        """Edited states [n, d]; with `return_failed` also which rows [n] kept more than rounding of what z is read
        from (in a coarse dtype or for strongly correlated dimensions)."""
        h = states(h, len(self.mean))
        left, right, mean = (t.to(h.device) for t in (self.left, self.right, self.mean))
        x = h.double()
        edited = (x - ((x - mean) @ right) @ left.T).to(h.dtype)
        return (edited, remains(((edited.double() - mean) @ right) @ left.T, h)) if return_failed else edited
