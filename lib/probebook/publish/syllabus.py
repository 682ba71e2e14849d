"""Three paths through the book, and the plan of a four-week course: pages, labs, minutes."""
from __future__ import annotations

import html
import re
from collections.abc import Sequence

from probebook.publish.findings import html_table, page_link
from probebook.publish.reading import exercise_minutes, minutes
from probebook.runs.pages import Page, find

WEEKS = {
    "1 · Probing and intervening": (
        "1_causal_probing/01", ["1_causal_probing/02", "1_causal_probing/08"],
        ["1_causal_probing/03", "1_causal_probing/06"]),
    "2 · How much data": (
        "3_data_requirements/01", ["3_data_requirements/06"],
        ["3_data_requirements/02", "3_data_requirements/07"]),
    "3 · Effects of concepts": (
        "2_concept_effects/01", ["2_concept_effects/04"],
        ["2_concept_effects/03", "2_concept_effects/06"]),
    "4 · What a text does not say": (
        "5_semantic_faithfulness/01", ["4_underspecification/02", "4_underspecification/04"],
        ["4_underspecification/01", "5_semantic_faithfulness/02"]),
}                               # week: (the page that all read, further reading, labs)


PATHS = {
    "The reader: what the book found": (
        "book/story", "book/paper_1", "1_causal_probing/06", "book/paper_2", "2_concept_effects/04",
        "book/paper_3", "3_data_requirements/06", "book/paper_4", "4_underspecification/04",
        "book/paper_5", "5_semantic_faithfulness/02", "book/audit"),
    "The student: the methods from first principles": (
        "book/story", "1_causal_probing/01", "1_causal_probing/02", "1_causal_probing/03",
        "1_causal_probing/08", "3_data_requirements/01", "3_data_requirements/06",
        "2_concept_effects/01", "2_concept_effects/03", "2_concept_effects/06",
        "4_underspecification/01", "4_underspecification/02", "5_semantic_faithfulness/01",
        "5_semantic_faithfulness/02"),
    "The researcher: a check of one's own model": (
        "book/how_to_use", "1_causal_probing/02", "1_causal_probing/08", "1_causal_probing/09",
        "3_data_requirements/07", "6_across_papers/01", "book/audit"),
}                               # path: pages in the order of reading


def page_of(name: str) -> Page:
    """A page of a path: of `book/`, or by the beginning of a notebook's name."""
    return Page(name) if name.startswith("book/") else find(name)


def table() -> str:
    """The plan as an HTML table, one row per week: the page that all read, further reading, labs;
    minutes of each."""
    def linked(names: Sequence[str]) -> str:
        return "<br>".join(f"{_linked(page_of(name))} ({minutes(page_of(name))})" for name in names)

    rows = []
    for week, (core, further, labs) in WEEKS.items():
        exercises = sum(exercise_minutes(page_of(name)) for name in labs)
        rows.append((html.escape(week), linked([core]), linked(further), linked(labs),
                     str(exercises)))
    return html_table(("week", "all read (minutes)", "optional (minutes)",
                       "labs (minutes to read)", "minutes of exercises"), rows)


def outcomes(week: str) -> str:
    """What students can do after a week, as an HTML table: its pages and what each teaches."""
    core, further, labs = next(pages for name, pages in WEEKS.items() if name.startswith(week))
    kinds = [(core, "all read"), *[(name, "lab") for name in labs],
             *[(name, "optional") for name in further]]
    rows = []
    for name, kind in kinds:
        page = page_of(name)
        learnt = "<br>".join(_inline(line) for line in taught(page))
        rows.append((_linked(page), kind, learnt))
    return html_table(("page", "for", "you will learn"), rows)


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
    rows = []
    for path, names in PATHS.items():
        pages = [page_of(name) for name in names]
        steps = "<br>".join(f"{_linked(page)} ({minutes(page)})" for page in pages)
        rows.append((html.escape(path), steps, str(sum(map(minutes, pages)))))
    return html_table(("path", "pages (minutes to read)", "minutes in all"), rows)


def _linked(page: Page) -> str:
    return page_link(page.name, page.title)
