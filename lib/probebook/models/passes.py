"""A forward pass that stops at a layer, or goes on from there with other states."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from probebook.base import UserError
from probebook.devices import attention, send
from probebook.models.architecture import writer
from probebook.models.batches import Batch, PositionRule
from probebook.models.loading import Model

if TYPE_CHECKING:
    from transformers.utils import ModelOutput

Component = Literal["residual", "attention", "cross-attention", "mlp"]

BLOCK = 1 << 28  # bytes of states that a GPU keeps before they are copied back


class Stop(Exception):
    """Raised by a hook when the wanted layer is reached; its argument is the hidden states."""


def part_for(model: Model, at: PositionRule) -> Model:
    """Return the part of a model that a position rule reads."""
    return model if at == "[MASK]" else model.encoder


@contextmanager
def at_layer(
    model: Model,
    layer: int,
    put: Callable[[Tensor], Tensor] | None = None,
    component: Component = "residual",
    times: int = 1,
) -> Iterator[None]:
    """Stop forward passes at a layer, or let them go on with other states.

    Inside, a pass raises Stop at the layer or, given `put`, goes on with its result.

    Args:
        layer: 0 (embeddings) … depth.
        put: Maps the layer's states (of a `component` as in `embed`) to other ones.
        times: `put` gets m copies of the states [m · b, t, d] of b texts; the blocks' other inputs
            are then repeated m times."""
    now = threading.local()  # which block a thread's pass is in; the shape of its states
    residual = component == "residual"
    edited = layer if residual else layer - 1  # the block concerned
    matrix = None if residual or edited < 0 else writer(model.blocks[edited], component)
    missing = UserError(
        f"layer {layer} of {model.name}: there is no {component} output; "
        "take 'residual', or a layer from 1 on with 'attention' or 'mlp'"
    )
    if matrix is None and not residual:
        raise missing
    turned = edited < model.depth and model.time_first

    def through(hidden: Tensor) -> Tensor:
        hidden = hidden.transpose(0, 1) if turned else hidden
        if put is None:
            raise Stop(hidden)
        return put(hidden).transpose(0, 1) if turned else put(hidden)

    def begin(module: nn.Module, args: tuple) -> None:
        now.block, now.written = -1, False

    def enter(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        now.block += 1  # counted, since ALBERT's blocks are one module
        if now.block < edited:
            return None
        hidden, *others = args or [kwargs["hidden_states"]]
        if now.block == edited:
            now.before = len(hidden)
            hidden = hidden.repeat(times, 1, 1) if times > 1 else hidden
            hidden = through(hidden) if residual else hidden
            now.shape = hidden.shape
        others = [_repeat(x, now.before, len(hidden)) for x in others]
        named = {name: _repeat(x, now.before, len(hidden)) for name, x in kwargs.items()}
        return ((hidden, *others), named) if args else (args, named | {"hidden_states": hidden})

    def write(module: nn.Module, args: tuple, out: Tensor) -> Tensor | None:
        if now.block != edited:
            return None
        if out.numel() != now.shape.numel():
            raise missing
        now.written = True
        return through(out.reshape(now.shape)).reshape(out.shape)  # OPT's is [b · t, d]

    def end(module: nn.Module, args: tuple, out: ModelOutput) -> ModelOutput:
        if matrix is not None and not now.written:  # the block does without calling it
            raise missing
        if edited == model.depth:
            out.last_hidden_state = through(out.last_hidden_state.repeat(times, 1, 1))
        return out

    handles = [model.base.register_forward_pre_hook(begin)]
    if edited < model.depth:
        handles += [
            block.register_forward_pre_hook(enter, with_kwargs=True)
            for block in dict.fromkeys(model.blocks)
        ]
    if matrix is not None:
        handles += [matrix.register_forward_hook(write)]
    if matrix is not None or edited == model.depth and put is not None:
        handles += [model.base.register_forward_hook(end)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _repeat(x: object, before: int, after: int) -> object:
    """Tensors of `before` rows, or tuples of such, repeated to `after` rows; others unchanged, and
    so are tables [·, d] of floats (DeBERTa's relative positions), which have no rows."""
    if isinstance(x, tuple):
        return tuple(_repeat(part, before, after) for part in x)
    if isinstance(x, torch.Tensor) and x.ndim > 1 and len(x) == before != after:
        if x.ndim > 2 or not x.is_floating_point():
            return x.repeat(after // before, *[1] * (x.ndim - 1))
    return x


@torch.inference_mode()
def forward(model: Model, batch: Batch) -> Tensor:
    """Last hidden states [b, t, d], or those of the layer at which the pass stops, without a graph
    for gradients."""
    with attention(model.device):
        return run(model, batch)


def run(model: Model, batch: Batch) -> Tensor:
    """`forward`, with the graph of what `at_layer` puts in."""
    try:
        # without padding attention is faster
        padded = None if batch.mask.all() else send(batch.mask, model.device)
        ids = send(batch.ids, model.device)
        hidden = model.encoder.base(input_ids=ids, attention_mask=padded).last_hidden_state
        if batch.decoder_ids is None:
            return hidden
        times = len(hidden) // len(ids)  # edits in it
        ids = send(batch.decoder_ids, model.device)
        return model.base(
            input_ids=ids.repeat(times, 1),
            encoder_hidden_states=hidden,
            encoder_attention_mask=padded if padded is None else padded.repeat(times, 1),
        ).last_hidden_state
    except Stop as stop:
        return stop.args[0]


def pick(hidden: Tensor, weights: Tensor, at: PositionRule) -> Tensor:
    """States [b, d] from [b, t, d] by the position weights [b, t], in float32 or finer."""
    hidden = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    weights = send(weights, hidden.device).to(hidden)
    if at == "max":
        return hidden.masked_fill(weights[:, :, None] == 0, -torch.inf).amax(1)
    return (weights.unsqueeze(1) @ hidden).squeeze(1)


class Collected:
    """States [n, d] (or [m, n, d]) on the CPU, gathered from the batches of a pass.

    Those of a GPU are kept there until they fill a block, since every copy back waits for all that
    the GPU has been given."""

    def __init__(self, *shape: int):
        self.states, self.bytes = torch.empty(*shape), 0
        self.waiting: list[tuple[list[int], Tensor]] = []

    def add(self, rows: list[int], h: Tensor) -> None:
        """Take the states of some rows."""
        if h.device.type == "cpu":
            self.states[..., rows, :] = h.float()
            return
        self.waiting.append((rows, h.float()))
        self.bytes += self.waiting[-1][1].nbytes
        if self.bytes > BLOCK:
            self.complete()

    def complete(self) -> Tensor:
        """All states, once those that wait are copied."""
        if self.waiting:
            rows = [row for some, _ in self.waiting for row in some]
            self.states[..., rows, :] = torch.cat([h for _, h in self.waiting], -2).cpu()
            self.waiting, self.bytes = [], 0
        return self.states


def threads(device: torch.device) -> ThreadPoolExecutor:
    """One thread per CPU core, since products of this size are too small to share; one on a GPU."""
    if device.type != "cpu":
        return ThreadPoolExecutor(1)
    return ThreadPoolExecutor(
        torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)
    )
