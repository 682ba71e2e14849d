"""Turn texts into padded batches: tokenize, locate positions, group texts of similar length.

Batches are made by NumPy, which does not compete for torch's threads while a GPU is given work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest

import numpy as np
import torch
from torch import Tensor

from probebook.base import UserError
from probebook.corpora.chats import Chat
from probebook.corpora.words import find_word
from probebook.devices import free_memory
from probebook.models.loading import BLANK, Model

PositionRule = str | tuple[str, Sequence[str]]
WORD_RULES = ("first", "last", "mean")
ROLES = {"last user": "user", "assistant mean": "assistant"}  # whose contents a rule reads
AHEAD = 4_096  # texts that are tokenized while a GPU works on as many


class Batch:
    """Some `rows` of the caller's list, padded by the id `pad`: `ids`, `mask`, `weights` [b, t].

    `weights` are those of positions (rows sum to 1); `others`: the weights of further rules;
    `decoder_ids` [b, t′]: what an encoder–decoder's decoder reads besides (None: nothing). It is
    made from the ids of all texts and `places`: rules, and each text's places under the rule; those
    of "[MASK]" lie in `decoder_ids`, if there are any."""

    def __init__(
        self,
        rows: list[int],
        ids: Sequence[list[int]],
        pad: int,
        places: Sequence[tuple[PositionRule, Sequence[list[int]]]],
        decoder_ids: Sequence[list[int]] | None = None,
    ):
        self.rows = rows
        self.ids = _pad([ids[r] for r in rows], pad)
        lengths = torch.tensor([[len(ids[r])] for r in rows])
        self.mask = (torch.arange(self.ids.shape[1]) < lengths).long()
        of_blank = self.ids
        self.decoder_ids: Tensor | None = None
        if decoder_ids is not None:
            of_blank = self.decoder_ids = _pad([decoder_ids[r] for r in rows], pad)
        self.weights, *self.others = (
            _equal_weights([of_text[r] for r in rows], of_blank if at == BLANK else self.ids)
            for at, of_text in places
        )


def _equal_weights(places: list[list[int]], ids: Tensor) -> Tensor:
    """Weights [b, t] that sum to 1 over each row's places among ids [b, t]."""
    counts = np.array([len(row) for row in places])
    rows, columns = np.arange(len(places)).repeat(counts), list(chain.from_iterable(places))
    weights: np.ndarray = np.zeros(ids.shape, np.float32)
    weights[rows, columns] = (np.float32(1) / counts.astype(np.float32)).repeat(counts)
    return torch.from_numpy(weights)


def _pad(rows: list[list[int]], value: int) -> Tensor:
    """Lists of ids as one tensor [b, t]."""
    width = max(map(len, rows))
    return torch.from_numpy(np.array([row + [value] * (width - len(row)) for row in rows]))


class UnreadText(UserError):
    """A text of a list cannot be read. `index`: its place in the list; `why`: the reason."""

    def __init__(self, index: int, why: str):
        super().__init__(f"{why} (text {index})")
        self.index, self.why = index, why


def longest(model: Model) -> int:
    """Return the largest number of tokens that the model reads."""
    config = model.net.config.get_text_config()
    limits = [
        getattr(config, "max_position_embeddings", None),  # XLNet's is −1
        getattr(config, "max_encoder_position_embeddings", None),  # LED's
        model.tokenizer.model_max_length,
    ]
    limits += [  # RoBERTa's positions are counted from the one after padding's
        table.num_embeddings - table.padding_idx - 1
        for name, table in model.net.named_modules()
        if "position" in name and getattr(table, "padding_idx", None) is not None
    ]
    return min((limit for limit in limits if limit and limit > 0), default=10**9)


def tokenize(
    texts: Sequence[str], model: Model, room: int = 0, offsets: bool = True
) -> tuple[Sequence[str], dict]:
    """Tokenize texts, with the book's [MASK] for a blank: as the model reads them, and encoded.

    `offsets`: whether the encoding tells the characters of each token, if the tokenizer can.
    UnreadText: a text and `room` more tokens are too many for the model."""
    texts = [model.as_read(text) for text in texts]
    encoding = model.tokenizer(
        texts,
        return_offsets_mapping=offsets and model.tokenizer.is_fast,
        return_attention_mask=False,
        return_token_type_ids=False,
    )
    limit = longest(model) - room
    for i, (text, ids) in enumerate(zip(texts, encoding["input_ids"])):
        if len(ids) > limit:
            follow = f" when {room} are to follow" if room else ""
            raise UnreadText(
                i,
                f"{len(ids)} tokens, {model.name} reads at most {limit}{follow}: "
                f"shorten {text[:60]!r}…",
            )
    return texts, encoding


def positions(texts: Sequence[str], model: Model, at: PositionRule) -> list[list[int]]:
    """Locate the tokens at which each text is read under a position rule (`embed`).

    For the blank of an encoder–decoder they are places among the tokens that its decoder reads."""
    return _places(texts, *tokenize(texts, model), model, at)


def _places(
    given: Sequence[str], texts: Sequence[str], encoding: dict, model: Model, at: PositionRule
) -> list[list[int]]:
    """`given` are the caller's texts, `texts` those that the model reads."""
    if isinstance(at, tuple) and (at[0] not in WORD_RULES or len(at[1]) != len(texts)):
        raise UserError(
            f"at={at[0]!r} with {len(at[1])} words for {len(texts)} texts is not valid: "
            "expected ('first'|'last'|'mean', one word per text)"
        )
    special = model.special  # looked up once: it is slow
    out = []
    for i, ids in enumerate(encoding["input_ids"]):
        place: int | None = 0
        if isinstance(at, tuple):
            spans = encoding["offset_mapping"][i] if "offset_mapping" in encoding else None
            places = _word_places(texts[i], at[1][i], ids, spans, model)
            places = {"first": places[:1], "last": places[-1:], "mean": places}[at[0]]
        elif at in ROLES or at == "last" and isinstance(given[i], Chat):
            turns = [t for t in getattr(given[i], "turns", ()) if t[0] == ROLES.get(at, t[0])]
            spans = [*enumerate(encoding["offset_mapping"][i])] if turns else []
            places = [j for _, a, b in turns for j, (s, e) in spans if s < b and e > a and e > s]
            places = places if at == "assistant mean" else places[-1:]
        elif at in ("mean", "max"):
            places = [j for j, t in enumerate(ids) if t not in special]
        else:
            if at == "[MASK]":
                place = model.blank(ids) if model.kind != "causal" or BLANK in given[i] else None
            elif at == "last":
                place = model.last_word(ids)
            elif at != "[CLS]":
                raise UserError(
                    f"at={at!r} is not a known position: expected '[MASK]', '[CLS]', 'last', "
                    "'mean', 'max', of chats 'last user', 'assistant mean', or ('last', words), in "
                    "an audit 'last word' with --spot COLUMN"
                )
            places = [] if place is None else [place]
        if not places:
            names = {BLANK: BLANK} | {k: f"a message of the {role}" for k, role in ROLES.items()}
            wanted = names.get(at, "a token of a word") if isinstance(at, str) else repr(at[1][i])
            raise UnreadText(i, f"{wanted} is not in the text {texts[i][:100]!r}")
        out.append(places)
    return out


def _word_places(
    text: str, word: str, ids: list[int], spans: list[tuple[int, int]] | None, model: Model
) -> list[int]:
    """The places of a word's tokens, by the characters of each token or, where the tokenizer does
    not tell them, by how many tokens there are up to the word and with it."""
    place = find_word(text, word)
    if place is None:
        return []
    a, b = place
    if spans is not None:
        return [j for j, (s, e) in enumerate(spans) if s < b and e > a and e > s]

    def tokens(part: str) -> list[int]:
        return model.tokenizer(part, add_special_tokens=False)["input_ids"]

    whole, starts = tokens(text[:b]), [tokens(text[:a]), tokens(text[:a].rstrip())]
    for j in range(len(ids) - len(whole) + 1):
        for start in starts:
            if ids[j : j + len(whole)] == whole and whole[: len(start)] == start:
                return [*range(j + len(start), j + len(whole))]
    raise UserError(
        f"the tokenizer of {model.name} does not tell which tokens are a word's: "
        "read at 'mean' or 'last'"
    )


def encode_texts(
    texts: Sequence[str], model: Model, *rules: PositionRule
) -> tuple[list[list[int]], Callable[[list[int]], Batch]]:
    """Tokenize texts once: their ids, and a function from some rows to the batch of these, with
    the weights of each position rule."""
    offsets = any(isinstance(one, tuple | Chat) for one in (*rules, *texts))
    read, encoding = tokenize(texts, model, offsets=offsets)
    ids = encoding["input_ids"]
    places = [(at, _places(texts, read, encoding, model, at)) for at in rules]
    pad = model.tokenizer.pad_token_id or 0  # masked, so that any token will do
    decoder_ids = [model.decoder_ids(row) for row in ids] if model.kind == "seq2seq" else None
    return ids, lambda rows: Batch(rows, ids, pad, places, decoder_ids)


def batches(texts: Sequence[str], model: Model, *rules: PositionRule) -> Iterator[Batch]:
    """Yield batches of texts of similar length, with the weights of each position rule.

    For a GPU some texts are tokenized while it works on those before them."""
    if model.device.type == "cpu":  # there padding costs more than a small batch
        yield from _group(*encode_texts(texts, model, *rules), 2_048, 256)
        return
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    parts = [order[i : i + AHEAD] for i in range(0, len(order), AHEAD)]
    most = _tokens_at_once(model)

    def read(part: list[int]) -> tuple[list[list[int]], Callable[[list[int]], Batch]]:
        some = [at if isinstance(at, str) else (at[0], [at[1][r] for r in part]) for at in rules]
        return encode_texts([texts[r] for r in part], model, *some)

    with ThreadPoolExecutor(1) as ahead:
        waiting = [ahead.submit(read, part) for part in parts[:1]]
        for part, following in zip_longest(parts, parts[1:]):
            ids, batch = waiting.pop().result()
            waiting = [ahead.submit(read, following)] if following else []
            for ready in _group(ids, batch, most, most // 4):
                ready.rows = [part[r] for r in ready.rows]
                yield ready


def _group(
    ids: list[list[int]], batch: Callable[[list[int]], Batch], most: int, enough: int
) -> Iterator[Batch]:
    """Batches of at most `most` tokens (at least one text), or of texts of one length, if these
    have more than `enough`."""
    rows: list[int] = []
    for r in sorted(range(len(ids)), key=lambda i: len(ids[i])):  # the last row is the longest
        size, longer = len(ids[r]) * (len(rows) + 1), rows and len(ids[r]) > len(ids[rows[-1]])
        if rows and (size > most or longer and size > enough):
            yield batch(rows)
            rows = []
        rows.append(r)
    yield batch(rows)


def _tokens_at_once(model: Model) -> int:
    """Tokens of a batch on a GPU: 65,536, or as many as take a quarter of its free memory."""
    config, weights = model.net.config, next(model.net.parameters())
    widest = max(model.width, getattr(config, "intermediate_size", None) or 4 * model.width)
    per_token = weights.element_size() * (8 * model.width + 4 * widest)
    return max(2_048, min(65_536, free_memory(model.device) // 4 // per_token))
