"""Run every page twice with one thread and once with two, each from an empty cache, and compare what it recorded.

    .venv/bin/python benchmarks/determinism.py [PAGE …]

The profile is smoke. data/records/benchmarks/determinism.csv has a row for each metric: `again` is the largest
difference between two runs with one thread, `threads` that between one thread and two; both as shares of the metric's
largest value in its table (NaN against a number is 1). Pages that are given replace their rows, none means all.
"""
from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from faults import a_home

from probebook.base import DATA
from probebook.runs.pages import find, pages

TABLE = DATA / "records" / "benchmarks" / "determinism.csv"
KEY = ["page", "table", "metric"]


def recorded(page: str, threads: int) -> pd.DataFrame:
    """What a page records when it is run from nothing: table, ids, metric, value, in its order."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    with TemporaryDirectory() as folder:
        env = os.environ | counts | {"PROBEBOOK_HOME": str(a_home(Path(folder))), "PROBEBOOK_CACHE": f"{folder}/cache"}
        words = [sys.executable, "-c", "from probebook.cli import app; app()"]
        given = [page, "--profile", "smoke"]
        subprocess.run([*words, "run", *given], env=env, check=True, stdout=subprocess.DEVNULL)
        printed = subprocess.run([*words, "results", *given], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return pd.read_csv(StringIO(printed.stdout))


def apart(a: pd.DataFrame, b: pd.DataFrame) -> pd.Series:
    """Largest difference of each (table, metric), as a share of its largest value; 1 where rows or NaN differ."""
    def of(part):
        x, y = part.to_numpy(), b.value.loc[part.index].to_numpy()
        if (np.isnan(x) != np.isnan(y)).any():
            return 1.0
        gap, size = np.abs(x - y)[~np.isnan(x)], np.abs(x[~np.isnan(x)])
        return gap.max() / size.max() if gap.any() else 0.0
    ids = list(a.columns.drop("value"))
    if list(a.columns) != list(b.columns) or not a[ids].equals(b[ids]):
        return a.groupby(["table", "metric"]).value.agg(lambda _: 1.0)
    return a.groupby(["table", "metric"]).value.agg(of)


def measure(page: str) -> pd.DataFrame:
    first, again, two = recorded(page, 1), recorded(page, 1), recorded(page, 2)
    table = pd.DataFrame({"again": apart(first, again), "threads": apart(first, two)}).reset_index()
    return table.assign(page=page)[[*KEY, "again", "threads"]]


def main(names: list[str]) -> None:
    for name in [find(name).name for name in names] or [page.name for page in pages()]:
        rows = measure(name)
        print(name, *rows[["again", "threads"]].max().map("{:.2g}".format), flush=True)
        before = pd.read_csv(TABLE).query("page != @name") if TABLE.exists() else None
        pd.concat([before, rows]).sort_values(KEY).to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
