"""Testing with concept activation vectors (Kim et al. 2018; Abraham et al., § 4, eq. 9, § G)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import SGDClassifier
from torch import Tensor
from torch.autograd import forward_ad

from probebook.base import check_choice, to_numpy
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import (
    UNKNOWN,
    VARIANTS,
    Explainer,
    Variant,
    concept_indices,
    labelled_rows,
)

POSITIVE = VALUES.index("Positive")


class TCAV(Explainer):
    """tanh of each logit's derivative at φ(x) along v_C, which separates C present from C unknown.

    v_C is the normal of the separator. The estimate knows no direction: that for Negative →
    Positive is that for Positive → Negative.

    - `variant`: "released" does as the released code does. Present means Positive (the Negative
      reviews are dropped). v_C has length 1 and points away from the concept. The gradients of the
      classes pile up: class j gets the sum of the derivatives of classes up to j.
    - `seed`: of the separators."""

    sees = ("text", "concept")
    white_box = True

    def __init__(self, variant: Variant = "paper", seed: int = 0):
        self.variant, self.seed = check_choice(variant, "variant", VARIANTS), seed

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text))
        self.directions = separators(h, train, self.variant, self.seed)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        h = self.model.phi(list(pairs.text)).double()
        along = self.directions[concept_indices(pairs)].to(h)
        with forward_ad.dual_level():  # all logits in one pass: [n, k]
            logits = self.model.head(forward_ad.make_dual(h, along))
            derivatives = forward_ad.unpack_dual(logits).tangent
        return (derivatives.cumsum(1) if self.variant == "released" else derivatives).tanh()


def separators(h: Tensor, train: pd.DataFrame, variant: str, seed: int) -> Tensor:
    """v_C of the four concepts [4, d] float64: a linear SVM by SGD (§ G.2)."""
    released, normals = variant == "released", []
    present = [POSITIVE] if released else [v for v in range(len(VALUES)) if v != UNKNOWN]
    for aspect in ASPECTS:
        rows = labelled_rows(train, aspect, [*present, UNKNOWN])
        svm = SGDClassifier(alpha=0.01, tol=1e-3, max_iter=1000, random_state=seed)
        svm.fit(to_numpy(h[rows].double()), train[aspect].to_numpy()[rows] != UNKNOWN)
        normals.append(svm.coef_[0])
    v = torch.from_numpy(np.stack(normals))
    return -v / v.norm(dim=1, keepdim=True) if released else v
