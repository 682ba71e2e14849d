"""States and probes that a reader saved elsewhere: in one file, or in a file for each text."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.devices import place_states, work_device
from probebook.interventions.serialization import load as load_fitted
from probebook.probes.moments import Moments, moments
from probebook_audit.case import Case, Probe, choice_probabilities, test_rows
from probebook_audit.labelled import Labelled

BLOCK = 1 << 27  # bytes of a block of states in float64
IN_FOLDER = "The last token in each file of {} was read."
IN_MEMORY = 1 << 29  # bytes of states in float32 that an audit keeps


def from_states(
    data: Labelled,
    path: str,
    most: int = 1000,
    probe: str = "",
    stream: bool = False,
    key: str = "",
    layer: int | None = None,
) -> Case:
    """The case of states that were saved elsewhere, in one file or a folder.

    A file, safetensors, `.npz` or `.npy`, holds the states [n, d] of all rows of the data or, of
    several layers, [n, layers, d]. In a folder the files' names number the rows; each holds a
    text's tokens in place of n, of which the last is taken, or one state [d]. A file may also have
    `pair`, the states of the rewritten texts in the same form, and `head` [c, d], one row for each
    of the model's choices: a choice's log-odds are `head @ h`.

    Blocks of rows are read (of `.npz` all), and only those of the data's items kept. With `stream`,
    the moments of the other items' states are there as well, for the methods that need no more.
    `key` names the states; without it they are `h`, or else the only array that fits. `layer` is
    one's place among several. UserError: no such file, array or layer, other shapes, pickled
    objects, NaN."""
    key = _choose(path, key, data.size)
    h, pair = (read_tensor(path, name, data.rows, layer, data.size) for name in (key, "pair"))
    assert h is not None
    head = read_tensor(path, "head")
    for name, other in (("pair", pair), ("head", head)):
        if other is not None and other.shape[1] != h.shape[1]:
            raise UserError(f"{path}: {name} has {other.shape[1]} columns, {key} {h.shape[1]}")
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
        notes=(IN_FOLDER.format(path),) * os.path.isdir(path),
        **_stream(data, (path, key, layer), h) if stream and len(data.other_rows) else {},
    )


def join_states(
    data: Labelled, ends: Sequence[int], paths: Sequence[str], key: str, layer: int | None
) -> Tensor:
    """The states [n, d] of items of several tables, whose rows end at `ends` in the data
    (`labelled.read_together`): each table's in a file of its own. UserError as `from_states`."""
    parts: list[Any] = []
    for path, start, end in zip(paths, [0, *ends], ends):
        rows = data.rows[(data.rows >= start) & (data.rows < end)] - start
        name = _choose(path, key, end - start)
        parts.append(read_tensor(path, name, rows, layer, end - start))
        if parts[-1].shape[1] != (width := parts[0].shape[1]):
            raise UserError(f"{path}: {name} has {parts[-1].shape[1]} columns, {paths[0]} {width}")
    return place_states(torch.cat(parts))


def _stream(data: Labelled, place: tuple[str, str, int | None], h: Tensor) -> dict[str, Any]:
    """The fields of a case for the items that were not drawn; `h`: states of those that were."""
    k, rows, origin = len(data.classes), data.other_rows, h.mean(0).to(work_device(h))

    def others(labels: Tensor) -> list[Moments]:
        blocks = ((h, labels[torch.from_numpy(places)]) for places, h in _blocks(*place, rows))
        return moments(blocks, k, origin)

    return {"others": others, "other_z": torch.from_numpy(data.other_z)}


def check_others(data: Labelled, path: str, key: str = "", layer: int | None = None) -> None:
    """UserError if the states of the items that were not drawn are missing or not finite."""
    for _ in _blocks(path, _choose(path, key, data.size), layer, data.other_rows):
        pass


def fitting_items(path: str, key: str = "") -> int | None:
    """How many items' states, and those of their rewritten texts, fit in `IN_MEMORY`; None: all.

    If no key is given, the largest array counts. UserError: no such file."""
    arrays = _open(path)
    shapes = [_form(array) for name, array in arrays.items() if name in (key or name, "pair")]
    sizes = [(4 * shape[0] * shape[-1], shape[0]) for shape in shapes if len(shape) > 1]
    size, rows = max(sizes, default=(0, 0))
    size *= 1 + ("pair" in arrays)
    return None if size <= IN_MEMORY else int(IN_MEMORY * rows // size)


def _open(path: str) -> dict[str, Any]:
    """The arrays of a file, or of the files of a folder, by their keys ("array" in `.npy`); what
    is asked of one by an index is read. UserError: another file, a pickle."""
    if os.path.isdir(path):
        return _of_folder(Path(path))
    kind = Path(path).suffix if Path(path).suffix in (".npy", ".npz") else "safetensors"
    try:
        if kind == "safetensors":
            file = safe_open(path, "pt")
            return {name: file.get_slice(name) for name in file.keys()}
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        return {"array": found} if kind == ".npy" else dict(found)
    except (SafetensorError, OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        problem = " ".join(str(e).split()).split(". If you trust")[0]
        if kind == "safetensors" and zipfile.is_zipfile(path):
            problem = f"a zip with {', '.join(zipfile.ZipFile(path).namelist()[:9])}"
        raise UserError(
            f"{path} is not a valid {kind} file ({problem}): save_file({{'h': h}}, FILE) "
            "of safetensors.torch writes one"
        ) from None


def _of_folder(folder: Path) -> dict[str, Any]:
    """The arrays whose rows are the last tokens' states in the files of a folder, in the order of
    that number in their names that counts them without a gap."""
    files = [one for one in folder.iterdir() if one.suffix in (".safetensors", ".npy", ".npz")]
    for numbers in zip(*(map(int, re.findall(r"\d+", file.stem)) for file in files)):
        if sorted(numbers) == [*range(min(numbers), min(numbers) + len(files))]:
            ordered = [str(file) for _, file in sorted(zip(numbers, files))]
            first = _open(ordered[0])
            floats = [name for name in first if "F" in _type(first[name])]
            return {name: _LastTokens(ordered, name, _form(first[name])) for name in floats}
    held = ", ".join(one.name for one in sorted(files or folder.iterdir())[:3])
    raise UserError(
        f"{folder} is a folder with {held or 'nothing in it'}: expected a file for each row of the "
        "data, numbered without gaps: 0.safetensors, 1.safetensors … (or .npy, .npz)"
    )


@dataclass(frozen=True)
class _LastTokens:
    """The array of a folder: a row is the last one of a file's array, or all of one [d].

    `first`: the shape in the first file."""

    files: list[str]
    name: str
    first: list[int]
    dtype = "F32"

    @property
    def shape(self) -> list[int]:
        return [len(self.files), *(self.first[1:] or self.first)]

    def __getitem__(self, index: tuple) -> Tensor:
        return torch.stack([self._last(file, index[1:]) for file in self.files[index[0]]])

    def _last(self, file: str, layer: tuple) -> Tensor:
        arrays = _open(file)
        shape = _form(arrays[self.name]) if self.name in arrays else [0]
        if 0 in shape or (shape[1:] or shape) != self.shape[1:]:
            form = ", ".join(map(str, ["tokens", *self.shape[1:]]))
            raise UserError(f"{file} holds {_list(arrays)}: expected {self.name} [{form}]")
        place = (shape[0] - 1, *layer) if len(shape) > 1 else (slice(None),)
        return _tensor(arrays[self.name][place])


def _form(array: Any) -> list[int]:
    return array.get_shape() if hasattr(array, "get_shape") else [*array.shape]


def _type(array: Any) -> str:
    return array.get_dtype() if hasattr(array, "get_dtype") else str(array.dtype).upper()


def _tensor(array: Any) -> Tensor:
    """What was read, in float32."""
    return (array if isinstance(array, Tensor) else torch.tensor(array.astype("float32"))).float()


def _list(arrays: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_form(one)}" for name, one in [*arrays.items()][:9]) or "nothing"


def _choose(path: str, key: str, size: int) -> str:
    """The key of the states of `size` rows: the given one, `h`, or that of the only array of floats
    with the form, if need be with as many rows. UserError: there is none, or several."""
    arrays = _open(path)
    others = [
        name for name in arrays if name not in ("pair", "head") and "F" in _type(arrays[name])
    ]
    fitting = [name for name in others if len(_form(arrays[name])) in (2, 3)]
    if len(fitting) > 1:
        fitting = [name for name in fitting if _form(arrays[name])[0] == size]
    names = [key] if key else ["h"] if "h" in arrays else fitting
    if len(names) != 1 or names[0] not in arrays:
        held = _list(arrays) + (f", no {key!r}" if key else "")
        raise UserError(f"{path} holds {held}: name the states [{size}, columns] by --states-key")
    return names[0]


def _shape(path: str, name: str, layer: int | None = None) -> list[int] | None:
    """Rows and columns of an array, of which only a layer may be read; None if missing. UserError:
    it is no matrix, or has no such layer."""
    arrays = _open(path)
    if name not in arrays:
        return None
    shape = _form(arrays[name])
    several = shape[1] if len(shape) == 3 else 0
    single = layer is None and (len(shape) == 2 or several == 1)
    if single or layer is not None and -several <= layer < several:
        return [shape[0], shape[-1]]
    need = "[rows, columns]" if layer is None else "[rows, layers, columns] for --states-layer"
    need = f"one layer, by --states-layer 0 … {several - 1}," if several else need
    raise UserError(f"{path}: {name} has the shape {shape}: {need} is needed")


def _blocks(
    path: str, name: str, layer: int | None, rows: np.ndarray
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Some rows of an array in float32, block by block: places in `rows`, and their states.

    The file is opened for each block, so that the pages that were read can leave the memory.
    UserError: NaN."""
    shape = _shape(path, name, layer)
    assert shape is not None
    size = shape[0] if path.endswith(".npz") else max(1, BLOCK // (8 * max(1, shape[1])))
    for start in range(0, shape[0], size):
        here = np.flatnonzero((rows >= start) & (rows < start + size))
        if len(here):
            array = _open(path)[name]
            of_layer = (layer or 0,) if len(_form(array)) == 3 else ()
            states = array[(slice(start, start + size), *of_layer)]
            chosen = _tensor(states[rows[here] - start])
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
        given = _open(path).get("bias")
        bias = torch.zeros(k) if given is None else _tensor(given[:])

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


def read_tensor(
    path: str,
    name: str,
    rows: np.ndarray | None = None,
    layer: int | None = None,
    size: int | None = None,
) -> Tensor | None:
    """An array of a file in float32, or only some rows and one layer of it; None if missing.
    UserError: it has not `size` rows."""
    shape = _shape(path, name, layer)
    if shape is None:
        return None
    if size not in (None, shape[0]):
        raise UserError(
            f"{path}: {name} has {shape[0]:,} rows, the data {size:,}: give one state for each "
            "row, in the same order"
        )
    rows = np.arange(shape[0]) if rows is None else rows
    tensor = torch.empty(len(rows), shape[1])
    for places, h in _blocks(path, name, layer, rows):
        tensor[torch.from_numpy(places)] = h
    return tensor
