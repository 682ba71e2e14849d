"""The archive: tables of runs that are kept with the sources, in `data/records/PAGE/NAME/`, each
with a manifest.

Also whole runs as one zip file, to move them between machines: PAGE/ID/ with the files of each
run's folder.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probebook.base import UserError, atomic_write, check_name, check_readable
from probebook_runs.pages import home
from probebook_runs.records import (
    METRICS,
    NOTEBOOK,
    RECORD,
    intact,
    read_all,
    read_record,
    run_folder,
    run_lock,
)
from probebook_runs.store import Run, by_metric, data_hashes, environment, tables

if TYPE_CHECKING:  # the command line lists the archive without it
    import pandas as pd

FILES = (NOTEBOOK, METRICS, RECORD)  # what a run's folder holds
MEMBER = re.compile(
    rf"(\w[\w.-]*/\w[\w.-]*)/([0-9a-f]{{20}})/({'|'.join(map(re.escape, FILES))})", re.ASCII
)


def _archive() -> Path:
    return home() / "data" / "records"


def add(run: Run, name: str) -> Path:
    """Write the tables of a finished run and `manifest.json`. An older entry of that name is
    replaced as a whole."""
    notebook = run.read()
    folder = _archive() / run.page.name / check_name(name)
    part = folder.with_name(f".{name}.{os.getpid()}.part")
    manifest = dict(notebook.metadata["probebook"])
    manifest |= {"profile": run.profile, "dtype": run.dtype}
    manifest |= environment(notebook) | {"data": data_hashes()}
    try:
        part.mkdir(parents=True)
        for table, frame in tables(notebook).items():
            frame.to_csv(part / f"{table}.csv", index=False)
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        (part / "manifest.json").write_text(text + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def manifests() -> dict[str, dict]:
    """Manifests of all archived runs, by PAGE/NAME."""
    root = _archive()
    return {
        path.parent.relative_to(root).as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(root.glob("*/*/*/manifest.json"))
    }


def archived(page: str, table: str) -> dict[str, pd.DataFrame]:
    """One table of every archived run of a page, by the run's name. Rows are its ids, columns its
    metrics."""
    by_run = {}
    for manifest in sorted((_archive() / page).glob("*/manifest.json")):
        path = manifest.with_name(f"{table}.csv")
        if path.exists():
            by_run[path.parent.name] = by_metric(_read_table(path))
    return by_run


def sweep_table(*names: str) -> pd.DataFrame:
    """Metrics of the runs of a sweep, or of several, one value per row.

    `names`: files `data/records/sweeps/NAME.csv`, or CSVs that `probebook results PAGE --all`
    printed. UserError: there is no such file, or it holds another table."""
    import pandas as pd

    return pd.concat([_read_sweep(name) for name in names], ignore_index=True)


def _read_sweep(name: str) -> pd.DataFrame:
    path = _archive() / "sweeps" / f"{name}.csv"
    if not path.is_file() and not Path(name).is_file():
        names = ", ".join(sorted(p.stem for p in path.parent.glob("*.csv"))) or "none"
        raise UserError(
            f"no sweep {name!r}: there are {names}; or give the CSV that probebook results printed"
        )
    long = _read_table(path if path.is_file() else Path(name))
    if missing := {"page", "run", "table", "metric", "value"} - set(long):
        raise UserError(
            f"{name}: no column {min(missing)!r}: is it what `probebook results PAGE "
            "--all` printed?"
        )
    return long


def _read_table(path: Path) -> pd.DataFrame:
    """What is empty is missing, but a parameter or a table may be called "null"."""
    import pandas as pd

    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def folder(name: str) -> Path:
    """Folder of an archived run. UserError: there is none of that name."""
    names = list(manifests())
    if name not in names:
        raise UserError(f"no archived run {name!r}: there are {', '.join(names) or 'none'}")
    return _archive() / name


def matrix_table() -> pd.DataFrame:
    """What `benchmarks/matrix.py` measured.

    Columns: page, architecture, kind, outcome ("runs", "ends early", "refused", "fails"), seconds,
    why.
    """
    import pandas as pd

    return pd.read_csv(_archive() / "benchmarks" / "matrix.csv", keep_default_na=False)


def calibration_table() -> pd.DataFrame:
    """What `benchmarks/audit_calibration.py` measured: a row for each planted world, columns
    setting, weight, and those of `probebook_audit.audit_planted`."""
    import pandas as pd

    return pd.read_csv(_archive() / "benchmarks" / "audit_calibration.csv")


def determinism_table() -> pd.DataFrame:
    """The findings of `benchmarks/determinism.py`, one page per row.

    Columns: metrics (their number), again (how many differ between two equal runs), two threads
    (how many differ by more than 1e-6 from a run with one thread), largest (the largest difference,
    as a share of the metric's largest value), where (the three metrics that differ most).
    """
    import pandas as pd

    differences = _read_table(_archive() / "benchmarks" / "determinism.csv")

    def summarise(part):
        far = part[part.threads > 1e-6].nlargest(3, "threads")
        return pd.Series(
            {
                "metrics": len(part),
                "again": (part.again > 0).sum(),
                "two threads": (part.threads > 1e-6).sum(),
                "largest": f"{part.threads.max():.1g}",
                "where": ", ".join(far.table + ": " + far.metric),
            }
        )

    columns = ["table", "metric", "again", "threads"]
    table = differences.groupby("page")[columns].apply(summarise)
    return table.rename_axis(index=None, columns="page")


def export_runs(file: Path, pages: Sequence[str] = (), where: Sequence[str] = ()) -> int:
    """Write runs into a zip file and return their number.

    `pages`: names of pages or their beginnings (none: all pages). `where`: conditions as in
    `results.filter_rows`. A damaged run is left out and named on stderr. UserError: no run is left.
    """
    records = {(r.page, r.run): r for page in pages or [""] for r in read_all(page)}
    from probebook_runs.results import filter_rows, parameters

    frame = parameters(list(records.values()))
    for condition in where:
        frame = filter_rows(frame, condition, list(frame))
    written = 0
    with (
        atomic_write(file) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
    ):
        for page, run in (list(records)[i] for i in frame.index):
            folder = run_folder(page, run)
            if not intact(folder):
                print(f"{page}: run {run[:8]} is damaged, it is left out", file=sys.stderr)
                continue
            for name in FILES:
                archive.write(folder / name, f"{page}/{run}/{name}")
            written += 1
        if not written:
            raise UserError("no run that is whole: nothing was exported")
    return written


def import_runs(file: Path) -> dict[str, int]:
    """Add the runs of a zip file to `_build/runs` and count them: imported, already there, refused.

    Each run is added completely or not at all. An intact run that is already there stays. A run is
    refused, and named on stderr, if its checksums do not match or if a newer version wrote it.
    UserError, and nothing is written, if the file is no zip file or holds anything else.
    """
    counts = {"imported": 0, "already there": 0, "refused": 0}
    partial = home() / "_build" / "partial"
    try:
        with zipfile.ZipFile(check_readable(file, 1 << 40)) as archive:
            members: dict[tuple[str, str], list[str]] = {}
            for name in archive.namelist():
                match = MEMBER.fullmatch(name)
                if not match:  # it might lead out of the run's folder
                    raise UserError(f"{file}: {name!r} is no file of a run; nothing was imported")
                members.setdefault((match[1], match[2]), []).append(name)
            partial.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="import-", dir=partial) as new:
                for (page, run), names in members.items():
                    counts[_take(archive, names, page, run, Path(new) / run)] += 1
    except (OSError, zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as e:
        problem = getattr(e, "strerror", None) or f"no whole zip file ({e})"
        raise UserError(f"{file}: {problem}") from None
    return counts


def _take(archive: zipfile.ZipFile, names: list[str], page: str, run: str, new: Path) -> str:
    """Unpack one run into `new`, check it and move it to its place. Returns the count that it
    belongs to."""
    folder = run_folder(page, run)
    if intact(folder):
        return "already there"
    new.mkdir()
    try:
        for name in names:
            with archive.open(name) as packed, open(new / name.rpartition("/")[2], "wb") as plain:
                shutil.copyfileobj(packed, plain)
        problem = _problem(new, page, run)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as e:
        problem = f"cannot be unpacked ({e})"
    if problem:
        print(f"{page}: run {run[:8]} {problem}, it is refused", file=sys.stderr)
        return "refused"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with run_lock(page, run):
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        new.rename(folder)
    return "imported"


def _problem(folder: Path, page: str, run: str) -> str:
    """What is wrong with an unpacked run, in a few words; empty if it is intact."""
    record = read_record(folder)
    if record is None:
        try:
            version = json.loads((folder / RECORD).read_bytes())["schema_version"]
        except (OSError, ValueError, KeyError, TypeError):
            version = 1
        newer = isinstance(version, int) and version > 1
        return f"has a record of the newer schema {version}" if newer else "has no whole record"
    if (record.page, record.run) != (page, run):
        return f"is another one by its record ({record.page} {record.run})"
    if set(record.files) != {NOTEBOOK, METRICS} or not intact(folder):
        return "is not what its checksums say"
    return ""
