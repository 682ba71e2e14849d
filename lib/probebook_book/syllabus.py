"""Three paths through the book, and the plan of a course: pages, labs, minutes.

`book/syllabus.yaml` names the pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from probebook.base import read_yaml
from probebook_book.reading import exercise_minutes, minutes
from probebook_book.templates import render
from probebook_runs.pages import Page, find, home


def plan() -> dict[str, Any]:
    """The weeks of the course, the paths, and minutes of some pages, as written."""
    return read_yaml(home() / "book" / "syllabus.yaml")


def page_of(name: str) -> Page:
    """A page of a path: of `book/`, or by the beginning of a notebook's name."""
    return Page(name) if name.startswith("book/") else find(name)


def table() -> str:
    """The plan as an HTML table: for each week the core pages, the page of the lab, the minutes of
    these with their exercises, and the optional pages."""
    return render("weeks.html.j2", FILTERS, weeks=plan()["weeks"])


def outcomes(week: str) -> str:
    """The learning outcomes of a week as an HTML table: its pages, their minutes, what each
    teaches."""
    [entry] = [entry for entry in plan()["weeks"] if entry["title"].startswith(week)]
    return render("outcomes.html.j2", FILTERS, week=entry)


def paths() -> str:
    """The three paths through the book as an HTML table: pages with their minutes, and the sum."""
    return render("paths.html.j2", FILTERS, paths=plan()["paths"])


def reading_minutes(page: Page) -> int:
    """The minutes that reading a page takes, as the plan says, or as computed from the page."""
    return plan()["minutes"].get(page.name) or minutes(page)


def learning_outcomes(page: Page) -> list[str]:
    """What a page says that its reader will learn, a line each."""
    box = re.search(r"You will learn\n+((?:- .*\n(?:  .*\n)*)+)", page.source)
    lines = box[1].removeprefix("- ").split("\n- ") if box else []
    return [" ".join(line.split()).strip(" ;.,") for line in lines]


FILTERS: dict[str, Callable[..., Any]] = {
    "page": page_of,
    "minutes": reading_minutes,
    "exercise_minutes": exercise_minutes,
    "outcomes": learning_outcomes,
}
