"""Approximate counterfactuals (Abraham et al., § 4, equation 6): another review that has the wanted labels."""
from __future__ import annotations

import numpy as np
import pandas as pd

from probebook.corpora.cebab import ASPECTS
from probebook.explainers.base import Explainer, filled, places


class Approx(Explainer):
    """N(φ(x″)) − N(φ(x)), x″ a training review with the four labels that the counterfactual should have.

    The pool is the whole training table, edits included. Where several reviews fit, one is drawn; where none does,
    one of the nearest: the changed aspect's label right if any review has it, then the most other labels right."""

    sees = ("text", "concept", "target", "labels")

    def __init__(self, seed: int = 0):
        self.seed = seed

    def _fit(self, train):
        self.pool = filled(train.text, train[ASPECTS].to_numpy(), self.aspects)
        self.predicted = self._probs(train.text)

    def _effect(self, pairs):
        place = places(pairs)
        wanted = pairs[ASPECTS].to_numpy(copy=True)
        wanted[np.arange(len(pairs)), place] = pairs.target
        drawn, rng = np.empty(len(pairs), np.int64), np.random.default_rng(self.seed)
        alike = pd.DataFrame(wanted, columns=ASPECTS).assign(place=place).groupby([*ASPECTS, "place"]).indices
        for (*labels, concept), rows in alike.items():
            wrong = self.pool != labels
            distance = wrong.sum(1) + len(ASPECTS) * wrong[:, concept]
            drawn[rows] = rng.choice(np.flatnonzero(distance == distance.min()), size=len(rows))
        return self.predicted[drawn] - self._probs(pairs.text)
