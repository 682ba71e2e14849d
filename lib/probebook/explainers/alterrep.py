"""AlterRep as an explainer (not in the paper): INLP's directions, but with the wanted label's side of them."""
from __future__ import annotations

from copy import copy

from probebook.corpora.cebab import ASPECTS
from probebook.explainers.base import Explainer, labelled
from probebook.interventions import AlterRep


class AlterRepExplainer(Explainer):
    """N(AlterRep(φ(x), to = c′)) − N(φ(x)): the state is moved to the side of c′, with strength α, along `max_rank`
    directions of INLP with inverse penalty `C` (a weak penalty finds directions along which states hardly differ).

    The paper asks (§ 6) whether INLP could be extended to use the direction of the change: this is one way to."""

    sees = ("text", "concept", "target")
    white_box = True

    def __init__(self, alpha: float = 1.0, max_rank: int = 2, C: float = .01):
        self.alpha, self.max_rank, self.C = alpha, max_rank, C

    def _fit(self, train):
        h, self.edits = self.model.phi(list(train.text)), {}
        for concept in ASPECTS:
            rows = labelled(train, concept, [0, 1, 2])
            self.edits[concept] = AlterRep(self.max_rank, C=self.C).fit(h[rows], train[concept].to_numpy()[rows])

    def at(self, alpha: float) -> AlterRepExplainer:
        """The same fit at strength α ≥ 0."""
        other = copy(self)
        other.alpha = alpha
        return other

    def _effect(self, pairs):
        return self._moved(pairs, lambda concept, h, to: self.edits[concept].at(self.alpha)(h, to=to))
