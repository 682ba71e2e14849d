"""Static word vectors: read from a file, and averaged over the words of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from probebook.base import UserError
from probebook.models.loading import POCKET

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+|[^\sa-z0-9]")


@dataclass(frozen=True, eq=False)
class Vectors:
    """`vectors(texts)` → the mean vector of each text's known words: float32 [n, d], 0 for none.

    `place`: the row of each word in `matrix` (float32 [words, d])."""

    name: str
    place: dict[str, int]
    matrix: Tensor

    @property
    def width(self) -> int:
        """Number of dimensions."""
        return self.matrix.shape[1]

    def at(self, width: int) -> Vectors:
        """The first `width` dimensions; after a singular value decomposition these are the best."""
        if not 1 <= width <= self.width:
            raise UserError(f"width {width}: {self.name} has {self.width} dimensions")
        return Vectors(self.name, self.place, self.matrix[:, :width])

    def __call__(self, texts: Sequence[str]) -> Tensor:
        rows = [[self.place[word] for word in words(text) if word in self.place] for text in texts]
        lengths = torch.tensor([len(row) for row in rows])
        offsets = lengths.cumsum(0) - lengths
        flat = torch.tensor([place for row in rows for place in row], dtype=torch.long)
        return torch.nn.functional.embedding_bag(flat, self.matrix, offsets, mode="mean")


def words(text: str) -> list[str]:
    """Lower-case words, numbers and punctuation marks."""
    return WORD.findall(text.lower().replace("’", "'"))


def load(name: str | Path = "pocket-vectors") -> Vectors:
    """Load the book's vectors (300 dimensions), or those of a text file in GloVe's format.

    Each line of such a file has a word and its numbers. Raises UserError if the file is missing or
    a line has another form."""
    folder = POCKET / str(name)
    if folder.is_dir():
        known = (folder / "words.txt").read_text(encoding="utf-8").split()
        matrix = load_file(folder / "vectors.safetensors")["vectors"].float()
        return Vectors(str(name), {word: i for i, word in enumerate(known)}, matrix)
    path, known = Path(name), []
    rows: list[np.ndarray] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                fields = line.rstrip().split(" ")
                if number == 1 and len(fields) == 2:  # word2vec's header: words, dimensions
                    continue
                width = len(rows[0]) if rows else len(fields) - 1
                end = len(fields) - width  # a word may contain spaces
                rows.append(np.array(fields[end:], np.float32))
                known.append(" ".join(fields[:end]))
    except OSError as e:
        raise UserError(f"{path}: {e.strerror}: give a file, or pocket-vectors") from None
    except ValueError:
        raise UserError(f"{path}, line {number}: a word and {width} numbers are needed") from None
    if not rows or not len(rows[0]):
        raise UserError(f"{path}: no vectors in it")
    place = {word: i for i, word in enumerate(known)}
    return Vectors(path.stem, place, torch.from_numpy(np.stack(rows)))
