"""Explainers that see a classifier's outputs alone, and two that look at nothing.

Zero and Random (Abraham et al., § 6) are floors; Approx, CONEXP and S-Learner (§ 4) learn from
labelled reviews and what the classifier says of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError, check_choice, to_numpy
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.explainers.base import (
    VARIANTS,
    Explainer,
    Variant,
    concept_indices,
    fill_labels,
)


class Zero(Explainer):
    """The zero vector."""

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        return torch.zeros(len(pairs), self.k)


class Random(Explainer):
    """p′ − p with p and p′ drawn evenly, by `seed`, from all distributions over the k classes."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        rng = np.random.default_rng(self.seed)
        before, after = rng.dirichlet(np.ones(self.k), size=(2, len(pairs)))
        return torch.from_numpy(after - before)


class Approx(Explainer):
    """N(φ(x″)) − N(φ(x)), x″ a training review with the four labels of the counterfactual.

    The pool is the whole training table, edits included. Where several reviews fit, one is drawn
    by `seed`; where none fits, one of the nearest: with the changed aspect's label right if any
    review has it, then with as many other labels right as possible."""

    sees = ("text", "concept", "target", "labels")

    def __init__(self, seed: int = 0):
        self.seed = seed

    def _fit(self, train: pd.DataFrame) -> None:
        self.pool = fill_labels(train.text, train[ASPECTS].to_numpy(), self.aspects)
        self.predicted = self._probs(train.text)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        place = concept_indices(pairs)
        wanted = pairs[ASPECTS].to_numpy(copy=True)
        wanted[np.arange(len(pairs)), place] = pairs.target
        matches: np.ndarray = np.empty(len(pairs), np.int64)
        rng = np.random.default_rng(self.seed)
        wishes = pd.DataFrame(wanted, columns=ASPECTS).assign(place=place)
        for (*labels, concept), rows in wishes.groupby([*ASPECTS, "place"]).indices.items():
            wrong = self.pool != labels
            distance = wrong.sum(1) + len(ASPECTS) * wrong[:, concept]
            nearest = np.flatnonzero(distance == distance.min())
            matches[rows] = rng.choice(nearest, size=len(rows))
        return self.predicted[matches] - self._probs(pairs.text)


class CONEXP(Explainer):
    """Mean prediction over the training reviews with C = c′ less that over those with C = c.

    Reviews without a majority label of C are left out. The estimate is the same for all x."""

    sees = ("concept", "source", "target")

    def _fit(self, train: pd.DataFrame) -> None:
        predicted = self._probs(train.text)
        means = [
            predicted[train[aspect].to_numpy() == value].mean(0)
            for aspect in ASPECTS
            for value in range(len(VALUES))
        ]
        # [4, 3, k]; NaN where no review has the label.
        self.means = torch.stack(means).unflatten(0, (len(ASPECTS), len(VALUES)))

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        place = concept_indices(pairs)
        effects = self.means[place, list(pairs.target)] - self.means[place, list(pairs.source)]
        lacking = np.flatnonzero(to_numpy(effects.isnan().any(1)))
        if len(lacking):
            pair = pairs.iloc[lacking[0]]
            raise UserError(
                f"no training review has {pair.concept} {VALUES[pair.source]!r} or "
                f"none {VALUES[pair.target]!r}: add some, or drop those pairs"
            )
        return effects


class SLearner(Explainer):
    """E(labels with C = c′) − E(labels with C = c), E a logistic regression of N on the labels.

    Each training review counts once for each class, with the probability that N gives to it. If N
    gives a single class to all of them, E is constant and every effect 0.

    - `variant`: "released" does as the released code does: E learns N's most probable class alone,
      and at C = c the base label is a predicted one as well, though c is known.
    - `C`: inverse penalty."""

    sees = ("concept", "source", "target", "labels")

    def __init__(self, variant: Variant = "paper", C: float = 1.0):
        self.variant, self.C = check_choice(variant, "variant", VARIANTS), C

    def _fit(self, train: pd.DataFrame) -> None:
        x = _indicators(fill_labels(train.text, train[ASPECTS].to_numpy(), self.aspects))
        p = to_numpy(self._probs(train.text))
        if self.variant == "released":
            p = np.eye(self.k)[p.argmax(1)]
        z = np.tile(np.arange(self.k), len(x))
        rows: np.ndarray = np.repeat(np.arange(len(x)), self.k)
        weight = p.ravel()
        possible = weight > 0
        # The best E for a single class says this class for every review.
        learner = (
            LogisticRegression(C=self.C, max_iter=10_000, tol=1e-8)
            if len(np.unique(z[possible])) > 1
            else DummyClassifier()
        )
        self.regression = learner.fit(
            x[rows[possible]], z[possible], sample_weight=weight[possible]
        )

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        rows, place = np.arange(len(pairs)), concept_indices(pairs)
        before, after = (pairs[ASPECTS].to_numpy(copy=True) for _ in range(2))
        after[rows, place] = pairs.target
        if self.variant == "paper":
            before[rows, place] = pairs.source
        p_before, p_after = (self.regression.predict_proba(_indicators(x)) for x in (before, after))
        # The effect on a class that was never predicted stays 0.
        effects = torch.zeros(len(pairs), self.k, dtype=torch.float64)
        effects[:, self.regression.classes_] = torch.from_numpy(p_after - p_before)
        return effects


def _indicators(labels: np.ndarray) -> np.ndarray:
    """[n, 4] labels → [n, 12] float, 1 for each label that is there."""
    return to_numpy(F.one_hot(torch.from_numpy(labels).long(), len(VALUES)).double().flatten(1))
