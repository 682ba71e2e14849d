"""Static word vectors: read from a file, made from text, and averaged over the words of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from probebook.base import UserError, written_whole
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
    """The book's vectors (300 dimensions), or those of a text file in GloVe's format.

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


def fit(
    paragraphs: Iterable[str],
    size: int = 9_500,
    width: int = 300,
    window: int = 5,
    seed: int = 0,
    name: str = "vectors",
) -> Vectors:
    """Vectors U √Σ from the truncated SVD of the words' PPMI (Levy & Goldberg 2014).

    - `size`: the number of words, the most frequent ones.
    - `width`: the number of dimensions; the first d columns are the vectors of d dimensions.
    - `window`: pairs of words count if they are at most so far apart in a paragraph.

    Contexts are smoothed by the power .75 (Levy, Goldberg & Dagan 2015)."""
    texts = [words(paragraph) for paragraph in paragraphs]
    frequency = Counter(word for text in texts for word in text)
    known = [word for word, _ in frequency.most_common(size)]
    place = {word: i for i, word in enumerate(known)}

    def places() -> Iterator[int]:
        for text in texts:
            yield from (place.get(word, -1) for word in text)
            yield from [-1] * window  # no pairs across paragraphs

    found = ppmi(counts(np.fromiter(places(), np.int32), len(known), window))
    u, s, _ = randomized_svd(found, min(width, len(known) - 1), n_iter=7, random_state=seed)
    return Vectors(name, place, torch.from_numpy(u * np.sqrt(s)).float())


def counts(ids: np.ndarray, size: int, window: int) -> sparse.csr_array:
    """How often two words are at most `window` apart: symmetric [size, size].

    `ids`: the words of a text as places ≥ 0, or −1 for none."""
    total: np.ndarray = np.zeros(size * size, np.int64)
    for apart in range(1, window + 1):
        left: np.ndarray = ids[:-apart].astype(np.int64)
        right = ids[apart:]
        both = (left >= 0) & (right >= 0)
        total += np.bincount(left[both] * size + right[both], minlength=size * size)
    found = sparse.csr_array(total.reshape(size, size))
    return found + found.T


def ppmi(found: sparse.csr_array, smoothing: float = 0.75) -> sparse.csr_array:
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
