"""What of the five papers stands in this book, and where: the rows of `book/coverage.yaml`.

table(3)
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Literal

from pydantic import BaseModel, ConfigDict

from probebook.base import read_yaml
from probebook_book.templates import render
from probebook_runs.pages import home, pages

Status = Literal["same", "smaller", "deviates", "missing"]


class Row(BaseModel):
    """A table, figure, equation, theorem or method of a paper, and what became of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    paper: int
    place: str
    what: str
    where: tuple[str, ...] = ()
    status: Status
    why: str = ""

    def links(self) -> list[tuple[str, str, str]]:
        """Each entry of `where`, with its page and section; both are "" for a file."""
        return [(entry, *_page_and_section(entry)) for entry in self.where]


def rows() -> list[Row]:
    """All rows, paper by paper."""
    papers = read_yaml(home() / "book" / "coverage.yaml")
    return [Row(paper=paper, **row) for paper, listed in papers.items() for row in listed]


def table(paper: int | None = None, status: Status | None = None) -> str:
    """The rows of a paper, or of a status, as HTML; more than ten are folded."""
    shown = [row for row in rows() if paper in (None, row.paper) and status in (None, row.status)]
    return render("coverage.html.j2", rows=shown)


def _page_and_section(entry: str) -> tuple[str, str]:
    """Of "1/06 § The design" or "methods/inlp". ValueError: there is not just one such page."""
    number, _, section = entry.partition(" § ")
    if entry.endswith((".yaml", ".csv")):
        return "", ""
    if number.startswith("methods/"):
        return f"book/{number}", section
    [page] = [p.name for p in pages() if fnmatch(p.name, number.replace("/", "_*/") + "_*")]
    return page, section
