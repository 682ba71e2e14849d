"""A sparse autoencoder of hidden states (Cunningham et al. 2024; top-k: Gao et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import check_labels, check_states, check_states_differ
from probebook.probes.logistic_regression import ROWS


class SparseAutoencoder:
    """Writes each state as a sum of few learned directions, its features:
    ĥ = W_decᵀ a + b with a = ReLU(TopK(W_enc (h − b) + c)).

    Only the `active` largest activations of a state remain. So their number is set, and not the
    weight of an L1 penalty (Bricken et al. 2023), which would also make every activation smaller
    than it should be: an edit that sets activations needs their true size. Trained by Adam on the
    squared error; the directions, rows of W_dec, keep the length 1. Encoder and decoder begin as
    the same random directions. Gao et al.'s further loss, which revives dead features in very wide
    autoencoders, is left out.

    - `width`: number of features m.
    - `active`: how many of them a state has, at most.
    - `steps`, `batch`, `lr`: of the training, with lr for states scaled by one number to unit mean
      square; it falls linearly over the last fifth of the steps.
    - `seed`: of the start and the batches."""

    def __init__(
        self,
        width: int = 512,
        active: int = 16,
        steps: int = 1000,
        batch: int = 256,
        lr: float = 5e-3,
        seed: int = 0,
    ):
        if not 1 <= active <= width:
            raise UserError(f"active={active}: choose 1 … {width}, the width")
        if min(steps, batch) < 1:
            raise UserError(f"steps={steps}, batch={batch}: each must be at least 1")
        self.width, self.active, self.steps = width, active, steps
        self.batch, self.lr, self.seed = batch, lr, seed

    def fit(self, h: ArrayLike) -> FittedSparseAutoencoder:
        """Train on h [n, d], in float32. UserError for bad states, or if all are the same."""
        h = check_states_differ(check_states(h)).detach()
        mean = h.double().mean(0)
        x = h.double() - mean
        scale = x.square().mean().sqrt()
        x = (x / scale).float()
        draws = torch.Generator().manual_seed(self.seed)
        start = torch.randn(self.width, x.shape[1], generator=draws).to(x)
        encoder, decoder = (F.normalize(start, dim=1).requires_grad_() for _ in range(2))
        bias, centre = (torch.zeros(m).to(x).requires_grad_() for m in (self.width, x.shape[1]))
        adam = torch.optim.Adam([encoder, decoder, bias, centre], self.lr)
        decay = torch.optim.lr_scheduler.LambdaLR(
            adam, lambda step: min(1.0, 5 * (self.steps - step) / self.steps)
        )
        for _ in range(self.steps):
            rows = torch.randint(len(x), (self.batch,), generator=draws).to(x.device)
            values, places = _largest((x[rows] - centre) @ encoder.T + bias, self.active)
            rebuilt = F.embedding_bag(places, decoder, per_sample_weights=values, mode="sum")
            adam.zero_grad()
            (x[rows] - centre - rebuilt).square().mean().backward()
            adam.step()
            decay.step()
            with torch.no_grad():
                decoder.copy_(F.normalize(decoder, dim=1))
        weights = (t.detach().double() for t in (encoder, decoder, scale * bias, scale * centre))
        encoder, decoder, bias, centre = weights
        return FittedSparseAutoencoder(encoder, decoder, bias, centre + mean, self.active)


def _largest(before: Tensor, active: int) -> tuple[Tensor, Tensor]:
    """The largest values [n, active] of each row, none below 0, and where they are."""
    values, places = before.topk(active, dim=1)
    return values.relu(), places


class Quality(NamedTuple):
    """How well states are rebuilt."""

    unexplained: float  # share of their variance that is lost
    l0: float  # mean number of active features per state
    dead: float  # share of the features that are active in none of the states


@dataclass(frozen=True)
class FittedSparseAutoencoder:
    """Reads and writes features: `encode(h)` → activations a [n, m] ≥ 0; `decode(a)` = a @ decoder
    + centre → [n, d].

    `encoder`, `decoder` [m, d] (unit rows), `bias` [m], `centre` [d], float64; `active`: the
    largest number of features per state."""

    encoder: Tensor
    decoder: Tensor
    bias: Tensor
    centre: Tensor
    active: int

    def encode(self, h: ArrayLike) -> Tensor:
        """Activations [n, m], float64, in the units of h."""
        h = check_states(h, len(self.centre))
        encoder, bias, centre = (t.to(h.device) for t in (self.encoder, self.bias, self.centre))
        a = torch.zeros(len(h), len(encoder), dtype=encoder.dtype, device=h.device)
        for part, into in zip(h.split(ROWS), a.split(ROWS)):
            values, places = _largest((part.double() - centre) @ encoder.T + bias, self.active)
            into.scatter_(1, places, values)
        return a

    def decode(self, a: Tensor) -> Tensor:
        """States [n, d] of activations [n, m], float64."""
        return a @ self.decoder.to(a) + self.centre.to(a)

    def quality(self, h: ArrayLike) -> Quality:
        """Reconstruction error and number of active features of states h [n, d]."""
        a, x = self.encode(h), check_states(h).double()
        lost = (x - self.decode(a)).square().sum() / (x - x.mean(0)).square().sum()
        return Quality(
            float(lost),
            float((a > 0).sum(1).double().mean()),
            float((a == 0).all(0).double().mean()),
        )

    def loss_recovered(
        self, h: ArrayLike, words: ArrayLike, head: Callable[[Tensor], Tensor]
    ) -> float:
        """Share of a model's loss that rebuilt states save, of what the states themselves save.

        (L_mean − L_rebuilt) / (L_mean − L) with the cross-entropy L of the true `words` [n] (int)
        from `head(h)` [n, vocabulary], where L_mean has the mean of h for every state. 1: the head
        loses nothing; 0: it gains no more than from the mean. For states of the last layer
        `head=lambda h: head_logits(h, model)`, for others `patch`."""
        h = check_states(h, len(self.centre))

        def loss(states: Tensor) -> float:
            logits = head(states)
            return float(F.cross_entropy(logits, check_labels(words, len(h), logits.shape[1])))

        real, mean = loss(h), loss(h.mean(0).expand_as(h))
        rebuilt = loss(self.decode(self.encode(h)).to(h))
        if not mean > real:
            raise UserError(
                f"the head's loss is {real:.3g} on the states and {mean:.3g} on their "
                "mean: there is no loss to recover, so check head and words"
            )
        return (mean - rebuilt) / (mean - real)
