"""Distance of an edited state from the true counterfactual: the sentence with its number flipped.

These measures are not in the papers. They need text in which the flipped sentence exists (generated
sentences, crossed templates)."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike

from probebook.base import UserError, tensor


def relative_distance(h_hat: ArrayLike, h: ArrayLike, h_true: ArrayLike) -> torch.Tensor:
    """‖ĥ − h′‖ / ‖h − h′‖ with h′ the true counterfactual: [n, d] three times → float64 [n].

    0: the edit is the true counterfactual; 1: no nearer to it than doing nothing; NaN where h =
    h′."""
    h_hat, h, h_true = (tensor(x).double() for x in (h_hat, h, h_true))
    if not h_hat.shape == h.shape == h_true.shape:
        raise UserError(
            f"shapes {tuple(h_hat.shape)}, {tuple(h.shape)}, {tuple(h_true.shape)}: "
            "give the same rows of edited, original and true counterfactual states"
        )
    return (h_hat - h_true).norm(dim=1) / (h - h_true).norm(dim=1)


def progress(h_hat: ArrayLike, h: ArrayLike, h_true: ArrayLike) -> torch.Tensor:
    """Share of the way from h to h′ that the edit goes: (ĥ − h)·(h′ − h)/‖h′ − h‖²; float64 [n].

    1: all of it; 0: none. Moves in other directions show in `relative_distance`."""
    h_hat, h, h_true = (tensor(x).double() for x in (h_hat, h, h_true))
    way = h_true - h
    return ((h_hat - h) * way).sum(1) / (way * way).sum(1)


def behavioural_completeness(logits: ArrayLike, logits_true: ArrayLike) -> torch.Tensor:
    """1 where the head chooses the form that it chooses on the flipped sentence, else 0; float64
    [n].

    `logits` [n, m] of the candidate words after the edit; `logits_true` [n, m] of the same words on
    the flipped sentence."""
    return (tensor(logits).argmax(1) == tensor(logits_true).argmax(1)).double()


def behavioural_selectivity(
    logits: ArrayLike, logits_true: ArrayLike, groups: ArrayLike
) -> torch.Tensor:
    """1 − δ between the head's distributions over `groups` of words, after the edit and on the
    flipped sentence; float64 [n].

    `logits` [n, v] over a vocabulary; `groups` [v] of ints: words that differ only in the edited
    property share a number, words with −1 are left out. A perfect edit moves mass within a group
    (*walk* → *walks*), but moves no more mass between groups (*walk* → *sing*) than the flip
    itself."""
    logits, logits_true = tensor(logits), tensor(logits_true)
    groups = tensor(groups, logits.device).long()
    counted = groups >= 0
    if not counted.any():
        raise UserError(
            "every word is left out (group −1): give words that differ only in the "
            "property the same number"
        )
    onto = torch.nn.functional.one_hot(groups[counted]).double()
    p, q = (x[:, counted].double().softmax(1) @ onto for x in (logits, logits_true))
    return 1 - (p - q).abs().sum(1) / 2
