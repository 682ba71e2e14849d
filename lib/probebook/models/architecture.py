"""Hide what differs between architectures, by transformers' interfaces: a model's blocks, what
writes into the residual stream in them, and what follows them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


def auto_class(kind: str, config: PreTrainedConfig) -> Any:
    """Choose the class by which transformers loads a checkpoint of this kind."""
    import transformers as hf

    if kind == "causal" and config.architectures[0].endswith("ForConditionalGeneration"):
        return hf.AutoModelForMultimodalLM  # with a tower for pictures or sound
    if config.model_type == "xlnet" and kind == "masked":
        return hf.AutoModelForCausalLM  # where transformers lists it
    return {
        "masked": hf.AutoModelForMaskedLM,
        "causal": hf.AutoModelForCausalLM,
        "seq2seq": hf.AutoModelForSeq2SeqLM,
        "encoder": hf.AutoModel,
    }[kind]


def body(net: PreTrainedModel, kind: str) -> PreTrainedModel:
    """The network whose last hidden states the head reads (of an encoder–decoder: the decoder; of a
    model with a tower for pictures: what reads its texts)."""
    towers = net.config.get_text_config() is not net.config
    return net.get_decoder() if towers or kind in ("causal", "seq2seq") else net.base_model


def reads_text(base: nn.Module) -> bool:
    """Whether a text alone passes through every block of a base network, each of which counts."""
    calls: list[nn.Module] = []
    blocks = blocks_in_order(base)
    handles = [
        block.register_forward_pre_hook(lambda module, args: calls.append(module))
        for block in dict.fromkeys(blocks)
    ]
    try:
        with torch.inference_mode():
            states = base(input_ids=_three_tokens(base)).last_hidden_state
    except (TypeError, ValueError, AttributeError, RuntimeError):  # it waits for pictures
        return False
    finally:
        for handle in handles:
            handle.remove()
    return calls == [*blocks] and states.ndim == 3


def block_list(base: nn.Module) -> nn.ModuleList:
    """The transformer blocks: the longest list of modules that lies in no other list."""
    lists = {name: m for name, m in base.named_modules() if isinstance(m, nn.ModuleList)}
    outer = [
        m for name, m in lists.items() if not any(name.startswith(f"{other}.") for other in lists)
    ]
    return max(outer, key=len)


def blocks_in_order(base: nn.Module) -> Sequence[nn.Module]:
    """List the blocks as a pass calls them; ALBERT calls the few that it has several times."""
    blocks = block_list(base)
    config = getattr(base, "config", None)
    calls = (
        getattr(config, "num_hidden_layers", None) if hasattr(config, "num_hidden_groups") else None
    )
    if not calls:
        return [*blocks]
    return [blocks[i * len(blocks) // calls] for i in range(calls)]


def writer(block: nn.Module, component: str) -> nn.Module | None:
    """The layer by which a block's "attention", "cross-attention" or "mlp" writes into the residual
    stream. None: there is no such layer.

    This is the last matrix of the block's first module with a name of attention, of its second one
    (of a decoder that reads an encoder), or of all other modules. Of several experts none is it."""
    parts: dict[str, list[str]] = {}
    for path, module in block.named_modules():
        weight = getattr(module, "weight", None)
        if weight is not None and weight.ndim == 2 and not isinstance(module, nn.Embedding):
            attention = re.match(r"(.*?\.)??[^.]*(attention|attn)[^.]*", path, re.IGNORECASE)
            parts.setdefault(attention[0] if attention else "", []).append(path)
    mlp = parts.pop("", [])
    attentions = [*parts.values(), [], []]
    paths = {"attention": attentions[0], "cross-attention": attentions[1], "mlp": mlp}.get(
        component
    )
    if not paths or any("expert" in path for path in paths):
        return None
    return block.get_submodule(paths[-1])


class _Output:
    """A base network's output with nothing but its last states."""

    def __init__(self, h: Tensor):
        self.last_hidden_state = h

    def __getitem__(self, place: int | slice) -> object:
        return (self.last_hidden_state,)[place]

    def __getattr__(self, name: str) -> None:
        return None


class _Given(nn.Module):
    """In place of the base network: the given states are its output; all else is the base's."""

    def __init__(self, base: nn.Module, h: Tensor):
        super().__init__()
        self.__dict__ |= {"base": base, "h": h}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def forward(self, *args: object, **named: object) -> _Output:
        return _Output(self.h)


class _Rows(nn.Module):
    """In place of a head's last matrix: those of its rows that score some tokens."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, last: nn.Linear, ids: Tensor):
        super().__init__()
        bias = None if last.bias is None else last.bias[ids]
        self.__dict__ |= {"weight": last.weight[ids], "bias": bias}

    def forward(self, h: Tensor) -> Tensor:
        return nn.functional.linear(h, self.weight, self.bias)


def tail(
    net: PreTrainedModel, base: nn.Module, ids: Tensor | None = None
) -> Callable[[Tensor], Tensor]:
    """Cut off a network's head: from last hidden states [n, d] to logits [n, v], or to those of
    some tokens, which alone are computed where nothing follows the head's last matrix.

    The network runs with the states in place of `base`. The function shares its weights, and is
    differentiable in them and in the states."""
    if ids is not None:
        last = net.get_output_embeddings()
        if not isinstance(last, nn.Linear) or hasattr(net, "final_logits_bias"):
            whole = tail(net, base)
            return lambda h: whole(h)[:, ids]
        net = _replace(net, _path(net, last), _Rows(last, ids))
    path = _path(net, base)

    def logits(h: Tensor) -> Tensor:
        short = _replace(net, path, _Given(base, h[None]))
        ids = torch.zeros(1, len(h), dtype=torch.long, device=h.device)  # which nobody reads
        if net.config.is_encoder_decoder:
            return short(encoder_outputs=(h[None],), decoder_input_ids=ids).logits[0]
        return short(input_ids=ids).logits[0]

    return logits


def _path(net: nn.Module, part: nn.Module) -> list[str]:
    return next(name for name, module in net.named_modules() if module is part).split(".")


def _replace(module: nn.Module, path: list[str], new: nn.Module) -> nn.Module:
    """The module with another one at a path below it; all else is shared."""
    inner = new if len(path) == 1 else _replace(getattr(module, path[0]), path[1:], new)
    shallow = copy.copy(module)
    shallow._modules = module._modules | {path[0]: inner}
    return shallow


class _Read(Exception):
    """Carries what a module was given."""


def input_of(module: nn.Module, run: Callable[[], object]) -> Tensor:
    """Return what `module` is given when `run` is called, which then ends there."""

    def stop(_: nn.Module, args: tuple) -> None:
        raise _Read(args[0])

    handle = module.register_forward_pre_hook(stop)
    try:
        run()
    except _Read as read:
        return read.args[0]
    finally:
        handle.remove()
    raise RuntimeError("the head does not end with its output embeddings")


def after_blocks(base: nn.Module, last: nn.Module) -> nn.Module | None:
    """Find what a base network makes of its last block's states: its final norm, or an identity
    where each block ends with a norm of its own. None: neither, nor any other single module."""
    called: list[nn.Module] = []
    ends: list[Tensor] = []

    def end(module: nn.Module, args: tuple, out: Tensor | tuple) -> None:
        called.clear()  # ALBERT's one block ends several times
        ends.append(out[0] if isinstance(out, tuple) else out)

    leaves = [module for module in base.modules() if not [*module.children()]]
    handles = [
        leaf.register_forward_pre_hook(lambda module, args: called.append(module))
        for leaf in leaves
    ]
    handles.append(last.register_forward_hook(end))
    try:
        with torch.inference_mode():
            states = base(input_ids=_three_tokens(base)).last_hidden_state.flatten(0, 1)
            for module in [nn.Identity(), *called]:
                made = module(ends[-1].flatten(0, 1))
                if made.shape == states.shape and torch.allclose(made, states, atol=1e-4):
                    return module
    finally:
        for handle in handles:
            handle.remove()
    return None


def time_first(base: nn.Module, blocks: Sequence[nn.Module]) -> bool:
    """Whether the blocks pass states on as [t, b, d], as XLNet's do."""
    ids = _three_tokens(base)
    with torch.inference_mode():
        return input_of(blocks[0], lambda: base(input_ids=ids)).shape[0] == 3


def _three_tokens(base: nn.Module) -> Tensor:
    """A text on which a base network is tried, where its weights are."""
    return torch.zeros(1, 3, dtype=torch.long, device=next(base.parameters()).device)
