"""AlterRep as an explainer (not in the paper): INLP's directions and the wanted label's side."""

from __future__ import annotations

from copy import copy

import pandas as pd
from torch import Tensor

from probebook.explainers.base import Explainer, fit_concepts
from probebook.interventions import AlterRep


class AlterRepExplainer(Explainer):
    """N(AlterRep(φ(x), to = c′)) − N(φ(x)): the state is moved to the side of c′.

    The paper asks (§ 6) whether INLP could use the direction of the change: this is one way.

    - `alpha`: strength of the edit.
    - `max_rank`: directions of INLP.
    - `C`: its inverse penalty; a weak one finds directions along which states hardly differ."""

    sees = ("text", "concept", "target")
    white_box = True

    def __init__(self, alpha: float = 1.0, max_rank: int = 2, C: float = 0.01):
        self.alpha, self.max_rank, self.C = alpha, max_rank, C

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text))
        self.edits = fit_concepts(train, h, AlterRep(self.max_rank, C=self.C).fit)

    def at(self, alpha: float) -> AlterRepExplainer:
        """The same fit at strength α ≥ 0."""
        other = copy(self)
        other.alpha = alpha
        return other

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def edit(concept: str, h: Tensor, to: Tensor) -> Tensor:
            return self.edits[concept].at(self.alpha)(h, to=to)

        return self._moved(pairs, edit)
