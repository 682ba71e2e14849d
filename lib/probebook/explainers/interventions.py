"""Interventions as explainers: what an edit of a review's state changes in the classifier's output.

INLP is the paper's (Abraham et al., § 4 and appendix F); the others, which know the wanted label,
are not in it. The paper asks (§ 6) whether INLP could use the direction of the change."""

from __future__ import annotations

from copy import copy

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.corpora.cebab import VALUES
from probebook.explainers.base import Explainer, Variant, check_variant, fit_concepts
from probebook.interventions import INLP, LEACE, PGD, AlterRep
from probebook.models.training.finetune import train_head
from probebook.probes import LinearProbe


class INLPExplainer(Explainer):
    """N′(P φ(x)) − N(φ(x)): P erases the concept, N′ is N's head trained on, on the stars of P φ.

    It knows no direction c → c′: it estimates a change to "unknown".

    - `variant`: "released" does as the released code does: each epoch is one step on all rows.
    - `rank`: directions that P removes; 20 are ten rounds of a three-class classifier.
    - `epochs`, `batch`, `lr`, `seed`: of N′. With rank 0 and no epochs the effect is 0.
    - `C`: inverse penalty of INLP's logistic regressions (the paper's SVM has "similar behavior",
      § F.2). A weak penalty finds directions along which states hardly differ, so P changes
      little."""

    sees = ("text", "concept")
    white_box = True

    def __init__(
        self,
        variant: Variant = "paper",
        rank: int = 20,
        epochs: int = 5,
        batch: int = 32,
        lr: float = 2e-5,
        seed: int = 0,
        C: float = 0.01,
    ):
        self.variant, self.rank, self.C = check_variant(variant), rank, C
        self.epochs, self.batch, self.lr, self.seed = epochs, batch, lr, seed

    def _fit(self, train: pd.DataFrame) -> None:
        h, z = self.model.phi(list(train.text)), self._classes(train)
        batch = len(h) if self.variant == "released" else self.batch
        self.edits = fit_concepts(train, h, INLP(self.rank, C=self.C).fit)
        self.heads = {
            concept: train_head(
                edit(h[z >= 0]), z[z >= 0], self.model.head, self.epochs, batch, self.lr, self.seed
            )
            for concept, edit in self.edits.items()
        }

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def effect(concept: str, rows: pd.DataFrame) -> Tensor:
            h = self.model.phi(list(rows.text)).double()
            edited = self.heads[concept](self.edits[concept](h))
            return edited.softmax(1) - self.model.head(h).softmax(1)

        return self._each(pairs, effect)


class LEACEExplainer(Explainer):
    """N(ĥ) − N(φ(x)), ĥ = LEACE(φ(x)) + μ_c′ − μ.

    LEACE gives the reviews of every label the same mean μ, so whatever the label of x was, the
    edited reviews of that label have the mean μ_c′."""

    sees = ("text", "concept", "target")
    white_box = True

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text)).double()
        self.edits = fit_concepts(train, h, LEACE().fit)
        self.shifts = fit_concepts(train, h, _shifts)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def edit(concept: str, h: Tensor, to: Tensor) -> Tensor:
            return self.edits[concept](h) + self.shifts[concept].to(h)[to]

        return self._moved(pairs, edit)


def _shifts(x: Tensor, z: np.ndarray) -> Tensor:
    """μ_c − μ of each label c [3, d]."""
    return torch.stack([x[z == c].mean(0) for c in range(len(VALUES))]) - x.mean(0)


class AlterRepExplainer(Explainer):
    """N(AlterRep(φ(x), to = c′)) − N(φ(x)): the state is moved to the side of c′.

    The paper asks (§ 6) whether INLP could use the direction of the change: this is one way.

    - `alpha`: strength of the edit.
    - `max_rank`: directions of INLP.
    - `C`: its inverse penalty; a weak one finds directions along which states hardly differ."""

    sees = ("text", "concept", "target")
    white_box = True

    def __init__(self, alpha: float = 1.0, max_rank: int = 2, C: float = 0.01):
        self.alpha, self.max_rank, self.C = alpha, max_rank, C

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text))
        self.edits = fit_concepts(train, h, AlterRep(self.max_rank, C=self.C).fit)

    def at(self, alpha: float) -> AlterRepExplainer:
        """The same fit at strength α ≥ 0."""
        other = copy(self)
        other.alpha = alpha
        return other

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def edit(concept: str, h: Tensor, to: Tensor) -> Tensor:
            return self.edits[concept].at(self.alpha)(h, to=to)

        return self._moved(pairs, edit)


class PGDExplainer(Explainer):
    """N(ĥ) − N(φ(x)): ĥ is moved within ε of φ(x) until a linear probe of the concept says c′.

    - `eps`: L2 radius, as a share of the mean distance of the training states from their mean.
    - `steps`: of PGD.
    - `C`: inverse penalty of the probe."""

    sees = ("text", "concept", "target")
    white_box = True

    def __init__(self, eps: float = 0.5, steps: int = 40, C: float = 0.01):
        self.eps, self.steps, self.C = eps, steps, C

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text))
        self.radius = float((h - h.mean(0)).norm(dim=1).mean())
        self.probes = fit_concepts(train, h, lambda h, z: LinearProbe(self.C).fit(h, z))

    def at(self, eps: float) -> PGDExplainer:
        """The same fit with another radius."""
        other = copy(self)
        other.eps = eps
        return other

    def attack(self, concept: str) -> PGD:
        """The attack on the probe of a concept."""
        return PGD(self.probes[concept], self.eps * self.radius, "l2", self.steps)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def edit(concept: str, h: Tensor, to: Tensor) -> Tensor:
            return self.attack(concept)(h, to=to)

        return self._moved(pairs, edit)
