"""True and false statements: exact balance, truths computed again, no word that tells the truth."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from probebook.base import UserError
from probebook.corpora import statements
from probebook.corpora.words import phrase_table

pytestmark = pytest.mark.library

TOPICS = ["cities", "sums", "opposites", "animals"]
WORDS = phrase_table("statements")
FACTS = {topic: WORDS[topic]["facts"] for topic in TOPICS if topic != "sums"}
UNITS = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen""".split()
TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}


@pytest.fixture(scope="module")
def table():
    return statements.generate()


def _bag_of_words():
    return make_pipeline(
        CountVectorizer(token_pattern=r"[\w-]+|[^\w\s]"), LogisticRegression(max_iter=1000)
    )


def _halves(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables of different facts, at random."""
    facts = np.random.default_rng(0).permutation(table.fact.unique())
    train = table.fact.isin(facts[: len(facts) // 2])
    return table[train], table[~train]


def _number(word: str) -> int:
    tens, _, units = word.lower().rpartition("-")
    return TENS[tens] + _number(units) if tens else {**_units(), **TENS}[units]


def _units() -> dict[str, int]:
    return {word: i for i, word in enumerate(UNITS, 1)}


# what is known


def test_there_are_enough_facts():
    countries = [country for part in FACTS["cities"].values() for country in part]
    cities = [city for part in FACTS["cities"].values() for row in part.values() for city in row]
    words = " ".join(pair for pairs in FACTS["opposites"].values() for pair in pairs).split()
    animals = [name for names in FACTS["animals"].values() for name in names]
    for listed, least in (cities, 250), (countries, 60), (words, 260), (animals, 250):
        assert len(set(listed)) == len(listed) >= least
    assert len(FACTS["animals"]) >= 6
    assert all(len(pair.split()) == 2 for pairs in FACTS["opposites"].values() for pair in pairs)
    for topic in TOPICS:  # more than the docstring promises
        assert len(statements.generate((topic,), 1104)) == 1104


def test_no_list_has_more_than_half_of_the_facts():
    """Else some fact would find no partner."""
    sizes = {
        "cities": [sum(map(len, part.values())) for part in FACTS["cities"].values()],
        "opposites": [len(pairs) for pairs in FACTS["opposites"].values()],
        "animals": [len(names) for names in FACTS["animals"].values()],
    }
    for topic, listed in sizes.items():
        assert max(listed) <= sum(listed) / 2, topic


def test_no_animal_names_a_class():
    classes = [kind.split()[1] for kind in FACTS["animals"]]
    for names in FACTS["animals"].values():
        assert not [name for name in names for kind in classes if kind in name]


def test_numbers_are_written_as_they_are_counted():
    numbers = WORDS["sums"]["numbers"]
    assert [*map(_number, numbers)] == [*range(1, len(numbers) + 1)]


# the statements


def test_each_cell_has_a_quarter(table):
    assert [*table] == ["text", "topic", "true", "affirmed", "fact", "subject", "predicate"]
    assert (table.groupby(["topic", "true", "affirmed"]).size() == 250).all()
    assert table.text.is_unique
    assert (table.groupby("fact").topic.nunique() == 1).all()
    assert (table.groupby(["topic", "subject"]).fact.nunique() == 1).all()
    cells = table.groupby(["fact", "true", "affirmed"]).size().unstack(["true", "affirmed"])
    assert cells.eq(cells.iloc[:, 0], axis=0).all(axis=None)


def test_in_each_group_every_word_is_as_often_true_as_false(table):
    for _, group in table.groupby("fact"):
        counts = {
            true: Counter(re.findall(r"[\w-]+", " ".join(group.text[group.true == true]).lower()))
            for true in (0, 1)
        }
        assert counts[0] == counts[1]


def test_negation_turns_the_truth_round(table):
    plain = table.text.str.replace(" is not ", " is ")
    for _, pair in table.groupby(plain):
        assert sorted(pair.affirmed) == sorted(pair.true) == [0, 1]
    assert (table.text.str.contains(" is not ") == (table.affirmed == 0)).all()


def test_sums_are_added_up(table):
    for row in table[table.topic == "sums"].itertuples():
        a, b, verb, result = re.fullmatch(
            r"([\w-]+) plus ([\w-]+) (is|is not) ([\w-]+)\.", row.text
        ).groups()
        error = _number(result) - _number(a) - _number(b)
        assert row.true == ((error == 0) == (verb == "is"))
        assert abs(error) <= statements.SPREAD + 2


def test_cities_are_in_one_country(table):
    country = {
        city: name
        for part in FACTS["cities"].values()
        for name, cities in part.items()
        for city in cities
    }
    part = {name: i for i, part in enumerate(FACTS["cities"].values()) for name in part}
    for row in table[table.topic == "cities"].itertuples():
        city, verb, said = re.fullmatch(
            r"The city of (.+) (is|is not) in (.+)\.", row.text
        ).groups()
        assert row.true == ((country[city] == said) == (verb == "is"))
        assert country[city] == said or part[country[city]] != part[said]


def test_opposites_are_symmetric(table):
    own = table[(table.topic == "opposites") & (table.true == table.affirmed)]
    opposite = dict(zip(own.subject, own.predicate))
    assert len(opposite) == 250
    both = [word for word in opposite if opposite[word] in opposite]
    assert len(both) >= 248  # all but those of the last fact
    assert all(opposite[opposite[word]] == word for word in both)
    lists = {
        w: name for name, pairs in FACTS["opposites"].items() for p in pairs for w in p.split()
    }
    for row in table[(table.topic == "opposites") & (table.true != table.affirmed)].itertuples():
        assert lists[row.subject] != lists[row.predicate]


def test_animals_are_of_one_class(table):
    kind = {name: kind for kind, names in FACTS["animals"].items() for name in names}
    for row in table[table.topic == "animals"].itertuples():
        article, animal, verb, said = re.fullmatch(
            r"(An?) (.+?) (is|is not) (an? \w+)\.", row.text
        ).groups()
        assert (article == "An") == (animal[0] in "aeiou")
        assert row.true == ((kind[animal] == said) == (verb == "is"))


def test_draws_depend_on_the_seed_and_on_nothing_else(table):
    pd.testing.assert_frame_equal(table, statements.generate())
    few = statements.generate(("animals", "sums"), 80)
    assert [*few.topic.unique()] == ["animals", "sums"]
    for topic, part in few.groupby("topic"):
        assert [*part.text] == [*table.text[table.topic == topic]][:80]
    other = statements.generate(n=80, seed=1)
    assert not {*other.fact} <= {*table.fact}


# what a reader of words could learn


@pytest.mark.parametrize("topic", [*TOPICS, None])
def test_a_bag_of_words_learns_nothing(table, topic):
    """Its gradient is 0 at the start, so its weights stay 0; the same holds for pairs of words."""
    train, test = _halves(table if topic is None else table[table.topic == topic])
    model = make_pipeline(CountVectorizer(ngram_range=(1, 2)), LogisticRegression())
    model.fit(train.text, train.true)
    assert np.abs(model[-1].coef_).max() < 1e-9
    scores = np.round(model.decision_function(test.text), 9)
    assert roc_auc_score(test.true, scores) == 0.5


def test_length_does_not_tell_the_truth(table):
    for topic, part in table.groupby("topic"):
        auroc = roc_auc_score(part.true, part.text.str.len())
        assert abs(auroc - 0.5) < 1.96 * np.sqrt(1 / (6 * len(part) / 2)), topic


@pytest.mark.parametrize("nuisance", statements.NUISANCES)
def test_planted_nuisance_is_all_that_is_read(table, nuisance):
    train, test = _halves(table)
    train, like = (statements.plant(part, nuisance, 0.98) for part in (train, test))
    model = _bag_of_words().fit(train.text, train.true)
    assert roc_auc_score(like.true, model.decision_function(like.text)) > 0.985
    fair = statements.plant(test, nuisance, 0)
    auroc = roc_auc_score(fair.true, model.decision_function(fair.text))
    assert abs(auroc - 0.5) < 1.96 * np.sqrt(1 / (6 * len(fair) / 2))
    assert roc_auc_score(fair[nuisance], model.decision_function(fair.text)) > 0.985


@pytest.mark.parametrize("nuisance", statements.NUISANCES)
@pytest.mark.parametrize("strength", [0, 0.5, 0.98, 1])
def test_planted_share_is_exact(table, nuisance, strength):
    planted = statements.plant(table, nuisance, strength, seed=3)
    share = planted.groupby("true")[nuisance].mean()
    assert share[1] == pytest.approx((1 + strength) / 2)
    assert share[0] == pytest.approx((1 - strength) / 2)
    assert roc_auc_score(planted.true, planted[nuisance]) == pytest.approx((1 + strength) / 2)
    has = planted[nuisance] == 1
    assert ((planted.text == table.text) == ~has).all()
    core = [text[1:-1] for text in table.text[has]]
    assert all(old in new for old, new in zip(core, planted.text[has]))
    assert planted.text.is_unique
    assert all(text[0].isupper() and text[-1] in ".!" for text in planted.text)
    other = statements.plant(table, nuisance, strength, seed=4)
    assert other.text.equals(planted.text) == (strength == 1 and nuisance != "length")


# bad input


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: statements.generate(("cities", "rivers")), "'rivers' is not a valid topic: exp"),
        (lambda: statements.generate(()), "'' is not a valid topic: expected cities, sums"),
        (lambda: statements.generate(n=0), "n = 0: expected a multiple of 8"),
        (lambda: statements.generate(n=1001), "n = 1001: expected a multiple of 8"),
        (lambda: statements.generate(n=8000), r"n = 8000: expected at most \d+ on cities"),
        (lambda: statements.plant(pd.DataFrame(), "length"), "the table lacks text or true"),
        (lambda: statements.plant(pd.DataFrame(), "colour"), "'colour' is not a valid nuisance"),
        (lambda: statements.plant(pd.DataFrame(), strength=1.5), "strength = 1.5: expected a num"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(UserError, match=f"^{message}") as error:
        call()
    assert "\n" not in str(error.value)
