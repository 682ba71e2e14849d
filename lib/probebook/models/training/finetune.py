"""What training a classifier takes: a head, an LSTM, batches of like length."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from probebook.models.batches import Batch, position_weights
from probebook.models.cut import upper
from probebook.models.loading import Model, mixed_precision


@dataclass(frozen=True, eq=False)
class Head:
    """Logits [n, k] = out · tanh(dense · h + bias) + out_bias of states h [n, d], in the dtype and on the device of h.

    RoBERTa's classification head (Abraham et al., § C.2) without its dropouts; differentiable in h."""

    dense: torch.Tensor
    bias: torch.Tensor
    out: torch.Tensor
    out_bias: torch.Tensor

    def __call__(self, h: torch.Tensor) -> torch.Tensor:
        dense, bias, out, out_bias = (t.to(h) for t in self.tensors().values())
        return F.linear(F.linear(h, dense, bias).tanh(), out, out_bias)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def net(self, dropout: float) -> nn.Sequential:
        """The head with its two dropouts, to be trained."""
        (k, d) = self.out.shape
        net = nn.Sequential(nn.Dropout(dropout), nn.Linear(d, d), nn.Tanh(), nn.Dropout(dropout), nn.Linear(d, k))
        with torch.no_grad():
            for parameter, tensor in zip(net.parameters(), self.tensors().values()):
                parameter.copy_(tensor)
        return net

    @staticmethod
    def of(net: nn.Sequential) -> Head:
        """What `net` has learnt."""
        return Head(*(p.detach().cpu() for p in net.parameters()))

    @staticmethod
    def drawn(width: int, k: int, seed: int) -> Head:
        """As fine-tuning begins: weights normal with deviation .02, biases 0."""
        draws = torch.Generator().manual_seed(seed)
        return Head(.02 * torch.randn(width, width, generator=draws), torch.zeros(width),
                    .02 * torch.randn(k, width, generator=draws), torch.zeros(k))


def train_head(h: torch.Tensor, z: torch.Tensor, start: Head, epochs: int, batch: int, lr: float, seed: int,
               dropout: float = .1) -> Head:
    """`start` trained on states h [n, d] and classes z [n] alone: AdamW, seeded batches, lr falling linearly to 0."""
    if epochs == 0:
        return start
    net, draws = start.net(dropout), np.random.default_rng(seed)
    optimizer, schedule = _optimizer(net.parameters(), lr, epochs * -(-len(h) // batch))
    with seeded(seed), torch.enable_grad():
        for _ in range(epochs):
            for rows in torch.from_numpy(draws.permutation(len(h))).split(batch):
                optimizer.zero_grad()
                F.cross_entropy(net(h[rows].float()), z[rows]).backward()
                optimizer.step()
                schedule.step()
    return Head.of(net)


class LSTM(nn.Module):
    """A left-to-right LSTM with dot attention (Luong et al. 2015): tanh W [context; h] at each token, in which the
    context is the mean of all h weighted by softmax of their products with this one. Looks like a base network."""

    def __init__(self, embeddings: torch.Tensor):
        super().__init__()
        d = embeddings.shape[1]
        self.config = SimpleNamespace(hidden_size=d)
        self.embeddings = nn.Embedding.from_pretrained(embeddings.detach().clone())
        self.layers = nn.ModuleList([nn.LSTM(d, d, batch_first=True)])
        self.join = nn.Linear(2 * d, d, bias=False)

    @property
    def base_model(self) -> LSTM:
        return self

    def forward(self, input_ids, attention_mask=None):
        h, _ = self.layers[0](self.embeddings(input_ids))
        products = h @ h.mT
        if attention_mask is not None:
            products = products.masked_fill(attention_mask[:, None] == 0, -torch.inf)
        return SimpleNamespace(last_hidden_state=self.join(torch.cat([products.softmax(2) @ h, h], 2)).tanh())


class Trainer:
    """Goes over texts in batches of like length: yields rows, their states [b, d] at `at`, and all states [b, t, d].

    The caller hands the loss to `step`, which updates `parameters` (AdamW, norm of the gradient at most 1, lr falling
    linearly to 0). Orders and dropouts come from the seed alone. `change`: what to read in place of a batch's ids;
    `steps`: at most so many of the batches."""

    def __init__(self, body: Model, texts: Sequence[str], at: str, parameters: Sequence[nn.Parameter], epochs: int,
                 batch: int, lr: float, seed: int, change: Callable[[Batch], torch.Tensor] = lambda batch: batch.ids,
                 steps: int | None = None):
        self.body, self.parameters, self.batch, self.seed = body, list(parameters), batch, seed
        self.change, self.weights = change, position_weights(texts, body, at)
        self.ids = body.tokenizer(texts)["input_ids"]
        draws = np.random.default_rng(seed)
        self.orders = [rows for _ in range(epochs) for rows in self._epoch(draws)][:steps]
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        self.optimizer, self.schedule = _optimizer(self.parameters, lr, len(self.orders))
        if body.device.type == "cpu" and hasattr(body.net, "set_attn_implementation"):
            body.net.set_attn_implementation("eager")    # on texts this short twice the steps/s of the fused kernel

    def __iter__(self) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
        device = self.body.device
        with seeded(self.seed), torch.enable_grad():
            self.body.net.train()
            for rows in self.orders:
                batch = Batch(rows, self.ids, self.weights, self.body.tokenizer.pad_token_id)
                with mixed_precision(device):
                    out = self.body.base(input_ids=self.change(batch).to(device), attention_mask=batch.mask.to(device))
                hidden = out.last_hidden_state.float()
                yield rows, (batch.weights.to(hidden)[:, None] @ hidden)[:, 0], hidden
            self.body.net.eval()

    def step(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.schedule.step()

    def _epoch(self, draws) -> list[list[int]]:
        """Rows of each batch: like lengths together within every 16 batches' rows; the batches in random order."""
        order, found = draws.permutation(len(self.ids)).tolist(), []
        for i in range(0, len(order), 16 * self.batch):
            rows = sorted(order[i:i + 16 * self.batch], key=lambda r: len(self.ids[r]))
            found += [rows[j:j + self.batch] for j in range(0, len(rows), self.batch)]
        return [found[i] for i in draws.permutation(len(found))]


def _optimizer(parameters, lr, steps):
    optimizer = torch.optim.AdamW(parameters, lr, weight_decay=0, fused=True)
    return optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, steps)


@contextmanager
def seeded(seed: int):
    """Inside, torch's own random numbers come from the seed; outside they are as if nothing had been drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def learnt(body: Model) -> dict[str, torch.Tensor]:
    """The weights of the body's base network after training, named `body.…`; of a cut model those above the cut."""
    frozen = dict(body.base.named_parameters()).keys() - upper(body, body.base).keys()
    return {f"body.{name}": t for name, t in body.base.state_dict().items() if name not in frozen}


def restored(body: Model, tensors: dict[str, torch.Tensor]) -> Model:
    """The body with its base network's weights replaced by those named `body.…`, where there are any."""
    state = {k.removeprefix("body."): v for k, v in tensors.items() if k.startswith("body.")}
    if state:
        body.base.load_state_dict(body.base.state_dict() | state)
    return body
