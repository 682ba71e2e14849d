"""Grading: the checks of many submissions, each run from its page's own cells with the student's answers in place."""
from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pandas as pd
import psutil
from nbformat.v4 import new_code_cell, new_notebook
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from rich.console import Console

from probebook.base import written_whole
from probebook.labs import sandbox
from probebook.labs.exercises import exercises, student_cells
from probebook.runs.execute import kernel_environment
from probebook.runs.kernels import Limits, ended_beyond
from probebook.runs.page import HIDDEN
from probebook.runs.pages import Page, pages
from probebook.runs.store import plan

if TYPE_CHECKING:
    from nbformat import NotebookNode

MARK = re.compile(r"# exercise (\d+) of (\S+)\n")
GIVEN = {"prediction": "predicted", "interpretation": "to read", "code": "passed"}
SAID = {"NotDone": "not done", "NotRight": "wrong"}
COLUMNS = ["submission", "page", "exercise", "title", "outcome", "message", "answer"]


def grade(folder: Path, out: Path, profile: str, workers: int, limits: Limits) -> pd.DataFrame:
    """Run every notebook of a folder and write `OUT.csv` and `OUT.html`, a row an exercise of a submission.

    Outcomes: passed, predicted, to read, wrong, error, not done, missing, not reached; a notebook that is none of a
    page has one row. UserError: a folder without notebooks."""
    paths = sandbox.submissions(folder)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if why := sandbox.missing():
        console.print(f"{why}: submissions run with your rights and network; see Grading in the book", markup=False)

    def one(path: Path) -> pd.DataFrame:
        table = pd.DataFrame(_rows(path, folder, profile, limits), columns=COLUMNS[1:])
        table.insert(0, "submission", path.relative_to(folder).with_suffix("").as_posix())
        fine = table.outcome.isin(GIVEN.values()).sum()
        console.print(f"{table.submission[0]}: {fine} of {len(table)}", markup=False)
        return table

    with kernel_environment(1, profile), ThreadPoolExecutor(workers) as pool:
        table = pd.concat(pool.map(one, paths), ignore_index=True)
    with written_whole(out.with_suffix(".csv")) as part:
        table.map(_no_formula).to_csv(part, index=False)
    with written_whole(out.with_suffix(".html")) as part:
        part.write_text(_html(table), encoding="utf-8")
    return table


def graft(page: Page, submitted: NotebookNode) -> tuple[NotebookNode, set[int]]:
    """The page's notebook with a student's answers, and the numbers of the exercises that are in it.

    Cells that the student added run where they stand; the page's own are the page's, whatever became of them."""
    own = list(student_cells(page.notebook, page.name))
    place = {cell.id: i for i, cell in enumerate(own)} | {cell.source.strip(): i for i, cell in enumerate(own)}
    at = {e.number: e.cell for e in exercises(page.notebook)}
    answers, added, last = {}, {}, None
    for cell in submitted.cells:
        if cell.cell_type != "code":
            continue
        if (found := MARK.match(cell.source)) and int(found[1]) in at:
            last = at[int(found[1])]
            answers[int(found[1])] = own[last].source = cell.source
        elif (known := place.get(cell.get("id"), place.get(cell.source.strip()))) is not None:
            last = known
        elif last is not None:                          # before the first cell there is only the installation
            added.setdefault(last, []).append(new_code_cell(cell.source))
    cells = [one for i, cell in enumerate(own) for one in (cell, *added.get(i, []))]
    return new_notebook(cells=cells, metadata=page.notebook.metadata), set(answers)


def _rows(path: Path, folder: Path, profile: str, limits: Limits) -> list[tuple]:
    """Page, exercise, title, outcome, message, answer of each exercise of one submission."""
    try:
        submitted = nbformat.read(path, as_version=4)
        name = _page_of(submitted)
    except Exception as e:                              # a file of a student's may be anything
        return [("", 0, "", "error", f"cannot be read as a notebook: {type(e).__name__}", "")]
    if name not in [page.name for page in pages()]:
        return [("", 0, "", "error", f"is no page of this book: {name or 'no exercise names one'}", "")]
    page = Page(name)
    notebook, present = graft(page, submitted)
    notebook = parameterize_notebook(load_notebook_node(notebook), plan(page, profile).changed)
    done, ended = _attempt(notebook, folder, limits)
    rows = []
    for exercise in exercises(page.notebook):
        solved, check = (done.get(page.notebook.cells[i].id) for i in (exercise.cell, exercise.cell + 1))
        outcome = _outcome(solved, check, GIVEN[exercise.kind], ended) if exercise.number in present else (
            "missing", "its cell is not in the notebook", "")
        rows.append((name, exercise.number, exercise.title, *outcome))
    return rows


def _page_of(submitted: NotebookNode) -> str:
    marks = [found for cell in submitted.cells if (found := MARK.match(cell.source))]
    return marks[0][2] if marks else submitted.metadata.get("probebook", {}).get("page", "")


def _attempt(notebook: NotebookNode, folder: Path, limits: Limits) -> tuple[dict[str, NotebookNode], str]:
    """The cells that ran, by id, and why the rest did not ("": all ran)."""
    with tempfile.TemporaryDirectory(prefix="probebook-lab-", ignore_cleanup_errors=True) as work:
        work = Path(work).resolve()
        nbformat.write(notebook, work / "submission.ipynb")
        words = [sys.executable, "-m", "probebook.labs.attempt", "submission.ipynb", "done.ipynb"]
        words = sandbox.command(words, work, folder.resolve())
        with ended_beyond(limits) as (processes, reason), open(work / "errors", "w+b") as errors:
            started = subprocess.Popen(words, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=errors, start_new_session=True, env=sandbox.environment(work))
            processes.append(psutil.Process(started.pid))
            started.wait()
            errors.seek(0)
            last = errors.read()[-2000:].decode(errors="replace").strip().splitlines()[-1:]
        why = reason()
        if started.returncode and not why:
            why = f"its process ended: {' '.join(last)[:200] or started.returncode}"
        try:
            done = nbformat.read(work / "done.ipynb", as_version=4)
        except Exception:                               # none yet, or the student's code has written there
            return {}, why or "its results cannot be read"
    return {cell.id: cell for cell in done.cells if cell.get("execution_count")}, why


def _outcome(solved, check, given: str, ended: str) -> tuple[str, str, str]:
    """Outcome, message and answer, of an exercise's two cells as they ran."""
    if check is None:
        return "not reached", ended, ""
    errors = [o for cell in (solved, check) for o in cell.outputs if o.output_type == "error"]
    for error in sorted(errors, key=lambda o: o.ename not in SAID):         # the check's word; else what came first
        kind = SAID.get(error.ename, "error")
        return kind, error.evalue if kind != "error" else f"{error.ename}: {error.evalue}"[:300], ""
    kept = [o.data[HIDDEN + "text/plain"] for o in check.outputs if HIDDEN + "text/plain" in o.get("data", {})]
    return given, "", "".join(kept)


def _no_formula(value):
    """Text that a spreadsheet would take for a formula, as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _html(table: pd.DataFrame) -> str:
    """A page with a line a submission (exercises by outcome), then all rows; text as it is written."""
    counts = pd.crosstab(table.submission, table.outcome).rename_axis(columns=None).reset_index()
    head = ("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            "<title>Grades</title><style>body{font:1rem/1.5 sans-serif;margin:2rem}table{border-collapse:collapse}"
            "th,td{padding:.3rem .6rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}"
            "td{overflow-wrap:anywhere}"
            "table:last-child td{min-width:6rem}table:last-child td:nth-child(n+6){min-width:13rem}</style>")
    return (f"{head}<h1>Grades</h1><h2>By submission</h2>{counts.to_html(index=False, border=0)}"
            f"<h2>By exercise</h2>{table.to_html(index=False, border=0)}</html>\n")
