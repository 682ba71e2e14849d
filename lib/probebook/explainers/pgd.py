"""A gradient-based counterfactual of φ(x) as an explainer (not in the paper; the attack is chapter 1's)."""
from __future__ import annotations

from copy import copy

from probebook.corpora.cebab import ASPECTS
from probebook.explainers.base import Explainer, labelled
from probebook.interventions import PGD
from probebook.probes import LinearProbe


class PGDExplainer(Explainer):
    """N(ĥ) − N(φ(x)): ĥ is within ε of φ(x), and a linear probe of the concept's label there says c′.

    `eps`: L2 radius, as a share of the mean distance of the training states from their mean; `C`: of the probe."""

    sees = ("text", "concept", "target")
    white_box = True

    def __init__(self, eps: float = .5, steps: int = 40, C: float = .01):
        self.eps, self.steps, self.C = eps, steps, C

    def _fit(self, train):
        h, self.probes = self.model.phi(list(train.text)), {}
        self.radius = float((h - h.mean(0)).norm(dim=1).mean())
        for concept in ASPECTS:
            rows = labelled(train, concept, [0, 1, 2])
            self.probes[concept] = LinearProbe(self.C).fit(h[rows], train[concept].to_numpy()[rows])

    def at(self, eps: float) -> PGDExplainer:
        """The same fit with another radius."""
        other = copy(self)
        other.eps = eps
        return other

    def attack(self, concept: str) -> PGD:
        return PGD(self.probes[concept], self.eps * self.radius, "l2", self.steps)

    def _effect(self, pairs):
        return self._moved(pairs, lambda concept, h, to: self.attack(concept)(h, to=to))
