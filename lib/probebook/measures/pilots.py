"""Pilots of two probing configurations, read from files: what each got right, item by item."""
from __future__ import annotations

import numpy as np
import pandas as pd

from probebook.base import UserError


def read(path_a, path_b) -> tuple[np.ndarray, np.ndarray]:
    """Two pilots [seeds, items] of 0 and 1 from CSV files with a header, one row an item, the same items in both.

    Columns: `prediction` and `label`, or one column of 0 and 1 for each seed. With a column `id` in both, rows are put
    in one order by it. UserError: no such file, or not of this form, or other items in one than in the other."""
    tables = [_read(path) for path in (path_a, path_b)]
    if all("id" in table for table in tables):
        tables = [table.set_index(table.id.astype(str)) for table in tables]
        if any(table.index.has_duplicates for table in tables) or set(tables[0].index) != set(tables[1].index):
            raise UserError(f"{path_a}, {path_b}: each id once in both files, and the same ones")
        tables = [tables[0], tables[1].loc[tables[0].index]]
    if len(tables[0]) != len(tables[1]):
        raise UserError(f"{path_a} has {len(tables[0])} items, {path_b} {len(tables[1])}: both need the same items")
    return tuple(_right(table, path) for table, path in zip(tables, (path_a, path_b)))


def _read(path):
    try:
        return pd.read_csv(path, keep_default_na=False, na_values=[""])          # "None" and "NA" may be labels
    except (OSError, pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as e:
        raise UserError(f"{path}: {str(e).splitlines()[0]}: give a CSV file with a header") from None


def _right(table, path):
    if {"prediction", "label"} <= set(table):
        return (table.prediction == table.label).to_numpy(float)[None]
    seeds = table.drop(columns="id", errors="ignore")
    if not seeds.shape[1] or not seeds.isin([0, 1]).all(axis=None):
        raise UserError(f"{path}: columns prediction and label, or 0 and 1 (right) in one column for each seed")
    return seeds.to_numpy(float).T
