"""What a change of a text does to its hidden states: cosines of [CLS] and of common tokens (Chaturvedi et al., § 5.2).

Which tokens of two versions are common is not said in the paper. Here: a longest common subsequence of their ids. Of
a text and what is left of it after a deletion it holds all that is left. A token that was put in (an answer at the
end, say) is common too where the other version has one like it to spare; leave its row out if that is not wanted."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from probebook.base import UserError, tensor


def cosine(a, b) -> np.ndarray:
    """Cosine similarity of the rows: [n, d], [n, d] → float64 [n]; 0 where a row is zero. [CLS] states, for one."""
    a, b = tensor(a).detach().double(), tensor(b).detach().double()
    if a.ndim != 2 or a.shape != b.shape:
        raise UserError(f"states {tuple(a.shape)} and {tuple(b.shape)}: [n, d] both, the same items in the same order")
    if not torch.isfinite(a).all() or not torch.isfinite(b).all():
        raise UserError("a hidden state is not finite: run the model in float32")
    return torch.nn.functional.cosine_similarity(a, b, eps=1e-12).cpu().numpy()


def common_tokens(ids_a, ids_b) -> tuple[np.ndarray, np.ndarray]:
    """Places i, j [m] of a longest common subsequence, rising: ids_a[i] == ids_b[j]. Ids [t_a], [t_b].

    Of several the leftmost: sentences end alike and begin differently, so that what follows a deletion finds its own
    tokens (but for a word with which the deleted sentence and the next one both begin)."""
    a, b = np.asarray(ids_a), np.asarray(ids_b)
    if a.ndim != 1 or b.ndim != 1:
        raise UserError(f"ids of shape {a.shape} and {b.shape}: one row of token ids each")
    left = np.zeros((len(a) + 1, len(b) + 1), np.int32)            # length of the subsequence common to a[i:] and b[j:]
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


def token_cosines(states_a: Sequence, states_b: Sequence, ids_a: Sequence, ids_b: Sequence) -> list[np.ndarray]:
    """Cosines of the common tokens of each pair of versions: a list of n arrays [m]. States [t, d], ids [t] of each."""
    sizes = {len(states_a), len(states_b), len(ids_a), len(ids_b)}
    if len(sizes) > 1:
        raise UserError(f"{sorted(sizes)} items: give states and ids of both versions of the same items")
    found = []
    for a, b, of_a, of_b in zip(states_a, states_b, ids_a, ids_b):
        if (len(a), len(b)) != (len(of_a), len(of_b)):
            raise UserError(f"{len(a)} and {len(b)} states, {len(of_a)} and {len(of_b)} ids: one state for each token")
        i, j = common_tokens(of_a, of_b)
        found.append(cosine(tensor(a)[i], tensor(b)[j]))
    return found


def mean_token_cosine(states_a: Sequence, states_b: Sequence, ids_a: Sequence, ids_b: Sequence) -> np.ndarray:
    """Mean cosine of the common tokens of each pair of versions, [n]; NaN where no token is common."""
    return np.array([c.mean() if len(c) else np.nan for c in token_cosines(states_a, states_b, ids_a, ids_b)])


class Spread(NamedTuple):
    """Mean and standard deviation (of the values, not of their mean), as in tables 7–9."""

    mean: float
    sd: float


def spread(values) -> Spread:
    """Mean ± standard deviation of [n] values, NaN left out."""
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    if not len(values):
        raise UserError("no values: a mean needs one at least")
    return Spread(float(values.mean()), float(values.std()))
