"""Description length of labels given states: the online code (Voita & Titov 2020, § 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, log2

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn import functional as F

from probebook.base import UserError
from probebook.probes.checks import check_labels, check_states
from probebook.probes.linear import LinearProbe

# Where the blocks end, as shares of the items.
SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class OnlineCode:
    """The length of an online code, in bits."""

    ends: tuple[int, ...]  # number of items up to the end of each block
    blocks: tuple[float, ...]  # bits of each block; the first is coded uniformly
    k: int  # number of classes

    @property
    def bits(self) -> float:
        """Bits of all labels."""
        return sum(self.blocks)

    @property
    def uniform(self) -> float:
        """Bits of the uniform code, n · log₂ k."""
        return self.ends[-1] * log2(self.k)

    @property
    def compression(self) -> float:
        """Bits of the uniform code divided by those of this one."""
        return self.uniform / self.bits


def online_code(
    h: ArrayLike,
    z: ArrayLike,
    fit: Callable | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> OnlineCode:
    """The length of labels z [n] given states h [n, d], sent block by block.

    Each block is coded by a probe that was trained on the blocks before it. The first block, and
    any before which some class was seen fewer than twice, is coded uniformly.

    - `fit(h, z)`: returns a fresh probe, which maps states to logits; by default a linear one.
    - `shares`: where the blocks end; UserError unless they rise from above 0 to 1.
    - `seed`: of the order of the items."""
    fit = fit or LinearProbe(C=0.1).fit
    return online_codes([h], [z], lambda hs, zs: [*map(fit, hs, zs)], shares, [seed])[0]


def online_codes(
    hs: Sequence[ArrayLike],
    zs: Sequence[ArrayLike],
    fit_all: Callable | None = None,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] | None = None,
) -> list[OnlineCode]:
    """The `online_code` of each of several data sets, whose probes are fitted together.

    - `hs`, `zs`: states [n, d] and labels [n] of each data set; n is the same for all.
    - `fit_all(hs, zs)`: returns a fresh probe for each data set; by default linear ones.
    - `shares`: where the blocks end; UserError unless they rise from above 0 to 1.
    - `seeds`: of the orders of the items; by default 0, 1, …"""
    if list(shares) != sorted(shares) or not shares[0] > 0 or shares[-1] != 1:
        raise UserError(f"shares {list(shares)}: give shares rising from above 0 to 1")
    fit_all = fit_all or LinearProbe(C=0.1).fit_all
    sets = []
    for h, z, seed in zip(hs, zs, range(len(hs)) if seeds is None else seeds, strict=True):
        h = check_states(h)
        z = check_labels(z, len(h), device=h.device)
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(h)))
        sets.append((h[order], z[order], int(z.max()) + 1))
    if len({len(h) for h, _, _ in sets}) != 1:
        raise UserError("the data sets differ in size: give as many items of each")
    n = len(sets[0][0])
    ends = sorted({max(1, round(share * n)) for share in shares})
    blocks = [[ends[0] * log2(k)] for _, _, k in sets]
    for begin, end in zip(ends, ends[1:]):
        seen = [torch.bincount(z[:begin], minlength=k).min() >= 2 for _, z, k in sets]
        ready = [(h[:begin], z[:begin]) for (h, z, _), enough in zip(sets, seen) if enough]
        probes = iter(fit_all(*zip(*ready)) if ready else ())
        for (h, z, k), enough, bits in zip(sets, seen, blocks):
            if not enough:
                bits.append((end - begin) * log2(k))
                continue
            logits = next(probes)(h[begin:end])
            nats = F.cross_entropy(logits.double(), z[begin:end], reduction="sum")
            bits.append(float(nats) / log(2))
    return [OnlineCode(tuple(ends), tuple(bits), k) for bits, (_, _, k) in zip(blocks, sets)]
