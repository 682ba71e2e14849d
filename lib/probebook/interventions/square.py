"""Square attack (Andriushchenko et al. 2020, algorithms 1 and 2) on vectors: random search."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from probebook.base import UserError
from probebook.interventions.attack import ChunkedAttack, NormBall, flipped, steepest, target_loss

SHARE = 0.8  # of the coordinates, in the first queries
# The paper's schedule: the queries, of 10,000, at which the share is halved.
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)


@dataclass(frozen=True)
class Square(ChunkedAttack):
    """Attacks a probe without gradients: random changes of some coordinates on the border of the
    ball, kept where the loss falls.

    A vector has no windows, so each query draws a subset of the
    coordinates, of the paper's scheduled share p (.8, halved nine times). L∞: these coordinates
    are set to h ± ε, with random signs. L2: δ moves by ε√p along random signs on the subset and is
    brought back to length ε. All rows share the draws, so a row's path does not depend on the
    others. A row stops once it is flipped; one already in class `to` stays unchanged. The loss is
    the log-odds against `to`.

    `queries`: calls of the probe per row."""

    queries: int = 5000
    seed: int = 0

    def __post_init__(self):
        super().__post_init__()
        if self.queries < 1:
            raise UserError(f"queries={self.queries}: give a number of queries ≥ 1")

    @torch.no_grad()
    def _move(self, h: Tensor, to: Tensor) -> Tensor:
        draws, d, out = torch.Generator().manual_seed(self.seed), h.shape[1], h.clone()
        left = (~flipped(self.probe(h), to)).nonzero().squeeze(1)
        ball, to, x = NormBall(h[left], self.eps, self.norm), to[left], h[left]
        value = torch.full_like(x[:, 0], torch.inf)
        for i in range(self.queries):
            if not len(left):
                break
            p = self._share(i)
            subset = torch.randperm(d, generator=draws)[: max(1, round(p * d))]
            up = torch.randint(2, (len(subset),), generator=draws)
            new = self._propose(ball, x, subset.to(h.device), up.to(h.device), p)
            logits = self.probe(new)
            loss, done = target_loss(logits, to), flipped(logits, to)
            better = done | (loss < value)
            x = torch.where(better[:, None], new, x)
            value = torch.where(better, loss, value)
            if done.any():
                out[left[done]] = x[done]
                left, to, x, value = (t[~done] for t in (left, to, x, value))
                ball = NormBall(h[left], self.eps, self.norm)
        out[left] = x
        return out

    def _share(self, query: int) -> float:
        """The share p of the coordinates that a query changes."""
        if query == 0:
            return 1
        return SHARE / 2 ** sum(query * 10_000 >= q * self.queries for q in HALVINGS)

    def _propose(self, ball: NormBall, x: Tensor, subset: Tensor, up: Tensor, p: float) -> Tensor:
        if self.norm == "linf":
            new = x.clone()
            new[:, subset] = torch.where(up.bool(), ball.high[:, subset], ball.low[:, subset])
            return new
        delta = x - ball.h
        delta[:, subset] += (2 * up - 1) * (self.eps * (p / len(subset)) ** 0.5)
        return ball.project(ball.h + steepest(delta, "l2").mul_(self.eps))
