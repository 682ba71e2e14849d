"""A loaded model's own language-modelling task, to be trained further."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from probebook.base import to_numpy
from probebook.models.batches import Batch
from probebook.models.loading import Model


class Cloze:
    """`change` masks a batch's ids; `loss` is the cross-entropy at the masked places.

    A masked model gets BERT's 15 % (transformers' collator). A decoder predicts every next token,
    and nothing is masked. Without a language-model head the loss is 0."""

    def __init__(self, body: Model):
        from transformers import DataCollatorForLanguageModeling

        has_head = body.kind in ("masked", "causal") and hasattr(body.net, "get_output_embeddings")
        masked = body.kind == "masked"
        self.body, self.head = body, body.head if has_head else None
        self.collator = DataCollatorForLanguageModeling(body.tokenizer) if masked else None

    def change(self, batch: Batch) -> Tensor:
        """The ids to read in place of the batch's; the labels are kept for `loss`."""
        if self.collator is None:
            self.labels = batch.ids.masked_fill(batch.mask == 0, -100).roll(-1, 1)
            self.labels[:, -1] = -100
            return batch.ids
        fixed = torch.from_numpy(np.isin(to_numpy(batch.ids), self.body.tokenizer.all_special_ids))
        ids, self.labels = self.collator.torch_mask_tokens(batch.ids.clone(), fixed)
        return ids

    def loss(self, hidden: Tensor) -> Tensor:
        """Mean cross-entropy of the last changed batch from its states [b, t, d]."""
        chosen = (self.labels != -100).to(hidden.device)
        if self.head is None or not chosen.any():
            return 0 * hidden.sum()
        logits = self.head(hidden[chosen]).float()
        return F.cross_entropy(logits, self.labels.to(hidden.device)[chosen])
