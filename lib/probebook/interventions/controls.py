"""Negative controls of an edit: equally long moves in other directions, and shuffled labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import ortho_group
from torch import Tensor

from probebook.base import UserError, tensor
from probebook.interventions.attack import length
from probebook.probes.checks import check_states
from probebook.probes.training import generator


@dataclass(frozen=True)
class Matched(ABC):
    """Says what the length of an edit's moves does alone: `control(h, to=wanted)`, or `control(h)`
    of an edit that erases → [n, d], with ‖control(h) − h‖ = ‖edit(h) − h‖ in every row, in the
    dtype and on the device of h."""

    edit: Any  # a fitted edit, or any function of (h, to)
    seed: int = 0  # of where the states move instead. No label takes part in the draw

    def at(self, strength: float) -> Self:
        """The control of the edit at another strength."""
        return replace(self, edit=self.edit.at(strength))

    def __call__(self, h: ArrayLike, to: ArrayLike | None = None) -> Tensor:
        """Moved states [n, d]."""
        h = check_states(h)
        given = [h] if to is None else [h, tensor(to, h.device).long()]
        moves = self.edit(*given).double() - h.double()
        return (h.double() + self._elsewhere(moves, *given[1:])).to(h.dtype)

    @abstractmethod
    def _elsewhere(self, moves: Tensor, to: Tensor | None = None) -> Tensor:
        """Other moves [n, d] of the same lengths."""


@dataclass(frozen=True)
class MatchedDirection(Matched):
    """Moves all states along one random direction, as far as the edit does: h ↦ h ± ‖E(h) − h‖ u
    with one random unit vector u for all states, and the sign of `to`.

    Class 1 goes along u and class 0 against it; two further classes share the next vector, and so
    on. Of an edit that erases all states go along u."""

    def _elsewhere(self, moves: Tensor, to: Tensor | None = None) -> Tensor:
        to = torch.ones(len(moves), dtype=torch.int64) if to is None else to.cpu()
        pairs = range(int(to.max()) // 2 + 1)
        u = torch.stack(
            [
                torch.randn(
                    moves.shape[1], dtype=torch.float64, generator=generator(self.seed, pair)
                )
                for pair in pairs
            ]
        )
        signed = (u / length(u, "l2")[:, None])[to // 2] * (2 * (to % 2) - 1)[:, None]
        return length(moves, "l2")[:, None] * signed.to(moves.device)


@dataclass(frozen=True)
class MatchedSubspace(Matched):
    """Turns an edit's moves by one random rotation Q: h ↦ h + Q (E(h) − h).

    They keep their lengths and the angles between them, so they fill a random subspace of the same
    rank. Q has Haar's distribution: every subspace is as likely as any other, and of any given
    direction such a subspace of rank r holds the share r / d on average."""

    def _elsewhere(self, moves: Tensor, to: Tensor | None = None) -> Tensor:
        return moves @ _rotation(moves.shape[1], self.seed).T.to(moves.device)


@lru_cache(maxsize=4)  # a control may be drawn a few times
def _rotation(d: int, seed: int) -> Tensor:
    return torch.from_numpy(ortho_group.rvs(d, random_state=seed))


def shuffled(z: ArrayLike, groups: ArrayLike | None = None, seed: int = 0) -> Tensor:
    """Shuffle labels, to see what a method does that has nothing to learn: z [n] randomly permuted,
    within `groups` [n] (numbers or names) if given, int64.

    Every class keeps its share, also in each group. Refit the same method on them, and compare:
    `INLP(8).fit(h, shuffled(z, nouns, seed=1))`. UserError: not one label and one group per row."""
    z = tensor(z).long()
    group = np.zeros(len(z)) if groups is None else np.asarray(groups)
    if z.ndim != 1 or group.shape != tuple(z.shape):
        raise UserError(
            f"labels have shape {tuple(z.shape)} and groups {group.shape}: give one of each per row"
        )
    number = np.unique(group, return_inverse=True)[1]
    rows = np.argsort(number, kind="stable")  # those of each group in their order,
    drawn = np.lexsort((np.random.default_rng(seed).random(len(z)), number))  # and in a random
    result = torch.empty_like(z)
    result[rows] = z[drawn]
    return result
