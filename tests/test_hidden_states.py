"""Cosines of hand-made states; the longest common subsequence against every subsequence there
is."""

from itertools import combinations

import numpy as np
import pytest
import torch

from probebook.base import UserError
from probebook.measures import hidden_states

pytestmark = pytest.mark.library


def test_cosines_by_hand():
    a, b = [[1, 0], [1, 0], [3, 4], [1, 0], [0, 0]], [[2, 0], [0, 5], [4, 3], [-1, 0], [1, 1]]
    assert hidden_states.cosine(a, b).tolist() == pytest.approx([1, 0, 24 / 25, -1, 0])
    half, single = torch.tensor([[1, 0]]).half(), torch.tensor([[1.0, 1]])
    assert hidden_states.cosine(half, single).tolist() == pytest.approx([2**-0.5])
    assert hidden_states.cosine(np.zeros((0, 4)), np.zeros((0, 4))).shape == (0,)


def test_cosines_do_not_see_length_or_a_turn():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 6)), rng.normal(size=(20, 6))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    np.testing.assert_allclose(
        hidden_states.cosine(a, b), hidden_states.cosine(3 * a @ turn, 0.1 * b @ turn)
    )
    np.testing.assert_allclose(hidden_states.cosine(a, b), hidden_states.cosine(b, a))


def test_the_common_subsequence_is_longest():
    rng = np.random.default_rng(1)
    for _ in range(300):
        a, b = rng.integers(0, 4, rng.integers(0, 9)), rng.integers(0, 4, rng.integers(0, 9))
        i, j = hidden_states.common_tokens(a, b)
        np.testing.assert_array_equal(a[i], b[j])
        assert (np.diff(i) > 0).all()
        assert (np.diff(j) > 0).all()
        parts = [
            {
                tuple(t[list(rows)])
                for m in range(len(t) + 1)
                for rows in combinations(range(len(t)), m)
            }
            for t in (a, b)
        ]
        assert len(i) == max(map(len, parts[0] & parts[1]))


def places(a, b):
    """Common words of two texts, as pairs of places; ids by a made-up vocabulary."""
    ids = {word: n for n, word in enumerate(dict.fromkeys(f"{a} {b}".split()))}
    i, j = hidden_states.common_tokens(*([ids[word] for word in text.split()] for text in (a, b)))
    return list(zip(i.tolist(), j.tolist()))


def test_what_a_deletion_leaves_is_common_and_stands_where_it_stood():
    whole = "C who S ann sat . bob ran . eve ate . S"
    assert places(whole, "C who S ann sat . eve ate . S")[5:] == [
        (5, 5),
        (9, 6),
        (10, 7),
        (11, 8),
        (12, 9),
    ]
    assert places(whole, "C who S ann sat . S") == [(i, i) for i in range(6)] + [(12, 6)]
    assert places(whole, "C who S eve ate . S")[3:] == [(9, 3), (10, 4), (11, 5), (12, 6)]
    # a bare answer is common too
    assert places(whole, "C who S ann sat . bob S")[5:] == [(5, 5), (6, 6), (12, 7)]
    assert places(whole, whole) == [(i, i) for i in range(13)]
    assert places("x y", "z w") == []


def test_a_deletion_from_a_long_text_of_distinct_tokens_is_found_exactly():
    a = np.random.default_rng(2).permutation(512)
    kept = np.r_[0:100, 180:300, 310:500]
    i, j = hidden_states.common_tokens(a, a[kept])
    np.testing.assert_array_equal(i, kept)
    np.testing.assert_array_equal(j, np.arange(len(kept)))


def test_token_cosines_pair_the_common_tokens():
    a, b = np.array([[1, 0], [0, 1], [1, 1], [1, 0]]), np.array([[1, 1], [1, 1], [0, 1]])
    first, second = hidden_states.token_cosines(
        [a, a], [b, b], [[5, 6, 7, 8], [1, 2, 3, 4]], [[5, 7, 8], [9, 9, 9]]
    )
    assert first.tolist() == pytest.approx([2**-0.5, 1, 0])
    assert second.shape == (0,)
    means = hidden_states.mean_token_cosine(
        [a, a], [b, b], [[5, 6, 7, 8], [1, 2, 3, 4]], [[5, 7, 8], [9, 9, 9]]
    )
    assert means[0] == pytest.approx((2**-0.5 + 1) / 3)
    assert np.isnan(means[1])


def test_spread_is_that_of_the_values():
    assert hidden_states.spread([1, 3, np.nan]) == (2, 1)
    assert hidden_states.spread([0.5]) == (0.5, 0)
    with pytest.raises(UserError, match="one at least"):
        hidden_states.spread([np.nan])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hidden_states.cosine([[1, 2]], [[1, 2, 3]]), r"\[n, d\] both"),
        (lambda: hidden_states.cosine([1, 2], [1, 2]), r"\[n, d\] both"),
        (lambda: hidden_states.cosine([[np.nan, 2]], [[1, 2]]), "not finite"),
        (lambda: hidden_states.common_tokens([[1, 2]], [1, 2]), "one row of token ids"),
        (lambda: hidden_states.token_cosines([[[1, 2]]], [], [[1]], []), "same items"),
        (
            lambda: hidden_states.token_cosines([[[1, 2]]], [[[1, 2]]], [[1, 2]], [[1]]),
            "one state for each token",
        ),
    ],
)
def test_bad_states_are_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()
