"""The network of a reader: a float32 copy of an encoder, and the heads that read its states."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from safetensors.torch import load_file
from torch import Tensor, nn

from probebook.base import UserError
from probebook.devices import mixed_precision, send
from probebook.models.cache import digest_in_order
from probebook.models.classifier import Classifier
from probebook.models.loading import POCKET
from probebook.models.readers import windows
from probebook.models.readers.heads import HEADS
from probebook.models.readers.windows import Windows
from probebook.models.training.finetune import torch_seed

if TYPE_CHECKING:
    from transformers.modeling_outputs import BaseModelOutput

    from probebook.models.readers.reader import Reader


class Network(nn.Module):
    """An encoder and the heads that a recipe names."""

    def __init__(self, recipe: Reader):
        super().__init__()
        self.recipe = recipe
        self.body = Classifier(encoder=recipe.encoder).body()
        with torch_seed(recipe.seed):
            heads = HEADS[recipe.heads](self.body.width, recipe.tagging)
        self.heads = heads.to(self.body.device)
        self.base = self.body.base.requires_grad_(True)
        if recipe.start:
            self.load_state_dict(saved_weights(recipe.start), strict=False)
        self.base.get_input_embeddings().requires_grad_(recipe.embeddings)
        self.segments = "token_type_ids" in signature(self.base.forward).parameters

    def window_length(self) -> int:
        """The most tokens of a window: the recipe's, or what the encoder's positions allow."""
        tables = [
            module
            for name, module in self.base.named_modules()
            if name.endswith("position_embeddings")
        ]
        return min([self.recipe.max_length, *(table.num_embeddings - 2 for table in tables)])

    def windows(self, table: pd.DataFrame) -> Windows:
        """The questions and stories of a table as windows of tokens."""
        return windows.cut(
            table,
            self.body.tokenizer,
            self.recipe.context,
            self.window_length(),
            self.recipe.stride,
        )

    @property
    def fingerprint(self) -> str:
        """Hash of the weights."""
        return digest_in_order(self.state_dict().items())

    def trained_parameters(self) -> dict[str, Tensor]:
        """All that training changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def batch(self, cut: Windows, rows: np.ndarray) -> dict[str, Tensor]:
        """Some windows, padded, on the network's device (`Windows.padded`)."""
        return {name: send(tensor, self.body.device) for name, tensor in cut.padded(rows).items()}

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """States [b, t, d] float32 and the heads' logits."""
        h = self.encode(batch).last_hidden_state.float()
        return h, self.heads(h, batch)

    def encode(self, batch: dict[str, Tensor], layers: bool = False) -> BaseModelOutput:
        """The encoder's output; `layers`: with all hidden states."""
        types = {"token_type_ids": batch["types"]} if self.segments else {}
        with mixed_precision(self.body.device):
            return self.base(
                input_ids=batch["ids"],
                attention_mask=batch["mask"],
                output_hidden_states=layers,
                **types,
            )


def reader_folder(name: str | Path) -> Path:
    """Return the folder of a shipped reader, or of one that was saved. UserError: there is none."""
    for folder in (POCKET / name, Path(name)):
        if (folder / "reader.safetensors").exists():
            return folder
    shipped = ", ".join(sorted(path.parent.name for path in POCKET.glob("*/reader.safetensors")))
    raise UserError(
        f"{str(name)!r} is not a reader: expected {shipped}, "
        "or a folder that FittedReader.save wrote"
    )


def saved_weights(name: str | Path) -> dict[str, Tensor]:
    """Load the weights of a saved reader (float16), by name."""
    return load_file(reader_folder(name) / "reader.safetensors")
