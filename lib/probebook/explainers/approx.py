"""Approximate counterfactuals (Abraham et al., § 4, equation 6)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from torch import Tensor

from probebook.corpora.cebab import ASPECTS
from probebook.explainers.base import Explainer, concept_indices, fill_labels


class Approx(Explainer):
    """N(φ(x″)) − N(φ(x)), x″ a training review with the four labels of the counterfactual.

    The pool is the whole training table, edits included. Where several reviews fit, one is drawn
    by `seed`; where none fits, one of the nearest: with the changed aspect's label right if any
    review has it, then with as many other labels right as possible."""

    sees = ("text", "concept", "target", "labels")

    def __init__(self, seed: int = 0):
        self.seed = seed

    def _fit(self, train: pd.DataFrame) -> None:
        self.pool = fill_labels(train.text, train[ASPECTS].to_numpy(), self.aspects)
        self.predicted = self._probs(train.text)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        place = concept_indices(pairs)
        wanted = pairs[ASPECTS].to_numpy(copy=True)
        wanted[np.arange(len(pairs)), place] = pairs.target
        matches: np.ndarray = np.empty(len(pairs), np.int64)
        rng = np.random.default_rng(self.seed)
        wishes = pd.DataFrame(wanted, columns=ASPECTS).assign(place=place)
        for (*labels, concept), rows in wishes.groupby([*ASPECTS, "place"]).indices.items():
            wrong = self.pool != labels
            distance = wrong.sum(1) + len(ASPECTS) * wrong[:, concept]
            nearest = np.flatnonzero(distance == distance.min())
            matches[rows] = rng.choice(nearest, size=len(rows))
        return self.predicted[matches] - self._probs(pairs.text)
