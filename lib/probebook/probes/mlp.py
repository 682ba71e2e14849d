"""Multi-layer perceptron probes: a whole grid of settings trained at once by batched matrix products."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import labels, states


@dataclass(frozen=True)
class MLPProbe:
    """A fitted perceptron: `probe(h)` → logits [n, k]. Made by `MLPProbe(...).fit` or the best of `MLPProbe.grid`.

    `layers` hidden ReLU layers of `width` units, Adam with rate `lr`, cross-entropy, `epochs` passes.
    The inputs are standardised by the training mean and standard deviation (kept in the probe)."""

    layers: int = 1
    width: int = 64
    lr: float = 1e-3
    seed: int = 0
    epochs: int = 8
    batch: int = 32

    @staticmethod
    def grid(layers: Sequence[int] = (1, 2, 3), widths: Sequence[int] = (64, 256, 512, 1024),
             lrs: Sequence[float] = (1e-4, 1e-3, 1e-2), seeds: Sequence[int] = (0,), epochs: int = 8,
             batch: int = 32) -> Grid:
        """All combinations of the settings (defaults: Canby et al., § 4.2), to be trained at once."""
        if not (layers and widths and lrs and seeds):
            raise UserError("an empty grid: give at least one value of layers, widths, lrs and seeds")
        cells = [MLPProbe(*cell, epochs, batch) for cell in itertools.product(layers, widths, lrs, seeds)]
        return Grid(tuple(cells))

    def fit(self, h, z, h_valid=None, z_valid=None) -> FittedMLP:
        """Train this one cell on h [n, d], z [n]."""
        return Grid((self,)).fit(h, z, h_valid, z_valid)


@dataclass(frozen=True)
class FittedMLP:
    """Logits [n, k] of a trained perceptron; differentiable in h. `accuracy`: on the validation rows.

    `weights` and `biases` hold one matrix [in, out] and vector [out] a layer; `cell` its settings;
    `scores` every cell of the grid with its validation accuracy."""

    cell: MLPProbe
    accuracy: float
    scores: tuple[tuple[MLPProbe, float], ...]
    mean: torch.Tensor
    std: torch.Tensor
    weights: tuple[torch.Tensor, ...]
    biases: tuple[torch.Tensor, ...]

    def __call__(self, h) -> torch.Tensor:
        h = torch.as_tensor(h)
        mean, std, *weights = (t.to(h) for t in (self.mean, self.std, *self.weights))
        weights[0] = weights[0] / std[:, None]                            # (h − mean) / std @ w, without a pass over h
        biases = [b.to(h) for b in self.biases]
        biases[0] = biases[0] - mean @ weights[0]
        for i, (w, b) in enumerate(zip(weights, biases)):
            h = torch.addmm(b, h, w)
            h = F.relu(h, inplace=True) if i < len(weights) - 1 else h
        return h


@dataclass(frozen=True)
class Grid:
    """Cells trained side by side. Cells of one shape (layers, width) share one batched product [c, b, d] @ [c, d, w];
    every cell sees the batches that it would see alone, so the grid equals a loop over its cells."""

    cells: tuple[MLPProbe, ...]

    def fit(self, h, z, h_valid=None, z_valid=None) -> FittedMLP:
        """Train every cell on h [n, d], z [n]; return the one with the best validation accuracy (first of ties).

        Without validation rows the last tenth of a seeded permutation is held out."""
        h = states(h).detach().float()
        z = labels(z, len(h), device=h.device)
        k = int(z.max()) + 1
        if h_valid is None:
            order = torch.randperm(len(h), generator=torch.Generator().manual_seed(0)).to(h.device)
            cut = max(1, len(h) // 10)
            h_valid, z_valid, h, z = h[order[:cut]], z[order[:cut]], h[order[cut:]], z[order[cut:]]
        h_valid = states(h_valid, h.shape[1]).to(h)
        z_valid = labels(z_valid, len(h_valid), k, h.device)
        mean, std = h.mean(0), h.std(0).clamp_min(1e-6)
        x, x_valid = (h - mean) / std, (h_valid - mean) / std
        found = []
        for _, group in itertools.groupby(sorted(self.cells, key=_shape), key=_shape):
            cells = list(group)
            weights, biases = _train(cells, x, z, k)
            hits = (_forward(x_valid.expand(len(cells), -1, -1), weights, biases).argmax(-1) == z_valid).float().mean(1)
            found += [(c, float(a), [w[i] for w in weights], [b[i, 0] for b in biases])
                      for i, (c, a) in enumerate(zip(cells, hits))]
        found.sort(key=lambda f: self.cells.index(f[0]))
        cell, accuracy, weights, biases = max(found, key=lambda f: f[1])
        scores = tuple((c, a) for c, a, _, _ in found)
        return FittedMLP(cell, accuracy, scores, mean, std, tuple(weights), tuple(biases))


def _shape(cell):
    return cell.layers, cell.width, cell.epochs, cell.batch


def _forward(x, weights, biases):
    for i, (w, b) in enumerate(zip(weights, biases)):
        x = torch.baddbmm(b, x, w)
        x = F.relu(x) if i < len(weights) - 1 else x
    return x


def _train(cells, x, z, k):
    """Adam on all cells of one shape; weights [c, in, out] and biases [c, 1, out] per layer."""
    n, d = x.shape
    sizes = [d] + [cells[0].width] * cells[0].layers + [k]
    weights, biases = [], []
    for a, b in zip(sizes, sizes[1:]):
        bound = a ** -.5                                                  # torch.nn.Linear's start
        draws = [_generator(c.seed, a, b, len(weights)) for c in cells]
        drawn = torch.stack([torch.empty(a + 1, b).uniform_(-bound, bound, generator=g) for g in draws]).to(x.device)
        weights.append(drawn[:, :-1].clone().requires_grad_())
        biases.append(drawn[:, -1:].clone().requires_grad_())
    parameters = weights + biases
    ofcell = [[p.detach()[i].requires_grad_() for p in parameters] for i in range(len(cells))]    # views: each its rate
    optimizer = torch.optim.Adam([{"params": ps, "lr": c.lr} for ps, c in zip(ofcell, cells)], fused=True)
    seeds = sorted({c.seed for c in cells})
    which = torch.tensor([seeds.index(c.seed) for c in cells])
    with torch.enable_grad():
        for epoch in range(cells[0].epochs):
            orders = torch.stack([torch.randperm(n, generator=_generator(s, epoch, n)) for s in seeds])
            orders = orders[which].to(x.device)
            for begin in range(0, n, cells[0].batch):
                rows = orders[:, begin:begin + cells[0].batch]
                logits = _forward(x[rows], weights, biases)
                loss = F.cross_entropy(logits.flatten(0, 1), z[rows].flatten(), reduction="none")
                loss = loss.view(rows.shape).mean(1).sum()                # cells do not mix: a sum of their losses
                gradients = torch.autograd.grad(loss, parameters)
                for i, ps in enumerate(ofcell):
                    for p, g in zip(ps, gradients):
                        p.grad = g[i]
                optimizer.step()
    return [w.detach() for w in weights], [b.detach() for b in biases]


def _generator(*numbers):
    import numpy as np

    return torch.Generator().manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
