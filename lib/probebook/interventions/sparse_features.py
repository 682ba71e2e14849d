"""Edits through features of a sparse autoencoder (after Bricken et al. 2023; Cunningham et al.
2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError
from probebook.interventions.mean_shift import nearest_mean
from probebook.interventions.sparse_autoencoder import FittedSparseAutoencoder, SparseAutoencoder
from probebook.probes.checks import check_labels, check_states, check_strength


class SparseFeatures:
    """Moves states towards a class by few features of a sparse autoencoder:
    h ↦ h + s Σ_j (ā_to,j − a_j(h)) d_j over the features j that separate the classes best.

    a_j(h) is the activation of feature j, d_j its direction, a row of W_dec, and ā_to,j the mean
    activation in the wanted class. What the autoencoder does not rebuild, h − ĥ, thus stays in the
    state, and so do all other features.

    A feature's score is the spread of the classes' mean activations over that within the classes:
    for two classes, up to a factor for all features, the difference of the means in pooled standard
    deviations.

    - `n_features`: how many features to set.
    - `autoencoder`: settings, with which `fit` trains one, or one that is fitted already."""

    def __init__(
        self,
        n_features: int = 8,
        autoencoder: SparseAutoencoder | FittedSparseAutoencoder | None = None,
    ):
        if n_features < 1:
            raise UserError(f"n_features={n_features}: give a number of features ≥ 1")
        self.n_features, self.autoencoder = n_features, autoencoder or SparseAutoencoder()

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedSparseFeatures:
        """Train on h [n, d] if need be, and choose the features by z [n] (any k ≥ 2).

        UserError for bad states or labels, or too few features in the autoencoder."""
        h = check_states(h).detach()
        z = check_labels(z, len(h), device=h.device)
        autoencoder = self.autoencoder
        if isinstance(autoencoder, SparseAutoencoder):
            autoencoder = autoencoder.fit(h)
        a = autoencoder.encode(h)
        if self.n_features > a.shape[1]:
            raise UserError(
                f"n_features={self.n_features}: the autoencoder has {a.shape[1]} features"
            )
        onehot = F.one_hot(z).to(a)
        shares = onehot.mean(0)
        means = onehot.T @ a / len(a) / shares[:, None]  # [k, m]
        between = shares @ (means - shares @ means).square()
        within = (a - means[z]).square().mean(0)
        scores = (between / within.clamp_min(torch.finfo(a.dtype).tiny)).sqrt()
        chosen = scores.argsort(descending=True, stable=True)[: self.n_features]
        return FittedSparseFeatures(autoencoder, chosen, scores[chosen], means[:, chosen])


@dataclass(frozen=True)
class FittedSparseFeatures:
    """Moves states to a class: `edit(h, to=labels)` → [n, d] in the dtype and on the device of h.

    `chosen` [≤ m]: the features that are set, best first; `scores`: of each; `means`
    [k, chosen]: mean activations in each class."""

    autoencoder: FittedSparseAutoencoder
    chosen: Tensor
    scores: Tensor
    means: Tensor
    strength: float = 1.0

    def at(self, strength: float) -> FittedSparseFeatures:
        """The same features, moved by the share s ≥ 0 of the way to the wanted activations."""
        return replace(self, strength=check_strength(strength))

    def __call__(self, h: ArrayLike, to: ArrayLike) -> Tensor:
        """Edited states [n, d]."""
        h = check_states(h, len(self.autoencoder.centre))
        to = check_labels(to, len(h), len(self.means), h.device)
        chosen, means = self.chosen.to(h.device), self.means.to(h.device)
        missing = means[to] - self.autoencoder.encode(h)[:, chosen]
        moved = missing @ self.autoencoder.decoder.to(h.device)[chosen]
        return (h.double() + self.strength * moved).to(h.dtype)

    def failed(self, edited: ArrayLike, to: ArrayLike) -> Tensor:
        """In which edited states the autoencoder, asked again, sees activations that are nearer to
        another class's means than to those of `to`: bool [n]."""
        a = self.autoencoder.encode(edited)
        to = check_labels(to, len(a), len(self.means), a.device)
        return nearest_mean(a[:, self.chosen.to(a.device)], self.means) != to
