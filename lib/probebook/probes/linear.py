"""Multinomial logistic regression as a probe, solved to its optimum in float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError
from probebook.probes.logistic_regression import Regression


class Linear:
    """A fitted linear classifier, `weight` [k, d] and `bias` [k]: called with states it gives their
    logits."""

    weight: Tensor
    bias: Tensor

    def __call__(self, h: ArrayLike) -> Tensor:
        """Logits [n, k] in the dtype of h."""
        h = torch.as_tensor(h)
        return h @ self.weight.to(h).T + self.bias.to(h)


@dataclass(eq=False)
class LinearProbe(Linear):
    """Linear softmax classifier: logits = h Wᵀ + b, minimising mean cross-entropy + ‖W‖²/(2·C·n).

    The objective is that of scikit-learn's `LogisticRegression(C=…)`; the bias is not penalised.
    The optimum is unique, so the result depends on the data alone. Two classes have one weight
    vector w = W₁ − W₀, returned as the symmetric pair (−w/2, w/2).

    `tol` bounds the Newton decrement; the loss ends within about tol²/2 of its minimum. After
    `fit`, `weight` [k, d] and `bias` [k] are float64."""

    C: float = 1.0  # inverse strength of the penalty
    tol: float = 1e-8
    max_steps: int = 1000  # of the solver (`Regression.minimise`)
    weight: Tensor = field(init=False, repr=False)
    bias: Tensor = field(init=False, repr=False)

    def __post_init__(self):
        if not self.C > 0:
            raise UserError(f"C={self.C}: the inverse penalty must be positive")

    def fit(
        self,
        h: ArrayLike,
        z: ArrayLike,
        covariance: Tensor | None = None,
    ) -> LinearProbe:
        """Fit on states h [n, d] and labels z [n] (0 … k−1).

        `covariance` [d, d]: that of h in float64 (divided by n), if it is known."""
        return self.fit_regression(Regression(h, z, self.C, covariance))

    def fit_regression(self, regression: Regression) -> LinearProbe:
        """Take the minimum of a regression with the same C, minimised before or not."""
        self.weight, self.bias = regression.minimise(self.tol, self.max_steps)
        return self
