"""Material for lecturers, from the pages and their finished runs: for each chapter slides, a
handout of one page, and solutions; and the quizzes of all pages for learning platforms.

    write(Path("course"))       # course/1/slides.html, handout.html, handout.pdf, instructor.html

`lectures` says what of a page is shown. Nothing is loaded from the network: `course/offline/` holds
what the files need."""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

import probebook_chapters.checks
from probebook.base import UserError, read_yaml
from probebook_book import lectures, pdf, quizzes
from probebook_book.templates import render
from probebook_runs.labs.exercises import TITLE, Exercise, exercises, rubrics, shown_solution
from probebook_runs.pages import Page, home

if TYPE_CHECKING:
    from nbformat import NotebookNode

OFFLINE = ("mathjax", "reveal")  # folders of book/_static/offline
FILES = ("slides.html", "handout.html", "handout.pdf", "instructor.html")
PIECE = re.compile(  # of a page: its code, formulas and tags stay as they are
    r"<(script|style|pre|code)\b.*?</\1>|\$\$.+?\$\$|\$[^$<]+\$|<[^>]+>|(?P<text>[^<$]+|\$)",
    re.DOTALL,
)


def write(out: Path, chapters: tuple[str, ...] = ()) -> Iterator[Path]:
    """Write the material of chapters (all, if none is named) into `OUT/CHAPTER/`, one chapter after
    the other; yields the files of each when it is complete. The quizzes lie beside the chapters.

    The handout as PDF is left out where there is no Chromium. UserError: there is no such chapter;
    or, when all others are written, which chapters could not be, and why."""
    known = pdf.chapters()
    if unknown := set(chapters) - set(known):
        raise UserError(f"no chapter {min(unknown)!r}: there are {', '.join(known)}")
    for name in OFFLINE:
        kept = home() / "book" / "_static" / "offline" / name
        shutil.copytree(kept, out / "offline" / name, dirs_exist_ok=True)
    yield from quizzes.write(out)
    failed = []
    for number in chapters or known:
        try:
            yield from _chapter(out / number, _texts(number, known[number]))
        except UserError as e:
            failed.append(f"chapter {number} is not written: {e}")
    if failed:
        raise UserError("; ".join(failed))


def _texts(number: str, files: list[str]) -> dict[str, str]:
    """The three HTML files of a chapter by name."""
    every = [Page(file.removeprefix("notebooks/")) for file in files]
    pages = [page for page, file in zip(every, files) if file.startswith("notebooks/")]
    shown: dict[str, Any] = {
        "title": every[0].title,
        "pages": pages,
        "lecture": read_yaml(home() / "book" / "lectures.yaml").get(int(number), {}),
        "definitions": lectures.definitions(),
        "equations": lectures.equations(),
    }
    texts = {"slides.html": render("deck.html.j2", FILTERS, **shown)}
    for kind in ("handout", "instructor"):
        body = to_html(render(f"{kind}.md.j2", FILTERS, **shown))
        texts[f"{kind}.html"] = render("sheet.html.j2", title=every[0].title, kind=kind, body=body)
    return {name: typeset(text) for name, text in texts.items()}


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


def to_html(text: str) -> Markup:
    """Markdown as HTML, without links to its own headings."""
    from nbconvert.filters import markdown2html

    return Markup(re.sub(r'<a class="anchor-link".*?</a>', "", markdown2html(text)))


def typeset(html: str) -> str:
    """A page with curly quotes."""
    from docutils.utils.smartquotes import educate_tokens

    pieces = PIECE.finditer(html.replace("&#39;", "'").replace("&#34;", "&quot;"))
    tokens = [("plain" if one["text"] else "tag", one[0]) for one in pieces]
    return "".join(educate_tokens(tokens, "qw"))


def _solved(page: Page) -> Iterator[dict[str, Any]]:
    """The exercises of a page: title and minutes, the task, an answer, its rubric, mistakes."""
    marks, cells = rubrics(page), page.notebook.cells
    for exercise in exercises(page.notebook, page.name):
        source, check = cells[exercise.cell].source, cells[exercise.cell + 1].source
        yield vars(exercise) | {
            "task": lectures.plain(_task(cells, exercise), page),
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


FILTERS: dict[str, Callable[..., Any]] = {
    "box": lectures.box,
    "claim": lectures.claim,
    "excerpt": lectures.excerpt,
    "exercises": _solved,
    "figures": lectures.figures,
    "html": to_html,
    "opening": lectures.opening,
    "quiz": lectures.quiz,
    "section": lectures.section,
}
