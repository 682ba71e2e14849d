"""S-Learner (Künzel et al. 2019; Abraham et al., § 4, equation 8): a model of the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from probebook.base import to_numpy
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import (
    Explainer,
    Variant,
    check_variant,
    concept_indices,
    fill_labels,
)


class SLearner(Explainer):
    """E(labels with C = c′) − E(labels with C = c), E a logistic regression of N on the labels.

    Each training review counts once for each class, with the probability that N gives to it. If N
    gives a single class to all of them, E is constant and every effect 0.

    - `variant`: "released" does as the released code does: E learns N's most probable class alone,
      and at C = c the base label is a predicted one as well, though c is known.
    - `C`: inverse penalty."""

    sees = ("concept", "source", "target", "labels")

    def __init__(self, variant: Variant = "paper", C: float = 1.0):
        self.variant, self.C = check_variant(variant), C

    def _fit(self, train: pd.DataFrame) -> None:
        x = _indicators(fill_labels(train.text, train[ASPECTS].to_numpy(), self.aspects))
        p = to_numpy(self._probs(train.text))
        if self.variant == "released":
            p = np.eye(self.k)[p.argmax(1)]
        z = np.tile(np.arange(self.k), len(x))
        rows: np.ndarray = np.repeat(np.arange(len(x)), self.k)
        weight = p.ravel()
        possible = weight > 0
        # The best E for a single class says this class for every review.
        learner = (
            LogisticRegression(C=self.C, max_iter=10_000, tol=1e-8)
            if len(np.unique(z[possible])) > 1
            else DummyClassifier()
        )
        self.regression = learner.fit(
            x[rows[possible]], z[possible], sample_weight=weight[possible]
        )

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        rows, place = np.arange(len(pairs)), concept_indices(pairs)
        before, after = (pairs[ASPECTS].to_numpy(copy=True) for _ in range(2))
        after[rows, place] = pairs.target
        if self.variant == "paper":
            before[rows, place] = pairs.source
        p_before, p_after = (self.regression.predict_proba(_indicators(x)) for x in (before, after))
        # The effect on a class that was never predicted stays 0.
        effects = torch.zeros(len(pairs), self.k, dtype=torch.float64)
        effects[:, self.regression.classes_] = torch.from_numpy(p_after - p_before)
        return effects


def _indicators(labels: np.ndarray) -> np.ndarray:
    """[n, 4] labels → [n, 12] float, 1 for each label that is there."""
    return to_numpy(F.one_hot(torch.from_numpy(labels).long(), len(VALUES)).double().flatten(1))
