"""An edited state against the true counterfactual: the state of the same sentence, the subject's number flipped.

Not in the papers: it needs text in which the flipped sentence exists (generated sentences, crossed templates)."""
from __future__ import annotations

import torch

from probebook.base import UserError, tensor


def relative_distance(h_hat, h, h_true) -> torch.Tensor:
    """‖ĥ − h′‖ / ‖h − h′‖ with h′ the true counterfactual: [n, d] three times → float64 [n].

    0: the edit is the true counterfactual; 1: no nearer to it than doing nothing; NaN where h = h′."""
    h_hat, h, h_true = (tensor(x).double() for x in (h_hat, h, h_true))
    if not h_hat.shape == h.shape == h_true.shape:
        raise UserError(f"shapes {tuple(h_hat.shape)}, {tuple(h.shape)}, {tuple(h_true.shape)}: give the same rows of "
                        "edited, original and true counterfactual states")
    return (h_hat - h_true).norm(dim=1) / (h - h_true).norm(dim=1)


def progress(h_hat, h, h_true) -> torch.Tensor:
    """Share of the way from h to h′ that the edit goes: (ĥ − h)·(h′ − h)/‖h′ − h‖²; float64 [n].

    1: all of it; 0: none. What it moves besides shows in `relative_distance`."""
    h_hat, h, h_true = (tensor(x).double() for x in (h_hat, h, h_true))
    way = h_true - h
    return ((h_hat - h) * way).sum(1) / (way * way).sum(1)


def behavioural_completeness(logits, logits_true) -> torch.Tensor:
    """1 where the head chooses the form that it chooses on the flipped sentence, else 0; float64 [n].

    `logits` [n, m] of the candidate words after the edit, `logits_true` of the same words on the flipped sentence."""
    return (tensor(logits).argmax(1) == tensor(logits_true).argmax(1)).double()


def behavioural_selectivity(logits, logits_true, groups) -> torch.Tensor:
    """1 − δ between the head's distributions over `groups` of words, after the edit and on the flipped sentence; [n].

    `logits` [n, v] over a vocabulary, `groups` [v] of ints: words that differ only in the edited property share a
    number, words with −1 are left out. A perfect edit moves mass within a group (*walk* → *walks*) but not between
    groups (*walk* → *sing*) any more than the flip itself does."""
    groups = tensor(groups).long()
    kept = groups >= 0
    if not kept.any():
        raise UserError("every word is left out (group −1): number the words that differ only in the property alike")
    onto = torch.nn.functional.one_hot(groups[kept]).double()
    p, q = (tensor(x)[:, kept].double().softmax(1) @ onto for x in (logits, logits_true))
    return 1 - (p - q).abs().sum(1) / 2
