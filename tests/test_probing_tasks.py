"""The four probing tasks: exact on hand-made sentences, invariant on generated ones, no leak
between splits."""

import os
import random
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.corpora import probing_tasks as tasks
from probebook.corpora.fetch import entries
from probebook.corpora.probing_tasks import main_verbs, plain_sentences

pytestmark = pytest.mark.library

VERBS = [verb for _, verb in plain_sentences.phrasebook().verbs]
BINARY = [task for task in tasks.TASKS if task != "sentence_length"]


@pytest.fixture(scope="module")
def plain():
    return tasks.sentences("plain", 4000, seed=3)


@pytest.fixture(scope="module")
def tables(plain):
    return {task: tasks.generate(task, plain, seed=1) for task in tasks.TASKS}


def words(text):
    return re.findall(r"[\w'-]+", text)


# the sentences


def test_plain_sentences_are_what_they_say(plain):
    assert len(set(plain)) == 4000
    assert plain == tasks.sentences("plain", 4000, seed=3)
    assert {len(text.split()) for text in plain} == set(range(5, 29))
    for text in plain:
        assert re.fullmatch(r"[A-Z][A-Za-z]*(,? [A-Za-z]+)*\.", text), text
        assert not re.search(r"\ba [aeiou]|\ban [^aeiouh]|\b(\w+) \1\b", text.lower()), text
    lemmas = {verb[0] for verb in VERBS}
    assert len(lemmas) >= 60
    assert len({*plain_sentences.generate(41_000)}) == 41_000


def test_the_rule_knows_every_verb_of_the_generator_in_its_three_forms():
    for base, third, past, rest in VERBS:
        rest = rest[0].format(my="the")
        for subject, form, tense in (
            ("He", third, "present"),
            ("They", base, "present"),
            ("I also", past, "past"),
        ):
            assert main_verbs.main_verb(f"{subject} {form} {rest}.") == (form, base, tense)
        assert main_verbs.main_verb(f"He {base} {rest}.") is None
        assert main_verbs.main_verb(f"We {third} {rest}.") is None


@pytest.mark.parametrize("past", [True, False])
def test_the_rule_finds_the_tense_that_the_generator_used_and_nearly_every_verb(past):
    rng, found, n = random.Random(5), Counter(), 4000
    for _ in range(n):
        text, _ = plain_sentences._clause(rng, past, rng.randint(5, 20), None, "s")
        verb = main_verbs.main_verb(f"{text[0].upper()}{text[1:]}.")
        found[verb and verb[2]] += 1
    assert set(found) == {None, "past" if past else "present"}
    assert found[None] < 0.25 * n


# the tasks


@pytest.mark.parametrize(
    "n, z",
    [
        (4, None),
        (5, 0),
        (8, 0),
        (9, 1),
        (12, 1),
        (13, 2),
        (16, 2),
        (17, 3),
        (20, 3),
        (21, 4),
        (25, 4),
        (26, 5),
        (28, 5),
        (29, None),
    ],
)
def test_length_counts_words_not_marks(n, z):
    text = "Well-known 3.5 don't , " + " ".join(["so"] * (n - 3)) + " ."
    found = tasks.sentence_length([text, text])
    assert found.z.tolist() == [z] * (z is not None)
    assert found.text.tolist() == [text] * (z is not None)


def test_all_swaps_there_are():
    text = "The dog saw us, and we had had fun."
    found = {
        tasks.bigram_shift([text, "An old tree."], seed).query("z == 1").text.iloc[0]
        for seed in range(200)
    }
    assert found == {
        "An tree old.",
        "The saw dog us, and we had had fun.",
        "The dog us saw, and we had had fun.",
        "The dog saw us, we and had had fun.",
        "The dog saw us, and had we had fun.",
        "The dog saw us, and we had fun had.",
    }
    assert tasks.bigram_shift(["He came, saw.", "It had had.", "No.", "We (all) ran."]).empty


def test_swapping_back_gives_one_of_the_sentences(plain, tables):
    table = tables["bigram_shift"]
    assert len(table) == 4000
    assert table.z.sum() == 2000
    assert table.text.is_unique
    originals, shape = set(plain), re.compile(r"\w+")
    assert set(table.text[table.z == 0]) < originals
    by_words = {tuple(sorted(words(text))): text for text in plain}
    for text in table.text[table.z == 1]:
        assert text not in originals
        assert shape.sub("", text) == shape.sub("", by_words[tuple(sorted(words(text)))])
        tokens = words(text)
        back = [
            tokens[:i] + [tokens[i + 1], tokens[i]] + tokens[i + 2 :]
            for i in range(1, len(tokens) - 1)
        ]
        assert words(by_words[tuple(sorted(tokens))]) in back


TWO = {  # a sentence and the same with its clauses exchanged; None: not two clauses for sure
    "The men went home, and she slept well.": "She slept well, and the men went home.",
    "I sold it but we kept the old house.": "We kept the old house but I sold it.",
    "I think so, or my sister knows a way .": "My sister knows a way, or I think so .",
    "In winter, he sleeps, but I never sleep well.": None,
    "The box was heavy, and it could not be moved.": "It could not be moved, and the box was heavy.",
    "The men went home and she slept and he ate it.": None,
    "He met the king, and the queen of France.": None,
    "When he came home, and she slept well.": None,
    "Anna came home, and she slept well.": None,
    "She slept and left the house.": None,
    "He saw the king and the queen saw him.": None,
    "He slept, and all the old men.": None,
    "Did he go, and did we?": None,
    "He left (alone), and we slept well.": None,
    "We slept, but that is so.": None,
    "He ran, and she went.": None,
}


@pytest.mark.parametrize("text, other", TWO.items())
def test_two_clauses(text, other):
    found = main_verbs.inverted(text)
    assert (found and found[0]) == other
    assert not found or main_verbs.inverted(other)[0] == text


def test_inverting_twice_gives_the_sentence_back(plain):
    found = {text: inverted for text in plain if (inverted := main_verbs.inverted(text))}
    assert len(found) > 1200
    for text, (other, longer) in found.items():
        assert main_verbs.inverted(other) == (text, -longer)


def test_clause_lengths_do_not_tell_the_class(plain, tables):
    table = tables["coordination_inversion"]
    kind = [main_verbs.inverted(text)[1] for text in table.text]
    counts = pd.crosstab(pd.Series(kind), table.z)
    assert (counts[0] == counts[1]).all()
    assert list(counts.index) == [-1, 0, 1]
    assert counts.to_numpy().min() > 20
    assert table.text.is_unique
    assert set(table.text[table.z == 0]) < set(plain)
    originals = {main_verbs.inverted(text)[0] for text in table.text[table.z == 1]}
    assert originals < set(plain) - set(table.text)


@pytest.mark.parametrize(
    "text, verb",
    [
        ("She wrote a letter.", ("wrote", "write", "past")),
        ("We never go there.", ("go", "go", "present")),
        ("The old man sold his horse.", ("sold", "sell", "past")),
        ("The old man sells horses.", ("sells", "sell", "present")),
        ("During the war , he carried it .", ("carried", "carry", "past")),
        ("Nobody cries.", ("cries", "cry", "present")),
        ("The men stopped the train.", ("stopped", "stop", "past")),
        ("The farmers walked.", ("walked", "walk", "past")),
        ("Critics praise the film.", ("praise", "praise", "present")),
        ("The critics film the praise.", None),
        ("Critics praised the film.", ("praised", "praise", "past")),
        ("The women know it.", ("know", "know", "present")),
        ("The woman know it.", None),
        ("They goes there.", None),
        ("The old man sold last year was ill.", None),
        ("The song released the same year was bad.", None),
        ("The walks were long.", None),
        ("The play began.", ("began", "begin", "past")),
        ("The man told the news left.", None),
        ("After he left the house, she sold it.", None),
        ("Went home.", None),
        ("She was tired.", None),
        ("He put it away.", None),
        ("She has sold it.", None),
        ("Did she go?", None),
        ("The man in the car left it.", None),
        ("He's sold it.", None),
        ("“She sold it.”", None),
        ("He Wrote a letter.", None),
        ("The man, who sold it, left.", None),
        ("It", None),
        ("", None),
    ],
)
def test_main_verb(text, verb):
    assert main_verbs.main_verb(text) == verb
    found = tasks.past_present([text, text])
    row = [(text, int(verb[2] == "present"), *verb[:2])] if verb else []
    assert [*found.itertuples(index=False, name=None)] == row
    assert list(found) == ["text", "z", "form", "lemma"]


# tables and subsets


@pytest.mark.parametrize("task", tasks.TASKS)
def test_generate(task, plain, tables):
    table = tables[task]
    assert list(table)[:2] == ["text", "z"]
    assert table.z.dtype == "int64"
    assert table.text.is_unique
    assert sorted(table.z.unique()) == list(range(len(tasks.TASKS[task])))
    pd.testing.assert_frame_equal(table, tasks.generate(task, iter(plain), seed=1))
    k = len(tasks.TASKS[task])
    small = tasks.generate(task, plain, n=30 * k + 1, seed=1)
    assert sorted(small.z.value_counts()) == [30] * (k - 1) + [31]
    assert set(small.text) <= set(table.text)
    assert set(tasks.generate(task, plain, n=30 * k, seed=2).text) != set(small.text)


@pytest.mark.parametrize("leak", [False, True])
@pytest.mark.parametrize("task", tasks.TASKS)
def test_subsets_are_exact_and_share_no_text(task, leak, tables):
    found = tasks.subset(tables[task], 64, seed=4, leak=leak)
    sizes = found.groupby(["split", "z"]).size().unstack()
    assert (sizes.loc["train"] == 64).all()
    assert (sizes.loc[["dev", "test"]] == 16).all().all()
    assert found.text.is_unique
    assert set(found.text) <= set(tables[task].text)
    assert not sizes.isna().any().any()
    assert found.split.drop_duplicates().tolist() == ["train", "dev", "test"]
    pd.testing.assert_frame_equal(found, tasks.subset(tables[task], 64, seed=4, leak=leak))
    assert set(found.text) != set(tasks.subset(tables[task], 64, seed=5, leak=leak).text)


def test_no_lemma_is_in_two_splits_unless_wanted(tables):
    def lemmas(leak, seed):
        return [
            set(part.lemma)
            for _, part in tasks.subset(tables["past_present"], 256, seed, leak).groupby("split")
        ]

    for seed in range(3):
        dev, test, train = lemmas(False, seed)
        assert not dev & test
        assert not dev & train
        assert not test & train
        assert min(len(dev), len(test)) >= 8
        dev, test, train = lemmas(True, seed)
        assert len(test - train) < 0.3 * len(test)
    assert lemmas(False, 0) != lemmas(False, 1)


@pytest.mark.parametrize("per_class", [256, 10**6])  # some deal is enough, none is
def test_lemmas_are_dealt_as_the_first_of_50_deals_with_most_room(tables, per_class):
    table = tables["past_present"]
    counts, rng = pd.crosstab(table.lemma, table.z), np.random.default_rng(4)
    by_size = counts.sum(axis=1).sort_values(ascending=False, kind="stable").index
    deals = [
        dict(zip(by_size, np.concatenate([rng.permutation(tasks._SIXTHS) for _ in by_size[::6]])))
        for _ in range(50)
    ]
    rooms = [min(per_class, tasks._room(counts.groupby(deal).sum())) for deal in deals]
    assert (
        tasks._lemma_splits(counts, per_class, np.random.default_rng(4))
        == deals[int(np.argmax(rooms))]
    )


def test_all_items_can_be_used():
    table = pd.DataFrame({"text": [f"t{i}" for i in range(12)], "z": [0, 1] * 6})
    assert len(tasks.subset(table, 4)) == 12
    with pytest.raises(
        UserError, match=r"texts for 4 training texts of each class \(the classes have 6, 6\)"
    ):
        tasks.subset(table, 8)


# SentEval's files

LINES = [
    "tr\tPAST\tShe wrote a letter .",
    "tr\tPRES\tThey know it , my friend .",
    "va\tPRES\tOh , he is , is he ?",
    "te\tPAST\tHe goes home .",
    "te\tPRES\tShe wrote a letter .",
    "te\tPAST\tI was there .",
]


def test_files_of_senteval(tmp_path):
    path = tmp_path / "past_present.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    table = tasks.load(path, "past_present")
    assert table.z.tolist() == [0, 1, 1, 0, 0]
    assert table.split.tolist() == ["train", "train", "dev", "test", "test"]
    assert table.lemma.tolist() == ["write", "know", "", "", ""]
    assert table.form[0] == "wrote"  # "goes" is not past
    assert table.text[1] == "They know it , my friend ."
    assert list(table) == ["text", "z", "split", "form", "lemma"]
    path.write_text("tr\tO\tA b .\nva\tI\tb A .\n", encoding="utf-8")
    for task in BINARY[:2]:
        assert tasks.load(path, task).z.tolist() == [0, 1]
    path.write_text("tr\t5\tA b\x85c .\n", encoding="utf-8")
    assert tasks.load(str(path), "sentence_length").values.tolist() == [["A b\x85c .", 5, "train"]]


def test_its_own_splits_are_kept_or_pooled(tmp_path):
    path = tmp_path / "bigram_shift.txt"
    sizes = {"tr": 8, "va": 2, "te": 2}
    rows = [
        (part, z, f"{part} {z} {i}") for part, k in sizes.items() for z in "OI" for i in range(k)
    ]
    path.write_text("\n".join("\t".join(row) for row in rows), encoding="utf-8")
    table = tasks.load(path, "bigram_shift")
    kept, pooled = tasks.subset(table, 8), tasks.subset(table, 8, leak=True)
    kept_split, own_split, new_split = (dict(zip(t.text, t.split)) for t in (kept, table, pooled))
    assert kept_split == own_split != new_split
    assert set(new_split) == set(own_split)
    smaller = tasks.subset(kept, 4)
    assert set(smaller.text[smaller.split == "test"]) <= set(kept.text[kept.split == "test"])


# bad input, real text


@pytest.mark.parametrize(
    "call, says",
    [
        (
            lambda t, p: tasks.generate("tense", []),
            "'tense' is not a valid task: expected sentence_length, bigram_shift",
        ),
        (lambda t, p: tasks.generate("bigram_shift", ["No."], n=0), "n = 0: at least 1 text"),
        (
            lambda t, p: tasks.generate("past_present", ["It is so."]),
            "none of the 1 sentences fits past_present",
        ),
        (lambda t, p: tasks.sentences("wiki"), "'wiki': one of plain, wikitext2, english"),
        (lambda t, p: tasks.sentences("plain", 0), "n = 0: at least 1 sentence"),
        (
            lambda t, p: tasks.subset(t, 10),
            "per_class = 10: training texts of each class, a multiple of 4",
        ),
        (lambda t, p: tasks.subset(t, 0), "per_class = 0"),
        (lambda t, p: tasks.subset(t[t.z == 0], 4), "at least two classes"),
        (lambda t, p: tasks.subset(t.drop(columns="z"), 4), "columns text and z"),
        (
            lambda t, p: tasks.subset(t, 40_000),
            r"for \d+ training texts of each class, with no verb in two",
        ),
        (
            lambda t, p: tasks.load(p / "no.txt", "past_present"),
            "no such file: SentEval's past_present.txt",
        ),
        (lambda t, p: tasks.load(p, "tense"), "'tense' is not a valid task"),
        (
            lambda t, p: tasks.load(p / "bad.txt", "bigram_shift"),
            r"bad.txt, line 2: partition \(tr, va, te\), label",
        ),
        (lambda t, p: tasks.load(p / "bad.txt", "past_present"), r"line 1: .*label \(PAST, PRES\)"),
    ],
)
def test_bad_input_gets_one_clear_line(call, says, tables, tmp_path):
    (tmp_path / "bad.txt").write_text("tr\tO\tA b .\ntr O A b .\n", encoding="utf-8")
    with pytest.raises(UserError, match=says) as e:
        call(tables["past_present"], tmp_path)
    assert "\n" not in str(e.value)


@pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ or "wikitext2/valid.txt" not in entries(),
    reason="needs real data: set PROBEBOOK_DATA",
)
def test_wikitext():
    texts = tasks.sentences("wikitext2", 4000)
    assert len(set(texts)) == 4000
    assert set(texts) != set(tasks.sentences("wikitext2", 3999, seed=1))
    assert all(
        re.fullmatch(r"[A-Z].*[^ ]\.", text) and not re.search(r"<unk>| @| ,|\( ", text)
        for text in texts
    )
    assert len(tasks.generate("sentence_length", texts)) == 4000
    assert len(tasks.generate("bigram_shift", texts)) > 3900
    assert len(tasks.generate("coordination_inversion", texts)) >= 10
    verbs = tasks.generate("past_present", texts)
    assert len(verbs) > 400
    assert verbs.z.value_counts().min() > 60
    for row in verbs.itertuples():
        assert row.form in words(row.text)
        assert main_verbs.FORMS[row.form][:2] == (row.lemma, tasks.TASKS["past_present"][row.z])
    with pytest.raises(UserError, match="wikitext2 has 4[0-9]+ sentences"):
        tasks.sentences("wikitext2", 10**6)


def test_a_control_task_has_one_class_for_each_last_word_and_the_tasks_shares():
    table = tasks.generate("past_present", plain_sentences.generate(3000, 0))
    drawn = tasks.control(table)
    last = drawn.text.str.findall(r"\w+").str[-1].str.lower()
    assert (drawn.groupby(last).z.nunique() == 1).all()
    assert drawn.text.equals(table.text)
    assert set(tasks.control(table, 1).z) == {0, 1}
    assert (tasks.control(table, 1).z != drawn.z).mean() > 0.3
    agree = [(tasks.control(table, seed).z == table.z).mean() for seed in range(40)]
    assert abs(sum(agree) / 40 - 0.5) < 0.02  # it knows nothing of the task
