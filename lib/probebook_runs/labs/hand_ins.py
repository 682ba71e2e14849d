"""What was handed in: the notebooks of a folder or a zip file, and whose they are.

Learning platforms put the student's name into a file's or a folder's, each in its own way."""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
from nbformat import NotebookNode

from probebook.base import UserError, check_readable
from probebook_runs.labs.people import PLATFORMS, decode_text, key

PATHS = [re.compile(f"(?:^|/){pattern}") for pattern in PLATFORMS["paths"].values()]
ENDING = re.compile(r"\.(?:zip|ipynb(?:\.txt|\.json)?)$", re.IGNORECASE)  # as browsers save them
ZIP = re.compile(r"[^/]+\.zip/", re.IGNORECASE)
GOES_ON = re.compile(r"$|[^\w/]|_")  # after one name there may stand such in the next attempt's
NO_HAND_IN = re.compile(r"(?:^|/)(?:\.|__MACOSX/|~\$)|-checkpoint\.ipynb$")
MOST = 1 << 30  # bytes that zip files may hold; a file in them counts as 64 KB at least
DEEPEST = 3  # zip files in zip files
MAGIC = re.compile(  # sets a kernel up or times an answer, and is no part of the answer
    r"^(?:%%(?:time|timeit|capture|prun)\b.*|%(?!time[ \t])\w.*|!pip\b.*)$|^%time[ \t]+",
    re.MULTILINE,
)


@dataclass(frozen=True)
class HandIn:
    """A file that was handed in: its path in the folder, its bytes or why there are none, and when
    it was last changed (year, month, day, …)."""

    path: str
    content: bytes
    problem: str
    changed: tuple[int, ...]

    @property
    def name(self) -> str:
        """Its path without its ending."""
        return ENDING.sub("", self.path)

    @cached_property
    def platform(self) -> dict[str, str]:
        """What a platform's name says: student, number or id, attempt, and all up to them."""
        for pattern in PATHS:
            if match := pattern.search(self.path):
                return match.groupdict("") | {"all": self.path[: match.end()]}
        return {}

    @property
    def student(self) -> str:
        """The student, by the platform, else by the first folder, else by the notebook's name."""
        return self.platform.get("student") or ZIP.sub("", self.name).partition("/")[0]

    def owner(self, people: Mapping[str, set[str]]) -> str:
        """The student's folder among those that were handed out, see `people.by_key`.

        UserError: it is none of them, or may be several."""
        parts = [ENDING.sub("", part) for part in self.path.split("/")]
        parts += [piece for part in parts for piece in part.split(" - ")]  # as in Google Drive
        known = self.platform
        names = [known.get("id", ""), known["student"]] if known else parts
        exact = [name for name in names if name in set().union(*people.values())]
        fits = [people[key(name)] for name in names if key(name) in people]
        if sure := exact[:1] or [folder for fit in fits if len(fit) == 1 for folder in fit]:
            return sure[0]
        who = f"no variant of this page was handed out to {self.student!r}"
        if fits:
            who = f"{self.student!r} may be {' or '.join(sorted(fits[0]))}"
        raise UserError(f"{who}: put the notebook into a folder of the student, as in variants.csv")

    def series(self, paths: set[str]) -> tuple[str, ...]:
        """The same for all attempts of a student. Where no platform tells, attempts lie side by
        side in a folder, and their names begin with the name of one of them: x, x-1, x (2).

        - `paths`: of all notebooks of the page"""
        if known := self.platform:
            if not known.get("attempt") or sum(p.startswith(known["all"]) for p in paths) == 1:
                return key(known["student"]), known.get("number", "") + known.get("id", "")
        elif folder := ZIP.sub("", self.name).rpartition("/")[0]:
            own, *beside = (ZIP.sub("", ENDING.sub("", path)) for path in (self.path, *paths))
            begin = (p for p in beside if own.startswith(p) and GOES_ON.match(own, len(p)))
            return folder, min(begin, key=len)
        return (self.path,)  # one of several in an attempt, or one of many students in a folder

    @property
    def age(self) -> tuple:
        """Larger for a newer attempt: the platform's time or number, else the file's time."""
        attempt = self.platform.get("attempt", "").strip()
        if attempt.endswith("M"):
            attempt = re.sub(r"(\d\d) ([AP]M)", r":\1 \2", attempt)
            attempt = str(pd.to_datetime(attempt, errors="coerce"))
        number, copy = ([*map(int, re.findall(r"\d+", text))] for text in (attempt, self.path))
        return number, self.changed, copy


def collect(place: Path) -> tuple[list[HandIn], list[str]]:
    """The notebooks of a folder or of a zip file, at any depth and also in zip files, by their
    paths; and the paths of what else is there.

    Nothing is unpacked to the disk. What cannot be read is a hand-in with a problem. UserError:
    there is no notebook."""
    top = place if place.is_dir() else place.parent
    hand_ins: list[Any] = []
    others: list[Any] = []
    left = [MOST]
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if path.is_file():
            read = partial(_read, path)
            changed = (*time.localtime(path.stat().st_mtime)[:6], path.stat().st_mtime_ns)
            for found in _files(path.relative_to(top).as_posix(), read, changed, left):
                (hand_ins if isinstance(found, HandIn) else others).append(found)
    if not hand_ins:
        raise UserError(
            f"{place}: no notebooks (*.ipynb) in it: give the folder that holds the submissions"
        )
    return hand_ins, others


def _read(path: Path) -> bytes:
    return check_readable(path, MOST).read_bytes()


def _files(
    path: str, read: Callable[[], bytes], changed: tuple[int, ...], left: list[int]
) -> Iterator[HandIn | str]:
    """The hand-ins that a file is or, being a zip file, holds; the paths of other files."""
    if NO_HAND_IN.search(path) or not ENDING.search(path):
        yield path
        return
    try:
        content = read()
        if not path.lower().endswith(".zip"):
            yield HandIn(path, content, "", changed)
            return
        if len(ZIP.findall(path)) >= DEEPEST:
            raise zipfile.BadZipFile("it lies too deep in other zip files")
        archive = zipfile.ZipFile(io.BytesIO(content))
    except Exception as e:  # a student's file may be anything
        yield HandIn(path, b"", f"cannot be read: {e}", changed)
        return
    for member in archive.infolist():
        name = member.filename
        if not member.flag_bits & 0x800:  # as macOS writes it: UTF-8 that does not say so
            with suppress(UnicodeError):
                name = name.encode("cp437").decode()
        inner = [part for part in re.split(r"[/\\]", name) if part not in ("", ".", "..")]
        if not member.is_dir():
            take = partial(_take, archive, member, left)
            yield from _files("/".join([path, *inner]), take, member.date_time, left)


def _take(archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: list[int]) -> bytes:
    """A file of a zip file. BadZipFile: it is damaged, or all of them hold more than `MOST`."""
    left[0] -= max(member.file_size, 1 << 16)
    if left[0] < 0:
        raise zipfile.BadZipFile(f"zip files may hold {MOST / 1e9:.1f} GB in all")
    return archive.read(member)


def read_notebook(content: bytes) -> NotebookNode:
    """A student's notebook. Its cells have ids, where Colab has moved them to, lines that end in
    "\\n", and no magics that set a kernel up or time an answer.

    Raises whatever nbformat raises if it is no notebook."""
    notebook = nbformat.reads(decode_text(content), as_version=4)
    for cell in notebook.cells:
        cell.id = cell.get("id") or cell.metadata.get("id", "")
        cell.source = MAGIC.sub("", re.sub(r"\r\n?", "\n", str(cell.source)))
    return notebook
