"""Check how pages are written: `probebook check`.

The rules of form of pages, from the title's question mark to the layout of the code. A rule is a
function that yields the number of a cell, 0 for the whole page, and what is wrong with it."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import get_args

from probebook.base import UserError, atomic_write
from probebook_book.findings import Claim, Evidence, Kind, Paper, verdicts
from probebook_book.reading import FOLD
from probebook_runs.labs.exercises import exercises, rubrics
from probebook_runs.pages import Page, home

COLUMNS = 78  # of code that fit beside the margin, measured at 1,300 pixels
CELL_LINES = 40
HIDDEN_LINES = 10  # of a cell that readers do not see
PAGE_WORDS = 1500  # before the exercises
PAGE_NUMBERS = 15  # of runs, in the text
PARAGRAPH_NUMBERS = 3
CLAIM_WORDS = 60
CLAIM_NUMBERS = 2
EVIDENCE_NUMBERS = 3
QUESTIONS = 2
ANSWERS = 3  # to a question, at least
EXERCISES = (3, 5)  # at least, at most
LAST_SECTIONS = ["What we learned", "Check yourself", "Exercises"]
PURPOSES = ["To understand", "To check the paper", "To use it"]
COLUMN_NAMES = {"mlp", "RLACE", "ot", "ibt", "unk"}  # no words for readers
MAKES_EVIDENCE = set(  # calls that no hidden cell may make
    "mean std var sem median quantile corr corrcoef fit rate bootstrap contrasts holm groupby "
    "write_table".split()
)
GLUED = re.compile(r"\{glue(?::\w+)?\}`")
CLAIM = re.compile(r":::\{div\} claim\n(.*?)\n:::", re.DOTALL)
CODE_CELL = re.compile(
    r"(?P<head>^```\{code-cell\}[^\n]*\n(?:(?::[^\n]*\n)+\n?|---\n.*?\n---\n)?)"
    r"(?P<code>.*?)(?P<end>^```$)",
    re.DOTALL | re.MULTILINE,
)
MAGIC = re.compile(r"^\s*(?:%{1,2}\w|!(?!=)).*$", re.MULTILINE)  # IPython's, not x != y

Faults = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class Cell:
    """A cell of a page, numbered from 1."""

    number: int
    source: str
    code: bool
    tags: frozenset[str]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """What its code consists of; nothing where it cannot be parsed."""
        try:
            return [*ast.walk(ast.parse(MAGIC.sub("pass", self.source)))] if self.code else []
        except SyntaxError:
            return []

    def names(self, context: type[ast.expr_context]) -> set[str]:
        """The names that it reads (`ast.Load`) or binds (`ast.Store`)."""
        return {
            node.id
            for node in self.nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, context)
        }


def check(pages: Sequence[Page], fix: bool = False) -> list[str]:
    """Find what breaks the rules, a line each: "PAGE:cell N: what".

    With `fix`, code cells are laid out first and the pages written. UserError: ruff is missing."""
    layouts = lay_out(pages)
    if fix:
        for page in pages:
            if layouts[page.name] != page.source:
                with atomic_write(page.path) as part:
                    part.write_text(layouts[page.name], encoding="utf-8")
        pages = [Page(page.name) for page in pages]
    lines = []
    for page in pages:
        faults = [*_layout(page, layouts[page.name])]
        cells = read_cells(page)
        for rule in RULES:
            faults += rule(page, cells)
        for number, what in sorted(faults):
            lines.append(f"{page.name}{f':cell {number}' if number else ''}: {what}")
    return lines


def check_papers() -> list[str]:
    """Find what breaks the rules in the verdicts on the papers, and in the papers' first pages."""
    lines = []
    for paper in verdicts():
        opener = (home() / "book" / f"paper_{paper.paper}.md").read_text(encoding="utf-8")
        lines += [f"book/paper_{paper.paper}: {what}" for what in opener_faults(paper, opener)]
        for claim in paper.claims:
            where = f"book/verdicts.yaml: paper {paper.paper}, {claim.claim!r}"
            lines += [f"{where}: {what}" for what in claim_faults(claim)]
    return lines


def read_cells(page: Page) -> list[Cell]:
    """The cells of a page."""
    return [
        Cell(number, one.source, one.cell_type == "code", frozenset(one.metadata.get("tags", [])))
        for number, one in enumerate(page.notebook.cells, 1)
    ]


def lay_out(pages: Sequence[Page]) -> dict[str, str]:
    """The sources of pages, by name, with every code cell as ruff lays it out. Cells with lines of
    IPython, and those that cannot be parsed, stay as they are.

    UserError: ruff is missing."""
    if not importlib.util.find_spec("ruff"):
        raise UserError("ruff, which lays out code, is not installed: pip install ruff")
    cells = {
        (page.name, place): match["code"]
        for page in pages
        for place, match in enumerate(CODE_CELL.finditer(page.source))
        if not MAGIC.search(match["code"])
    }
    with tempfile.TemporaryDirectory() as folder:
        files = {key: Path(folder, f"{i}.py") for i, key in enumerate(cells)}
        for key, path in files.items():
            path.write_text(cells[key], encoding="utf-8")
        options = ["--isolated", "--target-version=py311", f"--line-length={COLUMNS}", "-q", folder]
        command = [sys.executable, "-m", "ruff", "format", *options]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
        cells = {key: path.read_text(encoding="utf-8") for key, path in files.items()}
    sources = {}
    for page in pages:
        places = count()
        sources[page.name] = CODE_CELL.sub(
            lambda match: (
                match["head"] + cells.get((page.name, next(places)), match["code"]) + match["end"]
            ),
            page.source,
        )
    return sources


def _layout(page: Page, laid_out: str) -> Faults:
    numbers = [cell.number for cell in read_cells(page) if cell.code]
    sources = (CODE_CELL.findall(source) for source in (page.source, laid_out))
    for number, now, formatted in zip(numbers, *sources):
        if now != formatted:
            yield number, "its code is not laid out: probebook check --fix"


def _shape(page: Page, cells: list[Cell]) -> Faults:
    text = _text(cells)
    if not page.title.endswith("?"):
        yield 1, f"its title is no question: {page.title!r}"
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    last = [heading for heading in headings if heading in LAST_SECTIONS]
    if last != LAST_SECTIONS:
        yield 0, f"its last sections should be {', '.join(LAST_SECTIONS)}, not {', '.join(last)}"
    if ":::{div} needs" not in text:
        yield 0, "it has no box with what to have read, :::{div} needs"


def _numbers_in_prose(page: Page, cells: list[Cell]) -> Faults:
    if (numbers := len(GLUED.findall(_text(cells)))) > PAGE_NUMBERS:
        yield 0, f"{numbers} numbers in its text, at most {PAGE_NUMBERS}"
    for cell in cells:
        for paragraph in [] if cell.code else cell.source.split("\n\n"):
            if (numbers := len(GLUED.findall(paragraph))) > PARAGRAPH_NUMBERS:
                start = _start(paragraph)
                yield cell.number, f"{numbers} numbers in {start}, at most {PARAGRAPH_NUMBERS}"


def _claim(page: Page, cells: list[Cell]) -> Faults:
    boxes = [(cell.number, box) for cell in cells for box in CLAIM.findall(cell.source)]
    if len(boxes) != 1:
        yield 0, f"it should have one claim box, :::{{div}} claim, not {len(boxes)}"
    for number, box in boxes:
        if (words := len(box.split())) > CLAIM_WORDS:
            yield number, f"{words} words in its claim box, at most {CLAIM_WORDS}"
        if (numbers := len(GLUED.findall(box))) > CLAIM_NUMBERS:
            yield number, f"{numbers} numbers in its claim box, at most {CLAIM_NUMBERS}"
        kinds = [f"**{kind}**" for kind in get_args(Kind)]
        if not any(kind in box for kind in kinds):
            yield number, f"its claim box names no kind of evidence: {', '.join(kinds)}"


def _words(page: Page, cells: list[Cell]) -> Faults:
    text = FOLD.sub("", _text(cells).partition("\n## Exercises")[0])
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$", " x ", text, flags=re.DOTALL)
    text = re.sub(r"\{[\w:]+\}`[^`]*`|[`:{}|#*-]", " w ", text)
    words = len(re.findall(r"[A-Za-z]\S*", re.sub(r"\bw\b(?:\s+w\b)*", "w", text)))
    if words > PAGE_WORDS:
        yield 0, f"{words} words before its exercises, at most {PAGE_WORDS}"


def _questions(page: Page, cells: list[Cell]) -> Faults:
    part = (_text(cells) + "\n## ").partition("\n## Check yourself\n")[2].partition("\n## ")[0]
    questions = re.split(r"^\*\*\d\.\*\*", part, flags=re.MULTILINE)[1:]
    if len(questions) != QUESTIONS:
        yield 0, f"{len(questions)} questions in Check yourself, not {QUESTIONS}"
    for i, question in enumerate(questions, 1):
        answers = re.findall(r"\{dropdown\}.*?\n(Right:|Not quite:)?", question)
        if len(answers) < ANSWERS or "" in answers:
            yield 0, f"question {i}: it needs {ANSWERS} answers that open Right: or Not quite:"
        if answers.count("Right:") != 1:
            yield 0, f"question {i}: {answers.count('Right:')} of its answers are right, not one"


def _exercises(page: Page, cells: list[Cell]) -> Faults:
    try:
        asked = exercises(page.notebook, page.name)
        marked = rubrics(page)
    except UserError as e:
        yield 0, str(e).removeprefix(f"{page.name}: ")
        return
    except SyntaxError:  # which the rule of cells names
        return
    least, most = EXERCISES
    if not least <= len(asked) <= most:
        yield 0, f"{len(asked)} exercises, not {least} to {most}"
    if missing := {"prediction", "interpretation", "code"} - {one.kind for one in asked}:
        yield 0, f"no exercise asks for {' or '.join(sorted(missing))}"
    if _text(cells).count("{dropdown} Hint") != len(asked):
        yield 0, "each exercise needs a fold with a hint, {dropdown} Hint"
    if "{dropdown} Solution" in _text(cells):
        yield 0, "it shows a solution: students' answers are checked instead"
    abouts = [cell.metadata.get("mystnb", {}) for cell in page.notebook.cells]
    last_figure = max((i for i, about in enumerate(abouts) if "figure" in about), default=0)
    for one in asked:
        if one.kind == "prediction" and one.cell > last_figure:
            yield one.cell + 1, "its prediction follows every figure that could answer it"
        if one.kind == "interpretation" and one.number not in marked:
            yield one.cell + 1, "its written answer has no rubric in book/rubrics.yaml"


def _cells(page: Page, cells: list[Cell]) -> Faults:
    for cell in cells:
        if not cell.code:
            continue
        if not cell.nodes:
            yield cell.number, f"its code cannot be parsed: {_start(cell.source)}"
        lines = cell.source.splitlines()
        if len(lines) > CELL_LINES and not cell.tags & {"parameters", "exercise"}:
            yield cell.number, f"{len(lines)} lines in {_start(cell.source)}, at most {CELL_LINES}"
        for line in lines:
            if len(line) > COLUMNS:
                yield cell.number, f"a line of {len(line)} characters: {_start(line.strip())}"


def _leaders(page: Page, cells: list[Cell]) -> Faults:
    """Row labels may be doubled, as after `pd.concat`: a leader found by its label is several."""
    for cell in cells:
        if re.search(r"\.groupby\([^()]*\)(\.\w+)?\.idx(max|min)\(", cell.source):
            yield cell.number, "it picks a group's leader by its label: measures.leaders.best_rows"


def _chosen_words(page: Page, cells: list[Cell]) -> Faults:
    for cell in cells:
        for node in cell.nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("glue", "in_text"):
                if any(isinstance(part, ast.IfExp) for part in ast.walk(node)):
                    yield cell.number, f"words of the text are chosen: {_start(ast.unparse(node))}"


def _hidden(page: Page, cells: list[Cell]) -> Faults:
    shown = [cell for cell in cells if "remove-cell" not in cell.tags]
    bound = set().union(*(cell.names(ast.Store) for cell in shown))
    for cell in cells:
        if cell in shown:
            continue
        if (lines := len(cell.source.splitlines())) > HIDDEN_LINES:
            yield cell.number, f"{lines} lines in a hidden cell, at most {HIDDEN_LINES}"
        decides = ast.Assert | ast.FunctionDef | ast.If | ast.IfExp
        if any(isinstance(node, decides) for node in cell.nodes):
            yield cell.number, "a hidden cell asserts, chooses or defines a function"
        calls = (node.func for node in cell.nodes if isinstance(node, ast.Call))
        called = {getattr(func, "attr", getattr(func, "id", "")) for func in calls}
        if hidden := called & MAKES_EVIDENCE:
            yield cell.number, f"a hidden cell calls {', '.join(sorted(hidden))}"
        later = (other.names(ast.Load) for other in shown if other.number > cell.number)
        if needed := (cell.names(ast.Store) & set().union(*later)) - bound:
            yield cell.number, f"visible code needs {', '.join(sorted(needed))} of a hidden cell"


RULES = (
    _shape,
    _numbers_in_prose,
    _claim,
    _words,
    _questions,
    _exercises,
    _cells,
    _leaders,
    _chosen_words,
    _hidden,
)


def opener_faults(paper: Paper, opener: str) -> Iterator[str]:
    """What breaks the rules in the page that opens a paper's chapter."""
    for box in CLAIM.findall(opener):
        if (words := len(box.split())) > CLAIM_WORDS:
            yield f"{words} words in its claim box, at most {CLAIM_WORDS}"
    beside = opener.partition("\n## Published beside ours\n")[2].partition("\n## ")[0]
    link = f"{{doc}}`../notebooks/{paper.chapter}/"
    for part in ("published(", "figures.versus_published(", link):
        if not re.search(rf"(?<!\w){re.escape(part)}", beside):
            yield f"its section Published beside ours lacks {part}"
    read = opener.partition("\n## What to read\n")[2]
    items = re.findall(r"^- \*\*(.+?)\*\*: (.+?)(?=^- |\Z)", read, re.MULTILINE | re.DOTALL)
    if [name.split(" on ")[0] for name, _ in items] != PURPOSES:
        yield f"its section What to read should have the items {', '.join(PURPOSES)}"
    for name, text in items:
        if "{doc}`" not in text:
            yield f"its section What to read links to no page under {name}"


def claim_faults(claim: Claim) -> Iterator[str]:
    """What breaks the rules in a claim's evidence, which is nearest first."""
    kinds = [get_args(Kind).index(line.kind) for line in claim.evidence]
    if kinds != sorted(kinds):
        yield f"its evidence should come in the order {', '.join(get_args(Kind))}"
    for line in claim.evidence:
        for what in evidence_faults(line):
            yield f"{line.kind}: {what}"


def evidence_faults(line: Evidence) -> Iterator[str]:
    """What breaks the rules in the sentences on one kind of evidence."""
    text = line.text.strip()
    words = re.sub(r"\{[^}]*\}", "", text)
    if re.search(r"(?<![A-Za-z])\d", words):
        yield f"a number is typed, and none of a run: {_start(text)}"
    if not text.endswith(".") or not (text[0] == "{" or text[0].isupper()):
        yield f"no sentence: {_start(text)}"
    if (numbers := len(re.findall(r"\{[^}]*\}", text))) > EVIDENCE_NUMBERS:
        yield f"{numbers} numbers, at most {EVIDENCE_NUMBERS}"
    if names := COLUMN_NAMES & set(re.findall(r"[\w-]+", words)):
        yield f"names of columns: {', '.join(sorted(names))}"


def _text(cells: list[Cell]) -> str:
    return "\n\n".join(cell.source for cell in cells if not cell.code)


def _start(text: str) -> str:
    """The first words of a text, in quotes."""
    line = text.strip().partition("\n")[0]
    return repr(line if len(line) <= 50 else f"{line[:49]}…")
