"""Questions about stories as windows of tokens, and where the answer lies in each window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WORD_ANSWERS = ("yes", "no", "unknown")  # answers that are no span of the story


@dataclass(frozen=True, eq=False)
class Windows:
    """w windows, each with the question, its context and part of a story."""

    item: np.ndarray  # [w], row of the table
    ids: list[list[int]]  # tokens of each window
    types: list[list[int]]  # their segments
    story: np.ndarray  # [w, 2], first place of the story's tokens, and the place after the last
    offsets: list[np.ndarray]  # of each window the characters [s, 2] of these tokens in the story
    cls: np.ndarray  # [w], the place of the [CLS] token
    pad: int  # the id that fills up a batch

    def batches(
        self, tokens: int, draws: np.random.Generator | None = None
    ) -> Iterator[np.ndarray]:
        """Rows of windows of similar length whose padded size is at most `tokens`.

        A batch has at least one window. Batches run from short to long or, with `draws`, in random
        order, sorted by length only within groups of about sixteen batches."""
        size = np.array([len(ids) for ids in self.ids])
        if draws is None:
            order, group = np.argsort(size, kind="stable"), len(size)
        else:
            order, group = draws.permutation(len(size)), max(1, int(16 * tokens / size.mean()))
        batches = []
        for rows in np.split(order, range(group, len(order), group)):
            rows, begin = rows[np.argsort(size[rows], kind="stable")], 0
            for i in range(1, len(rows) + 1):
                if i == len(rows) or size[rows[i]] * (i + 1 - begin) > tokens:
                    batches.append(rows[begin:i])
                    begin = i
        return iter(
            batches if draws is None else [batches[i] for i in draws.permutation(len(batches))]
        )

    def padded(self, rows: np.ndarray) -> dict[str, Tensor]:
        """`ids`, `types`, `mask` (1 at tokens), `story` (true at the story's) [b, t], `cls` [b]."""
        size = torch.tensor([len(self.ids[r]) for r in rows])
        width = int(size.max())
        place = torch.arange(width)
        begin, end = torch.from_numpy(self.story[rows].T)

        def fill(lists: list[list[int]], value: int) -> Tensor:
            return torch.tensor([lists[r] + [value] * (width - len(lists[r])) for r in rows])

        return {
            "ids": fill(self.ids, self.pad),
            "types": fill(self.types, 0),
            "mask": (place < size[:, None]).long(),
            "cls": torch.from_numpy(self.cls[rows]),
            "story": (place >= begin[:, None]) & (place < end[:, None]),
        }


def cut(
    table: pd.DataFrame,
    tokenizer: PreTrainedTokenizerBase,
    context: int = 64,
    max_length: int = 512,
    stride: int = 128,
) -> Windows:
    """Cut stories into windows that an encoder can read, each with the question and its context.

    Before the story (for XLNet, after it) come the last two questions with their answers and the
    question (Chaturvedi et al., § 4.2).

    Args:
        context: Largest number of tokens before the story; the last ones are taken.
        max_length: Largest number of tokens of a window.
        stride: Number of tokens that neighbouring windows of a story share.

    UserError: an empty story, or a question that is longer than `context`."""
    contexts = question_contexts(table, tokenizer, context)
    empty = np.flatnonzero(table.story.str.strip() == "")
    if len(empty):
        raise UserError(f"story {table.story_id.iloc[empty[0]]} is empty: leave its questions out")
    room = max_length - context - tokenizer.num_special_tokens_to_add(pair=True)
    if room <= stride:
        raise UserError(
            f"windows of {max_length} tokens with {context} of context leave {room} "
            f"for the story: more than the stride of {stride} are needed"
        )
    texts = [contexts, table.story.tolist()]
    story_part = 1
    if "xlnet" in type(tokenizer).__name__.lower():
        texts, story_part = texts[::-1], 0
    encoding = tokenizer(
        *texts,
        truncation=("only_first", "only_second")[story_part],
        max_length=max_length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    story, offsets = [], []
    for i, spans in enumerate(encoding["offset_mapping"]):
        places = np.flatnonzero(np.array(encoding.sequence_ids(i), dtype=object) == story_part)
        story.append((places[0], places[-1] + 1) if len(places) else (0, 0))
        offsets.append(np.array(spans).reshape(-1, 2)[slice(*story[-1])])
    ids, item = encoding["input_ids"], np.array(encoding["overflow_to_sample_mapping"])
    cls = np.array([row.index(tokenizer.cls_token_id) for row in ids])
    return Windows(
        item, ids, encoding["token_type_ids"], np.array(story), offsets, cls, tokenizer.pad_token_id
    )


def question_contexts(
    table: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, tokens: int
) -> list[str]:
    """Q₋₂ A₋₂ Q₋₁ A₋₁ Q of each row, cut from the left to at most `tokens` tokens."""
    questions = tokenizer(table.question.tolist(), add_special_tokens=False)["input_ids"]
    for question, ids in zip(table.question, questions):
        if len(ids) > tokens:
            raise UserError(
                f"question of {len(ids)} tokens, at most {tokens}: shorten "
                f"{question[:60]!r}…, or give a larger context"
            )
    texts = [
        " ".join([*(part for turn in history[-2:] for part in turn), question])
        for history, question in zip(table.history, table.question)
    ]
    encoding = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    return [
        text[spans[-tokens][0] :] if len(spans) > tokens else text
        for text, spans in zip(texts, encoding["offset_mapping"])
    ]


def targets(table: pd.DataFrame, windows: Windows) -> dict[str, Tensor | list[np.ndarray]]:
    """The right answer in each of w windows.

    `answer` [w]: a place in WORD_ANSWERS, or −1 for a span.
    `start`, `end` [w]: places in the window of the span's first and last token.
    `tags`: of each window the places of the rationale's tokens in the story.
    In a window without the span (for yes and no: without any token of the rationale) the answer is
    unknown. Raises UserError for an answer that is no span of its story."""
    start, end = table.start.to_numpy(int), table.end.to_numpy(int)
    places = {answer: i for i, answer in enumerate(WORD_ANSWERS)}
    word = table.answer.map(places).fillna(-1).to_numpy(int)
    inside = (0 <= start) & (start < end) & (end <= table.story.str.len().to_numpy())
    wrong = np.flatnonzero((word < 0) & ~inside)
    if len(wrong):
        row = table.iloc[wrong[0]]
        raise UserError(
            f"answer {str(row.answer)!r} at {row.start}:{row.end} is not a span of its "
            f"story of {len(row.story)} characters: expected start and end, or yes, no or "
            "unknown"
        )
    answers, starts, ends, tags = [], [], [], []
    for item, (begin, _), offsets in zip(windows.item, windows.story, windows.offsets):
        rationale = table.rationale.iloc[item]
        tagged: np.ndarray = np.zeros(len(offsets), bool)
        for a, b in rationale:
            tagged |= _overlaps(offsets, a, b)
        span = np.flatnonzero(_overlaps(offsets, start[item], end[item]))
        whole = (
            len(span) and offsets[span[0], 0] <= start[item] and offsets[span[-1], 1] >= end[item]
        )
        answer = word[item]
        if answer < 0 and not whole or answer in (0, 1) and rationale and not tagged.any():
            answer = WORD_ANSWERS.index("unknown")
        answers.append(answer)
        starts.append(begin + span[0] if answer < 0 else 0)
        ends.append(begin + span[-1] if answer < 0 else 0)
        tags.append(begin + np.flatnonzero(tagged))
    return {
        "answer": torch.tensor(answers),
        "start": torch.tensor(starts),
        "end": torch.tensor(ends),
        "tags": tags,
    }


def batch_targets(
    targets: dict[str, Tensor | list[np.ndarray]], rows: np.ndarray, batch: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The targets of the windows in a batch, on its device; `tags` [b, t] of 0 and 1."""
    tags = torch.zeros(batch["ids"].shape)
    for i, row in enumerate(rows):
        tags[i, targets["tags"][row]] = 1
    chosen = {name: value[rows] for name, value in targets.items() if isinstance(value, Tensor)}
    return {
        name: value.to(batch["ids"].device) for name, value in (chosen | {"tags": tags}).items()
    }


def _overlaps(offsets: np.ndarray, start: int, end: int) -> np.ndarray:
    """Which tokens, given by their characters [s, 2], overlap start … end."""
    return (offsets[:, 0] < end) & (offsets[:, 1] > start)
