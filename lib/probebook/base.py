"""What every room uses: where data and caches are, how a file is written, what an error looks
like."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import yaml

if TYPE_CHECKING:  # importing them takes longer than all else here
    import numpy as np
    import torch
    from numpy.typing import ArrayLike
    from torch import Tensor

Choice = TypeVar("Choice")
PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parents[1]  # the checkout, where the package is installed in place


def _data() -> Path:
    """The data of the checkout in `PROBEBOOK_HOME`, else of the one around this file, else what was
    installed with the library: the same without most models."""
    checkouts = [Path(os.environ.get("PROBEBOOK_HOME") or ROOT), ROOT]
    candidates = [
        checkout / "data"
        for checkout in checkouts
        if (checkout / "data" / "registry.yaml").exists()
    ]
    return [*candidates, PACKAGE / "data"][0]


DATA = _data()
PRECISIONS = ("float32", "bfloat16", "float16", "float64")
DEVICE = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|mtia|xla)(:\d+)?")
LARGEST_READ = 1 << 28  # bytes of a file that a reader names on the command line or on a page


class UserError(ValueError):
    """Bad input. The message is one line that says what is wrong and what would be right."""


def precision(name: str | None = None) -> str:
    """Name the precision of models: `name`, else `PROBEBOOK_DTYPE`, else float32.

    Raises UserError for a name that is not one of PRECISIONS."""
    name = name or os.environ.get("PROBEBOOK_DTYPE") or "float32"
    return check_choice(name, "precision", PRECISIONS)


def device_name() -> str:
    """Name the device in `PROBEBOOK_DEVICE`, "" if it is not set.

    Raises UserError for a name that is not a device's. Whether the device exists is asked of torch
    by `devices.choose_device`."""
    name = os.environ.get("PROBEBOOK_DEVICE") or ""
    if name and not DEVICE.fullmatch(name):
        raise UserError(f"{name!r} is not a valid device: expected cpu, cuda, cuda:1 or mps")
    return name


def cache_path() -> Path:
    """Folder for downloads and embeddings: `PROBEBOOK_CACHE`, else `~/.cache/probebook`. It may be
    missing."""
    return Path(os.environ.get("PROBEBOOK_CACHE") or Path.home() / ".cache" / "probebook")


def cache_dir() -> Path:
    """Create the cache folder. Raises UserError if it cannot be written."""
    path = cache_path()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as e:
        raise UserError(
            f"cache folder {path} cannot be written ({e.strerror}): "
            "set PROBEBOOK_CACHE to a folder that can"
        ) from None
    return path


def check_choice(value: Choice, what: str, known: Iterable[Any]) -> Choice:
    """Return `value` if it is one of those known; raise UserError, which lists these, if not."""
    names = [*known]
    if value not in names:
        raise UserError(f"{value!r} is not a valid {what}: expected {', '.join(map(str, names))}")
    return value


def check_name(text: str) -> str:
    """Return `text` if it is a safe name of a file or folder; raise UserError if it is not."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", text):
        raise UserError(
            f"{text!r} is not a valid name: expected up to 100 letters, digits and . - _, "
            f"beginning with a letter, a digit or _"
        )
    return text


def check_readable(path: str | Path, most: int = LARGEST_READ) -> Path:
    """Return `path` unless reading it might never end: raise UserError for a device, a pipe, a
    folder, or a file of more than `most` bytes. A missing file is left to its reader."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file: give one")
    if path.exists() and path.stat().st_size > most:
        raise UserError(
            f"{path} has {path.stat().st_size / 1e6:,.0f} MB: at most {most / 1e6:,.0f} are read"
        )
    return path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Write a file whole or not at all: yield a temporary path, and rename it to `path` if the
    block ends without an error. Raises UserError if `path` is a folder or a device."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: give a file")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file: give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_yaml(path: Path, as_text: bool = False) -> Any:
    """Read a YAML file; `as_text` leaves numbers and dates as they are written. Raises UserError,
    with the line, if it is missing or not valid YAML."""
    try:
        text = check_readable(path).read_text(encoding="utf-8")
        if as_text:
            return yaml.load(text, Loader=yaml.CBaseLoader)
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else "?"
        raise UserError(f"{path}, line {line}: {e.problem}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        problem = " ".join(str(getattr(e, "strerror", None) or e).split())
        raise UserError(f"{path}: {problem}") from None


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def tensor(x: ArrayLike, device: torch.device | str | None = None) -> Tensor:
    """Convert to a tensor as `torch.as_tensor` does, also the read-only arrays of pandas."""
    import numpy as np
    import torch

    if not isinstance(x, torch.Tensor):
        x = np.asarray(x)
        x = x if x.flags.writeable else x.copy()
    return torch.as_tensor(x, device=device)


def to_numpy(x: ArrayLike | Tensor) -> np.ndarray:
    """Convert a tensor of any device and precision to NumPy (bfloat16 becomes float32); an array
    stays as it is."""
    import numpy as np

    if not hasattr(x, "detach"):
        return np.asarray(x)
    x = x.detach().cpu()
    return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()


def must_agree(
    actual: ArrayLike, expected: ArrayLike, what: str, atol: float = 1e-8, rtol: float = 1e-5
) -> None:
    """Assert that two arrays agree as `numpy.allclose` asks, and say by how much they differ.

    NaN agrees with NaN: there is nothing to compute in either. `atol` is absolute, `rtol` relative
    to `expected`; `what` names the comparison in the AssertionError."""
    import numpy as np

    a, b = np.broadcast_arrays(*(to_numpy(x).astype(float) for x in (actual, expected)))
    wrong = ~np.isclose(a, b, rtol, atol, equal_nan=True)
    if wrong.any():
        raise AssertionError(
            f"{what}: {wrong.sum():,} of {wrong.size:,} values differ, by up to "
            f"{np.abs(a - b)[wrong].max():.2g} (allowed: {atol:g} and {rtol:g} of "
            "the value)"
        )
