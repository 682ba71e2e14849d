"""The game of R-LACE (Ravfogel et al. 2022): a predictor against a matrix in the Fantope.

After each gradient step on a batch the matrix is projected onto the Fantope
{0 ≼ A ≼ I, tr A = rank} by shifting and clipping its eigenvalues. It is held in few columns: a
batch's gradient has rank 2(k−1), so a step needs eigenvectors of a small matrix only."""

from __future__ import annotations

import numpy as np
from scipy.linalg import helmert


class Game:
    """Plays the game step by step: the predictor w [d, k−1], b [k−1] against A = c·I +
    U diag(s − c) Uᵀ; NumPy, float64.

    Softmax sees differences only: the k classes' weights are `contrasts` [k, k−1] (orthonormal,
    summing to 0) @ wᵀ.

    - `start`: the first U [d, rank], orthonormal. It is not c·I, from which the noise of the
      batches would fill all d columns.
    - `k`: number of classes.
    - `width`: columns of U [d, m] beyond `rank`; the rest joins c."""

    def __init__(self, start: np.ndarray, k: int, width: int):
        self.rank = start.shape[1]
        self.u, self.s, self.c = start, np.ones(self.rank), 0.0
        self.max_columns = self.rank + width
        self.contrasts = helmert(k).T
        self.w, self.b = np.zeros((len(start), k - 1)), np.zeros(k - 1)

    def erased(self, v: np.ndarray) -> np.ndarray:
        """(I − A) v for v [d, …]."""
        return (1 - self.c) * v - self.u @ ((self.s - self.c)[:, None] * (self.u.T @ v))

    def gradient(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ x ∂ℓ/∂logits [d, k−1] and Σ ∂ℓ/∂logits [k−1] of the mean cross-entropy ℓ."""
        logits = (x @ self.erased(self.w) + self.b) @ self.contrasts.T
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        r = (p @ self.contrasts - y) / len(x)
        return x.T @ r, r.sum(0)

    def step(self, x: np.ndarray, y: np.ndarray, lr: float, weight_decay: float) -> None:
        """Descent of the predictor, then ascent of A; x [rows, d], contrasts y [rows, k−1]."""
        g, gb = self.gradient(x, y)
        self.w = self.w - lr * (self.erased(g) + weight_decay * self.w)
        self.b = self.b - lr * gb
        g, _ = self.gradient(x, y)
        self.ascend(self.w, -lr / 2 * g)  # ∂/∂A = −(w gᵀ + g wᵀ)/2

    def ascend(self, p: np.ndarray, q: np.ndarray) -> None:
        """A ← the Fantope's nearest point to A + p qᵀ + q pᵀ, for p, q [d, k−1].

        The eigenvectors that change lie in span(U, p, q)."""
        u, m, new = self.u, len(self.s), np.concatenate([p, q], 1)
        scale = np.maximum(np.sqrt((new * new).sum(0)), 1e-300)
        new = new / scale
        along = u.T @ new
        rest = new - u @ along
        again = u.T @ rest  # once is not enough in floating point
        f, length, turn = np.linalg.svd(rest - u @ again, full_matrices=False)
        real = length > 1e-8  # the others lie in span(U) already
        # p and q in the coordinates of [U, f].
        place = np.concatenate([along + again, length[real, None] * turn[real]]) * scale
        cross = place[:, : p.shape[1]] @ place[:, p.shape[1] :].T
        inside = cross + cross.T
        inside[np.arange(m), np.arange(m)] += self.s - self.c
        values, vectors = np.linalg.eigh(inside)
        s, c = project_to_fantope(values + self.c, self.c, len(u) - len(values), self.rank)
        distance = np.abs(s - c)
        columns = distance > 1e-14  # the others join the complement
        if columns.sum() > self.max_columns:
            columns = np.argsort(-distance)[: self.max_columns]
            c = (self.rank - s[columns].sum()) / (len(u) - self.max_columns)
        self.u = np.concatenate([u, f[:, real]], 1) @ vectors[:, columns]
        self.s, self.c = s[columns], c

    def top(self, start: np.ndarray) -> np.ndarray:
        """The `rank` leading eigenvectors of A [d, rank]; `start` fills up what c·I leaves open."""
        above = np.argsort(-self.s)[: self.rank]
        above = above[self.s[above] > self.c]
        return np.linalg.qr(np.concatenate([self.u[:, above], start], 1))[0][:, : self.rank]


def project_to_fantope(
    values: np.ndarray, c: float, times: int, rank: int
) -> tuple[np.ndarray, float]:
    """Nearest eigenvalues in [0, 1] that sum to `rank`: shift all by one number, then clip.

    The eigenvalues are `values` and `times`-fold c."""
    every: np.ndarray = np.append(values, c)
    count: np.ndarray = np.append(np.ones(len(values)), times)
    shifts = np.sort(np.concatenate([every, every - 1]))  # between these the sum is linear
    sums = np.clip(every - shifts[:, None], 0, 1) @ count
    clipped = np.clip(every - np.interp(-rank, -sums, shifts), 0, 1)
    return clipped[:-1], float(clipped[-1])
