"""Classifiers of the generated reviews that know the rating model: their ICaCE is the exact effect."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from probebook.base import UserError
from probebook.corpora import reviews
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.models.classifier import labels
from probebook.models.training.finetune import Head


class Oracle:
    """`oracle(texts)` → the exact probabilities [n, 5] float64 of the stars, of the texts of a table of
    `corpora.reviews.generate`. UserError for another text, and for one that has two answers."""

    task, k = "5-way", 5

    def __init__(self, table: pd.DataFrame):
        p = pd.DataFrame(reviews.probabilities(table), index=table.description)
        if (p.groupby(level=0).nunique() > 1).any(axis=None):
            raise UserError("one text stands for reviews with different probabilities: generate another world")
        p = p[~p.index.duplicated()]
        self.table = table.drop_duplicates("description")
        self.probabilities, self.places = torch.from_numpy(p.to_numpy(copy=True)), p.index

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        return self.probabilities[self._rows(texts)]

    def _rows(self, texts):
        rows = self.places.get_indexer(list(texts))
        if (rows < 0).any():
            raise UserError(f"an oracle knows the texts of its own world only, not {list(texts)[rows.argmin()][:60]!r}")
        return torch.from_numpy(rows)


class GlassOracle(Oracle):
    """The same with insides that are known: `phi(texts)` → [n, d] float32, and a `Head`, up to a small fitting error.

    φ holds an indicator of every label, mood and interaction, the text's length, and noise (deviation `noise`, one draw
    a text), all turned by one random rotation. Each tanh unit of the head looks along the direction of the rating
    model's score, from a place of its own on the scale; the last layer is fitted to the exact probabilities."""

    def __init__(self, table: pd.DataFrame, d: int = 64, noise: float = .3, seed: int = 0):
        super().__init__(table)
        self.h, score = _states(self.table, d, noise, np.random.default_rng(seed))
        place = torch.linspace(-.5, 6.5, d, dtype=score.dtype) - reviews.BASE
        dense, bias = 2 * score.expand(d, -1), -2 * place
        kinds = np.unique(self.probabilities.numpy().round(9), axis=0, return_index=True)[1]
        units = (self.h[kinds] @ dense.T + bias).tanh()
        self.head = Head(dense, bias, *_last_layer(units, self.probabilities[kinds]))

    def phi(self, texts: Sequence[str]) -> torch.Tensor:
        return self.h[self._rows(texts)].float()

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        return self.head(self.phi(texts).double()).softmax(1)


def _states(table, d, noise, rng):
    """φ [n, d] of the table's texts, and the direction [d] of the score in it."""
    z, mood = labels(table), np.array([data["mood"] for data in table.opentable_metadata])
    both = [(z[:, ASPECTS.index(a)] == VALUES.index(v)) & (z[:, ASPECTS.index(b)] == VALUES.index(u))
            for a, v, b, u in reviews.INTERACTIONS]
    x = np.column_stack([np.eye(3)[z].reshape(-1, 12), np.eye(3)[mood + 1], *both])
    score = np.r_[np.ravel([reviews.EFFECTS[aspect] for aspect in ASPECTS]), reviews.MOOD * np.array([-1, 0, 1]),
                  list(reviews.INTERACTIONS.values())]
    rest = noise * rng.normal(size=(len(x), d - x.shape[1]))
    rest[:, 0] = table.description.str.len() / 100
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return torch.from_numpy(np.hstack([x, rest]) @ turn), torch.from_numpy(np.pad(score, (0, rest.shape[1])) @ turn)


def _last_layer(units, p):
    """out [k, m] and its bias [k] such that softmax(out · units + bias) is about p [n, k]."""
    units = F.pad(units, (0, 1), value=1.0)
    out = torch.zeros(p.shape[1], units.shape[1], dtype=p.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([out], max_iter=300, history_size=50, tolerance_grad=1e-12, tolerance_change=1e-15,
                                  line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        loss = F.kl_div((units @ out.T).log_softmax(1), p, reduction="batchmean")
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(loss)
    return out.detach()[:, :-1], out.detach()[:, -1]
