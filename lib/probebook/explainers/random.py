"""The difference of two random distributions (Abraham et al., § 6): what an estimate that knows nothing scores."""
from __future__ import annotations

import numpy as np
import torch

from probebook.explainers.base import Explainer


class Random(Explainer):
    """p′ − p with p and p′ drawn evenly from all distributions over the k classes."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def _effect(self, pairs):
        drawn = np.random.default_rng(self.seed).dirichlet(np.ones(self.k), size=(2, len(pairs)))
        return torch.from_numpy(drawn[1] - drawn[0])
