"""Shared fixtures: the built book, a small book in a temporary folder, and what is kept from one
test run to the next."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
import typer.testing
import yaml
from bs4 import BeautifulSoup

# before any import of a library that would ask the hub, or start threads: the tests' workers share
# the cores, and a fork of a process that has computed with several threads waits for them for ever
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["OMP_NUM_THREADS"] = "1"
# With PROBEBOOK_DEVICE=cuda the built book runs on the GPU, and test_devices.py compares every
# method there with the CPU. Other tests compare with sums that they make on the CPU, often to the
# bit, and a GPU adds in another order: they stay on the CPU. Workers inherit what was asked for.
os.environ.setdefault("PROBEBOOK_TESTED", os.environ.get("PROBEBOOK_DEVICE") or "cpu")
os.environ["PROBEBOOK_DEVICE"] = "cpu"

if os.environ["PROBEBOOK_TESTED"] == "cpu":  # beside a real GPU gradients would stop here
    from card import simulated_card  # noqa: F401, before any gradient: then torch counts devices

from probebook.base import ROOT, atomic_write, sha256
from probebook_runs.execute import server_of
from probebook_runs.kernels import watch_kernel
from probebook_runs.page import processor
from probebook_runs.pages import pages
from probebook_runs.warm import ForkServer

gc.disable()  # until all tests are imported, of which no garbage comes

# the command line is put together once, not for each command that a test gives
typer.testing._get_command = cache(typer.testing._get_command)

DEVICE = os.environ["PROBEBOOK_TESTED"]
KEPT = ROOT / "_build" / "tests"  # what test runs find again as long as it reads the same
PASSED_BEFORE = "passed before on the same files"
# what is made, not read; what a test of the library alone reads
MADE = {".git", ".venv", "_build", ".pytest_cache", ".ruff_cache", ".import_linter_cache"}
FOLDERS = ("lib", "data", "tests", "benchmarks", "notebooks/sweeps")
LIBRARY = (*FOLDERS, "constraints.txt", "pyproject.toml")

# a mark of highlighted code: half of the book's tags, which no test looks for
HIGHLIGHT = re.compile(r'<span class="\w\w?">([^<]*)</span>')

# the groups of tests that take longest; that of labs late, when the book has filled the cache
LONG = ("book", "test_devices", "test_sweep", "test_faults", "test_runs", "test_audit", "wheel")
LONG += ("test_warm", "test_cli", "test_environment", "test_labs")

HEADER = """---
file_format: mystnb
kernelspec: {display_name: Python 3, language: python, name: python3}
---
# A page

"""
IMPORTS = """from typing import Literal

from probebook_runs import Count, Layer, ModelName, Strength, start, write_table"""
PARAMETERS = """
    n: Count = 5  # rows
    eps: Strength = 0.1  # step size
    rule: Literal["mean", "last"] = "mean"  # how pieces are joined
    sizes: list[Count] = [1, 2]  # widths
    fast: bool = False  # skip the slow half
    """


def linked_home(home: Path) -> Path:
    """A home of the book with the checkout's sources and a `_build` of its own, so that tests leave
    the reader's book and runs alone."""
    home.mkdir(parents=True, exist_ok=True)
    for link in home.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink(missing_ok=True)
    for path in ROOT.iterdir():
        if path.name != "_build" and not path.name.startswith("."):
            with suppress(FileExistsError):
                (home / path.name).symlink_to(path)
    return home


HOME = linked_home(KEPT / "home")
os.environ["PROBEBOOK_HOME"] = str(HOME)
PAGES = re.compile(rf"({re.escape(str(ROOT))}|{re.escape(str(HOME))})/(book/|notebooks/\d)")


def contents() -> list[str]:
    """The pages that the table of contents lists, in its order, without ending."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in toc["parts"] for chapter in part["chapters"]]
    return [
        toc["root"],
        *(page["file"] for chapter in chapters for page in (chapter, *chapter.get("sections", []))),
    ]


def pytest_itemcollected(item):
    """The tests of a file are one worker's, and what they share is made once. What looks at the
    built book is one worker's, too: the others need not wait until it is built. What makes a small
    book of its own reads the library alone."""
    group = None if item.get_closest_marker("xdist_group") else item.path.stem
    if "built_book" in item.fixturenames:
        group = "book"
    if group:
        item.add_marker(pytest.mark.xdist_group(group), append=False)
    if "tiny" in item.fixturenames:
        item.add_marker(pytest.mark.library)


def pytest_collection_modifyitems(items):
    """What takes long begins first, so that no worker is left alone with it."""
    rank = {group: i for i, group in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(_group_of(item), len(LONG)))


def _group_of(item) -> str:
    return item.get_closest_marker("xdist_group").args[0]


def pytest_collection_finish():
    """Libraries and tests are no garbage: they need not be looked at again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


def _mark_of(item) -> tuple[Path, str]:
    """Where it is kept on what a test passed last, and on what it would run now."""
    name = hashlib.sha256(item.nodeid.removesuffix(f"@{_group_of(item)}").encode()).hexdigest()
    return KEPT / "tests" / name, _reads(_is_of_library(item))


def _is_of_library(item) -> bool:
    """What measures shipped things again may run pages, in whichever file it stands."""
    marks = {mark.name for mark in item.iter_markers()}
    return "library" in marks and "verify" not in marks


def pytest_runtest_setup(item):
    path, read = _mark_of(item)
    if path.exists() and path.read_text() == read:
        pytest.skip(PASSED_BEFORE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    global alone
    alone = _is_of_library(item)
    try:
        result = yield
    finally:
        alone = False
    path, read = _mark_of(item)
    with atomic_write(path) as part:
        part.write_text(read)
    return result


def _refuse_pages(event: str, arguments: tuple) -> None:
    """Stop a test of the library alone that opens the book: what it read would not be in its
    digest."""
    if alone and event == "open" and PAGES.match(str(arguments[0])):
        raise AssertionError(f"a test of the library alone opens {arguments[0]}")


alone = False  # whether the test that runs now may read the library alone
sys.addaudithook(_refuse_pages)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    """Say last how many tests were skipped because they had passed before."""
    result = yield
    gc.collect()
    gc.freeze()  # or pytest looks for garbage five times more
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and (line := skipped_line(reporter.stats.get("skipped", []))):
        reporter.write_line(line)
    return result


def skipped_line(reports: list) -> str:
    """How many of the skipped tests had passed before, in words; empty if none."""
    count = sum(report.longrepr[2].endswith(PASSED_BEFORE) for report in reports)
    tests = "1 test skipped: it" if count == 1 else f"{count} tests skipped: they"
    return f"{tests} {PASSED_BEFORE}" if count else ""


@pytest.fixture(scope="session")
def readers_files() -> dict[Path, int]:
    """The files of the reader's book and runs before the tests build theirs."""
    return times_of_readers_files()


def times_of_readers_files() -> dict[Path, int]:
    """When each file of the reader's book and runs was last changed."""
    folders = (ROOT / "_build" / name for name in ("book", "book_source", "runs", "partial"))
    return {path: path.lstat().st_mtime_ns for folder in folders for path in folder.rglob("*")}


@pytest.fixture(scope="session")
def built_book(readers_files) -> Path:
    """Folder of the book's HTML, built from the smoke profile, whose runs the tests of pages use
    too."""
    with open(KEPT / "book.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one of pytest's workers builds, the others wait
        environment = {"PROBEBOOK_HOME": str(HOME), "PROBEBOOK_DEVICE": DEVICE}
        done = probebook("build", "--profile", "smoke", env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Warning" not in done.stderr, done.stderr[-4000:]
    return Path(done.stdout.splitlines()[-1]).parent


@pytest.fixture(scope="session")
def parsed(built_book) -> dict[Path, BeautifulSoup]:
    """The pages of the built book, without marks of highlighted code."""
    found = {
        path: BeautifulSoup(HIGHLIGHT.sub(r"\1", path.read_text(encoding="utf-8")), "html.parser")
        for path in sorted(built_book.rglob("*.html"))
        if "_static" not in path.parts
    }
    gc.freeze()
    return found


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkServer | None]:
    """The process that forks this worker's kernels, from the first on."""
    with server_of(pages()) as server:
        if server:
            server.if_worth(99)
        yield server


def probebook(*words: str, env: dict | None = None) -> subprocess.CompletedProcess:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-c", "from probebook_cli import app; app()", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | (env or {})
    )


def once(read: list, check) -> None:
    """Call `check`, or skip the test if it has passed on this machine on the same `read`.

    `read` names everything that the check depends on, in plain data. A check that raises is made
    again by the next test run, and CI, which begins with an empty folder, makes every check."""
    path = KEPT / "passed" / hashlib.sha256(json.dumps(read).encode()).hexdigest()
    if path.exists():
        pytest.skip(PASSED_BEFORE)
    check()
    with atomic_write(path) as part:
        part.touch()


@cache
def _reads(library: bool) -> str:
    """A digest of all that a test may read: the checkout, or what the library's tests read of it;
    packages, Python, the device and the processor."""
    whole = (path for path in ROOT.iterdir() if path.name not in MADE)
    found = (ROOT / name for name in LIBRARY) if library else whole
    data = os.environ.get("PROBEBOOK_DATA", "")
    return f"{digest_of(*found)} {sys.version} {processor()} {DEVICE} {data}"


def digest_of(*paths: Path) -> str:
    """sha256 of the files at the paths, or in the folders there."""
    found = hashlib.sha256()
    for path in sorted(paths):
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        files = [file for file in files if "__pycache__" not in file.parts]
        for file in files:
            found.update(f"{file.name} {sha256(file)} ".encode())
    return found.hexdigest()


@pytest.fixture
def book_folder(tmp_path) -> Path:
    """Where `tiny` writes its book; a module may have a folder of its own, which is kept."""
    return tmp_path


@pytest.fixture
def kernels(forks, monkeypatch):
    """The kernels of runs in this process are forks: a module may want them to start anew."""

    def watch(limits, server=None):
        return watch_kernel(limits, server or forks)

    monkeypatch.setattr("probebook_runs.execute.watch_kernel", watch)


@pytest.fixture
def tiny(book_folder, kernels, monkeypatch):
    """A small book: `tiny(*cells)` writes its page 1_demo/01_first and returns the book's
    folder."""
    monkeypatch.setenv("PROBEBOOK_HOME", str(book_folder))
    monkeypatch.setattr("probebook_runs.warm.FEW", 99)  # no server beside the tests' own

    def write(*cells: str, parameters: str = PARAMETERS, name: str = "1_demo/01_first") -> Path:
        tagged = ""
        if parameters:
            tagged = f"```{{code-cell}}\n:tags: [parameters]\n{dedent(parameters).strip()}\n```\n\n"
        codes = [f"```{{code-cell}}\n{dedent(cell).strip()}\n```\n" for cell in cells]
        path = book_folder / "notebooks" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"{HEADER}```{{code-cell}}\n{IMPORTS}\n```\n\n{tagged}" + "\n".join(codes),
            encoding="utf-8",
        )
        return book_folder

    return write


@pytest.fixture(autouse=True)
def same_numbers(request):
    """A module's generator `G` begins anew with every test, whichever tests ran before."""
    if hasattr(g := getattr(request.module, "G", None), "initial_seed"):
        g.manual_seed(g.initial_seed())
