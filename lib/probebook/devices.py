"""Where tensors live: the device and the precision of models, and how states go there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from probebook.base import PRECISIONS, UserError, device_name, precision

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in PRECISIONS}
WORTH = 1 << 20  # values of states from which an H100 is sooner (benchmarks/gpu.py, size)
COPIES = 6  # of states, that a fit has in memory at most (float64 counts for two)


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """Choose where models are loaded: `name`, else `PROBEBOOK_DEVICE`, else a GPU if there is one.

    Returns a device with its index, such as cuda:0. Raises UserError for a name that torch does
    not know, and for a device that this machine or this build of torch does not have."""
    name = str(name or device_name())
    if not name:
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
        module = torch.get_device_module(device.type)
    except RuntimeError:
        raise UserError(
            f"{name!r} is not a valid device: expected cpu, cuda, cuda:1 or mps"
        ) from None
    if device.type == "cpu":
        return torch.device("cpu")
    index = device.index or 0
    if not module.is_available() or index >= module.device_count():
        raise UserError(
            f"{name!r} is not there: torch finds no such device on this machine; "
            "leave PROBEBOOK_DEVICE empty, or set it to cpu"
        )
    return torch.device(device.type, index)


def choose_dtype(name: str | torch.dtype | None = None) -> torch.dtype:
    """Choose the precision of models: `name`, else `PROBEBOOK_DTYPE`, else float32 on any device.

    Raises UserError for a name other than float32, bfloat16, float16 and float64."""
    return name if isinstance(name, torch.dtype) else DTYPES[precision(name)]


def work_device(h: Tensor) -> torch.device:
    """Choose where states are worked on, whole or block by block: where they live or, if they live
    on the CPU and have at least `WORTH` values, on a GPU, if there is one.

    Apple's GPUs (mps) have no float64, which the closed forms need, so states stay on the CPU."""
    if h.device.type != "cpu" or h.numel() < WORTH:
        return h.device
    there = choose_device()
    return h.device if there.type == "mps" else there


def place_states(h: Tensor) -> Tensor:
    """Put states where they are worked on, if they fit into the free memory there; else they
    stay, and go there block by block."""
    there = work_device(h)
    return h if there == h.device or COPIES * h.nbytes > free_memory(there) else h.to(there)


def free_memory(device: torch.device) -> int:
    """Bytes that a GPU has left (Apple's: shared with the CPU, and no limit is asked for)."""
    if device.type == "mps":
        return 1 << 34
    return torch.get_device_module(device.type).mem_get_info(device)[0]


def gpu_name(device: torch.device) -> str:
    """Name a GPU as its driver does, or as torch does where the driver is not asked (Apple's)."""
    return getattr(torch.get_device_module(device.type), "get_device_name", str)(device)


def on_states(part: Callable[[Tensor], Tensor], weights: Tensor) -> Callable[[Tensor], Tensor]:
    """Let a part of a network read states of any device and precision: they go to its weights, and
    what it makes of them comes back to where, and as what, they came."""
    return lambda h: part(h.to(weights)).to(h)


def mixed_precision(device: torch.device) -> torch.autocast:
    """A context in which a network that is trained in float32 multiplies in `PROBEBOOK_DTYPE`."""
    asked = choose_dtype()
    return torch.autocast(device.type, asked, enabled=asked in (torch.bfloat16, torch.float16))


def attention(device: torch.device) -> AbstractContextManager[None]:
    """A context in which attention on a GPU is not cuDNN's, which plans anew for every shape of a
    batch: two thirds of the time of a pass over texts of many lengths."""
    if device.type != "cuda":
        return nullcontext()
    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    return sdpa_kernel(kernels)


def send(x: Tensor, device: torch.device) -> Tensor:
    """Copy what a network reads to its device, without waiting for a GPU that is at work."""
    if device.type in ("cpu", "mps"):
        return x.to(device)
    return x.pin_memory().to(device, non_blocking=True)
