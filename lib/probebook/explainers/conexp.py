"""Conditional expectation (Goyal et al. 2019; Abraham et al., § 4, equation 7)."""
from __future__ import annotations

import numpy as np
import torch

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import Explainer, places


class CONEXP(Explainer):
    """Mean prediction over the training reviews with C = c′ less that over those with C = c; reviews whose C has no
    majority label are left out. One estimate for all x."""

    sees = ("concept", "source", "target")

    def _fit(self, train):
        predicted = self._probs(train.text)
        means = [[predicted[train[aspect].to_numpy() == v].mean(0) for v in range(len(VALUES))] for aspect in ASPECTS]
        self.means = torch.stack([torch.stack(row) for row in means])              # [4, 3, k]; NaN where no review is

    def _effect(self, pairs):
        place = places(pairs)
        effects = self.means[place, list(pairs.target)] - self.means[place, list(pairs.source)]
        lacking = np.flatnonzero(effects.isnan().any(1))
        if len(lacking):
            pair = pairs.iloc[lacking[0]]
            raise UserError(f"no training review has {pair.concept} {VALUES[pair.source]!r} or none "
                            f"{VALUES[pair.target]!r}: add some, or drop those pairs")
        return effects
