"""States and probes that a reader saved elsewhere, in safetensors files."""
from __future__ import annotations

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from probebook.base import UserError
from probebook.corpora.labelled import Labelled
from probebook.experiments.audit.case import Case, Probe, choices, test_rows
from probebook.interventions.serialization import load as load_fitted
from probebook.probes.checks import check_states


def from_states(data: Labelled, path: str, most: int = 1000, probe: str = "") -> Case:
    """The case of states that were saved elsewhere, in one safetensors file.

    Keys: `h` [n, d], a row for each row of the data; if wanted `pair` [n, d], the states of the
    rewritten texts, and `head` [c, d], one row for each of the model's choices: a choice's
    log-odds are `head @ h`. Blocks of rows are read, and only those of the data's items kept.
    UserError: no such file or key, other shapes, NaN."""
    h = saved(path, "h", data.rows)
    if h is None:
        raise UserError(f"{path} has no tensor 'h' [n, d]: one state for each row of {data.name}")
    pair, head = saved(path, "pair", data.rows), saved(path, "head")
    for name, other in (("pair", pair), ("head", head)):
        if other is not None and other.shape[1] != h.shape[1]:
            raise UserError(f"{path}: {name} has {other.shape[1]} columns, h {h.shape[1]}")
    if pair is not None and len(data.classes) > 2:
        raise UserError(f"{path}: pair needs a label with two values; this one has "
                        f"{len(data.classes)}")
    probs = true = None
    if head is not None:
        probs = choices(head)
        true = None if pair is None else probs(pair, torch.arange(0))
    keep = {name: torch.from_numpy(values) for name, values in data.keep.items()}
    paired = None if pair is None else torch.ones(len(h), dtype=torch.bool)
    return Case(h, torch.from_numpy(data.z), len(data.classes), keep, data.group,
                test_rows(data, most), data.text, pair, paired, None, probs, true,
                saved=saved_probe(probe, h.shape[1], len(data.classes)) if probe else None)


def saved_probe(path: str, width: int, k: int) -> Probe:
    """A probe that a reader brings: what `interventions.serialization.save` wrote, or a safetensors
    file with `weight` [k, d] and `bias` [k]. UserError: it does not fit the states and classes."""
    weight = saved(path, "weight")
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
        raise UserError(f"{path} does not read states of {width} dimensions "
                        f"({str(e).splitlines()[0]})") from None
    if shape != (2, k):
        raise UserError(f"{path} gives {shape[-1]} logits for each state; the label has {k} "
                        "classes")
    return probe


def saved(path: str, name: str, rows: np.ndarray | None = None, block: int = 1 << 15
           ) -> Tensor | None:
    """A tensor of a safetensors file in float32, or only some of its rows; None if missing."""
    try:
        with safe_open(path, "pt") as file:
            if name not in file.keys():
                return None
            part = file.get_slice(name)
            shape = part.get_shape()
            if len(shape) != 2:
                raise UserError(f"{path}: {name} has the shape {shape}: [rows, columns] is needed")
            if rows is not None and len(rows) and shape[0] <= rows.max():
                raise UserError(f"{path}: {name} has {shape[0]:,} rows, the data at least "
                                f"{rows.max() + 1:,}: give one state for each row")
            wanted = np.arange(shape[0]) if rows is None else rows
            found = torch.empty(len(wanted), shape[1])
            for start in range(0, shape[0], block):
                here = np.flatnonzero((wanted >= start) & (wanted < start + block))
                if len(here):
                    states = part[start:start + block].float()
                    found[here] = states[torch.from_numpy(wanted[here] - start)]
    except (SafetensorError, OSError) as e:
        raise UserError(f"{path} is no safetensors file ({' '.join(str(e).split())})") from None
    return check_states(found)
