"""How a reader is trained: a recipe, a table of questions, a loop that resumes after a kill."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from probebook.base import UserError, cache_dir, check_choice
from probebook.models.cache import key_name, load_or_compute
from probebook.models.readers import windows
from probebook.models.readers.fitted_reader import FittedReader
from probebook.models.readers.heads import HEADS, typed_targets
from probebook.models.readers.network import Network, reader_folder, saved_weights
from probebook.models.training import loop
from probebook.models.training.finetune import plain_attention, torch_seed

QUESTION_COLUMNS = ("story", "question", "history", "answer", "start", "end", "rationale", "kind")


@dataclass(frozen=True)
class Reader:
    """How a reader is trained; `.fit(table)` trains it.

    - `start`: a reader to begin from (a shipped one or a folder), of the same encoder and heads.
    - `optimizer`: "adamw" (the paper's), or "muon" for the matrices of the encoder's blocks.
    - `context`, `max_length`, `stride`: in tokens (see `windows.cut`)."""

    encoder: str = "pocket-english"  # any encoder that `load` takes
    start: str | None = None
    heads: str = "tagging"  # "tagging" (the paper's for BERT and RoBERTa) or "typed" (XLNet)
    epochs: int = 1  # passes over the windows, unless `updates` gives a number of updates instead
    updates: int | None = None
    tokens: int = 4_096  # size of a batch, including padding
    optimizer: str = "muon"
    lr: float = 5e-4  # rises over the share `warmup` of the updates, then falls linearly to 0
    warmup: float = 0.1
    embeddings: bool = False  # whether token embeddings are trained
    tagging: float = 5.0  # weight of the tags' loss
    context: int = 64
    max_length: int = 512
    stride: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.heads, "kind of heads", HEADS)
        if min(self.epochs, self.updates or 1, self.tokens) < 1:
            raise UserError("epochs, updates and tokens must be ≥ 1")
        if not self.lr > 0 or not 0 <= self.warmup < 1:
            raise UserError("lr must be > 0, warmup in [0, 1)")

    def fit(self, table: pd.DataFrame, every: int = 500) -> FittedReader:
        """Train on a table of questions (columns as in `corpora.stories`).

        One thread count always gives the same weights. They are stored in the cache folder; a
        killed run resumes from its last multiple of `every` updates. Raises UserError for an
        answer that is no span of its story, or a story or question that cannot be read."""
        net = Network(self)
        cut = net.windows(table)
        targets = windows.targets(table, cut)
        if self.heads == "typed":
            targets |= typed_targets(table, torch.as_tensor(targets["answer"]), cut.item)
        key = [net.fingerprint, asdict(self), _digest(table)]
        state = load_or_compute("readers", key, lambda: self._train(net, cut, targets, key, every))
        net.load_state_dict(state, strict=False)
        return FittedReader(self, net)

    def count_updates(self, table: pd.DataFrame) -> int:
        """Number of updates in a fit on the table."""
        return len(self.batches(Network(self).windows(table)))

    def batches(self, cut: windows.Windows) -> list[np.ndarray]:
        """The rows of windows in each update."""
        draws, epoch = np.random.default_rng(self.seed), 0
        batches: list[np.ndarray] = []
        while True:
            done = epoch == self.epochs if self.updates is None else len(batches) >= self.updates
            if done:
                return batches[: self.updates]
            batches += cut.batches(self.tokens, draws)
            epoch += 1

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of an update: a linear rise, then a linear fall to 0."""
        rise = (step + 1) / max(1, self.warmup * steps)
        fall = (steps - step) / (1 - self.warmup) / steps
        return self.lr * min(rise, fall)

    def _train(
        self, net: Network, cut: windows.Windows, targets: dict, key: list, every: int
    ) -> dict[str, Tensor]:
        path = cache_dir() / "training" / f"reader-{key_name(key)}.safetensors"
        same = json.dumps(key)
        learned = [*net.trained_parameters().values()]
        optimizers = loop.optimizers(net, self.optimizer, self.lr)
        batches, step, losses = self.batches(cut), 0, []
        records: list[dict] = []
        if path.exists():
            step, records = loop.restore_checkpoint(path, net, optimizers, same)
        with loop.TrainingBar("reader", len(batches), step) as bar, plain_attention(net.body.net):
            net.train()
            for rows in batches[step:]:
                loop.set_rate(optimizers, self.rate(step, len(batches)))
                with torch_seed(self.seed + step), torch.enable_grad():
                    batch = net.batch(cut, rows)
                    wanted = windows.batch_targets(targets, rows, batch)
                    loss = net.heads.loss(net(batch)[1], batch, wanted)
                    loss.backward()
                nn.utils.clip_grad_norm_(learned, 1.0)
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
                step += 1
                losses.append(loss.detach())
                bar.advance()
                if step % every == 0 and step < len(batches):
                    mean = float(torch.stack(losses).mean())
                    records, losses = [*records, {"step": step, "loss": mean}], []
                    loop.save_checkpoint(path, net, optimizers, step, records, same)
                    bar.show_loss(mean)
        path.unlink(missing_ok=True)
        return net.trained_parameters()


def load_reader(name: str) -> FittedReader:
    """Load a shipped reader by name, or one that `save` wrote to a folder. UserError: no reader."""
    recipe = Reader(**json.loads((reader_folder(name) / "reader.json").read_text()))
    net = Network(replace(recipe, start=None))
    net.load_state_dict(saved_weights(name), strict=False)
    return FittedReader(recipe, net)


def _digest(table: pd.DataFrame) -> str:
    columns = [name for name in QUESTION_COLUMNS if name in table]
    text = json.dumps(table[columns].to_numpy().tolist(), default=int)
    return hashlib.sha256(text.encode()).hexdigest()
