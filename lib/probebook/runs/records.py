"""Stored runs: a run's tables and manifest as small files in `data/records/PAGE/NAME/`, kept with the sources."""
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from probebook.base import UserError, plain_name
from probebook.runs.pages import home
from probebook.runs.store import Run, data_hashes, environment, tables

if TYPE_CHECKING:              # the command line lists records without it
    import pandas as pd


def store(run: Run, name: str) -> Path:
    """Write the tables of a finished run and `manifest.json`; an older record of that name is replaced whole."""
    notebook = run.read()
    folder = home() / "data" / "records" / run.page.name / plain_name(name)
    part = folder.with_name(f".{name}.{os.getpid()}.part")
    about = dict(notebook.metadata["probebook"])
    manifest = about | {"profile": run.profile} | environment(notebook) | {"data": data_hashes()}
    try:
        part.mkdir(parents=True)
        for table, frame in tables(notebook).items():
            frame.to_csv(part / f"{table}.csv", index=False)
        (part / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def manifests() -> dict[str, dict]:
    """Manifests of all stored runs, by PAGE/NAME."""
    root = home() / "data" / "records"
    return {path.parent.relative_to(root).as_posix(): json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(root.glob("*/*/*/manifest.json"))}


def stored(page: str, table: str) -> dict[str, pd.DataFrame]:
    """A table of every stored run of a page, by the run's name; rows are its ids, columns its metrics."""
    import pandas as pd
    found = {}
    for name in manifests():
        path = home() / "data" / "records" / name / f"{table}.csv"
        if name.rpartition("/")[0] == page and path.exists():
            long = pd.read_csv(path)
            ids = [column for column in long if column not in ("metric", "value")]
            found[path.parent.name] = long.set_index([*ids, "metric"])["value"].unstack("metric")
    return found


def swept(name: str) -> pd.DataFrame:
    """Metrics of a sweep's runs, a row a value: of `data/records/sweeps/NAME.csv`, or of a CSV that `probebook results
    PAGE --all` printed. UserError: no such file, or another table."""
    import pandas as pd
    path = home() / "data" / "records" / "sweeps" / f"{name}.csv"
    if not path.is_file() and not Path(name).is_file():
        names = ", ".join(sorted(p.stem for p in path.parent.glob("*.csv"))) or "none"
        raise UserError(f"no sweep {name!r}: there are {names}; or give the CSV that probebook results printed")
    long = pd.read_csv(path if path.is_file() else name)
    if missing := {"page", "run", "table", "metric", "value"} - set(long):
        raise UserError(f"{name}: no column {min(missing)!r}: is it what `probebook results PAGE --all` printed?")
    return long


def folder(name: str) -> Path:
    """Folder of a stored run. UserError: there is none of that name."""
    names = list(manifests())
    if name not in names:
        raise UserError(f"no stored run {name!r}: there are {', '.join(names) or 'none'}")
    return home() / "data" / "records" / name


def determinism_table() -> pd.DataFrame:
    """What `benchmarks/determinism.py` found, a page a row; shares are of a metric's largest value.

    Columns: metrics (how many), again (those that differ between two equal runs), two threads (those that differ by
    more than 1e-6 from one thread), largest (difference, as a share), where (the metrics with the three largest)."""
    import pandas as pd
    found = pd.read_csv(home() / "data" / "records" / "benchmarks" / "determinism.csv")

    def of(part):
        far = part[part.threads > 1e-6].nlargest(3, "threads")
        return pd.Series({"metrics": len(part), "again": (part.again > 0).sum(),
                          "two threads": (part.threads > 1e-6).sum(), "largest": f"{part.threads.max():.1g}",
                          "where": ", ".join(far.table + ": " + far.metric)})
    table = found.groupby("page")[["table", "metric", "again", "threads"]].apply(of)
    return table.rename_axis(index=None, columns="page")
