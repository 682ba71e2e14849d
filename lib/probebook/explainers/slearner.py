"""S-Learner (Künzel et al. 2019; Abraham et al., § 4, equation 8): a model of the model, from the labels alone."""
from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import Explainer, filled, known, places


class SLearner(Explainer):
    """E(labels with C = c′) − E(labels with C = c), E a logistic regression from the four labels to N's output.

    Each training review counts once for each class, with the probability that N gives to it. `C`: inverse penalty.
    `variant="released"` does as the released code does: E learns N's most probable class alone, and at C = c the
    base label is a predicted one as well, though c is known."""

    sees = ("concept", "source", "target", "labels")

    def __init__(self, variant: Literal["paper", "released"] = "paper", C: float = 1.0):
        self.variant, self.C = known(variant), C

    def _fit(self, train):
        x, p = _indicators(filled(train.text, train[ASPECTS].to_numpy(), self.aspects)), self._probs(train.text).numpy()
        if self.variant == "released":
            p = np.eye(self.k)[p.argmax(1)]
        z, rows = np.tile(np.arange(self.k), len(x)), np.repeat(np.arange(len(x)), self.k)
        kept = p.ravel() > 0
        if len(np.unique(z[kept])) < 2:
            raise UserError("the model gives every training review the same class: there is nothing to explain")
        self.regression = LogisticRegression(C=self.C, max_iter=10_000, tol=1e-8).fit(
            x[rows[kept]], z[kept], sample_weight=p.ravel()[kept])

    def _effect(self, pairs):
        labels, rows = pairs[ASPECTS].to_numpy(), np.arange(len(pairs))
        place, (before, after) = places(pairs), (labels.copy(), labels.copy())
        after[rows, place] = pairs.target
        if self.variant == "paper":
            before[rows, place] = pairs.source
        effects = torch.zeros(len(pairs), self.k, dtype=torch.float64)             # a class never predicted stays 0
        change = self.regression.predict_proba(_indicators(after)) - self.regression.predict_proba(_indicators(before))
        effects[:, self.regression.classes_] = torch.from_numpy(change)
        return effects


def _indicators(labels: np.ndarray) -> np.ndarray:
    """[n, 4] labels → [n, 12] float, a 1 for each label that is there."""
    return F.one_hot(torch.from_numpy(labels).long(), len(VALUES)).double().flatten(1).numpy()
