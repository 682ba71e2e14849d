"""Material for lecturers, from the pages and their finished runs: for each chapter slides, a
handout of one page, and solutions.

    write(Path("course"))       # course/1/slides.html, handout.html, handout.pdf, instructor.html

A code cell tagged `slide` is a slide with what it shows; claims, lessons and quizzes are slides of
themselves. Nothing is loaded from the network: `course/offline/` holds what the files need."""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import FileSystemLoader
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import probebook_chapters.checks
from probebook.base import UserError
from probebook_book import pdf
from probebook_book.templates import render
from probebook_runs.labs.exercises import TITLE, Exercise, exercises, rubrics, shown_solution
from probebook_runs.pages import Page, home
from probebook_runs.plain import markdown, stored_numbers
from probebook_runs.store import book_run

if TYPE_CHECKING:
    from nbformat import NotebookNode

OFFLINE = ("mathjax", "reveal")  # folders of book/_static/offline
OUTPUTS = ("image/png", "text/html")
FILES = ("slides.html", "handout.html", "handout.pdf", "instructor.html")


def write(out: Path, chapters: tuple[str, ...] = ()) -> Iterator[Path]:
    """Write the material of chapters (all, if none is named) into `OUT/CHAPTER/`, one chapter after
    the other; yields the files of each when it is complete.

    The handout as PDF is left out where there is no Chromium. UserError: there is no such chapter;
    or, when all others are written, which chapters could not be, and why."""
    known = pdf.chapters()
    if unknown := set(chapters) - set(known):
        raise UserError(f"no chapter {min(unknown)!r}: there are {', '.join(known)}")
    for name in OFFLINE:
        kept = home() / "book" / "_static" / "offline" / name
        shutil.copytree(kept, out / "offline" / name, dirs_exist_ok=True)
    failed = []
    for number in chapters or known:
        try:
            yield from _chapter(out / number, _texts(known[number]))
        except UserError as e:
            failed.append(f"chapter {number} is not written: {e}")
    if failed:
        raise UserError("; ".join(failed))


def _texts(files: list[str]) -> dict[str, str]:
    """The three HTML files of a chapter by name."""
    every = [Page(file.removeprefix("notebooks/")) for file in files]
    pages = [page for page, file in zip(every, files) if file.startswith("notebooks/")]
    title = every[0].title
    return {
        "slides.html": deck(title, pages),
        "handout.html": sheet(title, handout(title, pages), "handout"),
        "instructor.html": sheet(title, instructor(title, pages), "instructor"),
    }


def _chapter(folder: Path, texts: dict[str, str]) -> list[Path]:
    """Write a chapter's files. They replace those of an earlier call when all of them are made."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".probebook-course-") as work:
        made = Path(work)
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
        if browser := pdf.chromium():
            pdf.print_page(browser, made / "handout.html", made)  # handout.pdf
        folder.mkdir(exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
            if (made / name).exists():
                (made / name).rename(folder / name)
    return [folder / name for name in FILES if (folder / name).exists()]


# what the pages say


def text_of(page: Page, heading: str) -> str:
    """A section of a page as plain Markdown with the numbers of the book's run; "" if there is
    none."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", _markdown(page), re.M | re.S)
    return section[1].strip() if section else ""


def box_of(page: Page, kind: str) -> str:
    """A box of a page, `claim` or `needs`, as plain Markdown."""
    box = re.search(rf"^:::\{{div\}} {kind}\n(.*?)\n:::", _source(page), re.M | re.S)
    return _plain(box[1], page) if box else ""


def _source(page: Page) -> str:
    return "\n\n".join(cell.source for cell in page.notebook.cells if cell.cell_type == "markdown")


@cache
def _markdown(page: Page) -> str:
    return _plain(_source(page), page)


def _plain(text: str, page: Page) -> str:
    return markdown(text, stored_numbers(page.name))


# slides


def deck(title: str, pages: list[Page]) -> str:
    """The slides of a chapter as an HTML page of reveal.js."""
    from nbconvert import SlidesExporter

    cells = [_slide(f"# {title}")]
    for page in pages:
        cells += _slides(page)
    exporter = SlidesExporter(
        template_file="deck.html.j2",
        exclude_input=True,
        embed_images=True,
        reveal_url_prefix="../offline/reveal",
        reveal_theme="../reset",
        extra_loaders=[FileSystemLoader(home() / "book" / "templates")],
    )
    return exporter.from_notebook_node(new_notebook(cells=cells, metadata={"title": title}))[0]


def _slide(text: str, kind: str = "slide") -> NotebookNode:
    return new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})


def _slides(page: Page) -> Iterator[NotebookNode]:
    """What one will learn, the claim, the tagged cells, the lesson, the quiz."""
    learn = box_of(page, "needs").partition("You will learn")[2].strip()
    yield _slide(f"## {page.title}\n\n{learn}")
    yield _slide("\n".join(f"> {line}" for line in box_of(page, "claim").splitlines()), "subslide")
    for cell in book_run(page.name).read().cells:
        if "slide" in cell.metadata.get("tags", []):
            caption = cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "")
            yield _slide(_plain(caption.strip(), page), "subslide")
            yield new_code_cell(outputs=list(_outputs(cell)))
    yield _slide(f"### What we learned\n\n{text_of(page, 'What we learned')}", "subslide")
    for question, answers, right in quiz(page):
        options = "\n".join(f"- {answer}" for answer in answers)
        yield _slide(f"{question}\n\n{options}", "subslide")
        yield _slide(right, "fragment")


def _outputs(cell: NotebookNode) -> Iterator[NotebookNode]:
    for output in cell.outputs:
        data = {kind: output.data[kind] for kind in OUTPUTS if kind in output.get("data", {})}
        if data:
            yield new_output("display_data", data)


def quiz(page: Page) -> list[tuple[str, list[str], str]]:
    """Question, possible answers, and the comment on the right one, for each of a page's quiz."""
    questions = []
    for part in re.split(r"^\*\*\d\.\*\*", text_of(page, "Check yourself"), flags=re.M)[1:]:
        options = re.findall(r"<summary>(.*?)</summary>\s*(.*?)\s*</details>", part, re.S)
        answers = [answer for answer, _ in options]
        right = next(f"**{a[:1]}** · {why}" for a, why in options if why.startswith("Right:"))
        questions.append((part.partition("<details>")[0].strip(), answers, right))
    return questions


# handout and solutions


def sheet(title: str, text: str, kind: str) -> str:
    """Markdown as an HTML page that a browser shows and prints."""
    from nbconvert.filters import markdown2html

    return render("sheet.html.j2", title=title, kind=kind, body=markdown2html(text))


def handout(title: str, pages: list[Page]) -> str:
    """One page for students: each page's question and its answer."""
    return render("handout.md.j2", title=title, pages=pages, claim=partial(box_of, kind="claim"))


def instructor(title: str, pages: list[Page]) -> str:
    """Solutions, written answers with their rubrics, and the usual mistakes."""
    return render("instructor.md.j2", title=title, pages=pages, exercises=_solved)


def _solved(page: Page) -> Iterator[dict[str, Any]]:
    """The exercises of a page: title and minutes, the task, an answer, its rubric, mistakes."""
    marks, cells = rubrics(page), page.notebook.cells
    for exercise in exercises(page.notebook, page.name):
        source, check = cells[exercise.cell].source, cells[exercise.cell + 1].source
        yield vars(exercise) | {
            "task": _plain(_task(cells, exercise), page),
            "answer": shown_solution(exercise.kind, source),
            "rubric": marks.get(exercise.number, "").splitlines(),
            "mistakes": mistakes(page, check),
        }


def _task(cells: list[NotebookNode], exercise: Exercise) -> str:
    """What an exercise asks, from the admonition above its cell."""
    before = (cell for cell in cells[: exercise.cell] if cell.cell_type == "markdown")
    above = "\n\n".join(cell.source for cell in before)
    start = list(TITLE.finditer(above))[-1].end()
    return above[start:].partition("\n```")[0].strip()


def mistakes(page: Page, check: str) -> list[str]:
    """What an exercise's check says of wrong answers: the texts in the code of that check."""
    called = re.search(r"check\.(\w+)\(", check)
    chapter = page.name.split("/")[0].partition("_")[2]
    path = Path(probebook_chapters.checks.__file__).with_name(f"{chapter}.py")
    if not called or not path.exists():
        return []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = map(ast.unparse, getattr(node, "targets", []))
        if called[1] in (getattr(node, "name", ""), *names):
            return list(_messages(node))
    return []


def _messages(check: ast.AST) -> Iterator[str]:
    """The hints `why` of a check, and the messages that it raises."""
    for node in ast.walk(check):
        match node:
            case ast.keyword("why", ast.Constant(text)):
                yield str(text)
            case ast.Call(ast.Name("NotRight"), [ast.Constant(text), *_]):
                yield str(text)
