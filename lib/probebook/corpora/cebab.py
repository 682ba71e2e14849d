"""CEBaB: restaurant reviews, human edits of one aspect, and the pairs that effects are measured on.

Abraham et al., § 5. A table has one row per review, the file's own columns and `split` (the file's
name). Some of the columns:

- `id`, `original_id` (the review that an edit comes from), `is_original`
- `edit_type` (the edited aspect), `edit_goal` (its new value)
- `description`: the text
- `review_majority`, and four `<aspect>_aspect_majority`: the label that at least 3 of 5 readers
  gave; "no majority" if there is none, "" if no reader was asked
- the readers' votes and the restaurant's data
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from probebook.base import UserError, check_choice
from probebook.corpora.fetch import fetch

ASPECTS = ["food", "service", "ambiance", "noise"]
VALUES = ["Negative", "Positive", "unknown"]  # the order in a pair, as in Table 3
SPLITS = ["train_inclusive", "train_exclusive", "train_observational", "dev", "test"]
PARTS_OF_TRAIN = SPLITS[1:3]  # their rows are in train_inclusive as well
TASKS: dict[str, list[float]] = {
    "binary": [0, 0, np.nan, 1, 1],
    "ternary": [0, 0, 1, 2, 2],
    "5-way": [0, 1, 2, 3, 4],
}  # stars → class
HUB = "CEBaB/CEBaB"
_LABELS = [f"{aspect}_aspect_majority" for aspect in ASPECTS]
_ALLOWED = {
    "edit_type": ASPECTS,
    "edit_goal": VALUES,
    "review_majority": [*"12345", "no majority"],
    **{label: [*VALUES, "no majority"] for label in _LABELS},
}  # and "" or nothing
_NEEDED = ["id", "original_id", "is_original", "description", *_ALLOWED]


def load(source: str | Path = "1.1") -> pd.DataFrame:
    """All splits of CEBaB in one table.

    `source`: version "1.1" or "1.0", a zip or folder with its JSON files, or "CEBaB/CEBaB" of the
    hub. Version 1.0 has the texts and labels of 1.1, but its ids start again in each split.
    UserError where a column is missing, a label is unknown or an id occurs twice in a split.
    """
    if str(source) == HUB:
        tables = _from_hub()
    elif source in ("1.0", "1.1"):
        tables = _from_files(fetch(f"CEBaB-v{source}.zip"))
    else:
        tables = _from_files(Path(source))
    if not tables:
        files = ", ".join(f"{name}.json" for name in SPLITS)
        raise UserError(f"{source}: none of CEBaB's files in it: {files}")
    parts = [tables[name].assign(split=name) for name in SPLITS if name in tables]
    table = pd.concat(parts, ignore_index=True)
    _check(table, str(source))
    return table


def _from_files(path: Path) -> dict[str, pd.DataFrame]:
    """split → rows of the JSON files named after the splits."""
    if path.is_dir():
        texts = {p.stem: p.read_bytes() for p in path.glob("*.json") if p.stem in SPLITS}
    elif path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            texts = {
                Path(name).stem: archive.read(name)
                for name in archive.namelist()
                if name.endswith(".json") and Path(name).stem in SPLITS
            }
    else:
        raise UserError(
            f"{path}: neither a zip nor a folder: '1.1', '1.0', '{HUB}', or a path to CEBaB's files"
        )
    try:
        return {name: pd.DataFrame(json.loads(text)) for name, text in texts.items()}
    except ValueError as e:
        raise UserError(f"{path}: not CEBaB's format, a JSON list of reviews ({e})") from None


def _from_hub() -> dict[str, pd.DataFrame]:
    """split → rows of the Hugging Face data set, whose "validation" is dev."""
    import datasets

    try:
        found = datasets.load_dataset(HUB)
    except (OSError, datasets.exceptions.DatasetsError) as e:
        reason = str(e).partition("\n")[0]
        raise UserError(
            f"{HUB} cannot be had from the hub ({reason}): load('1.1') has the same rows"
        ) from None
    return {
        "dev" if name == "validation" else name: part.to_pandas() for name, part in found.items()
    }


def _check(table: pd.DataFrame, where: str = "the table") -> None:
    """UserError unless the columns of pairs are there, with known labels, and no id twice in a
    split."""
    if missing := [name for name in [*_NEEDED, "split"] if name not in table]:
        raise UserError(f"{where} has no column {', '.join(missing)}: CEBaB's columns are needed")
    for name, allowed in _ALLOWED.items():
        values = table[name].replace("", None).dropna().unique()
        if unknown := [value for value in values if value not in allowed]:
            raise UserError(f'{where}: {name} {unknown[0]!r}: one of {", ".join(allowed)}, or ""')
    twice = table[table.duplicated(["split", "id"])]
    if len(twice):
        first = twice.iloc[0]
        raise UserError(
            f"{where}: id {first.id} is twice in {first['split']}: one row for each review"
        )


def classes(stars: ArrayLike, task: str = "5-way") -> np.ndarray:
    """Class of a review with 1 … 5 stars in a task, float [n] (§ C.3).

    NaN: no majority, or 3 stars in "binary". UserError for another task.
    """
    by_stars = dict(enumerate(TASKS[check_choice(task, "task", TASKS)], 1))
    return pd.to_numeric(pd.Series(stars), errors="coerce").map(by_stars).to_numpy(float)


def edit_pairs(
    table: pd.DataFrame, ids: str = "corrected", originals: bool = False
) -> pd.DataFrame:
    """Unordered pairs of reviews of one group that were edited in one aspect (Table 3 (c)).

    The two differ in the label of that aspect. `originals`: the unedited reviews take part too, as
    § 5 says. `ids`: in "corrected" a group is an original and its edits; in "as_published"
    originals are numbered from 0 in each split, as in version 1.0, and groups of one number are
    joined. That, without originals, gives Tables 3 (c), 3 (d) and 7. The parts of the inclusive
    train split are left out. UserError if there is no pair.

    Columns: concept; source, target (labels, in the order of VALUES); source_stars, target_stars
    (NaN: no majority); source_id, target_id; source_split, target_split; source_row, target_row
    (positions in `table`); group (an int).
    """
    check_choice(ids, "kind of ids", ("corrected", "as_published"))
    _check(table)
    if ids == "corrected":
        group = table.groupby(["split", "original_id"]).ngroup()
    else:
        by_split = table.groupby("split").original_id
        group = by_split.transform(lambda x: pd.factorize(x, sort=True)[0])
    stars = pd.to_numeric(table.review_majority, errors="coerce")
    rows = pd.DataFrame(
        {
            "group": group.array,
            "_stars": stars.array,
            "_id": table.id.array,
            "_split": table.split.array,
            "_row": np.arange(len(table)),
        }
    )
    original = table.is_original.to_numpy(bool)
    part = table.split.isin(PARTS_OF_TRAIN).to_numpy()
    sides = []
    for aspect, label in zip(ASPECTS, _LABELS):
        edited = (table.edit_type == aspect).to_numpy() & ~original
        kept = (edited | originals & original) & ~part & table[label].isin(VALUES).to_numpy()
        sides.append(rows[kept].assign(concept=aspect, **{"": table[label].array[kept]}))
    side = pd.concat(sides).set_index(["concept", "group"])
    pairs = side.add_prefix("source").join(side.add_prefix("target")).reset_index()
    order = {value: i for i, value in enumerate(VALUES)}
    pairs = pairs[pairs.source.map(order) < pairs.target.map(order)]
    if pairs.empty:
        raise UserError(
            "no pair: no two reviews of a group were edited in one aspect and differ in its label"
        )
    names = [
        f"{side}{name}"
        for name in ("", "_stars", "_id", "_split", "_row")
        for side in ("source", "target")
    ]
    return pairs[["concept", *names, "group"]].reset_index(drop=True)


def icace_pairs(table: pd.DataFrame, split: str = "test", task: str = "5-way") -> pd.DataFrame:
    """Ordered pairs of a split that ICaCE is measured on (§ 3, definition 2).

    They are an original and its edit, or two edits of one aspect, that differ in the aspect's
    label: each pair in both directions, with the columns of `edit_pairs`. A pair with a review that
    has no class in `task` is left out. UserError for another split, or if no pair is left.
    """
    check_choice(split, "split", table.split.unique())
    at = np.flatnonzero(table.split == split)
    pairs = edit_pairs(table.iloc[at], originals=True)
    pairs[["source_row", "target_row"]] = at[pairs[["source_row", "target_row"]]]
    other = {"source": "target", "target": "source"}
    reversed_names = {name: other[name[:6]] + name[6:] for name in pairs if name[:6] in other}
    pairs = pd.concat([pairs, pairs.rename(columns=reversed_names)], ignore_index=True)
    source, target = (classes(pairs[f"{side}_stars"], task) for side in ("source", "target"))
    known = ~np.isnan(source) & ~np.isnan(target)
    if not known.any():
        raise UserError(f"no pair in {split} whose reviews both have a class in the {task} task")
    return pairs[known].reset_index(drop=True)
