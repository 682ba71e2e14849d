"""Completeness, selectivity and reliability of an intervention (Canby et al., § 3, equations 1–4).

`p` is an oracle probe's distribution over a property given the state before the edit, `p_hat` after
it: probabilities [n, k], rows summing to 1, any k ≥ 2, or [m, n, k] by m oracles. Results are
float64 [n], or [m, n], in [0, 1]."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError, tensor


def _probs(p: ArrayLike, name: str) -> Tensor:
    p = tensor(p).double()
    if p.ndim not in (2, 3) or p.shape[-1] < 2:
        raise UserError(
            f"{name} has shape {tuple(p.shape)}: give probabilities [n, k] or [m, n, k], k ≥ 2"
        )
    if not torch.isfinite(p).all() or (p < -1e-6).any() or ((p.sum(-1) - 1).abs() > 1e-4).any():
        raise UserError(
            f"{name} must hold probabilities, each row summing to 1: apply softmax to "
            "the probe's logits"
        )
    return p


def total_variation(p: ArrayLike, q: ArrayLike) -> Tensor:
    """δ(p, q) = ½ Σ abs(p − q): […, k], […, k] → […] (§ 3.1)."""
    return (tensor(p).double() - tensor(q).double()).abs().sum(-1) / 2


def completeness(p_hat: ArrayLike, to: ArrayLike | None = None) -> Tensor:
    """Score how far an edit reached its goal: 1 for fully, 0 for not at all.

    Counterfactual: C = 1 − δ(p̂, onehot(to)) = p̂(to)  (eq. 1; for k > 2 the paper averages this
    over all wanted labels other than the present one). Nullifying: C = 1 − k/(k−1) · δ(p̂, uniform)
    (eq. 2).

    `p_hat`: the oracles' probabilities after the edit, [n, k] or [m, n, k]; `to`: wanted labels [n]
    of a counterfactual edit; without them it should nullify. C is float64 [n] or [m, n]."""
    p_hat = _probs(p_hat, "p_hat")
    n, k = p_hat.shape[-2:]
    if to is None:
        return 1 - k / (k - 1) * total_variation(p_hat, p_hat.new_full((k,), 1 / k))
    to = tensor(to).long()
    if to.shape != (n,) or int(to.min()) < 0 or int(to.max()) >= k:
        raise UserError(f"to must hold one wanted label 0 … {k - 1} for each of the {n} rows")
    return 1 - total_variation(p_hat, torch.nn.functional.one_hot(to, k))


def selectivity(p_hat: ArrayLike, p: ArrayLike) -> Tensor:
    """Score how little an edit touched another property: S = 1 − δ(p̂, p)/m  (eq. 3).

    m = max(1 − min p, max p) is the largest distance that any distribution can have from p, so that
    S = 0 can be reached."""
    p_hat, p = _probs(p_hat, "p_hat"), _probs(p, "p")
    if p_hat.shape != p.shape:
        raise UserError(
            f"p_hat has shape {tuple(p_hat.shape)}, p {tuple(p.shape)}: give the same "
            "rows, before, after"
        )
    m = torch.maximum(1 - p.min(-1).values, p.max(-1).values)
    return 1 - total_variation(p_hat, p) / m


def reliability(c: ArrayLike, s: ArrayLike) -> Tensor:
    """Combine both scores in their harmonic mean R = 2CS/(C+S)  (eq. 4), with 0/0 = 0.

    The arguments are broadcast; R is NaN where C or S is NaN."""
    c, s = tensor(c).double(), tensor(s).double()
    total = c + s
    return torch.where(total == 0, torch.zeros_like(total), 2 * c * s / total)
