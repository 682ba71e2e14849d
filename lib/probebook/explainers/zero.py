"""No effect at all: the floor, whose L2 and normdiff errors are the length of the true effects."""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor

from probebook.explainers.base import Explainer


class Zero(Explainer):
    """The zero vector."""

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        return torch.zeros(len(pairs), self.k)
