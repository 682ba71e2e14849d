"""How far a change of a text moves its hidden states: cosines of [CLS] and of common tokens.

Chaturvedi et al., § 5.2. The paper does not say which tokens of two versions are common. Here they
are a longest common subsequence of the token ids. After a deletion, that is everything that is
left. An inserted token (an answer at the end, say) is common as well if the other version has an
unmatched token like it; leave its row out if you do not want that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from probebook.base import UserError, tensor, to_numpy


def cosine(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Cosine similarity of the rows: [n, d], [n, d] → float64 [n]; 0 where a row is zero."""
    a, b = tensor(a).detach().double(), tensor(b).detach().double()
    if a.ndim != 2 or a.shape != b.shape:
        raise UserError(
            f"states {tuple(a.shape)} and {tuple(b.shape)}: [n, d] both, the same "
            "items in the same order"
        )
    if not torch.isfinite(a).all() or not torch.isfinite(b).all():
        raise UserError("a hidden state is not finite: run the model in float32")
    return to_numpy(torch.nn.functional.cosine_similarity(a, b, eps=1e-12))


def common_tokens(ids_a: ArrayLike, ids_b: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Rising positions i, j [m] of a longest common subsequence: ids_a[i] == ids_b[j].

    `ids_a` [t_a], `ids_b` [t_b]. Of several the leftmost one: sentences end alike and begin
    differently, so the text after a deletion is matched with its own tokens (except for a word with
    which both the deleted and the next sentence begin)."""
    a, b = np.asarray(ids_a), np.asarray(ids_b)
    if a.ndim != 1 or b.ndim != 1:
        raise UserError(f"ids of shape {a.shape} and {b.shape}: one row of token ids each")
    # The length in common of a[i:] and b[j:].
    left: np.ndarray = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i in range(len(a) - 1, -1, -1):
        best = np.maximum(left[i + 1, :-1], left[i + 1, 1:] + (b == a[i]))
        left[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    i = j = 0
    places = []
    while left[i, j]:
        if a[i] == b[j]:
            places.append((i, j))
            i, j = i + 1, j + 1
        elif left[i + 1, j] == left[i, j]:
            i += 1
        else:
            j += 1
    i, j = np.array(places, int).reshape(-1, 2).T
    return i, j


def token_cosines(
    states_a: Sequence[ArrayLike],
    states_b: Sequence[ArrayLike],
    ids_a: Sequence[ArrayLike],
    ids_b: Sequence[ArrayLike],
) -> list[np.ndarray]:
    """Cosines of the common tokens of each pair of versions: n arrays [m].

    Each version of each item has states [t, d] and ids [t]."""
    sizes = {len(states_a), len(states_b), len(ids_a), len(ids_b)}
    if len(sizes) > 1:
        raise UserError(
            f"{sorted(sizes)} items: give states and ids of both versions of the same items"
        )
    cosines = []
    for a, b, of_a, of_b in zip(states_a, states_b, ids_a, ids_b):
        if (len(a), len(b)) != (len(of_a), len(of_b)):
            raise UserError(
                f"{len(a)} and {len(b)} states, {len(of_a)} and {len(of_b)} ids: one "
                "state for each token"
            )
        i, j = common_tokens(of_a, of_b)
        cosines.append(cosine(tensor(a)[i], tensor(b)[j]))
    return cosines


def mean_token_cosine(
    states_a: Sequence[ArrayLike],
    states_b: Sequence[ArrayLike],
    ids_a: Sequence[ArrayLike],
    ids_b: Sequence[ArrayLike],
) -> np.ndarray:
    """Mean cosine of the common tokens of each pair of versions, [n]; NaN where none is common."""
    cosines = token_cosines(states_a, states_b, ids_a, ids_b)
    return np.array([c.mean() if len(c) else np.nan for c in cosines])


class Spread(NamedTuple):
    """Mean and standard deviation (of the values, not of their mean), as in tables 7–9."""

    mean: float
    sd: float


def spread(values: ArrayLike) -> Spread:
    """Mean and standard deviation of values [n], without those that are NaN."""
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    if not len(values):
        raise UserError("no values: a mean needs one at least")
    return Spread(float(values.mean()), float(values.std()))
