"""What every training loop needs: optimizers, checkpoints that restore a run exactly, a bar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from torch.optim import Optimizer

from probebook.base import UserError, atomic_write


def optimizers(model: nn.Module, kind: str, lr: float) -> list[Optimizer]:
    """AdamW ("adamw"), or Muon for the matrices of the blocks and AdamW for the rest ("muon")."""
    learned = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    matrices = []
    if kind != "adamw":
        matrices = [p for n, p in learned if p.ndim == 2 and ("layers." in n or "layer." in n)]
    inside = {id(p) for p in matrices}
    rest = [p for _, p in learned if id(p) not in inside]
    result: list[Optimizer] = [
        torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    ]
    if matrices:
        result.append(
            torch.optim.Muon(matrices, lr=lr, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
        )
    return result


def set_rate(optimizers: Sequence[Optimizer], lr: float) -> None:
    """Give all parameters of the optimizers this learning rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = lr


def save_checkpoint(
    path: Path,
    net: nn.Module,
    optimizers: Sequence[Optimizer],
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
    with atomic_write(path) as part:
        save_file(tensors, part, metadata=metadata)


def restore_checkpoint(
    path: Path, net: nn.Module, optimizers: Sequence[Optimizer], same: str
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


class TrainingBar:
    """Steps done, the time left and the last loss, on stderr; a context manager."""

    def __init__(self, name: str, steps: int, done: int = 0):
        from rich.console import Console
        from rich.progress import Progress, TextColumn

        console = Console(stderr=True)
        columns = *Progress.get_default_columns(), TextColumn("{task.fields[loss]}")
        self.bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.bars.add_task(name, total=steps, completed=done, loss="")

    def __enter__(self) -> TrainingBar:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def advance(self) -> None:
        """One step more is done."""
        self.bars.advance(self.task)

    def show_loss(self, loss: float) -> None:
        """Show the mean loss since the last time."""
        self.bars.update(self.task, loss=f"loss {loss:.3f}")
