"""CausaLM (Feder et al. 2021; Abraham et al., § 4, equation 10, and appendix E): an encoder that unlearns a concept."""
from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pandas as pd
import torch
from scipy.stats.contingency import association
from torch import nn
from torch.nn import functional as F

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import Explainer, known, labelled
from probebook.models.cache import cached
from probebook.models.classifier import FittedClassifier, shorten
from probebook.models.cut import upper
from probebook.models.training.cloze import Cloze
from probebook.models.training.finetune import Head, Trainer, learnt, restored, seeded, train_head


class CausaLM(Explainer):
    """N′(φ_CF(x)) − N(φ(x)): φ_CF is an encoder without the concept, N′ a head trained on its states.

    φ_CF goes on from the encoder before it was fine-tuned, with three losses: its own language modelling (none for an
    encoder without a language-model head), a head for the control concept, the one that goes most with the treated one
    (Cramér's V), and a head for the treated concept, whose gradient reaches the encoder reversed and times `adversary`
    λ (λ < 0 would teach it). Then N′ is trained on the stars of φ_CF(x), which stays as it is. Defaults: § E.2's. It
    knows no direction: what it estimates is a change to "unknown".

    `variant="released"` does as the released code does: the treated head's loss is subtracted, so that this head
    unlearns too, and N′ is compared with a head trained alike on the encoder before it was fine-tuned, not with N."""

    sees = ("text", "concept")
    white_box = True

    def __init__(self, variant: Literal["paper", "released"] = "paper", epochs: int = 3, batch: int = 48,
                 lr: float = 2e-5, adversary: float = .1, head_epochs: int = 50, head_batch: int = 256,
                 head_lr: float = 1e-3, seed: int = 0):
        self.variant, self.epochs, self.batch, self.lr, self.adversary = known(variant), epochs, batch, lr, adversary
        self.head_epochs, self.head_batch, self.head_lr, self.seed = head_epochs, head_batch, head_lr, seed

    def _fit(self, train):
        if not hasattr(self.model, "recipe"):
            raise UserError("CausaLM trains the model's encoder anew: it needs a fitted Classifier")
        z = self._classes(train)
        self.counterfactual = {}
        for concept in ASPECTS:
            labelled(train, concept, range(len(VALUES)))
            self.counterfactual[concept] = self._classifier(self._encoder(train, concept), train, z)
        released = self.variant == "released"
        self.factual = self._classifier(self.model.recipe.body(), train, z) if released else self.model

    def _effect(self, pairs):
        def effect(concept, rows):
            return self.counterfactual[concept](rows.text) - self.factual(rows.text)
        return self._each(pairs, effect)

    def _classifier(self, body, train, z):
        """A head trained on the body's states, with the body."""
        model = FittedClassifier(self.model.recipe, body, Head.drawn(body.width, self.k, self.seed))
        h = model.phi(train.text[(z >= 0).numpy()])
        return replace(model, head=train_head(h, z[z >= 0], model.head, self.head_epochs, self.head_batch,
                                              self.head_lr, self.seed))

    def _encoder(self, train, concept):
        """φ_CF of a concept, kept in the cache folder: the same for every classifier that began with this encoder."""
        recipe, control = self.model.recipe, control_concept(train, concept)
        body = recipe.body()
        texts = shorten(train.text.tolist(), body, recipe.max_length)
        targets = torch.from_numpy(train[[concept, control]].to_numpy(copy=True))
        settings = [self.variant, self.epochs, self.batch, self.lr, self.adversary, self.seed]
        key = [body.fingerprint, recipe.position(body), settings, texts, targets.tolist()]
        return restored(recipe.body(), cached("causalm", key, lambda: self._unlearn(body, texts, targets)))

    def _unlearn(self, body, texts, targets):
        with seeded(self.seed):
            treated, control = (nn.Linear(body.width, len(VALUES)).to(body.device) for _ in range(2))
        cloze = Cloze(body)
        parameters = [*upper(body, body.net).values(), *treated.parameters(), *control.parameters()]
        trainer = Trainer(body, texts, self.model.recipe.position(body), parameters, self.epochs, self.batch, self.lr,
                          self.seed, cloze.change)
        for rows, h, hidden in trainer:
            wanted = targets[rows].to(h.device)
            trainer.step(cloze.loss(hidden) + _loss(control(h), wanted[:, 1]) + self._against(treated, h, wanted[:, 0]))
        return learnt(body)

    def _against(self, treated, h, labels):
        """The treated concept's loss, from which the head learns (paper) and the encoder unlearns (times λ)."""
        if self.variant == "released":
            return -self.adversary * _loss(treated(h), labels)
        return _loss(treated(reverse(h, self.adversary)), labels)


def reverse(h: torch.Tensor, strength: float) -> torch.Tensor:
    """h, but its gradient comes back times −strength (Ganin & Lempitsky 2015)."""
    return (1 + strength) * h.detach() - strength * h


def control_concept(train: pd.DataFrame, concept: str) -> str:
    """The other concept with the largest Cramér's V over the reviews in which both have a label."""
    def together(other):
        rows = (train[concept] >= 0) & (train[other] >= 0)
        counts = pd.crosstab(train[concept][rows], train[other][rows])
        return association(counts, method="cramer") if min(counts.shape) > 1 else 0.0
    return max((other for other in ASPECTS if other != concept), key=together)


def _loss(logits, labels):
    """Mean cross-entropy over the rows that have a label (not −1); 0 where none has."""
    return F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum") / (labels >= 0).sum().clamp_min(1)
