"""Minimum description length of labels given states (Voita & Titov 2020): the online code, all lengths in bits."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, log2

import numpy as np
import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import labels, states
from probebook.probes.linear import LinearProbe

SHARES = (.001, .002, .004, .008, .016, .032, .0625, .125, .25, .5, 1.0)       # of the items: ends of the blocks


@dataclass(frozen=True)
class OnlineCode:
    """Bits of the labels: `blocks`, one number a block, of which the first is coded uniformly; `ends`, items up to the
    end of each. `bits` their sum; `uniform` n · log₂ k; `compression` uniform / bits."""

    ends: tuple[int, ...]
    blocks: tuple[float, ...]
    k: int

    @property
    def bits(self) -> float:
        return sum(self.blocks)

    @property
    def uniform(self) -> float:
        return self.ends[-1] * log2(self.k)

    @property
    def compression(self) -> float:
        return self.uniform / self.bits


def online_code(h, z, fit: Callable | None = None, shares=SHARES, seed: int = 0) -> OnlineCode:
    """Length of labels z [n] given states h [n, d], sent block by block: each block is coded by a probe that has seen
    the blocks before it, the first one uniformly (Voita & Titov, § 2.2; the order is drawn by `seed`).

    `fit(h, z)` → a fresh probe, `probe(h)` → logits; by default a linear one. A block before which some class was seen
    less than twice is coded uniformly as well. UserError for shares that do not rise to 1."""
    h, z = states(h), labels(z, len(h))
    k = int(z.max()) + 1
    if list(shares) != sorted(shares) or not shares[0] > 0 or shares[-1] != 1:
        raise UserError(f"shares {list(shares)}: rising from above 0 to 1")
    fit = fit or (lambda h, z: LinearProbe(C=.1).fit(h, z))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(h)))
    h, z = h[order], z[order]
    ends = sorted({max(1, round(share * len(h))) for share in shares})
    blocks = [ends[0] * log2(k)]
    for begin, end in zip(ends, ends[1:]):
        if torch.bincount(z[:begin], minlength=k).min() < 2:
            blocks.append((end - begin) * log2(k))
            continue
        logits = fit(h[:begin], z[:begin])(h[begin:end])
        blocks.append(float(F.cross_entropy(logits.double(), z[begin:end], reduction="sum")) / log(2))
    return OnlineCode(tuple(ends), tuple(blocks), k)
