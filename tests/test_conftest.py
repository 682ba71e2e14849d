"""What the other tests rest on: they leave the reader's book alone, and say what they skip."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import HOME, KEPT, PASSED_BEFORE, once, skipped_line, times_of_readers_files
from probebook.base import ROOT
from probebook_runs.pages import home


def test_the_readers_book_is_left_alone(readers_files, built_book):
    assert built_book == HOME / "_build" / "book"
    assert home() == HOME and HOME.is_relative_to(KEPT)
    assert times_of_readers_files() == readers_files


def test_what_passed_before_is_skipped_until_it_reads_something_else(tmp_path, monkeypatch):
    monkeypatch.setattr("conftest.KEPT", tmp_path)
    made: list[int] = []
    once(["a"], lambda: made.append(1))
    with pytest.raises(pytest.skip.Exception, match=PASSED_BEFORE):
        once(["a"], lambda: made.append(2))
    once(["b"], lambda: made.append(3))
    with pytest.raises(ZeroDivisionError):
        once(["c"], lambda: 1 / 0)
    once(["c"], lambda: made.append(4))
    assert made == [1, 3, 4]


def test_a_test_of_the_library_alone_cannot_open_the_book(monkeypatch):
    monkeypatch.setattr("conftest.alone", True)
    story, page = Path("book", "story.md"), Path("notebooks", "1_causal_probing", "07_layers.md")
    for path in (ROOT / story, HOME / story, HOME / page):
        with pytest.raises(AssertionError, match="library alone opens"):
            path.read_text(encoding="utf-8")
    assert (ROOT / "data" / "registry.yaml").read_text(encoding="utf-8")


def test_the_last_line_counts_what_passed_before():
    reasons = [f"Skipped: {PASSED_BEFORE}", "Skipped: no Chromium", f"Skipped: {PASSED_BEFORE}"]
    reports = [SimpleNamespace(longrepr=("conftest.py", 1, reason)) for reason in reasons]
    assert skipped_line(reports) == "2 tests skipped: they passed before on the same files"
    assert skipped_line(reports[:1]) == "1 test skipped: it passed before on the same files"
    assert skipped_line(reports[1:2]) == ""
