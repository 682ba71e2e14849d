"""Readers answer questions about a story: an encoder with the heads of Chaturvedi et al. 2024 (§ 4.2), trained on any
table of questions. What tells their trainings apart is the table alone: OT has the stories, IBT also what is left of
them after an intervention, and the update-matched OT (`updates`) reads the stories again until it has as many updates.
"""
from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from tqdm import tqdm

from probebook.base import UserError, cache_dir, written_whole
from probebook.models.cache import cached
from probebook.models.classifier import Classifier
from probebook.models.loading import POCKET, mixed_precision
from probebook.models.readers import windows
from probebook.models.readers.heads import HEADS, best_spans, decide, named, typed
from probebook.models.training import checkpoint, pretrain
from probebook.models.training.finetune import seeded


@dataclass(frozen=True)
class Reader:
    """How a reader is made; `.fit(table)` makes it.

    `start`: a reader to begin from (a pocket one, or a folder), of the same encoder and heads. `heads`: "tagging" (the
    paper's for BERT and RoBERTa) or "typed" (XLNet). `tokens`: size of a batch, padding included. `epochs`, or in their
    place `updates`. `optimizer`: "adamw" (the paper's), or "muon" for the matrices of the encoder's blocks. `lr` rises
    over `warmup` of the updates and falls linearly to 0. `embeddings`: whether token embeddings are trained. `tagging`:
    weight of the tags' loss. `context`, `max_length`, `stride`: tokens (`windows.cut`)."""

    encoder: str = "pocket-english"
    start: str | None = None
    heads: str = "tagging"
    epochs: int = 1
    updates: int | None = None
    tokens: int = 4_096
    optimizer: str = "muon"
    lr: float = 5e-4
    warmup: float = .1
    embeddings: bool = False
    tagging: float = 5.0
    context: int = 64
    max_length: int = 512
    stride: int = 64
    seed: int = 0

    def __post_init__(self):
        if self.heads not in HEADS:
            raise UserError(f"heads {self.heads!r}: one of {', '.join(HEADS)}")
        if min(self.epochs, self.updates or 1, self.tokens) < 1 or not self.lr > 0 or not 0 <= self.warmup < 1:
            raise UserError("epochs, updates and tokens must be ≥ 1, lr > 0, warmup in [0, 1)")

    def fit(self, table: pd.DataFrame, every: int = 500) -> FittedReader:
        """Train on the rows of a table of questions (columns as in `corpora.stories`); the same every time for one
        thread count. Resumes after a kill from the last `every` updates; what is fitted is kept in the cache folder.

        Raises UserError for an answer that is no span of its story, or a story or question that cannot be read."""
        net = Network(self)
        asked = windows.cut(table, net.body.tokenizer, self.context, net.room(), self.stride)
        want = windows.targets(table, asked)
        if self.heads == "typed":
            want |= typed(table, want["answer"], asked.item)
        same = [net.fingerprint, asdict(self), _digest(table)]
        state = cached("readers", same, lambda: self._train(net, asked, want, json.dumps(same), every))
        net.load_state_dict(state, strict=False)
        return FittedReader(self, net)

    def count(self, table: pd.DataFrame) -> int:
        """Number of updates that a fit on the table takes."""
        net = Network(self)
        return len(self.order(windows.cut(table, net.body.tokenizer, self.context, net.room(), self.stride)))

    def order(self, asked: windows.Windows) -> list[np.ndarray]:
        """The windows of each update."""
        draws, found = np.random.default_rng(self.seed), []
        epochs = iter(range(self.epochs)) if self.updates is None else iter(int, 1)
        while (self.updates is None or len(found) < self.updates) and next(epochs, None) is not None:
            found += asked.batches(self.tokens, draws)
        return found[:self.updates]

    def _train(self, net, asked, want, same, every):
        path = cache_dir() / "training" / f"reader-{hashlib.sha256(same.encode()).hexdigest()[:40]}.safetensors"
        learned = [p for p in net.parameters() if p.requires_grad]
        optimizers = pretrain.optimizers(net, self)
        order, step, records, running = self.order(asked), 0, [], []
        if path.exists():
            step, records = checkpoint.restore(path, net, optimizers, same)
        bar = tqdm(total=len(order), initial=step, desc="reader", unit="update", mininterval=5, disable=None)
        net.train()
        for rows in order[step:]:
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group["lr"] = self.lr * min((step + 1) / max(1, self.warmup * len(order)),
                                            (len(order) - step) / (1 - self.warmup) / len(order))
            with seeded(self.seed + step), torch.enable_grad():
                batch = net.batch(asked, rows)
                loss = net.heads.loss(net(batch)[1], batch, _rows(want, rows, batch))
                loss.backward()
            nn.utils.clip_grad_norm_(learned, 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            step += 1
            running.append(loss.detach())
            bar.update()
            if step % every == 0 and step < len(order):
                records, running = [*records, {"step": step, "loss": float(torch.stack(running).mean())}], []
                checkpoint.save(path, net, optimizers, step, records, same)
                bar.set_postfix(loss=f"{records[-1]['loss']:.3f}")
        bar.close()
        path.unlink(missing_ok=True)
        return net.trained()


class Network(nn.Module):
    """An encoder of its own (float32) and its heads."""

    def __init__(self, recipe: Reader):
        super().__init__()
        self.recipe, self.body = recipe, Classifier(encoder=recipe.encoder).body()
        with seeded(recipe.seed):
            self.heads = HEADS[recipe.heads](self.body.width, recipe.tagging).to(self.body.device)
        self.base = self.body.base.requires_grad_(True)
        if recipe.start:
            self.load_state_dict(_weights(recipe.start), strict=False)
        self.base.get_input_embeddings().requires_grad_(recipe.embeddings)
        self.segments = "token_type_ids" in signature(self.base.forward).parameters
        if self.body.device.type == "cpu" and hasattr(self.body.net, "set_attn_implementation"):
            self.body.net.set_attn_implementation("eager")

    def room(self) -> int:
        """Most tokens of a window: the recipe's, or what the encoder's table of positions has."""
        places = [m.num_embeddings for name, m in self.base.named_modules() if name.endswith("position_embeddings")]
        return min(self.recipe.max_length, *(n - 2 for n in places)) if places else self.recipe.max_length

    @property
    def fingerprint(self) -> str:
        """Hash of the weights."""
        digest = hashlib.sha256()
        for name, value in self.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def trained(self) -> dict[str, torch.Tensor]:
        """All that training changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def batch(self, asked: windows.Windows, rows) -> dict[str, torch.Tensor]:
        return {name: tensor.to(self.body.device) for name, tensor in asked.padded(rows).items()}

    def forward(self, batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """States [b, t, d] float32 and the heads' logits."""
        h = self.encoded(batch).last_hidden_state.float()
        return h, self.heads(h, batch)

    def encoded(self, batch, layers: bool = False):
        """What the encoder gives, on a GPU in mixed precision; with the hidden states of all `layers`,
        or the last alone."""
        types = {"token_type_ids": batch["types"]} if self.segments else {}
        with mixed_precision(self.body.device):
            return self.base(input_ids=batch["ids"], attention_mask=batch["mask"], output_hidden_states=layers, **types)


@dataclass(frozen=True, eq=False)
class FittedReader:
    """`reader(table)` → what it answers; `reader.states(table)` → what it read. Its weights change no
    more; `known`: what it has answered."""

    recipe: Reader
    net: Network
    known: dict[tuple, tuple] = field(default_factory=dict)

    def __call__(self, table: pd.DataFrame, see: Callable | None = None) -> pd.DataFrame:
        """A row for each of the table's, with its index: `said` (the answer), `form` (yes, no, unknown, span, …),
        `start`, `end` (characters; −1 for none), and the score of each form.

        The same question after the same two turns about the same story is read once; answers are kept
        in the cache folder too. With `see` every row is read, and `see(windows, rows, batch, output)`
        gets each batch: the windows of the table, which of them are in it, what was read and what the
        encoder gave, with the states of all layers."""
        asked = [(story, question, tuple(map(tuple, history[-2:]))) for story, question, history
                 in zip(table.story, table.question, table.history)]
        places = {row: i for i, row in reversed([*enumerate(asked)])}
        new = sorted(i for row, i in places.items() if row not in self.known)
        if see or new:
            part = table if see else table.iloc[new]
            key = asked if see else [asked[i] for i in new]
            found = self._answer(part, see) if see else cached(
                "answers", [self.net.fingerprint, asdict(self.recipe), key], lambda: self._answer(part))
            names = ("choice", "spans", "value", "best")
            self.known.update(zip(key, zip(*(found[name].tolist() for name in names))))
        choice, spans, values, best = map(list, zip(*(self.known[row] for row in asked)))
        forms = [*self.net.heads.kinds, *([] if "span" in self.net.heads.kinds else ["span"])]
        out = pd.DataFrame(best, table.index, forms)
        out.insert(0, "form", np.array(forms)[choice])
        out.insert(0, "end", [b for _, b in spans])
        out.insert(0, "start", [a for a, _ in spans])
        said = [story[a:b] if form == "span" else named(form, value, question) for story, question, form, value, (a, b)
                in zip(table.story, table.question, out.form, values, spans)]
        out.insert(0, "said", said)
        return out

    def _answer(self, table, see=None):
        """Of each row the place of its form, the span's characters, the value [2], and the score of
        each form."""
        asked = self.windows(table)
        found = self._score(asked, see)
        choice, window, best = decide(found["scores"].numpy(), asked.item)
        first, last = (found[name].numpy()[window] - asked.story[window, 0]
                       for name in ("first", "last"))
        span = choice == best.shape[1] - 1
        spans = [(o[a, 0], o[b, 1]) if at and len(o) else (-1, -1) for at, o, a, b in
                 zip(span, (asked.offsets[w] for w in window), first, last)]
        return {"choice": torch.from_numpy(choice), "spans": torch.tensor(spans),
                "value": found["value"][window], "best": torch.from_numpy(best)}

    def windows(self, table: pd.DataFrame) -> windows.Windows:
        r = self.recipe
        return windows.cut(table, self.net.body.tokenizer, r.context, self.net.room(), r.stride)

    def states(self, table: pd.DataFrame) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """Of each row's first window: place of the row, token ids [t], last states [t, d], place of the first token."""
        asked = self.windows(table)
        for rows, batch in self.batches(asked, first=True):
            h, _ = self.net(batch)
            for i, row in enumerate(rows):
                size = len(asked.ids[row])
                yield int(asked.item[row]), np.array(asked.ids[row]), h[i, :size].cpu().numpy(), int(asked.cls[row])

    def save(self, folder: Path) -> None:
        """Write what was trained (float16) and the recipe; the encoder is read from where it was."""
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(folder / "reader.safetensors") as part:
            save_file({k: v.detach().cpu().half().contiguous() for k, v in self.net.trained().items()}, part)
        (folder / "reader.json").write_text(json.dumps(asdict(self.recipe), indent=1) + "\n")

    def _score(self, asked, see=None):
        size = len(asked.item)
        c = len(self.net.heads.kinds) + ("span" not in self.net.heads.kinds)
        scores, first, last, value = (torch.zeros(size, c), *torch.zeros(2, size, dtype=torch.long),
                                      torch.zeros(size, 2, dtype=torch.long))
        for rows, batch in self.batches(asked):
            encoded = self.net.encoded(batch, layers=see is not None)
            out = self.net.heads(encoded.last_hidden_state.float(), batch)
            if see:
                see(asked, rows, batch, encoded)
            span, first[rows], last[rows] = (x.cpu() for x in best_spans(out["start"], out["end"]))
            kinds = self.net.heads.scores(out).cpu()
            scores[rows] = torch.cat([kinds, span[:, None]], 1)[:, :c]
            if "number" in out:
                value[rows] = torch.stack([out["number"].argmax(1), out["option"].argmax(1)], 1).cpu()
        return {"scores": scores, "first": first, "last": last, "value": value}

    def batches(self, asked: windows.Windows, first: bool = False) -> Iterator[tuple[np.ndarray, dict]]:
        """Rows of windows and what the network reads of them, ready to be read without gradients; `first`: only the
        first window of each item."""
        only = {*np.unique(asked.item, return_index=True)[1].tolist()} if first else range(len(asked.item))
        self.net.eval()
        most = 512 if self.net.body.device.type == "cpu" else self.recipe.tokens * 4         # what a core's cache holds
        with torch.inference_mode():
            for rows in asked.batches(most):
                rows = np.array([row for row in rows if row in only], int)
                if len(rows):
                    yield rows, self.net.batch(asked, rows)


def load_reader(name: str) -> FittedReader:
    """A shipped reader by name, or what `save` wrote to a folder. UserError where there is none."""
    recipe = Reader(**json.loads((_folder(name) / "reader.json").read_text()))
    net = Network(replace(recipe, start=None))
    net.load_state_dict(_weights(name), strict=False)
    return FittedReader(recipe, net)


def _folder(name) -> Path:
    found = [folder for folder in (POCKET / name, Path(name)) if (folder / "reader.safetensors").exists()]
    if not found:
        shipped = ", ".join(sorted(path.parent.name for path in POCKET.glob("*/reader.safetensors")))
        raise UserError(f"no reader {str(name)!r}: one of {shipped}, or a folder that FittedReader.save wrote")
    return found[0]


def _weights(name):
    return load_file(_folder(name) / "reader.safetensors")


def _rows(want, rows, batch):
    """The targets of some windows, `tags` as [b, t] of 0 and 1."""
    tags = torch.zeros(batch["ids"].shape)
    for i, row in enumerate(rows):
        tags[i, want["tags"][row]] = 1
    return {name: tags.to(batch["ids"].device) if name == "tags" else value[rows].to(batch["ids"].device)
            for name, value in want.items()}


def _digest(table):
    columns = [c for c in ("story", "question", "history", "answer", "start", "end", "rationale", "kind") if c in table]
    return hashlib.sha256(json.dumps(table[columns].to_numpy().tolist(), default=int).encode()).hexdigest()
