"""Runs as one zip file, to move them between machines: PAGE/ID/ with the files of each run's folder."""
from __future__ import annotations

import json
import re
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from probebook.base import UserError, written_whole
from probebook.runs.pages import home
from probebook.runs.run_record import METRICS, NOTEBOOK, RECORD, found, intact, read_record, run_folder, run_lock

FILES = {NOTEBOOK: 2**28, METRICS: 2**28, RECORD: 2**20}         # what a run's folder holds, and up to how many bytes
MEMBER = re.compile(rf"(\w[\w.-]*/\w[\w.-]*)/([0-9a-f]{{20}})/({'|'.join(map(re.escape, FILES))})", re.ASCII)


def export(file: Path, pages: Sequence[str] = (), where: Sequence[str] = ()) -> int:
    """Write the runs of `pages` (names or beginnings; none: all) that fit `where` into a zip file; how many.

    A damaged run is left out and named on stderr. UserError: no run is left, conditions as in `results.fitting`.
    """
    records = {(r.page, r.run): r for page in pages or [""] for r in found(page)}
    from probebook.runs.results import fitting, parameters
    frame = parameters(list(records.values()))
    for condition in where:
        frame = fitting(frame, condition, list(frame))
    written = 0
    with written_whole(file) as part, \
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
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


def take_in(file: Path) -> dict[str, int]:
    """Add the runs of a zip file to `_build/runs`, each whole or not at all; counts: imported, already there, refused.

    A run that is there and whole is kept. One that is not what its checksums say, or was written by a newer version,
    is refused and named on stderr. UserError, and nothing is written: no zip file, or one that holds anything else.
    """
    counts = {"imported": 0, "already there": 0, "refused": 0}
    partial = home() / "_build" / "partial"
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, file)
            partial.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="import-", dir=partial) as new:
                for (page, run), infos in members.items():
                    counts[_take(archive, infos, page, run, Path(new) / run)] += 1
    except (OSError, zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as e:
        raise UserError(f"{file}: {getattr(e, 'strerror', None) or f'no whole zip file ({e})'}") from None
    return counts


def _members(archive: zipfile.ZipFile, file: Path) -> dict[tuple[str, str], list[zipfile.ZipInfo]]:
    """The archive's members by run. UserError: a name, a kind or a size that no export writes."""
    found, names = {}, set()
    for info in archive.infolist():
        match = MEMBER.fullmatch(info.filename)
        kind = stat.S_IFMT(info.external_attr >> 16)
        problem = ("is no file of a run" if not match else "is no plain file" if kind not in (0, stat.S_IFREG) else
                   "is there twice" if info.filename in names else
                   "is encrypted" if info.flag_bits & 1 else
                   "is packed in a way that is not read here"
                   if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) else
                   f"is too large, {info.file_size} bytes" if info.file_size > FILES[match[3]] else "")
        if problem:
            raise UserError(f"{file}: {info.filename!r} {problem}; nothing was imported")
        names.add(info.filename)
        found.setdefault(match.groups()[:2], []).append(info)
    need, free = sum(info.file_size for info in archive.infolist()), shutil.disk_usage(home()).free
    if need > free:
        raise UserError(f"{file}: unpacked it takes {need} bytes, {free} are free; nothing was imported")
    return found


def _take(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], page: str, run: str, new: Path) -> str:
    """Unpack one run into `new`, check it, give it its place; which count it belongs to."""
    folder = run_folder(page, run)
    if intact(folder):
        return "already there"
    new.mkdir()
    try:
        for info in infos:
            with archive.open(info) as packed, open(new / info.filename.rpartition("/")[2], "wb") as plain:
                shutil.copyfileobj(packed, plain)
        problem = _problem(new, page, run)
    except (zipfile.BadZipFile, zlib.error, EOFError) as e:
        problem = f"cannot be unpacked ({e})"
    if problem:
        print(f"{page}: run {run[:8]} {problem}, it is refused", file=sys.stderr)
        return "refused"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with run_lock(page, run):
        shutil.rmtree(folder, ignore_errors=True)                       # a damaged one
        new.rename(folder)
    return "imported"


def _problem(folder: Path, page: str, run: str) -> str:
    """What is wrong with an unpacked run, in a few words; empty if nothing is."""
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
    return "" if set(record.files) == {NOTEBOOK, METRICS} and intact(folder) else "is not what its checksums say"
