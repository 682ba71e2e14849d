"""Load a Hugging Face encoder or decoder, or one of the book's pocket models, by name or folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from probebook import hub
from probebook.base import UserError
from probebook.devices import choose_device, choose_dtype, on_states
from probebook.hub import POCKET as POCKET
from probebook.models import architecture
from probebook.models.cache import digest_in_order

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

BLANK = "[MASK]"  # the book's sign for a blank, whatever a model's own token is
SENTINEL = "<extra_id_0>"  # T5's and UL2's token for a blank
NO_CODE = {"trust_remote_code": False}  # never run code from a model's author,
NO_PICKLE = NO_CODE | {"use_safetensors": True}  # nor code hidden in a pickle


@dataclass(frozen=True, eq=False)
class Model:
    """A network, its tokenizer and what the library must know of its architecture."""

    name: str
    net: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    kind: str  # "masked", "causal", "seq2seq", or "encoder" (without a language-model head)
    source: str = ""  # the folder or hub name from which it was read
    below: str = ""  # the fingerprint of the blocks that `cut` removed, if any
    notes: tuple[str, ...] = ()  # what was left out or assumed when it was loaded, in sentences

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.net.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return next(self.net.parameters()).dtype

    @property
    def depth(self) -> int:
        """Number of blocks; layers run from 0 (embeddings) to `depth` (what the head reads)."""
        return len(self.blocks)

    @property
    def width(self) -> int:
        """Number of dimensions of a hidden state."""
        return self.net.config.get_text_config().hidden_size

    @cached_property
    def base(self) -> PreTrainedModel:
        """The network whose last states the head reads (of an encoder–decoder: the decoder)."""
        return architecture.body(self.net, self.kind)

    @cached_property
    def encoder(self) -> Model:
        """What reads a whole text: of an encoder–decoder its encoder, else the model itself."""
        if self.kind != "seq2seq":
            return self
        return replace(self, net=self.net.get_encoder(), kind="encoder")

    @cached_property
    def blocks(self) -> Sequence[nn.Module]:
        """The transformer blocks, as often as a pass calls them."""
        return architecture.blocks_in_order(self.base)

    @cached_property
    def time_first(self) -> bool:
        """Whether the blocks pass states on as [t, b, d]."""
        return architecture.time_first(self.base, self.blocks)

    @cached_property
    def head(self) -> Callable[[Tensor], Tensor]:
        """From last hidden states [n, d] to token logits [n, vocabulary], where the states live.

        Raises UserError if the model has no language-model head that reads these states."""
        return self.head_for(None)

    def head_for(self, ids: Sequence[int] | None) -> Callable[[Tensor], Tensor]:
        """The same to the logits [n, m] of some tokens alone, in a fraction of the time."""
        if self.kind == "encoder":
            raise UserError(f"{self.name} has no language-model head: use a model that has one")
        weights = next(self.net.parameters())
        wanted = None if ids is None else torch.tensor(ids, device=weights.device)
        return on_states(architecture.tail(self.net, self.base, wanted), weights)

    @cached_property
    def final_norm(self) -> Callable[[Tensor], Tensor]:
        """From states [n, d] after the last block to what the head reads: the final norm, or no
        change where each block ends with a norm of its own (BERT).

        UserError: the model puts something else between its last block and its head."""
        norm = architecture.after_blocks(self.base, self.blocks[-1])
        if norm is None:
            raise UserError(
                f"{self.name} has no single norm between its last block and its head, so that "
                "nothing says how the head would read a lower layer: give another model"
            )
        return on_states(norm, next(self.net.parameters()))

    @cached_property
    def pooler(self) -> Callable[[Tensor], Tensor]:
        """From the first token's last states [n, d] to the input of a sentence classifier.

        This is the checkpoint's pooler (BERT's: dense, tanh) or, if it has none, the first part of
        the masked head (dense, activation, norm; XLNet has none). UserError: there is no masked
        head."""
        base, weights = self.base, next(self.net.parameters())
        missing: set[str] = set()
        if self.kind == "masked" and self.source:  # its class omits the checkpoint's pooler
            base, missing = _base(self.source)
        pooler = getattr(base, "pooler", None)
        if pooler is not None and not any("pooler" in key for key in missing):
            pooler.eval().requires_grad_(False).to(weights)
            return on_states(lambda h: pooler(h[:, None]), weights)
        if self.kind == "masked":
            last = self.net.get_output_embeddings()

            def first(h: Tensor) -> Tensor:
                return architecture.input_of(last, lambda: self.head(h))[0]

            return on_states(first, weights)
        raise UserError(f"{self.name} has no pooler: give another pooling")

    @cached_property
    def blank_token(self) -> str | None:
        """The token that stands for a blank: the mask, or T5's first sentinel. None: there is
        none."""
        known = SENTINEL in self.tokenizer.get_vocab()
        return self.tokenizer.mask_token or (SENTINEL if known else None)

    @cached_property
    def blank_id(self) -> int:
        """The id of that token, of the unknown word where there is none."""
        return self.tokenizer.convert_tokens_to_ids(self.blank_token or BLANK)

    @cached_property
    def unknown_id(self) -> int | None:
        """The id of the unknown word. None: there is none, or only that of the ends of texts."""
        tokenizer = self.tokenizer
        ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        return None if tokenizer.unk_token_id in ends else tokenizer.unk_token_id

    @cached_property
    def special(self) -> set[int]:
        """Ids of special tokens that are no words: not the blank's, and not the unknown word's."""
        blank = self.blank_id if self.blank_token else None
        return {*self.tokenizer.all_special_ids} - {blank, self.unknown_id}

    @cached_property
    def _frame(self) -> re.Pattern:
        """The special tokens that the tokenizer puts around every text, at the ends of a text."""
        ids = self.tokenizer("a")["input_ids"]
        ends = [[*takewhile(self.special.__contains__, side)] for side in (ids, reversed(ids))]
        first, last = (
            "|".join(map(re.escape, self.tokenizer.convert_ids_to_tokens(end))) or "(?!)"
            for end in ends
        )
        return re.compile(rf"^(\s*({first}))+|(({last})\s*)+$")

    def unframed(self, text: str) -> str:
        """A text without the special tokens that the tokenizer puts around every text, which the
        template of a chat writes, too."""
        return self._frame.sub("", text)

    def as_read(self, text: str) -> str:
        """A text as the model reads it: `unframed`, and [MASK] becomes its own token for a blank. A
        left-to-right model reads what stands before, or its first token where nothing does."""
        text = self.unframed(text)
        before, blank, _ = text.partition(BLANK)
        if not blank:
            return text
        if self.kind != "causal":
            return text.replace(BLANK, self.blank_token or BLANK)
        tokenizer, before = self.tokenizer, before.rstrip()
        return (
            before
            if before or tokenizer("")["input_ids"]
            else (tokenizer.bos_token or tokenizer.eos_token)
        )

    def blank(self, ids: Sequence[int]) -> int | None:
        """The place whose last state predicts the blank of a text's ids, None if there is none.

        In a left-to-right model it is the last word's: the text ends where the blank is. In an
        encoder–decoder it is the last of `decoder_ids`."""
        ids = [int(i) for i in ids]
        if self.kind == "causal":
            return self.last_word(ids) or 0
        if self.blank_id not in ids:
            return None
        if self.kind == "seq2seq":
            return len(self.decoder_ids(ids)) - 1
        return ids.index(self.blank_id)

    def last_word(self, ids: Sequence[int]) -> int | None:
        """The place of the last token of a text that is neither special nor a blank or line break;
        None: there is none."""
        places = (j for j in reversed(range(len(ids))) if ids[j] not in self.special)
        return next((j for j in places if not self._is_blank(ids[j])), None)

    def _is_blank(self, token: int) -> bool:
        text = self.tokenizer.decode([token])  # of SentencePiece's blank, and of half a letter, ""
        if text:
            return text.isspace()
        return not self.tokenizer.convert_ids_to_tokens(token).strip("▁ ")

    def decoder_ids(self, ids: Sequence[int]) -> list[int]:
        """What an encoder–decoder's decoder reads before it predicts the blank of a text's ids.

        After its start token this is what the decoder wrote before the blank in its pretraining:
        T5's sentinel itself, which the words that it stands for follow; or the text up to BART's
        mask, since BART writes the whole text again. UserError: the model knows no blanks."""
        if self.blank_token is None:
            raise UserError(f"{self.name} has neither a mask token nor {SENTINEL}: give a prompt")
        place = list(ids).index(self.blank_id)
        before = ids[:place] if self.tokenizer.mask_token else ids[place : place + 1]
        return [self.net.config.decoder_start_token_id, *before]

    def inputs(self, text: str) -> dict[str, Tensor]:
        """What `net` is given to predict the blank of one text: token ids [1, t] by their names."""
        ids = self.tokenizer(self.as_read(text))["input_ids"]
        given = {"input_ids": ids}
        if self.kind == "seq2seq":
            given["decoder_input_ids"] = self.decoder_ids(ids)
        return {name: torch.tensor([row], device=self.device) for name, row in given.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights; two models with the same name and other weights differ."""
        return digest_in_order(sorted(self.net.state_dict().items()), self.below)

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        """Hash of the tokenizer; the same weights read other tokens with another one."""
        words = json.dumps(sorted(self.tokenizer.get_vocab().items()))
        return hashlib.sha256(words.encode()).hexdigest()

    def layer(self, layer: int) -> int:
        """`layer` counted from 0. UserError: the model has no such layer."""
        if not -self.depth - 1 <= layer <= self.depth:
            raise UserError(
                f"layer {layer}: {self.name} has layers 0 … {self.depth} "
                f"(or −1 … −{self.depth + 1})"
            )
        return layer % (self.depth + 1)


def load(
    name: str, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None
) -> Model:
    """Load a language model and its tokenizer; the same one again if it was loaded before.

    Code that comes with a model is never run, and pickled weights (`pytorch_model.bin`) are never
    read.

    Args:
        name: A pocket model (`pocket-english`), a folder, or a Hugging Face name.
        device: Default: `PROBEBOOK_DEVICE`, else a GPU if there is one.
        dtype: Default: `PROBEBOOK_DTYPE`, else float32 on every device.

    UserError: no model of that name can be loaded, or the device or precision does not exist."""
    return _load_once(name, choose_device(device), choose_dtype(dtype))


def load_anew(
    name: str, device: str | torch.device | None = None, dtype: str | torch.dtype | None = None
) -> Model:
    """Load a model that shares its network with no other (`load`), so that it can be trained."""
    hub.check_files(name)
    source = hub.source(name)
    here = {"local_files_only": hub.is_local(name)}  # then no request goes to the hub
    files = here | hub.gguf(source)
    import transformers as hf
    from transformers.utils.peft_utils import find_adapter_config_file

    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"  # do not ask it to convert pickles
    hf.logging.disable_progress_bar()
    try:
        if file := find_adapter_config_file(source, **here):
            raise hub.adapter(name, Path(file))
        config, kind = _config(name), hub.kind(name)
        net, info = architecture.auto_class(kind, config).from_pretrained(
            source,
            config=config,
            dtype=choose_dtype(dtype),
            output_loading_info=True,
            **files,
            **NO_PICKLE,
        )
        tokenizer = hf.AutoTokenizer.from_pretrained(source, **files, **NO_CODE)
    except UserError:
        raise
    except Exception as e:  # of whatever files there are, transformers raises whatever it meets
        raise _loading_error(name, e) from e
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        # without the tokenizer's files transformers makes one of special tokens alone
        raise UserError(
            f"{name} has no vocabulary: save its tokenizer into the same folder (save_pretrained)"
        )
    missing = [k for k in info["missing_keys"] if "pooler" not in k]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"{name}: the checkpoint lacks weights for {missing[0]}{more}; they would be random"
        )
    if any("pooler" in key for key in info["missing_keys"]):
        net.base_model.pooler = None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    net = net.eval().requires_grad_(False).to(choose_device(device))
    notes = _notes(source, info, **here)
    if kind != hub.kind_of(*hub.architecture(name)):
        notes += ("The head of this masked model was not saved: it is taken as an encoder.",)
    model = Model(name, net, tokenizer, kind, source, notes=notes)
    if config.get_text_config() is not config and not architecture.reads_text(model.base):
        raise UserError(
            f"{name} ({config.model_type}) has no decoder that reads a text without pictures: "
            "give a text model"
        )
    return model


_load_once = lru_cache(maxsize=4)(load_anew)


def _config(name: str) -> PreTrainedConfig:
    """A model's configuration, which names the index of its shards where a folder has one: else
    transformers prefers a model.safetensors beside it."""
    config, folder = deepcopy(hub.config(name)), Path(hub.source(name))
    if (folder / hub.INDEX).exists() and len(hub.weight_files(folder)) > 1:
        config.transformers_weights = hub.INDEX
    return config


def _notes(source: str, info: dict, local_files_only: bool) -> tuple[str, ...]:
    """What a reader should know of a model's files: what is not read, how its author pools."""
    from transformers.utils import cached_file

    notes, single = [], Path(source, "model.safetensors")
    for file in hub.gguf(source).values():
        notes.append(f"The weights of {file} are written out from the precision that it has.")
    if single.exists() and single not in hub.weight_files(single.parent):
        notes.append(f"{single.name} was not read, since {hub.INDEX} names other files.")
    unused = sorted(key for key in info["unexpected_keys"] if "pooler" not in key)
    if unused:
        notes.append(f"{len(unused)} of the model's tensors were not used, such as {unused[0]}.")
    pooling = cached_file(
        source,
        "1_Pooling/config.json",
        local_files_only=local_files_only,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    if pooling:
        settings = json.loads(Path(pooling).read_text(encoding="utf-8"))
        rules = [key for key, value in settings.items() if value is True and "pooling" in key]
        rule = settings.get("pooling_mode") or ", ".join(rules) or "unknown"
        notes.append(f"The model's author pools its states by {rule} (1_Pooling/config.json).")
    return tuple(notes)


def _loading_error(name: str, error: Exception) -> UserError:
    """Turn the error of transformers when it cannot load a model into one line."""
    text = " ".join(str(error).split())
    if isinstance(error, SafetensorError):
        return UserError(f"{name}: its safetensors file is damaged or incomplete ({error})")
    if "trust_remote_code" in text:
        return UserError(
            f"{name} needs code from its repository, which is never run: give a model of an "
            "architecture in transformers"
        )
    if "model.safetensors" in text:
        return UserError(
            f"{name} has no model.safetensors, and pickled weights (.bin) are never "
            "read, since a pickle can run code: convert them to safetensors"
        )
    if not Path(hub.source(name)).is_dir() and isinstance(error, OSError):
        return hub.unknown_model(name)
    return UserError(f"{name}: transformers cannot load it ({type(error).__name__}: {text[:200]})")


def _base(name: str) -> tuple[PreTrainedModel, set[str]]:
    """Load the base network of a checkpoint, and name the weights that the checkpoint lacks.

    Transformers' warnings about weights that the base network does not use are silenced."""
    import transformers as hf

    level = hf.logging.get_verbosity()
    hf.logging.set_verbosity_error()
    try:
        net, info = hf.AutoModel.from_pretrained(
            hub.source(name),
            config=_config(name),
            output_loading_info=True,
            local_files_only=hub.is_local(name),
            **NO_PICKLE,
        )
    finally:
        hf.logging.set_verbosity(level)
    return net, info["missing_keys"]


@lru_cache
def depth(name: str) -> int:
    """Read the number of blocks from a model's configuration, without loading weights."""
    try:
        config = hub.config(name)
    except (OSError, ValueError):
        return load(name).depth  # raises the one-line error
    names = (
        ("num_decoder_layers", "decoder_layers")
        if config.is_encoder_decoder
        else ("num_hidden_layers",)
    )
    values = (getattr(config.get_text_config(), name, None) for name in names)
    return next((layers for layers in values if layers), None) or load(name).depth


def as_model(model: str | Model) -> Model:
    """Return the model itself or, given its name, load it."""
    return model if isinstance(model, Model) else load(model)
