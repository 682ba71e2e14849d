"""Classifiers of generated reviews that know the rating model: their ICaCE is the exact effect."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from probebook.base import UserError, to_numpy
from probebook.corpora import reviews
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.models.classifier import labels
from probebook.models.training.finetune import Head


class Oracle:
    """`oracle(texts)` → the exact probabilities [n, 5] float64 of the stars.

    It knows the texts of one table of `corpora.reviews.generate`, and its `causes`. Raises
    UserError for another text, and for a text that has two answers."""

    task, k = "5-way", 5

    def __init__(self, table: pd.DataFrame, causes: reviews.Causes = reviews.USUAL):
        p = pd.DataFrame(reviews.probabilities(table, causes), index=table.description)
        if (p.groupby(level=0).nunique() > 1).any(axis=None):
            raise UserError(
                "one text belongs to reviews with different probabilities: generate another world"
            )
        p = p[~p.index.duplicated()]
        self.table = table.drop_duplicates("description")
        self.probabilities, self.places = torch.from_numpy(p.to_numpy(copy=True)), p.index

    def __call__(self, texts: Sequence[str]) -> Tensor:
        return self.probabilities[self._rows(texts)]

    def _rows(self, texts: Sequence[str]) -> Tensor:
        rows = self.places.get_indexer(list(texts))
        if (rows < 0).any():
            text = list(texts)[rows.argmin()]
            raise UserError(f"an oracle knows only the texts of its own world, not {text[:60]!r}")
        return torch.from_numpy(rows)


class GlassOracle(Oracle):
    """An oracle with known states, `phi(texts)` → [n, d] float32, and a `Head` that reads them.

    φ has an indicator of every label, mood and interaction, the text's length, and noise (one draw
    per text, standard deviation `noise`), all rotated at random. Each tanh unit of the head reads
    the rating model's score around its own value; the last layer is fitted to the exact
    probabilities, up to a small error."""

    def __init__(
        self,
        table: pd.DataFrame,
        d: int = 64,
        noise: float = 0.3,
        seed: int = 0,
        causes: reviews.Causes = reviews.USUAL,
    ):
        super().__init__(table, causes)
        self.h, score = _states(self.table, causes, d, noise, np.random.default_rng(seed))
        place = torch.linspace(-0.5, 6.5, d, dtype=score.dtype) - reviews.BASE
        dense, bias = 2 * score.expand(d, -1), -2 * place
        distinct = np.unique(to_numpy(self.probabilities).round(9), axis=0, return_index=True)[1]
        units = (self.h[distinct] @ dense.T + bias).tanh()
        self.head = Head(dense, bias, *_last_layer(units, self.probabilities[distinct]))

    def phi(self, texts: Sequence[str]) -> Tensor:
        """φ(x) [n, d] of the texts."""
        return self.h[self._rows(texts)].float()

    def __call__(self, texts: Sequence[str]) -> Tensor:
        return self.head(self.phi(texts).double()).softmax(1)


def _states(
    table: pd.DataFrame, causes: reviews.Causes, d: int, noise: float, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """φ [n, d] of the table's texts, and the direction [d] of the score in it."""
    z, mood = labels(table), np.array([data["mood"] for data in table.opentable_metadata])
    is_label = {
        (aspect, value): z[:, i] == j
        for i, aspect in enumerate(ASPECTS)
        for j, value in enumerate(VALUES)
    }
    both = [is_label[a, v] & is_label[b, u] for a, v, b, u in causes.interactions]
    x = np.column_stack([np.eye(3)[z].reshape(-1, 12), np.eye(3)[mood + 1], *both])
    score = np.r_[
        np.ravel([reviews.EFFECTS[aspect] for aspect in ASPECTS]),
        causes.mood * np.array([-1, 0, 1]),
        list(causes.interactions.values()),
    ]
    rest = noise * rng.normal(size=(len(x), d - x.shape[1]))
    rest[:, 0] = table.description.str.len() / 100
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    direction = np.pad(score, (0, rest.shape[1])) @ rotation
    return torch.from_numpy(np.hstack([x, rest]) @ rotation), torch.from_numpy(direction)


def _last_layer(units: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """out [k, m] and its bias [k] such that softmax(out · units + bias) is about p [n, k]."""
    units = F.pad(units, (0, 1), value=1.0)
    out = torch.zeros(p.shape[1], units.shape[1], dtype=p.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [out],
        max_iter=300,
        history_size=50,
        tolerance_grad=1e-12,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        loss = F.kl_div((units @ out.T).log_softmax(1), p, reduction="batchmean")
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(loss)
    return out.detach()[:, :-1], out.detach()[:, -1]
