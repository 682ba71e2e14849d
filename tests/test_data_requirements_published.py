"""Tables 2 to 8 of Zhu et al. (2022): a second transcription, and every printed N from whole
numbers of test items."""

import numpy as np
import pytest

from probebook.corpora.published import published
from probebook.measures.sample_size import recommend

pytestmark = pytest.mark.library

SEEDS = 5  # a mean difference is k / (5 × test items)
WIDTH = {"InferSent": 4096}  # else BERT's 768; N is that of the wider configuration
TABLES = {  # typed anew: task, configurations, test items, Δ in units of its last digit, N
    2: (
        "bigram_shift",
        "BERT",
        "corrupted BERT",
        "64 256 1024 4096 16384",
        1e-4,
        "1313 1281 879 1331 1488",
        "22263 23362 49647 21662 17331",
    ),
    3: (
        "past_present",
        "BERT",
        "GloVe",
        "64 256 1024 4096 16384",
        1e-4,
        "344 492 355 91 320",
        "324563 158315 303516 4600037 373513",
    ),
    4: (
        "bigram_shift",
        "LogReg",
        "MLP",
        "64 256 1024 4096 16384",
        1e-3,
        "22 18 7 12 13",
        "801472 1187812 7757460 2912787 2444949",
    ),
    5: (
        "sentence_length",
        "BERT",
        "InferSent",
        "192 768 3072 12288",
        1e-3,
        "65 128 178 196",
        "95156 24375 12481 10285",
    ),
    6: (
        "coordination_inversion",
        "BERT",
        "InferSent",
        "64 256 1024 4096 16384",
        1e-3,
        "25 19 41 51 63",
        "635040 1128961 231499 151861 100153",
    ),
    7: (
        "sentence_length",
        "LogReg",
        "MLP",
        "192 768 3072 12288",
        1e-3,
        "49 30 29 25",
        "40001 105979 114746 148437",
    ),
}
TYPO = (4, 256, 1_187_812, 1_187_815)  # table, test items, printed, computed
# table, test items, printed Δ, k: 235/20,480 = .01147…, twice rounded
ROUNDED = (4, 4096, 0.012, 235)
HALVED = 7  # prints ε = Δ/2


def follow(test_items: int, delta: float, unit: float, width: int, n: int) -> list[int]:
    """Whole numbers of items k, k / (5 × test items) rounding to `delta`, from which `recommend`
    gives n."""
    answers = SEEDS * test_items
    near = range(max(1, int((delta - unit) * answers)), int((delta + unit) * answers) + 2)
    return [
        k
        for k in near
        if abs(k / answers - delta) <= unit / 2 + 1e-9 and recommend(k / answers, width) == n
    ]


@pytest.mark.parametrize("number", TABLES)
def test_both_transcriptions_say_the_same(number):
    table = published(f"data_requirements_table{number}")
    task, a, b, sizes, unit, deltas, ns = TABLES[number]
    assert (table[["task", "config_a", "config_b"]] == [task, a, b]).all(axis=None)
    assert list(table.test_items) == [int(size) for size in sizes.split()]
    np.testing.assert_allclose(
        table.delta, [int(delta) * unit for delta in deltas.split()], atol=1e-12
    )
    assert list(table.recommended) == [int(n) for n in ns.split()]
    assert table.source.str.startswith(f"Zhu et al., table {number}").all()


@pytest.mark.parametrize("number", TABLES)
def test_every_printed_number_follows_from_a_whole_number_of_test_items(number):
    unit, scale = TABLES[number][4], 2 if number == HALVED else 1
    for row in published(f"data_requirements_table{number}").itertuples():
        width = max(WIDTH.get(name, 768) for name in (row.config_a, row.config_b))
        exactly = [row.test_items, scale * row.delta, scale * unit, width]
        if (number, row.test_items, row.recommended) == TYPO[:3]:
            assert not follow(*exactly, row.recommended)
            assert len(follow(*exactly, TYPO[3])) == 1
        elif (number, row.test_items, row.delta) == ROUNDED[:3]:
            assert not follow(*exactly, row.recommended)
            assert recommend(ROUNDED[3] / (SEEDS * row.test_items), width) == row.recommended
            assert round(round(ROUNDED[3] / (SEEDS * row.test_items), 4) + 1e-9, 3) == row.delta
        else:
            assert len(follow(*exactly, row.recommended)) == 1


def test_the_halved_table_does_not_follow_as_printed():
    for row in published(f"data_requirements_table{HALVED}").itertuples():
        assert not follow(row.test_items, row.delta, 1e-3, 768, row.recommended)


def test_table_8():
    table = published("data_requirements_table8")
    assert len(table) == 65
    assert not table.duplicated(["suite", "task", "part"]).any()
    sums = table.groupby("suite").agg(tasks=("task", "nunique"), items=("items", "sum"))
    assert sums.tasks.to_dict() == {
        "SentEval": 8,
        "UD part-of-speech": 6,
        "BLiMP": 7,
        "oLMpics": 8,
        "LAMA": 8,
        "CAT": 8,
    }
    assert sums["items"].to_dict() == {
        "SentEval": 8 * 120_000,
        "UD part-of-speech": 121_000 + 102_000 + 160_000 + 3_927 + 98_000 + 59_000,
        "BLiMP": 2_000 + 9_000 + 7_000 + 2_000 + 8_000 + 7_000 + 6_000,
        "oLMpics": 1_004
        + 4_032
        + 5_000
        + 4_779
        + 4_000
        + 5_310
        + 5_317
        + 5_000
        + 280
        + 5 * 500
        + 483
        + 599,
        "LAMA": 1_937 + 1_825 + 765 + 5_527 + 20_006 + 13_096 + 11_458 + 305,
        "CAT": 183 + 283 + 1_877 + 2_021 + 1_001 + 1_000 + 444 + 888,
    }
    classes = table.drop_duplicates(["suite", "task"]).set_index("task").classes
    wanted = {
        "word_content": 1000,
        "Basque": 16,
        "English": 17,
        "Finnish": 18,
        "Russian": 16,
        "Turkish": 15,
        "Marathi": 16,
        "Always-Never": 5,
        "Multi-Hop Composition": 3,
        "ellipsis": 2,
        "tree_depth": 7,
    }
    assert classes[list(wanted)].to_dict() == wanted
    assert classes[table[table.suite.isin(["LAMA", "CAT"])].task].isna().all()
    assert classes.isna().sum() == 16
    parts = table.pivot(index=["suite", "task"], columns="part", values="items")
    assert parts.loc[("UD part-of-speech", "Marathi"), ["train", "dev", "test"]].tolist() == [
        3_000,
        479,
        448,
    ]
    assert parts.loc[("oLMpics", "Always-Never"), ["train", "test"]].tolist() == [1_004, 280]


def test_the_counts_of_the_text():
    text = published("data_requirements_text").set_index("quantity").value
    assert sorted(text) == [12_000, 120_000]


def test_the_counts_of_the_released_table():
    """They fit together; where the file is at hand, the pages count again and compare."""
    table = published("data_requirements_released")
    count = table.set_index("quantity").value
    assert list(table) == ["quantity", "value", "source"] and (count > 0).all()
    assert count.iloc[1] <= count.iloc[0] and count.iloc[3] <= count.iloc[2]
    assert (count.iloc[7:] <= count["comparisons"]).all()
