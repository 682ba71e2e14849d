"""`book/coverage.yaml` beside what it speaks of: the papers' counts, pages, sweeps and tables."""

import re
from collections import Counter

import pytest
from bs4 import BeautifulSoup

from probebook.base import DATA
from probebook_book.coverage import rows, table
from probebook_runs.pages import Page, home

ROWS = rows()
SWEEPS = home() / "notebooks" / "sweeps" / "paper"
FILES = {".yaml": SWEEPS, ".csv": DATA / "published"}
# tables, figures and numbered equations of each paper, counted in its text
PRINTED = {1: (3, 6, 4), 2: (10, 12, 25), 3: (8, 12, 3), 4: (3, 14, 9), 5: (12, 5, 6)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.paper}, {row.place}")
def test_what_a_row_names_is_there(row):
    for entry, page, section in row.links():
        if page:
            headings = re.findall("^##+ (.+)$", Page(page).source, re.MULTILINE)
            assert not section or section in headings, f"{page} has no section {section!r}"
        else:
            assert (FILES[f".{entry.rpartition('.')[2]}"] / entry).is_file()
    assert bool(row.where) == (row.status != "missing")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.paper}, {row.place}")
def test_a_row_says_why_it_is_not_the_same(row):
    assert bool(row.why) == (row.status != "same")
    assert row.why.count(". ") == 0  # one sentence
    if row.why:
        assert re.fullmatch(r"[A-Z].*\.", row.why)


def test_no_place_has_two_rows():
    places = Counter((row.paper, row.place) for row in ROWS)
    assert max(places.values()) == 1


@pytest.mark.parametrize("kind", FILES)
def test_every_sweep_and_published_table_has_a_row(kind):
    named = {entry for row in ROWS for entry in row.where if entry.endswith(kind)}
    assert named == {path.name for path in FILES[kind].glob(f"*{kind}")}


@pytest.mark.parametrize("paper", PRINTED)
def test_everything_with_a_number_has_a_row(paper):
    for kind, size in zip(("Table", "Figure", "Equation"), PRINTED[paper]):
        numbers = {
            int(number)
            for row in ROWS
            if row.paper == paper
            for numbered in re.findall(
                rf"{kind}s? ((?:\d+(?:, | and )?)+)", row.place, re.IGNORECASE
            )
            for number in re.findall(r"\d+", numbered)
        }
        assert numbers == {*range(1, size + 1)}, kind


def test_the_files_say_what_they_make():
    """A row that names a sweep is in the sweeps' own list, and the other way round."""
    listed = re.findall(r"\| `(.+?)` \| paper (\d)", (SWEEPS / "README.txt").read_text())
    assert {*listed} == {
        (entry, str(row.paper)) for row in ROWS for entry in row.where if entry.endswith(".yaml")
    }


def test_long_tables_are_folded_and_link_their_sections():
    whole = BeautifulSoup(table(4), "html.parser")
    assert len(whole.select("details tbody tr")) == sum(row.paper == 4 for row in ROWS)
    [link] = {a["href"] for a in whole.select("a") if a.text == "4/05 § Three rules"}
    assert link == "../notebooks/4_underspecification/05_audit.html#three-rules"
    gone = BeautifulSoup(table(status="missing"), "html.parser")
    assert not gone.details
    assert 0 < len(gone.select("tbody tr")) == sum(row.status == "missing" for row in ROWS) <= 10
