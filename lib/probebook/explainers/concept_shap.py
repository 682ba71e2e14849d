"""ConceptSHAP (Yeh et al. 2020; Abraham et al., § 4 and § H): Shapley values of the concepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import factorial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError, check_choice
from probebook.corpora.cebab import ASPECTS
from probebook.devices import choose_device
from probebook.explainers.base import VARIANTS, Explainer, Variant, concept_indices
from probebook.explainers.tcav import separators
from probebook.models.cache import digest, load_or_compute
from probebook.models.training.finetune import Head


class ConceptSHAP(Explainer):
    """Σ_S w(S) [η(S ∪ C) − η(S)] over sets S of other concepts, η(S) = N(g_S(V_S φ(x)))  (eq. 24).

    V_S φ(x) are the coordinates of φ(x) along S's separators (TCAV's). g_S is a perceptron that
    maps them back to a state; it is trained so that N of that state gives the training reviews'
    classes. ConceptSHAP knows no direction c → c′.

    - `variant`: "released" does as the released code does. The separators are those of that TCAV.
      g has no ReLU; its loss is the binary cross-entropy of each class, over batches in a fixed
      order. η is the logits; the estimate is the softmax of their Shapley values less ½; in
      `completeness` chance is subtracted from counts.
    - `hidden`: units of g's one hidden layer.
    - `epochs`, `batch`, `lr`, `seed`: of its training.
    - `scored`: for "released" alone, whose code trains g on the base reviews of the very pairs that
      are scored, with their stars: a table like `train`, used in its place for g."""

    sees = ("text", "concept")
    white_box = True

    def __init__(
        self,
        variant: Variant = "paper",
        hidden: int = 500,
        epochs: int = 50,
        batch: int = 128,
        lr: float = 1e-2,
        seed: int = 0,
        scored: pd.DataFrame | None = None,
    ):
        if scored is not None and variant == "paper":
            raise UserError(
                "the paper's g is trained on the training reviews: "
                "scored= is for variant='released'"
            )
        self.variant = check_choice(variant, "variant", VARIANTS)
        self.hidden, self.scored = hidden, scored
        self.epochs, self.batch, self.lr, self.seed = epochs, batch, lr, seed

    def _fit(self, train: pd.DataFrame) -> None:
        h = self.model.phi(list(train.text))
        self.directions = separators(h, train, self.variant, self.seed).to(h)
        if self.scored is not None:
            train = self._shown(self.scored)
            h = self.model.phi(list(train.text))
        z = self._classes(train)
        h, z = h[z >= 0], z[z >= 0].to(h.device)
        self.coalitions = self._trained(h @ self.directions.to(h).T, z, h.shape[1])
        with_concepts = (self._eta(h)[-1].argmax(1) == z).double()
        with_state = (self.model.head(h).argmax(1) == z).double()
        chance = 1 / self.k
        if self.variant == "released":
            gains = with_concepts.sum() - chance, with_state.sum() - chance
        else:  # equation 25, on the training reviews
            gains = with_concepts.mean() - chance, with_state.mean() - chance
        self.completeness = float(gains[0] / gains[1])

    def _trained(self, x: Tensor, z: Tensor, d: int) -> Coalitions:
        """The perceptrons, cached: another page may explain the same model."""
        head, released = self.model.head, self.variant == "released"
        start = Coalitions.random(len(ASPECTS), self.hidden, d, self.seed, released)
        settings = [self.variant, self.hidden, self.epochs, self.batch, self.lr, self.seed]
        key = [*settings, digest({"x": x, "z": z, **head.tensors()})]

        def train() -> dict[str, Tensor]:
            return start.train(x, z, head, self.epochs, self.batch, self.lr, self.seed).tensors()

        trained: dict[str, Any] = {**load_or_compute("concept_shap", key, train)}
        return replace(start, **trained)

    def rebuild(self, h: Tensor) -> Tensor:
        """g_S(V_S h) of each set S of concepts [2^m, n, d], from states h [n, d]."""
        return self.coalitions(h @ self.directions.to(h).T)

    def _eta(self, h: Tensor) -> Tensor:
        logits = self.model.head(self.rebuild(h))
        return logits if self.variant == "released" else logits.softmax(2)

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        values = shapley(self._eta(self.model.phi(list(pairs.text))).double())
        estimates = values[concept_indices(pairs), np.arange(len(pairs))]
        return estimates.softmax(1) - 0.5 if self.variant == "released" else estimates


def shapley(values: Tensor) -> Tensor:
    """Shapley values [m, …] of a game's values [2^m, …].

    Bit i of the first index says whether player i takes part."""
    m = len(values).bit_length() - 1
    sets = torch.arange(len(values))
    shares = []
    for i in range(m):
        without = sets[sets & 1 << i == 0]
        sizes = [s.bit_count() for s in without.tolist()]
        weights = [factorial(m - size - 1) * factorial(size) / factorial(m) for size in sizes]
        gains = values[without | 1 << i] - values[without]
        shares.append(torch.tensordot(torch.tensor(weights).to(values), gains, 1))
    return torch.stack(shares)


@dataclass(frozen=True, eq=False)
class Coalitions:
    """2^m perceptrons g_S side by side: coordinates [n, m] → states [2^m, n, d].

    A coordinate outside S is 0 for g_S, so its weights keep their start and have no effect: each
    g_S is trained as it would be alone.

    `first` [2^m, m, hidden], `second` [2^m, hidden, d]: weights; `first_bias` [2^m, 1, hidden],
    `second_bias` [2^m, 1, d]; `released`: without a ReLU, as in the released code."""

    first: Tensor
    second: Tensor
    first_bias: Tensor
    second_bias: Tensor
    released: bool = False

    @staticmethod
    def random(m: int, hidden: int, d: int, seed: int, released: bool = False) -> Coalitions:
        """torch.nn.Linear's start: even within ± (number of inputs)^(−½).

        In the released code the first bias is normal."""
        draws = torch.Generator().manual_seed(seed)
        inputs = members(m).sum(1).clamp_min(1)[:, None, None]

        def even(rows: int, columns: int, inputs: Tensor | int) -> Tensor:
            unit = 2 * torch.rand(2**m, rows, columns, generator=draws) - 1
            return inputs**-0.5 * unit

        first, first_bias = even(m, hidden, inputs), even(1, hidden, inputs)
        second, second_bias = even(hidden, d, hidden), even(1, d, hidden)
        if released:
            first_bias = torch.randn(first_bias.shape, generator=draws)
        return Coalitions(first, second, first_bias, second_bias, released)

    def __call__(self, x: Tensor) -> Tensor:
        """States [2^m, n, d] for coordinates x [n, m], where they live."""
        first, second, first_bias, second_bias = (t.to(x) for t in self.tensors().values())
        seen = x * members(x.shape[1])[:, None].to(x)
        if self.released:  # two layers without a ReLU are one: [2^m, m + 1, d]
            both = torch.cat([first, first_bias], 1) @ second
            return torch.baddbmm(both[:, -1:] + second_bias, seen, both[:, :-1])
        inner = torch.baddbmm(first_bias, seen, first)
        return torch.baddbmm(second_bias, inner.relu(), second)

    def train(
        self, x: Tensor, z: Tensor, head: Head, epochs: int, batch: int, lr: float, seed: int
    ) -> Coalitions:
        """Adam on the loss of head(g_S(x)) against classes z [n], the same batches for all S.

        The loss is the cross-entropy; in the released code the mean binary cross-entropy of the
        classes, over batches in the order of the rows. In the dtype of x [n, m], on a GPU where
        there is one; the result lies on the device of x."""
        device = choose_device()
        net, draws = self._to(x.to(device)), np.random.default_rng(seed)
        parameters = [p.requires_grad_() for p in net.tensors().values()]
        optimizer = torch.optim.Adam(parameters, lr, fused=True)
        head = Head(*(t.to(parameters[0]) for t in head.tensors().values()))
        data, classes = x.to(device), z.to(device)
        with torch.enable_grad():
            for _ in range(epochs):
                order = np.arange(len(x)) if self.released else draws.permutation(len(x))
                for rows in torch.from_numpy(order).to(device).split(batch):
                    logits = head(net(data[rows])).flatten(0, 1)
                    wanted = classes[rows].repeat(len(net.first))
                    optimizer.zero_grad()
                    if self.released:
                        onehot = F.one_hot(wanted, logits.shape[1]).to(logits)
                        loss = F.binary_cross_entropy_with_logits(logits, onehot)
                        loss = loss * len(net.first)
                    else:
                        loss = F.cross_entropy(logits, wanted, reduction="sum") / len(rows)
                    loss.backward()
                    optimizer.step()
        return net._to(x)

    def tensors(self) -> dict[str, Tensor]:
        """The weights and biases by name."""
        return {name: part for name, part in vars(self).items() if name != "released"}

    def _to(self, x: Tensor) -> Coalitions:
        """A copy in the dtype and on the device of x."""
        copied: dict[str, Any] = {
            name: t.detach().to(x, copy=True) for name, t in self.tensors().items()
        }
        return replace(self, **copied)


def members(m: int) -> Tensor:
    """[2^m, m] float: 1 where player i belongs to the set whose bits are the row's number."""
    return (torch.arange(2**m)[:, None] >> torch.arange(m) & 1).float()
