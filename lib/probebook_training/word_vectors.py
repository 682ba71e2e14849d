"""Word vectors made from text: counts of words near each other, their PPMI, its best factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from probebook.base import atomic_write
from probebook.models.static import Vectors, words


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


def ppmi(found: sparse.csr_array) -> sparse.csr_array:
    """max(0, ln P(w, c) / (P(w) P_smoothed(c))) of the counts, 0 where the count is 0."""
    of_word, of_context = found.sum(1), found.sum(0) ** 0.75
    (rows, columns), joint = found.tocoo().coords, found.tocoo().data / found.sum()
    expected = of_word[rows] / of_word.sum() * of_context[columns] / of_context.sum()
    values = np.maximum(np.log(joint / expected), 0)
    return sparse.csr_array((values, (rows, columns)), shape=found.shape)


def export(vectors: Vectors, folder: Path) -> None:
    """Write float16 vectors and their words to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "vectors.safetensors") as part:
        save_file({"vectors": vectors.matrix.half().contiguous()}, part)
    (folder / "words.txt").write_text("\n".join(vectors.place) + "\n", encoding="utf-8")
