"""One safetensors file for anything fitted: an edit with all that it holds, or a probe."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from probebook.base import UserError, atomic_write
from probebook.interventions.controls import MatchedDirection, MatchedSubspace
from probebook.interventions.sparse_autoencoder import FittedSparseAutoencoder
from probebook.interventions.table import INTERVENTIONS
from probebook.models.cache import digest
from probebook.probes.linear import LinearProbe
from probebook.probes.mlp import FittedMLP, MLPProbe, Panel

CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(row.fitted for row in INTERVENTIONS.values()),
        FittedSparseAutoencoder,
        MatchedDirection,
        MatchedSubspace,
        LinearProbe,
        MLPProbe,
        FittedMLP,
        Panel,
    )
}


def save(fitted: Any, path: str | Path) -> None:
    """Write a fitted edit or probe to one file: tensors in their dtypes, values in the header.

    Raises UserError for something of another kind (an attack on a foreign network, say)."""
    tensors: dict[str, torch.Tensor] = {}
    header = json.dumps(_pack(fitted, "", tensors))
    tensors = {name: tensor.cpu() for name, tensor in tensors.items()}
    with atomic_write(Path(path)) as part:
        save_file(tensors, part, metadata={"probebook": header, "sha256": digest(tensors)})


def load(path: str | Path) -> Any:
    """Read what `save` wrote, on the CPU. Raises UserError for another or a damaged file."""
    try:
        with safe_open(path, "pt") as f:
            meta, tensors = f.metadata() or {}, {name: f.get_tensor(name) for name in f.keys()}
    except (SafetensorError, OSError) as e:
        raise UserError(
            f"{path} cannot be read as a fitted edit ({e}): give a file that `save` wrote"
        ) from None
    if "probebook" not in meta:
        raise UserError(f"{path} holds no fitted edit: give a file that `save` wrote")
    try:
        if meta.get("sha256", digest(tensors)) == digest(tensors):  # older files have none
            return _unpack(json.loads(meta["probebook"]), tensors)
    except (ValueError, KeyError):
        pass
    raise UserError(f"{path} is damaged: fit it again and save it")


def _pack(value: Any, place: str, tensors: dict[str, torch.Tensor]) -> Any:
    """`value` as JSON; its tensors go to `tensors` under their place in it."""
    if isinstance(value, torch.Tensor):
        tensors[place] = value.detach().clone().contiguous()
        return {"tensor": place}
    if isinstance(value, tuple):
        return {"tuple": [_pack(v, f"{place}.{i}", tensors) for i, v in enumerate(value)]}
    if type(value) in CLASSES.values():
        packed = {
            field.name: _pack(
                getattr(value, field.name), f"{place}.{field.name}".lstrip("."), tensors
            )
            for field in fields(value)
        }
        return {"kind": type(value).__name__, "fields": packed}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UserError(f"a {type(value).__name__} cannot be saved: only {', '.join(CLASSES)} can")


def _unpack(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "tuple" in value:
        return tuple(_unpack(v, tensors) for v in value["tuple"])
    thing: Any = object.__new__(CLASSES[value["kind"]])
    for name, v in value["fields"].items():
        object.__setattr__(thing, name, _unpack(v, tensors))  # fitted things are frozen
    return thing
