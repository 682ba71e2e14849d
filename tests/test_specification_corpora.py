"""Chapter 4's texts: exact counts and rules, and a world whose selection is known."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.corpora import biographies, mgc, winogender
from probebook.corpora.fetch import entries

pytestmark = pytest.mark.library


def data_at_hand(name="winogender/templates.tsv"):
    import os

    root = os.environ.get("PROBEBOOK_DATA")
    return bool(root) and os.path.exists(os.path.join(root, name))


def test_the_challenge_has_3000_texts_60_for_each_time_and_place():
    times, places = mgc.texts("time"), mgc.texts("place")
    few = mgc.texts("place", stages=2)
    assert [*few.stage.unique()] == [*places.stage.unique()][:2]
    assert len(few) == 400
    assert (len(times), len(places)) == (1800, 1200)
    both = pd.concat([times, places])
    assert both.text.is_unique
    assert (both.groupby("w").size() == 60).all()
    assert times.w.unique()[[0, 1, 13, 14, -1]].tolist() == ["1801", "1808", "1897", "1904", "2016"]
    assert times.text.iloc[0] == "In 1801, [MASK] was a child."
    assert places.w_index.max() == 19
    with pytest.raises(UserError, match="time or place"):
        mgc.texts("space")


@pytest.mark.skipif(not data_at_hand(), reason="no Winogender at hand")
def test_480_texts_of_which_120_are_well_specified():
    texts = winogender.extended()
    assert len(texts) == 480
    assert texts.text.is_unique
    assert texts.well_specified.sum() == 120
    assert (texts.text.str.count(r"\[MASK\]") == 1).all()
    assert not texts.text.str.contains(r"\$").any()
    doctor = texts[texts.occupation == "doctor"].set_index(["participant", "coreferent"]).text
    someone = "The doctor told someone that [MASK] would be on vacation next week."
    assert doctor["someone", "occupation"] == someone
    told = "The doctor told the woman that [MASK] would be at risk without the vaccination."
    assert doctor["woman", "participant"] == told


@pytest.mark.skipif(
    not data_at_hand("winogender/all_sentences.tsv"), reason="no Winogender at hand"
)
def test_texts_with_someone_and_with_the_other_are_winogenders_own():
    """Their male versions: the pronoun is he, his or him, which changes no other word."""
    import os

    own = pd.read_csv(
        os.path.join(os.environ["PROBEBOOK_DATA"], "winogender/all_sentences.tsv"),
        sep="\t",
        index_col=0,
    )
    found = winogender.extended().query("participant not in ('man', 'woman')")
    for text, occupation, participant, coreferent, _ in found.itertuples(index=False):
        answer = winogender.COREFERENT.index(coreferent)
        theirs = own.sentence[f"{occupation}.{participant}.{answer}.male.txt"]
        assert text.replace("[MASK]", "@") == re.sub(r"\b(he|his|him)\b", "@", theirs)


def test_the_registry_knows_the_schemas():
    assert entries()["winogender/templates.tsv"].licence == "MIT"


def test_simplified_texts_have_one_person_and_three_versions():
    texts = winogender.simplified()
    assert texts.occupation.nunique() >= 48
    assert len(texts) == 3 * texts.occupation.nunique()
    assert texts.text.is_unique
    assert texts.well_specified.mean() == pytest.approx(2 / 3)
    plain = texts.text.str.replace(r"\b(female|male) ", "", regex=True)
    assert plain.nunique() == texts.occupation.nunique()


@pytest.mark.parametrize("s", [0, 0.5, 1])
def test_the_corpus_has_the_share_that_its_selection_gives(s):
    table = biographies.generate(20_000, s, seed=1)
    for kind, part in table.groupby("kind"):
        for gender in biographies.GENDERS:
            hit = (part.gender == gender).to_numpy(float)
            expected = biographies.share(part.t, s, gender)
            for low in np.arange(0, 1, 0.25):
                here = part.t.between(low, low + 0.25).to_numpy()
                error = 4 * np.sqrt(expected[here].mean() / here.sum())
                assert abs(hit[here].mean() - expected[here].mean()) < error, (kind, gender, low)
    shares = sum(biographies.share(table.t, s, gender) for gender in biographies.GENDERS)
    np.testing.assert_allclose(shares, 1, rtol=1e-5)
    assert biographies.share(np.array([0, 1]), s).tolist() == pytest.approx(
        [0.45 - 0.45 * s, 0.45 + 0.45 * s]
    )


def test_ranks_are_the_t_of_the_texts():
    table = biographies.generate(500, 0.5, seed=4)
    np.testing.assert_array_equal(biographies.ranks(table.w), table.t)
    assert biographies.ranks(["1801", "2016", "Afghanistan", "Iceland"]).tolist() == [0, 1, 0, 1]
    with pytest.raises(UserError, match="'1800': a year from 1801 to 2016"):
        biographies.ranks(["1900", "1800"])


def test_weights_make_up_for_the_selection():
    table = biographies.generate(20_000, 0.75, seed=2)
    female = (table.gender == "female").to_numpy(float)
    assert np.polyfit(table.t, female, 1)[0] == pytest.approx(0.9 * 0.75, abs=0.05)
    assert np.polyfit(table.t, female, 1, w=np.sqrt(table.weight))[0] == pytest.approx(0, abs=0.05)
    again = biographies.generate(20_000, 0.75, seed=2, reweighted=True)
    assert np.polyfit(again.t, again.gender == "female", 1)[0] == pytest.approx(0, abs=0.05)


def test_the_texts_are_those_that_the_shipped_models_were_trained_on():
    texts = "\n".join(biographies.generate(2000, 0.75, seed=7).text)
    assert hashlib.sha256(texts.encode()).hexdigest().startswith("29495ebf2e4db86d")


def test_only_specified_texts_name_the_gender_elsewhere():
    table = biographies.generate(5000, 0.5, seed=3)
    assert (table.masked.str.count(r"\[MASK\]") == 1).all()
    assert all(
        text == masked.replace("[MASK]", pronoun)
        for text, masked, pronoun in zip(table.text, table.masked, table.pronoun)
    )
    nouns = {"female": "woman|girl|mother|sister", "male": "man|boy|father|brother"}
    for gender, own in nouns.items():
        here = table[table.gender == gender]
        rest = here.masked.str.lower()
        assert rest[here.specified].str.contains(rf"\b(?:{own})\b").all()
        alone = rest[here.form == "alone"]
        assert not alone.str.contains(r"\b(?:she|he|her|his|their|they)\b").any()
        assert not alone.str.contains(rf"\b(?:{'|'.join(nouns.values())})\b").any()
    job = table[table.form == "occupation"]  # the other person's gender says nothing
    told = job.masked.str.extract(r"told the (woman|man)")[0].dropna()
    female = job.gender[told.index] == "female"
    assert abs(female[told == "woman"].mean() - female[told == "man"].mean()) < 0.15
    words = {word for text in table.text for word in re.findall(r"\w+|[^\w\s]", text.lower())}
    assert words <= set(biographies.words())


def test_bad_input_gets_one_line():
    for call, says in (
        (lambda: biographies.generate(0), "at least 1"),
        (lambda: biographies.generate(5, 2), "between 0 and 1"),
        (lambda: biographies.share(0.5, 0.5, "women"), "female, male, neutral"),
    ):
        with pytest.raises(UserError, match=says) as error:
            call()
        assert "\n" not in str(error.value)
