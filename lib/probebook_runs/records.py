"""The record of a run, `record.json`: what it says, whether the run's folder agrees, and all
records."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from probebook.base import UserError, sha256
from probebook_runs.pages import home

if TYPE_CHECKING:
    from filelock import FileLock

NOTEBOOK, METRICS, RECORD = "notebook.ipynb", "metrics.parquet", "record.json"
# fields that older records lack, with what these mean; at that value they do not enter the checksum
LATER = {"dtype": "float32", "device_memory": 0}


class Record(BaseModel):
    """`record.json` of a run. A later schema may add fields, but does not change the meaning of
    these."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_version: Literal[1] = 1
    page: str
    run: str  # the run's id
    profile: str
    parameters: dict  # every parameter, with the value that it had
    changed: list[str]  # names of those that differ from the page's own values
    seed: int | None  # None: the page never called `start`
    device: str
    dtype: str = "float32"  # the precision of models
    device_memory: int = 0  # bytes of a GPU that the page took at most; 0: none
    threads: int | None
    versions: dict[str, str]  # Python and the libraries that numbers depend on
    data: dict[str, str]  # sha256 of the registry, the published figures, the shipped models
    seconds: float  # wall time of the page, kernel included
    finished: str  # UTC, YYYY-MM-DD HH:MM
    commit: str  # of the sources; "-dirty": with changes; "" outside git
    files: dict[str, str]  # sha256 of the other files of the folder
    sha256: str = ""  # of this record as JSON with sorted keys and this field empty

    def sealed(self) -> Record:
        """A copy with its own checksum."""
        fields = self.model_dump(mode="json") | {"sha256": ""}
        kept = {name: fields[name] for name in fields if (name, fields[name]) not in LATER.items()}
        text = json.dumps(kept, sort_keys=True)
        return self.model_copy(update={"sha256": hashlib.sha256(text.encode()).hexdigest()})

    @property
    def hardware(self) -> str:
        """The device, and the precision unless it is float32, for tables of runs."""
        return self.device if self.dtype == "float32" else f"{self.device}, {self.dtype}"


def run_folder(page: str = "", run: str = "") -> Path:
    """The folder of the run with the id `run`, whether it exists or not; without an id that of the
    page's runs, without a page that of all runs."""
    return home() / "_build" / "runs" / page / run


def run_lock(page: str, run: str) -> FileLock:
    """The lock held by a process that makes or imports the run. The operating system frees it when
    that process ends."""
    from filelock import FileLock

    path = home() / "_build" / "partial" / page / f"{run}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path)


def read_record(folder: Path) -> Record | None:
    """The record in a run's folder; None if it is missing or damaged. `intact` checks the other
    files."""
    try:
        record = Record.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None
    return record if record == record.sealed() else None


def intact(folder: Path) -> bool:
    """Whether every file of a run's folder has the checksum that its record gives."""
    record = read_record(folder)
    try:
        return record is not None and all(
            sha256(folder / name) == digest for name, digest in record.files.items()
        )
    except OSError:
        return False


def of_page(page: str, profile: str) -> list[Record]:
    """Records of the finished runs of a page in a profile, whatever their other parameters."""
    records = map(read_record, run_folder(page).glob("*"))
    return [record for record in records if record and record.profile == profile]


def read_all(page: str = "") -> list[Record]:
    """Records of all runs of pages whose names begin with `page`, oldest first. UserError: there
    are none."""
    records, names = [], set()
    for folder in sorted(run_folder().glob("*/*/*/")):
        name = folder.parent.relative_to(folder.parents[2]).as_posix()
        names.add(name)
        if name.startswith(page):
            record = read_record(folder)
            if record and (record.page, record.run) == (name, folder.name):
                records.append(
                    (record.page, record.finished, (folder / RECORD).stat().st_mtime_ns, record)
                )
            else:
                warn_damaged(name, folder.name)
    if page and not any(name.startswith(page) for name in names):
        refuse_name("run of a page", page, names)
    if not records:
        raise UserError("there is no finished run: probebook run PAGE makes one")
    return [record for *_, record in sorted(records, key=lambda row: row[:3])]


def plain_value(value: Any) -> int | float | str:
    """A parameter's value for a table. Numbers and text stay; lists, truth values and null become
    JSON text."""
    return value if type(value) in (int, float, str) else json.dumps(value, ensure_ascii=False)


def newest(records: Sequence[Record]) -> list[Record]:
    """The last of all records (oldest first) with the same page and parameters. stderr says how
    many were left out."""
    last = {
        (record.page, json.dumps(record.parameters, sort_keys=True)): record for record in records
    }
    if left := len(records) - len(last):
        print(
            f"{left} older run{'s' * (left > 1)} with the same parameters left out: "
            "--all-versions keeps them",
            file=sys.stderr,
        )
    return list(last.values())


def find_run(beginning: str) -> Record:
    """The record of the run whose id begins with these digits, at least four. UserError: there is
    none, there are several, or it is damaged."""
    if not re.fullmatch("[0-9a-f]{4,20}", beginning):
        raise UserError(
            f"run {beginning!r}: should be a run's id or its beginning, four of 0-9a-f at least"
        )
    folders = sorted(run_folder().glob(f"*/*/{beginning}*/"))
    if not folders:
        raise UserError(f"no run begins with {beginning!r}: probebook results lists them")
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise UserError(f"several runs begin with {beginning!r}: {names}")
    record = read_record(folders[0])
    if record is None or not intact(folders[0]):
        raise UserError(f"run {folders[0].name} is damaged")
    return record


def warn_damaged(page: str, run: str) -> None:
    """Say on stderr that a damaged run is left out."""
    print(f"{page}: run {run[:8]} is damaged, it is left out", file=sys.stderr)


def refuse_name(kind: str, name: str, names: Iterable[str]) -> None:
    """UserError: there is no such name; the message gives the nearest one."""
    known = sorted(names)
    near = difflib.get_close_matches(name, known, 1, 0)
    hint = f"the nearest is {near[0]!r} of {', '.join(known)}" if near else "there are none"
    raise UserError(f"no {kind} {name!r}: {hint}")
