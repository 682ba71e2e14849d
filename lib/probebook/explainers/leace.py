"""LEACE as an explainer (not in the paper): erase the concept, then add the wanted label's mean."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.corpora.cebab import VALUES
from probebook.explainers.base import Explainer, fit_concepts
from probebook.interventions import LEACE


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
