"""R-LACE's game in factors (Ravfogel et al. 2022): a predictor against a matrix in the Fantope, one batch a step."""
from __future__ import annotations

import numpy as np
from scipy.linalg import helmert


class Game:
    """The predictor w [d, k−1], b [k−1] and A = c·I + U diag(s − c) Uᵀ, U [d, m] orthonormal; NumPy, float64.

    Softmax sees differences only: the k classes' weights are `contrasts` [k, k−1] (orthonormal, summing to 0) @ wᵀ."""

    def __init__(self, start, k: int, width: int):
        self.rank = start.shape[1]
        self.u, self.s, self.c, self.held = start, np.ones(self.rank), 0.0, self.rank + width
        self.contrasts = helmert(k).T
        self.w, self.b = np.zeros((len(start), k - 1)), np.zeros(k - 1)

    def erased(self, v):
        """(I − A) v for v [d, …]."""
        return (1 - self.c) * v - self.u @ ((self.s - self.c)[:, None] * (self.u.T @ v))

    def gradient(self, x, y):
        """∂ mean cross-entropy / ∂ logits, summed against the states [d, k−1] and alone [k−1]."""
        logits = (x @ self.erased(self.w) + self.b) @ self.contrasts.T
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        r = (p @ self.contrasts - y) / len(x)
        return x.T @ r, r.sum(0)

    def step(self, x, y, lr: float, weight_decay: float) -> None:
        """Descent of the predictor, then ascent of A, on the batch x [rows, d] with contrasts y [rows, k−1]."""
        g, gb = self.gradient(x, y)
        self.w = self.w - lr * (self.erased(g) + weight_decay * self.w)
        self.b = self.b - lr * gb
        g, _ = self.gradient(x, y)
        self.ascend(self.w, -lr / 2 * g)                                # ∂/∂A = −(w gᵀ + g wᵀ)/2

    def ascend(self, p, q) -> None:
        """A ← the Fantope's nearest point to A + p qᵀ + q pᵀ, for p, q [d, k−1], by eigenvectors in span(U, p, q)."""
        u, m, new = self.u, len(self.s), np.concatenate([p, q], 1)
        scale = np.maximum(np.sqrt((new * new).sum(0)), 1e-300)
        new = new / scale
        along = u.T @ new
        rest = new - u @ along
        again = u.T @ rest                                              # once is not enough in floating point
        f, length, turn = np.linalg.svd(rest - u @ again, full_matrices=False)
        real = length > 1e-8                                            # what lies in span(U) already adds nothing
        place = np.concatenate([along + again, length[real, None] * turn[real]]) * scale        # p, q in [U, f]
        cross = place[:, :p.shape[1]] @ place[:, p.shape[1]:].T
        inside = cross + cross.T
        inside[np.arange(m), np.arange(m)] += self.s - self.c
        values, vectors = np.linalg.eigh(inside)
        s, c = fantope(values + self.c, self.c, len(u) - len(values), self.rank)
        away = np.abs(s - c)
        kept = away > 1e-14                                             # the others join the complement
        if kept.sum() > self.held:
            kept = np.argsort(-away)[:self.held]
            c = (self.rank - s[kept].sum()) / (len(u) - self.held)
        self.u, self.s, self.c = np.concatenate([u, f[:, real]], 1) @ vectors[:, kept], s[kept], c

    def top(self, start):
        """The `rank` leading eigenvectors of A [d, rank]; where the complement is among them, `start` chooses."""
        above = np.argsort(-self.s)[:self.rank]
        above = above[self.s[above] > self.c]
        return np.linalg.qr(np.concatenate([self.u[:, above], start], 1))[0][:, :self.rank]


def fantope(values, c: float, times: int, rank: int):
    """Nearest eigenvalues in [0, 1] that sum to `rank`: shift all by one number, clip; `c` counts `times`-fold."""
    every, count = np.append(values, c), np.append(np.ones(len(values)), times)
    shifts = np.sort(np.concatenate([every, every - 1]))                # between these the sum is linear
    sums = np.clip(every - shifts[:, None], 0, 1) @ count
    clipped = np.clip(every - np.interp(-rank, -sums, shifts), 0, 1)
    return clipped[:-1], float(clipped[-1])
