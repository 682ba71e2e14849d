"""What all attacks share: the loss, the ball round each state, and the call that checks, cuts into chunks, and judges.

Every attack is targeted: it moves a state h within ‖ĥ − h‖ ≤ ε towards the class `to` of a probe. Hidden states are
not images, so there is no [0, 1] box."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch

from probebook.base import UserError
from probebook.probes.checks import labels, states

Norm = Literal["linf", "l2"]
CHUNK = {"cpu": 1024, "cuda": 65_536}       # rows attacked together: on a CPU as many as its caches hold


def target_loss(logits: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """Log-odds against the wanted class, log Σ_{c≠to} exp(zᶜ) − z_to: [n, k] → [n].

    Its gradient is the cross-entropy's divided by 1 − p_to > 0, so every sign step is the same, but it does not
    vanish for confident probes. For two classes it is the margin."""
    return _others(logits, to).logsumexp(1) - logits.gather(1, to[:, None]).squeeze(1)


def margin(logits: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """max_{c≠to} zᶜ − z_to: [n, k] → [n]; negative where `to` wins."""
    return _others(logits, to).max(1).values - logits.gather(1, to[:, None]).squeeze(1)


def _others(logits, to):
    wanted = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, to[:, None], True)
    return logits.masked_fill(wanted, -torch.inf)


def flipped(logits: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """Which rows the probe puts into the wanted class: [n, k] → bool [n]."""
    return logits.argmax(1) == to


def value_and_gradient(probe, x, to, loss=target_loss) -> tuple[torch.Tensor, torch.Tensor]:
    """loss(probe(x), to) [n] and its gradient in x [n, d] (rows do not mix, so one backward pass of the sum)."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(probe(x), to)
        if not value.requires_grad:
            raise UserError("the probe is not differentiable in h: give one that keeps the graph, or use Square")
        gradient, = torch.autograd.grad(value.sum(), x)
    return value.detach(), gradient


def steepest(gradient: torch.Tensor, norm: Norm) -> torch.Tensor:
    """The direction of unit norm along which the loss rises fastest (zero where the gradient is zero); [n, d] → [n, d].

    L∞: the signs; L2: the normed gradient. Overwrites `gradient`."""
    return gradient.sign_() if norm == "linf" else gradient.div_(length(gradient, "l2").clamp_min_(1e-30)[:, None])


def length(delta: torch.Tensor, norm: Norm) -> torch.Tensor:
    """‖δ‖ of each row: [n, d] → [n]."""
    return torch.linalg.vector_norm(delta, ord=torch.inf if norm == "linf" else 2, dim=1)


class Ball:
    """{x : ‖x − h‖ ≤ ε} round each row of h [n, d], in floating point: ‖x − h‖ ≤ ε(1 + 10⁻⁵) also after rounding.

    Where h is so large that h + δ cannot be told from h, the ball shrinks to what is representable inside it
    (L∞: the nearest number towards h, in each coordinate; L2: a radius smaller by the rounding of a whole row)."""

    def __init__(self, h: torch.Tensor, eps: float, norm: Norm):
        self.h, self.norm = h, norm
        if norm == "linf":
            borders = h - eps, h + eps
            self.low, self.high = (torch.where((b - h).abs() > eps, torch.nextafter(b, h), b) for b in borders)
        else:
            rounding = torch.finfo(h.dtype).eps / 2 * (length(h, "l2") + eps)       # ‖fl(x) − x‖ is at most this
            self.radius = (eps - (rounding - 5e-6 * eps).clamp_min(0)).clamp_min(0)[:, None]

    def project(self, x: torch.Tensor) -> torch.Tensor:
        """The nearest point of the ball; overwrites x."""
        if self.norm == "linf":
            return torch.clamp(x, self.low, self.high, out=x)
        x.sub_(self.h)
        return x.mul_((self.radius / length(x, "l2")[:, None].clamp_min_(1e-30)).clamp_max_(1)).add_(self.h)


def project(x: torch.Tensor, h: torch.Tensor, eps: float, norm: Norm) -> torch.Tensor:
    """x [n, d] moved to the nearest point with ‖x − h‖ ≤ ε; a new tensor."""
    return Ball(h, eps, norm).project(x.clone())


def chunks(h: torch.Tensor) -> Iterator[slice]:
    """Slices that cut the rows of h for one attack at a time."""
    size = CHUNK.get(h.device.type, CHUNK["cuda"])
    return (slice(i, i + size) for i in range(0, len(h), size))


@dataclass(frozen=True)
class Attack(ABC):
    """`attack(h, to=wanted)` → [n, d] with ‖ĥ − h‖ ≤ ε, dtype and device of h.

    `probe`: any differentiable map from states [n, d] to logits [n, k], k ≥ 2, that treats rows separately.
    `eps`: the radius, in units of h. `norm`: "linf" or "l2".
    With `return_failed=True` also a bool mask [n]: rows that the probe still does not put into class `to`."""

    probe: Callable[[torch.Tensor], torch.Tensor]
    eps: float = .1
    norm: Norm = "linf"

    def __post_init__(self):
        if not 0 <= self.eps < float("inf"):
            raise UserError(f"eps={self.eps}: the radius must be ≥ 0 and finite")
        if self.norm not in get_args(Norm):
            raise UserError(f"norm={self.norm!r}: choose one of {', '.join(map(repr, get_args(Norm)))}")

    def at(self, eps: float):
        """The same attack with another radius ε ≥ 0."""
        return replace(self, eps=float(eps))

    @abstractmethod
    def __call__(self, h, to, *, return_failed: bool = False):
        """Edited states [n, d]; with `return_failed` also the mask of the rows that failed."""

    def _checked(self, h, to):
        h = states(h).detach()
        try:
            with torch.no_grad():
                logits = self.probe(h[:2])
        except RuntimeError as e:
            raise UserError(f"the probe cannot take {str(h.dtype).removeprefix('torch.')} states of {h.shape[1]} "
                            f"dimensions: {str(e).splitlines()[0]}") from None
        if logits.ndim != 2 or logits.shape[1] < 2:
            raise UserError(f"the probe returns shape {tuple(logits.shape)}: it must give logits [n, k] with k ≥ 2")
        return h, labels(to, len(h), logits.shape[1], h.device)

    @torch.no_grad()
    def _failed(self, x, to):
        return torch.cat([~flipped(self.probe(x[rows]), to[rows]) for rows in chunks(x)])


class ChunkedAttack(Attack):
    """An attack that treats some rows at a time: a method says in `_move` what becomes of them."""

    def __call__(self, h, to, *, return_failed: bool = False):
        h, to = self._checked(h, to)
        x = torch.cat([self._move(h[rows], to[rows]) for rows in chunks(h)])
        return (x, self._failed(x, to)) if return_failed else x

    @abstractmethod
    def _move(self, h: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
        """Of states [m, d] and wanted classes [m] the edited states [m, d]."""
