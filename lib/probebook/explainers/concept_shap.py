"""ConceptSHAP (Yeh et al. 2020; Abraham et al., § 4 and § H): Shapley values of the concepts."""

from __future__ import annotations

from math import factorial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS
from probebook.explainers.base import Explainer, Variant, check_variant, concept_indices
from probebook.explainers.coalitions import Coalitions
from probebook.explainers.tcav import separators
from probebook.models.cache import cached, digest


class ConceptSHAP(Explainer):
    """Σ_S w(S) [η(S ∪ C) − η(S)] over sets S of other concepts, η(S) = N(g_S(V_S φ(x)))  (eq. 24).

    V_S φ(x) are the coordinates of φ(x) along S's separators (TCAV's). g_S is a perceptron that
    maps them back to a state; it is trained so that N of that state gives the training reviews'
    classes. ConceptSHAP knows no direction c → c′.

    - `variant`: "released" does as the released code does. The separators are those of that TCAV.
      g has no ReLU; its loss is the binary cross-entropy of each class, over batches in a fixed
      order. η is the logits; the estimate is the softmax of their Shapley values less ½; in
      `completeness` chance is subtracted from counts.
    - `hidden`: units of g's one hidden layer.
    - `epochs`, `batch`, `lr`, `seed`: of its training.
    - `scored`: for "released" alone, whose code trains g on the base reviews of the very pairs that
      are scored, with their stars: a table like `train`, used in its place for g."""

    sees = ("text", "concept")
    white_box = True

    def __init__(
        self,
        variant: Variant = "paper",
        hidden: int = 500,
        epochs: int = 50,
        batch: int = 128,
        lr: float = 1e-2,
        seed: int = 0,
        scored: pd.DataFrame | None = None,
    ):
        if scored is not None and variant == "paper":
            raise UserError(
                "the paper's g is trained on the training reviews: "
                "scored= is for variant='released'"
            )
        self.variant, self.hidden, self.scored = check_variant(variant), hidden, scored
        self.epochs, self.batch, self.lr, self.seed = epochs, batch, lr, seed

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text))
        self.directions = separators(h, train, self.variant, self.seed).to(h)
        if self.scored is not None:
            train = self._shown(self.scored)
            h = self.model.phi(list(train.text))
        z = self._classes(train)
        h, z = h[z >= 0], z[z >= 0].to(h.device)
        self.coalitions = self._trained(h @ self.directions.to(h).T, z, h.shape[1])
        with_concepts = (self._eta(h)[-1].argmax(1) == z).double()
        with_state = (self.model.head(h).argmax(1) == z).double()
        chance = 1 / self.k
        if self.variant == "released":
            gains = with_concepts.sum() - chance, with_state.sum() - chance
        else:  # equation 25, on the training reviews
            gains = with_concepts.mean() - chance, with_state.mean() - chance
        self.completeness = float(gains[0] / gains[1])

    def _trained(self, x: Tensor, z: Tensor, d: int) -> Coalitions:
        """The perceptrons, cached: another page may explain the same model."""
        head, released = self.model.head, self.variant == "released"
        start = Coalitions.random(len(ASPECTS), self.hidden, d, self.seed, released)
        settings = [self.variant, self.hidden, self.epochs, self.batch, self.lr, self.seed]
        key = [*settings, digest({"x": x, "z": z, **head.tensors()})]

        def train() -> dict[str, Tensor]:
            return start.train(x, z, head, self.epochs, self.batch, self.lr, self.seed).tensors()

        return Coalitions.from_tensors(cached("concept_shap", key, train), released)

    def rebuild(self, h: Tensor) -> Tensor:
        """g_S(V_S h) of each set S of concepts [2^m, n, d], from states h [n, d]."""
        return self.coalitions(h @ self.directions.to(h).T)

    def _eta(self, h: Tensor) -> Tensor:
        logits = self.model.head(self.rebuild(h))
        return logits if self.variant == "released" else logits.softmax(2)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        values = shapley(self._eta(self.model.phi(list(pairs.text))).double())
        estimates = values[concept_indices(pairs), np.arange(len(pairs))]
        return estimates.softmax(1) - 0.5 if self.variant == "released" else estimates


def shapley(values: Tensor) -> Tensor:
    """Shapley values [m, …] of a game's values [2^m, …].

    Bit i of the first index says whether player i takes part."""
    m = len(values).bit_length() - 1
    sets = torch.arange(len(values))
    found = []
    for i in range(m):
        without = sets[sets & 1 << i == 0]
        sizes = [s.bit_count() for s in without.tolist()]
        weights = [factorial(m - size - 1) * factorial(size) / factorial(m) for size in sizes]
        gains = values[without | 1 << i] - values[without]
        found.append(torch.tensordot(torch.tensor(weights).to(values), gains, 1))
    return torch.stack(found)
