"""Texts to padded batches: tokenize, find the wanted position in each text, group texts of like length."""
from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch.nn.functional import pad as pad_right

from probebook.base import UserError
from probebook.models.loading import Model

At = str | tuple[str, Sequence[str]]
WORD_RULES = ("first", "last", "mean")


class Batch:
    """Rows of the caller's list, their padded ids [b, t], and position weights [b, t] (rows sum to 1).

    `others`: the weights of further rules."""

    def __init__(self, rows, ids, weights, pad, others=()):
        self.rows = rows
        width = max(len(ids[r]) for r in rows)
        self.ids = torch.tensor([ids[r] + [pad] * (width - len(ids[r])) for r in rows])
        self.mask = torch.tensor([[1] * len(ids[r]) + [0] * (width - len(ids[r])) for r in rows])
        self.weights, *self.others = (stack([of[r] for r in rows], width) for of in (weights, *others))


def stack(weights, width):
    return torch.stack([pad_right(w, (0, width - len(w))) for w in weights])


def longest(model: Model) -> int:
    """Most tokens that the model reads."""
    limit = getattr(model.net.config, "max_position_embeddings", None) or 10**9
    return min(limit, model.tokenizer.model_max_length or limit)


def tokenized(texts, model: Model, room: int = 0):
    """Texts with the model's own mask token, and their encoding; UserError where one and `room` more tokens are too
    many for the model."""
    tokenizer = model.tokenizer
    if tokenizer.mask_token and tokenizer.mask_token != "[MASK]":
        texts = [t.replace("[MASK]", tokenizer.mask_token) for t in texts]
    encoding = tokenizer(texts, return_offsets_mapping=True)
    limit = longest(model) - room
    long = [i for i, e in enumerate(encoding["input_ids"]) if len(e) > limit]
    if long:
        raise UserError(f"{len(encoding['input_ids'][long[0]])} tokens, {model.name} reads at most {limit}"
                        f"{f' when {room} are to follow' if room else ''}: "
                        f"shorten {texts[long[0]][:60]!r}…")
    return texts, encoding


def position_weights(texts, model: Model, at: At) -> list[torch.Tensor]:
    """Position weights of each text."""
    return _weights(*tokenized(texts, model), model, at)


def _weights(texts, encoding, model, at):
    ids, offsets, out = encoding["input_ids"], encoding["offset_mapping"], []
    mask = model.tokenizer.mask_token_id                                 # looked up by name, slower than it looks
    special = set(model.tokenizer.all_special_ids) - {mask, model.tokenizer.unk_token_id}
    if isinstance(at, tuple) and (at[0] not in WORD_RULES or len(at[1]) != len(texts)):
        raise UserError(f"at={at[0]!r} with {len(at[1])} words for {len(texts)} texts: "
                        "give ('first'|'last'|'mean', one word per text)")
    for i, text in enumerate(texts):
        if at == "[MASK]":
            back = int(model.kind == "causal")                         # where a decoder predicts what comes there
            places = [j - back for j, t in enumerate(ids[i]) if t == mask and j >= back][:1]
        elif at == "[CLS]":
            places = [0]
        elif at == "last":
            places = [j for j, t in enumerate(ids[i]) if t not in special][-1:]
        elif at in ("mean", "max"):
            places = [j for j, t in enumerate(ids[i]) if t not in special]
        elif isinstance(at, tuple):
            places = _word_places(text, at[1][i], offsets[i])
            places = {"first": places[:1], "last": places[-1:], "mean": places}[at[0]]
        else:
            raise UserError(f"at={at!r} is no position: '[MASK]', '[CLS]', 'last', 'mean', 'max' or ('last', words)")
        if not places:
            what = at if isinstance(at, str) else repr(at[1][i])
            raise UserError(f"{what} is not in the text {text[:100]!r} (text {i})")
        w = torch.zeros(len(ids[i]))
        w[places] = 1 / len(places)
        out.append(w)
    return out


def _word_places(text, word, offsets):
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    if not found:
        return []
    a, b = found.span()
    return [j for j, (s, e) in enumerate(offsets) if s < b and e > a and e > s]


def batches(texts, model, *rules: At) -> list[Batch]:
    """Texts of like length together; weights of the first rule, and of the others, from one tokenization."""
    texts, encoding = tokenized(texts, model)
    ids = encoding["input_ids"]
    weights, *others = (_weights(texts, encoding, model, at) for at in rules)
    cpu = model.device.type == "cpu"                                  # there padding costs more than a small batch
    most, enough = (2_048, 256) if cpu else (65_536, 65_536)          # tokens of a batch
    groups, rows = [], []
    for r in sorted(range(len(ids)), key=lambda i: len(ids[i])):       # a batch's last row is its longest
        size, longer = len(ids[r]) * (len(rows) + 1), rows and len(ids[r]) > len(ids[rows[-1]])
        if rows and (size > most or longer and size > enough):
            groups, rows = groups + [rows], []
        rows.append(r)
    pad = model.tokenizer.pad_token_id
    return [Batch(rows, ids, weights, pad, others) for rows in groups + [rows]]
