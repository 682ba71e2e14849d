"""A linear world in which selection makes two causes correlate (McMilin, § 3.1 and appendix B).

G := α N, W := (α / 2) N, X := W + γ G + N, Y := γ X + G + N, each N an independent unit normal. A
row is selected, S = 1, if T := W + G + τ N > θ α. In the paper α = 10, θ = 2, τ = 1; γ = 1 is the
well-specified task, γ = 0 the unspecified one. Everything is linear in normals, so the covariances
after selection are those of a truncated normal: they can be simulated, and computed exactly.

Settings: `alpha` is α, above 0; `gamma` is γ; `threshold` is θ, in units of alpha; `noise` is τ, at
least 0. UserError for others.
"""

from __future__ import annotations

from typing import NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm

from probebook.base import UserError, check_choice

NAMES = ["w", "g", "x", "y"]
COMMON = [("W", "S"), ("G", "S"), ("W", "X"), ("G", "Y")]
EDGES = {
    "well-specified": [*COMMON, ("G", "X"), ("X", "Y")],
    "unspecified": COMMON,
}  # figure 2 (a) and (b)


def graph(task: str) -> nx.DiGraph:
    """The causal graph of a task, with nodes W, G, S, X, Y. UserError for a task not in EDGES."""
    return nx.DiGraph(EDGES[check_choice(task, "task", EDGES)])


def simulate(
    n: int,
    alpha: float = 10,
    gamma: float = 1,
    threshold: float = 2,
    noise: float = 1,
    seed: int = 0,
) -> pd.DataFrame:
    """`n` rows of w, g, x, y and s (selected)."""
    _check(alpha, noise)
    if n < 1:
        raise UserError(f"n = {n}: at least 1 row")
    g, w, s, x, y = np.random.default_rng(seed).standard_normal((5, n))
    g, w = alpha * g, alpha / 2 * w
    x = w + gamma * g + x
    selected = w + g + noise * s > threshold * alpha
    return pd.DataFrame({"w": w, "g": g, "x": x, "y": gamma * x + g + y, "s": selected})


class World(NamedTuple):
    """P(S = 1), and the covariances [4, 4] of w, g, x, y before and after selection."""

    kept: float
    before: np.ndarray
    after: np.ndarray

    def corr(self, a: str, b: str, selected: bool = True) -> float:
        """Correlation of two variables, among the selected or among all."""
        c = self.after if selected else self.before
        i, j = NAMES.index(a), NAMES.index(b)
        return float(c[i, j] / np.sqrt(c[i, i] * c[j, j]))

    def slope(self, y: str, on: str | list[str], selected: bool = True) -> np.ndarray:
        """Coefficients of the linear regression of `y` on one or several variables."""
        c = self.after if selected else self.before
        rows = [NAMES.index(name) for name in on]
        return np.linalg.solve(c[np.ix_(rows, rows)], c[rows, NAMES.index(y)])


def exact(alpha: float = 10, gamma: float = 1, threshold: float = 2, noise: float = 1) -> World:
    """P(S = 1) and the covariances, without drawing.

    Cov(V | T > θα) = Cov V − λ (λ − a) c cᵀ / σ², with c = Cov(V, T), σ² = Var T, a = θα / σ and
    λ = φ(a) / (1 − Φ(a)).
    """
    _check(alpha, noise)
    # loadings on the noises of G, W, X and Y
    g, w = np.array([alpha, 0, 0, 0]), np.array([0, alpha / 2, 0, 0])
    x = w + gamma * g + [0, 0, 1, 0]
    loads = np.array([w, g, x, gamma * x + g + [0, 0, 0, 1]])
    before, c = loads @ loads.T, loads @ (w + g)
    variance = (w + g) @ (w + g) + noise**2
    a = threshold * alpha / np.sqrt(variance)
    ratio = np.exp(norm.logpdf(a) - norm.logsf(a))
    after = before - ratio * (ratio - a) / variance * np.outer(c, c)
    return World(float(norm.sf(a)), before, after)


def chance(
    w: ArrayLike, g: ArrayLike, alpha: float = 10, threshold: float = 2, noise: float = 1
) -> np.ndarray:
    """P(S = 1 | W, G), from which weights are made. UserError for noise 0: it would be 0 or 1."""
    _check(alpha, noise)
    if noise == 0:
        raise UserError("noise = 0: whether a row is selected is then certain; a number above 0")
    return norm.cdf((np.add(w, g) - threshold * alpha) / noise)


def _check(alpha: float, noise: float) -> None:
    if not (alpha > 0 and noise >= 0):
        raise UserError(f"alpha = {alpha}, noise = {noise}: alpha above 0, noise at least 0")
