"""Exercises of a page: the page holds their solutions; the book shows stubs with the solutions folded, student pages
stubs alone.

An exercise is an admonition of class `exercise`, titled `N · title (difficulty, M minutes)`, a code cell tagged
`exercise` that holds the solution, and the code cell after it, tagged `check`. Of the solution a student sees
`name = ...` where a statement's first line ends in `# SOLUTION`, and `...` for the lines from `# BEGIN SOLUTION` to
`# END SOLUTION` (the marks of Otter-Grader)."""
from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probebook.base import UserError

if TYPE_CHECKING:
    from nbformat import NotebookNode

TITLE = re.compile(r"\{admonition\} (\d+) · (.+) \((easy|medium|hard), (\d+) minutes\)\n:class: exercise")
BLOCK = re.compile(r"^([ \t]*)# BEGIN SOLUTION\n.*?^[ \t]*# END SOLUTION$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^[ \t]*# (?:BEGIN|END) SOLUTION\n?|[ \t]*# SOLUTION$", re.MULTILINE)
KINDS = ("prediction", "interpretation")


@dataclass(frozen=True)
class Exercise:
    """An exercise and where its cells are; its kind is "prediction", "interpretation" or "code"."""
    number: int
    title: str
    difficulty: str
    minutes: int
    kind: str
    cell: int                   # index of the cell with the solution; its check is the next one


def exercises(notebook: NotebookNode, name: str = "page") -> list[Exercise]:
    """The exercises of a page's notebook, in its order. UserError: one without title, solution or check."""
    found, heads = [], []
    cells = notebook.cells
    for i, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            heads += TITLE.findall(cell.source)
        elif "exercise" in (tags := cell.metadata.get("tags", [])):
            number = len(found) + 1
            if len(heads) != number or int(heads[-1][0]) != number:
                raise UserError(f"{name}, exercise {number}: its cell should follow an admonition of class exercise, "
                                f"titled: {number} · title (easy|medium|hard, M minutes)")
            if i + 1 == len(cells) or "check" not in cells[i + 1].metadata.get("tags", []):
                raise UserError(f"{name}, exercise {number}: a code cell tagged check should follow the solution")
            if stub(cell.source) == cell.source:
                raise UserError(f"{name}, exercise {number}: nothing of its cell is marked as solution")
            _, title, difficulty, minutes = heads[-1]
            kind = next((k for k in KINDS if k in tags), "code")
            found.append(Exercise(number, title, difficulty, int(minutes), kind, i))
    if len(heads) != len(found):
        raise UserError(f"{name}: {len(heads)} exercises are announced, {len(found)} have a cell tagged exercise")
    return found


def stub(source: str) -> str:
    """A solution's source with `...` where it is marked."""
    lines = source.splitlines()
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    for node in sorted(statements, key=lambda node: -node.lineno):
        if lines[node.lineno - 1].endswith("# SOLUTION"):
            names = [f"{ast.unparse(target)} = " for target in getattr(node, "targets", [])]
            lines[node.lineno - 1:node.end_lineno] = [" " * node.col_offset + "".join(names) + "..."]
    return BLOCK.sub(r"\1...", "\n".join(lines))


def solution(source: str) -> str:
    """A solution's source without the marks."""
    return MARK.sub("", source).rstrip("\n")


def book_edition(notebook: NotebookNode) -> NotebookNode:
    """An executed page as the book shows it: stub, check with what it answered, the solution folded."""
    from nbformat.v4 import new_markdown_cell
    notebook = deepcopy(notebook)
    for exercise in reversed(exercises(notebook)):
        solved, check = notebook.cells[exercise.cell:exercise.cell + 2]
        text = new_markdown_cell(f"```python\n{stub(solved.source)}\n```", id=f"stub-{exercise.number}")
        if exercise.kind == "prediction":           # its check repeats the answer
            check.metadata.tags = [*check.metadata.tags, "remove-output"]
        solved.source = solution(solved.source)
        solved.metadata.tags = [*solved.metadata.tags, "hide-input"]
        solved.metadata.mystnb = solved.metadata.get("mystnb", {}) | {
            "code_prompt_show": f"Solution of {exercise.number}", "code_prompt_hide": "Hide the solution"}
        notebook.cells[exercise.cell:exercise.cell + 2] = [text, check, solved]
    return notebook


def student_cells(notebook: NotebookNode, page: str) -> Iterator[NotebookNode]:
    """The cells of a page's student edition: stubs in place of solutions, text as plain Markdown, checks locked."""
    found = {exercise.cell: exercise for exercise in exercises(notebook, page)}
    for i, cell in enumerate(notebook.cells):
        cell = deepcopy(cell)
        if i in found:
            cell.source = f"# exercise {found[i].number} of {page}\n{stub(cell.source)}"
            cell.metadata.deletable = False
        elif i - 1 in found:
            cell.metadata.update(editable=False, deletable=False)
        yield cell
