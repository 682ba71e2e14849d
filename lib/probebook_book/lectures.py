"""What slides, handouts and solutions take from the pages: boxes, sections, equations, figures,
lines of code, definitions, quizzes.

`book/lectures.yaml` says which, for each chapter, and holds the words that stand on no page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from probebook.base import UserError
from probebook_runs.pages import Page, pages
from probebook_runs.plain import FENCE, markdown, stored_numbers
from probebook_runs.store import book_run

EQUATION = re.compile(r"^\$\$((?:(?!\$\$).)+)\$\$ \(([\w-]+)\)$", re.MULTILINE | re.DOTALL)
TITLED = re.compile(r"\{(table|figure)\} (.+)\n:name: (\S+)")  # a table in the text
REFERENCE = re.compile(r"\{(eq|numref)\}`(?:[^`<]*<)?([^`>]+)>?`")
ENTRY = re.compile(r"^((?:\S.*\n)+)((?:  .*\n|\n(?=  ))+)", re.MULTILINE)
NO_PROSE = ("#", ">", "**", "- ", "|", "<", "```", "$$", "1.")  # how other paragraphs begin


class Figure(NamedTuple):
    """What a cell shows by its kinds of data, with the text about it on the page."""

    heading: str
    name: str
    caption: str
    alt: str
    data: Mapping[str, str]
    before: str
    after: str


class Question(NamedTuple):
    """A question of a page's quiz: the answers that it offers, with what the page says to whoever
    chooses them. To the right one it says "Right: …"."""

    name: str
    text: str
    options: dict[str, str]


def excerpt(wanted: Mapping[str, Any]) -> str:
    """The paragraph of a `page` that `begins` so, or `lines` of its code. UserError: none does."""
    page, begins = Page(wanted["page"]), wanted["begins"]
    found = re.search(rf"^ *{re.escape(begins)}.*?(?=\n\n|\Z)", page.source, re.M | re.S)
    if not found:
        raise UserError(f"book/lectures.yaml: no line of {page.name} begins {begins!r}")
    if "lines" in wanted:
        return textwrap.dedent("\n".join(found[0].splitlines()[: wanted["lines"]]))
    return plain(found[0], page)


def section(page: Page, heading: str) -> str:
    """A section of a page as plain Markdown; "" if there is none."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", _text(page), re.M | re.S)
    return plain(found[1], page).strip() if found else ""


def box(page: Page, kind: str) -> str:
    """A box of a page, `claim` or `needs`, as plain Markdown."""
    found = re.search(rf"^:::\{{div\}} {kind}\n(.*?)\n:::", _text(page), re.M | re.S)
    return plain(found[1], page) if found else ""


def claim(page: Page, phrases: list[str], shown: str) -> str:
    """A page's claim, without its evidence, and with each of these phrases as `shown`. UserError:
    it lacks one of them."""
    text = " ".join(box(page, "claim").split()).partition(" Evidence:")[0]
    for phrase in phrases:
        if phrase not in text:
            raise UserError(f"book/lectures.yaml: {phrase!r} is not in the claim of {page.name}")
        text = text.replace(phrase, shown.format(phrase), 1)
    return text


def opening(page: Page) -> str:
    """A page's example: what stands between its claim and the next heading or cell."""
    cell = next(c.source for c in page.notebook.cells if "{div} claim\n" in c.source)
    below = cell.partition("{div} claim\n")[2].partition("\n:::\n")[2].partition("\n## ")[0]
    return plain(FENCE.sub("", below), page).strip()


def plain(text: str, page: Page) -> str:
    """MyST of a page as plain Markdown, with the stored numbers and with references in words."""
    said = REFERENCE.sub(lambda found: _reference(found[1], found[2], page), text)
    return markdown(said, stored_numbers(page.name))


def _reference(role: str, label: str, page: Page) -> str:
    try:
        if role == "numref":
            return _captions()[label]
        place, number, _ = equations()[label]
    except KeyError:
        raise UserError(f"{page.name} refers to {label!r}, which no page has") from None
    return f"equation {number}" + (f" of “{place.title}”" if place != page else "")


@cache
def _captions() -> dict[str, str]:
    """The figures and tables of all pages in words, by name."""
    found = [named for page in pages() for named in TITLED.findall(page.source)]
    for cell in (cell for page in pages() for cell in page.notebook.cells):
        for kind, about in cell.metadata.get("mystnb", {}).items():
            if kind in ("figure", "table") and "name" in about:
                found.append((kind, about["caption"], about["name"]))
    first = re.compile(r".+?(?=[.:](?:\s|$)|$)", re.DOTALL)  # sentence
    return {
        name: f"the {kind} “{' '.join(first.findall(caption)[0].split())}”"
        for kind, caption, name in found
    }


@cache
def equations() -> dict[str, tuple[Page, int, str]]:
    """The numbered equations by their labels: page, number on it, formula."""
    return {
        label: (page, number, formula.strip().rstrip(",. "))
        for page in [*pages(), Page("book/notation")]
        for number, (formula, label) in enumerate(EQUATION.findall(page.source), 1)
    }


@cache
def definitions() -> dict[str, str]:
    """The glossary: definitions by term, as plain Markdown."""
    page = Page("book/glossary")
    return {
        term: plain(textwrap.dedent(text).strip(), page)
        for block in re.findall(r"^:::\{glossary\}\n(.*?)^:::", page.source, re.M | re.S)
        for terms, text in ENTRY.findall(block)
        for term in terms.splitlines()
    }


@cache
def figures(page: Page) -> list[Figure]:
    """The cells with the tag `slide`, as the book's run of the page shows them."""
    heading, before, found = "", "", []
    cells = book_run(page.name).read().cells
    for i, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            heading = ([heading] + re.findall(r"^## (.+)$", cell.source, re.M))[-1]
            before = ([before] + _paragraphs(cell.source, page))[-1]
        elif "slide" in cell.metadata.get("tags", []):
            text = next((c.source for c in cells[i + 1 :] if c.cell_type == "markdown"), "")
            shown = cell.metadata.get("mystnb", {})
            about = shown.get("figure") or shown.get("table") or {}
            caption = plain(about.get("caption", "").strip(), page)
            name, alt = about.get("name", ""), shown.get("image", {}).get("alt", "")
            every = (output.get("data", {}) for output in cell.outputs)
            data = next(one for one in every if {"image/png", "text/html"} & set(one))
            after = next(iter(_paragraphs(text, page)), "")
            found.append(Figure(heading, name, caption, alt, data, before, after))
    return found


def _paragraphs(text: str, page: Page) -> list[str]:
    """The paragraphs of prose in MyST."""
    parts = re.split(r"\n{2,}", plain(FENCE.sub("", text), page).strip())
    return [part for part in parts if part and not part.startswith(NO_PROSE)]


def quiz(page: Page) -> list[Question]:
    """The questions of a page's quiz."""
    questions = []
    parts = re.split(r"^\*\*\d\.\*\*", section(page, "Check yourself"), flags=re.M)[1:]
    for number, part in enumerate(parts, 1):
        said = re.findall(r"<summary>\w · (.*?)</summary>\s*(.*?)\s*</details>", part, re.S)
        text = part.partition("<details>")[0].strip()
        questions.append(Question(f"{page.name} · {number}", text, dict(said)))
    return questions


def _text(page: Page) -> str:
    return "\n\n".join(cell.source for cell in page.notebook.cells if cell.cell_type == "markdown")
