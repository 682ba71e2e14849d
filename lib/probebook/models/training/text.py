"""Text for training a language model: vocabulary, ids end to end, rows, masks."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import torch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)


def train_vocabulary(texts: Iterable[str], size: int = 8192):
    """WordPiece, uncased, `size` pieces, ids in sorted order (the trainer's own order varies).

    The trainer breaks ties between equally frequent pairs at random, so a few rare pieces may differ between runs.
    Returns a `transformers.BertTokenizerFast`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import BertTokenizerFast

    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL, limit_alphabet=100, show_progress=False))
    pieces = SPECIAL + sorted(set(tok.get_vocab()) - set(SPECIAL))
    return BertTokenizerFast(vocab={p: i for i, p in enumerate(pieces)}, do_lower_case=True)


_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z])")


def sentences(paragraphs: Iterable[str]) -> Iterator[str]:
    """Split paragraphs at a full stop that a capital follows."""
    for paragraph in paragraphs:
        yield from (s for s in _SENTENCE_END.split(paragraph) if s.strip())


def encode(texts: Iterable[str], tokenizer, chunk: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """Token ids of all texts end to end (uint16) and the offset at which each begins (int64)."""
    ids, ends, batch = [], [0], []

    def flush():
        for e in tokenizer.backend_tokenizer.encode_batch(batch, add_special_tokens=False):
            if e.ids:
                ids.append(np.asarray(e.ids, np.uint16))
                ends.append(ends[-1] + len(e.ids))
        batch.clear()

    for text in texts:
        batch.append(text)
        if len(batch) == chunk:
            flush()
    flush()
    return np.concatenate(ids), np.asarray(ends, np.int64)


def draw_rows(ids, starts, n, length, rng, sentence_start) -> torch.Tensor:
    """`n` rows `[CLS] … [SEP]` of `length` ids: windows of the text at random places, or from a sentence's start."""
    out = np.full((n, length), SEP, np.int64)
    out[:, 0] = CLS
    room = length - 2
    if sentence_start:
        begin = starts[rng.integers(np.searchsorted(starts, len(ids) - room, side="right"), size=n)]
    else:
        begin = rng.integers(len(ids) - room + 1, size=n)
    out[:, 1:-1] = ids[begin[:, None] + np.arange(room)]
    return torch.from_numpy(out)


def mask_rows(rows: torch.Tensor, rate: float, vocab: int, generator: torch.Generator):
    """BERT's masking: of the chosen places 80 % become [MASK], 10 % a random piece, 10 % stay.

    Returns the input ids and a boolean tensor of the chosen places."""
    u = torch.rand(rows.shape, generator=generator)
    chosen = (u < rate) & (rows >= len(SPECIAL))
    kind = torch.rand(rows.shape, generator=generator)
    noise = torch.randint(len(SPECIAL), vocab, rows.shape, generator=generator)
    inputs = torch.where(chosen & (kind < .8), MASK, rows)
    return torch.where(chosen & (kind >= .9), noise, inputs), chosen


def next_rows(rows: torch.Tensor):
    """What predicts the next piece: the rows, the rows moved one place left, and the places whose next piece is text
    (the [SEP] at which a row was cut says nothing)."""
    labels = rows.roll(-1, 1)
    chosen = labels >= len(SPECIAL)
    chosen[:, -1] = False
    return rows, labels, chosen
