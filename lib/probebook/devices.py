"""Where tensors live: the device and the precision of models, and the one way to NumPy."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from probebook.base import PRECISIONS, UserError, device_name, precision

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in PRECISIONS}
WORTH = 1 << 22        # values of states from which a GPU fits, edits and attacks them sooner
COPIES = 6             # of states, that a fit has in memory at most (float64 counts for two)


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """Choose where models are loaded: `name`, else `PROBEBOOK_DEVICE`, else a GPU if there is one.

    Returns a device with its index, such as cuda:0. Raises UserError for a name that torch does
    not know, and for a device that this machine or this build of torch does not have."""
    name = str(name or device_name())
    if not name:
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        found = torch.device(name)
        module = torch.get_device_module(found.type)
    except RuntimeError:
        raise UserError(f"{name!r} is not a valid device: "
                        "expected cpu, cuda, cuda:1 or mps") from None
    if found.type == "cpu":
        return torch.device("cpu")
    index = found.index or 0
    if not module.is_available() or index >= module.device_count():
        raise UserError(f"{name!r} is not there: torch finds no such device on this machine; "
                        "leave PROBEBOOK_DEVICE empty, or set it to cpu")
    return torch.device(found.type, index)


def choose_dtype(name: str | torch.dtype | None = None) -> torch.dtype:
    """Choose the precision of models: `name`, else `PROBEBOOK_DTYPE`, else float32 on any device.

    Raises UserError for a name other than float32, bfloat16, float16 and float64."""
    return name if isinstance(name, torch.dtype) else DTYPES[precision(name)]


def place_states(h: Tensor) -> Tensor:
    """Put states where fits, edits and attacks run soonest: on the GPU, if there is one, if they
    have at least `WORTH` values, and if they fit into its free memory; else they stay.

    Apple's GPUs (mps) have no float64, which the closed forms need, so states stay on the CPU."""
    there = choose_device()
    if there.type in ("cpu", "mps", h.device.type) or h.numel() < WORTH:
        return h
    free = torch.get_device_module(there.type).mem_get_info(there)[0]
    return h.to(there) if COPIES * h.nbytes <= free else h


def to_numpy(x: ArrayLike | Tensor) -> np.ndarray:
    """Convert a tensor of any device and precision to NumPy (bfloat16 becomes float32); an array
    stays as it is."""
    if not isinstance(x, Tensor):
        return np.asarray(x)
    x = x.detach().cpu()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()
