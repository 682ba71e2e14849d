"""PGD as an explainer (not in the paper): a gradient-based counterfactual of φ(x)."""

from __future__ import annotations

from copy import copy

import pandas as pd
from torch import Tensor

from probebook.explainers.base import Explainer, fit_concepts
from probebook.interventions import PGD
from probebook.probes import LinearProbe


class PGDExplainer(Explainer):
    """N(ĥ) − N(φ(x)): ĥ is moved within ε of φ(x) until a linear probe of the concept says c′.

    - `eps`: L2 radius, as a share of the mean distance of the training states from their mean.
    - `steps`: of PGD.
    - `C`: inverse penalty of the probe."""

    sees = ("text", "concept", "target")
    white_box = True

    def __init__(self, eps: float = 0.5, steps: int = 40, C: float = 0.01):
        self.eps, self.steps, self.C = eps, steps, C

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text))
        self.radius = float((h - h.mean(0)).norm(dim=1).mean())
        self.probes = fit_concepts(train, h, lambda h, z: LinearProbe(self.C).fit(h, z))

    def at(self, eps: float) -> PGDExplainer:
        """The same fit with another radius."""
        other = copy(self)
        other.eps = eps
        return other

    def attack(self, concept: str) -> PGD:
        """The attack on the probe of a concept."""
        return PGD(self.probes[concept], self.eps * self.radius, "l2", self.steps)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def edit(concept: str, h: Tensor, to: Tensor) -> Tensor:
            return self.attack(concept)(h, to=to)

        return self._moved(pairs, edit)
