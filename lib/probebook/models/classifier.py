"""Text classifiers N(φ(x)), to be explained (Abraham et al., § 6 and appendix C): of stars, or of an aspect's label.

φ(x) is the last-layer state of an encoder's first token or a decoder's last one; the head is RoBERTa's, dropout –
dense – tanh – dropout – linear. What is fitted is kept in the cache folder under a hash of the encoder's weights, the
settings and the examples, so that the same fit is never done twice.
"""
from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.corpora.cebab import ASPECTS, TASKS, VALUES, classes
from probebook.models.cache import cached
from probebook.models.cut import cut, upper
from probebook.models.embedding import embed
from probebook.models.loading import Model, load
from probebook.models.training.finetune import (
    LSTM,
    Head,
    Trainer,
    learnt,
    restored,
    seeded,
    train_head,
)


@dataclass(frozen=True)
class Classifier:
    """How a classifier is made; `.fit(table)` makes it. Defaults: the paper's (§ C.1), but for the encoder.

    `task`: "binary", "ternary", "5-way", or "aspect": the label of one aspect, from "text [SEP] aspect" (§ C.4).
    `encoder`: any encoder or decoder that `load` takes. `lstm`: in its place an LSTM with dot attention over its
    token embeddings (the paper's are fastText's and take lr 1e-3). `frozen`: train only the head, on φ(x) of the
    encoder as it is: seconds, but another black box, which wants a larger lr. `epochs` of batches of `batch` texts;
    longer texts are cut to `max_length` tokens. `trained_layers`: train the topmost blocks alone, on states
    below them that are computed once (None: all, as in the paper, and an LSTM always). `at`: "[CLS]", "last" or
    "mean", where φ(x) is read; by default the first token, of a decoder or LSTM the last. `seed`: of the head's
    start, the orders and the dropouts."""

    task: str = "5-way"
    encoder: str = "pocket-english"
    lstm: bool = False
    frozen: bool = False
    epochs: int = 34
    lr: float = 2e-5
    batch: int = 128
    max_length: int = 128
    dropout: float = .1
    trained_layers: int | None = None
    at: str | None = None
    seed: int = 42

    def __post_init__(self):
        if self.task not in (*TASKS, "aspect"):
            raise UserError(f"task {self.task!r}: one of {', '.join(TASKS)}, aspect")
        if min(self.epochs, self.batch) < 1 or not self.lr > 0 or not 0 <= self.dropout < 1:
            raise UserError(f"epochs={self.epochs}, batch={self.batch}, lr={self.lr}, dropout={self.dropout}: epochs "
                            "and batch must be ≥ 1, lr > 0, dropout in [0, 1)")
        if self.trained_layers is not None and self.trained_layers < 1:
            raise UserError(f"trained_layers={self.trained_layers}: at least 1, or None for all")

    @property
    def k(self) -> int:
        """Number of classes."""
        return 3 if self.task == "aspect" else int(np.nanmax(TASKS[self.task])) + 1

    def fit(self, table: pd.DataFrame) -> FittedClassifier:
        """Train on the rows of a table of reviews that have a class; the same numbers every time for one thread count.

        Raises UserError for a missing column, an unknown label, or a class that no row has."""
        body = self.body()
        texts, z = self.examples(table, body)
        absent = np.setdiff1d(np.arange(self.k), z)
        if len(absent):
            raise UserError(f"task {self.task}: class {absent[0]} has no example among {len(z)}: add rows of it")
        tensors = cached("classifiers", [body.fingerprint, asdict(self), texts, z.tolist()],
                         lambda: self._train(body, texts, z))
        return FittedClassifier(self, restored(self.body(), tensors), Head(**_named(tensors, "head.")))

    def _train(self, body, texts, z):
        head = Head.drawn(body.width, self.k, self.seed)
        if self.frozen:
            h = embed(texts, body, at=self.position(body))
            head = train_head(h, z, head, self.epochs, self.batch, self.lr, self.seed, self.dropout)
            return {f"head.{name}": tensor for name, tensor in head.tensors().items()}
        net = head.net(self.dropout).to(body.device)
        trainer = Trainer(body, texts, self.position(body), [*upper(body, body.base).values(), *net.parameters()],
                          self.epochs, self.batch, self.lr, self.seed)
        for rows, h, _ in trainer:
            trainer.step(F.cross_entropy(net(h), z[rows].to(h.device)))
        return ({f"head.{name}": tensor for name, tensor in Head.of(net).tensors().items()}
                | learnt(body))

    def body(self) -> Model:
        """The encoder before training: a float32 copy of its own, on a GPU where there is one."""
        model = load(self.encoder, "cpu")
        if model.kind == "seq2seq":
            raise UserError(f"{self.encoder} is an encoder–decoder: give an encoder or a decoder")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if not self.lstm and self.trained_layers and self.trained_layers < model.depth:
            return cut(load(self.encoder, device, torch.float32), self.trained_layers)
        if not self.lstm:
            return Model(model.name, copy.deepcopy(model.net).to(device), model.tokenizer, model.kind)
        with seeded(self.seed):
            net = LSTM(model.net.get_input_embeddings().weight).requires_grad_(False).eval()
        return Model(f"LSTM on {model.name}", net.to(device), model.tokenizer, "causal")

    def position(self, body: Model) -> str:
        """Where φ(x) is read."""
        return self.at or ("last" if body.kind == "causal" else "[CLS]")

    def examples(self, table: pd.DataFrame, body: Model) -> tuple[list[str], torch.Tensor]:
        """Texts and classes int64 of the rows that have a class; in the task "aspect" one example for each label."""
        texts = column(table, "description").tolist()
        if self.task == "aspect":
            z = labels(table).T.ravel()
            texts = self.asked(texts, body)
        else:
            z = np.nan_to_num(classes(column(table, "review_majority"), self.task), nan=-1).astype(np.int64)
            texts = shorten(texts, body, self.max_length)
        kept = np.flatnonzero(z >= 0)
        return [texts[i] for i in kept], torch.from_numpy(z[kept])

    def asked(self, texts: Sequence[str], body: Model) -> list[str]:
        """`text [SEP] aspect` of each aspect and text, the text cut so that all has at most `max_length` tokens."""
        ends = [f" {body.tokenizer.sep_token or body.tokenizer.eos_token} {aspect}" for aspect in ASPECTS]
        longest = max(len(ids) for ids in body.tokenizer(ends, add_special_tokens=False)["input_ids"])
        texts = shorten(list(texts), body, self.max_length - longest)
        return [text + end for end in ends for text in texts]


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """`model(texts)` → probabilities [n, k] float64; `model.phi(texts)` → φ(x) [n, d] float32; `model.head(h)` →
    logits [n, k] in the dtype of h, differentiable. `recipe`: how it was made; `body`: the encoder after it."""

    recipe: Classifier
    body: Model
    head: Head
    known: dict[str, torch.Tensor] = field(default_factory=dict, init=False, repr=False)   # φ(x) of texts met so far

    @property
    def task(self) -> str:
        return self.recipe.task

    @property
    def k(self) -> int:
        return self.recipe.k

    def phi(self, texts: Sequence[str]) -> torch.Tensor:
        """φ(x) [n, d] of the texts; each different one is computed once, and cached."""
        new = list(dict.fromkeys(text for text in texts if text not in self.known))
        if new:
            cut = shorten(new, self.body, self.recipe.max_length)
            self.known.update(zip(new, embed(cut, self.body, at=self.recipe.position(self.body))))
        return torch.stack([self.known[text] for text in texts])

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        return self.head(self.phi(texts).double()).softmax(1)

    def aspects(self, texts: Sequence[str]) -> np.ndarray:
        """Predicted labels of the four aspects, int64 [n, 4] (places in VALUES), for the task "aspect" only."""
        if self.task != "aspect":
            raise UserError(f"a classifier of the task {self.task} knows no aspects: fit Classifier('aspect')")
        return self(self.recipe.asked(texts, self.body)).argmax(1).numpy().reshape(len(ASPECTS), -1).T


def labels(table: pd.DataFrame) -> np.ndarray:
    """The four aspects' majority labels, int64 [n, 4]: places in VALUES, −1 for none. UserError for another value."""
    columns = [column(table, f"{aspect}_aspect_majority") for aspect in ASPECTS]
    places = {value: i for i, value in enumerate(VALUES)} | {"no majority": -1, "": -1}
    for values in columns:
        unknown = [value for value in values.unique() if value not in places]
        if unknown:
            raise UserError(f"{values.name} {unknown[0]!r}: one of {', '.join(VALUES)}, no majority, or \"\"")
    return np.stack([values.map(places).to_numpy(np.int64) for values in columns], 1)


def column(table: pd.DataFrame, name: str) -> pd.Series:
    """A column, "" where nothing is in it; UserError where there is no such column."""
    if name not in table:
        raise UserError(f"the table has no column {name}: CEBaB's columns are needed")
    return table[name].astype(object).where(table[name].notna(), "")


def shorten(texts: list[str], body: Model, room: int) -> list[str]:
    """The texts, cut where they have more than `room` tokens (those that the tokenizer adds included)."""
    encoding = body.tokenizer(texts, truncation=True, max_length=room, return_offsets_mapping=True)
    return [text[:max(end for _, end in offsets)] if len(offsets) >= room else text
            for text, offsets in zip(texts, encoding["offset_mapping"])]


def _named(tensors, prefix):
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
