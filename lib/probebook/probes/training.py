"""Adam on many small perceptrons side by side: matrices in stacks, gradients in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim.adam import adam

# The settings of torch.optim.Adam, with rate 1.
ADAM: dict[str, Any] = {
    "fused": True,
    "amsgrad": False,
    "beta1": 0.9,
    "beta2": 0.999,
    "lr": 1.0,
    "weight_decay": 0.0,
    "eps": 1e-8,
    "maximize": False,
}


@dataclass(frozen=True)
class Cell:
    """Settings of one perceptron, trained with Adam on the cross-entropy.

    `patience`: if given, training ends when the validation loss has not fallen for so many epochs,
    and the weights are those of the epoch with the best validation accuracy (Zhu et al. 2022,
    appendix C.4)."""

    layers: int = 1  # hidden ReLU layers (0: softmax regression)
    width: int = 64  # units of each
    lr: float = 1e-3  # Adam's rate
    seed: int = 0  # of the start and the batches
    epochs: int = 8  # passes over the training rows, at most
    batch: int = 32  # rows per step
    patience: int | None = None


def forward(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    """Inputs [c, in, b] of every layer, then the logits [c, k, b]; x [c, b, d], or [b, d] for all.

    Items are columns, which is quicker where there are few units."""
    layers = [x.mT.expand(len(weights[0]), -1, -1)]
    for i, (w, b) in enumerate(zip(weights, biases)):
        out = torch.baddbmm(b, w, layers[-1])
        layers.append(out.relu_() if i < len(weights) - 1 else out)
    return layers


def write_gradients(
    x: Tensor,
    onehot: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    weight_slopes: Sequence[Tensor],
    bias_slopes: Sequence[Tensor],
) -> None:
    """Write the gradients of each cell's mean cross-entropy into the last two arguments.

    Autograd would take longer than the products."""
    *layers, logits = forward(x, weights, biases)
    error = (logits.softmax(1) - onehot.mT).div_(logits.shape[-1])
    for i in reversed(range(len(weights))):
        torch.bmm(error, layers[i].mT, out=weight_slopes[i])
        torch.sum(error, 2, keepdim=True, out=bias_slopes[i])
        if i:
            error = (weights[i].mT @ error).mul_(layers[i].sign())


def train(
    cells: Sequence[Cell],
    x: Tensor,
    onehot: Tensor,
    rows: Mapping[int, Tensor],
    x_valid: Tensor,
    z_valid: Tensor,
) -> tuple[list[Tensor], list[Tensor]]:
    """Weights [c, out, in] and biases [c, out, 1] per layer of cells differing in rate and seed.

    `rows`: of x [n, d] and onehot [n, k], on which the cells of each seed are trained. Adam's
    steps are proportional to its rate, so all cells take steps of rate 1 (summed in `moved`) and
    each goes its own rate times that sum. All numbers of a kind lie in one flat tensor, layer by
    layer. Cells that have stopped leave the batch after the epoch."""
    one, seeds, device = cells[0], sorted({cell.seed for cell in cells}), x.device
    sizes = [x.shape[1]] + [one.width] * one.layers + [onehot.shape[1]]
    depth = len(sizes) - 1
    start = _start(cells, sizes, device)
    now, moved, mean, square, slope, rates = (
        start.clone(),
        *(torch.zeros_like(start) for _ in range(5)),
    )
    for part in _parts(rates, sizes, len(cells)):
        part += torch.tensor([cell.lr for cell in cells], device=device)[:, None, None]
    active = torch.arange(len(cells))
    stopping = _EarlyStopping(len(cells), one.patience or 0)  # not asked if patience is None
    best = now if one.patience is None else start.clone()
    seed_index = torch.tensor([seeds.index(cell.seed) for cell in cells])
    step = torch.zeros((), device=device)
    for epoch in range(one.epochs):
        orders = torch.stack([_shuffled(rows[seed], seed, epoch) for seed in seeds])
        orders = orders[seed_index[active]].to(device)
        layers, slopes = _parts(now, sizes, len(active)), _parts(slope, sizes, len(active))
        for batch in orders.split(one.batch, 1):
            write_gradients(
                F.embedding(batch, x),
                F.embedding(batch, onehot),
                layers[:depth],
                layers[depth:],
                slopes[:depth],
                slopes[depth:],
            )
            adam([moved], [slope], [mean], [square], [], [step], **ADAM)
            torch.addcmul(start, moved, rates, out=now)
        if one.patience is None:
            continue
        logits = forward(x_valid, layers[:depth], layers[depth:])[-1]
        improved, going = stopping(active, logits, z_valid)
        for part, best_part in zip(layers, _parts(best, sizes, len(cells))):
            best_part[active[improved].to(device)] = part[improved.to(device)]
        if not going.any():
            break
        if not going.all():
            start, now, moved, mean, square, slope, rates = (
                torch.cat(
                    [part[going.to(device)].flatten() for part in _parts(flat, sizes, len(active))]
                )
                for flat in (start, now, moved, mean, square, slope, rates)
            )
            active = active[going]
    parts = _parts(best, sizes, len(cells))
    return parts[:depth], parts[depth:]


class _EarlyStopping:
    """Which cells have improved in accuracy, and whose loss fell in the last `patience` epochs."""

    def __init__(self, cells: int, patience: int):
        self.loss, self.accuracy = torch.full((cells,), torch.inf), torch.full((cells,), -1.0)
        self.since, self.patience = torch.zeros(cells), patience

    def __call__(self, active: Tensor, logits: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(logits, z.expand(len(active), -1), reduction="none").mean(1).cpu()
        accuracy = (logits.argmax(1) == z).float().mean(1).cpu()
        improved, fell = accuracy > self.accuracy[active], loss < self.loss[active]
        self.accuracy[active] = accuracy.maximum(self.accuracy[active])
        self.loss[active] = loss.minimum(self.loss[active])
        self.since[active] = torch.where(fell, 0.0, self.since[active] + 1)
        return improved, self.since[active] < self.patience


def _shuffled(rows: Tensor, seed: int, epoch: int) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator(seed, epoch, len(rows)))]


def _parts(flat: Tensor, sizes: list[int], cells: int) -> list[Tensor]:
    """Views of a flat tensor: the weights [c, out, in] of every layer, then biases [c, out, 1]."""
    shapes = [(cells, b, a) for a, b in zip(sizes, sizes[1:])] + [(cells, b, 1) for b in sizes[1:]]
    parts = flat.split([c * b * a for c, b, a in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes)]


def _start(cells: Sequence[Cell], sizes: list[int], device: torch.device) -> Tensor:
    """All weights and biases, drawn as torch.nn.Linear draws them, by each cell's seed."""
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        draws = (generator(cell.seed, a, b, i) for cell in cells)
        bound = a**-0.5
        layers.append(
            torch.stack([torch.empty(a + 1, b).uniform_(-bound, bound, generator=g) for g in draws])
        )
    weights = [layer.mT[..., :-1].flatten() for layer in layers]
    biases = [layer.mT[..., -1:].flatten() for layer in layers]
    return torch.cat(weights + biases).to(device)


def generator(*numbers: int) -> torch.Generator:
    """A generator seeded by several numbers together."""
    seed = np.random.SeedSequence(numbers).generate_state(1)[0]
    return torch.Generator().manual_seed(int(seed))
