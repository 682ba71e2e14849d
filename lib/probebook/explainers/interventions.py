"""Interventions as explainers: what an edit of a review's state changes in the classifier's output.

INLP is the paper's (Abraham et al., § 4 and appendix F); the others, which know the wanted label,
are not in it. The paper asks (§ 6) whether INLP could use the direction of the change."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import torch
from scipy.linalg import orth
from sklearn.linear_model import SGDClassifier
from torch import Tensor

from probebook.base import check_choice, to_numpy
from probebook.corpora.cebab import VALUES
from probebook.explainers.base import Explainer, fit_concepts
from probebook.interventions import INLP, LEACE, PGD, AlterRep
from probebook.interventions.inlp import project_out
from probebook.models.training.finetune import train_head
from probebook.probes import LinearProbe


class INLPExplainer(Explainer):
    """N′(P φ(x)) − N(φ(x)): P erases the concept, N′ is N's head trained on, on the stars of P φ.

    It knows no direction c → c′: it estimates a change to "unknown".

    - `variant`: "paper" finds the directions by support vector machines (§ F.2), and so does
      "released", where each epoch of N′ is one step on all rows, as in the released code;
      "logistic" finds them by logistic regressions, which are not the printed form.
    - `rounds`: of classifiers, each on the states that the one before leaves. With no rounds and
      no epochs the effect is 0.
    - `C`: inverse penalty of the logistic regressions. A weak penalty finds directions along which
      states hardly differ, so P changes little.
    - `epochs`, `batch`, `lr`: of N′. `seed`: of N′ and the support vector machines."""

    sees = ("text", "concept")
    white_box = True

    def __init__(
        self,
        variant: Literal["paper", "released", "logistic"] = "paper",
        rounds: int = 10,
        epochs: int = 5,
        batch: int = 32,
        lr: float = 2e-5,
        seed: int = 0,
        C: float = 0.01,
    ):
        self.variant = check_choice(variant, "variant", ("paper", "released", "logistic"))
        self.rounds, self.C = rounds, C
        self.epochs, self.batch, self.lr, self.seed = epochs, batch, lr, seed

    def _fit(self, train: pd.DataFrame) -> None:
        h, z = self.model.phi(list(train.text)), self._classes(train)
        batch = len(h) if self.variant == "released" else self.batch
        self.edits = fit_concepts(train, h, self._erase)
        self.heads = {
            concept: train_head(
                edit(h[z >= 0]), z[z >= 0], self.model.head, self.epochs, batch, self.lr, self.seed
            )
            for concept, edit in self.edits.items()
        }

    def _erase(self, h: Tensor, z: np.ndarray) -> Callable[[Tensor], Tensor]:
        if self.variant == "logistic":  # each round finds one direction fewer than there are labels
            return INLP(self.rounds * (len(VALUES) - 1), C=self.C).fit(h, z)
        return partial(project_out, basis=svm_directions(h, z, self.rounds, self.seed))

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        def effect(concept: str, rows: pd.DataFrame) -> Tensor:
            h = self.model.phi(list(rows.text)).double()
            edited = self.heads[concept](self.edits[concept](h))
            return edited.softmax(1) - self.model.head(h).softmax(1)

        return self._each(pairs, effect)


def svm_directions(h: Tensor, z: np.ndarray, rounds: int, seed: int) -> Tensor:
    """Orthonormal directions [d, ≤ k·rounds] float64 that linear SVMs by SGD read (§ F.2).

    Each round fits one SVM per label against the other k − 1 to what the rounds before leave of
    h [n, d]; it takes the weights of all k."""
    x, basis = h.double(), torch.zeros(h.shape[1], 0, dtype=torch.float64)
    for _ in range(rounds):
        svm = SGDClassifier(alpha=0.01, tol=1e-3, max_iter=1000, random_state=seed)
        w = svm.fit(to_numpy(project_out(x, basis)), z).coef_.T
        basis = torch.from_numpy(orth(np.hstack([basis, w / (np.linalg.norm(w) or 1)])))
    return basis


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
