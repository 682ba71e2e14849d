"""State of a training run in one file: parameters, optimizers, records; written whole, read back exactly."""
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from probebook.base import UserError, written_whole


def save(path: Path, net: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], step: int,
         records: list[dict], same: str) -> None:
    """Write the state after `step`; `same`: what a run that goes on from it must share."""
    tensors = {f"model.{k}": v for k, v in net.state_dict().items()}
    for i, opt in enumerate(optimizers):
        for j, state in opt.state_dict()["state"].items():
            tensors |= {f"opt.{i}.{j}.{k}": torch.as_tensor(v) for k, v in state.items()}
    tensors = {k: v.detach().clone().contiguous() for k, v in tensors.items()}
    with written_whole(path) as part:
        save_file(tensors, part, metadata={"step": str(step), "records": json.dumps(records), "recipe": same})


def restore(path: Path, net: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer],
            same: str) -> tuple[int, list[dict]]:
    """Read the state into the network and its optimizers; returns step and records. UserError: another run's file, or a
    damaged one."""
    try:
        with safe_open(path, "pt") as f:
            tensors, meta = {k: f.get_tensor(k) for k in f.keys()}, f.metadata()
    except SafetensorError:
        raise UserError(f"{path} is damaged: delete it to begin anew") from None
    if meta["recipe"] != same:
        raise UserError(f"{path} belongs to another recipe: delete it to begin anew")
    net.load_state_dict({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
    for i, opt in enumerate(optimizers):
        state: dict[int, dict] = {}
        for key in (k for k in tensors if k.startswith(f"opt.{i}.")):
            _, _, j, name = key.split(".", 3)
            state.setdefault(int(j), {})[name] = tensors[key]
        opt.load_state_dict({"state": state, "param_groups": opt.state_dict()["param_groups"]})
    return int(meta["step"]), json.loads(meta["records"])
