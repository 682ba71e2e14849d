"""INLP as an explainer (Ravfogel et al. 2020; Abraham et al., § 4 and appendix F)."""

from __future__ import annotations

import pandas as pd
from torch import Tensor

from probebook.explainers.base import Explainer, Variant, check_variant, fit_concepts
from probebook.interventions import INLP
from probebook.models.training.finetune import train_head


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
