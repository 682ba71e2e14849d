"""Questions about stories as token windows: what a reader is given, and where the answer lies in it."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from probebook.base import UserError

OTHERS = ("yes", "no", "unknown")                 # answers that are no span


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of question context and story. `item` [w]: row of the table; `ids`, `types`: tokens and segments of
    each window; `story` [w, 2]: its places of story tokens, from and to; `offsets`: their characters in the story
    [s, 2]; `cls` [w]: the place of the token that stands for the whole."""

    item: np.ndarray
    ids: list[list[int]]
    types: list[list[int]]
    story: np.ndarray
    offsets: list[np.ndarray]
    cls: np.ndarray
    pad: int

    def batches(self, tokens: int, draws: np.random.Generator | None = None) -> Iterator[np.ndarray]:
        """Rows of windows whose padded size is at most `tokens` (one window at least): like lengths together.

        With `draws` in random order, sorted by length only among some sixteen batches; else from short to long."""
        size = np.array([len(ids) for ids in self.ids])
        order = np.argsort(size, kind="stable") if draws is None else draws.permutation(len(size))
        chunk = len(size) if draws is None else max(1, int(16 * tokens / size.mean()))
        found = []
        for rows in np.split(order, range(chunk, len(order), chunk)):
            rows, begin = rows[np.argsort(size[rows], kind="stable")], 0
            for i in range(1, len(rows) + 1):
                if i == len(rows) or size[rows[i]] * (i + 1 - begin) > tokens:
                    found.append(rows[begin:i])
                    begin = i
        return iter(found if draws is None else [found[i] for i in draws.permutation(len(found))])

    def padded(self, rows) -> dict[str, torch.Tensor]:
        """ids, types, mask (tokens), story (mask of story tokens) [b, t] and cls [b] of some windows."""
        width = max(len(self.ids[r]) for r in rows)
        place = torch.arange(width)
        size, (begin, end) = torch.tensor([len(self.ids[r]) for r in rows]), torch.from_numpy(self.story[rows].T)
        return {"ids": torch.tensor([self.ids[r] + [self.pad] * (width - len(self.ids[r])) for r in rows]),
                "types": torch.tensor([self.types[r] + [0] * (width - len(self.types[r])) for r in rows]),
                "mask": (place < size[:, None]).long(), "cls": torch.from_numpy(self.cls[rows]),
                "story": (place >= begin[:, None]) & (place < end[:, None])}


def cut(table: pd.DataFrame, tokenizer, context: int = 64, max_length: int = 512, stride: int = 128) -> Windows:
    """Windows of at most `max_length` tokens, two of a story sharing `stride` of them (Chaturvedi et al., § 4.2).

    Before the story (XLNet: after it) stand the last two questions with their answers and the question, of which the
    last `context` tokens are kept. Raises UserError for an empty story, or a question that is longer than that."""
    contexts = question_contexts(table, tokenizer, context)
    empty = np.flatnonzero(table.story.str.strip() == "")
    if len(empty):
        raise UserError(f"story {table.story_id.iloc[empty[0]]} is empty: leave its questions out")
    room = max_length - context - tokenizer.num_special_tokens_to_add(pair=True)
    if room <= stride:
        raise UserError(f"windows of {max_length} tokens with {context} of context leave {room} for the story: more "
                        f"than the stride of {stride} are needed")
    left = "xlnet" in type(tokenizer).__name__.lower()
    pair = (table.story.tolist(), contexts) if left else (contexts, table.story.tolist())
    found = tokenizer(*pair, truncation="only_first" if left else "only_second", max_length=max_length, stride=stride,
                      return_overflowing_tokens=True, return_offsets_mapping=True, return_token_type_ids=True)
    story, offsets = [], []
    for i, spans in enumerate(found["offset_mapping"]):
        places = np.flatnonzero(np.array(found.sequence_ids(i), dtype=object) == (0 if left else 1))
        story.append((places[0], places[-1] + 1) if len(places) else (0, 0))
        offsets.append(np.array(spans).reshape(-1, 2)[slice(*story[-1])])
    ids, item = found["input_ids"], np.array(found["overflow_to_sample_mapping"])
    cls = np.array([row.index(tokenizer.cls_token_id) for row in ids])
    return Windows(item, ids, found["token_type_ids"], np.array(story), offsets, cls, tokenizer.pad_token_id)


def question_contexts(table: pd.DataFrame, tokenizer, tokens: int) -> list[str]:
    """Q₋₂ A₋₂ Q₋₁ A₋₁ Q of each row, cut from the left to at most `tokens` tokens."""
    asked = tokenizer(table.question.tolist(), add_special_tokens=False)["input_ids"]
    long = [i for i, ids in enumerate(asked) if len(ids) > tokens]
    if long:
        raise UserError(f"question of {len(asked[long[0]])} tokens, at most {tokens}: shorten "
                        f"{table.question.iloc[long[0]][:60]!r}…, or give a larger context")
    texts = [" ".join([*(part for turn in history[-2:] for part in turn), question])
             for history, question in zip(table.history, table.question)]
    spans = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [text[span[-tokens][0]:] if len(span) > tokens else text for text, span in zip(texts, spans)]


def targets(table: pd.DataFrame, windows: Windows) -> dict[str, torch.Tensor]:
    """What is right in each window: `answer` [w] (a place in OTHERS, else −1 for a span), `start`, `end` [w] (first and
    last token of the span, places in the window), `tags`: places from and to of the rationale's story tokens, a list.

    A window without the span, or of a yes or no without any token of the rationale, is unknown. Raises UserError for
    an answer that is no span of its story."""
    start, end = table.start.to_numpy(int), table.end.to_numpy(int)
    spoken = table.answer.map({answer: i for i, answer in enumerate(OTHERS)}).fillna(-1).to_numpy(int)
    wrong = np.flatnonzero((spoken < 0) & ((start < 0) | (end <= start) | (end > table.story.str.len().to_numpy())))
    if len(wrong):
        row = table.iloc[wrong[0]]
        raise UserError(f"answer {str(row.answer)!r} at {row.start}:{row.end} is no span of its story of "
                        f"{len(row.story)} characters: give start and end, or yes, no or unknown")
    answers, starts, ends, tags = [], [], [], []
    for item, (begin, _), offsets in zip(windows.item, windows.story, windows.offsets):
        carried = np.zeros(len(offsets), bool)
        for a, b in table.rationale.iloc[item]:
            carried |= (offsets[:, 0] < b) & (offsets[:, 1] > a)
        inside = np.flatnonzero((offsets[:, 0] < end[item]) & (offsets[:, 1] > start[item]))
        whole = len(inside) and offsets[inside[0], 0] <= start[item] and offsets[inside[-1], 1] >= end[item]
        said = spoken[item]
        if said < 0 and not whole or said in (0, 1) and table.rationale.iloc[item] and not carried.any():
            said = 2
        answers.append(said)
        starts.append(begin + inside[0] if said < 0 else 0)
        ends.append(begin + inside[-1] if said < 0 else 0)
        tags.append(begin + np.flatnonzero(carried))
    return {"answer": torch.tensor(answers), "start": torch.tensor(starts), "end": torch.tensor(ends), "tags": tags}
