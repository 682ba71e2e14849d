"""CausaLM (Feder et al. 2021; Abraham et al., § 4, equation 10, and appendix E)."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import torch
from scipy.stats.contingency import association
from torch import Tensor, nn
from torch.nn import functional as F

from probebook.base import UserError, check_choice, to_numpy
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import VARIANTS, Explainer, Variant, labelled_rows
from probebook.models.cache import load_or_compute
from probebook.models.classifier import FittedClassifier, shorten
from probebook.models.cut import upper_parameters
from probebook.models.loading import Model
from probebook.models.training.finetune import (
    Cloze,
    Head,
    Trainer,
    torch_seed,
    train_head,
    trained_weights,
    with_weights,
)


class CausaLM(Explainer):
    """N′(φ_CF(x)) − N(φ(x)): φ_CF is an encoder that has unlearnt the concept, N′ a head on it.

    φ_CF starts from the encoder before it was fine-tuned. It is trained with three losses: its own
    language modelling (none for an encoder without a language-model head); a head for the control
    concept, the one most associated with the treated one; and a head for the treated concept, whose
    gradient reaches the encoder reversed. Then N′ is trained on the stars of φ_CF(x), which stays
    as it is. CausaLM knows no direction: it estimates a change to "unknown".

    The defaults are those of § E.2.

    - `variant`: "released" does as the released code does. The treated head's loss is subtracted,
      so this head unlearns too. N′ is compared with a head trained alike on the encoder before it
      was fine-tuned, not with N.
    - `epochs`, `batch`, `lr`: of the encoder.
    - `adversary`: λ, by which the reversed gradient is multiplied (λ < 0 would teach the concept).
    - `head_epochs`, `head_batch`, `head_lr`: of N′.
    - `seed`: of heads and batches."""

    sees = ("text", "concept")
    white_box = True

    def __init__(
        self,
        variant: Variant = "paper",
        epochs: int = 3,
        batch: int = 48,
        lr: float = 2e-5,
        adversary: float = 0.1,
        head_epochs: int = 50,
        head_batch: int = 256,
        head_lr: float = 1e-3,
        seed: int = 0,
    ):
        self.variant = check_choice(variant, "variant", VARIANTS)
        self.adversary, self.seed = adversary, seed
        self.epochs, self.batch, self.lr = epochs, batch, lr
        self.head_epochs, self.head_batch, self.head_lr = head_epochs, head_batch, head_lr

    def _fit(self, train: pd.DataFrame) -> None:
        if not hasattr(self.model, "recipe"):
            raise UserError("CausaLM trains the model's encoder anew: it needs a fitted Classifier")
        z = self._classes(train)
        self.counterfactual = {}
        for concept in ASPECTS:
            labelled_rows(train, concept, range(len(VALUES)))
            encoder = self._encoder(train, concept)
            self.counterfactual[concept] = self._classifier(encoder, train, z)
        self.factual = self.model
        if self.variant == "released":
            self.factual = self._classifier(self.model.recipe.body(), train, z)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def effect(concept: str, rows: pd.DataFrame) -> Tensor:
            return self.counterfactual[concept](rows.text) - self.factual(rows.text)

        return self._each(pairs, effect)

    def _classifier(self, body: Model, train: pd.DataFrame, z: Tensor) -> FittedClassifier:
        """The body with a head trained on its states."""
        start = Head.initial(body.width, self.k, self.seed)
        model = FittedClassifier(self.model.recipe, body, start)
        h = model.phi(train.text[to_numpy(z >= 0)])
        return replace(
            model,
            head=train_head(
                h, z[z >= 0], start, self.head_epochs, self.head_batch, self.head_lr, self.seed
            ),
        )

    def _encoder(self, train: pd.DataFrame, concept: str) -> Model:
        """φ_CF of a concept, cached: the same for all classifiers that began with this encoder."""
        recipe, control = self.model.recipe, control_concept(train, concept)
        body = recipe.body()
        texts = shorten(train.text.tolist(), body, recipe.max_length)
        targets = torch.from_numpy(train[[concept, control]].to_numpy(copy=True))
        settings = [self.variant, self.epochs, self.batch, self.lr, self.adversary, self.seed]
        key = [body.fingerprint, recipe.position(body), settings, texts, targets.tolist()]
        weights = load_or_compute("causalm", key, lambda: self._unlearn(body, texts, targets))
        return with_weights(recipe.body(), weights)

    def _unlearn(self, body: Model, texts: list[str], targets: Tensor) -> dict[str, Tensor]:
        with torch_seed(self.seed):
            treated, control = (
                nn.Linear(body.width, len(VALUES)).to(body.device) for _ in range(2)
            )
        cloze = Cloze(body)
        parameters = [
            *upper_parameters(body, body.net).values(),
            *treated.parameters(),
            *control.parameters(),
        ]
        trainer = Trainer(
            body,
            texts,
            self.model.recipe.position(body),
            parameters,
            self.epochs,
            self.batch,
            self.lr,
            self.seed,
            cloze.change,
        )

        def loss(rows: list[int], h: Tensor, hidden: Tensor) -> Tensor:
            labels, control_labels = targets[rows].to(h.device).unbind(1)
            return (
                cloze.loss(hidden)
                + _loss(control(h), control_labels)
                + self._against(treated, h, labels)
            )

        trainer.fit(loss)
        return trained_weights(body)

    def _against(self, treated: nn.Linear, h: Tensor, labels: Tensor) -> Tensor:
        """The treated concept's loss: the encoder unlearns from it, the paper's head learns."""
        if self.variant == "released":
            return -self.adversary * _loss(treated(h), labels)
        return _loss(treated(reverse(h, self.adversary)), labels)


def reverse(h: Tensor, strength: float) -> Tensor:
    """h, but its gradient comes back times −strength (Ganin & Lempitsky 2015)."""
    return (1 + strength) * h.detach() - strength * h


def control_concept(train: pd.DataFrame, concept: str) -> str:
    """The other concept with the largest Cramér's V, over the reviews with labels of both."""

    def cramers_v(other: str) -> float:
        rows = (train[concept] >= 0) & (train[other] >= 0)
        counts = pd.crosstab(train[concept][rows], train[other][rows])
        return association(counts, method="cramer") if min(counts.shape) > 1 else 0.0

    return max((other for other in ASPECTS if other != concept), key=cramers_v)


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the rows that have a label (not −1); 0 where none has."""
    total = F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
    return total / (labels >= 0).sum().clamp_min(1)
