"""Tensors that are computed once: files in the cache folder, named by what they were computed from."""
from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from probebook.base import cache_dir, cache_path, written_whole

T = TypeVar("T")


def cached(room: str, key: list, make: Callable[[], dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The tensors that `make` gives, on the CPU, kept in a folder of the cache under a hash of `key` (plain values).

    Of several processes that ask for the same at the same time one makes it, the others wait. A damaged file is made
    again, with a warning. What finds no room on the disk is not kept, with a warning; what lies in a folder that cannot
    be written is read. UserError: it does not lie there."""
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:40]
    path = cache_path() / room / f"{name}.safetensors"

    def anew():
        if path.exists():
            warnings.warn(f"cached {room} {path.name} are corrupt; computed again", stacklevel=5)
        return {k: v.detach().cpu().contiguous().clone() for k, v in make().items()}

    return once(path, _read, anew, _write)


def once(path: Path, read: Callable[[Path], T | None], make: Callable[[], T], write: Callable[[T, Path], None]) -> T:
    """What `read` finds at a path of the cache folder; if that is None, what `make` gives, kept by `write`.

    Of several processes one makes it. What cannot be kept is given all the same, with a warning."""
    if (found := read(path)) is not None:
        return found
    cache_dir()
    with _alone(path):
        if (found := read(path)) is not None:
            return found
        made = make()
        try:
            write(made, path)
        except (SafetensorError, OSError) as e:
            warnings.warn(f"{path.parent.name} cannot be kept in the cache, the next run computes them again: {e}",
                          stacklevel=4)
    return made


def _read(path: Path) -> dict[str, torch.Tensor] | None:
    """The tensors of a file; None if it is not there, or damaged."""
    try:
        with safe_open(path, "pt") as f:
            tensors, meta = {k: f.get_tensor(k) for k in f.keys()}, f.metadata() or {}
    except (SafetensorError, OSError):
        return None
    return tensors if meta.get("sha256") == digest(tensors) else None


def _write(tensors, path):
    with written_whole(path) as part:
        save_file(tensors, part, metadata={"sha256": digest(tensors)})


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While it holds, no other process or thread makes the file; the operating system frees the lock with its holder.
    Where no lock can be had (a full disk) each makes its own."""
    lock = FileLock(path.with_suffix(".lock"))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def digest(tensors: dict[str, torch.Tensor]) -> str:
    """sha256 over names and bytes of tensors on the CPU."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode() + tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
