"""Hidden states of texts at one layer and position, cached; and predictions from edited states.

A hook stops the forward pass at the wanted layer, and the wanted position is selected on the
device, so nothing else is computed or stored. A batch holds a number of tokens, in texts of
(nearly) one length.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from probebook.base import UserError
from probebook.corpora.words import single_tokens
from probebook.models.batches import At, Batch, batches, position_weights, stack
from probebook.models.cache import cached
from probebook.models.loading import Model, as_model

if TYPE_CHECKING:
    from dask.distributed import Client

Edit = Callable[[Tensor], Tensor] | Tensor | None
SHARD = 4_096       # the largest number of texts that a worker of a cluster embeds at once


class Stop(Exception):
    """Raised by a hook when the wanted layer is reached; its argument is the hidden states."""


def embed(texts: Sequence[str], model: str | Model, layer: int = -1, at: At = "[MASK]",
          cache: bool = True, client: Client | None = None) -> Tensor:
    """Hidden states `h` of texts at one layer and position: float32 [n, d] on the CPU.

    `layer`: 0 = embeddings, k = after block k, −1 = the head's input (after any final norm).
    `at`: "[MASK]" (the blank; a left-to-right model reads only what stands before it, and the state
    is that of its last token, from which the head predicts the blank), "[CLS]"
    (the first token), "last" (the last one), "mean" or "max" (of each coordinate, over all real
    tokens), or a pair (rule, words) with rule "first", "last" or "mean" over the pieces of one
    word per text, e.g. ("last", subjects).
    `cache`: store the result in the cache folder, under weights, layer, rule, dtype and texts.
    `client`: of a Dask cluster, whose workers embed shards of whole batches. On one kind of
    machine not a bit differs. Each worker stores its finished shards and never repeats them.
    Raises UserError for an empty list or text, a layer beyond the model, a position that a text
    lacks, or a `client` without a cache or without a name by which workers can load the model."""
    if client is not None and (isinstance(model, Model) or not cache):
        raise UserError("client: give the model by its name or folder, which workers load, and "
                        "keep cache=True")
    name = "" if isinstance(model, Model) else model
    model, texts = as_model(model), _words(texts)
    layer = model.layer(layer)
    if client is not None:
        return _sharded(texts, name, model, layer, at, client)
    if not cache:
        return _embed(texts, model, layer, at)
    key = _key(texts, model, layer, at)
    return cached("embeddings", key, lambda: {"h": _embed(texts, model, layer, at)})["h"]


def embed_layers(texts: Sequence[str], model: str | Model, layers: Sequence[int],
                 at: At = "[MASK]") -> dict[int, Tensor]:
    """`embed` at several layers: layer (0 … depth) → h [n, d], in one forward pass.

    Each layer is cached by itself, where `embed` finds it; cached ones are not computed."""
    model, texts = as_model(model), _words(texts)
    layers = sorted({model.layer(layer) for layer in layers})
    keys = {k: _key(texts, model, k, at) for k in layers}
    return _cached_together(
        keys, lambda missing: {k: h for k, (h,) in _states(texts, model, missing, [at]).items()})


def embed_poolings(texts: Sequence[str], model: str | Model, layer: int = -1,
                   rules: Sequence[str] = ("mean", "[CLS]", "max", "last")) -> dict[str, Tensor]:
    """`embed` by several position rules: rule → h [n, d], in one forward pass.

    Each rule's states are cached by themselves, where `embed` finds them, and equal its states to
    the bit. Raises UserError as `embed` does."""
    model, texts = as_model(model), _words(texts)
    layer = model.layer(layer)
    keys = {at: _key(texts, model, layer, at) for at in rules}
    return _cached_together(
        keys, lambda missing: dict(zip(missing, _states(texts, model, [layer], missing)[layer])))


def _cached_together(keys: dict, make: Callable[[list], dict]) -> dict:
    """name → h from the cache, given name → key.

    The first name that is missing makes `make` compute it and all names after it."""
    names = [*keys]
    made: dict[int | str, Tensor] = {}

    def one(name: int | str) -> dict[str, Tensor]:
        if not made:
            made.update(make(names[names.index(name):]))
        return {"h": made.pop(name)}

    return {name: cached("embeddings", key, lambda: one(name))["h"] for name, key in keys.items()}


def _words(texts: Sequence[str]) -> list[str]:
    texts = list(texts)
    if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise UserError("nothing to embed: every text must be a string with at least one word")
    return texts


def _key(texts: list[str], model: Model, layer: int, at: At) -> list:
    dtype = str(next(model.net.parameters()).dtype)
    return [model.fingerprint, model.tokenizer_fingerprint, layer, at, dtype, texts]


def carry(texts: Sequence[str], model: str | Model, layer: int, at: At, edit: Edit,
          read: At = "[MASK]") -> Tensor:
    """Last-layer states at `read` once the states at (`layer`, `at`) are replaced: float32 [n, d].

    `edit` maps the states [n, d] of all texts to new ones, or is the new states, or None (no
    change). The rest of the network runs on the edited states. `at` must name one token per text.
    New states [m, n, d] are m separate edits; the result is [m, n, d], and the blocks below the
    edit run only once."""
    model, texts = as_model(model), list(texts)
    layer = model.layer(layer)
    if callable(edit):
        edit = edit(embed(texts, model, layer, at))
    edit = edit if edit is None else torch.as_tensor(edit)
    reads = None if read == at else position_weights(texts, model, read)
    groups, current = batches(texts, model, at), threading.local()
    if edit is not None and any((b.weights.max(1).values != 1).any() for b in groups):
        raise UserError(f"at={at!r} spans several tokens: patch one token, e.g. '[MASK]' or "
                        "('last', words)")
    if edit is not None and layer == model.depth and reads is None:        # no block comes after it
        return edit.to(next(model.net.parameters()).dtype).float().cpu()
    if edit is not None and edit.ndim == 3 and model.time_first:
        return torch.stack([carry(texts, model, layer, at, one, read) for one in edit])
    edits = edit if edit is None or edit.ndim == 3 else edit[None]
    m = 1 if edits is None else len(edits)
    out = torch.empty(m, len(texts), model.width)

    def put(hidden: Tensor) -> Tensor:
        if edits is None:
            return hidden
        where = current.batch.weights.argmax(1)
        hidden = hidden.repeat(m, 1, 1, 1)
        hidden[:, torch.arange(len(where)), where] = edits[:, current.batch.rows].to(hidden)
        return hidden.flatten(0, 1)

    def one(batch: Batch) -> None:
        current.batch = batch
        hidden = _forward(model, batch)
        if edit is not None and layer == model.depth:
            hidden = put(hidden)
        weights = batch.weights
        if reads is not None:
            weights = stack([reads[r] for r in batch.rows], hidden.shape[1])
        picked = _pick(hidden, weights.repeat(m, 1), read).float().cpu()
        out[:, batch.rows] = picked.view(m, len(batch.rows), -1)

    stop = model.depth if edit is None else layer
    with _at_layer(model, stop, put), _threads(model.device) as pool:
        list(pool.map(one, groups))
    return out[0] if edit is None or edit.ndim == 2 else out


def patch(texts: Sequence[str], model: str | Model, layer: int, at: At, edit: Edit,
          read: At = "[MASK]") -> Tensor:
    """Token logits [n, vocabulary] at `read` once `carry` has replaced states at another place."""
    return head_logits(carry(texts, model, layer, at, edit, read), model)


def head_logits(h: Tensor, model: str | Model) -> Tensor:
    """The language-model head on last-layer states: [n, d] → float32 [n, vocabulary] on the CPU."""
    model = as_model(model)
    weights = next(model.net.parameters())
    with torch.inference_mode():
        # a copy: the last bits of a product depend on where its factors begin in memory
        return model.head(torch.as_tensor(h).to(weights, copy=True)).float().cpu()


def word_logits(texts: Sequence[str], model: str | Model, words: Sequence[Sequence[str]],
                h: Tensor | None = None) -> Tensor:
    """Logits at [MASK] of candidate words, one row of candidates per text: float32 [n, m].

    `h` replaces the last-layer states, for example by edited ones. Raises UserError if a word is
    not a single token of the model."""
    model = as_model(model)
    h = embed(texts, model, -1, "[MASK]") if h is None else torch.as_tensor(h)
    flat = {w for row in words for w in row}
    ids = single_tokens(flat, model.tokenizer)
    if long := sorted(flat - {*ids}):
        raise UserError(f"not a single token of {model.name}: {', '.join(long[:5])}; choose words "
                        "that are")
    columns = torch.tensor([[ids[w] for w in row] for row in words])
    parts = zip(h.split(4096), columns.split(4096))
    return torch.cat([head_logits(part, model).gather(1, ids) for part, ids in parts])


# --- forward --------------------------------------------------------------------------------------

@contextmanager
def _at_layer(model: Model, layer: int, put: Callable[[Tensor], Tensor] | None = None
              ) -> Iterator[None]:
    """Inside, a forward pass raises Stop at `layer` or, given `put`, goes on with its states.

    `put` may return m states [m · b, t, d] for b texts; the blocks' other inputs are then repeated
    m times."""
    now = threading.local()                    # which block a thread's pass is in; its rows
    turned = model.time_first if layer < model.depth else False

    def begin(module: nn.Module, args: tuple) -> None:
        now.block = -1

    def hook(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        now.block += 1                         # counted, since ALBERT's blocks are one module
        if now.block < layer:
            return None
        hidden, *others = args or [kwargs["hidden_states"]]
        hidden = hidden.transpose(0, 1) if turned else hidden
        if put is None:
            raise Stop(hidden)
        if now.block == layer:
            now.before, hidden = len(hidden), put(hidden)
        others = [_repeated(x, now.before, len(hidden)) for x in others]
        named = {name: _repeated(x, now.before, len(hidden)) for name, x in kwargs.items()}
        hidden = hidden.transpose(0, 1) if turned else hidden
        return ((hidden, *others), named) if args else (args, named | {"hidden_states": hidden})

    if layer == model.depth:
        yield
        return
    handles = [model.base.register_forward_pre_hook(begin)]
    handles += [block.register_forward_pre_hook(hook, with_kwargs=True)
                for block in dict.fromkeys(model.blocks)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _repeated(x: object, before: int, after: int) -> object:
    """Tensors of `before` rows, or tuples of such, repeated to `after` rows; others unchanged, and
    so are tables [·, d] of floats (DeBERTa's relative positions), which have no rows."""
    if isinstance(x, tuple):
        return tuple(_repeated(part, before, after) for part in x)
    if isinstance(x, torch.Tensor) and x.ndim > 1 and len(x) == before != after:
        if x.ndim > 2 or not x.is_floating_point():
            return x.repeat(after // before, *[1] * (x.ndim - 1))
    return x


@torch.inference_mode()
def _forward(model: Model, batch: Batch) -> Tensor:
    """Last hidden states [b, t, d], or those of the layer at which the pass stops."""
    try:
        ids, mask = batch.ids.to(model.device), batch.mask.to(model.device)
        padded = None if mask.all() else mask                  # without padding attention is faster
        return model.base(input_ids=ids, attention_mask=padded).last_hidden_state
    except Stop as stop:
        return stop.args[0]


def _pick(hidden: Tensor, weights: Tensor, at: At) -> Tensor:
    """States [b, d] from [b, t, d] by the position weights [b, t]."""
    if at == "max":
        return hidden.masked_fill(weights.to(hidden)[:, :, None] == 0, -torch.inf).amax(1)
    return (weights.to(hidden).unsqueeze(1) @ hidden).squeeze(1)


def _embed(texts: list[str], model: Model, layer: int, at: At) -> Tensor:
    return _states(texts, model, [layer], [at])[layer][0]


def _states(texts: list[str], model: Model, layers: Sequence[int], rules: Sequence[At]
            ) -> dict[int, list[Tensor]]:
    """layer → states by each rule, from one pass that stops at the highest layer."""
    out = {k: [torch.empty(len(texts), model.width) for _ in rules] for k in layers}
    current, top = threading.local(), max(layers)

    def keep(layer: int, hidden: Tensor) -> Tensor:
        batch = current.batch
        for h, at, weights in zip(out[layer], rules, (batch.weights, *batch.others)):
            h[batch.rows] = _pick(hidden, weights, at).float().cpu()
        return hidden

    def one(batch: Batch) -> None:
        current.batch = batch
        keep(top, _forward(model, batch))

    with ExitStack() as hooks, _threads(model.device) as pool:
        for k in layers:
            hooks.enter_context(_at_layer(model, k, None if k == top else partial(keep, k)))
        list(pool.map(one, batches(texts, model, *rules)))
    return out


def _sharded(texts: list[str], name: str, model: Model, layer: int, at: At, client: Client
             ) -> Tensor:
    """`_embed` on a cluster. Shards follow the order of batches, so workers form the same ones."""
    from dask.distributed import as_completed

    shards: list[list[int]] = [[]]
    out = torch.empty(len(texts), model.width)
    for batch in batches(texts, model, at):
        if shards[-1] and len(shards[-1]) + len(batch.rows) > SHARD:
            shards.append([])
        shards[-1] += batch.rows
    name = str(Path(name).resolve()) if Path(name).is_dir() else name
    futures = {}
    for rows in shards:
        words = at if isinstance(at, str) else (at[0], [at[1][r] for r in rows])
        part = [texts[r] for r in rows]
        futures[client.submit(_shard, part, name, layer, words, pure=False)] = rows
    for future in as_completed(list(futures)):
        out[futures.pop(future)] = torch.tensor(future.result())
        future.release()
    return out


def _shard(texts: list[str], name: str, layer: int, at: At) -> np.ndarray:
    return embed(texts, name, layer, at).numpy()


def _threads(device: torch.device) -> ThreadPoolExecutor:
    """One thread per CPU core, since products of this size are too small to share; one on a GPU."""
    if device.type != "cpu":
        return ThreadPoolExecutor(1)
    return ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads,
                              initargs=(1,))
