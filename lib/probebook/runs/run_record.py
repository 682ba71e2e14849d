"""The record of a run: what `record.json` in its folder says, and whether the folder is as it says."""
from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Literal

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from probebook.base import sha256
from probebook.runs.pages import home

NOTEBOOK, METRICS, RECORD = "notebook.ipynb", "metrics.parquet", "record.json"


class Record(BaseModel):
    """`record.json` of a run. A later schema may add fields; the meaning of these does not change."""
    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_version: Literal[1] = 1
    page: str
    run: str                        # the run's id
    profile: str
    parameters: dict                # every parameter, with the value that it had
    changed: list[str]              # names of those that differ from the page's own values
    seed: int | None                # None: the page never called `start`
    device: str
    threads: int | None
    versions: dict[str, str]        # Python and the libraries that numbers depend on
    data: dict[str, str]            # sha256 of the registry, the published figures, the shipped models
    seconds: float                  # wall time of the page, kernel included
    finished: str                   # UTC, YYYY-MM-DD HH:MM
    commit: str                     # of the sources; "-dirty": with changes; "" outside git
    files: dict[str, str]           # sha256 of the other files of the folder
    sha256: str = ""                # of this record as JSON with sorted keys and this field empty

    def sealed(self) -> Record:
        """The same with its own checksum."""
        text = json.dumps(self.model_dump(mode="json") | {"sha256": ""}, sort_keys=True)
        return self.model_copy(update={"sha256": hashlib.sha256(text.encode()).hexdigest()})


def run_folder(page: str, run: str) -> Path:
    """Where the run with the id `run` lies, or will."""
    return home() / "_build" / "runs" / page / run


def run_lock(page: str, run: str) -> FileLock:
    """The lock that who makes a run holds, or who brings it here; the operating system frees it with its holder."""
    path = home() / "_build" / "partial" / page / f"{run}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path)


def read_record(folder: Path) -> Record | None:
    """The record of a run's folder; None if it is not there, or damaged. Its files are checked by `intact`."""
    try:
        record = Record.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None
    return record if record == record.sealed() else None


def intact(folder: Path) -> bool:
    """Whether a run's folder holds what its record says, to the bit."""
    record = read_record(folder)
    try:
        return record is not None and all(sha256(folder / name) == digest for name, digest in record.files.items())
    except OSError:
        return False
