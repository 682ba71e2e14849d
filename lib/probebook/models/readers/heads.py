"""Output heads of readers: from states to yes, no, unknown, a span … (Chaturvedi et al., § 4.2)."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from probebook.corpora import answer_spans
from probebook.models.readers.windows import WORD_ANSWERS

NUMBERS = tuple(answer_spans.NUMBERS[:13])  # zero to twelve


class Tagging(nn.Module):
    """The head of BERT and RoBERTa: it tags the rationale, and reads the answer from its states.

    p_t = σ(u ReLU(V h_t)) (eq. 3); p'_t = p_t h_t (4); a = softmax(w₁ ReLU(W₂ p'_t)) (5);
    q = Σ a_t p'_t (6). Yes, no and unknown come from [h_CLS; q], start and end from h_t. One
    softmax runs over yes, no, unknown and the places of the start, another over those of the end.
    The loss is the mean of their cross-entropies plus `weight` times that of the tags."""

    kinds = WORD_ANSWERS
    forms = (*kinds, "span")

    def __init__(self, width: int, weight: float = 5.0):
        super().__init__()
        self.weight = weight
        self.tag, self.attend = (
            nn.Sequential(
                nn.Linear(width, width, bias=False), nn.ReLU(), nn.Linear(width, 1, bias=False)
            )
            for _ in range(2)
        )
        self.spoken, self.span = nn.Linear(2 * width, len(self.kinds)), nn.Linear(width, 2)

    def forward(self, h: Tensor, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Logits from states h [b, t, d]: `start`, `end` [b, t] (very low outside of the story),
        `kinds` [b, 3] and `tags` [b, t]."""
        q, tags = self.tagged(h, batch["story"])
        start, end = _span_logits(self.span, h, batch["story"])
        whole = torch.cat([h[torch.arange(len(h)), batch["cls"]], q], 1)
        return {"start": start, "end": end, "tags": tags, "kinds": self.spoken(whole)}

    def tagged(self, h: Tensor, story: Tensor) -> tuple[Tensor, Tensor]:
        """q [b, d], which sums up the tagged tokens, and the tags' logits [b, t].

        `story` [b, t] is true at the story's tokens."""
        tags = self.tag(h)[..., 0]
        weighted = tags.sigmoid()[..., None] * h
        a = self.attend(weighted)[..., 0].masked_fill(~story, _LOW).softmax(1)
        return (a[:, None] @ weighted)[:, 0], tags

    def summary(self, h: Tensor, story: Tensor) -> Tensor:
        """q [b, d] alone."""
        return self.tagged(h, story)[0]

    def weights(self) -> Tensor:
        """What each of `forms` gains from [h_CLS; q], [4, 2d]; 0 for a span, which has its own."""
        return F.pad(2 * self.spoken.weight, (0, 0, 0, 1))

    def loss(
        self, out: dict[str, Tensor], batch: dict[str, Tensor], targets: dict[str, Tensor]
    ) -> Tensor:
        """Mean over the windows; `targets` as in `windows.batch_targets`."""
        is_span, kinds = targets["answer"] < 0, out["kinds"]
        losses = []
        for part in ("start", "end"):
            place = torch.where(is_span, kinds.shape[1] + targets[part], targets["answer"])
            losses.append(F.cross_entropy(torch.cat([kinds, out[part]], 1), place))
        story = batch["story"]
        tags = F.binary_cross_entropy_with_logits(out["tags"][story], targets["tags"][story])
        return sum(losses) / 2 + self.weight * tags

    def scores(self, out: dict[str, Tensor]) -> Tensor:
        """Scores [b, 3] of yes, no and unknown: twice the logit, since a span's score has two."""
        return 2 * out["kinds"]


class Typed(nn.Module):
    """The head of XLNet: it reads the kind of answer, and the value of each kind.

    Each is read from [h_CLS; Σ softmax(start)_t h_t]. Here the kinds share one softmax; the
    released code trains one score for each kind. A number is one of `NUMBERS`; an option is the
    first or second that the question names."""

    kinds = forms = (*WORD_ANSWERS, "number", "option", "span")

    def __init__(self, width: int, weight: float = 0.0):
        super().__init__()
        self.span, self.kind = nn.Linear(width, 2), nn.Linear(2 * width, len(self.kinds))
        self.number, self.option = nn.Linear(2 * width, len(NUMBERS)), nn.Linear(2 * width, 2)

    def forward(self, h: Tensor, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Logits from states h [b, t, d]: `start`, `end` [b, t], `kinds` [b, 6], `number`,
        `option`."""
        start, end = _span_logits(self.span, h, batch["story"])
        whole = torch.cat([h[torch.arange(len(h)), batch["cls"]], _weighted(start, h)], 1)
        return {
            "start": start,
            "end": end,
            "kinds": self.kind(whole),
            "number": self.number(whole),
            "option": self.option(whole),
        }

    def summary(self, h: Tensor, story: Tensor) -> Tensor:
        """Σ softmax(start)_t h_t [b, d]; `story` [b, t] is true at the story's tokens."""
        return _weighted(_span_logits(self.span, h, story)[0], h)

    def weights(self) -> Tensor:
        """What each of `forms` gains from [h_CLS; summary], [6, 2d], but for their softmax."""
        return self.kind.weight

    def loss(
        self, out: dict[str, Tensor], batch: dict[str, Tensor], targets: dict[str, Tensor]
    ) -> Tensor:
        """Cross-entropy of the kind and, where it has one, of its value; mean over the windows."""
        kind, value = targets["kind"], targets["value"]
        loss = F.cross_entropy(out["kinds"], kind, reduction="sum")
        for i, name in enumerate(self.kinds):
            rows = kind == i
            if name == "span":
                ends = (
                    F.cross_entropy(out[part][rows], targets[part][rows], reduction="sum")
                    for part in ("start", "end")
                )
                loss = loss + sum(ends) / 2
            elif name not in WORD_ANSWERS:
                loss = loss + F.cross_entropy(out[name][rows], value[rows], reduction="sum")
        return loss / len(kind)

    def scores(self, out: dict[str, Tensor]) -> Tensor:
        """Log-probability of each kind, [b, 6]."""
        return out["kinds"].log_softmax(1)


HEADS: dict[str, type[Tagging] | type[Typed]] = {"tagging": Tagging, "typed": Typed}
_LOW = -1e4  # −∞ would give NaN where a window has no story


def _span_logits(layer: nn.Linear, h: Tensor, story: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [b, t] of a span's start and end."""
    return layer(h).masked_fill(~story[..., None], _LOW).unbind(2)


def _weighted(start: Tensor, h: Tensor) -> Tensor:
    """States h [b, t, d] weighted by the probability that a span starts there, [b, d]."""
    return (start.softmax(1)[:, None] @ h)[:, 0]


def typed_targets(table: pd.DataFrame, answer: Tensor, item: np.ndarray) -> dict[str, Tensor]:
    """`kind` and `value` [w] for `Typed`, from the table's words and the windows' answers."""
    pairs = []
    for question, words, kind in zip(table.question, table.answer.str.lower(), table.kind):
        if kind == "number" and words in NUMBERS:
            pairs.append((Typed.kinds.index("number"), NUMBERS.index(words)))
        elif kind == "option" and words in (choices := options(question)):
            pairs.append((Typed.kinds.index("option"), choices.index(words)))
        else:
            pairs.append((Typed.kinds.index("span"), 0))
    kind, value = torch.tensor(pairs)[torch.from_numpy(item)].unbind(1)
    return {"kind": torch.where(answer < 0, kind, answer), "value": value}


def options(question: str) -> list[str]:
    """The words before and after the last "or" of a question, lower-case; [] if it has none."""
    match = re.search(r".*?(\w+),? or (?:an? |the )?(\w+)", question.lower())
    return list(match.groups()) if match else []


def answer_words(form: str, value: np.ndarray, question: str) -> str:
    """The words of an answer that is no span; `value` [2]: the number's and the option's place."""
    if form == "number":
        return NUMBERS[value[0]]
    return [*options(question), "", ""][value[1]] if form == "option" else form


def best_spans(start: Tensor, end: Tensor, longest: int = 30) -> tuple[Tensor, Tensor, Tensor]:
    """Score, first and last place [b] of the best span of at most `longest` tokens.

    `start`, `end`: logits [b, t] of its two ends."""
    score = start.new_full((len(start),), -torch.inf)
    first, length = torch.zeros(2, len(start), dtype=torch.long, device=start.device)
    for size in range(min(longest, start.shape[1])):
        value, place = (start[:, : start.shape[1] - size] + end[:, size:]).max(1)
        better = value > score
        score, first = torch.where(better, value, score), torch.where(better, place, first)
        length = length.masked_fill(better, size)
    return score, first, first + length


def decide(scores: np.ndarray, item: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of n items: the chosen form [n], its window [n], and the scores [n, c] of all forms.

    `scores` [w, c]: those of the windows; `item` [w]: the item of each. An item's score is the
    greatest of its windows', but the smallest for unknown, as in the released code."""
    items = np.unique(item)
    best = np.empty((len(items), scores.shape[1]))
    window = np.empty(best.shape, int)
    for c in range(scores.shape[1]):
        sign = -1 if c == WORD_ANSWERS.index("unknown") else 1
        order = np.lexsort((sign * scores[:, c], item))  # the last of each item is the best
        last: np.ndarray = np.append(np.flatnonzero(np.diff(item[order])), len(order) - 1)
        window[:, c] = order[last]
        best[:, c] = scores[window[:, c], c]
    choice = best.argmax(1)
    return choice, window[np.arange(len(items)), choice], best
