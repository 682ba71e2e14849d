"""Load a Hugging Face encoder or decoder, or one of the book's pocket models, by name or folder."""
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from probebook import hub
from probebook.base import UserError
from probebook.hub import POCKET as POCKET
from probebook.models.cache import digest_in_order

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

NO_CODE = {"trust_remote_code": False}                    # never run code from a model's author,
NO_PICKLE = NO_CODE | {"use_safetensors": True}           # nor code hidden in a pickle


@dataclass(frozen=True, eq=False)
class Model:
    """A network, its tokenizer and what the library must know of its architecture.

    - `kind`: "masked", "causal", "seq2seq", or "encoder" (without a language-model head).
    - `source`: the folder or hub name from which it was read.
    - `below`: the fingerprint of the blocks that `cut` removed, if any.
    """

    name: str
    net: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    kind: str
    source: str = ""
    below: str = ""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.net.parameters()).device

    @property
    def depth(self) -> int:
        """Number of blocks; layers run from 0 (embeddings) to `depth` (what the head reads)."""
        return len(self.blocks)

    @property
    def width(self) -> int:
        """Number of dimensions of a hidden state."""
        return self.net.config.hidden_size

    @cached_property
    def base(self) -> PreTrainedModel:
        """The network without its head (for an encoder–decoder: the encoder)."""
        return self.net.get_encoder() if self.kind == "seq2seq" else self.net.base_model

    @cached_property
    def blocks(self) -> nn.ModuleList:
        """The transformer blocks: the longest module list of the base network."""
        lists = [m for m in self.base.modules() if isinstance(m, nn.ModuleList)]
        return max(lists, key=len)

    @property
    def head(self) -> nn.Module:
        """The module from hidden states [n, d] to token logits [n, vocabulary].

        Raises UserError if the model has none."""
        n = self.net
        if self.kind != "encoder":
            for name in ("cls", "lm_head"):
                if hasattr(n, name):
                    return getattr(n, name)
            if hasattr(n, "decoder"):                      # ModernBERT has the head in two parts,
                return nn.Sequential(n.head, n.decoder)
        if hasattr(n, "vocab_projector"):                  # DistilBERT in four
            return nn.Sequential(n.vocab_transform, n.activation, n.vocab_layer_norm,
                                 n.vocab_projector)
        raise UserError(f"{self.name} has no language-model head: use a masked or causal language "
                        "model")

    @cached_property
    def pooler(self) -> Callable[[Tensor], Tensor]:
        """From the first token's last states [n, d] to the input of a sentence classifier.

        This is the checkpoint's own pooler (BERT's: dense, tanh) or, if it has none, the first
        part of the masked head (dense, activation, norm). UserError: there is neither."""
        base = self.base
        missing: set[str] = set()
        if self.kind == "masked" and self.source:        # its class omits the checkpoint's pooler
            base, missing = _base(self.source, hub.is_local(self.source))
        pooler = getattr(base, "pooler", None)
        if pooler is not None and not any("pooler" in key for key in missing):
            pooler.eval().requires_grad_(False).to(next(self.net.parameters()))
            return lambda h: pooler(h[:, None])
        head = self.head if self.kind == "masked" else None
        if isinstance(head, nn.Sequential):
            return head[:-1]
        predictions = getattr(head, "predictions", None)
        if predictions is not None:
            return predictions.transform
        raise UserError(f"{self.name} has no pooler: give another pooling")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights; two models with the same name and other weights differ."""
        return digest_in_order(sorted(self.net.state_dict().items()), self.below)

    def layer(self, layer: int) -> int:
        """`layer` counted from 0. UserError: the model has no such layer."""
        if not -self.depth - 1 <= layer <= self.depth:
            raise UserError(f"layer {layer}: {self.name} has layers 0 … {self.depth} "
                            f"(or −1 … −{self.depth + 1})")
        return layer % (self.depth + 1)


@lru_cache(maxsize=4)
def load(name: str, device: str | None = None, dtype: torch.dtype | None = None) -> Model:
    """A model by pocket name (`pocket-english`), folder, or Hugging Face name.

    `device`: by default a GPU if there is one. `dtype`: by default float32 on a CPU, bfloat16 on a
    GPU. Code that comes with a model is never run, and pickled weights (`pytorch_model.bin`) are
    never read. Raises UserError if no model of that name can be loaded."""
    here = {"local_files_only": hub.is_local(name)}            # then no request goes to the hub
    import transformers as hf

    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"         # do not ask it to convert pickles
    hf.logging.disable_progress_bar()
    source = hub.source(name)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
    try:
        config = hf.AutoConfig.from_pretrained(source, **here, **NO_CODE)
        kind = _kind(config)
        auto = {"masked": hf.AutoModelForMaskedLM, "causal": hf.AutoModelForCausalLM,
                "seq2seq": hf.AutoModelForSeq2SeqLM, "encoder": hf.AutoModel}[kind]
        net, info = auto.from_pretrained(source, dtype=dtype, output_loading_info=True, **here,
                                         **NO_PICKLE)
        tokenizer = hf.AutoTokenizer.from_pretrained(source, **here, **NO_CODE)
    except SafetensorError as e:
        raise UserError(f"{name}: its safetensors file is damaged or incomplete ({e})") from e
    except (OSError, ValueError) as e:
        raise _loading_error(name, str(e)) from e
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        # without the tokenizer's files transformers makes one of special tokens alone
        raise UserError(f"{name} has no vocabulary: save its tokenizer into the same folder "
                        "(save_pretrained)")
    missing = [k for k in info["missing_keys"] if "pooler" not in k]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(f"{name}: the checkpoint lacks weights for {missing[0]}{more}; they would "
                        "be random")
    if any("pooler" in key for key in info["missing_keys"]):
        net.base_model.pooler = None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    return Model(name, net.eval().requires_grad_(False).to(device), tokenizer, kind, source)


def _loading_error(name: str, error: str) -> UserError:
    """One line for the error of transformers when it cannot load a model."""
    if "trust_remote_code" in error:
        return UserError(f"{name} brings code of its own, which is never run: give a model of an "
                         "architecture in transformers")
    if "model.safetensors" in error:
        return UserError(f"{name} has no model.safetensors, and pickled weights (.bin) are never "
                         "read, since a pickle can run code: convert them to safetensors")
    return hub.unknown(name)


def _base(source: str, here: bool) -> tuple[PreTrainedModel, set[str]]:
    """The base network of a checkpoint, and the names of the weights that the checkpoint lacks.

    Transformers' warnings about weights that the base network does not use are silenced."""
    import transformers as hf

    level = hf.logging.get_verbosity()
    hf.logging.set_verbosity_error()
    try:
        net, info = hf.AutoModel.from_pretrained(source, output_loading_info=True,
                                                 local_files_only=here, **NO_PICKLE)
    finally:
        hf.logging.set_verbosity(level)
    return net, info["missing_keys"]


def _kind(config: PretrainedConfig) -> str:
    architecture = (config.architectures or [""])[0]
    if config.is_encoder_decoder:
        return "seq2seq"
    if "MaskedLM" in architecture or "PreTraining" in architecture:
        return "masked"
    causal = "CausalLM" in architecture or "LMHead" in architecture
    return "causal" if causal else "encoder"


@lru_cache
def depth(name: str) -> int:
    """Number of blocks of a model, read from its configuration alone (no weights are loaded)."""
    import transformers as hf

    try:
        here = hub.is_local(name)
        config = hf.AutoConfig.from_pretrained(hub.source(name), local_files_only=here, **NO_CODE)
    except (OSError, ValueError):
        return load(name).depth                           # raises the one-line error
    return getattr(config, "num_hidden_layers", None) or load(name).depth


def as_model(model: str | Model) -> Model:
    """The model itself or, given its name, the loaded model."""
    return model if isinstance(model, Model) else load(model)


def mixed_precision(device: torch.device) -> torch.autocast:
    """A context in which a GPU multiplies in bfloat16, and a CPU in float32.

    On a CPU, bfloat16 would make results depend on the processor, and one without units for it
    takes twenty times as long."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu")
