"""Labels in another order: what an edit fitted on them does comes from the fit, not the concept."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError, tensor


def shuffled(z: ArrayLike, groups: ArrayLike | None = None, seed: int = 0) -> Tensor:
    """The labels z [n] randomly permuted, within `groups` [n] (numbers or names) if given: int64.

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
