"""The agreement generator and its counterfactuals, the loaders, decorrelation and splits."""

import csv
import gzip
import itertools
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from probebook.base import DATA, UserError
from probebook.corpora import agreement, english
from probebook.corpora.agreement import files as agreement_files
from probebook.corpora.agreement.lexicon import load_lexicon
from probebook.corpora.words import phrases, word_table

pytestmark = pytest.mark.library

real = pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ, reason="needs real data: set PROBEBOOK_DATA"
)
LEXICON = load_lexicon()
NUMBER = {
    form: (noun.singular, number)
    for noun in LEXICON.nouns
    for number, form in enumerate((noun.singular, noun.plural))
}
TEMPLATE_NOUNS = """guard chef architect skater dancer minister driver assistant executive parent
    author pilot surgeon farmer manager customer officer teacher senator consultant movie book game
    song picture painting novel poem show taxi""".split()
TEMPLATE_VERBS = "laugh swim smile bring interest laughs swims smiles brings interests".split()


@pytest.fixture(scope="module")
def table():
    return agreement.generate(6_000, seed=0)


# the words


@pytest.mark.parametrize(
    "path", sorted((DATA / "corpora").glob("*.yaml")), ids=lambda path: path.stem
)
def test_word_files_say_what_they_are(path):
    text = path.read_text(encoding="utf-8")
    head = text.partition("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert "probebook.corpora." in head or "probebook_training." in head
    assert "To extend it" in head
    assert word_table(path.stem)


def test_a_missing_word_file_is_one_line():
    with pytest.raises(UserError, match="no_such.yaml: No such file"):
        word_table("no_such")


def test_phrases_stand_one_a_line_or_between_semicolons():
    assert phrases("near; next to;\n  by \n") == ["near", "next to", "by"]


def test_listing_parameters_reads_no_words():
    code = (
        "import sys\nfrom probebook_cli import app\n"
        "app(['params', '1_causal_probing/03'], standalone_mode=False)\n"
        "assert not [name for name in sys.modules if name.startswith('probebook.corpora.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_lexicon_size_and_held_out_share():
    nouns = LEXICON.nouns
    verbs = {
        (plural, singular) for cells in LEXICON.predicates.values() for plural, singular, _ in cells
    }
    assert len(nouns) >= 120
    assert len(verbs) >= 60
    assert len(NUMBER) == 2 * len(nouns), "a form belongs to two nouns"
    assert sum(noun.split == "test" for noun in nouns) >= len(nouns) / 4
    assert {"men", "women", "children", "feet", "teeth", "wolves"} <= NUMBER.keys()


def test_lexicon_avoids_the_crossed_templates():
    verbs = {form for cells in LEXICON.predicates.values() for cell in cells for form in cell[:2]}
    assert not {noun.singular for noun in LEXICON.nouns} & set(TEMPLATE_NOUNS)
    assert not verbs & set(TEMPLATE_VERBS)


def test_no_noun_hides_in_the_fixed_words():
    """Held-out nouns would otherwise be seen in training, as part of a continuation or a relative
    clause."""
    fixed = [cell[2] for cells in LEXICON.predicates.values() for cell in cells]
    fixed += LEXICON.adverbs + LEXICON.openings
    for words in (
        LEXICON.adjectives,
        LEXICON.relatives,
        LEXICON.object_relatives,
        LEXICON.place_relatives,
        LEXICON.prepositions,
    ):
        fixed += [phrase for row in words.values() for phrase in row]
    assert not {word for phrase in fixed for word in phrase.split()} & NUMBER.keys()


# generated sentences


def test_counts_follow_the_contingency(table):
    counts = Counter(zip(table["zc"], table["ze"]))
    weights = np.array(agreement.CONTINGENCY)
    for (zc, column), exact in np.ndenumerate(6_000 * weights / weights.sum()):
        assert abs(counts[zc, column - 1] - exact) < 1
    assert len(set(table["text"])) == len(table) == 6_000


def test_zero_cells_stay_empty():
    crossed = agreement.generate(100, contingency=[[0, 1, 1], [0, 1, 1]])
    assert Counter(zip(crossed["zc"], crossed["ze"])) == {
        cell: 25 for cell in itertools.product((0, 1), (0, 1))
    }


def test_the_seed_decides():
    one = agreement.generate(50, seed=3)
    pd.testing.assert_frame_equal(one, agreement.generate(50, seed=3))
    assert not one.text.equals(agreement.generate(50, seed=4).text)


def _differences(a: str, b: str) -> list[tuple[str, str]]:
    a, b = a.lower().split(), b.lower().split()
    assert len(a) == len(b)
    return [pair for pair in zip(a, b) if pair[0] != pair[1]]


def test_minimal_pairs_differ_in_one_noun(table):
    for row in table[:2_000].to_dict("records"):
        words = row["text"].split()
        assert words.count("[MASK]") == 1
        [(here, there)] = _differences(row["text"], row["subject_flipped"])
        assert NUMBER[here] == (row["subject"], row["zc"])
        assert NUMBER[there] == (row["subject"], 1 - row["zc"])
        if row["ze"] < 0:
            assert row["attractor"] == row["attractor_flipped"] == ""
        else:
            [(here, there)] = _differences(row["text"], row["attractor_flipped"])
            assert NUMBER[here] == (row["attractor"], row["ze"])
            assert NUMBER[there] == (row["attractor"], 1 - row["ze"])
            assert words[words.index("[MASK]") - 1] == here
            assert row["subject"] != row["attractor"]


def test_verb_agrees_with_the_subject(table):
    singular = {sg: pl for cells in LEXICON.predicates.values() for pl, sg, _ in cells}
    for row in table.to_dict("records"):
        sg, pl = (row["other_verb"], row["verb"]) if row["zc"] else (row["verb"], row["other_verb"])
        assert singular[sg] == pl


def test_halves_of_the_lexicon_share_no_noun():
    for half in ("train", "test"):
        own = {noun.singular for noun in LEXICON.nouns if noun.split == half}
        for text in agreement.generate(1_000, nouns=half).text:
            words = text.lower().strip(".").split()
            assert {NUMBER[word][0] for word in words if word in NUMBER} <= own


def test_load_generated_takes_held_out_nouns():
    rows = agreement.load("generated", n=300, seed=2, tokenizer=_Tokenizer())
    everything = agreement.generate(300, seed=2, nouns="test")
    chosen = everything[everything.verb.isin(["is", "are"])].reset_index(drop=True)
    assert 0 < len(chosen) < 300
    pd.testing.assert_frame_equal(rows, chosen)


@pytest.mark.parametrize(
    "wrong, says",
    [
        (dict(n=0), "at least 1"),
        (dict(n=5, contingency=[[1, -1, 1], [1, 1, 1]]), "weights ≥ 0"),
        (dict(n=5, contingency=[[0, 0, 0], [0, 0, 0]]), "not all 0"),
        (dict(n=5, contingency=[1, 2]), r"\[2, 3\]"),
        (dict(n=5, nouns="half"), "'train' or 'test'"),
    ],
)
def test_generate_refuses(wrong, says):
    with pytest.raises(UserError, match=says) as e:
        agreement.generate(**wrong)
    assert "\n" not in str(e.value)


# splits


def _nouns(rows) -> set[str]:
    return set(rows["subject"]) | set(rows["attractor"]) - {""}


def test_split_of_generated_text_loses_nothing_and_shares_no_noun(table):
    parts = agreement.split(table)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(table)))
    sizes = {name: len(index) / len(table) for name, index in parts.items()}
    assert sizes == pytest.approx(
        {
            "oracle": 0.38,
            "oracle_valid": 0.02,
            "intervention": 0.38,
            "intervention_valid": 0.02,
            "test": 0.2,
        },
        abs=2e-3,
    )
    oracle, intervention, test = (_nouns(table.iloc[parts[name]]) for name in agreement.GROUPS)
    assert not oracle & intervention
    assert not oracle & test
    assert not intervention & test
    assert _nouns(table.iloc[parts["oracle_valid"]]) <= oracle
    test = table.iloc[parts["test"]]  # the default contingency, roughly
    assert np.mean(test["zc"]) == pytest.approx(92 / 304, abs=5e-3)


def test_split_without_groups_drops_what_straddles(table):
    bare = table.assign(group="")
    parts = agreement.split(bare, seed=1)
    index = np.concatenate(list(parts.values()))
    assert len(set(index)) == len(index) < len(table)
    with_valid = {
        name: [*parts[name], *parts.get(f"{name}_valid", [])] for name in agreement.GROUPS
    }
    groups = [_nouns(bare.iloc[with_valid[name]]) for name in agreement.GROUPS]
    assert not groups[0] & groups[1]
    assert not groups[0] & groups[2]
    assert not groups[1] & groups[2]


def test_split_of_natural_text_is_disjoint_by_sentence():
    text = [f"sentence {i // 2} [MASK]" for i in range(400)]  # each twice
    natural = pd.DataFrame({"text": text, "subject": "", "attractor": "", "group": "", "work": ""})
    parts = {name: {text[i] for i in index} for name, index in agreement.split(natural).items()}
    assert sum(map(len, parts.values())) == 200 == len(set.union(*parts.values()))
    assert [len(parts[name]) for name in ("oracle", "oracle_valid", "test")] == [76, 4, 40]


# decorrelation


def _columns(counts) -> tuple[np.ndarray, np.ndarray]:
    cells = [(a, b) for (a, b), n in np.ndenumerate(np.asarray(counts)) for _ in range(n)]
    return tuple(np.array(cells).T)


def _table(zc, ze, shape) -> np.ndarray:
    counts = np.zeros(shape, int)
    np.add.at(counts, (zc, ze), 1)
    return counts


@pytest.mark.parametrize(
    "counts", [[[31, 5], [10, 4]], [[700, 20], [30, 250]], [[50, 7, 3], [9, 60, 8], [5, 5, 80]]]
)
def test_decorrelated_rows_are_independent_and_keep_the_labels(counts):
    zc, ze = _columns(counts)
    kept = agreement.decorrelate(zc, ze)
    assert len(set(kept)) == len(kept)
    got, p = _table(zc[kept], ze[kept], np.shape(counts)), np.bincount(zc) / len(zc)
    exact = np.outer(p, (np.asarray(counts) / p[:, None]).min(axis=0))  # m_b = min_a n_ab / p_a
    assert (got <= exact + 1e-9).all()
    assert (got > exact - 1).all()


@pytest.mark.parametrize(
    "counts", [[[6, 2], [3, 4]], [[4, 4], [2, 6]], [[8, 1], [4, 3]], [[3, 0], [3, 6]]]
)
def test_decorrelated_subset_is_the_largest(counts):
    """No table of whole numbers that is independent with the same labels, out of all that fit, is
    larger."""
    counts = np.array(counts)
    zc, ze = _columns(counts)
    p = counts.sum(1) / counts.sum()
    largest = 0
    for cells in itertools.product(*(range(n + 1) for n in counts.ravel())):
        t = np.reshape(cells, counts.shape)
        if np.allclose(t, np.outer(p, t.sum(0))):  # n_ab = p_a · (N q_b)
            largest = max(largest, t.sum())
    assert len(agreement.decorrelate(zc, ze)) >= largest


def test_decorrelate_ignores_rows_without_a_property():
    zc, ze = _columns([[20, 20], [20, 20]])
    kept = agreement.decorrelate(np.append(zc, [0, 0]), np.append(ze, [-1, -1]))
    assert kept.tolist() == list(range(80))
    with pytest.raises(UserError, match="no row has both"):
        agreement.decorrelate([0, 1], [-1, -1])
    with pytest.raises(UserError, match="same length"):
        agreement.decorrelate([0, 1], [1])


# natural text


@pytest.mark.parametrize(
    "words, number",
    [
        ("the key to the cabinets", 1),
        ("the keys to the old wooden cabinet", 0),
        ("many people from large cities", 1),
        ("the roofs of the children 's house", 0),
        ("the mothers of the men", 1),
        ("the class of the boys", 1),
        ("the door of the class", 0),
        ("the cabinets", -1),
        ("in london prices", -1),
        ("however , in the city", -1),
        ("the man who saw the dogs", -1),
        ("the city and the king of spain and france", -1),
        ("the men of the city often", -1),
        ("they want to love", -1),
        ("the start of the series", -1),
        ("the men with the dogs rapidly", -1),
    ],
)
def test_object_number(words, number):
    assert agreement_files.object_number(words.split()) == number


def _lgd_file(folder) -> None:
    rows = [  # sentence, tags, verb, its tag, subject index, verb index (from 1)
        ("The keys to the cabinet are here .", "DT NNS TO DT NN VBP RB .", "are", "VBP", 2, 6),
        ("In 1990 the city of kings is new .", "IN CD DT NN IN NNS VBZ JJ .", "is", "VBZ", 4, 7),
        ("In the city the houses stand .", "IN DT NN DT NNS VBP .", "stand", "VBP", 5, 6),
        ("A house stands .", "DT NN VBZ .", "stands", "VBZ", 2, 3),
        ("A man whose plural is unseen walks .", "DT NN WP$ JJ VBZ JJ VBZ .", "walks", "VBZ", 2, 7),
        ("I am here .", "PRP VBP RB .", "am", "VBP", 1, 2),
    ]
    folder.mkdir()
    with gzip.open(folder / "agr_50_mostcommon_10K.tsv.gz", "wt", newline="") as f:
        out = csv.writer(f, delimiter="\t")
        out.writerow(
            [
                "sentence",
                "orig_sentence",
                "pos_sentence",
                "verb",
                "verb_pos",
                "subj_index",
                "verb_index",
                "n_intervening",
            ]
        )
        out.writerows(["_", *row, 0] for row in rows)


def test_full_corpus_format(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_DATA", str(tmp_path))
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    _lgd_file(tmp_path / "agreement")
    rows = agreement.load("lgd").to_dict("records")
    assert [(row["verb"], row["other_verb"], row["zc"], row["ze"]) for row in rows] == [
        ("are", "is", 1, 0),
        ("is", "are", 0, 1),
        ("stand", "stands", 1, -1),
        ("stands", "stand", 0, -1),
    ]
    assert rows[0]["text"] == "The keys to the cabinet [MASK] here ."
    assert rows[0]["subject_flipped"] == ""


class _Tokenizer:
    """Knows three words; any other has two tokens."""

    unk_token_id = None

    def __call__(self, texts, add_special_tokens=False):
        words = {"a": [0], "is": [1], "are": [2]}
        return {
            "input_ids": [
                [i for word in text.split() for i in words.get(word, [3, 4])] for text in texts
            ]
        }


@real
def test_linzen_sentences():
    table = agreement.load("linzen")
    assert len(table) == 7_489 - 4  # four verb indices miss
    assert all(text.count("[MASK]") == 1 and "<eos>" not in text for text in table["text"])
    s_form = [
        verb.endswith("s") and not other.endswith("s")
        for verb, other in zip(table["verb"], table["other_verb"])
    ]
    # pass/passes and four broken lines
    assert np.mean(np.array(s_form) == (np.array(table["zc"]) == 0)) > 0.998
    few = agreement.load("linzen", n=20, seed=1, tokenizer=_Tokenizer())
    assert len(few) == 20
    assert set(few["verb"]) | set(few["other_verb"]) == {"is", "are"}


@real
def test_prepositional_objects_of_linzen_sentences_match_the_gold_attractors():
    """Without an intervening noun of the other number, an object right before the verb has the
    subject's number."""
    from probebook.corpora.fetch import fetch

    text, gold = (
        fetch(f"linzen_testset.{name}").read_text(encoding="utf-8").splitlines()
        for name in ("text", "gold")
    )
    words, gold = [line.split(" ") for line in text], [line.split("\t") for line in gold]
    found = [
        (int(attractors), agreement_files.object_number(w[: int(i)]), int(not right.endswith("s")))
        for w, (i, right, _, attractors) in zip(words, gold)
        if w[int(i)] == right
    ]
    same = {
        some: [ze == zc for n, ze, zc in found if ze >= 0 and (n > 0) == some]
        for some in (False, True)
    }
    assert len(same[True]) > 2_500
    assert np.mean(same[True]) < 0.02
    assert len(same[False]) < 50
    assert np.mean(same[False]) > 0.6  # few: "of the united states [MASK]" is among them


@real
def test_masked_sentences_and_crossed_templates():
    masked = agreement.load("lgd_masked")
    assert len(masked) == 6_062
    assert all(text.count("[MASK]") == 1 for text in masked["text"])
    crossed = agreement.load("syneval")
    counts = Counter(zip(crossed["zc"], crossed["ze"]))
    assert counts == {cell: 5_460 for cell in itertools.product((0, 1), (0, 1))}
    texts = set(crossed["text"])
    assert set(crossed["subject_flipped"]) <= texts
    assert set(crossed["attractor_flipped"]) <= texts
    assert _nouns(crossed) <= set(TEMPLATE_NOUNS)
    parts = agreement.split(crossed)
    share = {name: len(index) / len(crossed) for name, index in parts.items()}
    assert 0.3 < sum(share.values()) < 0.4
    assert 0.04 < share["test"] < 0.1
    oracle, intervention, test = (_nouns(crossed.iloc[parts[name]]) for name in agreement.GROUPS)
    assert not oracle & intervention
    assert not oracle & test
    assert not intervention & test


@real
def test_english_paragraphs():
    first = list(itertools.islice(english.paragraphs([3]), 1_000))
    assert len(first) == 1_000
    assert all(paragraph and "\n" not in paragraph for paragraph in first)
    assert len(" ".join(first).split()) > 20_000


class _NoVerbs:
    unk_token_id = 9

    def __call__(self, texts, add_special_tokens=False):
        return {"input_ids": [[9] * len(text.split()) for text in texts]}


@pytest.mark.parametrize(
    "call, says",
    [
        (
            lambda: agreement.load("wikipedia"),
            "expected generated, linzen, lgd_masked, natural, syneval, lgd, prose, addresses",
        ),
        (lambda: agreement.load("linzen", n=0), "at least 1"),
        (lambda: agreement.load("syneval"), "syneval_prepositional.tsv is not at hand"),
        (
            lambda: agreement.load("generated", n=50, tokenizer=_NoVerbs()),
            "both verb forms single tokens of the model's",
        ),
        (lambda: list(english.paragraphs([8])), "0 to 7"),
    ],
)
def test_loaders_refuse(call, says, tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_DATA", str(tmp_path))
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=says) as e:
        call()
    assert "\n" not in str(e.value)
