"""Square attack (Andriushchenko et al. 2020, algorithms 1 and 2) on vectors: random search, no gradients."""
from __future__ import annotations

from dataclasses import dataclass

import torch

from probebook.base import UserError
from probebook.interventions.ball import Ball, ChunkedAttack, flipped, steepest, target_loss

SHARE = .8                                                        # of the coordinates, in the first queries
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)       # of 10,000 queries: the paper's schedule


@dataclass(frozen=True)
class Square(ChunkedAttack):
    """Change a random subset of coordinates on the border of the ball, keep the change where it lowers the loss.

    A vector has no windows, so each query draws a coordinate subset of the paper's scheduled share p (.8, halved nine
    times). L∞: the subset's coordinates are set to h ± ε, one random sign each. L2: δ moves by ε√p along random signs
    on the subset and is put back to length ε. Draws are shared by all rows, so that a row's path does not depend on
    the others. A row stops once it is flipped (one already in class `to` stays unchanged).
    `queries`: probe calls a row; the loss is the log-odds against `to`."""

    queries: int = 5000
    seed: int = 0

    def __post_init__(self):
        super().__post_init__()
        if self.queries < 1:
            raise UserError(f"queries={self.queries}: give a number of queries ≥ 1")

    @torch.no_grad()
    def _move(self, h, to):
        draws, d, out = torch.Generator().manual_seed(self.seed), h.shape[1], h.clone()
        left = (~flipped(self.probe(h), to)).nonzero().squeeze(1)
        ball, to, x = Ball(h[left], self.eps, self.norm), to[left], h[left]
        value = torch.full_like(x[:, 0], torch.inf)
        for i in range(self.queries):
            if not len(left):
                break
            p = 1 if i == 0 else SHARE / 2 ** sum(i * 10_000 >= q * self.queries for q in HALVINGS)
            subset = torch.randperm(d, generator=draws)[:max(1, round(p * d))]
            up = torch.randint(2, (len(subset),), generator=draws)
            new = self._propose(ball, x, subset.to(h.device), up.to(h.device), p)
            logits = self.probe(new)
            loss, done = target_loss(logits, to), flipped(logits, to)
            better = done | (loss < value)
            x, value = torch.where(better[:, None], new, x), torch.where(better, loss, value)
            if done.any():
                out[left[done]] = x[done]
                left, to, x, value = (t[~done] for t in (left, to, x, value))
                ball = Ball(h[left], self.eps, self.norm)
        out[left] = x
        return out

    def _propose(self, ball, x, subset, up, p):
        if self.norm == "linf":
            new = x.clone()
            new[:, subset] = torch.where(up.bool(), ball.high[:, subset], ball.low[:, subset])
            return new
        delta = x - ball.h
        delta[:, subset] += (2 * up - 1) * (self.eps * (p / len(subset)) ** .5)
        return ball.project(ball.h + steepest(delta, "l2").mul_(self.eps))
