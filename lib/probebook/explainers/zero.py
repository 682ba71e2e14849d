"""No effect at all, ever: the floor. Its L2 and normdiff errors are the mean length of the true effects."""
from __future__ import annotations

import torch

from probebook.explainers.base import Explainer


class Zero(Explainer):
    """The zero vector."""

    def _effect(self, pairs):
        return torch.zeros(len(pairs), self.k)
