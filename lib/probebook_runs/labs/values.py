"""Plain data in JSON: answers, and what a check hands to a student's function.

Submission output is decoded to plain types only: numbers, texts, arrays, tables and tuples, never
an object of the submission's making, a subclass or code. Anything else becomes an `Other`, which no
check accepts."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

DTYPES = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64", "U": "str"}
LIBRARY = ("probebook.", "probebook_")  # how its modules' names begin
NARROW = {"float16", "float32", "int32", "uint8"}  # other dtypes of a kind become the one above


class Other:
    """Stands for an answer that is no plain data, under the name of that answer's class."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def encode(value: Any) -> Any:
    """The value as JSON can hold it."""
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return encode(value.item())
    if value is ...:
        return {"is": "..."}
    if isinstance(value, Real):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, list | range):
        return [*map(encode, value)]
    if (names := _fields(value)) is not None:
        return {
            "is": "record",
            "of": [encode(getattr(value, name)) for name in names],
            "fields": names,
            "class": [type(value).__module__, type(value).__name__],
        }
    if isinstance(value, tuple):
        return {"is": "tuple", "of": [*map(encode, value)]}
    if isinstance(value, Mapping):
        return {"is": "dict", "of": [[encode(key), encode(of)] for key, of in value.items()]}
    if isinstance(value, pd.Series):
        index = [*map(encode, value.index)]
        return {"is": "series", "of": _array(value.to_numpy()), "index": index}
    if hasattr(value, "detach"):
        return _array(value.detach().cpu().numpy()) | {"is": "tensor"}
    if isinstance(value, np.ndarray | pd.DataFrame | pd.Index):
        return _array(value.to_numpy() if hasattr(value, "to_numpy") else value)
    return {"is": "other", "of": type(value).__name__}


def _fields(value: Any) -> list[str] | None:
    """The fields of a named tuple, or of a dataclass of this library; None where it is neither."""
    if isinstance(value, tuple):
        return [*map(str, value._fields)] if hasattr(value, "_fields") else None
    if is_dataclass(value) and type(value).__module__.startswith(LIBRARY):
        return [field.name for field in fields(value)]
    return None


def _array(value: np.ndarray) -> dict:
    dtype, entries = DTYPES.get(value.dtype.kind, "object"), value.ravel().tolist()
    return {
        "is": "array",
        "dtype": value.dtype.name if value.dtype.name in NARROW else dtype,
        "shape": value.shape,
        "of": [*map(encode, entries)] if dtype == "object" else entries,
    }


def decode(data: Any, records: bool = False) -> Any:
    """The value that `encode` made this of. ValueError, KeyError, TypeError: it did not.

    A record becomes a tuple; with `records`, for data of the checks, what it was: an instance of
    the library's class, or a named tuple."""
    whole = partial(decode, records=records)
    if isinstance(data, list):
        return [*map(whole, data)]
    if not isinstance(data, dict):
        return data
    kind: str = data["is"]
    of: Any = data.get("of")
    if kind == "...":
        return ...
    if kind == "tuple" or kind == "record" and not records:
        return tuple(map(whole, of))
    if kind == "record":
        module, name = data["class"]
        if module.startswith(LIBRARY):
            return getattr(import_module(module), name)(*map(whole, of))
        return namedtuple(name, data["fields"], rename=True)(*map(whole, of))  # type: ignore[misc]
    if kind == "dict":
        return {whole(key): whole(value) for key, value in of}
    if kind == "series":
        index = [*map(whole, data["index"])]
        several = bool(index) and all(isinstance(label, tuple) for label in index)
        return pd.Series(whole(of), pd.MultiIndex.from_tuples(index) if several else index)
    if kind in ("array", "tensor"):
        if data["dtype"] not in (*DTYPES.values(), *NARROW, "object"):
            raise ValueError(f"no array of {data['dtype']!r}")
        flat: np.ndarray = np.empty(len(of), object)
        flat[:] = [*map(whole, of)]
        array: np.ndarray = flat.astype(data["dtype"]).reshape(data["shape"])
        if kind == "array":
            return array
        import torch

        return torch.as_tensor(array)
    if kind == "other" and isinstance(of, str):
        return type(of[:60], (Other,), {})()
    raise ValueError(f"no value is {kind!r}")
