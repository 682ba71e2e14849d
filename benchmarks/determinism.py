"""Run every page twice with one thread and once with two, and compare what it recorded.

    .venv/bin/python benchmarks/determinism.py [PAGE …]

Each run has the profile smoke and an empty cache. data/records/benchmarks/determinism.csv has a row
for each metric: `again` is the largest difference between two runs with one thread, `threads` that
between one thread and two. Both are shares of the metric's largest value in its table (NaN against
a number is 1). The named pages replace their rows; without names all pages do.
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
from probebook_runs.pages import find, pages

TABLE = DATA / "records" / "benchmarks" / "determinism.csv"
KEY = ["page", "table", "metric"]


def kept() -> pd.DataFrame:
    """The table as it is; a table of a page may be called "null"."""
    return pd.read_csv(TABLE, keep_default_na=False)


def recorded(page: str, threads: int) -> pd.DataFrame:
    """What a page records in a run from nothing: table, ids, metric, value, in its order."""
    names = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"
    counts = dict.fromkeys(names, str(threads))
    with TemporaryDirectory() as folder:
        env = (
            os.environ
            | counts
            | {"PROBEBOOK_HOME": str(a_home(Path(folder))), "PROBEBOOK_CACHE": f"{folder}/cache"}
        )
        command = [sys.executable, "-c", "from probebook_cli import app; app()"]
        arguments = [page, "--profile", "smoke"]
        subprocess.run(
            [*command, "run", *arguments], env=env, check=True, stdout=subprocess.DEVNULL
        )
        results = subprocess.run(
            [*command, "results", *arguments],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return pd.read_csv(StringIO(results.stdout), keep_default_na=False, na_values={"value": ""})


def apart(a: pd.DataFrame, b: pd.DataFrame) -> pd.Series:
    """Largest difference of each (table, metric), as a share of its largest value.

    1 where rows or NaN differ."""

    def share(part: pd.Series) -> float:
        x, y = part.to_numpy(), b.value.loc[part.index].to_numpy()
        if (np.isnan(x) != np.isnan(y)).any():
            return 1.0
        gap, size = np.abs(x - y)[~np.isnan(x)], np.abs(x[~np.isnan(x)])
        return gap.max() / size.max() if gap.any() else 0.0

    ids = list(a.columns.drop("value"))
    if list(a.columns) != list(b.columns) or not a[ids].equals(b[ids]):
        return a.groupby(["table", "metric"]).value.agg(lambda _: 1.0)
    return a.groupby(["table", "metric"]).value.agg(share)


def measure(page: str) -> pd.DataFrame:
    """The rows of a page: three runs."""
    first, again, two = recorded(page, 1), recorded(page, 1), recorded(page, 2)
    table = pd.DataFrame({"again": apart(first, again), "threads": apart(first, two)}).reset_index()
    return table.assign(page=page)[[*KEY, "again", "threads"]]


def main(names: list[str]) -> None:
    for name in [find(name).name for name in names] or [page.name for page in pages()]:
        rows = measure(name)
        print(name, *rows[["again", "threads"]].max().map("{:.2g}".format), flush=True)
        before = kept().query("page != @name") if TABLE.exists() else None
        pd.concat([before, rows]).sort_values(KEY).to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
