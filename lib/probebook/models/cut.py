"""A network cut in two: lower blocks, which read each text once, and upper blocks to be trained."""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from probebook.models.architecture import block_list
from probebook.models.loading import Model
from probebook.models.passes import Stop


def cut(model: Model, layers: int) -> Model:
    """The model's topmost `layers` blocks, whose inputs are computed once per token sequence.

    The network is a copy that can be trained (`upper_parameters`). Its outputs equal the model's
    as long as nothing below the cut is trained. All cuts of one loaded model at one place share
    the states below it. ALBERT, whose blocks are one module, and XLNet, whose states stand as
    [t, b, d], are not cut: all their blocks are trained."""
    if len({*model.blocks}) < model.depth or model.time_first:
        return replace(model, net=copy.deepcopy(model.net))
    below, net = _below(model, model.depth - layers), copy.deepcopy(model.net)
    upper, current = replace(model, net=net, below=below.fingerprint), threading.local()
    del block_list(upper.base)[:-layers]

    def read(module: nn.Module, args: tuple, kwargs: dict) -> None:
        current.h = below(kwargs["input_ids"], kwargs.get("attention_mask"))

    def put(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        h = current.h.to(next(module.parameters()))
        return ((h, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": h})

    upper.base.register_forward_pre_hook(read, with_kwargs=True)
    upper.blocks[0].register_forward_pre_hook(put, with_kwargs=True)
    return upper


def upper_parameters(model: Model, net: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters to train of `net` (the model's network or its base): those above the cut.

    These are the parameters from the first remaining block on, in the order of the architecture;
    its embeddings come before. If the model is not cut, these are all parameters."""
    parameters = dict(net.named_parameters())
    if not model.below:
        return parameters
    first = next(model.blocks[0].parameters())
    start = next(i for i, parameter in enumerate(parameters.values()) if parameter is first)
    return dict(list(parameters.items())[start:])


class Below:
    """The states [t, d] after the first `blocks` blocks of a model, kept in memory by token ids."""

    def __init__(self, model: Model, blocks: int):
        def stop(module: nn.Module, args: tuple, kwargs: dict) -> None:
            raise Stop(args[0] if args else kwargs["hidden_states"])

        self.model = replace(model, net=copy.deepcopy(model.net).requires_grad_(False).eval())
        self.model.blocks[blocks].register_forward_pre_hook(stop, with_kwargs=True)
        self.fingerprint = f"{model.fingerprint} from block {blocks}"
        self.known: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """States [b, t, d] of ids [b, t]; they are 0 where the mask [b, t] is 0."""
        sizes = [ids.shape[1]] * len(ids) if mask is None else mask.sum(1).tolist()
        keys = [tuple(row[:size]) for row, size in zip(ids.tolist(), sizes)]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        if new:
            for i, h in zip(new, self._read(ids[new], None if mask is None else mask[new])):
                self.known[keys[i]] = h[: sizes[i]].clone()
        return nn.utils.rnn.pad_sequence([self.known[key] for key in keys], batch_first=True)

    @torch.inference_mode(False)
    @torch.no_grad()
    def _read(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        try:
            self.model.base(input_ids=ids, attention_mask=mask)
        except Stop as stop:
            return stop.args[0]
        raise RuntimeError("the pass was not stopped: the base network does not run its blocks")


@lru_cache(maxsize=2)
def _below(model: Model, blocks: int) -> Below:
    return Below(model, blocks)
