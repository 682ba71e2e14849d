"""Hidden states of texts at one layer and position, cached, and what the head reads from them.

A hook stops the forward pass at the wanted layer, and the wanted position is selected on the
device, so nothing else is computed or stored. A batch holds a number of tokens, in texts of
(nearly) one length.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.corpora.chats import Chat
from probebook.corpora.words import single_tokens
from probebook.models.batches import Batch, PositionRule, batches
from probebook.models.cache import load_or_compute
from probebook.models.chats import render
from probebook.models.loading import Model, as_model, load
from probebook.models.passes import (
    Collected,
    Component,
    at_layer,
    forward,
    part_for,
    pick,
    threads,
)

if TYPE_CHECKING:
    from dask.distributed import Client

SHARD = 4_096  # the largest number of texts that a worker of a cluster embeds at once


def embed(
    texts: Sequence[str] | Sequence[Sequence[Mapping]],
    model: str | Model,
    layer: int = -1,
    at: PositionRule = "[MASK]",
    cache: bool = True,
    client: Client | None = None,
    component: Component = "residual",
) -> Tensor:
    """Compute the hidden states `h` of texts at one layer and position.

    Args:
        texts: The texts. Or conversations, each a list of dicts with role and content, which are
            read through the model's own chat template (`chats.render`).
        model: A model, or its name or folder.
        layer: 0 = embeddings, k = after block k, −1 = the head's input (after any final norm).
        at: Where a text is read. "[MASK]" is the state from which the head predicts the blank: that
            of the mask; in a left-to-right model, which reads only what stands before the blank,
            that of the last token; in an encoder–decoder that of the last token that its decoder
            reads (`Model.decoder_ids`). Or "[CLS]" (the first token), "last" (the last one that is
            neither special nor a blank), "mean" or "max" (of each coordinate, over all real
            tokens), or a pair (rule, words) with rule "first", "last" or "mean" over the pieces of
            one word per text, e.g. ("last", subjects).
            Of conversations "last" is the last token of the last message's content, "last user"
            that of the last user's, "assistant mean" the mean over all of the assistant's contents.
            Of an encoder–decoder every rule but "[MASK]" reads the encoder.
        cache: Store the result in the cache folder, under weights, layer, rule, dtype and texts.
        client: Of a Dask cluster, whose workers embed shards of whole batches. On one kind of
            machine not a bit differs. Each worker stores its finished shards and never repeats
            them. It loads the model in the precision that it has here.
        component: "residual" (the stream between the blocks), or what one part of block `layer`
            adds to it: "attention", "mlp" or, in an encoder–decoder's decoder, "cross-attention"
            (the output of the part's last matrix, before a norm that may follow).

    Returns:
        The states, float32 [n, d] on the CPU, in the order of `texts`.

    Raises:
        UserError: An empty list or text, a layer beyond the model, a position that a text lacks, a
            component that the block lacks, a `client` without a cache or without a name by which
            workers can load the model, or a worker that has another model of that name."""
    if client is not None and (isinstance(model, Model) or not cache):
        raise UserError(
            "client: give the model by its name or folder, which workers load, and keep cache=True"
        )
    name = "" if isinstance(model, Model) else model
    model, texts = _prepare(as_model(model), texts, at)
    layer = model.layer(layer)
    if client is not None:
        return _embed_sharded(texts, name, model, layer, at, client, component)

    def compute() -> dict[str, Tensor]:
        return {"h": _states(texts, model, [layer], [at], component)[layer][0]}

    key = _key(texts, model, layer, at, component)
    return (load_or_compute("embeddings", key, compute) if cache else compute())["h"]


def embed_layers(
    texts: Sequence[str], model: str | Model, layers: Sequence[int], at: PositionRule = "[MASK]"
) -> dict[int, Tensor]:
    """Embed texts at several layers in one forward pass: layer (0 … depth) → h [n, d].

    Each layer is cached by itself, where `embed` looks for it; cached ones are not computed. The
    arguments are those of `embed`."""
    model, texts = _prepare(as_model(model), texts, at)
    layers = sorted({model.layer(layer) for layer in layers})
    keys = {k: _key(texts, model, k, at) for k in layers}
    return _cache_together(
        keys, lambda missing: {k: h for k, (h,) in _states(texts, model, missing, [at]).items()}
    )


def embed_poolings(
    texts: Sequence[str],
    model: str | Model,
    rules: Sequence[str] = ("mean", "[CLS]", "max", "last"),
) -> dict[str, Tensor]:
    """Read the head's input by several position rules in one forward pass: rule → h [n, d].

    Each rule's states are cached by themselves, where `embed` looks for them, and equal its states
    to the bit. The arguments and errors are those of `embed`."""
    model, texts = _prepare(as_model(model), texts, "mean")
    layer = model.depth
    keys = {at: _key(texts, model, layer, at) for at in rules}
    return _cache_together(
        keys, lambda missing: dict(zip(missing, _states(texts, model, [layer], missing)[layer]))
    )


def _cache_together(keys: dict, make: Callable[[list], dict]) -> dict:
    """Read name → h from the cache, given name → key.

    The first name that is missing makes `make` compute it and all names after it."""
    names = [*keys]
    made: dict[int | str, Tensor] = {}

    def one(name: int | str) -> dict[str, Tensor]:
        if not made:
            made.update(make(names[names.index(name) :]))
        return {"h": made.pop(name)}

    return {
        name: load_or_compute("embeddings", key, lambda: one(name))["h"]
        for name, key in keys.items()
    }


def _prepare(model: Model, texts: Sequence, at: PositionRule) -> tuple[Model, list[str]]:
    """The part of a model that a rule reads, and the texts as it reads them."""
    texts = render(list(texts), model)
    if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise UserError("nothing to embed: every text must be a string with at least one word")
    return part_for(model, at), texts


def _key(
    texts: list[str], model: Model, layer: int, at: PositionRule, component: Component = "residual"
) -> list:
    dtype, at = str(model.dtype), "last word" if at == "last" else at
    more: list = [component] if component != "residual" or model.kind == "seq2seq" else []
    more += [text.turns for text in texts if isinstance(text, Chat)]
    texts = [model.unframed(text) for text in texts]
    return [model.fingerprint, model.tokenizer_fingerprint, layer, at, dtype, texts, *more]


def head_logits(h: Tensor, model: str | Model) -> Tensor:
    """Apply the language-model head to last-layer states: [n, d] → float32 [n, vocabulary], on the
    device of the states."""
    model = as_model(model)
    h = torch.as_tensor(h)
    with torch.inference_mode():
        # a copy: the last bits of a product depend on where its factors begin in memory
        return model.head(h.to(torch.float32, copy=True))


def word_logits(
    texts: Sequence[str],
    model: str | Model,
    words: Sequence[Sequence[str]],
    h: Tensor | None = None,
) -> Tensor:
    """Score candidate words, one row of m per text, at its one [MASK]: logits, float32 [n, m].

    `h`: last-layer states in place of the model's, for example edited ones. UserError: a word is
    not a single token of the model."""
    model = as_model(model)
    h = embed(texts, model, -1, "[MASK]") if h is None else torch.as_tensor(h)
    flat = {w for row in words for w in row}
    ids = single_tokens(flat, model.tokenizer)
    if long := sorted(flat - {*ids}):
        raise UserError(
            f"not a single token of {model.name}: {', '.join(long[:5])}; choose words that are"
        )
    place = {word: i for i, word in enumerate(ids)}
    columns = torch.tensor([[place[w] for w in row] for row in words]).to(model.device)
    head = model.head_for(tuple(ids.values()))
    with torch.inference_mode():
        logits = [
            head(part.to(torch.float32, copy=True)) for part in h.to(model.device).split(4096)
        ]
    return torch.cat(logits).gather(1, columns).to(h.device)


def lens_logits(
    h: Tensor, model: str | Model, layer: int, words: Sequence[Sequence[str]]
) -> Tensor:
    """Score words by the logit lens: what the head would say if the network ended at a layer.

    Args:
        h: States [n, d] at `layer`, as `embed` gives them. Those below the last layer go through
            the model's final norm, which the last layer's have passed.
        model: A model with a head, or its name or folder.
        layer: 0 = embeddings … depth, or −1; there the lens is the model itself.
        words: A row of m candidate words per state.

    Returns:
        Logits, float32 [n, m].

    Raises:
        UserError: The model has no head or no single final norm, or has no such layer; a word is
            not one of its tokens.

    Source: nostalgebraist (2020), "interpreting GPT: the logit lens"."""
    model, h = as_model(model), torch.as_tensor(h)
    if model.layer(layer) < model.depth and model.kind != "encoder":
        with torch.inference_mode():
            h = model.final_norm(h.to(torch.float32, copy=True))
    return word_logits([], model, words, h=h)


def _states(
    texts: list[str],
    model: Model,
    layers: Sequence[int],
    rules: Sequence[PositionRule],
    component: Component = "residual",
) -> dict[int, list[Tensor]]:
    """Compute layer → states by each rule, in one pass that stops at the highest layer."""
    out = {k: [Collected(len(texts), model.width) for _ in rules] for k in layers}
    current, top = threading.local(), max(layers)

    def keep(layer: int, hidden: Tensor) -> Tensor:
        batch = current.batch
        for h, at, weights in zip(out[layer], rules, (batch.weights, *batch.others)):
            h.add(batch.rows, pick(hidden, weights, at))
        return hidden

    def one(batch: Batch) -> None:
        current.batch = batch
        keep(top, forward(model, batch))

    with ExitStack() as hooks, threads(model.device) as pool:
        for k in layers:
            put = None if k == top else partial(keep, k)
            hooks.enter_context(at_layer(model, k, put, component))
        list(pool.map(one, batches(texts, model, *rules)))
    return {k: [h.complete() for h in collected] for k, collected in out.items()}


def _embed_sharded(
    texts: list[str],
    name: str,
    model: Model,
    layer: int,
    at: PositionRule,
    client: Client,
    component: Component,
) -> Tensor:
    """Embed on a cluster. Shards follow the order of batches, so workers form the same ones."""
    from dask.distributed import as_completed

    shards: list[list[int]] = [[]]
    out = torch.empty(len(texts), model.width)
    for batch in batches(texts, model, at):
        if shards[-1] and len(shards[-1]) + len(batch.rows) > SHARD:
            shards.append([])
        shards[-1] += batch.rows
    name = str(Path(name).resolve()) if Path(name).is_dir() else name
    dtype, futures = model.dtype, {}
    for rows in shards:
        words = at if isinstance(at, str) else (at[0], [at[1][r] for r in rows])
        part = [texts[r] for r in rows]
        job = (part, name, dtype, _fingerprints(model), layer, words, component)
        futures[client.submit(_embed_shard, *job, pure=False)] = rows
    for future in as_completed(list(futures)):
        out[futures.pop(future)] = torch.tensor(future.result())
        future.release()
    return out


def _embed_shard(
    texts: list[str],
    name: str,
    dtype: torch.dtype,
    prints: tuple[str, str],
    layer: int,
    at: PositionRule,
    component: Component,
) -> np.ndarray:
    """Embed on a worker, with the model of that name if it has the fingerprints `prints`."""
    from dask.distributed import get_worker

    model = part_for(load(name, dtype=dtype), at)
    if _fingerprints(model) != prints:
        raise UserError(
            f"{name}: the worker {get_worker().address} has other weights or another "
            "tokenizer under this name; give all workers the same files"
        )
    return to_numpy(embed(texts, model, layer, at, component=component))


def _fingerprints(model: Model) -> tuple[str, str]:
    return model.fingerprint, model.tokenizer_fingerprint
