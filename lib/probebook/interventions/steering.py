"""What edits towards a class share: their strength, and the class whose mean is nearest."""

from __future__ import annotations

import torch
from torch import Tensor

from probebook.base import UserError


def check_strength(strength: float) -> float:
    """A strength as it came. UserError unless it is ≥ 0."""
    if not strength >= 0:
        raise UserError(f"strength={strength}: it must be ≥ 0")
    return float(strength)


def nearest(h: Tensor, means: Tensor) -> Tensor:
    """The class [n] whose mean, a row of `means` [k, d], is nearest to each row of h [n, d]."""
    return torch.cdist(h.double(), means.to(h.device)).argmin(1)
