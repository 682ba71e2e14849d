"""Agreement sentences mined from prose: the rule, the file that ships, its precision as read."""

import csv
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.corpora import agreement, english
from probebook.corpora.agreement import files
from probebook.models import load as load_model
from probebook_chapters.causal_probing import verb_choice
from probebook_training import agreement_prose as prose

pytestmark = pytest.mark.library

real = pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ, reason="needs real data: set PROBEBOOK_DATA"
)
READ = Path(__file__).parent / "agreement_prose_read.tsv"
CELLS = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.fixture(scope="module")
def table():
    return agreement.load("prose")


# the rule


@pytest.mark.parametrize(
    "sentence, subject, attractor, zc, ze, verb",
    [
        ("The key to the cabinet is lost.", "key", "cabinet", 0, 0, "is"),
        ("The key to the old cabinets is lost.", "key", "cabinet", 0, 1, "is"),
        ("The rusty keys to the cabinet are lost.", "key", "cabinet", 1, 0, "are"),
        ("The keys to the cabinets were lost.", "key", "cabinet", 1, 1, "were"),
        ("He knew that the men in the boat were cold.", "man", "boat", 1, 0, "were"),
        ("It rained, and the roofs of the village have leaked.", "roof", "village", 1, 0, "have"),
        ("“The sight of the wolves has frightened us.”", "sight", "wolf", 0, 1, "has"),
        ("Letters from the front were rare.", "letter", "front", 1, 0, "were"),
        ("The people of Troy were asleep.", "people", "Troy", 1, 0, "were"),
        (
            "The king’s sons on the walls see us; the walls of his castle are high.",
            "wall",
            "castle",
            1,
            0,
            "are",
        ),
        ("The pictures painted by the children were sold.", "picture", "child", 1, 1, "were"),
        ("The roof of the house on the hills is red.", "roof", "hill", 0, 1, "is"),
        ("No friend of my brothers seems happy.", "friend", "brother", 0, 1, "seems"),
        ("The happiness of the poor farmers is small.", "happiness", "farmer", 0, 1, "is"),
        ("These grumblings of the engine are new.", "", "engine", 1, 0, "are"),
    ],
)
def test_the_rule_finds(sentence, subject, attractor, zc, ze, verb):
    [found] = prose.find(sentence)
    assert (found.subject, found.attractor, found.zc, found.ze, found.verb, found.agrees) == (
        subject,
        attractor,
        zc,
        ze,
        verb,
        True,
    )
    assert sentence[found.at : found.end] == verb


@pytest.mark.parametrize(
    "sentence",
    [
        "The key to the cabinets often is lost.",  # an adverb stands before the verb
        "The king and the sons of the queen and he were late.",
        "The key, by the doors, is lost.",
        "A number of men were late.",  # a quantity
        "The rest of the men were late.",
        "The man who saw the dogs is late.",  # a relative clause
        "The series of lectures is long.",  # no number
        "One of the men is late.",
        "The men of it are late.",
        "These man of the house is late.",  # the determiner has another number
        "Man in the moon is late.",  # a bare singular
        "They went in the house of the dogs is late.",
        "The wish to love is strong.",
        "The friends of the French are late.",  # a people, not a name
        "The men of the Alps are late.",  # an unknown name in s
        "The men in the boats sang.",
        "In the boats were the men.",
    ],
)
def test_the_rule_refuses(sentence):
    assert not list(prose.find(sentence))


@pytest.mark.parametrize(
    "sentence",
    ["If the son of the king were here, I should know.", "The sound of the bells are loud."],
)
def test_a_verb_of_the_other_number_is_dropped(sentence):
    [found] = prose.find(sentence)
    assert not found.agrees
    assert prose.mine([("", sentence)]) == ([], 1)


def test_each_text_once_and_a_row_for_each_verb():
    paragraph = "The walls of the town are old, and the roofs of its houses are new."
    rows, _ = prose.mine([("1", paragraph), ("2", paragraph)])
    assert [(row["text"], row["work"]) for row in rows] == [
        ("The walls of the town [MASK] old, and the roofs of its houses are new.", "1"),
        ("The walls of the town are old, and the roofs of its houses [MASK] new.", "1"),
    ]


def test_of_a_long_sentence_the_clause_is_kept():
    sentence = "We went " + "on and on " * 25 + "; the walls of the town were old; then it rained."
    [row] = prose.mine([("", sentence)])[0]
    assert row["text"] == "the walls of the town [MASK] old"
    assert prose.mine([("", "The walls of the town were " + "on and on " * 25)]) == ([], 0)


def test_an_abbreviation_ends_no_sentence():
    [row] = prose.mine([("", "The wish of Mr. Smith came true. The walls of the town are old.")])[0]
    assert row["text"].startswith("The walls")


# the file


def test_every_cell_has_two_thousand_sentences(table):
    assert len(table) >= 20_000
    assert table.groupby(["zc", "ze"]).size().loc[CELLS].min() >= 2_000
    assert files.SENTENCES.stat().st_size < 3_000_000


def test_a_row_is_what_the_rule_says_of_its_text(table):
    for row in table.sample(500, random_state=0).itertuples():
        sentence = row.text.replace("[MASK]", row.verb)
        at = row.text.index("[MASK]")
        [found] = [found for found in prose.find(sentence) if found.at == at]
        assert found.agrees
        assert (found.subject, found.attractor, found.zc, found.ze, found.other_verb) == (
            row.subject,
            row.attractor,
            row.zc,
            row.ze,
            row.other_verb,
        )


def test_texts_differ_and_hold_one_mask(table):
    assert table.text.is_unique
    assert (table.text.str.count(r"\[MASK\]") == 1).all()
    assert (table.text.str.split().str.len() <= prose.LONGEST).all()


def test_every_sentence_names_its_work(table):
    works = files.works().set_index("work")
    counts = table.work.value_counts()
    pd.testing.assert_series_equal(
        counts.sort_index(),
        works.sentences[works.sentences > 0].sort_index(),
        check_names=False,
        check_dtype=False,
    )
    assert (works.author != "").all()
    assert works.year.str.fullmatch(r"(1[5-9]\d\d)?").all()
    dated = works.year != ""
    assert works.sentences[dated].sum() / works.sentences.sum() > 0.75


def test_works_that_trained_no_model_come_last():
    works = files.works()
    assert not works.seen.all()
    assert works.seen.is_monotonic_decreasing


def test_mined_sentences_are_split_by_work(table):
    parts = agreement.split(table)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(table)))
    whole = [set(table.work.iloc[parts[name]]) for name in agreement.GROUPS]
    assert not whole[0] & whole[1]
    assert not whole[0] & whole[2]
    assert not whole[1] & whole[2]
    shares = [len(parts[name]) / len(table) for name in agreement.GROUPS]
    assert shares == pytest.approx([0.38, 0.38, 0.2], abs=0.01)


def test_the_prose_is_at_hand_without_the_data_of_others(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_DATA", str(tmp_path))
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    monkeypatch.setattr("probebook.corpora.fetch._download", _no_network)
    assert len(agreement.load("prose", n=10)) == 10
    with pytest.raises(UserError, match="linzen_testset.text is not at hand"):
        agreement.load("natural")


def _no_network(name, entry):
    raise UserError(f"{name} is not at hand")


# the addresses, which trained no model


@pytest.fixture(scope="module")
def addresses():
    return agreement.load("addresses")


def test_the_addresses_have_all_cells(addresses):
    assert len(addresses) > 3_000
    assert addresses.groupby(["zc", "ze"]).size().loc[CELLS].min() >= 400
    assert addresses.work.str.fullmatch(r"(1[789]|20)\d\d [A-Z].*[a-z]").all()
    assert addresses.work.nunique() > 200


def test_a_row_of_the_addresses_is_what_the_rule_says(addresses):
    for row in addresses.sample(300, random_state=0).itertuples():
        found = [
            found
            for found in prose.find(row.text.replace("[MASK]", row.verb))
            if found.at == row.text.index("[MASK]")
        ]
        assert [(one.subject, one.attractor, one.zc, one.ze) for one in found] == [
            (row.subject, row.attractor, row.zc, row.ze)
        ]


def test_no_sentence_of_the_addresses_is_in_the_prose(addresses, table):
    assert not set(addresses.text) & set(table.text)


def test_the_addresses_that_were_read_are_right(addresses):
    read = pd.read_csv(
        READ.with_name("agreement_addresses_read.tsv"),
        sep="\t",
        keep_default_na=False,
        quoting=csv.QUOTE_NONE,
    )
    assert len(read) >= 120
    assert set(read.text) <= set(addresses.text)
    assert (read.merge(addresses, on=["text", "zc", "ze"]).text == read.text).all()
    assert (read[["zc_right", "ze_right"]] == 1).mean().min() >= 0.98


def test_a_model_chooses_as_well_in_texts_that_it_never_saw(addresses, table):
    """Within .08 in each cell: what pocket-agreement knows is no memory of its training text."""
    shares = [
        verb_choice(
            part.groupby(["zc", "ze"]).sample(150, random_state=0), "pocket-agreement"
        ).share
        for part in (_single_tokens(table), _single_tokens(addresses))
    ]
    np.testing.assert_allclose(*shares, atol=0.08)


def _single_tokens(table):
    known = set(load_model("pocket-agreement").tokenizer.get_vocab())
    return table[table.verb.isin(known) & table.other_verb.isin(known)]


# precision


@pytest.fixture(scope="module")
def read():
    return pd.read_csv(READ, sep="\t", keep_default_na=False, quoting=csv.QUOTE_NONE)


def test_the_sentences_read_are_those_that_the_seed_draws(table, read):
    drawn = pd.concat(
        [table[(table.zc == zc) & (table.ze == ze)].sample(75, random_state=0) for zc, ze in CELLS]
    )
    assert read.text.tolist() == drawn.text.tolist()


@pytest.mark.parametrize("label", ["zc", "ze"])
def test_precision_is_at_least_98_percent(read, label):
    assert len(read) == 300
    assert set(read[f"{label}_right"]) <= {0, 1}
    assert read[f"{label}_right"].mean() >= 0.98


# the text


@real
def test_works_end_where_paragraphs_end():
    works = prose.english_works()
    assert len(works) == 568
    last = works.work[works.shard == 0].iloc[-1]
    of_shard = 0
    for work, _ in prose.paragraphs_of_works():
        if int(work) > int(last):
            break
        of_shard += 1
    assert of_shard == sum(1 for _ in english.paragraphs([0]))


@real
def test_natural_is_the_prose_and_the_sentences_of_others(table):
    natural = agreement.load("natural")
    parts = [agreement.load(name).text for name in ("prose", "linzen", "lgd_masked")]
    assert set(natural.text) == set(pd.concat(parts))
    assert natural.text.is_unique
    correlation = np.corrcoef(*natural.loc[natural.ze >= 0, ["zc", "ze"]].to_numpy().T)[0, 1]
    assert abs(correlation) < 0.5
    parts = agreement.split(natural)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(natural)))
    works = [set(natural.work.iloc[parts[name]]) - {""} for name in agreement.GROUPS]
    assert not works[0] & works[1] | works[0] & works[2] | works[1] & works[2]


# models


def test_verb_choice_counts_the_sentences_with_the_right_form_ahead(table):
    past = table[table.verb.isin(["was", "were"])]
    rows = pd.concat([past[(past.zc == zc) & (past.ze == ze)].head(20) for zc, ze in CELLS])
    swapped = rows.rename(columns={"verb": "other_verb", "other_verb": "verb"})
    right, wrong = (verb_choice(part, "pocket-agreement") for part in (rows, swapped))
    assert right.n.tolist() == [20] * 4
    np.testing.assert_allclose(right.share + wrong.share, 1)
    assert ((right.low <= right.share) & (right.share <= right.high)).all()
