"""States and probes that a reader saved elsewhere, in safetensors files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.devices import work_device
from probebook.interventions.serialization import load as load_fitted
from probebook.probes.moments import Moments, moments
from probebook_audit.case import Case, Probe, choice_probabilities, test_rows
from probebook_audit.labelled import Labelled

BLOCK = 1 << 27  # bytes of a block of states in float64
IN_MEMORY = 1 << 29  # bytes of states in float32 that an audit keeps


def from_states(
    data: Labelled, path: str, most: int = 1000, probe: str = "", stream: bool = False
) -> Case:
    """The case of states that were saved elsewhere, in one safetensors file.

    Keys: `h` [n, d], a row for each row of the data; if wanted `pair` [n, d], the states of the
    rewritten texts, and `head` [c, d], one row for each of the model's choices: a choice's
    log-odds are `head @ h`. Blocks of rows are read, and only those of the data's items kept. With
    `stream`, the moments of the other items' states are there as well, for the methods that need no
    more.
    UserError: no such file or key, other shapes, NaN."""
    for name in ("h", "pair"):
        shape = _shape(path, name)
        if shape and shape[0] != data.size:
            raise UserError(
                f"{path}: {name} has {shape[0]:,} rows, {data.name} {data.size:,}: give one "
                "state for each row, in the same order"
            )
    h = read_tensor(path, "h", data.rows)
    if h is None:
        with safe_open(path, "pt") as file:
            shapes = [f"{name} {file.get_slice(name).get_shape()}" for name in file.keys()]
        raise UserError(
            f"{path} has no tensor 'h' [n, d], one state for each row of {data.name}, but "
            f"{', '.join(shapes[:9]) or 'none'}"
        )
    pair, head = read_tensor(path, "pair", data.rows), read_tensor(path, "head")
    for name, other in (("pair", pair), ("head", head)):
        if other is not None and other.shape[1] != h.shape[1]:
            raise UserError(f"{path}: {name} has {other.shape[1]} columns, h {h.shape[1]}")
    if pair is not None and len(data.classes) > 2:
        raise UserError(
            f"{path}: pair needs a label with two values; this one has {len(data.classes)}"
        )
    probs = true = None
    if head is not None:
        probs = choice_probabilities(head)
        true = None if pair is None else probs(pair, torch.arange(0))
    keep = {name: torch.from_numpy(values) for name, values in data.keep.items()}
    paired = None if pair is None else torch.ones(len(h), dtype=torch.bool)
    return Case(
        h,
        torch.from_numpy(data.z),
        len(data.classes),
        keep,
        data.group,
        test_rows(data, most),
        data.text,
        pair,
        paired,
        None,
        probs,
        true,
        saved=load_probe(probe, h.shape[1], len(data.classes)) if probe else None,
        known=data.known,
        **_stream(data, path, h) if stream and len(data.other_rows) else {},
    )


def _stream(data: Labelled, path: str, h: Tensor) -> dict[str, Any]:
    """The fields of a case for the items that were not drawn; `h`: states of those that were."""
    k, rows, origin = len(data.classes), data.other_rows, h.mean(0).to(work_device(h))

    def others(labels: Tensor) -> list[Moments]:
        blocks = ((h, labels[torch.from_numpy(places)]) for places, h in _blocks(path, "h", rows))
        return moments(blocks, k, origin)

    return {"others": others, "other_z": torch.from_numpy(data.other_z)}


def check_others(data: Labelled, path: str) -> None:
    """UserError if the states of the items that were not drawn are missing or not finite."""
    for _ in _blocks(path, "h", data.other_rows):
        pass


def fitting_items(path: str) -> int | None:
    """How many items' states, and those of their rewritten texts, fit in `IN_MEMORY`; None: all.

    UserError: no safetensors file with h [n, d]."""
    shapes = [_shape(path, name) for name in ("h", "pair")]
    size = sum(4 * shape[0] * shape[1] for shape in shapes if shape)
    if size <= IN_MEMORY or not shapes[0]:
        return None
    return int(IN_MEMORY * shapes[0][0] // size)


def _shape(path: str, name: str) -> list[int] | None:
    """Rows and columns of a tensor; None if missing. UserError: no safetensors, no matrix."""
    try:
        with safe_open(path, "pt") as file:
            if name not in file.keys():
                return None
            shape = file.get_slice(name).get_shape()
    except (SafetensorError, OSError) as e:
        problem = " ".join(str(e).split())
        if os.path.isdir(path):
            problem = f"a folder with {', '.join(sorted(os.listdir(path))[:9]) or 'nothing in it'}"
        elif zipfile.is_zipfile(path):
            problem = f"a zip with {', '.join(zipfile.ZipFile(path).namelist()[:9])}"
        raise UserError(
            f"{path} is not a valid safetensors file ({problem}): save_file({{'h': h}}, FILE) "
            "of safetensors.torch writes one"
        ) from None
    if len(shape) != 2:
        raise UserError(
            f"{path}: {name} has the shape {shape}: [rows, columns] is needed, of one layer"
        )
    return shape


def _blocks(path: str, name: str, rows: np.ndarray) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Some rows of a tensor in float32, block by block: places in `rows`, and their states.

    The file is opened for each block, so that the pages that were read can leave the memory.
    UserError: NaN."""
    shape = _shape(path, name)
    assert shape is not None
    size = max(1, BLOCK // (8 * max(1, shape[1])))
    for start in range(0, shape[0], size):
        here = np.flatnonzero((rows >= start) & (rows < start + size))
        if len(here):
            with safe_open(path, "pt") as file:
                states = file.get_slice(name)[start : start + size]
            chosen = states[torch.from_numpy(rows[here] - start)].float()
            bad = np.flatnonzero(~to_numpy(chosen.isfinite().all(1)))
            if len(bad):
                raise UserError(
                    f"{path}: row {rows[here[bad[0]]] + 1:,} of {name} holds NaN or "
                    "infinite values: embed that text again, or drop it"
                )
            yield here, chosen


def load_probe(path: str, width: int, k: int) -> Probe:
    """Load a reader's probe: what `interventions.serialization.save` wrote, or a safetensors file
    with `weight` [k, d] and `bias` [k]. UserError: it does not fit the states and classes."""
    weight = read_tensor(path, "weight")
    if weight is None:
        probe = load_fitted(path)
    else:
        with safe_open(path, "pt") as file:
            bias = file.get_tensor("bias").float() if "bias" in file.keys() else torch.zeros(k)

        def probe(h: Tensor) -> Tensor:
            return h @ weight.to(h).T + bias.to(h)

    try:
        shape = tuple(probe(torch.zeros(2, width)).shape)
    except (RuntimeError, TypeError, UserError) as e:
        raise UserError(
            f"{path} does not read states of {width} dimensions ({str(e).splitlines()[0]})"
        ) from None
    if shape != (2, k):
        raise UserError(
            f"{path} gives {shape[-1]} logits for each state; the label has {k} classes"
        )
    return probe


def read_tensor(path: str, name: str, rows: np.ndarray | None = None) -> Tensor | None:
    """A tensor of a safetensors file in float32, or only some of its rows; None if missing."""
    shape = _shape(path, name)
    if shape is None:
        return None
    rows = np.arange(shape[0]) if rows is None else rows
    tensor = torch.empty(len(rows), shape[1])
    for places, h in _blocks(path, name, rows):
        tensor[torch.from_numpy(places)] = h
    return tensor
