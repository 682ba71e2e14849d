"""CEBaB: loading, edit pairs as published and corrected, ICaCE pairs; a small file with its quirks,
and the real."""

import itertools
import json
import os
import zipfile

import datasets
import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.corpora import cebab
from probebook.corpora.published import published
from probebook.measures.concept_effects import ate
from probebook_chapters.concept_effects import double_edits, edit_distance, self_validated

pytestmark = pytest.mark.library

real = pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ, reason="needs real data: set PROBEBOOK_DATA"
)
CELLS = [("Negative", "Positive"), ("Negative", "unknown"), ("Positive", "unknown")]


def _row(
    number: int, stars: str, aspect: str | None = None, goal: str | None = None, **labels: str
) -> dict:
    """A review of group 0 with numbers as in version 1.0; `labels`: what readers say of the
    aspects, else ""."""
    return {
        "id": f"000000_{number:06d}",
        "original_id": "000000",
        "is_original": aspect is None,
        "edit_type": aspect,
        "edit_goal": goal,
        "description": f"text {number}",
        "review_majority": stars,
        **{f"{name}_aspect_majority": labels.get(name, "") for name in cebab.ASPECTS},
    }


# every split has a group 0; a review without majority, a label that no reader gave, an edit that
# missed its goal, an
SMALL = {
    # original with an edit type, as in train_observational
    "train_inclusive": [
        _row(0, "4", food="Positive", ambiance="no majority"),
        _row(1, "2", "food", "Negative", food="Negative"),
        _row(2, "no majority", "food", "unknown", food="unknown"),
        _row(3, "5", "service", "Positive", food="Positive", service="Positive"),
        _row(4, "1", "ambiance", "Negative", ambiance="no majority"),
    ],
    "train_exclusive": [_row(1, "2", "food", "Negative", food="Negative")],
    "dev": [
        _row(0, "1", food="Negative", service="unknown")
        | {"edit_type": "food", "edit_goal": "Negative"},
        _row(1, "5", "food", "Positive", food="Positive"),
        _row(2, "3", "service", "Negative", food="Negative", service="Negative"),
    ],
    "test": [
        _row(0, "3", food="unknown"),
        _row(1, "3", "food", "Positive", food="unknown"),
        _row(2, "1", "food", "Negative", food="Negative"),
    ],
}


def _write(folder, splits: dict) -> None:
    folder.mkdir()
    for name, rows in splits.items():
        (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")


def _pack(path, splits: dict, inside: str = "") -> None:
    """A zip as released: a folder in it or not, and what another system leaves behind."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in splits.items():
            archive.writestr(f"{inside}{name}.json", json.dumps(rows))
            archive.writestr(f"__MACOSX/{inside}._{name}.json", b"\x00\x05\x16")


@pytest.fixture
def small(tmp_path):
    _write(tmp_path / "small", SMALL)
    return cebab.load(tmp_path / "small")


def _counts(pairs: pd.DataFrame) -> dict:
    return pairs.groupby(["concept", "source", "target"]).size().to_dict()


def _by_hand(table: pd.DataFrame, groups: list, originals: bool) -> set:
    """Unordered pairs of row numbers with their aspect: two loops over the rows."""
    rows = [
        row
        for row in enumerate(table.to_dict("records"))
        if row[1]["split"] not in ("train_exclusive", "train_observational")
    ]
    pairs = set()
    for (i, a), (j, b) in itertools.combinations(rows, 2):
        for aspect in cebab.ASPECTS if groups[i] == groups[j] else []:
            labels = {side[f"{aspect}_aspect_majority"] for side in (a, b)}
            fits = all(
                originals if side["is_original"] else side["edit_type"] == aspect for side in (a, b)
            )
            if fits and len(labels) == 2 and labels <= set(cebab.VALUES):
                pairs.add((aspect, i, j))
    return pairs


# a small file with the quirks of the released one


def test_small_file_keeps_its_columns_and_all_splits(small):
    assert small.split.value_counts().to_dict() == {name: len(rows) for name, rows in SMALL.items()}
    assert list(small.columns) == [*SMALL["dev"][0], "split"]
    assert small.original_id.tolist() == ["000000"] * len(small)  # not a number


def test_small_file_corrected(small):
    pairs = cebab.edit_pairs(small)
    assert _counts(pairs) == {("food", "Negative", "unknown"): 2}
    assert pairs.source_stars.tolist() == [2, 1]
    assert pairs.target_stars.tolist()[1] == 3
    assert np.isnan(pairs.target_stars[0])
    assert (pairs.source_split == pairs.target_split).all()


def test_small_file_as_published_joins_unrelated_reviews(small):
    pairs = cebab.edit_pairs(small, ids="as_published")
    assert _counts(pairs) == {
        ("food", "Negative", "Positive"): 2,
        ("food", "Negative", "unknown"): 4,
        ("food", "Positive", "unknown"): 2,
        ("service", "Negative", "Positive"): 1,
    }
    assert (pairs.source_split != pairs.target_split).sum() == 7
    effects = ate(pairs).set_index(["concept", "source", "target"])[["effect", "n"]]
    assert effects.T.to_dict("list") == {  # 2→3, 1→3; NaN
        ("food", "Negative", "Positive"): [3.5, 2],
        ("food", "Negative", "unknown"): [1.5, 2],
        ("food", "Positive", "unknown"): [-2, 1],
        ("service", "Negative", "Positive"): [2, 1],
    }


def test_small_file_with_originals(small):
    assert _counts(cebab.edit_pairs(small, originals=True)) == {
        ("food", "Negative", "Positive"): 2,
        ("food", "Negative", "unknown"): 3,
        ("food", "Positive", "unknown"): 1,
        ("service", "Negative", "unknown"): 1,
    }


@pytest.mark.parametrize(
    "split, task, n",
    [
        ("test", "5-way", 4),
        ("dev", "5-way", 4),
        ("dev", "binary", 2),
        ("train_inclusive", "5-way", 2),
    ],
)
def test_small_file_icace_pairs(small, split, task, n):
    """Both directions of every pair; in train the review without majority drops out."""
    pairs = cebab.icace_pairs(small, split, task)
    ways = ["source_row", "target_row"]
    there, back = (set(pairs[way].itertuples(index=False, name=None)) for way in (ways, ways[::-1]))
    assert len(pairs) == len(there) == n
    assert there == back
    for side in ("source", "target"):
        at = small.iloc[pairs[f"{side}_row"]]
        assert (at.id.array == pairs[f"{side}_id"]).all()
        assert (at.split == split).all()
        labels = [
            row[f"{aspect}_aspect_majority"]
            for aspect, (_, row) in zip(pairs.concept, at.iterrows())
        ]
        assert labels == pairs[side].tolist()


@pytest.mark.parametrize("originals", [False, True])
def test_pairs_are_those_of_two_loops(small, originals):
    table = small.iloc[::-1].reset_index(drop=True)  # any order of rows
    for ids, groups in (("corrected", table.split.tolist()), ("as_published", [0] * len(table))):
        pairs = cebab.edit_pairs(table, ids, originals)
        rows = pairs[["concept", "source_row", "target_row"]].itertuples(index=False)
        found = [(concept, *sorted(row)) for concept, *row in rows]
        assert set(found) == _by_hand(table, groups, originals)
        assert len(found) == len(set(found))


def test_zips_as_released(tmp_path, small):
    for name, inside in (("flat", ""), ("nested", "CEBaB-v1.1/")):
        _pack(tmp_path / f"{name}.zip", SMALL, inside)
        pd.testing.assert_frame_equal(cebab.load(tmp_path / f"{name}.zip"), small)


def test_data_set_of_the_hub(monkeypatch, small):
    parts = {
        "validation" if name == "dev" else name: datasets.Dataset.from_list(rows)
        for name, rows in SMALL.items()
    }
    asked = []
    monkeypatch.setattr(
        datasets, "load_dataset", lambda name: asked.append(name) or datasets.DatasetDict(parts)
    )
    table = cebab.load("CEBaB/CEBaB")
    assert asked == ["CEBaB/CEBaB"]
    pd.testing.assert_frame_equal(
        cebab.edit_pairs(table, originals=True), cebab.edit_pairs(small, originals=True)
    )


def test_classes():
    stars = ["1", "2", "3", "4", "5", "no majority", ""]
    for task, wanted in (
        ("binary", [0, 0, None, 1, 1]),
        ("ternary", [0, 0, 1, 2, 2]),
        ("5-way", [0, 1, 2, 3, 4]),
    ):
        np.testing.assert_array_equal(
            cebab.classes(stars, task), np.array([*wanted, None, None], float)
        )
    np.testing.assert_array_equal(cebab.classes([5.0, np.nan, 0, 7]), [4, np.nan, np.nan, np.nan])


# bad input


def _changed(split: str = "dev", row: int = 1, **fields) -> dict:
    return {
        **SMALL,
        split: [{**r, **fields} if i == row else r for i, r in enumerate(SMALL[split])],
    }


@pytest.mark.parametrize(
    "splits, says",
    [
        (
            {"dev": [{k: v for k, v in r.items() if k != "edit_type"} for r in SMALL["dev"]]},
            "no column edit_type",
        ),
        (
            _changed(food_aspect_majority="positive"),
            "food_aspect_majority 'positive': one of Negative, Positive, unknown",
        ),
        (_changed(edit_type="price"), "edit_type 'price': one of food, service, ambiance, noise"),
        (_changed(review_majority="6"), "review_majority '6': one of 1, 2, 3, 4, 5, no majority"),
        (_changed(id="000000_000000"), "id 000000_000000 is twice in dev"),
        ({"reviews": SMALL["dev"]}, "none of CEBaB's files in it: train_inclusive.json, "),
        ({"dev": {"text": "one"}}, "a JSON list of reviews"),
    ],
)
def test_bad_files_are_refused(tmp_path, splits, says):
    _write(tmp_path / "bad", splits)
    with pytest.raises(UserError, match=says) as e:
        cebab.load(tmp_path / "bad")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda table: cebab.edit_pairs(table, ids="fixed"), "expected corrected, as_published"),
        (
            lambda table: cebab.edit_pairs(table[table.split == "dev"]),
            "no pair: no two reviews of a group",
        ),
        (lambda table: cebab.edit_pairs(table.drop(columns="split")), "no column split"),
        (
            lambda table: cebab.icace_pairs(table, "validation"),
            "'validation' is not a valid split: expected train_inclusive",
        ),
        (lambda table: cebab.icace_pairs(table, "train_exclusive"), "no pair"),
        (
            lambda table: cebab.icace_pairs(table, "test", "binary"),
            "both have a class in the binary task",
        ),
        (
            lambda table: cebab.icace_pairs(table, "test", "4-way"),
            "'4-way' is not a valid task: expected binary, ternary, 5-way",
        ),
        (lambda table: cebab.load("1.2"), "neither a zip nor a folder: '1.1', '1.0'"),
        (
            lambda table: cebab.load("CEBaB/CEBaB"),
            r"cannot be had from the hub \(.*load\('1.1'\) has the same rows",
        ),
        (lambda table: cebab.load(__file__), "neither a zip nor a folder"),
    ],
)
def test_bad_calls_are_refused(small, call, says):
    with pytest.raises(UserError, match=says) as e:
        call(small)
    assert "\n" not in str(e.value)


# the released data


@pytest.fixture(scope="module", params=["1.1", "1.0"])
def released(request):
    return cebab.load(request.param)


@real
def test_labels_of_table_3(released):
    everything = released[released.split.isin(["train_inclusive", "dev", "test"])]
    assert len(everything) == 15_090
    for row in published("concept_effects_table3a").query("value != 'total'").itertuples():
        assert (everything[f"{row.concept}_aspect_majority"] == row.value).sum() == row.reviews
    stars = everything.review_majority.value_counts().to_dict()
    printed = published("concept_effects_table3b").set_index("stars").reviews.to_dict()
    difference = {key: n - printed[key] for key, n in stars.items()}
    assert difference == dict.fromkeys("12345", 0) | {"no majority": 1}


@real
def test_published_pairs_and_effects_in_all_36_cells(released):
    pairs = cebab.edit_pairs(released, ids="as_published")
    assert len(pairs) == 9_768
    assert (pairs.source_split != pairs.target_split).sum() == 3_923
    keys = ["concept", "from_value", "to_value"]
    counts, effects, binary = (
        published(f"concept_effects_table{n}").set_index(keys) for n in ("3c", "3d", "7")
    )
    assert len(counts) == len(effects) == len(binary) == 12
    assert _counts(pairs) == counts.pairs.to_dict()
    for wanted, task in ((effects, "5-way"), (binary, "binary")):
        found = ate(pairs, task).set_index(["concept", "source", "target"]).effect
        assert found.round(2).to_dict() == wanted.effect.to_dict()


@real
@pytest.mark.parametrize(
    "originals, n, counts, effects",
    [
        (
            False,
            5_845,
            [[450, 709, 746], [514, 503, 554], [657, 357, 251], [834, 99, 171]],
            [[2.01, 1.63, -1.33], [1.15, 1.25, -0.79], [0.97, 1.01, -0.81], [0.71, 0.68, -0.50]],
        ),
        (
            True,
            17_408,
            [[2190, 1649, 1706], [1615, 1517, 1505], [1190, 1295, 1295], [1052, 1324, 1070]],
            [[1.91, 0.93, -0.83], [1.32, 0.74, -0.44], [1.06, 0.64, -0.40], [0.75, 0.46, -0.26]],
        ),
    ],
)
def test_corrected_pairs(released, originals, n, counts, effects):
    pairs = cebab.edit_pairs(released, originals=originals)
    assert len(pairs) == n
    assert (pairs.source_split == pairs.target_split).all()
    cells = [(aspect, *cell) for aspect in cebab.ASPECTS for cell in CELLS]
    assert _counts(pairs) == dict(zip(cells, np.ravel(counts)))
    found = ate(pairs).set_index(["concept", "source", "target"]).effect.round(2)
    assert found.to_dict() == dict(zip(cells, np.ravel(effects)))


@real
@pytest.mark.parametrize(
    "split, task, n",
    [
        ("dev", "5-way", 3_898),
        ("test", "5-way", 3_958),
        ("dev", "binary", 2_274),
        ("test", "binary", 2_294),
    ],
)
def test_released_icace_pairs(released, split, task, n):
    pairs = cebab.icace_pairs(released, split, task)
    assert len(pairs) == n
    rows = released.iloc[pairs.source_row]
    assert (rows.id.array == pairs.source_id).all()
    assert (rows.split == split).all()


@real
def test_released_pairs_are_those_of_two_loops(released):
    dev = released[released.split == "dev"].reset_index(drop=True)
    pairs = cebab.edit_pairs(dev, originals=True)
    rows = pairs[["concept", "source_row", "target_row"]].itertuples(index=False)
    found = {(concept, *sorted(row)) for concept, *row in rows}
    assert found == _by_hand(dev, dev.original_id.tolist(), True)


@real
def test_versions_have_the_same_reviews():
    new, old = cebab.load("1.1"), cebab.load("1.0")
    new = new[new.split != "train_observational"].reset_index(drop=True)
    for name in ("split", "edit_id", "description", "review_majority"):
        assert new[name].tolist() == old[name].tolist()
    first = {"train_inclusive": 0, "train_exclusive": 0, "dev": 1_755, "test": 2_027}
    assert (new.original_id.astype(int) - old.original_id.astype(int) == new.split.map(first)).all()


# edits made twice, and what editors rewrite


def test_double_edits_share_review_aspect_and_goal():
    rows = [
        _row(0, "3"),
        _row(1, "5", "food", "Positive", food="Positive"),
        _row(2, "4", "food", "Positive", food="Positive"),
        _row(3, "1", "food", "Negative"),
        _row(4, "no majority", "service", "Positive"),
        _row(5, "2", "service", "Positive"),
    ]
    table = pd.DataFrame(rows).assign(split="dev")
    copied = table.assign(split="train_exclusive")  # a part of train: counts only once
    found = double_edits(pd.concat([table, copied], ignore_index=True))
    assert found[["concept", "goal", "first_row", "second_row"]].to_numpy().tolist() == [
        ["food", "Positive", 1, 2],
        ["service", "Positive", 4, 5],
    ]
    np.testing.assert_equal(found.second_stars.to_numpy(), [4, 2])
    np.testing.assert_equal(found.first_stars.to_numpy(), [5, np.nan])
    assert double_edits(table.iloc[:2]).empty


@real
def test_published_double_edits():
    found = double_edits(cebab.load("1.1"))
    said = published("concept_effects_text").set_index("quantity").value
    both = found.first_stars.notna() & found.second_stars.notna()
    assert (len(found), both.sum()) == (said["double edits"], said["double edits, 5-way"])


def test_editors_who_read_their_own_edits_are_counted_by_question():
    votes = {
        "review_workers": [dict(zip("abcde", "11122")), {}, dict(zip("abcde", "55432"))],
        "food_aspect_validation_workers": [
            dict(zip("abcde", ["Positive"] * 4 + ["unknown"])),
            dict(zip("abcde", ["Positive"] * 3 + ["unknown"] * 2)),
            "",  # no reader was asked
        ],
    }
    rows = [
        _row(1, "1", "food", "Positive", food="Positive") | {"edit_worker": "a"},
        _row(2, "3", "service", "Positive") | {"edit_worker": "b"},
        _row(3, "5", "food", "Positive") | {"edit_worker": "f"},  # no reader
    ]
    table = pd.DataFrame(rows).assign(split="test", **votes)
    for aspect in cebab.ASPECTS[1:]:
        table[f"{aspect}_aspect_validation_workers"] = ""
    copied = table.assign(split="train_exclusive")  # a part of train: counts only once
    found = self_validated(pd.concat([table, copied], ignore_index=True))
    assert found.to_numpy().tolist() == [
        [0, "review", False, "1", "no majority"],
        [0, "food", True, "Positive", "Positive"],
        [1, "food", False, "Positive", "no majority"],
    ]


@real
def test_published_numbers_of_workers():
    """As printed, but for the majorities: 50 in place of 24 fall below three labels."""
    table = cebab.load("1.1")
    said = published("concept_effects_text").set_index("quantity").value
    own = self_validated(table)
    own = own[own.edited]
    assert len(own) == said["edits whose editor read the edited aspect"]
    lost = own[own.before != own.after]
    assert len(lost) == 50 != said["of these, without a majority then"]
    assert set(lost.after) == {"no majority"}


@real
def test_published_table_5():
    table = cebab.load("1.1")
    originals = table[table.is_original.astype(bool) & ~table.split.isin(cebab.PARTS_OF_TRAIN)]
    known = pd.DataFrame(list(originals.opentable_metadata)).astype(str)
    printed = published("concept_effects_table5").set_index(["kind", "of"]).reviews
    for (kind, of), n in printed.items():
        column = known["rating_overall" if kind == "stars" else kind]
        assert (column == str(of)).sum() == n


def _distance(a: str, b: str) -> int:
    """Levenshtein's recursion, a row at a time."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y)))
        row = new
    return row[-1]


def test_an_edit_distance_is_the_recursions():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice([*"abé"], n)) for n in rng.integers(0, 80, 60)]
    for a, b in itertools.pairwise(words):
        assert edit_distance(a, b) == _distance(a, b) == edit_distance(b, a)
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3
