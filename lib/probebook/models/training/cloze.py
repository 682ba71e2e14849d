"""A model's own language modelling, gone on with."""
from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F


class Cloze:
    """A model's own language modelling: `change` masks a batch's ids, `loss` is the cross-entropy at what was masked.

    For a masked model BERT's 15 % (transformers' collator); for a decoder the next token of every one, nothing masked.
    Without a language-model head the loss is 0."""

    def __init__(self, body):
        from transformers import DataCollatorForLanguageModeling

        self.body = body
        self.head = None if body.kind == "encoder" or not hasattr(body.net, "get_output_embeddings") else body.head
        self.collator = DataCollatorForLanguageModeling(body.tokenizer) if body.kind == "masked" else None

    def change(self, batch) -> torch.Tensor:
        if self.collator is None:
            self.labels = batch.ids.masked_fill(batch.mask == 0, -100).roll(-1, 1)
            self.labels[:, -1] = -100
            return batch.ids
        fixed = np.isin(batch.ids.numpy(), self.body.tokenizer.all_special_ids)
        ids, self.labels = self.collator.torch_mask_tokens(batch.ids.clone(), torch.from_numpy(fixed))
        return ids

    def loss(self, hidden: torch.Tensor) -> torch.Tensor:
        chosen = (self.labels != -100).to(hidden.device)
        if self.head is None or not chosen.any():
            return 0 * hidden.sum()
        return F.cross_entropy(self.head(hidden[chosen]).float(), self.labels.to(hidden.device)[chosen])
