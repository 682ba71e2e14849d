"""The checks that every `fit(h, z)` begins with."""
from __future__ import annotations

import torch

from probebook.base import UserError, tensor


def states(h, width: int | None = None) -> torch.Tensor:
    """`h` as a float tensor [n, d]; raises a UserError for another shape, no rows, or values that are not finite."""
    h = tensor(h)
    if h.ndim != 2 or not len(h):
        raise UserError(f"hidden states have shape {tuple(h.shape)}: give [n, d] with n ≥ 1")
    if width is not None and h.shape[1] != width:
        raise UserError(f"hidden states have {h.shape[1]} dimensions, this was fitted on {width}")
    h = h if h.is_floating_point() else h.float()
    if not torch.isfinite(h.sum()) and not torch.isfinite(h).all():             # the sum is quicker; it may overflow
        bad = int((~torch.isfinite(h).all(1)).nonzero()[0])
        raise UserError(f"hidden states hold NaN or infinite values (first in row {bad}): embed those texts again "
                        "or drop them")
    return h


def various(h: torch.Tensor) -> torch.Tensor:
    """`h` [n, d] itself; raises a UserError if all its rows are the same: there is nothing in them to find."""
    if torch.equal(h[0], h[-1]) and (h == h[0]).all():
        raise UserError(f"all {len(h)} hidden states are the same, so they tell nothing of any label; at layer 0 "
                        "[MASK] has not looked at any other word: take layer 1 or above")
    return h


def labels(z, n: int, k: int | None = None, device=None) -> torch.Tensor:
    """`z` as int64 [n] in 0 … k−1; raises a UserError for missing labels or a class with fewer than two examples."""
    z = tensor(z, device=device).long()
    if z.shape != (n,):
        raise UserError(f"labels have shape {tuple(z.shape)}, the hidden states {n} rows: give one label a row")
    if int(z.min()) < 0:
        raise UserError("labels must be 0 … k−1: drop the rows whose property is absent (−1) first")
    counts = torch.bincount(z, minlength=k or 2)
    if k is not None and len(counts) > k:
        raise UserError(f"label {len(counts) - 1} is beyond the {k} classes of the fitted probe")
    if k is None and int(counts.min()) < 2:
        raise UserError(f"class {int(counts.argmin())} has {int(counts.min())} examples: "
                        "a probe needs at least 2 of each class")
    return z
