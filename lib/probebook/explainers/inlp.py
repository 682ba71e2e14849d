"""Iterative nullspace projection as an explainer (Ravfogel et al. 2020; Abraham et al., § 4 and appendix F)."""
from __future__ import annotations

from typing import Literal

from probebook.corpora.cebab import ASPECTS
from probebook.explainers.base import Explainer, known, labelled
from probebook.interventions import INLP
from probebook.models.training.finetune import train_head


class INLPExplainer(Explainer):
    """N′(P φ(x)) − N(φ(x)): P erases the concept, N′ is N's head trained on for `epochs` on the stars of P φ.

    `rank`: directions that P takes out; 20 are ten rounds of a three-class classifier, which here is a logistic
    regression (the paper, § F.2: "similar behavior" to its SVM) with inverse penalty `C`: with a weak penalty it finds
    directions along which states hardly differ, and P changes little. rank = 0, epochs = 0: no effect. It knows no
    direction c → c′: what it estimates is a change to "unknown". `variant="released"` does as the released code does:
    each epoch is one step on all rows."""

    sees = ("text", "concept")
    white_box = True

    def __init__(self, variant: Literal["paper", "released"] = "paper", rank: int = 20, epochs: int = 5,
                 batch: int = 32, lr: float = 2e-5, seed: int = 0, C: float = .01):
        self.variant, self.rank, self.C = known(variant), rank, C
        self.epochs, self.batch, self.lr, self.seed = epochs, batch, lr, seed

    def _fit(self, train):
        h, z = self.model.phi(list(train.text)), self._classes(train)
        self.edits, self.heads = {}, {}
        for concept in ASPECTS:
            rows = labelled(train, concept, [0, 1, 2])
            edit = self.edits[concept] = INLP(self.rank, C=self.C).fit(h[rows], train[concept].to_numpy()[rows])
            batch = len(h) if self.variant == "released" else self.batch
            self.heads[concept] = train_head(edit(h[z >= 0]), z[z >= 0], self.model.head, self.epochs, batch, self.lr,
                                             self.seed)

    def _effect(self, pairs):
        def effect(concept, rows):
            h = self.model.phi(list(rows.text)).double()
            return self.heads[concept](self.edits[concept](h)).softmax(1) - self.model.head(h).softmax(1)
        return self._each(pairs, effect)
