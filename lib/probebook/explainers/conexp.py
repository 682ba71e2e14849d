"""Conditional expectation (Goyal et al. 2019; Abraham et al., § 4, equation 7)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import Explainer, concept_indices


class CONEXP(Explainer):
    """Mean prediction over the training reviews with C = c′ less that over those with C = c.

    Reviews without a majority label of C are left out. The estimate is the same for all x."""

    sees = ("concept", "source", "target")

    def _fit(self, train: pd.DataFrame) -> None:
        predicted = self._probs(train.text)
        means = [
            predicted[train[aspect].to_numpy() == value].mean(0)
            for aspect in ASPECTS
            for value in range(len(VALUES))
        ]
        # [4, 3, k]; NaN where no review has the label.
        self.means = torch.stack(means).unflatten(0, (len(ASPECTS), len(VALUES)))

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        place = concept_indices(pairs)
        effects = self.means[place, list(pairs.target)] - self.means[place, list(pairs.source)]
        lacking = np.flatnonzero(to_numpy(effects.isnan().any(1)))
        if len(lacking):
            pair = pairs.iloc[lacking[0]]
            raise UserError(
                f"no training review has {pair.concept} {VALUES[pair.source]!r} or "
                f"none {VALUES[pair.target]!r}: add some, or drop those pairs"
            )
        return effects
