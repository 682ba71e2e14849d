"""The state of a training run in one file: parameters, optimizers and records, restored exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from probebook.base import UserError, written_whole


def save(
    path: Path,
    net: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    step: int,
    records: list[dict],
    same: str,
) -> None:
    """Write the state after `step`. `same`: text that a run which resumes from it must share."""
    tensors = {f"model.{k}": v for k, v in net.state_dict().items()}
    for i, optimizer in enumerate(optimizers):
        for j, state in optimizer.state_dict()["state"].items():
            tensors |= {f"opt.{i}.{j}.{k}": torch.as_tensor(v) for k, v in state.items()}
    tensors = {k: v.detach().to("cpu", copy=True).contiguous() for k, v in tensors.items()}
    metadata = {"step": str(step), "records": json.dumps(records), "recipe": same}
    with written_whole(path) as part:
        save_file(tensors, part, metadata=metadata)


def restore(
    path: Path, net: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], same: str
) -> tuple[int, list[dict]]:
    """Read the state into the network and its optimizers; return the step and the records.

    Raises UserError if the file is damaged or belongs to another run."""
    try:
        with safe_open(path, "pt") as f:
            tensors, meta = {k: f.get_tensor(k) for k in f.keys()}, f.metadata()
    except SafetensorError:
        raise UserError(f"{path} is damaged: delete it to start again") from None
    if meta["recipe"] != same:
        raise UserError(f"{path} belongs to another recipe: delete it to start again")
    net.load_state_dict(_without_prefix(tensors, "model."))
    for i, optimizer in enumerate(optimizers):
        state: dict[int, dict] = {}
        for key, tensor in _without_prefix(tensors, f"opt.{i}.").items():
            j, name = key.split(".", 1)
            state.setdefault(int(j), {})[name] = tensor
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    return int(meta["step"]), json.loads(meta["records"])


def _without_prefix(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors whose name begins with a prefix, named without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
