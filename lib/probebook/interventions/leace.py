"""Least-squares concept erasure (Belrose et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpstrf
from torch import Tensor
from torch.nn import functional as F

from probebook.base import tensor, to_numpy
from probebook.devices import work_device
from probebook.interventions.inlp import is_left
from probebook.probes.checks import check_labels, check_states
from probebook.probes.logistic_regression import ROWS, gram
from probebook.probes.moments import Moments, scales


class LEACE:
    """Erases a concept from hidden states so that no linear probe can read it, changing them as
    little as possible: h ↦ h − L Rᵀ(h − μ).

    Theorem 4.3: in coordinates whitened by any W with W Σ_hh Wᵀ = I, project orthogonally onto the
    complement of W Σ_hz; in the coordinates of h this is an oblique projection of rank k−1.
    Afterwards the classes have equal means, so on the data of the fit every linear classifier with
    a convex loss does no better than the label shares (theorem 3.1). Here W is the inverse of a
    Cholesky factor, which takes less time than eigenvectors.

    Computed in float64 on standardised dimensions, so that one with a very large spread harms no
    other. The factor takes dimensions in the order of what those before them leave unexplained.

    `tol`: the factor ends when less than this share of the norm of the correlations is left; the
    directions left out count as empty."""

    def __init__(self, tol: float = 1e-12):
        self.tol = tol

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedLEACE:
        """Closed form from h [n, d], z [n] (any k ≥ 2). UserError for bad states or labels."""
        h = check_states(h).detach()
        z = check_labels(z, len(h), device=h.device)
        there, d = work_device(h), h.shape[1]
        mean = sum(part.to(there).double().sum(0) for part in h.split(ROWS)) / len(h)
        onehot = F.one_hot(z).to(there).double()
        onehot -= onehot.mean(0)
        parts = zip(h.split(ROWS), onehot.split(ROWS))
        joint = gram(torch.cat([x.to(there).double() - mean, y], 1) for x, y in parts) / len(h)
        return self._solved(joint[:d, :d], joint[:d, d:], mean)

    def fit_moments(self, moments: Moments) -> FittedLEACE:
        """The same closed form from sums over states that were read block by block."""
        return self._solved(*moments.covariances(), moments.mean)

    def _solved(self, covariance: Tensor, cross: Tensor, mean: Tensor) -> FittedLEACE:
        """From Σ_hh [d, d], Σ_hz [d, k] and the mean [d]."""
        scale = scales(covariance, mean)
        correlations = covariance / scale / scale[:, None]
        inverse, t = _factor(correlations, self.tol * float(correlations.norm()))
        whitened = _solve(t, inverse @ (cross / scale[:, None]))  # W Σ_hz [r, k]
        u, s, vt = torch.linalg.svd(whitened, full_matrices=False)
        u, s, v = u[:, s > 1e-8], s[s > 1e-8], vt[s > 1e-8].T  # ≤ k−1 columns: Σ_hz 1 = 0
        right = inverse.T @ _solve(t, u, transposed=True) / scale[:, None]  # Wᵀ u
        # L = W⁺u = Σ_hz v / s: taken from Σ_hz itself, L Rᵀ Σ_hz = Σ_hz to the last digit.
        return FittedLEACE(cross @ v / s, right, mean)


def _factor(correlations: Tensor, tol: float) -> tuple[Tensor, Tensor]:
    """[I; Gᵀ]⁺ [r, d] and the Cholesky factor t [r, r] with W = t⁻¹ [I; Gᵀ]⁺.

    t tᵀ are the correlations of the first r dimensions in pivoting order; the others are Gᵀ x."""
    lower, order, r, _ = dpstrf(to_numpy(correlations), tol=tol, lower=1)
    lower = torch.from_numpy(lower).to(correlations)
    order = torch.from_numpy(order).to(correlations.device, torch.int64) - 1
    t, rest = lower[:r, :r].tril(), lower[r:, :r]
    given = _solve(t, rest.T, transposed=True)
    inner = torch.eye(len(rest)).to(t) + given.T @ given
    back = torch.linalg.solve(inner, given.T).T
    return torch.cat([torch.eye(r).to(t) - back @ given.T, back], 1)[:, order.argsort()], t


def _solve(lower: Tensor, b: Tensor, transposed: bool = False) -> Tensor:
    return torch.linalg.solve_triangular(lower.T if transposed else lower, b, upper=transposed)


@dataclass(frozen=True)
class FittedLEACE:
    """Erases the fitted concept: `edit(h)` = h − ((h − mean) @ right) @ leftᵀ, [n, d] in the dtype
    and on the device of h.

    `left`, `right` [d, ≤ k−1] with rightᵀ left = I, and `mean` [d], all float64."""

    left: Tensor
    right: Tensor
    mean: Tensor

    def __call__(self, h: ArrayLike) -> Tensor:
        """Edited states [n, d]."""
        h = check_states(h, len(self.mean))
        return (h.double() - self._erased_part(h)).to(h.dtype)

    def failed(self, edited: ArrayLike, h: ArrayLike) -> Tensor:
        """In which edited states more of what z is read from is left than rounding explains, given
        the unedited states h: bool [n].

        It can happen in a coarse dtype or for strongly correlated dimensions."""
        return is_left(self._erased_part(tensor(edited)), tensor(h))

    def _erased_part(self, h: Tensor) -> Tensor:
        left, right, mean = (t.to(h.device) for t in (self.left, self.right, self.mean))
        return ((h.double() - mean) @ right) @ left.T
