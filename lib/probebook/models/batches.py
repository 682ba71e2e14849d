"""Texts to padded batches: tokenize, find the wanted position, group texts of similar length."""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from probebook.base import UserError
from probebook.models.loading import BLANK, Model

At = str | tuple[str, Sequence[str]]
WORD_RULES = ("first", "last", "mean")


class Batch:
    """Some rows of the caller's list, padded: `ids`, `mask`, `weights` [b, t].

    `weights` are those of positions (rows sum to 1); `others`: the weights of further rules;
    `decoder_ids` [b, t′]: what an encoder–decoder's decoder reads besides (None: nothing)."""

    def __init__(self, rows: list[int], ids: Sequence[list[int]], weights: Sequence[Tensor],
                 pad: int, others: Sequence[Sequence[Tensor]] = (),
                 decoder_ids: Sequence[list[int]] | None = None):
        def together(values: Sequence, value: int = 0) -> Tensor:
            return pad_sequence([torch.as_tensor(values[r]) for r in rows], True, value)

        self.rows, self.ids, self.weights = rows, together(ids, pad), together(weights)
        self.mask = together([[1] * len(row) for row in ids])
        self.others = [together(other) for other in others]
        self.decoder_ids = None if decoder_ids is None else together(decoder_ids, pad)


def longest(model: Model) -> int:
    """The largest number of tokens that the model reads."""
    limits = (getattr(model.net.config, "max_position_embeddings", None),    # XLNet's is −1
              model.tokenizer.model_max_length)
    return min((limit for limit in limits if limit and limit > 0), default=10**9)


def tokenize(texts: Sequence[str], model: Model, room: int = 0) -> tuple[Sequence[str], dict]:
    """Texts as the model reads them (`Model.as_read`), and their encoding.

    Raises UserError if a text and `room` more tokens are too many for the model."""
    texts = [model.as_read(text) for text in texts]
    encoding = model.tokenizer(texts, return_offsets_mapping=True)
    limit = longest(model) - room
    for text, ids in zip(texts, encoding["input_ids"]):
        if len(ids) > limit:
            follow = f" when {room} are to follow" if room else ""
            raise UserError(f"{len(ids)} tokens, {model.name} reads at most {limit}{follow}: "
                            f"shorten {text[:60]!r}…")
    return texts, encoding


def position_weights(texts: Sequence[str], model: Model, at: At) -> list[Tensor]:
    """The weight [t] of each text's tokens under a position rule (`embed`).

    For the blank of an encoder–decoder they are those of the tokens that its decoder reads."""
    return _weights(texts, *tokenize(texts, model), model, at)


def _weights(given: Sequence[str], texts: Sequence[str], encoding: dict, model: Model, at: At
             ) -> list[Tensor]:
    """`given` are the caller's texts, `texts` those that the model reads."""
    if isinstance(at, tuple) and (at[0] not in WORD_RULES or len(at[1]) != len(texts)):
        raise UserError(f"at={at[0]!r} with {len(at[1])} words for {len(texts)} texts: "
                        "give ('first'|'last'|'mean', one word per text)")
    special = model.special                       # looked up once: it is slow
    out = []
    for i, ids in enumerate(encoding["input_ids"]):
        if at == "[MASK]":
            place = model.blank(ids) if model.kind != "causal" or BLANK in given[i] else None
            places = [] if place is None else [place]
        elif at == "[CLS]":
            places = [0]
        elif at in ("last", "mean", "max"):
            places = [j for j, t in enumerate(ids) if t not in special]
            places = places[-1:] if at == "last" else places
        elif isinstance(at, tuple):
            places = _word_places(texts[i], at[1][i], encoding["offset_mapping"][i])
            places = {"first": places[:1], "last": places[-1:], "mean": places}[at[0]]
        else:
            raise UserError(f"at={at!r} is no position: '[MASK]', '[CLS]', 'last', 'mean', 'max', "
                            "or ('last', words), in an audit 'last word' with --spot COLUMN")
        if not places:
            wanted = at if isinstance(at, str) else repr(at[1][i])
            raise UserError(f"{wanted} is not in the text {texts[i][:100]!r} (text {i})")
        decoder = model.kind == "seq2seq" and at == "[MASK]"
        w = torch.zeros(places[0] + 1 if decoder else len(ids))   # the blank follows its last token
        w[places] = 1 / len(places)
        out.append(w)
    return out


def _word_places(text: str, word: str, offsets: list[tuple[int, int]]) -> list[int]:
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    if not found:
        return []
    a, b = found.span()
    return [j for j, (s, e) in enumerate(offsets) if s < b and e > a and e > s]


def encoded(texts: Sequence[str], model: Model, *rules: At
            ) -> tuple[list[list[int]], Callable[[list[int]], Batch]]:
    """The token ids of texts, and a function from some of their rows to the batch of these, with
    the weights of each position rule."""
    read, encoding = tokenize(texts, model)
    ids = encoding["input_ids"]
    weights, *others = (_weights(texts, read, encoding, model, at) for at in rules)
    pad = model.tokenizer.pad_token_id
    decoder_ids = [model.decoder_ids(row) for row in ids] if model.kind == "seq2seq" else None
    return ids, lambda rows: Batch(rows, ids, weights, pad, others, decoder_ids)


def batches(texts: Sequence[str], model: Model, *rules: At) -> list[Batch]:
    """Batches of texts of similar length, with the weights of each position rule."""
    ids, batch = encoded(texts, model, *rules)
    cpu = model.device.type == "cpu"                # there padding costs more than a small batch
    most, enough = (2_048, 256) if cpu else (65_536, 65_536)           # tokens of a batch
    groups: list[list[int]] = []
    rows: list[int] = []
    for r in sorted(range(len(ids)), key=lambda i: len(ids[i])):       # the last row is the longest
        size, longer = len(ids[r]) * (len(rows) + 1), rows and len(ids[r]) > len(ids[rows[-1]])
        if rows and (size > most or longer and size > enough):
            groups, rows = [*groups, rows], []
        rows.append(r)
    return [batch(rows) for rows in [*groups, rows]]
