"""Static word vectors: read (GloVe's text format, or the book's own), made from text, and averaged over a sentence."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from probebook.base import UserError, written_whole
from probebook.models.loading import POCKET

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+|[^\sa-z0-9]")


@dataclass(frozen=True, eq=False)
class Vectors:
    """`vectors(texts)` → the mean vector of each text's known words, float32 [n, d] (0 where none is known)."""

    name: str
    place: dict[str, int]
    matrix: torch.Tensor                                        # [words, d] float32

    @property
    def width(self) -> int:
        return self.matrix.shape[1]

    def at(self, width: int) -> Vectors:
        """The first `width` dimensions: of vectors from a singular value decomposition the best ones of that number."""
        if not 1 <= width <= self.width:
            raise UserError(f"width {width}: {self.name} has {self.width} dimensions")
        return Vectors(self.name, self.place, self.matrix[:, :width])

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        rows = [[self.place[word] for word in words(text) if word in self.place] for text in texts]
        lengths = torch.tensor([len(row) for row in rows])
        offsets = lengths.cumsum(0) - lengths
        flat = torch.tensor([place for row in rows for place in row], dtype=torch.long)
        return torch.nn.functional.embedding_bag(flat, self.matrix, offsets, mode="mean")


def words(text: str) -> list[str]:
    """Lower-case words, numbers and punctuation marks."""
    return WORD.findall(text.lower().replace("’", "'"))


def load(name: str | Path = "pocket-vectors") -> Vectors:
    """The book's vectors (300 dimensions), or a text file like GloVe's: a word and its numbers in each line.

    Raises UserError for a file that is not there or a line that is not of this form."""
    folder = POCKET / str(name)
    if folder.is_dir():
        known = (folder / "words.txt").read_text(encoding="utf-8").split()
        matrix = load_file(folder / "vectors.safetensors")["vectors"].float()
        return Vectors(str(name), {word: i for i, word in enumerate(known)}, matrix)
    path, known, rows = Path(name), [], []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                fields = line.rstrip().split(" ")
                if number == 1 and len(fields) == 2:            # word2vec's header: number of words, dimensions
                    continue
                width = len(rows[0]) if rows else len(fields) - 1
                rows.append(np.array(fields[len(fields) - width:], np.float32))        # a word may hold spaces
                known.append(" ".join(fields[:len(fields) - width]))
    except OSError as e:
        raise UserError(f"{path}: {e.strerror}: give the file of the vectors, or pocket-vectors") from None
    except ValueError:
        raise UserError(f"{path}, line {number}: a word and {width} numbers are needed") from None
    if not rows or not len(rows[0]):
        raise UserError(f"{path}: no vectors in it")
    return Vectors(path.stem, {word: i for i, word in enumerate(known)}, torch.from_numpy(np.stack(rows)))


def fit(paragraphs: Iterable[str], size: int = 9_500, width: int = 300, window: int = 5, seed: int = 0,
        name: str = "vectors") -> Vectors:
    """Vectors U √Σ of the `size` most frequent words from the truncated SVD of their PPMI (Levy & Goldberg 2014).

    Counts: pairs of words at most `window` apart in a paragraph; contexts smoothed by the power .75 (Levy, Goldberg &
    Dagan 2015). The first d columns are the vectors of d dimensions."""
    texts = [words(paragraph) for paragraph in paragraphs]
    known = [word for word, _ in Counter(word for text in texts for word in text).most_common(size)]
    place = {word: i for i, word in enumerate(known)}
    gap = [-1] * window                                                             # no pair across paragraphs
    ids = np.fromiter((i for text in texts for i in [*(place.get(word, -1) for word in text), *gap]), np.int32)
    found = ppmi(counts(ids, len(known), window))
    u, s, _ = randomized_svd(found, min(width, len(known) - 1), n_iter=7, random_state=seed)
    return Vectors(name, place, torch.from_numpy(u * np.sqrt(s)).float())


def counts(ids: np.ndarray, size: int, window: int) -> sparse.csr_array:
    """How often two words (places ≥ 0; −1: none) stand at most `window` apart: symmetric [size, size]."""
    total = np.zeros(size * size, np.int64)
    for apart in range(1, window + 1):
        left, right = ids[:-apart].astype(np.int64), ids[apart:]
        both = (left >= 0) & (right >= 0)
        total += np.bincount(left[both] * size + right[both], minlength=size * size)
    found = sparse.csr_array(total.reshape(size, size))
    return found + found.T


def ppmi(found: sparse.csr_array, smoothing: float = .75) -> sparse.csr_array:
    """max(0, ln P(w, c) / (P(w) P_smoothed(c))) of the counts, 0 where the count is 0."""
    of_word, of_context = found.sum(1), found.sum(0) ** smoothing
    (rows, columns), joint = found.tocoo().coords, found.tocoo().data / found.sum()
    expected = of_word[rows] / of_word.sum() * of_context[columns] / of_context.sum()
    values = np.maximum(np.log(joint / expected), 0)
    return sparse.csr_array((values, (rows, columns)), shape=found.shape)


def export(vectors: Vectors, folder: Path) -> None:
    """Write float16 vectors and their words to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(folder / "vectors.safetensors") as part:
        save_file({"vectors": vectors.matrix.half().contiguous()}, part)
    (folder / "words.txt").write_text("\n".join(vectors.place) + "\n", encoding="utf-8")
