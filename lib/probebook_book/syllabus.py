"""Three paths through the book, and the plan of a four-week course: pages, labs, minutes."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from probebook_book.findings import html_table, page_link
from probebook_book.reading import exercise_minutes, minutes
from probebook_runs.pages import Page, find

WEEKS = {
    "1 · Probing and intervening": (
        "1_causal_probing/01",
        "1_causal_probing/03",
        ["book/paper_1", "1_causal_probing/02", "1_causal_probing/06", "1_causal_probing/08"],
    ),
    "2 · How much data": (
        "3_data_requirements/01",
        "3_data_requirements/07",
        ["book/paper_3", "3_data_requirements/02", "3_data_requirements/06"],
    ),
    "3 · Effects of concepts": (
        "2_concept_effects/01",
        "2_concept_effects/03",
        ["book/paper_2", "2_concept_effects/04", "2_concept_effects/06"],
    ),
    "4 · What a text does not say": (
        "5_semantic_faithfulness/01",
        "5_semantic_faithfulness/02",
        [
            "book/paper_4",
            "4_underspecification/01",
            "4_underspecification/02",
            "4_underspecification/04",
            "book/paper_5",
        ],
    ),
}  # week: (core page, page of the lab, optional pages)


PATHS = {
    "The reader: what the book found": (
        "book/story",
        "book/paper_1",
        "1_causal_probing/06",
        "book/paper_2",
        "2_concept_effects/04",
        "book/paper_3",
        "3_data_requirements/06",
        "book/paper_4",
        "4_underspecification/04",
        "book/paper_5",
        "5_semantic_faithfulness/02",
        "book/audit",
    ),
    "The student: the methods from first principles": (
        "book/story",
        "1_causal_probing/01",
        "1_causal_probing/02",
        "1_causal_probing/03",
        "1_causal_probing/08",
        "3_data_requirements/01",
        "3_data_requirements/06",
        "2_concept_effects/01",
        "2_concept_effects/03",
        "2_concept_effects/06",
        "4_underspecification/01",
        "4_underspecification/02",
        "5_semantic_faithfulness/01",
        "5_semantic_faithfulness/02",
    ),
    "The researcher: a check of one's own model": (
        "book/how_to_use",
        "1_causal_probing/02",
        "1_causal_probing/08",
        "1_causal_probing/09",
        "3_data_requirements/07",
        "6_across_papers/01",
        "6_across_papers/02",
        "6_across_papers/03",
        "book/your_model",
        "7_your_model/01",
        "7_your_model/02",
        "book/audit",
    ),
}  # path: pages in the order of reading


def page_of(name: str) -> Page:
    """A page of a path: of `book/`, or by the beginning of a notebook's name."""
    return Page(name) if name.startswith("book/") else find(name)


def table() -> str:
    """The plan as an HTML table: for each week the core page, the page of the lab, the minutes that
    both take with their exercises, and the optional pages."""
    rows = []
    for week, (core, lab, optional) in WEEKS.items():
        needed = [page_of(core), page_of(lab)]
        reading, doing = (sum(map(count, needed)) for count in (minutes, exercise_minutes))
        rows.append(
            (
                html.escape(week),
                _steps([core]),
                _steps([lab]),
                f"{reading + doing}: {reading} to read, {doing} for exercises",
                _steps(optional),
            )
        )
    return html_table(
        (
            "week",
            "core page (minutes to read)",
            "lab (minutes to read)",
            "minutes of both",
            "optional (minutes to read)",
        ),
        rows,
    )


def outcomes(week: str) -> str:
    """The learning outcomes of a week as an HTML table: its pages, their minutes, what each
    teaches."""
    core, lab, optional = next(pages for name, pages in WEEKS.items() if name.startswith(week))
    kinds = [(core, "core"), (lab, "lab"), *[(name, "optional") for name in optional]]
    rows = []
    for name, kind in kinds:
        page = page_of(name)
        if learnt := "".join(f"<li>{_inline(line)}</li>" for line in taught(page)):
            rows.append((_linked(page), kind, str(minutes(page)), f"<ul>{learnt}</ul>"))
    return html_table(("page", "for", "minutes to read", "you will learn"), rows)


def taught(page: Page) -> list[str]:
    """What a page says that its reader will learn, a line each."""
    box = re.search(r"You will learn\n+((?:- .*\n(?:  .*\n)*)+)", page.source)
    lines = box[1].removeprefix("- ").split("\n- ") if box else []
    return [" ".join(line.split()).strip(" ;.,") for line in lines]


def _inline(line: str) -> str:
    """A line of Markdown as HTML."""
    words = re.sub(r"\{\w+\}`([^`&]+?)(?: &lt;[^`]*)?`", r"\1", html.escape(line))
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", words)


def paths() -> str:
    """The three paths through the book as an HTML table: pages with their minutes, and the sum."""
    rows = [
        (html.escape(path), _steps(names), str(sum(minutes(page_of(name)) for name in names)))
        for path, names in PATHS.items()
    ]
    return html_table(("path", "pages (minutes to read)", "minutes in all"), rows)


def _steps(names: Sequence[str]) -> str:
    """Links to pages with their minutes, a line each."""
    return "<br>".join(f"{_linked(page)} ({minutes(page)})" for page in map(page_of, names))


def _linked(page: Page) -> str:
    return page_link(page.name, page.title)
