"""A second device on a machine that has none, so that code for a GPU runs here, with its values.

A tensor on the device `card` keeps its values in an ordinary tensor (`values`) and computes with
them. As on a GPU, operands on two devices are refused, so is NumPy, and so are draws by a
generator of the CPU. Inside `with card():` the device is there, and `PROBEBOOK_DEVICE=card`
chooses it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

aten = torch.ops.aten
CARD, CPU = torch.device("privateuseone", 0), torch.device("cpu")
COPIES = {aten.copy_.default, aten._to_copy.default}
INDEXED = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}
FILLS = {aten.fill_.Tensor, aten.masked_fill.Tensor, aten.masked_fill_.Tensor}
MEMORY = 8 << 30
CARD_TOO = re.compile("cpu|card")  # the names that `base.DEVICE` allows in tests


class OnCard(torch.Tensor):
    """A tensor of the device `card`."""

    values: torch.Tensor

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> OnCard:
        with torch.inference_mode(values.is_inference()):  # a view is what its tensor was
            made = torch.Tensor._make_wrapper_subclass(
                cls,
                values.size(),
                strides=values.stride(),
                dtype=values.dtype,
                device=CARD,
                storage_offset=values.storage_offset(),
            )
        made.values = values
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict, meta: None, size: Any, stride: Any) -> OnCard:
        return OnCard(inner["values"])

    def numpy(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("can't convert card:0 device type tensor to numpy. Use Tensor.cpu() first")

    def __array__(self, *args: Any, **kwargs: Any) -> None:
        self.numpy()

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __float__(self) -> float:
        return float(self.detach().cpu())

    def __format__(self, form: str) -> str:
        return format(self.item() if self.ndim == 0 else repr(self), form)

    def __repr__(self, **options: Any) -> str:
        return f"{self.detach().cpu()!r} on card:0"

    def __reduce_ex__(self, protocol: int) -> Any:
        return OnCard, (self.values,)

    def __deepcopy__(self, memo: dict) -> OnCard:
        copied = OnCard(self.values.clone()).requires_grad_(self.requires_grad)
        return (
            torch.nn.Parameter(copied, self.requires_grad)
            if isinstance(self, torch.nn.Parameter)
            else copied
        )


def _compute(func: Any, args: tuple, kwargs: dict) -> Any:
    """What an operation gives on the card, or the error that a GPU raises."""
    flat = [*_parts([*args, *kwargs.values()])]
    tensors = [x for x in flat if isinstance(x, torch.Tensor)]
    here = [x for x in tensors if isinstance(x, OnCard)]
    wanted = kwargs.get("device")
    on_card = torch.device(wanted).type == CARD.type if wanted is not None else bool(here)
    if here and func not in COPIES:
        _refuse_two_devices(func, args, tensors)
    generator = kwargs.get("generator") or next(
        (x for x in flat if isinstance(x, torch.Generator)), None
    )
    if on_card and generator is not None and generator.device.type == "cpu":
        raise RuntimeError("Expected a 'card' device type for generator but found 'cpu'")
    if func is aten._fused_sdp_choice.default:
        return 0  # by products and softmax, step by step
    plain = {name: _mapped(x, _plain) for name, x in kwargs.items() if name != "pin_memory"}
    found = INSTEAD.get(func, func)(*_mapped(args, _plain), **plain)
    if func is aten.copy_.default:
        return args[0]
    if not on_card or func is aten._local_scalar_dense.default:
        return found
    view = any(one.alias_info and not one.alias_info.is_write for one in func._schema.returns)
    ordinary = view and not all(x.is_inference() for x in here)  # a view is as what it views
    with torch.inference_mode(False) if ordinary else nullcontext():
        found = _mapped(found, lambda x: OnCard(x) if isinstance(x, torch.Tensor) else x)
    return return_and_correct_aliasing(func, args, kwargs, found) if here else found


def _parts(x: Any) -> Iterator[Any]:
    """What lists in lists hold, one by one."""
    for part in x:
        if isinstance(part, tuple | list):
            yield from _parts(part)
        else:
            yield part


def _mapped(x: Any, change: Callable[[Any], Any]) -> Any:
    """The same lists in lists of changed parts."""
    if isinstance(x, tuple | list):
        return type(x)([_mapped(part, change) for part in x])
    return change(x)


def _plain(x: Any) -> Any:
    """An argument as the CPU takes it."""
    return x.values if isinstance(x, OnCard) else CPU if isinstance(x, torch.device) else x


def _lstm_cell(
    by_input: torch.Tensor, by_state: torch.Tensor, cell: torch.Tensor, *biases: torch.Tensor | None
) -> tuple[torch.Tensor, ...]:
    """A GPU's step of an LSTM (the CPU has no such operation): state, cell, and its four gates."""
    gates = sum([bias for bias in biases if bias is not None], by_input + by_state).chunk(4, -1)
    let_in, keep, new, out = (
        gate.tanh() if i == 2 else gate.sigmoid() for i, gate in enumerate(gates)
    )
    after = keep * cell + let_in * new
    return out * after.tanh(), after, torch.cat([let_in, keep, new, out], -1)


def _lstm_cell_backward(
    to_state: torch.Tensor | None,
    to_cell: torch.Tensor | None,
    cell: torch.Tensor,
    after: torch.Tensor,
    gates: torch.Tensor,
    has_bias: bool,
) -> tuple[torch.Tensor, ...]:
    """Its gradients: of the gates, of the cell before, and of the biases."""
    let_in, keep, new, out = gates.chunk(4, -1)
    to_state = torch.zeros_like(after) if to_state is None else to_state
    at_cell = to_state * out * (1 - after.tanh() ** 2) + (0 if to_cell is None else to_cell)
    to_gates = torch.cat(
        [
            at_cell * new * let_in * (1 - let_in),
            at_cell * cell * keep * (1 - keep),
            at_cell * let_in * (1 - new**2),
            to_state * after.tanh() * out * (1 - out),
        ],
        -1,
    )
    return to_gates, at_cell * keep, to_gates.sum(0)


INSTEAD = {
    aten._efficientzerotensor.default: aten.zeros.default,  # has no memory to compute in
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
}


def _refuse_two_devices(func: Any, args: tuple, tensors: list[torch.Tensor]) -> None:
    """RuntimeError where a GPU raises one: indices may be of the CPU, and single numbers where an
    operation goes element by element."""
    asked = tensors
    alone = func in INDEXED or func in FILLS or torch.Tag.pointwise in func.tags
    if func in INDEXED:
        if not isinstance(args[0], OnCard):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )
        asked = [x for x in (args[0], *args[2:3]) if isinstance(x, torch.Tensor)]
    if any(not isinstance(x, OnCard) and (x.ndim or not alone) for x in asked):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two "
            f"devices, card:0 and cpu! ({func})"
        )


class _Here(TorchDispatchMode):
    """Catches what makes tensors on the card, or brings them there."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not any(
            isinstance(x, OnCard) or isinstance(x, torch.device) and x.type == CARD.type
            for x in _parts([*args, *kwargs.values()])
        ):
            return func(*args, **kwargs)
        if torch.is_inference_mode_enabled() and func._can_decompose():  # `Tensor.to`, say
            with self:
                return func.decompose(*args, **kwargs)
        return _compute(func, args, kwargs)


class _Module:
    """`torch.card`, as far as torch and the library ask it."""

    @staticmethod
    def is_available() -> bool:
        return True

    is_initialized = is_available

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Draws on the card are the CPU's."""

    @staticmethod
    def get_rng_state(device: object = None) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.uint8)

    @staticmethod
    def set_rng_state(state: torch.Tensor, device: object = None) -> None:
        """As above."""

    @staticmethod
    def mem_get_info(device: object = None) -> tuple[int, int]:
        return MEMORY, MEMORY

    @staticmethod
    def get_device_name(device: object = None) -> str:
        return "simulated card"

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]


# before the first gradient of the process, for which torch counts its devices
_setup_privateuseone_for_python_backend("card", backend_module=_Module())
AUTOCAST = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
AUTOCAST.fallback(torch.library.fallthrough_kernel)  # autocast leaves tensors as they are


@contextmanager
def card() -> Iterator[torch.device]:
    """Inside, this process has the device `card`, in all threads that begin there."""
    run, pin = threading.Thread.run, torch.Tensor.pin_memory
    lifted = torch._C._only_lift_cpu_tensors()

    def with_card(thread: threading.Thread) -> None:
        torch._C._set_only_lift_cpu_tensors(True)
        with _Here():
            run(thread)

    threading.Thread.run = with_card  # type: ignore[method-assign]
    torch.Tensor.pin_memory = lambda self, *args: self  # type: ignore[method-assign]
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="card")
    try:
        with _Here():
            yield CARD
    finally:
        torch._C._set_only_lift_cpu_tensors(lifted)
        threading.Thread.run, torch.Tensor.pin_memory = run, pin  # type: ignore[method-assign]
