"""Multi-layer perceptron probes: a grid of settings trained at once by batched matrix products."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import check_labels, check_states, check_states_differ
from probebook.probes.training import Cell, forward, train


@dataclass(frozen=True)
class MLPProbe(Cell):
    """A perceptron that reads a property; `fit` trains one, `grid` many side by side.

    `layers`, `width`, `lr`, `seed`, `epochs`, `batch`, `patience`: as in `Cell`. The inputs are
    standardised by the training mean and standard deviation."""

    @staticmethod
    def grid(
        layers: Sequence[int] = (1, 2, 3),
        widths: Sequence[int] = (64, 256, 512, 1024),
        lrs: Sequence[float] = (1e-4, 1e-3, 1e-2),
        seeds: Sequence[int] = (0,),
        epochs: int = 8,
        batch: int = 32,
        batches: Sequence[int] = (),
        patience: int | None = None,
    ) -> Grid:
        """All combinations of the settings (defaults: Canby et al., § 4.2), to be trained at once.

        `batches`: several sizes, instead of `batch`. Without layers the width is 0."""
        if not (layers and widths and lrs and seeds):
            raise UserError("an empty grid: give at least one value of layers, widths, lrs, seeds")
        combinations = itertools.product(layers, widths, lrs, seeds, batches or (batch,))
        cells = (
            MLPProbe(depth, width if depth else 0, lr, seed, epochs, size, patience)
            for depth, width, lr, seed, size in combinations
        )
        return Grid(tuple(dict.fromkeys(cells)))

    def fit(
        self,
        h: ArrayLike,
        z: ArrayLike,
        h_valid: ArrayLike | None = None,
        z_valid: ArrayLike | None = None,
    ) -> FittedMLP:
        """Train this one cell on h [n, d], z [n]."""
        return Grid((self,)).fit(h, z, h_valid, z_valid)


@dataclass(frozen=True)
class FittedMLP:
    """A trained perceptron: `probe(h)` → logits [n, k], differentiable in h."""

    cell: MLPProbe  # its settings
    accuracy: float  # on the validation rows
    scores: tuple[tuple[MLPProbe, float], ...]  # each cell of the grid with its validation accuracy
    mean: Tensor  # [d], of the training states
    std: Tensor  # [d], of the training states
    weights: tuple[Tensor, ...]  # a matrix [in, out] for each layer
    biases: tuple[Tensor, ...]  # a vector [out] for each layer

    def __call__(self, h: ArrayLike) -> Tensor:
        """Logits [n, k] in the dtype of h."""
        h = torch.as_tensor(h)
        mean, std, *weights = (t.to(h) for t in (self.mean, self.std, *self.weights))
        # (h − mean) / std goes into the first layer, which saves a pass over h.
        weights[0] = weights[0] / std[:, None]
        biases = [b.to(h) for b in self.biases]
        biases[0] = biases[0] - mean @ weights[0]
        for i, (w, b) in enumerate(zip(weights, biases)):
            h = torch.addmm(b, h, w)
            h = F.relu(h, inplace=True) if i < len(weights) - 1 else h
        return h


@dataclass(frozen=True)
class Panel:
    """Perceptrons that judge together: `panel(h)` → logits [m, n, k], one judge after the other.

    A score of states is the mean of the `members`' scores, so that it hardly moves where rounding
    or the processor changes one of them (page 1/02)."""

    members: tuple[FittedMLP, ...]

    def __call__(self, h: ArrayLike) -> Tensor:
        """Logits [m, n, k] in the dtype of h."""
        return torch.stack([member(h) for member in self.members])

    def best(self) -> FittedMLP:
        """The first of those with the best validation accuracy, with the `scores` of all."""
        scores = tuple((one.cell, one.accuracy) for one in self.members)
        return replace(max(self.members, key=lambda one: one.accuracy), scores=scores)


@dataclass(frozen=True)
class Grid:
    """Perceptrons trained side by side; the result equals a loop over the `cells`.

    Cells of one shape (all settings but rate and seed) share one batched matrix product. Every
    cell sees the batches that it would see alone."""

    cells: tuple[MLPProbe, ...]

    def fit(
        self,
        h: ArrayLike,
        z: ArrayLike,
        h_valid: ArrayLike | None = None,
        z_valid: ArrayLike | None = None,
    ) -> FittedMLP:
        """Train every cell; return the first of those with the best validation accuracy.

        Without validation rows the last tenth of a seeded permutation is held out."""
        return Panel(tuple(self.fit_all(h, z, h_valid, z_valid))).best()

    def fit_seeds(
        self,
        h: ArrayLike,
        z: ArrayLike,
        h_valid: ArrayLike | None = None,
        z_valid: ArrayLike | None = None,
        rows: Mapping[int, ArrayLike] | None = None,
    ) -> dict[int, FittedMLP]:
        """The best cell of each seed; arguments as in `fit_all`."""
        by_seed: dict[int, list[FittedMLP]] = {}
        for fitted in self.fit_all(h, z, h_valid, z_valid, rows):
            by_seed.setdefault(fitted.cell.seed, []).append(fitted)
        return {seed: Panel(tuple(cells)).best() for seed, cells in by_seed.items()}

    def fit_all(
        self,
        h: ArrayLike,
        z: ArrayLike,
        h_valid: ArrayLike | None = None,
        z_valid: ArrayLike | None = None,
        rows: Mapping[int, ArrayLike] | None = None,
    ) -> list[FittedMLP]:
        """All cells, trained, in the order of `cells`; their `scores` are empty.

        `rows`: the rows of h on which the cells of each seed are trained, equally many per seed
        (default: all). They need validation rows. Mean and deviation are those of the whole h."""
        h = check_states_differ(check_states(h)).detach().float()
        z = check_labels(z, len(h), device=h.device)
        k = int(z.max()) + 1
        if h_valid is None and rows is not None:
            raise UserError("rows for each seed: give validation rows too, h_valid and z_valid")
        if h_valid is None:
            draws = torch.Generator().manual_seed(0)
            order = torch.randperm(len(h), generator=draws).to(h.device)
            held_out, order = order.tensor_split([max(1, len(h) // 10)])
            h_valid, z_valid, h, z = h[held_out], z[held_out], h[order], z[order]
        h_valid = check_states(h_valid, h.shape[1]).to(h)
        z_valid = check_labels(z_valid, len(h_valid), k, h.device)
        mean, std = h.mean(0), h.std(0).clamp_min(1e-6)
        x, x_valid, onehot = (h - mean) / std, (h_valid - mean) / std, F.one_hot(z, k).float()
        seeds = dict.fromkeys(cell.seed for cell in self.cells)
        train_rows = {
            seed: torch.arange(len(x)) if rows is None else torch.as_tensor(rows[seed])
            for seed in seeds
        }
        if len({len(of_seed) for of_seed in train_rows.values()}) > 1:
            raise UserError("rows for each seed: equally many, since they share their batches")
        fitted = {}
        for _, group in itertools.groupby(sorted(self.cells, key=_shape), key=_shape):
            cells = list(group)
            weights, biases = train(cells, x, onehot, train_rows, x_valid, z_valid)
            hits = forward(x_valid, weights, biases)[-1].argmax(1) == z_valid
            for i, accuracy in enumerate(hits.float().mean(1).tolist()):
                fitted[cells[i]] = FittedMLP(
                    cells[i],
                    accuracy,
                    (),
                    mean,
                    std,
                    tuple(w[i].T.contiguous() for w in weights),
                    tuple(b[i, :, 0] for b in biases),
                )
        return [fitted[cell] for cell in self.cells]


def _shape(cell: MLPProbe) -> tuple[int, ...]:
    patience = -1 if cell.patience is None else cell.patience
    return cell.layers, cell.width, cell.epochs, cell.batch, patience
