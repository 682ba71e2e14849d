"""Relaxed linear adversarial concept erasure (Ravfogel et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import entropy as entropy_of
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError, to_numpy
from probebook.interventions.inlp import not_projected_out, project_out
from probebook.interventions.rlace_game import Game
from probebook.probes.checks import check_labels, check_states
from probebook.probes.linear import LinearProbe


def mean_difference(h: ArrayLike, z: ArrayLike) -> Tensor:
    """Unit vector [d] (float64) from the mean of class 0 to that of class 1.

    For two classes it is the optimum of R-LACE's game of rank 1 in closed form: without it the
    class means coincide, so no linear classifier with a convex loss beats the label entropy
    (Belrose et al. 2023, theorem 3.1). Raises UserError for more than two classes."""
    h = check_states(h).detach().double()
    z = check_labels(z, len(h), device=h.device)
    if int(z.max()) > 1:
        raise UserError(
            f"{int(z.max()) + 1} classes: the closed form is for two, take RLACE or LEACE"
        )
    return F.normalize(h[z == 1].mean(0) - h[z == 0].mean(0), dim=0)


class RLACE:
    """Erases a concept by the subspace of a given rank without which a linear probe does worst.

    min over predictors θ, max over A of the cross-entropy of θ((I − A) h); A in the Fantope.

    The Fantope is {0 ≼ A ≼ I, tr A = rank}. Both sides take stochastic gradient steps (`Game`).
    The start is the projection onto `rank` random combinations of the states. Every rank is a game
    of its own: the directions for rank 2 need not contain the one for rank 1. The k−1 directions
    of the class means are enough, and further ones are arbitrary. For two classes the direction is
    known (`mean_difference`), so the game is of use where rank < k−1, or for other losses.

    - `steps`: of the game, at most.
    - `lr`: step size for states scaled by one number to unit mean square; falls linearly to 0.
    - `weight_decay`: of the predictor.
    - `batch`: rows per step.
    - `every`: steps between candidates.
    - `width`: columns of the game's matrix beyond `rank`; always exact for width ≥ d.
    - `tol`: the game ends once no more than this share of the label entropy is left to gain.
    - `C`: inverse penalty of the reported probe.
    - `seed`: of the order of the rows and of the start."""

    def __init__(
        self,
        rank: int = 1,
        steps: int = 20_000,
        lr: float = 0.005,
        weight_decay: float = 1e-5,
        batch: int = 128,
        every: int = 200,
        width: int = 16,
        tol: float = 1e-3,
        C: float = 1e4,
        seed: int = 0,
    ):
        if rank < 0:
            raise UserError(f"rank={rank}: give a number of directions ≥ 0")
        if min(steps, batch, every, width) < 1:
            raise UserError(
                f"steps={steps}, batch={batch}, every={every}, width={width}: "
                "each must be at least 1"
            )
        self.rank, self.steps, self.lr, self.weight_decay = rank, steps, lr, weight_decay
        self.batch, self.every, self.width = batch, every, width
        self.tol, self.C, self.seed = tol, C, seed

    def fit(self, h: ArrayLike, z: ArrayLike) -> FittedRLACE:
        """Play on h [n, d], z [n] (any k ≥ 2), on the CPU in float64.

        Every `every` steps the top eigenvectors of A are a candidate; the one with the highest
        loss (`_Discriminant`) is returned. Raises UserError for bad input or rank > d."""
        h = check_states(h).detach()
        z = check_labels(z, len(h), device=h.device)
        n, d = h.shape
        if self.rank > d:
            raise UserError(
                f"rank={self.rank}: the hidden states have {d} dimensions, so choose 0 … {d}"
            )
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(n)  # once: then batches are slices
        x, y = to_numpy(h.cpu().double())[order], to_numpy(z)[order]
        x -= x.mean(0)  # the predictor's bias absorbs the mean
        x /= max(np.sqrt(np.mean(x * x)), 1e-300)
        score, entropy = _Discriminant(x, y), float(entropy_of(np.bincount(y)))
        start = np.linalg.qr(x.T @ rng.normal(size=(n, self.rank)))[0]
        game = Game(start, int(y.max()) + 1, self.width)
        parts = -(-n // self.batch)
        batches = list(zip(np.array_split(x, parts), np.array_split(game.contrasts[y], parts)))
        best, best_loss, t = start, score(start), 0
        while t < self.steps and best_loss < (1 - self.tol) * entropy and 0 < self.rank < d:
            lr = self.lr * (1 - t / self.steps)
            batch_x, batch_y = batches[t % parts]
            game.step(batch_x, batch_y, lr, self.weight_decay)
            t += 1
            if t % self.every == 0 or t == self.steps:
                candidate = game.top(start)
                loss = score(candidate)
                if loss > best_loss:
                    best, best_loss = candidate, loss
        basis = torch.from_numpy(best).to(h.device)
        edited = project_out(h.double() - h.double().mean(0), basis)
        logits = LinearProbe(self.C, tol=1e-5).fit(edited, z)(edited)
        accuracy = float((logits.argmax(1) == z).double().mean())
        return FittedRLACE(
            basis, self.rank, float(F.cross_entropy(logits, z)), accuracy, entropy, t
        )


class _Discriminant:
    """Loss of a converged probe on the k−1 linear discriminants of x with a basis projected out.

    The discriminants are the first Newton step from the label shares, so to second order this is
    the loss of the probe on all dimensions, and never less. But it costs an [n, k−1] problem, and
    x Σ⁻¹ is computed once for all bases."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.x, self.y, shares = x, y, np.bincount(y) / len(y)
        variance, axes = np.linalg.eigh(x.T @ x / len(x))
        positive = variance > 1e-12 * variance[-1]
        self.whiten = axes[:, positive] / np.sqrt(variance[positive])
        means = self.whiten.T @ (x.T @ (np.eye(len(shares))[y] / np.sqrt(shares))) / len(x)
        self.means = means @ np.linalg.svd(means)[2][:-1].T  # one of k columns is 0

    def __call__(self, basis: np.ndarray) -> float:
        hidden = np.linalg.qr(self.whiten.T @ basis)[0]
        visible = self.means - hidden @ (hidden.T @ self.means)
        features = self.x @ (self.whiten @ visible)
        probe = LinearProbe(1e4, tol=1e-5).fit(features, self.y)
        return float(F.cross_entropy(probe(features), torch.from_numpy(self.y)))


@dataclass(frozen=True)
class FittedRLACE:
    """Projects states onto the nullspace of `basis`; `edit(h)` → [n, d]. There is no `.at(rank)`.

    `loss` (nats), `accuracy`: of a converged probe on the edited data of the fit; at best the label
    entropy and the share of the largest class."""

    basis: Tensor  # [d, rank] float64, orthonormal
    rank: int
    loss: float
    accuracy: float
    entropy: float  # of the labels (nats)
    steps: int  # how many the game took

    def __call__(self, h: ArrayLike) -> Tensor:
        """Edited states [n, d]."""
        return project_out(h, self.basis)

    def failed(self, edited: ArrayLike, h: ArrayLike) -> Tensor:
        """Which edited states kept a part along `basis`, given the unedited states h: bool [n]."""
        return not_projected_out(edited, h, self.basis)
