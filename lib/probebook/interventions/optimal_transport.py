"""Optimal transport between Gaussians, each given by its covariance."""

from __future__ import annotations

import torch
from torch import Tensor

MOST_STEPS = 10_000  # of the barycenter; rounding ends its progress long before


def covariance(h: Tensor) -> Tensor:
    """Σ [d, d] of states [n, d], divided by n."""
    centred = h - h.mean(0)
    return centred.T @ centred / len(h)


def spectrum(matrix: Tensor, tol: float = 0.0) -> tuple[Tensor, Tensor]:
    """Positive eigenvalues [r] and eigenvectors [d, r] of a symmetric matrix.

    Those with less than the share `tol` of the largest eigenvalue are left out."""
    values, vectors = torch.linalg.eigh(matrix)
    some = values > tol * values.max().clamp_min(torch.finfo(values.dtype).tiny)
    return values[some], vectors[:, some]


def roots(matrix: Tensor, tol: float = 0.0) -> tuple[Tensor, Tensor]:
    """Σ^½ and Σ^−½ [d, d] of a symmetric Σ ≽ 0; both are 0 in the directions left out."""
    values, vectors = spectrum(matrix, tol)
    scaled = vectors * values**0.5
    return scaled @ vectors.T, scaled / values @ vectors.T


def transport(source: Tensor, target: Tensor, tol: float = 0.0) -> Tensor:
    """The matrix A ≽ 0 with A Σ A = Σ_to that moves the states of a Gaussian least.

    A = Σ^−½ (Σ^½ Σ_to Σ^½)^½ Σ^−½ (Knott & Smith 1984) for `source` Σ and `target` Σ_to, all
    [d, d]. Directions with less than the share `tol` of the source's largest variance count as
    empty, and A is 0 there."""
    root, inverse = roots(source, tol)
    return inverse @ roots(root @ target @ root)[0] @ inverse


def class_moves(x: Tensor, z: Tensor, maps: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
    """Moves t_z + A_z (x − s_z) − x [n, d] of states x [n, d] with classes z [n].

    `maps` A [k, d, d], `sources` s and `targets` t [k, d], on any device."""
    moved = torch.zeros_like(x)
    for c in z.unique().tolist():
        rows = z == c
        map_, source, target = (t[c].to(x.device) for t in (maps, sources, targets))
        moved[rows] = target + (x[rows] - source) @ map_.T - x[rows]
    return moved


def barycenter(covariances: Tensor, shares: Tensor) -> Tensor:
    """The covariance Σ [d, d] to which Gaussians move least: Σ = Σ_c p_c (Σ^½ Σ_c Σ^½)^½.

    `covariances` [k, d, d] ≻ 0, `shares` p [k]. For two it is known in closed form, half way along
    the transport if p = ½. The others are added one after the other, as if each came last. From
    there the fixed-point iteration of Álvarez-Esteban et al. (2016) takes over, until rounding
    ends its progress."""
    centre, weight = covariances[0], shares[0]
    for other, share in zip(covariances[1:], shares[1:]):
        weight = weight + share
        way = torch.eye(len(centre)).to(centre).lerp(transport(centre, other), share / weight)
        centre = way @ centre @ way
    before = torch.inf
    for _ in range(MOST_STEPS):
        root, inverse = roots(centre)
        mean = sum(p * roots(root @ c @ root)[0] for p, c in zip(shares, covariances))
        change = float((mean - centre).norm() / centre.norm())
        if change < 1e-12 or not change < before:
            return centre
        centre, before = inverse @ mean @ mean @ inverse, change
    return centre
