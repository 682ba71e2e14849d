"""The perceptrons of ConceptSHAP, one for each set of concepts, trained as one stack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from probebook.devices import choose_device
from probebook.models.training.finetune import Head


@dataclass(frozen=True, eq=False)
class Coalitions:
    """2^m perceptrons g_S side by side: coordinates [n, m] → states [2^m, n, d].

    A coordinate outside S is 0 for g_S, so its weights keep their start and have no effect: each
    g_S is trained as it would be alone.

    `weights` [2^m, m, hidden], [2^m, hidden, d]; `biases` [2^m, 1, hidden], [2^m, 1, d];
    `released`: without a ReLU, as in the released code."""

    weights: tuple[Tensor, Tensor]
    biases: tuple[Tensor, Tensor]
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
        return Coalitions((first, second), (first_bias, second_bias), released)

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
        own, draws = self._to(x.to(device)), np.random.default_rng(seed)
        parameters = [p.requires_grad_() for p in (*own.weights, *own.biases)]
        optimizer = torch.optim.Adam(parameters, lr, fused=True)
        head = Head(*(t.to(parameters[0]) for t in head.tensors().values()))
        data, classes = x.to(device), z.to(device)
        with torch.enable_grad():
            for _ in range(epochs):
                order = np.arange(len(x)) if self.released else draws.permutation(len(x))
                for rows in torch.from_numpy(order).to(device).split(batch):
                    logits = head(own(data[rows])).flatten(0, 1)
                    wanted = classes[rows].repeat(len(own.weights[0]))
                    optimizer.zero_grad()
                    if self.released:
                        onehot = F.one_hot(wanted, logits.shape[1]).to(logits)
                        loss = F.binary_cross_entropy_with_logits(logits, onehot)
                        loss = loss * len(own.weights[0])
                    else:
                        loss = F.cross_entropy(logits, wanted, reduction="sum") / len(rows)
                    loss.backward()
                    optimizer.step()
        return own._to(x)

    def tensors(self) -> dict[str, Tensor]:
        """The weights and biases by name; `from_tensors` is the inverse."""
        names = "first", "second", "first_bias", "second_bias"
        return dict(zip(names, (*self.weights, *self.biases)))

    @staticmethod
    def from_tensors(tensors: dict[str, Tensor], released: bool = False) -> Coalitions:
        """The inverse of `tensors`."""
        weights = tensors["first"], tensors["second"]
        return Coalitions(weights, (tensors["first_bias"], tensors["second_bias"]), released)

    def _to(self, x: Tensor) -> Coalitions:
        """A copy in the dtype and on the device of x."""

        def copied(layers: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            first, second = (t.detach().to(x, copy=True) for t in layers)
            return first, second

        return Coalitions(copied(self.weights), copied(self.biases), self.released)


def members(m: int) -> Tensor:
    """[2^m, m] float: 1 where player i belongs to the set whose bits are the row's number."""
    return (torch.arange(2**m)[:, None] >> torch.arange(m) & 1).float()
