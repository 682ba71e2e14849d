"""The generated reviews: words, edits, splits, and a rating model whose probabilities are exact."""

import itertools
import os
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from probebook.base import UserError
from probebook.corpora import cebab, reviews
from probebook.corpora.cebab import ASPECTS, VALUES
from probebook.corpora.words import phrase_table

pytestmark = pytest.mark.library

PHRASES = phrase_table("reviews")
POLAR = [*itertools.product(ASPECTS, ["Positive", "Negative"])]


@pytest.fixture(scope="module")
def table():
    return reviews.generate(400, seed=1)


def _patterns(aspect: str, value: str) -> list[str]:
    predicates = {
        words.format(was=was)
        for words in PHRASES["predicates"][aspect][value]
        for was in ("was", "were")
    }
    return [*predicates, *PHRASES["clauses"][aspect][value]]


def _texts(table: pd.DataFrame) -> pd.DataFrame:
    """Each text once."""
    return table[~table.split.isin(cebab.PARTS_OF_TRAIN)]


# words


@pytest.mark.parametrize("aspect, value", POLAR)
def test_phrasings(aspect, value):
    """Forty different ways besides the choice of a subject, none of them in two lists."""
    own = [*PHRASES["predicates"][aspect][value], *PHRASES["clauses"][aspect][value]]
    assert len(set(own)) == len(own) >= 40
    for other in POLAR:
        if other != (aspect, value):
            assert not set(own) & {
                *PHRASES["predicates"][other[0]][other[1]],
                *PHRASES["clauses"][other[0]][other[1]],
            }
    openers = {words.split()[0] for words in PHRASES["clauses"][aspect][value]}
    assert len(openers) >= 9, "the whole clauses begin alike"


def test_phrases_are_clauses():
    everything = [*PHRASES["openings"], *PHRASES["fillers"]]
    everything += PHRASES["remarks"]["good"] + PHRASES["remarks"]["bad"]
    for aspect, value in POLAR:
        everything += _patterns(aspect, value)
    for words in everything:
        assert re.fullmatch(r"[A-Za-z',-]+( [A-Za-z',-]+)*", words), words
        assert not words.endswith(","), words
        assert words[0].islower() or words.startswith("I "), words


def test_readable_sentences(table):
    """Capitals and full stops, agreement of subject and verb, no clause twice in a text, no empty
    text."""
    singular, plural = (
        {noun for row in PHRASES["subjects"].values() for noun in row[number]}
        for number in ("singular", "plural")
    )
    for text in _texts(table).description:
        assert re.fullmatch(r"([A-Z][^.]+\.)( [A-Z][^.]+\.)*", text), text
        clauses = re.split(
            r"\. |, (?:and also|and besides,|and|but|yet|while|although) ", text[:-1].lower()
        )
        assert len(set(clauses)) == len(clauses), text
        for clause in clauses:
            for nouns, wrong in ((singular, "were"), (plural, "was")):
                assert not any(clause.startswith(f"{noun} {wrong} ") for noun in nouns), clause
    words = _texts(table).description.str.split().str.len()
    assert 25 < words.mean() < 45
    assert words.std() > 10


# labels and edits


def test_text_says_its_labels_and_edits_keep_the_rest(table):
    """What is found of each aspect's phrases: only the label's, and in an edit the same as in the
    original but for the aspect that was edited."""
    patterns = {aspect: {} for aspect in ASPECTS}
    for aspect, value in POLAR:
        patterns[aspect] |= {p.lower(): value for p in _patterns(aspect, value)}
    texts = _texts(table)
    lower = texts.description.str.lower()
    longest_first = {aspect: sorted(patterns[aspect], key=len, reverse=True) for aspect in ASPECTS}
    any_of = {
        aspect: re.compile(rf"\b({'|'.join(longest_first[aspect])})[.,]") for aspect in ASPECTS
    }
    found = {aspect: [set(any_of[aspect].findall(text)) for text in lower] for aspect in ASPECTS}
    original = dict(zip(texts.original_id[texts.is_original], np.flatnonzero(texts.is_original)))
    for i, row in enumerate(texts.itertuples()):
        for aspect in ASPECTS:
            label = getattr(row, f"{aspect}_aspect_majority")
            values = {patterns[aspect][p] for p in found[aspect][i]}
            assert values == {label} - {"unknown"}, row.description
            if not row.is_original and aspect != row.edit_type:
                assert found[aspect][i] == found[aspect][original[row.original_id]]
        if not row.is_original:
            assert row.edit_goal == getattr(row, f"{row.edit_type}_aspect_majority")
            assert row.description != texts.description.iloc[original[row.original_id]]


def test_rewritten_clauses_stay_in_place_and_often_keep_their_subject(table):
    """From Positive to Negative or back: as many sentences as before, and of the subjects about 70
    %."""
    texts = _texts(table).set_index("id")
    whole = "; ".join(
        clause for aspect, value in POLAR for clause in PHRASES["clauses"][aspect][value]
    )
    kept = []
    for row in texts[texts.edit_type.notna()].itertuples():
        original = texts.loc[f"{row.original_id}_000000"]
        values = {original[f"{row.edit_type}_aspect_majority"], row.edit_goal}
        if values == {"Positive", "Negative"}:
            assert row.description.count(".") == original.description.count(".")
            subjects = PHRASES["subjects"][row.edit_type]
            nouns = [
                rf"\b{noun} "
                for noun in subjects["singular"] + subjects["plural"]
                if noun not in whole
            ]
            before, after = (
                Counter(noun for noun in nouns for _ in re.findall(noun, text.lower()))
                for text in (original.description, row.description)
            )
            assert max([*before.values(), *after.values()], default=1) == 1, "one subject twice"
            kept += [noun in after for noun in before]
    assert len(kept) > 200
    assert 0.65 < np.mean(kept) < 0.85


def test_labels_can_be_learnt_from_the_words(table):
    train, test = table[table.split == "train_inclusive"], reviews.generate(100, seed=2)
    for aspect in ASPECTS:
        label = f"{aspect}_aspect_majority"
        model = make_pipeline(
            CountVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000)
        )
        accuracy = model.fit(train.description, train[label]).score(test.description, test[label])
        assert accuracy > 0.85 > 0.65 > test[label].value_counts(normalize=True).max()


def test_connectives_follow_the_values(table):
    """ "but" stands between a good and a bad thing, "and" never does."""
    value = {p.lower(): v for (a, v) in POLAR for p in _patterns(a, v)}
    ends = sorted(value, key=len, reverse=True)
    seen = {"like": 0, "unlike": 0}
    for text in _texts(table).description.str.lower():
        for sentence in text.split("."):
            m = re.fullmatch(
                r"\s*(.+?), (and|and also|and besides,|but|yet|while|although) (.+)", sentence
            )
            values = m and [
                next((value[p] for p in ends if side.endswith(p)), None) for side in (m[1], m[3])
            ]
            if m and None not in values:
                like = m[2].startswith("and")
                assert (values[0] == values[1]) == like, sentence
                seen["like" if like else "unlike"] += 1
    assert min(seen.values()) > 100


def test_same_splits_and_columns_as_cebab(table):
    assert list(table.split.unique()) == cebab.SPLITS
    parts = {name: part.set_index("id") for name, part in table.groupby("split")}
    train = parts["train_inclusive"]
    assert parts["train_exclusive"].original_id.is_unique
    assert parts["train_observational"].is_original.all()
    for name in cebab.PARTS_OF_TRAIN:
        assert set(parts[name].original_id) == set(train.original_id)
        assert (train.loc[parts[name].index].description == parts[name].description).all()
    # any text of a group, not just the original
    assert 0 < parts["train_exclusive"].is_original.mean() < 0.3
    groups = [set(parts[name].original_id) for name in ("train_inclusive", "dev", "test")]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 400
    assert [len(group) for group in groups[1:]] == [47, 47]
    for name in ("dev", "test"):
        assert not (parts[name].review_majority == "no majority").any()
    assert (train.review_majority == "no majority").mean() == pytest.approx(0.12, abs=0.05)
    for row in _texts(table).itertuples():
        best, votes = max(row.review_label_distribution.items(), key=lambda item: item[1])
        assert row.review_majority == (best if votes >= 3 else "no majority")
        assert sorted(row.review_workers.values()) == sorted(
            star for star, n in row.review_label_distribution.items() for _ in range(n)
        )


@pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ, reason="needs real data: set PROBEBOOK_DATA"
)
def test_columns_of_the_released_file(table):
    released = cebab.load("1.1")
    assert set(table.columns) == set(released.columns)
    for name in table.columns:
        assert set(table[name].map(type)) <= set(released[name].map(type)), name


def test_pairs_of_generated_reviews(table):
    """The paper's rules run on it, the bug included: its ids start again in each split."""
    for split in ("dev", "test"):
        pairs = cebab.icace_pairs(table, split)
        assert len(pairs) > 400
        assert set(pairs.concept) == set(ASPECTS)
    published = cebab.edit_pairs(table, ids="as_published")
    assert (published.source_split != published.target_split).any()
    assert (cebab.edit_pairs(table).source_split == cebab.edit_pairs(table).target_split).all()
    shuffled = cebab.edit_pairs(table.sample(frac=1, random_state=0), ids="as_published")
    ids = ["concept", "source_id", "target_id"]
    assert set(shuffled[ids].itertuples(index=False)) == set(published[ids].itertuples(index=False))


def test_the_seed_decides():
    pd.testing.assert_frame_equal(reviews.generate(60, seed=3), reviews.generate(60, seed=3))
    assert not reviews.generate(60, seed=3).description.equals(
        reviews.generate(60, seed=4).description
    )


# the rating model


def _rows(mood: int = 0, **labels: str) -> pd.DataFrame:
    row = {f"{aspect}_aspect_majority": labels.get(aspect, "unknown") for aspect in ASPECTS}
    return pd.DataFrame([row | {"opentable_metadata": {"mood": mood}}])


def _score(**labels) -> float:
    """Score that the probabilities give back; the same from each of the four thresholds."""
    p = reviews.probabilities(_rows(**labels))[0]
    scores = np.arange(1.5, 5) - reviews.SCALE * logit(p.cumsum()[:4])
    np.testing.assert_allclose(scores, scores[0], atol=1e-9)
    return scores[0]


def test_probabilities_of_a_review_that_says_nothing():
    """By hand: P(≤ 1) = 1/(1 + e^{(3.2 − 1.5)/.3}) and so on."""
    at_most = [1 / (1 + np.exp((3.2 - cut) / 0.3)) for cut in (1.5, 2.5, 3.5, 4.5)]
    np.testing.assert_allclose(
        reviews.probabilities(_rows())[0], np.diff([0, *at_most, 1]), atol=1e-12
    )


def test_score_is_additive_but_for_the_interactions():
    alone = {(a, v): _score(**{a: v}) - _score() for a, v in POLAR}
    assert alone["food", "Positive"] == pytest.approx(0.9)
    assert alone["noise", "Negative"] == pytest.approx(-0.35)
    assert _score(mood=1) - _score() == pytest.approx(0.5)
    assert _score() - _score(mood=-1) == pytest.approx(0.5)
    wanted = {
        frozenset([("food", "Negative"), ("service", "Negative")]): 0.4,
        frozenset([("food", "Positive"), ("service", "Positive")]): 0.3,
        frozenset([("food", "Negative"), ("ambiance", "Positive")]): -0.2,
        frozenset([("ambiance", "Positive"), ("noise", "Negative")]): -0.3,
    }
    for one, two in itertools.combinations(POLAR, 2):
        if one[0] != two[0]:
            both = _score(**dict([one, two])) - _score() - alone[one] - alone[two]
            assert both == pytest.approx(wanted.get(frozenset([one, two]), 0), abs=1e-9), (one, two)


def test_probabilities_are_those_of_the_text(table):
    """Rows sum to 1; a text that comes twice has the same ones; a better label makes more stars
    more likely."""
    p = reviews.probabilities(table)
    assert p.shape == (len(table), 5)
    assert p.min() > 0
    np.testing.assert_allclose(p.sum(1), 1)
    rounded = pd.DataFrame(p.round(9)).groupby(table.description.to_numpy())
    assert rounded.nunique().to_numpy().max() == 1
    assert rounded.size().max() > 1
    pairs = cebab.icace_pairs(table)
    better = pairs.source.eq("Negative") & pairs.target.eq("Positive")
    rise = (p[pairs.target_row] - p[pairs.source_row])[better].cumsum(1)[:, :4]
    assert better.sum() > 50
    assert (rise < 0).all()  # stochastic dominance


def test_votes_have_the_exact_probabilities():
    """In bins of probability, the readers' stars are as many as they should be (four standard
    errors)."""
    table = _texts(reviews.generate(1_000, seed=5))
    p = reviews.probabilities(table)
    votes = np.array(
        [[row.get(star, 0) for star in "12345"] for row in table.review_label_distribution]
    )
    assert (votes.sum(1) == 5).all()
    for low, high in ((0, 0.02), (0.02, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1)):
        here = (p > low) & (p <= high)
        gap = (votes - 5 * p)[here].sum()
        assert here.sum() > 500
        assert abs(gap) < 4 * np.sqrt((5 * p * (1 - p))[here].sum())


def test_aspects_share_a_cause():
    """Food and service are good together, as q makes both; what a comparison of means would call an
    effect of food on the stars is larger than its effect."""
    table = reviews.generate(1_500, seed=6)
    originals = _texts(table)[_texts(table).is_original]
    good = {a: originals[f"{a}_aspect_majority"] == "Positive" for a in ASPECTS}
    bad = {a: originals[f"{a}_aspect_majority"] == "Negative" for a in ASPECTS}
    assert good["service"][good["food"]].mean() > good["service"][bad["food"]].mean() + 0.05
    stars = reviews.probabilities(originals) @ np.arange(1, 6)
    naive = stars[good["food"]].mean() - stars[bad["food"]].mean()
    pairs = cebab.edit_pairs(table, originals=True).query(
        "concept == 'food' and target == 'Positive'"
    )
    stars = reviews.probabilities(table) @ np.arange(1, 6)
    assert naive > (stars[pairs.target_row] - stars[pairs.source_row]).mean() + 0.15


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: reviews.generate(20), "n = 20: at least 50"),
        (lambda: reviews.probabilities(_rows(food="no majority")), "generated reviews only"),
        (
            lambda: reviews.probabilities(_rows().drop(columns="opentable_metadata")),
            "generated reviews only",
        ),
        (
            lambda: reviews.probabilities(
                _rows().assign(opentable_metadata=[{"cuisine": "french"}])
            ),
            "generated reviews",
        ),
    ],
)
def test_refuses(call, says):
    with pytest.raises(UserError, match=says) as e:
        call()
    assert "\n" not in str(e.value)


def test_values_are_those_of_cebab():
    assert all(
        len(effects) == len(VALUES)
        and effects[VALUES.index("unknown")] == 0
        and effects[VALUES.index("Negative")] < 0 < effects[VALUES.index("Positive")]
        for effects in reviews.EFFECTS.values()
    )
