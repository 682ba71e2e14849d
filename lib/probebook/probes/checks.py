"""The checks of states, labels and strengths with which every fit and edit begins."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError, tensor


def check_states(h: ArrayLike, width: int | None = None) -> Tensor:
    """Hidden states as a float tensor [n, d], with d = `width` if given.

    Raises UserError for another shape, for no rows, and for NaN or infinite values."""
    h = tensor(h)
    if h.ndim != 2 or not len(h):
        raise UserError(f"hidden states have shape {tuple(h.shape)}: give [n, d] with n ≥ 1")
    if width is not None and h.shape[1] != width:
        raise UserError(f"hidden states have {h.shape[1]} dimensions, this was fitted on {width}")
    h = h if h.is_floating_point() else h.float()
    # The sum is quicker to test, but it can overflow although every value is finite.
    if not torch.isfinite(h.sum()) and not torch.isfinite(h).all():
        bad = int((~torch.isfinite(h).all(1)).nonzero()[0])
        raise UserError(
            f"hidden states hold NaN or infinite values (first in row {bad}): "
            "embed those texts again or drop them"
        )
    return h


def check_states_differ(h: Tensor) -> Tensor:
    """The states [n, d] unchanged. Raises UserError if all rows are equal."""
    if torch.equal(h[0], h[-1]) and (h == h[0]).all():
        raise UserError(
            f"all {len(h)} hidden states are the same, so no label can be read from "
            "them; at layer 0 [MASK] has not looked at any other word: "
            "take layer 1 or above"
        )
    return h


def check_labels(
    z: ArrayLike, n: int, k: int | None = None, device: torch.device | None = None
) -> Tensor:
    """Labels as int64 [n] in 0 … k−1.

    Raises UserError for another shape, for missing labels (−1), for labels beyond a given k, and,
    where no k is given, for a class with fewer than two examples."""
    z = tensor(z, device=device).long()
    if z.shape != (n,):
        raise UserError(
            f"labels have shape {tuple(z.shape)}, the hidden states {n} rows: "
            "give one label per row"
        )
    if int(z.min()) < 0:
        raise UserError("labels must be 0 … k−1: drop the rows whose property is absent (−1) first")
    counts = torch.bincount(z, minlength=k or 2)
    if k is not None and len(counts) > k:
        raise UserError(f"label {len(counts) - 1} is beyond the {k} classes of the fitted probe")
    if k is None and int(counts.min()) < 2:
        raise UserError(
            f"class {int(counts.argmin())} has {int(counts.min())} examples: "
            "a probe needs at least 2 of each class"
        )
    return z


def check_strength(strength: float) -> float:
    """The strength of an edit as a float. Raises UserError if it is negative."""
    if not strength >= 0:
        raise UserError(f"strength={strength}: it must be ≥ 0")
    return float(strength)
