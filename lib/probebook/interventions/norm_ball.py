"""The ball ‖x − h‖ ≤ ε around each hidden state h, in the L∞ or the L2 norm.

Hidden states are not images, so there is no [0, 1] box."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Norm = Literal["linf", "l2"]


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
    """{x : ‖x − h‖ ≤ ε} around each row of h [n, d], within ε(1 + 10⁻⁵) also after rounding.

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
