"""Static vectors: counts and PPMI by hand, best approximation, GloVe's format, means over words."""

from collections import Counter
from math import log

import numpy as np
import pytest
import torch

from probebook.base import UserError
from probebook.models import static
from probebook_training import word_vectors

pytestmark = pytest.mark.library

TEXTS = [
    "The cat saw the dog.",
    "A dog saw a cat, and the cat ran.",
    "The dog's bone is 3 years old!",
    "cat",
]


def test_words_are_lower_case_and_marks_stand_alone():
    assert static.words("The dog's bone, it cost 30 — it’s OLD!") == [
        "the",
        "dog's",
        "bone",
        ",",
        "it",
        "cost",
        "30",
        "—",
        "it's",
        "old",
        "!",
    ]


def by_hand(window, known):
    found = Counter()
    for text in TEXTS:
        row = static.words(text)
        for i, word in enumerate(row):
            for other in row[max(0, i - window) : i] + row[i + 1 : i + 1 + window]:
                if word in known and other in known:
                    found[word, other] += 1
    return found


@pytest.mark.parametrize("size, window", [(40, 2), (5, 3)])
def test_vectors_are_the_best_approximation_of_the_ppmi_matrix(size, window):
    full = word_vectors.fit(TEXTS, size=size, width=40, window=window)
    known, d = list(full.place), full.width
    found = by_hand(window, full.place)
    of_word = {w: sum(found[w, c] for c in known) for w in known}
    smooth = {c: of_word[c] ** 0.75 / sum(n**0.75 for n in of_word.values()) for c in known}
    want = np.array(
        [
            [max(0, log(found[w, c] / of_word[w] / smooth[c])) if found[w, c] else 0 for c in known]
            for w in known
        ]
    )
    u, s, _ = np.linalg.svd(want)
    best = u[:, :d] * s[:d] ** 0.5
    gram = full.matrix.double().numpy() @ full.matrix.double().numpy().T
    assert len(known) == min(size, 16)
    np.testing.assert_allclose(gram, best @ best.T, rtol=1e-5, atol=1e-4)
    two = word_vectors.fit(TEXTS, size=size, width=2, window=window)
    torch.testing.assert_close(
        two.matrix @ two.matrix.T, full.at(2).matrix @ full.at(2).matrix.T, rtol=1e-5, atol=1e-4
    )


def test_a_text_is_the_mean_of_its_known_words_or_zero():
    v = static.Vectors("v", {"cat": 0, "dog": 1}, torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    np.testing.assert_allclose(
        v(["The cat, a DOG!", "cat cat dog", "nothing", ""]),
        [[2.0, 1.0], [5 / 3, 4 / 3], [0.0, 0.0], [0.0, 0.0]],
        rtol=1e-5,
        atol=1e-8,
    )
    assert v.at(1)(["dog"]).tolist() == [[3.0]]
    with pytest.raises(UserError, match="width 3: v has 2 dimensions"):
        v.at(3)


def test_files_are_read_as_they_are_written(tmp_path, monkeypatch):
    made = word_vectors.fit(TEXTS, width=4)
    word_vectors.export(made, tmp_path / "mine")
    monkeypatch.setattr(static, "POCKET", tmp_path)
    back = static.load("mine")
    assert list(back.place) == list(made.place)
    assert torch.equal(back.matrix, made.matrix.half().float())
    path = tmp_path / "glove.txt"
    path.write_text("the .5 1e-1 -2\n. . . 1 2 3\n", encoding="utf-8")
    read = static.load(path)
    assert list(read.place) == ["the", ". . ."]
    assert read.matrix.tolist() == [[0.5, pytest.approx(0.1), -2], [1, 2, 3]]
    path.write_text("2 3\nthe 1 2 3\na 4 5 6\n", encoding="utf-8")
    assert static.load(path).matrix.shape == (2, 3)
    for text, says in [
        ("the 1 2 3\na 1 b 3\n", "line 2: a word and 3 numbers"),
        ("", "no vectors in it"),
    ]:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=says):
            static.load(path)
    with pytest.raises(UserError, match="or pocket-vectors"):
        static.load(tmp_path / "none.txt")
