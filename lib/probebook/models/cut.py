"""A network cut in two: lower blocks, which read a text once and for all, and upper blocks, to be trained."""
from __future__ import annotations

import copy
import threading
from dataclasses import replace
from functools import lru_cache

import torch
from torch import nn

from probebook.models.embedding import Stop
from probebook.models.loading import Model


def cut(model: Model, layers: int) -> Model:
    """The model with its topmost `layers` blocks alone; what they read is computed once for each sequence of tokens.

    Same outputs as the model's, as long as nothing below the cut is trained; all that begin with one loaded model
    share what lies below. A copy of the network that can be trained: see `upper`."""
    below, net = _below(model, model.depth - layers), copy.deepcopy(model.net)
    upper, current = replace(model, net=net, below=below.fingerprint), threading.local()
    del upper.blocks[:-layers]

    def read(module, args, kwargs):
        current.h = below(kwargs["input_ids"], kwargs.get("attention_mask"))

    def put(module, args, kwargs):
        h = current.h.to(next(module.parameters()))
        return ((h, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": h})

    upper.base.register_forward_pre_hook(read, with_kwargs=True)
    upper.blocks[0].register_forward_pre_hook(put, with_kwargs=True)
    return upper


def upper(model: Model, net: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of `net` (the model's network or its base) that are trained: of a cut model those above the cut.

    Above is what the architecture names from the first remaining block on; its embeddings come before."""
    found = dict(net.named_parameters())
    if not model.below:
        return found
    first = next(model.blocks[0].parameters())
    start = next(i for i, parameter in enumerate(found.values()) if parameter is first)
    return dict(list(found.items())[start:])


class Below:
    """The states [t, d] that the first `blocks` blocks of a model give for sequences of token ids, kept in memory."""

    def __init__(self, model: Model, blocks: int):
        def stop(module, args, kwargs):
            raise Stop(args[0] if args else kwargs["hidden_states"])

        self.model = replace(model, net=copy.deepcopy(model.net).requires_grad_(False).eval())
        self.model.blocks[blocks].register_forward_pre_hook(stop, with_kwargs=True)
        self.fingerprint, self.known = f"{model.fingerprint} from block {blocks}", {}

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """States [b, t, d] of ids [b, t]; where the mask [b, t] is 0 they are 0."""
        sizes = [ids.shape[1]] * len(ids) if mask is None else mask.sum(1).tolist()
        keys = [tuple(row[:size]) for row, size in zip(ids.tolist(), sizes)]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        if new:
            for i, h in zip(new, self._read(ids[new], None if mask is None else mask[new])):
                self.known[keys[i]] = h[:sizes[i]].clone()
        return nn.utils.rnn.pad_sequence([self.known[key] for key in keys], batch_first=True)

    @torch.inference_mode(False)
    @torch.no_grad()
    def _read(self, ids, mask):
        try:
            self.model.base(input_ids=ids, attention_mask=mask)
        except Stop as stop:
            return stop.args[0]


@lru_cache(maxsize=2)
def _below(model, blocks):
    return Below(model, blocks)
