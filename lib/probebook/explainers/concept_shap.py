"""ConceptSHAP (Yeh et al. 2020; Abraham et al., § 4 and appendix H): Shapley values of the concepts' directions."""
from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS
from probebook.explainers.base import Explainer, known, places
from probebook.explainers.tcav import separators
from probebook.models.cache import cached, digest
from probebook.models.training.finetune import Head


class ConceptSHAP(Explainer):
    """Σ_S w(S) [η(S ∪ C) − η(S)] over sets S of other concepts, η(S) = N(g_S(V_S φ(x)))  (equation 24).

    V_S φ(x) are the coordinates of φ(x) along S's separators (TCAV's); g_S, a perceptron with one layer of `hidden`
    ReLU units, leads them back to a state, and is trained so that N of it gives the training reviews' classes. All 16
    perceptrons are trained as one (`Coalitions`). It knows no direction c → c′.

    `variant="released"` does as the released code does: TCAV's separators of that variant; no ReLU; the binary
    cross-entropy of each class, over batches in a fixed order; η the logits; as the estimate, the softmax of their
    Shapley values less ½; in `completeness` chance taken from counts. That code trains g on the base reviews of the
    very pairs that are scored, with their stars: `scored`, a table like `train`, in whose place it comes for g."""

    sees = ("text", "concept")
    white_box = True

    def __init__(self, variant: Literal["paper", "released"] = "paper", hidden: int = 500, epochs: int = 50,
                 batch: int = 128, lr: float = 1e-2, seed: int = 0, scored: pd.DataFrame | None = None):
        if scored is not None and variant == "paper":
            raise UserError("the paper's g is trained on the training reviews: scored= is for variant='released'")
        self.variant, self.hidden, self.epochs, self.batch, self.lr, self.seed, self.scored = (
            known(variant), hidden, epochs, batch, lr, seed, scored)

    def _fit(self, train):
        h = self.model.phi(list(train.text))
        self.directions = separators(h, train, self.variant, self.seed).float()
        if self.scored is not None:
            train = self._shown(self.scored)
            h = self.model.phi(list(train.text))
        z = self._classes(train)
        h, z = h[z >= 0], z[z >= 0]
        self.coalitions = self._trained(h @ self.directions.T, z, h.shape[1])
        hits = (self._eta(h)[-1].argmax(1) == z).double(), (self.model.head(h).argmax(1) == z).double()
        chance = 1 / self.k
        if self.variant == "released":
            self.completeness = float((hits[0].sum() - chance) / (hits[1].sum() - chance))
        else:                                                                # equation 25, on the training reviews
            self.completeness = float((hits[0].mean() - chance) / (hits[1].mean() - chance))

    def _trained(self, x, z, d):
        """The perceptrons, kept in the cache folder: another page may explain the same model."""
        head, released = self.model.head, self.variant == "released"
        start = Coalitions.drawn(len(ASPECTS), self.hidden, d, self.seed, released)
        settings = [self.variant, self.hidden, self.epochs, self.batch, self.lr, self.seed]
        found = cached("concept_shap", [*settings, digest({"x": x, "z": z, **head.tensors()})], lambda: start.train(
            x, z, head, self.epochs, self.batch, self.lr, self.seed).tensors())
        return Coalitions.of(found, released)

    def _eta(self, h):
        logits = self.model.head(self.coalitions(h @ self.directions.T))
        return logits if self.variant == "released" else logits.softmax(2)

    def _effect(self, pairs):
        values = shapley(self._eta(self.model.phi(list(pairs.text))).double())
        found = values[places(pairs), np.arange(len(pairs))]
        return found.softmax(1) - .5 if self.variant == "released" else found


def shapley(values: torch.Tensor) -> torch.Tensor:
    """Shapley values [m, …] of a game's values [2^m, …]; bit i of the first index says whether player i takes part."""
    m = len(values).bit_length() - 1
    sets = torch.arange(len(values))
    found = []
    for i in range(m):
        without = sets[sets & 1 << i == 0]
        sizes = [bin(s).count("1") for s in without.tolist()]
        weights = [factorial(m - size - 1) * factorial(size) / factorial(m) for size in sizes]
        gains = values[without | 1 << i] - values[without]
        found.append(torch.tensordot(torch.tensor(weights).to(values), gains, 1))
    return torch.stack(found)


@dataclass(frozen=True, eq=False)
class Coalitions:
    """2^m perceptrons side by side, g_S: [n, m] coordinates, of which it sees those in S → states [2^m, n, d].

    A coordinate outside S is 0 for g_S, so its weights stay where they are and say nothing: each g_S is trained as it
    would be alone. `weights` [2^m, m, hidden], [2^m, hidden, d]; `biases` [2^m, 1, hidden], [2^m, 1, d]."""

    weights: tuple[torch.Tensor, torch.Tensor]
    biases: tuple[torch.Tensor, torch.Tensor]
    released: bool = False

    @staticmethod
    def drawn(m: int, hidden: int, d: int, seed: int, released: bool = False) -> Coalitions:
        """torch.nn.Linear's start: even within ± (number of inputs)^(−½); as released, the first bias is normal."""
        draws = torch.Generator().manual_seed(seed)
        inputs = members(m).sum(1).clamp_min(1)[:, None, None]
        first, first_bias = (inputs ** -.5 * (2 * torch.rand(2 ** m, rows, hidden, generator=draws) - 1)
                             for rows in (m, 1))
        second, second_bias = (hidden ** -.5 * (2 * torch.rand(2 ** m, rows, d, generator=draws) - 1)
                               for rows in (hidden, 1))
        if released:
            first_bias = torch.randn(first_bias.shape, generator=draws)
        return Coalitions((first, second), (first_bias, second_bias), released)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        seen = x * members(x.shape[1])[:, None].to(x)
        if self.released:                    # two layers without a ReLU are one: no need for the wide states between
            both = torch.cat([self.weights[0], self.biases[0]], 1) @ self.weights[1]          # [2^m, m + 1, d]
            return torch.baddbmm(both[:, -1:] + self.biases[1], seen, both[:, :-1])
        inner = torch.baddbmm(self.biases[0], seen, self.weights[0])
        return torch.baddbmm(self.biases[1], inner.relu(), self.weights[1])

    def train(self, x: torch.Tensor, z: torch.Tensor, head: Head, epochs: int, batch: int, lr: float,
              seed: int) -> Coalitions:
        """Adam on the cross-entropy of head(g_S(x)) against classes z [n], the same batches for all S; x [n, m].
        As released: on the mean binary cross-entropy of the classes, over batches in the order of the rows.

        In the dtype of x, on a GPU where there is one; the result lies where x does."""
        device = "cuda" if torch.cuda.is_available() else x.device
        own, draws = self._to(x.to(device)), np.random.default_rng(seed)
        parameters = [p.requires_grad_() for p in (*own.weights, *own.biases)]
        optimizer = torch.optim.Adam(parameters, lr, fused=True)
        head, data, classes = Head(*(t.to(parameters[0]) for t in head.tensors().values())), x.to(device), z.to(device)
        with torch.enable_grad():
            for _ in range(epochs):
                order = np.arange(len(x)) if self.released else draws.permutation(len(x))
                for rows in torch.from_numpy(order).to(device).split(batch):
                    logits = head(own(data[rows])).flatten(0, 1)
                    wanted = classes[rows].repeat(len(own.weights[0]))
                    optimizer.zero_grad()
                    if self.released:
                        loss = F.binary_cross_entropy_with_logits(logits, F.one_hot(wanted, logits.shape[1]).to(logits))
                        loss = loss * len(own.weights[0])
                    else:
                        loss = F.cross_entropy(logits, wanted, reduction="sum") / len(rows)
                    loss.backward()
                    optimizer.step()
        return own._to(x)

    def tensors(self) -> dict[str, torch.Tensor]:
        return dict(zip(("first", "second", "first_bias", "second_bias"), (*self.weights, *self.biases)))

    @staticmethod
    def of(tensors: dict[str, torch.Tensor], released: bool = False) -> Coalitions:
        """The inverse of `tensors`."""
        first, second, first_bias, second_bias = (
            tensors[name] for name in ("first", "second", "first_bias", "second_bias"))
        return Coalitions((first, second), (first_bias, second_bias), released)

    def _to(self, x):
        """A copy in the dtype and on the device of x."""
        copies = [tuple(t.detach().to(x, copy=True) for t in ts) for ts in (self.weights, self.biases)]
        return Coalitions(*copies, self.released)


def members(m: int) -> torch.Tensor:
    """[2^m, m] float: 1 where player i belongs to the set whose bits are the row's number."""
    return (torch.arange(2 ** m)[:, None] >> torch.arange(m) & 1).float()
