"""Testing with concept activation vectors (Kim et al. 2018; Abraham et al., § 4, equation 9, and appendix G)."""
from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import SGDClassifier
from torch.autograd import forward_ad

from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import UNKNOWN, Explainer, known, labelled, places

POSITIVE = VALUES.index("Positive")


class TCAV(Explainer):
    """tanh of each logit's derivative at φ(x) along v_C, the normal of a separator of C present from C unknown.

    It knows no direction: the estimate for Negative → Positive is that for Positive → Negative. `variant="released"`
    does as the released code does: present means Positive (the Negative reviews are dropped), v_C has length 1 and
    points away from the concept, and the gradients of the classes pile up, so that class j gets the sum of the
    derivatives of classes up to j."""

    sees = ("text", "concept")
    white_box = True

    def __init__(self, variant: Literal["paper", "released"] = "paper", seed: int = 0):
        self.variant, self.seed = known(variant), seed

    def _fit(self, train):
        self.directions = separators(self.model.phi(list(train.text)), train, self.variant, self.seed)

    def _effect(self, pairs):
        h = self.model.phi(list(pairs.text)).double()
        along = self.directions[places(pairs)]
        with forward_ad.dual_level():                                              # all logits in one pass: [n, k]
            derivatives = forward_ad.unpack_dual(self.model.head(forward_ad.make_dual(h, along))).tangent
        return (derivatives.cumsum(1) if self.variant == "released" else derivatives).tanh()


def separators(h: torch.Tensor, train: pd.DataFrame, variant: str, seed: int) -> torch.Tensor:
    """v_C of the four concepts [4, d] float64: a linear SVM by SGD (α = .01, tol = .001, 1000 iterations; § G.2)."""
    found = []
    for aspect in ASPECTS:
        present = [POSITIVE] if variant == "released" else [v for v in range(len(VALUES)) if v != UNKNOWN]
        rows = labelled(train, aspect, [*present, UNKNOWN])
        svm = SGDClassifier(alpha=.01, tol=1e-3, max_iter=1000, random_state=seed)
        found.append(svm.fit(h[rows].double().numpy(), train[aspect].to_numpy()[rows] != UNKNOWN).coef_[0])
    v = torch.from_numpy(np.stack(found))
    return -v / v.norm(dim=1, keepdim=True) if variant == "released" else v
