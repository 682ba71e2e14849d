"""Text for training a language model: vocabulary, token ids end to end, rows, masks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor

if TYPE_CHECKING:
    from transformers import BertTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)


def train_vocabulary(texts: Iterable[str], size: int = 8192) -> BertTokenizerFast:
    """An uncased WordPiece tokenizer of `size` pieces, whose ids are in sorted order.

    The trainer breaks ties between equally frequent pairs at random, so a few rare pieces may
    differ between runs."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import BertTokenizerFast

    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(
        texts,
        trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=SPECIAL, limit_alphabet=100, show_progress=False
        ),
    )
    pieces = SPECIAL + sorted(set(tok.get_vocab()) - set(SPECIAL))
    return BertTokenizerFast(vocab={p: i for i, p in enumerate(pieces)}, do_lower_case=True)


_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z])")


def sentences(paragraphs: Iterable[str]) -> Iterator[str]:
    """Split paragraphs where a capital follows the end of a sentence."""
    for paragraph in paragraphs:
        yield from (s for s in _SENTENCE_END.split(paragraph) if s.strip())


def encode(texts: Iterable[str], tokenizer: BertTokenizerFast) -> tuple[np.ndarray, np.ndarray]:
    """Token ids of all texts end to end (uint16) and the offset at which each begins (int64)."""
    ids, starts, texts, fast = [], [0], iter(texts), tokenizer.backend_tokenizer
    while part := list(islice(texts, 20_000)):
        for encoding in fast.encode_batch(part, add_special_tokens=False):
            if encoding.ids:
                ids.append(np.asarray(encoding.ids, np.uint16))
                starts.append(starts[-1] + len(encoding.ids))
    return np.concatenate(ids), np.asarray(starts, np.int64)


def draw_rows(
    ids: np.ndarray,
    starts: np.ndarray,
    n: int,
    length: int,
    rng: np.random.Generator,
    sentence_start: bool,
) -> Tensor:
    """`n` rows `[CLS] … [SEP]` of `length` ids, drawn from a text.

    Rows begin at random places or, with `sentence_start`, where a sentence begins."""
    out: np.ndarray = np.full((n, length), SEP, np.int64)
    out[:, 0] = CLS
    room = length - 2
    if sentence_start:
        usable = np.searchsorted(starts, len(ids) - room, side="right")
        begin = starts[rng.integers(usable, size=n)]
    else:
        begin = rng.integers(len(ids) - room + 1, size=n)
    out[:, 1:-1] = ids[begin[:, None] + np.arange(room)]
    return torch.from_numpy(out)


def mask_rows(rows: Tensor, rate: float, vocab: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """BERT's masking: of the chosen places 80 % become [MASK], 10 % a random piece, 10 % stay.

    Returns the input ids and a boolean tensor of the chosen places."""
    u = torch.rand(rows.shape, generator=generator)
    chosen = (u < rate) & (rows >= len(SPECIAL))
    kind = torch.rand(rows.shape, generator=generator)
    noise = torch.randint(len(SPECIAL), vocab, rows.shape, generator=generator)
    inputs = torch.where(chosen & (kind < 0.8), MASK, rows)
    return torch.where(chosen & (kind >= 0.9), noise, inputs), chosen


def next_rows(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The task of predicting the next piece: input ids, labels, and the places that count.

    Special tokens do not count as next pieces: the [SEP] only marks where a row was cut."""
    labels = rows.roll(-1, 1)
    chosen = labels >= len(SPECIAL)
    chosen[:, -1] = False
    return rows, labels, chosen
