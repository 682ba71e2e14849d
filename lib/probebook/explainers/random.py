"""The difference of two random distributions (Abraham et al., § 6): an uninformed estimate."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.explainers.base import Explainer


class Random(Explainer):
    """p′ − p with p and p′ drawn evenly, by `seed`, from all distributions over the k classes."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        rng = np.random.default_rng(self.seed)
        before, after = rng.dirichlet(np.ones(self.k), size=(2, len(pairs)))
        return torch.from_numpy(after - before)
