"""Hidden states of texts at one layer and position, cached; and the way back: an edited state fed on.

Only what is asked for is computed and kept: a hook stops the forward pass at the wanted layer, and the
wanted position is picked out on the device. Batches hold a budget of tokens and texts of (nearly) one length.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from probebook.base import UserError
from probebook.models.batches import At, batches, position_weights, stack
from probebook.models.cache import cached
from probebook.models.loading import Model, as_model

if TYPE_CHECKING:
    from dask.distributed import Client


SHARD = 4_096       # texts, at most, that a worker of a cluster embeds in one piece


class Stop(Exception):
    """Raised by the hook once the wanted layer is reached; carries its hidden states."""


def embed(texts: Sequence[str], model: str | Model, layer: int = -1, at: At = "[MASK]",
          cache: bool = True, client: Client | None = None) -> torch.Tensor:
    """Hidden states `h` of `texts` at one layer and position: float32 [n, d] on the CPU, in the order of `texts`.

    `layer`: 0 = embeddings, k = after block k, −1 = what the head reads (after a final norm, where there is one).
    `at`: "[MASK]" (of a decoder the token before it, from which the head predicts what stands there), "[CLS]" (the
    first token), "last" (the last one), "mean" or "max" (of each coordinate, over all real tokens), or a pair (rule,
    words) with rule "first", "last" or "mean" over the pieces of one word per text, e.g. ("last", subjects).
    `cache`: keep the result under the cache folder, keyed by weights, layer, rule, dtype and texts.
    `client`: of a Dask cluster, whose workers embed the texts in shards of whole batches, so that on the same kind of
    machine not a bit differs; each shard is kept in the worker's cache once it is done, and not computed again.
    Raises UserError for an empty list or text, a layer beyond the model, a position that a text lacks, a `client` with
    a model that has no name to load it by on the workers, or without a cache."""
    if client is not None and (isinstance(model, Model) or not cache):
        raise UserError("client: give the model by its name or folder, which workers load, and keep cache=True")
    name, model, texts = model, as_model(model), _words(texts)
    layer = model.layer(layer)
    if client is not None:
        return _sharded(texts, name, model, layer, at, client)
    if not cache:
        return _embed(texts, model, layer, at)
    return cached("embeddings", _key(texts, model, layer, at), lambda: {"h": _embed(texts, model, layer, at)})["h"]


def embed_layers(texts: Sequence[str], model: str | Model, layers: Sequence[int], at: At = "[MASK]",
                 ) -> dict[int, torch.Tensor]:
    """`embed` at several layers: layer (0 … depth) → h [n, d]. One forward pass serves all that are not in the cache.

    Each layer is kept by itself, where `embed` finds it."""
    model, texts = as_model(model), _words(texts)
    layers = sorted({model.layer(layer) for layer in layers})
    keys = {k: _key(texts, model, k, at) for k in layers}
    return _together(keys, lambda missing: {k: h for k, (h,) in _states(texts, model, missing, [at]).items()})


def _together(keys, make):
    """name → h from the cache, by name → key; of what is not there, `make` gives all from the first such name on."""
    names, made = [*keys], {}

    def one(name):
        if not made:
            made.update(make(names[names.index(name):]))
        return {"h": made.pop(name)}

    return {name: cached("embeddings", key, lambda: one(name))["h"] for name, key in keys.items()}


def _words(texts):
    texts = list(texts)
    if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
        raise UserError("nothing to embed: every text must be a string with at least one word")
    return texts


def _key(texts, model, layer, at):
    return [model.fingerprint, layer, at, str(next(model.net.parameters()).dtype), texts]


def carry(texts: Sequence[str], model: str | Model, layer: int, at: At,
          edit: Callable[[torch.Tensor], torch.Tensor] | torch.Tensor | None, read: At = "[MASK]") -> torch.Tensor:
    """Last-layer states at `read` after the states at (`layer`, `at`) were replaced: float32 [n, d].

    `edit` maps the states [n, d] of all texts to new ones, or is the new states [n, d] itself, or None
    (no change). The rest of the network runs on the edited states. `at` must name one token a text.
    New states [m, n, d] are m edits, each as if alone: then [m, n, d], and the blocks below run once for all."""
    model, texts = as_model(model), list(texts)
    layer = model.layer(layer)
    if callable(edit):
        edit = edit(embed(texts, model, layer, at))
    edit = edit if edit is None else torch.as_tensor(edit)
    reads = None if read == at else position_weights(texts, model, read)
    groups, current = batches(texts, model, at), threading.local()
    if edit is not None and any((b.weights.sum(1) != 1).any() | (b.weights.max(1).values != 1).any() for b in groups):
        raise UserError(f"at={at!r} spans several tokens: patch one token, e.g. '[MASK]' or ('last', words)")
    if edit is not None and layer == model.depth and reads is None:          # nothing comes after it
        return edit.to(next(model.net.parameters()).dtype).float().cpu()
    edits = edit if edit is None or edit.ndim == 3 else edit[None]
    m = 1 if edit is None else len(edits)
    out = torch.empty(m, len(texts), model.width)

    def put(hidden):
        where = current.batch.weights.argmax(1)
        hidden = hidden.repeat(m, 1, 1, 1)
        hidden[:, torch.arange(len(where)), where] = edits[:, current.batch.rows].to(hidden)
        return hidden.flatten(0, 1)

    def one(batch):
        current.batch = batch
        hidden = _forward(model, batch)
        if edit is not None and layer == model.depth:
            hidden = put(hidden)
        weights = batch.weights if reads is None else stack([reads[r] for r in batch.rows], hidden.shape[1])
        picked = _pick(hidden, weights.repeat(m, 1), read).float().cpu()
        out[:, batch.rows] = picked.view(m, len(batch.rows), -1)

    with _at_layer(model, model.depth if edit is None else layer, put), _threads(model.device) as pool:
        list(pool.map(one, groups))
    return out[0] if edit is None or edit.ndim == 2 else out


def patch(texts: Sequence[str], model: str | Model, layer: int, at: At,
          edit: Callable[[torch.Tensor], torch.Tensor] | torch.Tensor | None, read: At = "[MASK]") -> torch.Tensor:
    """Token logits at `read` after the states at (`layer`, `at`) were replaced, as `carry` does: [n, vocabulary]."""
    return head_logits(carry(texts, model, layer, at, edit, read), model)


def head_logits(h: torch.Tensor, model: str | Model) -> torch.Tensor:
    """The language-model head on last-layer states: [n, d] → float32 [n, vocabulary] on the CPU."""
    model = as_model(model)
    p = next(model.head.parameters())
    with torch.inference_mode():
        return model.head(torch.as_tensor(h).to(p)).float().cpu()


def word_logits(texts: Sequence[str], model: str | Model, words: Sequence[Sequence[str]],
                h: torch.Tensor | None = None) -> torch.Tensor:
    """Logits at [MASK] of candidate words, one row of candidates a text: float32 [n, m].

    `h` replaces the last-layer states (edited ones, say). Every word must be one token of the model."""
    model = as_model(model)
    h = embed(texts, model, -1, "[MASK]") if h is None else torch.as_tensor(h)
    flat = {w for row in words for w in row}
    ids = {w: model.tokenizer.encode(_spaced(w, model), add_special_tokens=False) for w in flat}
    long = sorted(w for w, i in ids.items() if len(i) != 1 or i[0] == model.tokenizer.unk_token_id)
    if long:
        raise UserError(f"not a single token of {model.name}: {', '.join(long[:5])}; choose words that are")
    columns = torch.tensor([[ids[w][0] for w in row] for row in words])
    parts = [head_logits(h[i:i + 4096], model).gather(1, columns[i:i + 4096]) for i in range(0, len(h), 4096)]
    return torch.cat(parts)


def _spaced(word: str, model: Model) -> str:
    """Byte-level vocabularies hold a word with the space before it."""
    return f" {word}" if len(model.tokenizer.tokenize("a b")) == 2 and "Ġb" in model.tokenizer.tokenize("a b") else word


def embed_poolings(texts: Sequence[str], model: str | Model, layer: int = -1,
                   rules: Sequence[str] = ("mean", "[CLS]", "max", "last")) -> dict[str, torch.Tensor]:
    """`embed` at several positions of a layer: rule → h [n, d]. One forward pass serves all that are not in the cache.

    Each rule's states are kept by themselves, where `embed` finds them, and are the same to the bit. Raises UserError
    as `embed` does."""
    model, texts = as_model(model), _words(texts)
    layer = model.layer(layer)
    keys = {at: _key(texts, model, layer, at) for at in rules}
    return _together(keys, lambda missing: dict(zip(missing, _states(texts, model, [layer], missing)[layer])))


# --- forward -----------------------------------------------------------------------------------------------

@contextmanager
def _at_layer(model, layer, put=None):
    """While it holds, a forward pass stops at `layer` with a Stop, or goes on with the states changed by `put`.

    `put` may give m states [m · b, t, d] for b texts: what else the blocks read of each text is repeated m times."""
    rows = threading.local()

    def hook(module, args, kwargs):
        hidden, *others = args or [kwargs["hidden_states"]]
        if put is None:
            raise Stop(hidden)
        if module is model.blocks[layer]:
            rows.before, hidden = len(hidden), put(hidden)
        others, named = ([_repeated(x, rows.before, len(hidden)) for x in part] for part in (others, kwargs.values()))
        named = dict(zip(kwargs, named))
        return ((hidden, *others), named) if args else (args, named | {"hidden_states": hidden})

    if layer == model.depth:
        yield
        return
    handles = [block.register_forward_pre_hook(hook, with_kwargs=True) for block in model.blocks[layer:]]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _repeated(x, before, after):
    """Tensors of `before` rows, or tuples of such, repeated to `after` rows; anything else as it is."""
    if isinstance(x, tuple):
        return tuple(_repeated(part, before, after) for part in x)
    several = isinstance(x, torch.Tensor) and x.ndim > 1 and len(x) == before != after
    return x.repeat(after // before, *[1] * (x.ndim - 1)) if several else x


@torch.inference_mode()
def _forward(model, batch):
    """Last hidden states [b, t, d], or those of the layer at which the pass is stopped."""
    try:
        ids, mask = batch.ids.to(model.device), batch.mask.to(model.device)
        mask = None if mask.all() else mask                                   # no padding: attention is quicker
        return model.base(input_ids=ids, attention_mask=mask).last_hidden_state
    except Stop as stop:
        return stop.args[0]


def _pick(hidden, weights, at):
    if at == "max":
        return hidden.masked_fill(weights.to(hidden)[:, :, None] == 0, -torch.inf).amax(1)
    return (weights.to(hidden).unsqueeze(1) @ hidden).squeeze(1)


def _embed(texts, model, layer, at):
    return _states(texts, model, [layer], [at])[layer][0]


def _states(texts, model, layers, rules):
    """layer → states by each of the rules, from one pass that stops at the highest layer."""
    out = {k: [torch.empty(len(texts), model.width) for _ in rules] for k in layers}
    current, top = threading.local(), max(layers)

    def keep(layer, hidden):
        batch = current.batch
        for h, at, weights in zip(out[layer], rules, (batch.weights, *batch.others)):
            h[batch.rows] = _pick(hidden, weights, at).float().cpu()
        return hidden

    def one(batch):
        current.batch = batch
        keep(top, _forward(model, batch))

    with ExitStack() as hooks, _threads(model.device) as pool:
        for k in layers:
            hooks.enter_context(_at_layer(model, k, None if k == top else partial(keep, k)))
        list(pool.map(one, batches(texts, model, *rules)))
    return out


def _sharded(texts, name, model, layer, at, client):
    """As `_embed`. A shard's texts stand in the order of their batches, so the worker forms the same batches."""
    from dask.distributed import as_completed

    shards, out = [[]], torch.empty(len(texts), model.width)
    for batch in batches(texts, model, at):
        if shards[-1] and len(shards[-1]) + len(batch.rows) > SHARD:
            shards.append([])
        shards[-1] += batch.rows
    name = str(Path(name).resolve()) if Path(name).is_dir() else name
    futures = {}
    for rows in shards:
        words = at if isinstance(at, str) else (at[0], [at[1][r] for r in rows])
        futures[client.submit(_shard, [texts[r] for r in rows], name, layer, words, pure=False)] = rows
    for future in as_completed(list(futures)):
        out[futures.pop(future)] = torch.tensor(future.result())
        future.release()
    return out


def _shard(texts, name, layer, at):
    return embed(texts, name, layer, at).numpy()


def _threads(device):
    """On a CPU each core runs batches of its own: products of this size are too small to share. On a GPU one thread."""
    cpu = device.type == "cpu"
    return ThreadPoolExecutor(torch.get_num_threads() if cpu else 1, initializer=torch.set_num_threads if cpu else None,
                              initargs=(1,) if cpu else ())
