"""Plain implementations with which tests and benchmarks compare the library's fast ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.linalg import orth
from sklearn.linear_model import LogisticRegression

from probebook.probes import MLPProbe
from probebook.probes.training import generator


def official_inlp(x: np.ndarray, z: np.ndarray, rounds: int, **solver: Any) -> list[np.ndarray]:
    """The projections [d, d] after each round of INLP as its authors compute it.

    Each round fits a scikit-learn classifier, adds the projection onto its weights to a growing
    list, and projects all states anew. `solver`: arguments of `LogisticRegression`."""
    left, removed, projections = x, [], []
    for _ in range(rounds):
        w = LogisticRegression(**solver).fit(left, z).coef_
        if len(w) > 1:  # softmax sees differences only
            w = w - w.mean(0)
        row_space = orth(w.T, rcond=1e-6)
        removed.append(row_space @ row_space.T)
        directions = orth(np.sum(removed, axis=0), rcond=1e-8)
        projections.append(np.eye(x.shape[1]) - directions @ directions.T)
        left = x @ projections[-1]
    return projections


def network(cell: MLPProbe, sizes: Sequence[int]) -> torch.nn.Sequential:
    """A torch module that starts as the perceptron `cell` does; `sizes`: units, inputs first."""
    net = torch.nn.Sequential()
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        bound, draws = a**-0.5, generator(cell.seed, a, b, i)
        start = torch.empty(a + 1, b).uniform_(-bound, bound, generator=draws)
        layer = torch.nn.utils.skip_init(torch.nn.Linear, a, b)
        layer.load_state_dict({"weight": start[:-1].T, "bias": start[-1]})
        net.extend([layer] if i == len(sizes) - 2 else [layer, torch.nn.ReLU()])
    return net
