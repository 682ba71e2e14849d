"""Chapter 4's experiments: exact counts, readings against the library's own, a text whose years are
counted by hand."""

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.corpora import english, mgc
from probebook.measures.specification import LISTS, area, gender_mass, shares
from probebook.models import load
from probebook.models.embedding import embed, head_logits
from probebook.models.fill import fill
from probebook_chapters import specification as experiment
from probebook_chapters.figures.underspecification import roc

pytestmark = pytest.mark.library


def test_masses_are_those_of_fill_and_of_all_tokens_if_all_are_asked_for():
    texts = mgc.texts("time").text.iloc[::450]
    np.testing.assert_allclose(
        experiment.masses(texts, "pocket-english"), gender_mass(fill(texts, "pocket-english"))
    )
    tokenizer, states = load("pocket-english").tokenizer, embed(list(texts), "pocket-english")
    probs = head_logits(states, "pocket-english").softmax(1).numpy()
    full = [
        100 * probs[:, tokenizer.convert_tokens_to_ids(words)].sum(1) for words in LISTS.values()
    ]
    np.testing.assert_allclose(
        experiment.masses(texts, "pocket-english", k=probs.shape[1]), np.stack(full, 1), atol=1e-3
    )


def test_only_a_model_that_is_not_masked_gets_the_prompt():
    texts = mgc.texts("time").text.iloc[::900]
    assert experiment.fill_blanks(texts, "pocket-english", "A") == experiment.fill_blanks(
        texts, "pocket-english"
    )
    assert experiment.fill_blanks(texts, "pocket-english-gpt", "B") == fill(
        texts, "pocket-english-gpt", "B"
    )
    np.testing.assert_array_equal(
        experiment.masses(texts, "random:pocket-english", "A", 50),
        experiment.masses(texts, "random:pocket-english", k=50),
    )


def test_a_left_to_right_model_without_a_prompt_sees_only_what_stands_before_the_blank():
    a, b = "In 1901, [MASK] was a child.", "In 1901, [MASK] said that the woman slept."
    one, other = experiment.masses([a, b], "pocket-english-gpt", k=50)
    np.testing.assert_allclose(one, other, atol=1e-3)
    assert one.sum() > 0
    assert not np.allclose(
        one, experiment.masses(["The woman said that [MASK] slept."], "pocket-english-gpt", k=50)[0]
    )


def test_the_untrained_twin_spreads_its_mass_evenly():
    vocabulary = load("pocket-english").net.config.vocab_size
    found = experiment.masses(
        ["In 1901, [MASK] was a child."], "random:pocket-english", k=vocabulary
    )[0]
    even = 100 * np.array([len(words) for words in LISTS.values()]) / vocabulary
    np.testing.assert_allclose(found, even, rtol=0.9)
    assert found.sum() < 1


def test_shares_at_years_are_the_shares_of_dated_texts():
    texts = ["The baker said that [MASK] was late.", "The woman said that [MASK] was late."]
    found = experiment.shares_at(texts, "pocket-english", (1901, 1950, 2016))
    assert found.shape == (3, 2, 3)
    np.testing.assert_allclose(found.sum(2), 100)
    alone = shares(
        experiment.masses(["In 1950: The woman said that [MASK] was late."], "pocket-english")
    )
    np.testing.assert_allclose(found[1, 1], alone[0], atol=1e-3)
    assert experiment.add_year(["A."], 1901) == ["In 1901: A."]


def test_192_of_576_texts_of_two_persons_are_well_specified():
    texts = experiment.two_persons()
    assert len(texts) == 576 == texts.text.nunique()
    assert texts.well_specified.sum() == 192
    np.testing.assert_array_equal(texts.text.str.count(r"\[MASK\]"), 1)
    assert not texts.text.str.contains(r"[{}]").any()
    good = texts[texts.well_specified]
    assert set(good.participant) == {"man", "woman"}
    assert set(good.coreferent) == {"participant"}
    np.testing.assert_array_equal(
        texts.groupby(["occupation", "participant", "coreferent"]).size(), 4
    )
    assert set(experiment.task_texts("simplified").columns) == set(texts.columns)


def test_years_and_pronouns_are_counted_by_sentence(monkeypatch):
    prose = [
        "In 1801 she left. In 1820 and 1821 he met her! They had 18010 men and 2020 horses.",
        "No year, she said.",
    ]
    monkeypatch.setattr(english, "paragraphs", lambda shards: prose)
    found = experiment.year_counts(1).set_index("from")
    assert found.index.tolist() == list(range(1801, 2021, 20))
    assert found.loc[1801].tolist() == [2, 2, 1, 0]  # sentences; she, her; he
    assert found.loc[1821].tolist() == [1, 1, 1, 0]
    assert found.loc[2001].tolist() == [1, 0, 0, 1]
    assert found.to_numpy().sum() == 5 + 3 + 2


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: experiment.task_texts("mgc"), "simplified, persons, winogender"),
        (lambda: experiment.shares_at(["[MASK] left."], "pocket-english", (1901,)), "at least two"),
    ],
)
def test_bad_input_gets_one_line(call, says):
    with pytest.raises(UserError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_the_area_under_the_drawn_curve_is_the_area():
    """Ties move together: the drawn trapezoids then are P(a > b) + P(a = b) / 2."""
    metric, unspecified = [3, 2, 2, 2, 1, 0, 0], [True, True, False, False, True, False, True]
    table = pd.DataFrame({"x": metric, "is": unspecified, "of": "she", "set": "one"})
    axis = roc(table, "x", "is", "of", "set", 2).axes[0]
    x, y = axis.lines[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(area(metric, unspecified, draws=1)[0])
    assert axis.lines[1].get_xydata().tolist() == [[0, 0.25]]  # above 2: one of four, none of three
