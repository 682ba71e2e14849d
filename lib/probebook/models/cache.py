"""A cache of tensors: files named by a hash of everything from which they were computed."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, uint8

from probebook.base import atomic_write, cache_dir, cache_path, precision

T = TypeVar("T")


def load_or_compute(
    room: str, key: list, make: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Compute tensors, by name and on the CPU, once and keep them in a room of the cache folder.

    If several processes ask for them at the same time, one computes them and the others wait. A
    damaged file is computed again, with a warning. If the disk is full the result is returned but
    not stored, with a warning. A cache folder that cannot be written is still read; UserError if
    the file is missing there. `key`: plain values that, with the precision asked for, name it."""
    asked = precision()  # networks are trained in it, too, and read other numbers
    key = key if asked == "float32" else [*key, asked]
    path = cache_path() / room / f"{key_name(key)}.safetensors"

    def compute() -> dict[str, Tensor]:
        if path.exists():
            warnings.warn(f"cached {room} {path.name} are corrupt; computed again", stacklevel=5)
        return {k: v.detach().cpu().contiguous().clone() for k, v in make().items()}

    return read_or_make(path, _read, compute, _write)


def read_or_make(
    path: Path,
    read: Callable[[Path], T | None],
    make: Callable[[], T],
    write: Callable[[T, Path], None],
) -> T:
    """Read a file of the cache folder or, if it is missing or damaged, make and write it.

    `read` returns None then. One of several processes makes it. A result that cannot be stored is
    returned all the same, with a warning."""
    if (stored := read(path)) is not None:
        return stored
    cache_dir()
    with _lock(path):
        if (stored := read(path)) is not None:
            return stored
        made = make()
        try:
            write(made, path)
        except (SafetensorError, OSError) as e:
            warnings.warn(
                f"{path.parent.name} cannot be kept in the cache, so the next run "
                f"computes them again: {e}",
                stacklevel=4,
            )
    return made


def key_name(key: list) -> str:
    """Hash a key of plain values to a file name: 40 hexadecimal digits."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:40]


def digest(tensors: dict[str, Tensor]) -> str:
    """Hash the names and bytes of tensors, whatever their order (sha256)."""
    return digest_in_order(sorted(tensors.items()))


def digest_in_order(named: Iterable[tuple[str, Tensor]], prefix: str = "") -> str:
    """Hash `prefix`, then the name and bytes of each tensor in turn (sha256)."""
    sha = hashlib.sha256(prefix.encode())
    for name, tensor in named:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        sha.update(name.encode())
        sha.update(flat.view(uint8).numpy().data)
    return sha.hexdigest()


def _read(path: Path) -> dict[str, Tensor] | None:
    """The tensors of a file, or None if it is missing or damaged."""
    try:
        with safe_open(path, "pt") as f:
            tensors, meta = {k: f.get_tensor(k) for k in f.keys()}, f.metadata() or {}
    except (SafetensorError, OSError):
        return None
    return tensors if meta.get("sha256") == digest(tensors) else None


def _write(tensors: dict[str, Tensor], path: Path) -> None:
    with atomic_write(path) as part:
        save_file(tensors, part, metadata={"sha256": digest(tensors)})


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Keep other processes and threads from making the file; the lock ends with its holder.

    Where no lock can be had (on a full disk) each process makes its own."""
    lock = FileLock(path.with_suffix(".lock"))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
