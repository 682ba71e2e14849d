"""What all attacks share: their losses, and the call that checks, cuts into chunks and judges.

Every attack is targeted: within ‖ĥ − h‖ ≤ ε it moves a state h towards class `to`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self, get_args

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError
from probebook.devices import workplace
from probebook.interventions.norm_ball import Norm
from probebook.probes.checks import check_labels, check_states

# Rows attacked together: on a CPU as many as its caches hold.
CHUNK = {"cpu": 1024, "cuda": 65_536}


def target_loss(logits: Tensor, to: Tensor) -> Tensor:
    """Log-odds against the wanted class, log Σ_{c≠to} exp(zᶜ) − z_to: [n, k] → [n].

    Its gradient is the cross-entropy's divided by 1 − p_to > 0, so every sign step is the same, but
    it does not vanish for confident probes. For two classes it is the margin."""
    return _others(logits, to).logsumexp(1) - logits.gather(1, to[:, None]).squeeze(1)


def margin(logits: Tensor, to: Tensor) -> Tensor:
    """max_{c≠to} zᶜ − z_to: [n, k] → [n]; negative where `to` wins."""
    return _others(logits, to).max(1).values - logits.gather(1, to[:, None]).squeeze(1)


def _others(logits: Tensor, to: Tensor) -> Tensor:
    wanted = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, to[:, None], True)
    return logits.masked_fill(wanted, -torch.inf)


def flipped(logits: Tensor, to: Tensor) -> Tensor:
    """Rows that the probe puts into the wanted class: [n, k] → bool [n]."""
    return logits.argmax(1) == to


def value_and_gradient(
    probe: Callable[[Tensor], Tensor], x: Tensor, to: Tensor, loss: Callable = target_loss
) -> tuple[Tensor, Tensor]:
    """loss(probe(x), to) [n] and its gradient in x [n, d].

    Rows do not mix, so one backward pass of the sum gives all gradients."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(probe(x), to)
        if not value.requires_grad:
            raise UserError(
                "the probe is not differentiable in h: give one that keeps the graph, or use Square"
            )
        (gradient,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), gradient


@torch.no_grad()
def count_logits(probe: Callable[[Tensor], Tensor], h: Tensor) -> int:
    """The number k of logits that a probe, or a model's head, gives for each of the states h.

    UserError if it cannot take them, or gives anything but logits [n, k] with k ≥ 2."""
    try:
        logits = probe(h[:2])
    except RuntimeError as e:
        dtype, reason = str(h.dtype).removeprefix("torch."), str(e).splitlines()[0]
        raise UserError(
            f"the probe cannot take {dtype} states of {h.shape[1]} dimensions: {reason}"
        ) from None
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise UserError(
            f"the probe returns shape {tuple(logits.shape)}: it must give logits [n, k] with k ≥ 2"
        )
    return logits.shape[1]


def chunks(h: Tensor, to: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """States and their wanted classes that are attacked together, where they are worked on."""
    there = workplace(h)
    size = CHUNK.get(there.type, CHUNK["cuda"])
    return ((x.to(there), wanted.to(there)) for x, wanted in zip(h.split(size), to.split(size)))


@dataclass(frozen=True)
class Attack(ABC):
    """`attack(h, to=wanted)` → [n, d] with ‖ĥ − h‖ ≤ ε, in the dtype and on the device of h.

    - `probe`: any differentiable map from states [n, d] to logits [n, k ≥ 2] that treats rows
      separately.
    - `eps`: the radius, in units of h.
    - `norm`: "linf" or "l2"."""

    probe: Callable[[Tensor], Tensor]
    eps: float = 0.1
    norm: Norm = "linf"

    def __post_init__(self):
        if not 0 <= self.eps < float("inf"):
            raise UserError(f"eps={self.eps}: the radius must be ≥ 0 and finite")
        if self.norm not in get_args(Norm):
            names = ", ".join(map(repr, get_args(Norm)))
            raise UserError(f"norm={self.norm!r}: choose one of {names}")

    def at(self, eps: float) -> Self:
        """The same attack with another radius ε ≥ 0."""
        return replace(self, eps=float(eps))

    @abstractmethod
    def __call__(
        self, h: ArrayLike, to: ArrayLike, *, return_failed: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Edited states [n, d]; with `return_failed` also which rows [n] are not in class `to`."""

    def _checked(self, h: ArrayLike, to: ArrayLike) -> tuple[Tensor, Tensor]:
        h = check_states(h).detach()
        return h, check_labels(to, len(h), count_logits(self.probe, h), h.device)

    @torch.no_grad()
    def _failed(self, x: Tensor, to: Tensor) -> Tensor:
        failed = [~flipped(self.probe(some), wanted) for some, wanted in chunks(x, to)]
        return torch.cat(failed).to(x.device)


class ChunkedAttack(Attack):
    """An attack that treats some rows at a time, in `_move`."""

    def __call__(
        self, h: ArrayLike, to: ArrayLike, *, return_failed: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        h, to = self._checked(h, to)
        x = torch.cat([self._move(*some).to(h.device) for some in chunks(h, to)])
        return (x, self._failed(x, to)) if return_failed else x

    @abstractmethod
    def _move(self, h: Tensor, to: Tensor) -> Tensor:
        """Edited states [m, d] of states [m, d] and wanted classes [m]."""
