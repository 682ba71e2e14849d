"""Output heads of readers: from states to yes, no, unknown, a span … (Chaturvedi et al. 2024, § 4.2)."""
from __future__ import annotations

import re

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F

from probebook.models.readers.windows import OTHERS

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class Tagging(nn.Module):
    """The head of BERT and RoBERTa: a tagger of the rationale, whose states say yes, no or unknown; and a span.

    p_t = σ(u ReLU(V h_t)) (eq. 3); p'_t = p_t h_t (4); a = softmax(w₁ ReLU(W₂ p'_t)) (5); q = Σ a_t p'_t (6); yes, no
    and unknown from [h_CLS; q]; start and end from h_t. One softmax over yes, no, unknown and the places for the start,
    one for the end; the loss is their mean cross-entropy plus `weight` times that of the tags."""

    kinds = OTHERS

    def __init__(self, width: int, weight: float = 5.0):
        super().__init__()
        self.weight = weight
        self.tag = nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU(), nn.Linear(width, 1, bias=False))
        self.attend = nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU(), nn.Linear(width, 1, bias=False))
        self.spoken, self.span = nn.Linear(2 * width, len(OTHERS)), nn.Linear(width, 2)

    def forward(self, h: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Of states h [b, t, d]: `start`, `end` [b, t] (−∞ outside of the story), `kinds` [b, 3], `tags` [b, t], all
        logits."""
        outside = ~batch["story"]
        q, tags = self.tagged(h, batch["story"])
        start, end = self.span(h).masked_fill(outside[..., None], _LOW).unbind(2)
        return {"start": start, "end": end, "tags": tags,
                "kinds": self.spoken(torch.cat([h[torch.arange(len(h)), batch["cls"]], q], 1))}

    def tagged(self, h: torch.Tensor, story: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """q [b, d], which sums up what is tagged, and the tags' logits [b, t]; `story` [b, t]: its tokens."""
        tags = self.tag(h)[..., 0]
        carried = tags.sigmoid()[..., None] * h
        a = self.attend(carried)[..., 0].masked_fill(~story, _LOW).softmax(1)
        return (a[:, None] @ carried)[:, 0], tags

    def loss(self, out, batch, want) -> torch.Tensor:
        """Mean over the windows; `want`: answer, start, end [b] and tags [b, t] (`windows.targets`)."""
        span, kinds = want["answer"] < 0, out["kinds"]
        losses = [F.cross_entropy(torch.cat([kinds, out[part]], 1),
                                  torch.where(span, kinds.shape[1] + want[part], want["answer"]))
                  for part in ("start", "end")]
        tags = F.binary_cross_entropy_with_logits(out["tags"][batch["story"]], want["tags"][batch["story"]])
        return sum(losses) / 2 + self.weight * tags

    def scores(self, out) -> torch.Tensor:
        """Scores of yes, no, unknown, each twice its logit, as a span's is a start's and an end's: [b, 3]."""
        return 2 * out["kinds"]


class Typed(nn.Module):
    """The head of XLNet: a kind of answer (yes, no, unknown, number, option, span), and each kind's value.

    Each is read from [h_CLS; Σ softmax(start)_t h_t]. Here the kinds share one softmax, where the released code trains
    one score for each kind. A number is one of `NUMBERS`, an option the first or second that the question names."""

    kinds = (*OTHERS, "number", "option", "span")

    def __init__(self, width: int, weight: float = 0.0):
        super().__init__()
        self.span, self.kind = nn.Linear(width, 2), nn.Linear(2 * width, len(self.kinds))
        self.number, self.option = nn.Linear(2 * width, len(NUMBERS)), nn.Linear(2 * width, 2)

    def forward(self, h, batch):
        start, end = self.span(h).masked_fill(~batch["story"][..., None], _LOW).unbind(2)
        weighted = (start.softmax(1)[:, None] @ h)[:, 0]
        whole = torch.cat([h[torch.arange(len(h)), batch["cls"]], weighted], 1)
        return {"start": start, "end": end, "kinds": self.kind(whole), "number": self.number(whole),
                "option": self.option(whole)}

    def loss(self, out, batch, want):
        """Cross-entropy of the kind, and of the value of those that have one, mean over the windows."""
        kind, value = want["kind"], want["value"]
        loss = F.cross_entropy(out["kinds"], kind, reduction="sum")
        for i, name in enumerate(self.kinds):
            rows = kind == i
            if name == "span":
                loss = loss + sum(F.cross_entropy(out[part][rows], want[part][rows], reduction="sum")
                                  for part in ("start", "end")) / 2
            elif name not in OTHERS:
                loss = loss + F.cross_entropy(out[name][rows], value[rows], reduction="sum")
        return loss / len(kind)

    def scores(self, out):
        """Log-probability of each kind, [b, 6]."""
        return out["kinds"].log_softmax(1)


HEADS = {"tagging": Tagging, "typed": Typed}
_LOW = -1e4                                       # −∞ would give NaN where a window has no story


def typed(table: pd.DataFrame, answer: torch.Tensor, item: np.ndarray) -> dict[str, torch.Tensor]:
    """`kind` and `value` [w] for `Typed`, from the windows' answers (`windows.targets`) and the table's own words."""
    values = []
    for question, said, kind in zip(table.question, table.answer.str.lower(), table.kind):
        if kind == "number" and said in NUMBERS:
            values.append((3, NUMBERS.index(said)))
        elif kind == "option" and said in (named := options(question)):
            values.append((4, named.index(said)))
        else:
            values.append((5, 0))
    kind, value = torch.tensor(values)[torch.from_numpy(item)].unbind(1)
    return {"kind": torch.where(answer < 0, kind, answer), "value": value}


def options(question: str) -> list[str]:
    """The two words about the last "or" of a question, lower-case; [] where it has none."""
    found = re.search(r".*?(\w+),? or (?:an? |the )?(\w+)", question.lower())
    return list(found.groups()) if found else []


def named(form: str, value: np.ndarray, question: str) -> str:
    """An answer's words, of a form that is no span; `value` [2]: the number's and the option's place."""
    if form == "number":
        return NUMBERS[value[0]]
    return [*options(question), "", ""][value[1]] if form == "option" else form


def best_spans(start: torch.Tensor, end: torch.Tensor, longest: int = 30) -> tuple[torch.Tensor, ...]:
    """Score, first and last place [b] of the best span of at most `longest` tokens, from logits [b, t] of both ends."""
    score, first, length = start.new_full((len(start),), -torch.inf), *torch.zeros(2, len(start), dtype=torch.long)
    for size in range(min(longest, start.shape[1])):
        here, at = (start[:, :start.shape[1] - size] + end[:, size:]).max(1)
        better = here > score
        score, first, length = (torch.where(better, new, old) for new, old in
                                ((here, score), (at, first), (torch.full_like(at, size), length)))
    return score, first, first + length


def decide(scores: np.ndarray, item: np.ndarray, unknown: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Choice [n], the window that it is taken from [n], and the items' scores [n, c], from those of windows [w, c].

    Every score of an item is the greatest of its windows', that of unknown the smallest, as in the released code."""
    items = np.unique(item)
    found, window = np.empty((len(items), scores.shape[1])), np.empty((len(items), scores.shape[1]), int)
    for c in range(scores.shape[1]):
        sign = -1 if c == unknown else 1
        order = np.lexsort((sign * scores[:, c], item))                  # the last of each item is the one wanted
        last = np.append(np.flatnonzero(np.diff(item[order])), len(order) - 1)
        window[:, c] = order[last]
        found[:, c] = scores[window[:, c], c]
    choice = found.argmax(1)
    return choice, window[np.arange(len(items)), choice], found
