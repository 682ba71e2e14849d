"""EM and F1 against a plain restatement of the official scripts; intervals, necessity, sufficiency
in closed form."""

from itertools import groupby, product

import numpy as np
import pytest

from probebook.base import UserError
from probebook.corpora.published import published
from probebook.measures import answers

pytestmark = pytest.mark.library

TRICKY = [  # predicted, right, exact match, F1: by hand
    ("The cat", "cat", 1, 1),
    ("", "", 1, 1),
    ("", "cat", 0, 0),
    ("cat", "", 0, 0),
    ("a an the", "", 1, 1),
    ("!?", "An", 1, 1),
    ("Cat.", "cat", 1, 1),
    ("U.S.", "us", 1, 1),
    ("U.S.", "u s", 0, 0),
    ("twenty-one", "twenty one", 0, 0),
    ("theatre", "atre", 0, 0),
    ("a.b", "b", 0, 0),
    ("a 'b'", "b", 1, 1),
    ("A-B", "ab", 1, 1),
    ("the the cat", "cat cat", 0, 2 / 3),
    ("cat cat", "cat", 0, 2 / 3),
    ("cat cat", "cat cat cat", 0, 0.8),
    (" white \t cat\n", "white cat", 1, 1),
    ("the white cat", "a white dog", 0, 0.5),
    ("dog white", "white dog", 0, 1),
    ("$5", "5 %", 1, 1),
    ("1,462", "1462", 1, 1),
    ("3.5", "35", 1, 1),
    ("“yes”", "yes", 0, 0),
    ("don't", "dont", 1, 1),
    ("don’t", "dont", 0, 0),
    ("—", "", 0, 0),
    ("NAÏVE Café", "naïve café", 1, 1),
    ("the_end", "theend", 1, 1),
    ("a’s", "’s", 1, 1),
    ("x\u00a0y", "x y", 1, 1),
    ("'a' b c d", "b c x", 0, 2 / 3),
    ("the cat's the hat", "cats hat", 1, 1),
    ("Unknown.", "unknown", 1, 1),
    ("five", "5", 0, 0),
    ("he has 3 red balls", "3", 0, 1 / 3),
]


def words(text):
    """The official normalisation, character by character."""
    kept = "".join(c for c in text.lower() if c not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    runs = ["".join(run) for _, run in groupby(kept, str.isalnum)]
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def plain_f1(predicted, right):
    mine, theirs, same = words(predicted), words(right), 0
    if mine == [] or theirs == []:
        return 1 if mine == theirs else 0
    left = list(theirs)
    for word in mine:
        if word in left:
            left.remove(word)
            same += 1
    if same == 0:
        return 0
    precision, recall = same / len(mine), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


def test_thirty_tricky_answers_and_more():
    predicted, right, em, overlap = zip(*TRICKY)
    assert len(TRICKY) >= 30
    assert len(set(TRICKY)) == len(TRICKY)
    assert [float(words(p) == words(r)) for p, r in zip(predicted, right)] == list(em)
    assert [plain_f1(p, r) for p, r in zip(predicted, right)] == pytest.approx(overlap)
    assert answers.exact_match(predicted, right).tolist() == list(em)
    assert answers.f1(predicted, right).tolist() == pytest.approx(overlap)
    assert answers.exact_match(right, predicted).tolist() == list(em)  # both are symmetric
    assert answers.f1(right, predicted).tolist() == pytest.approx(overlap)


def test_random_answers_as_restated():
    rng = np.random.default_rng(0)
    pieces = ["a", "an", "The", " ", "  ", " ", ".", "-", "’", "_", " cat ", "7", "É", " b "]
    draw = lambda: "".join(rng.choice(pieces, rng.integers(0, 12)))
    predicted, right = [draw() for _ in range(3000)], [draw() for _ in range(3000)]
    assert [answers.normalise(p) for p in predicted] == [" ".join(words(p)) for p in predicted]
    found = answers.f1(predicted, right)
    assert found.tolist() == pytest.approx([plain_f1(p, r) for p, r in zip(predicted, right)])
    assert ((found > 0) & (found < 1)).sum() > 300
    assert (answers.exact_match(predicted, right) <= found).all()


def test_the_best_of_several_right_answers_counts_or_the_best_of_all_but_one():
    gold = [["red", "dark red", "blue"], "red", ["unknown"], ["red", "red"], ["blue", "red"]]
    said = ["red", "the red", "blue", "red", "red"]
    assert answers.exact_match(said, gold).tolist() == [1, 1, 0, 1, 1]
    assert answers.exact_match(said, gold, leave_one_out=True).tolist() == pytest.approx(
        [2 / 3, 1, 0, 1, 1 / 2]
    )
    assert answers.f1(said, gold, leave_one_out=True).tolist() == pytest.approx(
        [(2 + 2 / 3) / 3, 1, 0, 1, 1 / 2]
    )
    rng = np.random.default_rng(1)
    texts = ["red cat", "cat", "a dog", "red dog", ""]
    for _ in range(50):
        one, several = rng.choice(texts), list(rng.choice(texts, 4))
        plain = np.mean(
            [max(plain_f1(one, r) for r in several[:i] + several[i + 1 :]) for i in range(4)]
        )
        assert answers.f1([one], [several], leave_one_out=True)[0] == pytest.approx(plain)


@pytest.mark.parametrize(
    ("said", "gold", "message"),
    [
        (["a"], ["a", "b"], "two lists"),
        ("yes", ["yes"], "two lists"),
        (["a"], [[]], "one right answer"),
        ([None], ["a"], "is not a valid answer"),
        (["a"], [[1]], "is not a valid answer"),
    ],
)
def test_bad_answers_are_refused(said, gold, message):
    for score in (answers.exact_match, answers.f1):
        with pytest.raises(UserError, match=message):
            score(said, gold)


def test_unknown_is_a_word_not_a_part():
    said = ["unknown", "Unknown.", "the unknown", "unknown man", "", "no"]
    assert [answers.normalise(answer) == "unknown" for answer in said] == [True] * 3 + [False] * 3


def test_comb_of_a_model_that_never_changes_its_mind():
    says, gold = np.array([1, 1, 1, 1, 0, 0, 1, 0]), np.array([1, 1, 1, 0, 0, 1, 1, 0])
    table = answers.comb(says == gold, says == 1 - gold)
    assert table.share.to_dict() == {
        "original": 0.75,
        "modified": 0.25,
        "both": 0,
        "just one": 1,
        "drop": 0.5,
    }
    np.testing.assert_array_equal(table.n, 8)
    assert list(table.columns) == ["share", "low", "high", "n"]


def test_comb_gives_the_printed_shares_from_whole_numbers():
    items = {"CoQA": 275, "HotpotQA": 159}
    for row in published("semantic_faithfulness_table10").itertuples():
        n = items[row.dataset]
        a, b, both = (round(share * n / 100) for share in (row.original, row.modified, row.both))
        cells = np.repeat(
            [[1, 1], [1, 0], [0, 1], [0, 0]], [both, a - both, b - both, n - a - b + both], axis=0
        )
        table = answers.comb(*cells.T)
        assert (100 * table.share[:3]).round(1).tolist() == [row.original, row.modified, row.both]
        one, drop = table.share["just one"], table.share["drop"]
        assert (one, drop) == pytest.approx(((a + b - 2 * both) / n, (a - b) / n))
        half = 1.959964 * np.sqrt((one - drop**2) / n)  # of a paired difference
        assert table.loc["drop", ["low", "high"]].tolist() == pytest.approx(
            [drop - half, drop + half]
        )
        assert row.original > row.modified
        assert table.loc["drop", "low"] > 0


def test_comb_over_stories_that_are_copies():
    a, b, story = np.repeat([1, 1, 0, 1], 3), np.repeat([0, 1, 0, 0], 3), np.repeat(range(4), 3)
    np.testing.assert_allclose(
        answers.comb(a, b, story).iloc[:, :3], answers.comb([1, 1, 0, 1], [0, 1, 0, 0]).iloc[:, :3]
    )
    with pytest.raises(UserError, match="same items"):
        answers.comb([1, 0], [1])


def test_causes_of_a_reader_and_a_guesser_in_closed_form():
    """Reads the rationale in 3 of 10 cases, finds the answer elsewhere in 2 of 10, independently:
    all 100 cases."""
    read, found = (np.array(v) for v in zip(*product(np.arange(10) < 3, np.arange(10) < 2)))
    whole, without, alone, r, g = read | found, found, read, 0.3, 0.2
    table = answers.causes(whole, without, alone)
    shares = {
        "necessity": r * (1 - g) / (r + g - r * g),
        "sufficiency": r,
        "both": r * (1 - g),
        "alone": r,
    }
    assert table.share.to_dict() == pytest.approx(shares)
    assert table.n.to_dict() == {"necessity": 44, "sufficiency": 80, "both": 100, "alone": 100}


def test_the_probabilities_of_causation_hang_together():
    rng = np.random.default_rng(2)
    whole, without, alone, entailed = rng.random((4, 500)) < np.array([[0.7], [0.4], [0.5], [0.2]])
    table, kept = (
        answers.causes(whole, without, alone, entailed, np.arange(500) // 4).share,
        ~entailed,
    )
    assert table["both"] == pytest.approx(table["necessity"] * whole[kept].mean())
    assert table["both"] == pytest.approx(table["sufficiency"] * (~without[kept]).mean())
    assert table["alone"] == alone.mean()


def test_necessity_and_sufficiency_of_an_item():
    whole, without, entailed = [1, 1, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 1, 1, 1]
    nan = np.nan
    np.testing.assert_array_equal(
        answers.necessity(whole, without, entailed), [1, 0, nan, nan, nan, nan, nan]
    )
    np.testing.assert_array_equal(
        answers.sufficiency(whole, without, entailed), [1, nan, 0, nan, nan, nan, nan]
    )
    np.testing.assert_array_equal(answers.necessity(whole, without), [1, 0, nan, nan, 1, 0, nan])
    with pytest.raises(UserError, match="same items"):
        answers.necessity([1, 0], [1])
    with pytest.raises(UserError, match="same items"):
        answers.sufficiency([1, 0], [1, 0], [1])
