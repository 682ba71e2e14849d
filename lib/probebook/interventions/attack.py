"""What all attacks share: the ball that they stay in, their losses, and the call.

Every attack is targeted: within ‖ĥ − h‖ ≤ ε it moves a state h towards class `to`, in the L∞ or the
L2 norm. Hidden states are not images, so there is no [0, 1] box."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError, check_choice
from probebook.devices import work_device
from probebook.probes.checks import check_labels, check_states

Norm = Literal["linf", "l2"]

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
    there = work_device(h)
    size = CHUNK.get(there.type, CHUNK["cuda"])
    return ((x.to(there), wanted.to(there)) for x, wanted in zip(h.split(size), to.split(size)))


@dataclass(frozen=True)
class Attack(ABC):
    """Moves states within ε so that a probe reads a wanted class: `attack(h, to=wanted)` → [n, d]
    with ‖ĥ − h‖ ≤ ε, in the dtype and on the device of h. `probe`: any differentiable map from
    states [n, d] to logits [n, k ≥ 2] that treats rows separately."""

    probe: Callable[[Tensor], Tensor]
    eps: float = 0.1  # the radius, in units of h
    norm: Norm = "linf"

    def __post_init__(self):
        if not 0 <= self.eps < float("inf"):
            raise UserError(f"eps={self.eps}: the radius must be ≥ 0 and finite")
        check_choice(self.norm, "norm", get_args(Norm))

    def at(self, eps: float) -> Self:
        """The same attack with another radius ε ≥ 0."""
        return replace(self, eps=float(eps))

    @abstractmethod
    def __call__(self, h: ArrayLike, to: ArrayLike) -> Tensor:
        """Edited states [n, d]."""

    @torch.no_grad()
    def failed(self, edited: ArrayLike, to: ArrayLike) -> Tensor:
        """Which edited states the probe does not put into class `to`: bool [n]."""
        x, to = self._checked(edited, to)
        failed = [~flipped(self.probe(some), wanted) for some, wanted in chunks(x, to)]
        return torch.cat(failed).to(x.device)

    def _checked(self, h: ArrayLike, to: ArrayLike) -> tuple[Tensor, Tensor]:
        h = check_states(h).detach()
        return h, check_labels(to, len(h), count_logits(self.probe, h), h.device)


class ChunkedAttack(Attack):
    """An attack that treats some rows at a time, in `_move`."""

    def __call__(self, h: ArrayLike, to: ArrayLike) -> Tensor:
        h, to = self._checked(h, to)
        return torch.cat([self._move(*some).to(h.device) for some in chunks(h, to)])

    @abstractmethod
    def _move(self, h: Tensor, to: Tensor) -> Tensor:
        """Edited states [m, d] of states [m, d] and wanted classes [m]."""


def length(delta: Tensor, norm: Norm) -> Tensor:
    """‖δ‖ of each row: [n, d] → [n]."""
    return torch.linalg.vector_norm(delta, ord=torch.inf if norm == "linf" else 2, dim=1)


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """The unit direction [n, d] along which the loss rises fastest; overwrites `gradient`.

    L∞: the signs; L2: the normed gradient. Zero where the gradient is zero."""
    if norm == "linf":
        return gradient.sign_()
    return gradient.div_(length(gradient, "l2").clamp_min_(1e-30)[:, None])


class NormBall:
    """Keeps points near hidden states: {x : ‖x − h‖ ≤ ε} around each row of h [n, d], within
    ε(1 + 10⁻⁵) also after rounding.

    Where h is so large that h + δ rounds to h, the ball shrinks to what can be represented inside
    it. L∞: each coordinate's bound is the nearest number towards h. L2: the radius is smaller by
    the rounding of a whole row."""

    def __init__(self, h: Tensor, eps: float, norm: Norm):
        self.h, self.norm = h, norm
        if norm == "linf":
            self.low, self.high = (
                torch.where((bound - h).abs() > eps, torch.nextafter(bound, h), bound)
                for bound in (h - eps, h + eps)
            )
        else:
            # ‖fl(x) − x‖ is at most this.
            rounding = torch.finfo(h.dtype).eps / 2 * (length(h, "l2") + eps)
            self.radius = (eps - (rounding - 5e-6 * eps).clamp_min(0)).clamp_min(0)[:, None]

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the ball; overwrites x."""
        if self.norm == "linf":
            return torch.clamp(x, self.low, self.high, out=x)
        x.sub_(self.h)
        shrink = self.radius / length(x, "l2")[:, None].clamp_min_(1e-30)
        return x.mul_(shrink.clamp_max_(1)).add_(self.h)
