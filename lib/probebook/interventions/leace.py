"""Least-squares concept erasure (Belrose et al. 2023): the smallest edit after which no linear classifier sees z."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.linalg.lapack import dpstrf

from probebook.interventions.inlp import remains
from probebook.probes.checks import labels, states
from probebook.probes.linear import ROWS, gram


class LEACE:
    """h ↦ h − L Rᵀ(h − μ): of all affine edits that leave no linear information on z, the one that changes h least.

    Theorem 4.3: in coordinates whitened by any W with W Σ_hh Wᵀ = I project orthogonally onto the complement of
    W Σ_hz; back in the coordinates of h this is an oblique projection of rank k−1. Afterwards the classes have equal
    means, so on the data of the fit every linear classifier with a convex loss does no better than the label shares
    (theorem 3.1). Here W is the inverse of a Cholesky factor, which takes less time than eigenvectors.

    In float64 on standardised dimensions, so that one dimension with a very large spread harms no other. Dimensions
    are taken in the order of what those before them leave unexplained, until that is less than the share `tol` of
    the norm of the correlations; the directions that are left out count as empty."""

    def __init__(self, tol: float = 1e-12):
        self.tol = tol

    def fit(self, h, z) -> FittedLEACE:
        """Closed form from h [n, d], z [n] (any k ≥ 2). Raises UserError for bad states or labels."""
        h = states(h).detach()
        z = labels(z, len(h), device=h.device)
        mean = sum(part.double().sum(0) for part in h.split(ROWS)) / len(h)
        onehot, d = torch.nn.functional.one_hot(z).double(), h.shape[1]
        onehot -= onehot.mean(0)
        joint = gram(torch.cat([part.double() - mean, classes], 1)
                     for part, classes in zip(h.split(ROWS), onehot.split(ROWS))) / len(h)
        covariance, cross = joint[:d, :d], joint[:d, d:]                             # Σ_hh [d, d], Σ_hz [d, k]
        spread = covariance.diagonal().sqrt()
        scale = torch.where(spread > 1e-12 * mean.abs(), spread, torch.inf)          # a constant column becomes 0
        correlations = covariance / scale / scale[:, None]
        lower, order, r, _ = dpstrf(correlations.cpu().numpy(), tol=self.tol * float(correlations.norm()), lower=1)
        lower, order = torch.from_numpy(lower).to(cross), torch.from_numpy(order).to(z) - 1
        t, rest = lower[:r, :r].tril(), lower[r:, :r]                                # t tᵀ: of the first r in order
        given = _solve(t, rest.T, transposed=True)                                   # the others are givenᵀ x
        back = torch.linalg.solve(torch.eye(d - r).to(t) + given.T @ given, given.T).T
        inverse = torch.cat([torch.eye(r).to(t) - back @ given.T, back], 1)[:, order.argsort()]   # [I; givenᵀ]⁺
        whitened = _solve(t, inverse @ (cross / scale[:, None]))                  # W = t⁻¹ [I; givenᵀ]⁺ [r, d]
        u, s, vt = torch.linalg.svd(whitened, full_matrices=False)
        u, s, v = u[:, s > 1e-8], s[s > 1e-8], vt[s > 1e-8].T                        # at most k−1: Σ_hz 1 = 0
        right = inverse.T @ _solve(t, u, transposed=True) / scale[:, None]        # Wᵀ u
        # L = W⁺u = Σ_hz v / s: taken from Σ_hz itself, so that L Rᵀ Σ_hz = Σ_hz to the last digit
        return FittedLEACE(cross @ v / s, right, mean)


def _solve(lower, b, transposed: bool = False):
    return torch.linalg.solve_triangular(lower.T if transposed else lower, b, upper=transposed)


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
