"""Predict from edited states: they replace those of a layer, and the rest of the network runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from probebook.base import UserError, check_choice
from probebook.models.batches import Batch, PositionRule, batches, encode_texts
from probebook.models.embedding import embed, head_logits
from probebook.models.loading import Model, as_model
from probebook.models.passes import (
    Collected,
    Component,
    at_layer,
    forward,
    part_for,
    pick,
    run,
    threads,
)

StateEdit = Callable[[Tensor], Tensor] | Tensor | None
Positions = Literal["one", "following"]


def carry(
    texts: Sequence[str],
    model: str | Model,
    layer: int,
    at: PositionRule,
    edit: StateEdit,
    read: PositionRule = "[MASK]",
    component: Component = "residual",
    positions: Positions = "one",
) -> Tensor:
    """Carry edited states to the last layer: replace the states at (`layer`, `at`), then run on.

    Layer, rules and component are those of `embed`; `at` must name one token per text. Returns the
    last-layer states at `read`, float32 [n, d] or [m, n, d], where the new states live.

    - `edit`: maps the states [n, d] of all texts to new ones, or is the new states, or None (no
      change). New states [m, n, d] are m separate edits; the blocks below the edit run only once
    - `positions`: "following" replaces the states of all later tokens as well. A function is called
      with the states at `at`, then with those one token later, and so on (where a text has ended,
      with those of its last token). Given states stand at each of these tokens"""
    model, texts = as_model(model), list(texts)
    part, model = part_for(model, at), part_for(model, read)
    check_choice(positions, "kind of positions", get_args(Positions))
    if part.kind == "seq2seq" and model.kind != "seq2seq":
        raise UserError(
            f"read={read!r}: the encoder of {part.name} does not read what its decoder "
            "computes; read at '[MASK]'"
        )
    layer = part.layer(layer)
    if edit is None:
        return embed(texts, model, -1, read, cache=False)
    groups, current = list(batches(texts, model, read, at)), threading.local()
    _one_token(groups, at)
    if callable(edit) and positions == "following":
        following = _following(texts, part, layer, at, component)
        edits, alone = torch.stack([torch.as_tensor(edit(h)) for h in following], 1)[None], True
    else:
        new = edit(embed(texts, part, layer, at, component=component)) if callable(edit) else edit
        new = torch.as_tensor(new)
        if (layer, at, component, positions) == (part.depth, read, "residual", "one"):
            return new.to(model.dtype).float()  # no block follows
        if new.ndim == 3 and part.time_first:
            return torch.stack(
                [carry(texts, model, layer, at, one, read, component, positions) for one in new]
            )
        edits, alone = new.reshape(-1, len(texts), 1, new.shape[-1]), new.ndim == 2
    m, n, known, d = edits.shape  # known: tokens whose states are given
    out = Collected(m, n, d)

    def put(hidden: Tensor) -> Tensor:
        later = torch.arange(hidden.shape[1]) - current.batch.others[0].argmax(1, keepdim=True)
        rows, places = torch.where(later == 0 if positions == "one" else later >= 0)
        states = edits[:, current.batch.rows][:, rows, later[rows, places].clamp(max=known - 1)]
        hidden = hidden.clone()
        hidden.unflatten(0, (m, -1))[:, rows, places] = states.to(hidden)
        return hidden

    def one(batch: Batch) -> None:
        current.batch = batch
        picked = pick(forward(model, batch), batch.weights.repeat(m, 1), read)
        out.add(batch.rows, picked.unflatten(0, (m, -1)))

    with at_layer(part, layer, put, component, m), threads(model.device) as pool:
        list(pool.map(one, groups))
    carried = out.complete().to(edits.device)
    return carried[0] if alone else carried


class Tail:
    """The network above a layer, differentiable with respect to the states (`carry` is not).

    `tail(states, rows)` gives the last-layer states [b, d] at `read` of some of the texts, once the
    states at (`layer`, `at`) are `states` [b, d] of the rows [b]. `at` must name one token per
    text."""

    def __init__(
        self,
        texts: Sequence[str],
        model: str | Model,
        layer: int,
        at: PositionRule,
        read: PositionRule = "[MASK]",
    ):
        model = as_model(model)
        self.part, self.model, self.read = part_for(model, at), part_for(model, read), read
        self.at, self.layer = at, self.part.layer(layer)
        self.batch = encode_texts(texts, self.model, read, at)[1]

    def __call__(self, states: Tensor, rows: Tensor) -> Tensor:
        """The states, in the dtype, on the device and with the graph of those given. UserError: a
        rule that names several tokens."""
        batch = self.batch(rows.tolist())
        _one_token([batch], self.at)
        if (self.layer, self.at) == (self.part.depth, self.read):
            dtype = self.model.dtype
            return states.to(dtype).to(states)  # no block follows
        places = batch.others[0].argmax(1)

        def put(hidden: Tensor) -> Tensor:
            hidden = hidden.clone()
            hidden[torch.arange(len(hidden)), places] = states.to(hidden)
            return hidden

        with at_layer(self.part, self.layer, put):
            return pick(run(self.model, batch), batch.weights, self.read).to(states)


def patch(
    texts: Sequence[str],
    model: str | Model,
    layer: int,
    at: PositionRule,
    edit: StateEdit,
    read: PositionRule = "[MASK]",
    component: Component = "residual",
    positions: Positions = "one",
) -> Tensor:
    """Predict tokens after an edit of hidden states: logits [n, vocabulary] at `read`.

    The arguments are those of `carry`, which carries the edited states to the last layer."""
    return head_logits(carry(texts, model, layer, at, edit, read, component, positions), model)


def _one_token(groups: Sequence[Batch], at: PositionRule) -> None:
    """Raise UserError unless the second rule of the batches names one token in every text."""
    if any((batch.others[0].max(1).values != 1).any() for batch in groups):
        raise UserError(
            f"at={at!r} spans several tokens: patch one token, e.g. '[MASK]' or ('last', words)"
        )


def _following(
    texts: list[str], model: Model, layer: int, at: PositionRule, component: Component
) -> Tensor:
    """States [p, n, d] at the one token of a rule, and at each of the p − 1 that follow it; of
    texts that have ended, the last ones."""
    groups = list(batches(texts, model, at))
    starts, ends = torch.zeros(2, len(texts), dtype=torch.long)
    for batch in groups:
        starts[batch.rows] = batch.weights.argmax(1)
        decoder = batch.decoder_ids is not None  # whose last token is the blank's
        ends[batch.rows] = starts[batch.rows] if decoder else batch.mask.sum(1) - 1
    later = torch.arange(int((ends - starts).max()) + 1)[:, None]
    places = (starts + later).minimum(ends)
    out = Collected(len(later), len(texts), model.width)

    def one(batch: Batch) -> None:
        hidden = forward(model, batch)
        out.add(batch.rows, hidden[torch.arange(len(hidden)), places[:, batch.rows]])

    with at_layer(model, layer, component=component), threads(model.device) as pool:
        list(pool.map(one, groups))
    return out.complete()
