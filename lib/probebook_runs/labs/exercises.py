"""Exercises of a page. The page's source holds the solutions; the book folds them in below each
check, and students' notebooks show stubs alone.

An exercise is an admonition of class `exercise`, titled `N · title (difficulty, M minutes)`, then a
code cell tagged `exercise` with the solution, then a code cell tagged `check`. The marks of
Otter-Grader say what students do not see: a statement with a line that ends in `# SOLUTION` becomes
`name = ...`, and the lines from `# BEGIN SOLUTION` to `# END SOLUTION` become `...`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probebook.base import UserError, read_yaml
from probebook_runs.pages import Page, home

if TYPE_CHECKING:
    from nbformat import NotebookNode

TITLE = re.compile(
    r"\{admonition\} (\d+) · (.+) \((easy|medium|hard), (\d+) minutes\)\n"
    ":class: exercise"
)
BLOCK = re.compile(
    r"^([ \t]*)# BEGIN SOLUTION\n.*?^[ \t]*# END SOLUTION$", re.MULTILINE | re.DOTALL
)
MARK = re.compile(r"^[ \t]*# (?:BEGIN|END) SOLUTION\n?|[ \t]*# SOLUTION$", re.MULTILINE)
ANSWER = re.compile(r"^[ \t]*#[ \t]*exercise (\d+) of (\S+)[ \t]*$", re.MULTILINE)
KINDS = ("prediction", "interpretation")
FOLD = "A solution (try first)"  # the title of what the book folds in
POINTS = {"full": "2 points", "partial": "1 point", "wrong": "0 points"}


@dataclass(frozen=True)
class Exercise:
    """An exercise of a page, and the index of its cell; the next cell is its check."""

    number: int
    title: str
    difficulty: str
    minutes: int
    kind: str  # "prediction", "interpretation" or "code"
    cell: int


def exercises(notebook: NotebookNode, name: str = "page") -> list[Exercise]:
    """The exercises of a page's notebook, in its order.

    UserError: an exercise has no title, no marked solution or no check."""
    listed: list[Exercise] = []
    titles: list[tuple] = []
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            titles += TITLE.findall(cell.source)
        elif "exercise" in _tags(cell):
            listed.append(_exercise(notebook.cells, i, len(listed) + 1, titles, name))
    if len(titles) != len(listed):
        have = f"{len(listed)} have a cell tagged exercise"
        raise UserError(f"{name}: {len(titles)} exercises are announced, {have}")
    return listed


def _exercise(
    cells: list[NotebookNode], i: int, number: int, titles: list[tuple], page: str
) -> Exercise:
    which = f"{page}, exercise {number}"
    if len(titles) != number or int(titles[-1][0]) != number:
        raise UserError(
            f"{which}: its cell should follow an admonition of class exercise, titled: "
            f"{number} · title (easy|medium|hard, M minutes)"
        )
    if i + 1 == len(cells) or "check" not in _tags(cells[i + 1]):
        raise UserError(f"{which}: a code cell tagged check should follow the solution")
    if stub(cells[i].source) == cells[i].source:
        raise UserError(f"{which}: nothing of its cell is marked as solution")
    _, title, difficulty, minutes = titles[-1]
    kind = next((kind for kind in KINDS if kind in _tags(cells[i])), "code")
    return Exercise(number, title, difficulty, int(minutes), kind, i)


def _tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def stub(source: str) -> str:
    """A solution's source with `...` in place of what is marked."""
    lines = source.splitlines()
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda node: -node.lineno):
        simple = not hasattr(node, "body")
        marked = lines[node.lineno - 1 : node.end_lineno if simple else node.lineno]
        if any(line.endswith("# SOLUTION") for line in marked):
            names = [f"{ast.unparse(target)} = " for target in getattr(node, "targets", [])]
            line = " " * node.col_offset + "".join(names) + "..."
            lines[node.lineno - 1 : node.end_lineno] = [line]
    return BLOCK.sub(r"\1...", "\n".join(lines))


def solution(source: str) -> str:
    """A solution's source without the marks."""
    return MARK.sub("", source).rstrip("\n")


def model_answer(source: str) -> str:
    """The text that a written answer's cell assigns last, below the code that it comes from, if
    any, as Markdown. UserError: it assigns none."""
    body = ast.parse(source).body
    texts = []
    for node in body:
        match node:
            case ast.Assign(_, ast.Constant(str(text))):
                texts.append((node, text))
    if not texts:
        raise UserError(f"an interpretation should assign a text: {source.splitlines()[0]!r}")
    code = "\n".join(ast.unparse(node) for node in body if node is not texts[-1][0])
    quoted = f"> {texts[-1][1]}"
    return f"```python\n{code}\n```\n\n{quoted}" if code else quoted


def shown_solution(kind: str, source: str) -> str:
    """The solution of an exercise of this kind, as Markdown: its code, or the written answer."""
    code = f"```python\n{solution(source)}\n```"
    return model_answer(source) if kind == "interpretation" else code


def book_edition(notebook: NotebookNode) -> NotebookNode:
    """An executed page as the book shows it: the stub, its check, and the solution in a fold.

    What the check says of the solution is left out: above it stands a stub that nobody filled."""
    from nbformat.v4 import new_markdown_cell

    notebook = deepcopy(notebook)
    for exercise in reversed(exercises(notebook)):
        at = exercise.cell
        solved, check = notebook.cells[at : at + 2]
        text = f"```python\n{stub(solved.source)}\n```"
        fold = f"````{{dropdown}} {FOLD}\n{shown_solution(exercise.kind, solved.source)}\n````"
        check.metadata.tags = [*check.metadata.tags, "remove-output"]
        notebook.cells[at : at + 2] = [
            new_markdown_cell(text, id=f"stub-{exercise.number}"),
            check,
            new_markdown_cell(fold, id=f"solution-{exercise.number}"),
        ]
    return notebook


def mark(number: int, page: str) -> str:
    """The first line of an exercise's cell in students' notebooks, which names it to the grader, as
    the cell's id does."""
    return f"# exercise {number} of {page}\n"


def answers(cell: NotebookNode) -> list[tuple[int, str]]:
    """The exercises that a student's cell answers, each with its source.

    The cell's own id counts; else the lines in it that name exercises, several where cells were
    merged."""
    if cell.cell_type != "code":
        return []
    lines = [*ANSWER.finditer(cell.source)]
    own = re.fullmatch(r"exercise-(\d+)", cell.get("id", ""))
    if own and len(lines) < 2:
        return [(int(own[1]), cell.source)]
    starts = [0, *(line.start() for line in lines[1:]), None]
    return [(int(line[1]), cell.source[a:b]) for line, a, b in zip(lines, starts, starts[1:])]


def is_stub(source: str, stub: str) -> bool:
    """Whether an answer has no code but its stub's."""
    given, empty = (
        [code for line in text.splitlines() if (code := line.partition("#")[0].rstrip())]
        for text in (source, stub)
    )
    return given in ([], empty)


def student_cells(notebook: NotebookNode, page: str) -> Iterator[NotebookNode]:
    """The cells of a page for students: stubs in place of solutions, locked checks."""
    numbers = {exercise.cell: exercise.number for exercise in exercises(notebook, page)}
    for i, cell in enumerate(notebook.cells):
        cell = deepcopy(cell)
        if i in numbers:
            cell.source = mark(numbers[i], page) + stub(cell.source)
            cell.id = f"exercise-{numbers[i]}"
            cell.metadata.deletable = False
        elif i - 1 in numbers:
            cell.metadata.update(editable=False, deletable=False)
        yield cell


def rubrics(page: Page) -> dict[int, str]:
    """How to mark the written answers of a page, as `book/rubrics.yaml` says: by exercise, a line
    for 2, 1 and 0 points.

    UserError: the page's entry in the file lacks one of the three."""
    path = home() / "book" / "rubrics.yaml"
    rubric = read_yaml(path).get(page.name) if path.exists() else None
    if rubric is None:
        return {}
    if set(rubric) != set(POINTS):
        raise UserError(f"{path.name}: {page.name} should have {', '.join(POINTS)}")
    lines = "\n".join(f"{points}: {rubric[kind]}" for kind, points in POINTS.items())
    return {
        exercise.number: lines
        for exercise in exercises(page.notebook, page.name)
        if exercise.kind == "interpretation"
    }
