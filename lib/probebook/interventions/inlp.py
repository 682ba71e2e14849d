"""Iterative nullspace projection (Ravfogel et al. 2020; Canby et al., § 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError, tensor
from probebook.probes.checks import check_labels, check_states, check_states_differ
from probebook.probes.linear import LinearProbe
from probebook.probes.logistic_regression import Regression


class INLP:
    """Erases a concept from hidden states, one direction that a linear probe reads after the other.

    Train a linear classifier, project its directions out, repeat: h ↦ (I − B Bᵀ) h.

    - `max_rank`: directions to find; each round of a k-class classifier gives k−1 of them.
    - `C`: inverse penalty of the classifiers.
    - `tol`: the fit ends once a classifier's loss comes within this share of the label entropy,
      that is, when nothing linear is left. Larger ranks then change nothing more."""

    def __init__(self, max_rank: int = 40, C: float = 1.0, tol: float = 1e-3):
        if max_rank < 0:
            raise UserError(f"max_rank={max_rank}: give a number of directions ≥ 0")
        self.max_rank, self.C, self.tol = max_rank, C, tol

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedINLP:
        """Find the directions on h [n, d], z [n]. Raises UserError for bad states or labels."""
        h = check_states_differ(check_states(h)).detach()
        z = check_labels(z, len(h), device=h.device)
        shares = torch.bincount(z).double() / len(z)
        entropy = -(shares * shares.log()).sum()
        most, k = min(self.max_rank, h.shape[1]), len(shares)
        basis, sides, norms = (
            torch.zeros(*size, 0, dtype=torch.float64, device=h.device)
            for size in ((h.shape[1],), (k,), ())
        )
        regression = Regression(h, z, self.C)
        probe = first = LinearProbe(self.C).fit_regression(regression)
        while basis.shape[1] < most:
            if F.cross_entropy(regression.logits.T, z) > (1 - self.tol) * entropy:
                break
            new, new_sides, new_norms = _directions(probe.weight, basis)
            if not new.shape[1]:
                break
            room = most - basis.shape[1]
            basis = torch.cat([basis, new[:, :room]], 1)
            sides = torch.cat([sides, new_sides[:, :room]], 1)
            norms = torch.cat([norms, new_norms[:room]])
            if basis.shape[1] < most:
                regression.project_out(basis)
                probe = LinearProbe(self.C).fit_regression(regression)
        return FittedINLP(basis, sides, norms, first, self.max_rank, basis.shape[1])


def _directions(weight: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A classifier's orthonormal directions [d, ≤ k−1] outside `basis`, with sides and norms."""
    w = weight - weight.mean(0)  # softmax sees differences only
    u, s, vt = torch.linalg.svd(w, full_matrices=False)
    v = vt[s > s[0] * 1e-8][: len(w) - 1].T
    for _ in range(2):  # once is not enough in floating point
        v = v - basis @ (basis.T @ v)
        v, r = torch.linalg.qr(v)
    side = w @ v
    if len(w) == 2:  # orient towards class 1
        v, side = v * side[1].sign(), side * side[1].sign()
    norms = side.max(0).values - side.min(0).values
    return v, side / side.abs().max(0).values.clamp_min(1e-300), norms


@dataclass(frozen=True)
class FittedINLP:
    """Projects states onto the nullspace of the first `rank` directions; `edit(h)` → [n, d].

    - `sides` [k, r] in [−1, 1]: on which side of each direction, and how far, its classifier puts
      each class (two classes: −1 and 1).
    - `norms` [r]: largest difference of two classes' weights along each direction (two classes:
      the length of w₁ − w₀)."""

    basis: Tensor  # [d, r] float64, orthonormal directions in the order in which they were found
    sides: Tensor
    norms: Tensor
    probe: LinearProbe  # the first classifier, that of the unedited states
    max_rank: int  # the largest strength
    rank: int  # the selected one

    def at(self, rank: int) -> FittedINLP:
        """The same fit at another strength, 0 ≤ rank ≤ max_rank."""
        if not 0 <= rank <= self.max_rank:
            raise UserError(
                f"rank {rank}: fitted with max_rank={self.max_rank}, so choose 0 … {self.max_rank}"
            )
        return replace(self, rank=rank)

    def __call__(self, h: ArrayLike) -> Tensor:
        """Edited states [n, d]."""
        return project_out(h, self.basis[:, : self.rank])

    def failed(self, edited: ArrayLike, h: ArrayLike) -> Tensor:
        """Which edited states kept a part along B, given the unedited states h: bool [n]."""
        return not_projected_out(edited, h, self.basis[:, : self.rank])


def project_out(h: ArrayLike, basis: Tensor) -> Tensor:
    """Remove a subspace from states: h ↦ (I − B Bᵀ) h for an orthonormal B [d, r].

    [n, d] in the dtype and on the device of h, computed in float64."""
    h = check_states(h, len(basis))
    b, x = basis.to(h.device), h.double()
    return (x - (x @ b) @ b.T).to(h.dtype)


def not_projected_out(edited: ArrayLike, h: ArrayLike, basis: Tensor) -> Tensor:
    """Which edited states of h kept more along B than rounding explains: bool [n]."""
    edited = check_states(edited, len(basis))
    return is_left(edited.double() @ basis.to(edited.device), tensor(h))


def is_left(part: Tensor, h: Tensor) -> Tensor:
    """Rows [n] in which more of an erased part is left than rounding explains.

    That is ‖part‖ > ε^¾ ‖h‖, with ε the spacing of h's dtype."""
    return ~(part.norm(dim=1) <= torch.finfo(h.dtype).eps ** 0.75 * h.double().norm(dim=1))
