"""Relaxed linear adversarial concept erasure (Ravfogel et al. 2022): a game of a projection against a predictor."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import entropy as entropy_of
from torch.nn import functional as F

from probebook.base import UserError
from probebook.interventions.fantope import Game
from probebook.interventions.inlp import project_out
from probebook.probes.checks import labels, states
from probebook.probes.linear import LinearProbe


def mean_difference(h, z) -> torch.Tensor:
    """Unit vector [d] (float64) from the mean of class 0 to that of class 1: R-LACE's answer for two classes, rank 1.

    Without it the class means coincide, so no linear classifier with a convex loss beats the label entropy (Belrose
    et al. 2023, theorem 3.1): the game's optimum in closed form. Raises UserError for more than two classes."""
    h = states(h).detach().double()
    z = labels(z, len(h), device=h.device)
    if int(z.max()) > 1:
        raise UserError(f"{int(z.max()) + 1} classes: the closed form is for two, take RLACE or LEACE")
    return F.normalize(h[z == 1].mean(0) - h[z == 0].mean(0), dim=0)


class RLACE:
    """min over predictors θ, max over A of the cross-entropy of θ((I − A) h); A in {0 ≼ A ≼ I, tr A = rank}.

    Stochastic gradient steps on both; after each, A is projected onto that set, the Fantope, by shifting and clipping
    its eigenvalues. It is held as c·I + U diag(s − c) Uᵀ with few columns: a batch's gradient has rank 2(k−1), so a
    step needs the eigenvectors of a matrix of that many rows more, never of a d × d one. The start is the projection
    onto `rank` random combinations of the states (from c·I the noise of the batches would fill all d columns).

    Every rank is a game of its own: the directions for rank 2 need not contain the one for rank 1. k−1 directions are
    enough, those of the class means, and the rest is then arbitrary; for two classes the one is known in closed form
    (`mean_difference`). The game earns its time where rank < k−1, or for other losses.

    `lr`: step size for states scaled by one number to unit mean square, falling linearly to 0 over `steps`;
    `weight_decay`: of the predictor; `batch`: rows a step; `every`: steps between candidates; `width`: columns of U
    beyond `rank`, the rest joins c (exact while that many are enough, always for width ≥ d); `C`: inverse penalty of
    the reported probe. The game ends once no more than the share `tol` of the label entropy is left."""

    def __init__(self, rank: int = 1, steps: int = 20_000, lr: float = .005, weight_decay: float = 1e-5,
                 batch: int = 128, every: int = 200, width: int = 16, tol: float = 1e-3, C: float = 1e4,
                 seed: int = 0):
        if rank < 0:
            raise UserError(f"rank={rank}: give a number of directions ≥ 0")
        if min(steps, batch, every, width) < 1:
            raise UserError(f"steps={steps}, batch={batch}, every={every}, width={width}: each must be at least 1")
        self.rank, self.steps, self.lr, self.weight_decay, self.batch = rank, steps, lr, weight_decay, batch
        self.every, self.width, self.tol, self.C, self.seed = every, width, tol, C, seed

    def fit(self, h, z) -> FittedRLACE:
        """Play on h [n, d], z [n] (any k ≥ 2), on the CPU in float64; the result lies on the device of h.

        Every `every` steps the top eigenvectors of A are a candidate. The one with the highest loss (`_Discriminant`)
        is returned, with that of a converged probe on all dimensions. Raises UserError for bad input or rank > d."""
        h = states(h).detach()
        z = labels(z, len(h), device=h.device)
        n, d = h.shape
        if self.rank > d:
            raise UserError(f"rank={self.rank}: the hidden states have {d} dimensions, so choose 0 … {d}")
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(n)                                      # once: then batches are slices
        x, y = h.cpu().double().numpy()[order], z.cpu().numpy()[order]
        x -= x.mean(0)                                                  # the predictor's bias absorbs the mean
        x /= max(np.sqrt(np.mean(x * x)), 1e-300)
        score, entropy = _Discriminant(x, y), float(entropy_of(np.bincount(y)))
        start = np.linalg.qr(x.T @ rng.normal(size=(n, self.rank)))[0]
        game = Game(start, int(y.max()) + 1, self.width)
        parts = -(-n // self.batch)
        batches = list(zip(np.array_split(x, parts), np.array_split(game.contrasts[y], parts)))
        best, t = (score(start), start), 0
        while t < self.steps and best[0] < (1 - self.tol) * entropy and 0 < self.rank < d:
            game.step(*batches[t % parts], self.lr * (1 - t / self.steps), self.weight_decay)
            t += 1
            if t % self.every == 0 or t == self.steps:
                candidate = game.top(start)
                best = max(best, (score(candidate), candidate), key=lambda pair: pair[0])
        basis = torch.from_numpy(best[1]).to(h.device)
        edited = project_out(h.double() - h.double().mean(0), basis, False)    # the mean is the bias's alone
        logits = LinearProbe(self.C, tol=1e-5).fit(edited, z)(edited)
        return FittedRLACE(basis, self.rank, float(F.cross_entropy(logits, z)),
                           float((logits.argmax(1) == z).double().mean()), entropy, t)


class _Discriminant:
    """Loss of a converged probe that sees x, with a basis projected out, through its k−1 linear discriminants.

    Those are the first Newton step from the label shares, so to second order this is the loss of the probe on all
    dimensions, and never less; but it costs a [n, k−1] problem, and x Σ⁻¹ is worked out once for all bases."""

    def __init__(self, x, y):
        self.x, self.y, shares = x, y, np.bincount(y) / len(y)
        variance, axes = np.linalg.eigh(x.T @ x / len(x))
        kept = variance > 1e-12 * variance[-1]
        self.whiten = axes[:, kept] / np.sqrt(variance[kept])
        seen = self.whiten.T @ (x.T @ (np.eye(len(shares))[y] / np.sqrt(shares))) / len(x)
        self.seen = seen @ np.linalg.svd(seen)[2][:-1].T                # one of k columns is 0

    def __call__(self, basis) -> float:
        hidden = np.linalg.qr(self.whiten.T @ basis)[0]
        features = self.x @ (self.whiten @ (self.seen - hidden @ (hidden.T @ self.seen)))
        probe = LinearProbe(1e4, tol=1e-5).fit(features, self.y)
        return float(F.cross_entropy(probe(features), torch.from_numpy(self.y)))


@dataclass(frozen=True)
class FittedRLACE:
    """The projection onto the nullspace of `basis` [d, rank] (float64, orthonormal); `edit(h)` → [n, d].

    `loss` (nats) and `accuracy`: of a converged probe on the fit's own data after exactly this projection; at best
    `entropy`, that of the labels, and the largest class's share. `steps`: how many the game took. There is no
    `.at(rank)`: fit each rank."""

    basis: torch.Tensor
    rank: int
    loss: float
    accuracy: float
    entropy: float
    steps: int

    def __call__(self, h, *, return_failed: bool = False):
        """Edited states in the dtype and device of h; with `return_failed` also which rows kept a part along it."""
        return project_out(h, self.basis, return_failed)
