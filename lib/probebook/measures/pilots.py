"""Pilots of two probing configurations, read from files: which items each got right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from probebook.base import UserError, check_readable


def read(path_a: str | Path, path_b: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Two pilots [seeds, items] of 0 and 1 from CSV files with a header, one row per item.

    Columns: `prediction` and `label`, or one column of 0 and 1 for each seed. If both files have a
    column `id`, their rows are matched by it. UserError for a missing file, another form, or items
    that differ between the files."""
    tables = [_read(path) for path in (path_a, path_b)]
    if all("id" in table for table in tables):
        tables = [table.set_index(table.id.astype(str)) for table in tables]
        repeated = any(table.index.has_duplicates for table in tables)
        if repeated or set(tables[0].index) != set(tables[1].index):
            raise UserError(f"{path_a}, {path_b}: each id once in both files, and the same ones")
        tables = [tables[0], tables[1].loc[tables[0].index]]
    if len(tables[0]) != len(tables[1]):
        raise UserError(
            f"{path_a} has {len(tables[0])} items, {path_b} {len(tables[1])}: "
            "both need the same items"
        )
    return _correct(tables[0], path_a), _correct(tables[1], path_b)


def _read(path: str | Path) -> pd.DataFrame:
    try:  # "None" and "NA" are labels
        return pd.read_csv(check_readable(path), keep_default_na=False, na_values=[""])
    except (OSError, pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as e:
        message = str(e).splitlines()[0]
        raise UserError(f"{path}: {message}: give a CSV file with a header") from None


def _correct(table: pd.DataFrame, path: str | Path) -> np.ndarray:
    if {"prediction", "label"} <= set(table):
        return (table.prediction == table.label).to_numpy(float)[None]
    seeds = table.drop(columns="id", errors="ignore")
    if not seeds.shape[1] or not seeds.isin([0, 1]).all(axis=None):
        raise UserError(
            f"{path}: columns prediction and label, or 0 and 1 (right) in one column for each seed"
        )
    return seeds.to_numpy(float).T
