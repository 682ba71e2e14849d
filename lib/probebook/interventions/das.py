"""Distributed alignment search (Geiger et al. 2024): a subspace learned by interchanges."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F
from torch.optim.lr_scheduler import LinearLR

from probebook.base import UserError, tensor
from probebook.interventions.attack import count_logits
from probebook.interventions.mean_shift import nearest_mean
from probebook.probes.checks import check_labels, check_states, check_strength


class DAS:
    """Finds the subspace in which a model itself keeps a concept, and exchanges what states have
    there: h ↦ h + R Rᵀ (source − h).

    The orthonormal R [d, rank] is learned from such interchanges: after them the model's own head
    should choose the word that fits the source's class (Geiger et al., § 3). No probe takes part.

    - `rank`: dimensions of the subspace.
    - `steps`, `batch`: of Adam, and the rows that each takes.
    - `lr`: its rate, which falls linearly to 0; R is what QR makes of a free matrix.
    - `seed`: of the start and of the batches."""

    def __init__(
        self, rank: int = 1, steps: int = 300, lr: float = 0.03, batch: int = 64, seed: int = 0
    ):
        if min(rank, steps, batch) < 1 or not lr > 0:
            raise UserError(
                f"rank={rank}, steps={steps}, batch={batch}, lr={lr}: the first three "
                "must be at least 1, and lr above 0"
            )
        self.rank, self.steps, self.lr, self.batch, self.seed = rank, steps, lr, batch, seed

    def fit(
        self,
        h: ArrayLike,
        source: ArrayLike,
        to: ArrayLike,
        head: Callable[..., Tensor],
        choices: ArrayLike | None = None,
        by_row: bool = False,
        judged: bool = True,
    ) -> FittedDAS:
        """Learn R from pairs of states: `source` [n, d] has the class `to` [n] that h [n, d] gets.

        - `head`: differentiable, from states [n, d] in the dtype of h to logits [n, v], such as
          `Model.head`.
        - `by_row`: the head depends on the text, as it does below the last layer, and is called
          with the rows [m] as well: `head(states, rows)`.
        - `choices`: columns of the logits, one for each class: [k] for all rows, or [n, k]; by
          default column c stands for class c.
        - `judged`: whether the head reads all rows once more, for `loss` and `accuracy`; else
          these are NaN.

        Raises UserError for bad states, labels or choices, rank > d, and a head without
        gradients."""
        h, source = check_pair(check_states(h), source)
        to = check_labels(to, len(h), device=h.device)
        if self.rank > h.shape[1]:
            raise UserError(
                f"rank={self.rank}: the hidden states have {h.shape[1]} dimensions, "
                f"so choose 1 … {h.shape[1]}"
            )
        of_rows = head if by_row else lambda states, rows: head(states)
        first = torch.arange(2, device=h.device)
        columns = _columns(choices, to, count_logits(lambda states: of_rows(states, first), h))

        def logits(basis: Tensor, rows: Tensor) -> Tensor:
            edited = h[rows] + (source[rows] - h[rows]) @ basis @ basis.T
            return of_rows(edited, rows).gather(1, columns[rows])

        g = torch.Generator().manual_seed(self.seed)
        free = torch.randn(h.shape[1], self.rank, generator=g, dtype=torch.float64)
        free = torch.linalg.qr(free).Q.to(h.device).requires_grad_()
        optimizer = torch.optim.Adam([free], self.lr)
        schedule = LinearLR(optimizer, 1, 0, self.steps)
        for _ in range(self.steps):
            rows = torch.randperm(len(h), generator=g)[: self.batch].to(h.device)
            with torch.enable_grad():
                loss = F.cross_entropy(logits(torch.linalg.qr(free).Q.to(h), rows), to[rows])
            if not loss.requires_grad:
                raise UserError("the head is not differentiable: give one that keeps the graph")
            (free.grad,) = torch.autograd.grad(loss, free)
            optimizer.step()
            schedule.step()
        basis = torch.linalg.qr(free.detach()).Q
        means = torch.stack([source[to == c].double().mean(0) for c in range(int(to.max()) + 1)])
        if not judged:
            return FittedDAS(basis, means, math.nan, math.nan)
        with torch.no_grad():
            every = torch.arange(len(h), device=h.device).split(self.batch)
            answers = torch.cat([logits(basis.to(h), rows) for rows in every])
        accuracy = float((answers.argmax(1) == to).double().mean())
        return FittedDAS(basis, means, float(F.cross_entropy(answers, to)), accuracy)


def check_pair(h: Tensor, source: ArrayLike) -> tuple[Tensor, Tensor]:
    """States [n, d] and as many of their sources. UserError for another number or width."""
    other = check_states(source, h.shape[1]).to(h)
    if len(other) != len(h):
        raise UserError(f"{len(h)} hidden states and {len(other)} sources: give one for each")
    return h.detach(), other.detach()


def _columns(choices: ArrayLike | None, to: Tensor, width: int) -> Tensor:
    """For each row [n] the columns of the logits among which the head chooses: [n, k]."""
    k = int(to.max()) + 1
    given = torch.arange(width) if choices is None else tensor(choices)
    columns = given.to(to).expand(len(to), -1) if given.ndim == 1 else given.to(to)
    if columns.ndim != 2 or len(columns) != len(to) or columns.shape[1] < k:
        raise UserError(
            f"choices have shape {tuple(given.shape)}: give the columns of {k} classes "
            f"or more, for all rows or for each of {len(to)}"
        )
    if not 0 <= int(columns.min()) <= int(columns.max()) < width:
        raise UserError(
            f"choices from {int(columns.min())} to {int(columns.max())}: the head has "
            f"{width} columns"
        )
    return columns


@dataclass(frozen=True)
class FittedDAS:
    """Exchanges a part of states: `edit(h, to=wanted)`, `edit(h, source=states)` → [n, d] in the
    dtype and on the device of h. `loss` (nats), `accuracy`: of the head's choices after the
    interchanges of the fit; the second is the paper's interchange intervention accuracy."""

    basis: Tensor  # [d, rank] float64, R, orthonormal
    means: Tensor  # [k, d] float64, of the sources of each class, used where no source is given
    loss: float
    accuracy: float
    strength: float = 1.0

    def at(self, strength: float) -> FittedDAS:
        """The same subspace, of whose move each state makes the share s ≥ 0."""
        return replace(self, strength=check_strength(strength))

    def __call__(
        self,
        h: ArrayLike,
        to: ArrayLike | None = None,
        *,
        source: ArrayLike | None = None,
    ) -> Tensor:
        """Edited states [n, d] that have the part in the subspace of `source` [n, d], or, given
        classes `to` [n], of the mean source of the class. UserError unless just one of the two is
        given."""
        h = check_states(h, len(self.basis))
        basis, means = self.basis.to(h.device), self.means.to(h.device)
        if (to is None) == (source is None):
            raise UserError("give `to`, the wanted classes, or `source`, states to take from")
        if source is None:
            other = means[check_labels(to, len(h), len(means), h.device)]
        else:
            other = check_pair(h, source)[1].double()
        x = h.double()
        return (x + self.strength * ((other - x) @ basis) @ basis.T).to(h.dtype)

    def failed(self, edited: ArrayLike, to: ArrayLike) -> Tensor:
        """Which edited states have, within the subspace, the mean of another class than `to` as
        their nearest: bool [n]."""
        edited = check_states(edited, len(self.basis))
        basis, means = self.basis.to(edited.device), self.means.to(edited.device)
        to = check_labels(to, len(edited), len(means), edited.device)
        return nearest_mean(edited.double() @ basis, means @ basis) != to
