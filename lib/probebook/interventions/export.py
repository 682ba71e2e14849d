"""Steering vectors for other programs: llama.cpp, repeng, steering-vectors.

    save_vectors({12: steering_vector(edit)}, "plural.gguf", "llama")

Layers are those of the library: layer 0 the embeddings, layer L the output of block L, the last one
after the final norm. The programs count blocks from 0 and add a vector to a block's output, so that
layer L is their block L − 1, except for the last layer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike
from safetensors.torch import save_file
from torch import Tensor

from probebook.base import UserError, atomic_write, to_numpy
from probebook.interventions.mean_shift import FittedMeanShift
from probebook.interventions.table import INTERVENTIONS
from probebook.probes.checks import check_labels, check_states


def steering_vector(edit: Any, to: int = 1, h: ArrayLike | None = None) -> Tensor:
    """The vector [d] that an edit adds to a state to move it to class `to`, float64.

    MeanShift adds the same one to every state. Other edits may move all states along one line, each
    by its own length, as AlterRep of rank one does; then the vector is the mean of their moves of
    the states `h` [n, d]. UserError: they move along several lines, or `h` is missing."""
    if isinstance(edit, FittedMeanShift):
        return edit.strength * edit.shifts[check_labels([to], 1, len(edit.shifts))[0]]
    name = type(edit).__name__
    if any(row.fitted is type(edit) and not row.flips for row in INTERVENTIONS.values()):
        raise UserError(f"{name} erases what states have: no vector that is added does that")
    if h is None:
        raise UserError(f"{name} moves states by different lengths: give states h [n, d], too")
    x = check_states(h).double()
    moves = edit(x, to=torch.full((len(x),), to)) - x
    along = moves.mean(0) / moves.mean(0).norm()
    if not (moves - torch.outer(moves @ along, along)).norm() <= 1e-6 * moves.norm():
        raise UserError(
            f"{name} moves states along several lines, so no steering vector is like it"
        )
    return moves.mean(0)


def save_vectors(vectors: Mapping[int, Tensor], path: str | Path, model: str = "unknown") -> None:
    """Write steering vectors, layer → [d], in float32, by the ending of the file's name.

    - `.gguf`: a control vector of llama.cpp, which adds the tensor `direction.N` to the output of
      its block N for N ≥ 1 (`common_control_vector_load_one` in common/common.cpp refuses N = 0;
      `llama_adapter_cvec` in src/llama-adapter.cpp). repeng names blocks alike and reads such a
      file by `ControlVector.import_gguf`. `model`: a hint, `model_type` of its configuration.
    - `.safetensors`: a tensor for each block, named by its number, for
      `SteeringVector({int(n): v for n, v in load_file(path).items()})` of steering-vectors.

    UserError: another ending, a layer that has no such block, or `gguf` is not installed."""
    blocks = {layer - 1: vector.cpu().float().contiguous() for layer, vector in vectors.items()}
    first = {".gguf": 1, ".safetensors": 0}.get(Path(path).suffix)
    if first is None:
        raise UserError(f"{path} is not a valid file: expected a name with .gguf or .safetensors")
    if min(blocks, default=-1) < first:
        raise UserError(f"{path}: expected vectors of layers from {first + 1} on, not {[*vectors]}")
    with atomic_write(Path(path)) as part:
        if first == 0:
            save_file({str(block): vector for block, vector in blocks.items()}, part)
            return
        try:
            from gguf import GGUFWriter
        except ImportError:
            raise UserError("gguf is not installed: pip install 'probebook[gguf]'") from None
        writer = GGUFWriter(part, "controlvector")
        writer.add_string("controlvector.model_hint", model)
        writer.add_uint32("controlvector.layer_count", len(blocks))
        for block, vector in blocks.items():
            writer.add_tensor(f"direction.{block}", to_numpy(vector))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
