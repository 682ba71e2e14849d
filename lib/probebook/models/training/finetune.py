"""Fine-tuning: a head, an LSTM, batches of similar length, and a model's own task continued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from probebook.base import to_numpy
from probebook.devices import mixed_precision, send
from probebook.models.batches import Batch, positions, tokenize
from probebook.models.cut import upper_parameters
from probebook.models.loading import Model


@dataclass(frozen=True, eq=False)
class Head:
    """Logits [n, k] = out · tanh(dense · h + bias) + out_bias of states h [n, d].

    This is RoBERTa's classification head (Abraham et al., § C.2) without its dropouts. The result
    has the dtype and device of h and is differentiable in it."""

    dense: Tensor
    bias: Tensor
    out: Tensor
    out_bias: Tensor

    def __call__(self, h: Tensor) -> Tensor:
        dense, bias, out, out_bias = (t.to(h) for t in self.tensors().values())
        return F.linear(F.linear(h, dense, bias).tanh(), out, out_bias)

    def tensors(self) -> dict[str, Tensor]:
        """The four tensors by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def net(self, dropout: float) -> nn.Sequential:
        """The head with its two dropouts, to be trained."""
        (k, d), drop = self.out.shape, Dropout(dropout)
        net = nn.Sequential(drop, nn.Linear(d, d), nn.Tanh(), drop, nn.Linear(d, k))
        with torch.no_grad():
            for parameter, tensor in zip(net.parameters(), self.tensors().values()):
                parameter.copy_(tensor)
        return net

    @staticmethod
    def from_module(net: nn.Sequential) -> Head:
        """The head that `net` has become by training."""
        return Head(*(p.detach().cpu() for p in net.parameters()))

    @staticmethod
    def initial(width: int, k: int, seed: int) -> Head:
        """The start of fine-tuning: weights normal with standard deviation .02, biases 0."""
        draws = torch.Generator().manual_seed(seed)
        return Head(
            0.02 * torch.randn(width, width, generator=draws),
            torch.zeros(width),
            0.02 * torch.randn(k, width, generator=draws),
            torch.zeros(k),
        )


class Dropout(nn.Dropout):
    """Dropout that draws on the CPU, so that a seed drops the same units on every device."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        mask = torch.empty(x.shape, dtype=x.dtype).bernoulli_(1 - self.p).div_(1 - self.p)
        return x * mask.to(x.device)


def train_head(
    h: Tensor,
    z: Tensor,
    start: Head,
    epochs: int,
    batch: int,
    lr: float,
    seed: int,
    dropout: float = 0.1,
) -> Head:
    """Train only the head on states [n, d] of classes z [n], by AdamW in seeded batches.

    The learning rate falls linearly to 0."""
    if epochs == 0:
        return start
    net, draws, z = start.net(dropout).to(h.device), np.random.default_rng(seed), z.to(h.device)
    optimizer, schedule = _optimizer(net.parameters(), lr, epochs * -(-len(h) // batch))
    with torch_seed(seed), torch.enable_grad():
        for _ in range(epochs):
            for rows in torch.from_numpy(draws.permutation(len(h))).split(batch):
                optimizer.zero_grad()
                F.cross_entropy(net(h[rows].float()), z[rows]).backward()
                optimizer.step()
                schedule.step()
    return Head.from_module(net)


class LSTM(nn.Module):
    """A left-to-right LSTM with dot attention (Luong et al. 2015), used like a base network.

    At each token it gives tanh W [context; h]; the context is the mean of all h, weighted by the
    softmax of their products with this one."""

    def __init__(self, embeddings: Tensor):
        from transformers import PreTrainedConfig

        super().__init__()
        d = embeddings.shape[1]
        self.config = PreTrainedConfig(hidden_size=d)
        self.embeddings = nn.Embedding.from_pretrained(embeddings.detach().clone())
        self.layers = nn.ModuleList([nn.LSTM(d, d, batch_first=True)])
        self.join = nn.Linear(2 * d, d, bias=False)

    def get_decoder(self) -> LSTM:
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        h, _ = self.layers[0](self.embeddings(input_ids))
        products = h @ h.mT
        if attention_mask is not None:
            products = products.masked_fill(attention_mask[:, None] == 0, -torch.inf)
        context = products.softmax(2) @ h
        return SimpleNamespace(last_hidden_state=self.join(torch.cat([context, h], 2)).tanh())


class Trainer:
    """Trains on texts in batches of similar length, by AdamW; the gradient's norm is at most 1.

    Only the seed decides orders and dropouts.

    - `body`: the model whose base network reads the texts.
    - `at`: where states are read (see `embed`).
    - `parameters`: what is trained.
    - `epochs`, `batch`: passes over the texts, texts in a batch.
    - `lr`: falls linearly to 0.
    - `change`: gives the ids to read in place of those of a batch.
    - `steps`: the largest number of batches (None: all).
    """

    def __init__(
        self,
        body: Model,
        texts: Sequence[str],
        at: str,
        parameters: Iterable[nn.Parameter],
        epochs: int,
        batch: int,
        lr: float,
        seed: int,
        change: Callable[[Batch], Tensor] = lambda batch: batch.ids,
        steps: int | None = None,
    ):
        self.body, self.parameters, self.batch, self.seed = body, list(parameters), batch, seed
        self.change, self.at, self.places = change, at, positions(texts, body, at)
        self.ids = tokenize(texts, body, offsets=False)[1]["input_ids"]
        draws = np.random.default_rng(seed)
        self.orders = [rows for _ in range(epochs) for rows in self._epoch(draws)][:steps]
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        self.optimizer, self.schedule = _optimizer(self.parameters, lr, len(self.orders))

    def fit(self, loss: Callable[[list[int], Tensor, Tensor], Tensor]) -> None:
        """Update `parameters` by the loss of each batch in turn.

        `loss` is given the rows of the batch, their states [b, d] at `at`, and all states
        [b, t, d]. However it ends, torch's seed and its setting of gradients are restored."""
        device, pad = self.body.device, self.body.tokenizer.pad_token_id or 0
        with torch_seed(self.seed), torch.enable_grad(), plain_attention(self.body.net):
            self.body.net.train()
            for rows in self.orders:
                batch = Batch(rows, self.ids, pad, [(self.at, self.places)])
                ids, mask = send(self.change(batch), device), send(batch.mask, device)
                with mixed_precision(device):
                    out = self.body.base(input_ids=ids, attention_mask=mask)
                hidden = out.last_hidden_state.float()
                h = (batch.weights.to(hidden)[:, None] @ hidden)[:, 0]
                self._step(loss(rows, h, hidden))
            self.body.net.eval()

    def _step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.schedule.step()

    def _epoch(self, draws: np.random.Generator) -> list[list[int]]:
        """The rows of each batch: sorted by length within 16 batches, then in random order."""
        order, batches = draws.permutation(len(self.ids)).tolist(), []
        for i in range(0, len(order), 16 * self.batch):
            rows = sorted(order[i : i + 16 * self.batch], key=lambda r: len(self.ids[r]))
            batches += [rows[j : j + self.batch] for j in range(0, len(rows), self.batch)]
        return [batches[i] for i in draws.permutation(len(batches))]


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


def _optimizer(
    parameters: Iterable[nn.Parameter], lr: float, steps: int
) -> tuple[torch.optim.AdamW, torch.optim.lr_scheduler.LinearLR]:
    optimizer = torch.optim.AdamW(parameters, lr, weight_decay=0, fused=True)
    return optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, steps)


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Inside, torch draws from the seed; afterwards it goes on as if nothing had been drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def plain_attention(net: Any) -> Iterator[None]:
    """Inside, a CPU computes attention without the fused kernel: on texts this short, 1.3 to 2
    times the steps of training per second. To read, the kernel is faster."""
    if not hasattr(net, "set_attn_implementation") or net.device.type != "cpu":
        yield
        return
    usual = net.config._attn_implementation
    net.set_attn_implementation("eager")
    try:
        yield
    finally:
        net.set_attn_implementation(usual)


def trained_weights(body: Model) -> dict[str, Tensor]:
    """The weights of the body's base network (of a cut model: above the cut), named `body.…`."""
    frozen = dict(body.base.named_parameters()).keys() - upper_parameters(body, body.base).keys()
    return {f"body.{name}": t for name, t in body.base.state_dict().items() if name not in frozen}


def with_weights(body: Model, tensors: dict[str, Tensor]) -> Model:
    """The body, its base network loaded with the tensors named `body.…`, if there are any."""
    state = {k.removeprefix("body."): v for k, v in tensors.items() if k.startswith("body.")}
    if state:
        body.base.load_state_dict(body.base.state_dict() | state)
    return body
