"""Text classifiers N(φ(x)) to be explained (Abraham et al., § 6 and appendix C).

φ(x) is the last-layer state of one token, or the mean of all; the head is RoBERTa's: dropout –
dense – tanh – dropout – linear. Fits are cached under a hash of the encoder's weights, the settings
and the examples, so the same fit is never done twice.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError, check_choice, to_numpy
from probebook.corpora.cebab import ASPECTS, TASKS, VALUES, classes
from probebook.devices import choose_device, place_states
from probebook.models.cache import load_or_compute
from probebook.models.cut import cut, upper_parameters
from probebook.models.embedding import embed
from probebook.models.loading import Model, load
from probebook.models.training.finetune import (
    LSTM,
    Head,
    Trainer,
    torch_seed,
    train_head,
    trained_weights,
    with_weights,
)


@dataclass(frozen=True)
class Classifier:
    """How a classifier is trained; `.fit(table)` trains it. Except for the encoder, the defaults
    are the paper's (§ C.1).

    - `task`: "binary", "ternary", "5-way", or "aspect": an aspect's label from "text [SEP] aspect".
    - `encoder`: any model that `load` takes; of an encoder–decoder its encoder.
    - `lstm`: use an LSTM with dot attention over the encoder's token embeddings instead (the
      paper's has fastText's, and lr 1e-3).
    - `frozen`: train only the head. This takes seconds, needs a larger lr, and gives another black
      box.
    - `epochs`, `batch`: passes over the texts, texts in a batch.
    - `max_length`: longer texts are cut to so many tokens.
    - `dropout`: of both dropouts of the head.
    - `trained_layers`: train only the topmost blocks, on states that are computed once (None: all
      blocks, as in the paper; always so for an LSTM).
    - `at`: where φ(x) is read: at one "token" (an encoder's first, a decoder's or LSTM's last; the
      paper's), or the "mean" of all.
    - `seed`: of the head's first weights, the orders and the dropouts.
    """

    task: str = "5-way"
    encoder: str = "pocket-english"
    lstm: bool = False
    frozen: bool = False
    epochs: int = 34
    lr: float = 2e-5
    batch: int = 128
    max_length: int = 128
    dropout: float = 0.1
    trained_layers: int | None = None
    at: Literal["token", "mean"] = "token"
    seed: int = 42

    def __post_init__(self) -> None:
        check_choice(self.task, "task", (*TASKS, "aspect"))
        check_choice(self.at, "value of at", ("token", "mean"))
        if min(self.epochs, self.batch) < 1 or not self.lr > 0 or not 0 <= self.dropout < 1:
            raise UserError(
                f"epochs={self.epochs}, batch={self.batch}, lr={self.lr}, "
                f"dropout={self.dropout}: epochs and batch must be ≥ 1, lr > 0, "
                "dropout in [0, 1)"
            )
        if self.trained_layers is not None and self.trained_layers < 1:
            raise UserError(f"trained_layers={self.trained_layers}: at least 1, or None for all")

    @property
    def k(self) -> int:
        """Number of classes."""
        return 3 if self.task == "aspect" else int(np.nanmax(TASKS[self.task])) + 1

    def fit(self, table: pd.DataFrame) -> FittedClassifier:
        """Train on the rows of a table of reviews that have a class.

        One thread count always gives the same numbers. Raises UserError for a missing column, an
        unknown label, or a class without rows."""
        body = self.body()
        texts, z = self.examples(table, body)
        absent = np.setdiff1d(np.arange(self.k), to_numpy(z))
        if len(absent):
            raise UserError(
                f"task {self.task}: class {absent[0]} has no example among {len(z)}: add rows of it"
            )
        key = [body.fingerprint, asdict(self), texts, z.tolist()]
        tensors = load_or_compute("classifiers", key, lambda: self._train(body, texts, z))
        head = {k.removeprefix("head."): v for k, v in tensors.items() if k.startswith("head.")}
        return FittedClassifier(self, with_weights(self.body(), tensors), Head(**head))

    def _train(self, body: Model, texts: list[str], z: Tensor) -> dict[str, Tensor]:
        head, weights = Head.initial(body.width, self.k, self.seed), {}
        if self.frozen:
            h = embed(texts, body, at=self.position(body))
            head = train_head(h, z, head, self.epochs, self.batch, self.lr, self.seed, self.dropout)
        else:
            net = head.net(self.dropout).to(body.device)
            parameters = [*upper_parameters(body, body.base).values(), *net.parameters()]
            settings = (self.epochs, self.batch, self.lr, self.seed)
            trainer = Trainer(body, texts, self.position(body), parameters, *settings)
            trainer.fit(lambda rows, h, _: F.cross_entropy(net(h), z[rows].to(h.device)))
            head, weights = Head.from_module(net), trained_weights(body)
        return {f"head.{name}": tensor for name, tensor in head.tensors().items()} | weights

    def body(self) -> Model:
        """Copy the encoder, in float32, to be trained; on a GPU if there is one."""
        model, device = load(self.encoder, "cpu", "float32").encoder, choose_device()
        if not self.lstm and self.trained_layers and self.trained_layers < model.depth:
            return cut(load(self.encoder, device, "float32").encoder, self.trained_layers)
        if not self.lstm:
            net = copy.deepcopy(model.net).to(device)
            return Model(model.name, net, model.tokenizer, model.kind)
        with torch_seed(self.seed):
            net = LSTM(model.net.get_input_embeddings().weight).requires_grad_(False).eval()
        return Model(f"LSTM on {model.name}", net.to(device), model.tokenizer, "causal")

    def position(self, body: Model) -> str:
        """Where φ(x) is read."""
        first = body.kind != "causal" and body.tokenizer.cls_token  # T5's encoder has none
        token = "[CLS]" if first else "last"
        return token if self.at == "token" else self.at

    def examples(self, table: pd.DataFrame, body: Model) -> tuple[list[str], Tensor]:
        """Texts and classes int64 of the rows with a class; for "aspect" one example per label."""
        texts = column(table, "description").tolist()
        if self.task == "aspect":
            z = labels(table).T.ravel()
            texts = self.aspect_texts(texts, body)
        else:
            z = classes(column(table, "review_majority"), self.task)
            z = np.nan_to_num(z, nan=-1).astype(np.int64)
            texts = shorten(texts, body, self.max_length)
        rows = np.flatnonzero(z >= 0)
        return [texts[i] for i in rows], torch.from_numpy(z[rows])

    def aspect_texts(self, texts: Sequence[str], body: Model) -> list[str]:
        """`text [SEP] aspect` for each aspect and text; the text is cut to fit `max_length`."""
        separator = body.tokenizer.sep_token or body.tokenizer.eos_token
        ends = [f" {separator} {aspect}" for aspect in ASPECTS]
        ids = body.tokenizer(ends, add_special_tokens=False)["input_ids"]
        longest = max(map(len, ids))
        texts = shorten(list(texts), body, self.max_length - longest)
        return [text + end for end in ends for text in texts]


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """`model(texts)` → probabilities [n, k] float64, the softmax of `head` on `phi`. `states`: φ(x)
    of the texts read so far."""

    recipe: Classifier  # how it was trained
    body: Model  # the encoder after training
    head: Head  # from states [n, d] to logits [n, k] in their dtype, differentiable
    states: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def task(self) -> str:
        """The recipe's task."""
        return self.recipe.task

    @property
    def k(self) -> int:
        """Number of classes."""
        return self.recipe.k

    def phi(self, texts: Sequence[str]) -> Tensor:
        """φ(x) [n, d] float32 of the texts; each different text is read once."""
        new = list(dict.fromkeys(text for text in texts if text not in self.states))
        if new:
            short = shorten(new, self.body, self.recipe.max_length)
            h = embed(short, self.body, at=self.recipe.position(self.body))
            self.states.update(zip(new, h))
        return place_states(torch.stack([self.states[text] for text in texts]))

    def __call__(self, texts: Sequence[str]) -> Tensor:
        return self.head(self.phi(texts).double()).softmax(1).cpu()

    def aspects(self, texts: Sequence[str]) -> np.ndarray:
        """Predicted labels of the four aspects: int64 [n, 4], places in VALUES.

        Raises UserError for any task but "aspect"."""
        if self.task != "aspect":
            raise UserError(
                f"a classifier of the task {self.task} knows no aspects: fit Classifier('aspect')"
            )
        p = self(self.recipe.aspect_texts(texts, self.body))
        return to_numpy(p.argmax(1)).reshape(len(ASPECTS), -1).T


def labels(table: pd.DataFrame) -> np.ndarray:
    """Read the four aspects' majority labels: int64 [n, 4], places in VALUES, −1 for none.

    Raises UserError for another value."""
    columns = [column(table, f"{aspect}_aspect_majority") for aspect in ASPECTS]
    places = {value: i for i, value in enumerate(VALUES)} | {"no majority": -1, "": -1}
    for values in columns:
        unknown = [value for value in values.unique() if value not in places]
        if unknown:
            raise UserError(
                f"{unknown[0]!r} is not a valid {values.name}: "
                f'expected {", ".join(VALUES)}, no majority, or ""'
            )
    return np.stack([values.map(places).to_numpy(np.int64) for values in columns], 1)


def column(table: pd.DataFrame, name: str) -> pd.Series:
    """Read a column of a table, with "" for missing values. UserError: there is none."""
    if name not in table:
        raise UserError(f"the table has no column {name}: CEBaB's columns are needed")
    return table[name].astype(object).where(table[name].notna(), "")


def shorten(texts: list[str], body: Model, room: int) -> list[str]:
    """Cut texts to at most `room` tokens, including those that the tokenizer adds."""
    encoding = body.tokenizer(texts, truncation=True, max_length=room, return_offsets_mapping=True)
    return [
        text[: max(end for _, end in offsets)] if len(offsets) >= room else text
        for text, offsets in zip(texts, encoding["offset_mapping"])
    ]
