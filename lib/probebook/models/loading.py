"""Load any Hugging Face encoder or decoder, or one of the project's pocket models, by name or folder."""
from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from safetensors import SafetensorError

from probebook import hub
from probebook.base import UserError
from probebook.hub import POCKET as POCKET

NO_CODE = {"trust_remote_code": False}                    # neither that of a model's author
NO_PICKLE = NO_CODE | {"use_safetensors": True}           # nor what a pickle may hold


@dataclass(frozen=True, eq=False)
class Model:
    """A network, its tokenizer and what the library must know of its architecture."""

    name: str
    net: torch.nn.Module
    tokenizer: object
    kind: str                        # "masked", "causal", "seq2seq", or "encoder" (no language-model head)
    source: str = ""                 # the folder or hub name that it was read from
    below: str = ""                  # where blocks are cut off (`cut`): which ones

    @property
    def device(self) -> torch.device:
        return next(self.net.parameters()).device

    @property
    def depth(self) -> int:
        """Number of blocks; layers run from 0 (embeddings) to `depth` (what the head reads)."""
        return len(self.blocks)

    @property
    def width(self) -> int:
        return self.net.config.hidden_size

    @cached_property
    def base(self) -> torch.nn.Module:
        """The network without its head (for an encoder–decoder: the encoder)."""
        return self.net.get_encoder() if self.kind == "seq2seq" else self.net.base_model

    @cached_property
    def blocks(self) -> torch.nn.ModuleList:
        """The list of transformer blocks: the longest module list of the base network."""
        lists = [m for m in self.base.modules() if isinstance(m, torch.nn.ModuleList)]
        return max(lists, key=len)

    @property
    def head(self) -> torch.nn.Module:
        """The module from hidden states [n, d] to token logits [n, vocabulary]."""
        for name in ("cls", "lm_head"):
            if self.kind != "encoder" and hasattr(self.net, name):
                return getattr(self.net, name)
        n = self.net
        if self.kind != "encoder" and hasattr(n, "decoder"):          # ModernBERT keeps the head in two parts,
            return torch.nn.Sequential(n.head, n.decoder)
        if hasattr(n, "vocab_projector"):                             # DistilBERT in four
            return torch.nn.Sequential(n.vocab_transform, n.activation, n.vocab_layer_norm, n.vocab_projector)
        raise UserError(f"{self.name} has no language-model head: use a masked or causal language model")

    @cached_property
    def pooler(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """From the first token's last states [n, d] to what a sentence's classifier reads: the checkpoint's own pooler
        (BERT's: dense, tanh), else the first part of the masked head (dense, activation, norm).

        Raises UserError where there is neither."""
        base, missing = self.base, []
        if self.kind == "masked" and self.source:              # its class leaves the checkpoint's pooler out
            base, missing = _base(self.source, hub.is_local(self.source))
        pooler = getattr(base, "pooler", None)
        if pooler is not None and not any("pooler" in key for key in missing):
            pooler.eval().requires_grad_(False).to(next(self.net.parameters()))
            return lambda h: pooler(h[:, None])
        head = self.head if self.kind == "masked" else None
        if isinstance(head, torch.nn.Sequential):
            return head[:-1]
        if hasattr(head, "predictions"):
            return head.predictions.transform
        raise UserError(f"{self.name} has no pooler: give another pooling")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights; two models with the same name and other weights differ."""
        digest = hashlib.sha256(self.below.encode())
        for key, value in sorted(self.net.state_dict().items()):
            digest.update(key.encode())
            digest.update(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def layer(self, layer: int) -> int:
        """`layer` counted from 0; raises a UserError when the model has no such layer."""
        if not -self.depth - 1 <= layer <= self.depth:
            raise UserError(f"layer {layer}: {self.name} has layers 0 … {self.depth} (or −1 … −{self.depth + 1})")
        return layer % (self.depth + 1)


@lru_cache(maxsize=4)
def load(name: str, device: str | None = None, dtype: torch.dtype | None = None) -> Model:
    """A model by pocket name (`pocket-english`), folder, or Hugging Face name.

    Weights are read as `dtype`: by default float32 on a CPU, bfloat16 on a GPU (`device`: a GPU where there is one).
    Raises UserError when nothing of that name can be loaded. Code that a model brings along is never run, and pickled
    weights (`pytorch_model.bin`) are never read."""
    here = {"local_files_only": hub.is_local(name)}                      # nothing is asked of the hub then
    import transformers as hf

    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"                   # or the hub is asked to convert pickles
    hf.logging.disable_progress_bar()
    source = hub.source(name)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
    try:
        config = hf.AutoConfig.from_pretrained(source, **here, **NO_CODE)
        kind = _kind(config)
        auto = {"masked": hf.AutoModelForMaskedLM, "causal": hf.AutoModelForCausalLM,
                "seq2seq": hf.AutoModelForSeq2SeqLM, "encoder": hf.AutoModel}[kind]
        net, info = auto.from_pretrained(source, dtype=dtype, output_loading_info=True, **here, **NO_PICKLE)
        tokenizer = hf.AutoTokenizer.from_pretrained(source, **here, **NO_CODE)
    except SafetensorError as e:
        raise UserError(f"{name}: its safetensors file is damaged or not wholly copied ({e})") from e
    except (OSError, ValueError) as e:
        raise _why_not(name, str(e)) from e
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):      # transformers makes one of nothing
        raise UserError(f"{name} has no vocabulary: save its tokenizer into the same folder (save_pretrained)")
    missing = [k for k in info["missing_keys"] if "pooler" not in k]
    if missing:
        raise UserError(f"{name}: the checkpoint lacks weights for {missing[0]}"
                        f"{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}; they would be random")
    if any("pooler" in key for key in info["missing_keys"]):
        net.base_model.pooler = None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    return Model(name, net.eval().requires_grad_(False).to(device), tokenizer, kind, source)


def _why_not(name, error):
    """One line for what transformers says when it cannot load a model."""
    if "trust_remote_code" in error:
        return UserError(f"{name} brings code of its own, which is never run: give a model of an architecture in "
                         "transformers")
    if "model.safetensors" in error:
        return UserError(f"{name} has no model.safetensors, and pickled weights (.bin) are never read, since a pickle "
                         "can run code: convert them to safetensors")
    return hub.unknown(name)


def _base(source, here):
    """The base network of a checkpoint and the names of weights that it lacks; of those it has no use for, no word."""
    import transformers as hf

    level = hf.logging.get_verbosity()
    hf.logging.set_verbosity_error()
    try:
        net, info = hf.AutoModel.from_pretrained(source, output_loading_info=True, local_files_only=here, **NO_PICKLE)
    finally:
        hf.logging.set_verbosity(level)
    return net, info["missing_keys"]


def _kind(config) -> str:
    architecture = (config.architectures or [""])[0]
    if config.is_encoder_decoder:
        return "seq2seq"
    if "MaskedLM" in architecture or "PreTraining" in architecture:
        return "masked"
    return "causal" if "CausalLM" in architecture or "LMHead" in architecture else "encoder"


@lru_cache
def depth(name: str) -> int:
    """Number of blocks of a model, read from its configuration alone (no weights are loaded)."""
    import transformers as hf

    try:
        config = hf.AutoConfig.from_pretrained(hub.source(name), local_files_only=hub.is_local(name), **NO_CODE)
    except (OSError, ValueError):
        return load(name).depth                           # raises the one-line error
    return getattr(config, "num_hidden_layers", None) or load(name).depth


def as_model(model: str | Model) -> Model:
    """A loaded model; names are loaded."""
    return model if isinstance(model, Model) else load(model)


def mixed_precision(device: torch.device) -> torch.autocast:
    """A context in which a GPU multiplies in bfloat16, and a CPU in float32.

    So a page's figures do not depend on the processor. One without bfloat16 units took twenty times
    as long with them emulated."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu")
