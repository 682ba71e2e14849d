"""Grading: run each submission's answers in its page's own cells, and collect the checks' words."""
from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
ACCEPTED = {"prediction": "predicted", "interpretation": "to read", "code": "passed"}
REJECTED = {"NotDone": "not done", "NotRight": "wrong"}
COLUMNS = ["page", "exercise", "title", "outcome", "message", "answer"]
STYLE = """
body {font: 1rem/1.5 sans-serif; margin: 2rem}
table {border-collapse: collapse}
th, td {padding: .3rem .6rem; border-bottom: 1px solid #ccc; text-align: left; vertical-align: top}
td {overflow-wrap: anywhere}
table:last-child td {min-width: 6rem}
table:last-child td:nth-child(n+6) {min-width: 13rem}
"""


def grade(
    paths: list[Path], folder: Path, out: Path, profile: str, workers: int, limits: Limits,
) -> pd.DataFrame:
    """Run submissions of a folder and write `OUT.csv` and `OUT.html`, one row for each exercise.

    Outcomes: passed, predicted, to read, wrong, error, not done, missing, not reached. A notebook
    that belongs to no page has one row. Submissions do not see `folder` where a sandbox works."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if why := sandbox.missing():
        console.print(f"{why}: submissions run with your rights and network; see Grading in the "
                      "book", markup=False)

    def graded(path: Path) -> pd.DataFrame:
        table = pd.DataFrame(_rows(path, folder, profile, limits), columns=COLUMNS)
        table.insert(0, "submission", path.relative_to(folder).with_suffix("").as_posix())
        accepted = table.outcome.isin(ACCEPTED.values()).sum()
        console.print(f"{table.submission[0]}: {accepted} of {len(table)}", markup=False)
        return table

    with kernel_environment(1, profile), ThreadPoolExecutor(workers) as pool:
        table = pd.concat(pool.map(graded, paths), ignore_index=True)
    with written_whole(out.with_suffix(".csv")) as part:
        table.map(_no_formula).to_csv(part, index=False)
    with written_whole(out.with_suffix(".html")) as part:
        part.write_text(_html(table), encoding="utf-8")
    return table


def graft(page: Page, submitted: NotebookNode) -> tuple[NotebookNode, set[int]]:
    """The page's notebook with a student's answers, and the numbers of the exercises it answers.

    Cells that the student added run where they stand. A cell of the page runs as the page has it,
    whatever the student made of it."""
    own = list(student_cells(page.notebook, page.name))
    place = {cell.id: i for i, cell in enumerate(own)}
    place |= {cell.source.strip(): i for i, cell in enumerate(own)}
    exercise_at = {e.number: e.cell for e in exercises(page.notebook)}
    answered: set[int] = set()
    added: dict[int, list[NotebookNode]] = {}
    last: int | None = None
    for cell in submitted.cells:
        if cell.cell_type != "code":
            continue
        mark = MARK.match(cell.source)
        known = place.get(cell.get("id"), place.get(cell.source.strip()))
        if mark and (number := int(mark[1])) in exercise_at:
            last = exercise_at[number]
            own[last].source = cell.source
            answered.add(number)
        elif known is not None:
            last = known
        elif last is not None:                  # before the page's first cell: the installation
            added.setdefault(last, []).append(new_code_cell(cell.source))
    cells = []
    for i, cell in enumerate(own):
        cells += [cell, *added.get(i, [])]
    return new_notebook(cells=cells, metadata=page.notebook.metadata), answered


def _rows(path: Path, folder: Path, profile: str, limits: Limits) -> list[tuple]:
    """The values of `COLUMNS` for each exercise of one submission."""
    try:
        submitted = nbformat.read(path, as_version=4)
        name = _page_of(submitted)
    except Exception as e:                              # a student's file may be anything
        problem = f"cannot be read as a notebook: {type(e).__name__}"
        return [("", 0, "", "error", problem, "")]
    if name not in [page.name for page in pages()]:
        problem = f"is no page of this book: {name or 'no exercise names one'}"
        return [("", 0, "", "error", problem, "")]
    page = Page(name)
    notebook, answered = graft(page, submitted)
    notebook = parameterize_notebook(load_notebook_node(notebook), plan(page, profile).changed)
    done, ended = _attempt(notebook, folder, limits)
    rows = []
    for exercise in exercises(page.notebook):
        if exercise.number in answered:
            solved, check = page.notebook.cells[exercise.cell:exercise.cell + 2]
            outcome = _outcome(done.get(solved.id), done.get(check.id), ACCEPTED[exercise.kind],
                               ended)
        else:
            outcome = "missing", "its cell is not in the notebook", ""
        rows.append((name, exercise.number, exercise.title, *outcome))
    return rows


def _page_of(submitted: NotebookNode) -> str:
    for cell in submitted.cells:
        if mark := MARK.match(cell.source):
            return mark[2]
    return submitted.metadata.get("probebook", {}).get("page", "")


def _attempt(
    notebook: NotebookNode, folder: Path, limits: Limits,
) -> tuple[dict[str, NotebookNode], str]:
    """The cells that ran, by id, and why the others did not ("": all ran)."""
    with tempfile.TemporaryDirectory(prefix="probebook-lab-", ignore_cleanup_errors=True) as made:
        work = Path(made).resolve()
        nbformat.write(notebook, work / "submission.ipynb")
        words = [sys.executable, "-m", "probebook.labs.attempt", "submission.ipynb", "done.ipynb"]
        words = sandbox.command(words, work, folder.resolve())
        with ended_beyond(limits) as (processes, reason), tempfile.TemporaryFile() as errors:
            started = subprocess.Popen(
                words, cwd=work, env=sandbox.environment(work), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
            processes.append(psutil.Process(started.pid))
            started.wait()
            errors.seek(0)
            lines = errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        ended = reason()
        if started.returncode and not ended:
            last = lines[-1][:200] if lines else started.returncode
            ended = f"its process ended: {last}"
        try:
            done = nbformat.read(work / "done.ipynb", as_version=4)
        except Exception:                               # none yet, or the student's code wrote it
            return {}, ended or "its results cannot be read"
    return {cell.id: cell for cell in done.cells if cell.get("execution_count")}, ended


def _outcome(
    solved: NotebookNode | None, check: NotebookNode | None, accepted: str, ended: str,
) -> tuple[str, str, str]:
    """Outcome, message and answer of an exercise, from its two cells as they ran."""
    if solved is None or check is None:
        return "not reached", ended, ""
    errors = [o for cell in (solved, check) for o in cell.outputs if o.output_type == "error"]
    of_check = [error for error in errors if error.ename in REJECTED]
    if of_check:
        return REJECTED[of_check[0].ename], of_check[0].evalue, ""
    if errors:
        return "error", f"{errors[0].ename}: {errors[0].evalue}"[:300], ""
    kind = f"{HIDDEN}text/plain"
    answers = [o.data[kind] for o in check.outputs if kind in o.get("data", {})]
    return accepted, "", "".join(answers)


def _no_formula(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, marked as a text."""
    risky = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if risky else value


def _html(table: pd.DataFrame) -> str:
    """A page with the number of outcomes of each submission, then all rows; text is escaped."""
    counts = pd.crosstab(table.submission, table.outcome).rename_axis(columns=None).reset_index()
    return f"""<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content='width=device-width'><title>Grades</title><style>{STYLE}</style>
<h1>Grades</h1>
<h2>By submission</h2>{counts.to_html(index=False, border=0)}
<h2>By exercise</h2>{table.to_html(index=False, border=0)}</html>
"""
