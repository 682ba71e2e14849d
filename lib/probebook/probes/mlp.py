"""Multi-layer perceptron probes: a whole grid of settings trained at once by batched matrix products."""
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import labels, states, various
from probebook.probes.training import forward, train


@dataclass(frozen=True)
class MLPProbe:
    """A fitted perceptron: `probe(h)` → logits [n, k]. Made by `MLPProbe(...).fit` or the best of `MLPProbe.grid`.

    `layers` hidden ReLU layers of `width` units (none: softmax regression), Adam with rate `lr`, cross-entropy,
    `epochs` passes. With `patience`, training ends when the validation loss has not fallen for so many epochs, and the
    weights are those of the epoch with the best validation accuracy (Zhu et al. 2022, appendix C.4).
    The inputs are standardised by the training mean and standard deviation (kept in the probe)."""

    layers: int = 1
    width: int = 64
    lr: float = 1e-3
    seed: int = 0
    epochs: int = 8
    batch: int = 32
    patience: int | None = None

    @staticmethod
    def grid(layers: Sequence[int] = (1, 2, 3), widths: Sequence[int] = (64, 256, 512, 1024),
             lrs: Sequence[float] = (1e-4, 1e-3, 1e-2), seeds: Sequence[int] = (0,), epochs: int = 8,
             batch: int = 32, batches: Sequence[int] = (), patience: int | None = None) -> Grid:
        """All combinations of the settings (defaults: Canby et al., § 4.2), to be trained at once.

        `batches`: several sizes, instead of `batch`. Without layers the width means nothing and is 0."""
        if not (layers and widths and lrs and seeds):
            raise UserError("an empty grid: give at least one value of layers, widths, lrs and seeds")
        cells = [MLPProbe(deep, wide if deep else 0, lr, seed, epochs, size, patience)
                 for deep, wide, lr, seed, size in itertools.product(layers, widths, lrs, seeds, batches or (batch,))]
        return Grid(tuple(dict.fromkeys(cells)))

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
    """Cells trained side by side. Cells of one shape (all but rate and seed) share one batched product
    [c, w, d] @ [c, d, b], which those that have stopped leave. Every cell sees the batches that it would see alone, so
    the grid equals a loop over its cells."""

    cells: tuple[MLPProbe, ...]

    def fit(self, h, z, h_valid=None, z_valid=None) -> FittedMLP:
        """Train every cell on h [n, d], z [n]; return the one with the best validation accuracy (first of ties).

        Without validation rows the last tenth of a seeded permutation is held out."""
        return _best(self.fit_all(h, z, h_valid, z_valid))

    def fit_seeds(self, h, z, h_valid=None, z_valid=None, rows=None) -> dict[int, FittedMLP]:
        """The best cell of each seed; arguments as in `fit_all`."""
        found = self.fit_all(h, z, h_valid, z_valid, rows)
        return {seed: _best([f for f in found if f.cell.seed == seed]) for seed in dict.fromkeys(
            c.seed for c in self.cells)}

    def fit_all(self, h, z, h_valid=None, z_valid=None, rows: Mapping[int, Sequence[int]] | None = None
                ) -> list[FittedMLP]:
        """Train every cell; return all, in the order of `cells`, without `scores`.

        `rows`: of h, that the cells of a seed are trained on, equally many for each (default: all); they need
        validation rows beside them. Mean and deviation are always those of the whole h."""
        h = various(states(h)).detach().float()
        z = labels(z, len(h), device=h.device)
        k = int(z.max()) + 1
        if h_valid is None and rows is not None:
            raise UserError("rows for each seed: give validation rows too, h_valid and z_valid")
        if h_valid is None:
            order = torch.randperm(len(h), generator=torch.Generator().manual_seed(0)).to(h.device)
            cut = max(1, len(h) // 10)
            h_valid, z_valid, h, z = h[order[:cut]], z[order[:cut]], h[order[cut:]], z[order[cut:]]
        h_valid = states(h_valid, h.shape[1]).to(h)
        z_valid = labels(z_valid, len(h_valid), k, h.device)
        mean, std = h.mean(0), h.std(0).clamp_min(1e-6)
        x, x_valid = (h - mean) / std, (h_valid - mean) / std
        rows = {c.seed: torch.arange(len(x)) if rows is None else torch.as_tensor(rows[c.seed]) for c in self.cells}
        if len({len(drawn) for drawn in rows.values()}) > 1:
            raise UserError("rows for each seed: equally many, since they share their batches")
        found = {}
        for _, group in itertools.groupby(sorted(self.cells, key=_shape), key=_shape):
            cells = list(group)
            weights, biases = train(cells, x, F.one_hot(z, k).float(), rows, x_valid, z_valid)
            hits = (forward(x_valid, weights, biases)[-1].argmax(1) == z_valid).float().mean(1).tolist()
            found |= {c: FittedMLP(c, hits[i], (), mean, std, tuple(w[i].T.contiguous() for w in weights),
                                   tuple(b[i, :, 0] for b in biases)) for i, c in enumerate(cells)}
        return [found[c] for c in self.cells]


def _best(found):
    return replace(max(found, key=lambda f: f.accuracy), scores=tuple((f.cell, f.accuracy) for f in found))


def _shape(cell):
    return cell.layers, cell.width, cell.epochs, cell.batch, -1 if cell.patience is None else cell.patience
