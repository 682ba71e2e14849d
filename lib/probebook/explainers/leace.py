"""Least-squares erasure with the wanted label put in (not in the paper; the erasure is chapter 1's)."""
from __future__ import annotations

import torch

from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import Explainer, labelled
from probebook.interventions import LEACE


class LEACEExplainer(Explainer):
    """N(ĥ) − N(φ(x)), ĥ = LEACE(φ(x)) + μ_c′ − μ: what is linear of the concept goes, then the mean of c′ comes in.

    LEACE gives all labels' reviews the same mean μ, so whatever x's own label was, its like get the mean μ_c′."""

    sees = ("text", "concept", "target")
    white_box = True

    def _fit(self, train):
        h, self.edits, self.shifts = self.model.phi(list(train.text)).double(), {}, {}
        for concept in ASPECTS:
            rows = labelled(train, concept, range(len(VALUES)))
            x, z = h[rows], torch.from_numpy(train[concept].to_numpy()[rows])
            self.edits[concept] = LEACE().fit(x, z)
            self.shifts[concept] = torch.stack([x[z == v].mean(0) for v in range(len(VALUES))]) - x.mean(0)

    def _effect(self, pairs):
        return self._moved(pairs, lambda concept, h, to: self.edits[concept](h) + self.shifts[concept][to])
