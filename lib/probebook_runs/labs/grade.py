"""Grading: run each submission's answers in its page's own cells, and check what they give.

A submission runs in a process that returns values (`attempt`); another process, in which nothing of
a submission runs, checks them (`checker`)."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pandas as pd
import psutil
from nbformat.v4 import new_code_cell, new_notebook
from rich.console import Console

from probebook.base import UserError, atomic_write
from probebook_runs.execute import kernel_environment
from probebook_runs.kernels import Limits, enforce_limits
from probebook_runs.labs import sandbox, variants
from probebook_runs.labs.attempt import STUDENTS
from probebook_runs.labs.checker import ACCEPTED, Checker
from probebook_runs.labs.exercises import exercises, mark, rubrics, student_cells
from probebook_runs.pages import Page, modules, pages, parameterize
from probebook_runs.store import plan
from probebook_runs.warm import ForkServer, fork_server

if TYPE_CHECKING:
    from nbformat import NotebookNode

MARK = re.compile(r"# exercise (\d+) of (\S+)\n")
LARGEST = 64 << 20  # bytes of what a submission's process may return
COLUMNS = ["page", "exercise", "title", "outcome", "message", "answer", "minutes"]
SUMMARY = [
    "page",
    "exercise",
    "title",
    "handed in",
    "right, %",
    "wrong answers",
    "minutes",
    "rubric",
]
STYLE = """
body {font: 1rem/1.5 sans-serif; margin: 2rem}
table {border-collapse: collapse}
th, td {padding: .3rem .6rem; border-bottom: 1px solid #ccc; text-align: left; vertical-align: top}
td {overflow-wrap: anywhere; white-space: pre-line}
table:last-child td {min-width: 6rem}
table:last-child td:nth-child(n+6) {min-width: 13rem}
"""


@dataclass(frozen=True)
class Submission:
    """A file that was handed in: its place, whose it is, and what it answers, or why nothing."""

    name: str
    student: str
    notebook: NotebookNode
    page: Page | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Its page and parameters. Submissions with the same ones share a checker."""
        return self.page.name if self.page else "", json.dumps(self.parameters, sort_keys=True)


def grade(
    paths: list[Path],
    folder: Path,
    out: Path,
    profile: str,
    workers: int,
    limits: Limits,
    handed_out: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Run submissions, and write and return a table with a row for each exercise of each.

    Outcomes: passed, predicted, to read, wrong, error, not done, missing, not reached. A notebook
    that belongs to no page has one row.

    Args:
        paths: notebooks in `folder`, which submissions do not see where a sandbox works.
        out: where the files of `output_paths` are written.
        handed_out: the students' variants, if there are any. A submission then lies in a folder
            that is named after its student, and runs in the profile in which it was handed out."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if why := sandbox.missing():
        console.print(
            f"{why}: submissions run with your rights and network; see Grading in the book",
            markup=False,
        )

    book = {page.name: page for page in pages()}
    submissions = [_read(path, folder, profile, handed_out, book) for path in paths]
    order = sorted(range(len(paths)), key=lambda i: submissions[i].key)  # page by page
    counts = Counter(one.key for one in submissions)
    checkers = {key: Checker(*key, count) for key, count in counts.items()}
    done: list[str] = []

    with ExitStack() as stack:
        stack.enter_context(kernel_environment(1, profile))
        forks = stack.enter_context(_forks(submissions))
        for checker in checkers.values():
            stack.callback(checker.end)
        attempt = partial(_attempt, folder=folder, limits=limits, forks=forks)

        def grade_one(one: Submission) -> pd.DataFrame:
            checker = checkers[one.key]
            try:
                rows = _rows(one, checker, attempt, handed_out)
            finally:
                checker.finish_one()
            table = pd.DataFrame(rows, columns=COLUMNS)
            table.insert(0, "submission", one.name)
            accepted = table.outcome.isin(ACCEPTED.values()).sum()
            done.append(one.name)
            console.print(
                f"{len(done)}/{len(paths)} {one.name}: {accepted} of {len(table)}", markup=False
            )
            return table

        pool = stack.enter_context(ThreadPoolExecutor(workers))
        tables = dict(zip(order, pool.map(grade_one, [submissions[i] for i in order])))
    table = pd.concat([tables[i] for i in range(len(paths))], ignore_index=True)
    table = table.astype({"minutes": float})
    _write(out, table, by_exercise(table))
    return table


def _write(out: Path, table: pd.DataFrame, summary: pd.DataFrame) -> None:
    *csv, html = output_paths(out)
    for path, rows in zip(csv, (table, summary)):
        with atomic_write(path) as part:
            rows.map(_no_formula).to_csv(part, index=False, errors="replace")
    with atomic_write(html) as part:
        part.write_text(_html(table, summary), encoding="utf-8", errors="replace")


def output_paths(out: Path) -> tuple[Path, Path, Path]:
    """The files that `grade` writes: a row for each exercise of each submission, a row for each
    exercise, and a page with both."""
    return (
        out.with_suffix(".csv"),
        out.with_name(f"{out.stem}_exercises.csv"),
        out.with_suffix(".html"),
    )


def graft(page: Page, submitted: NotebookNode) -> tuple[NotebookNode, set[int]]:
    """The page's notebook with a student's answers, and the numbers of the exercises it answers.

    Cells that the student added run where they stand. A cell of the page runs as the page has it,
    whatever the student made of it."""
    cells = list(student_cells(page.notebook, page.name))
    place = {cell.id: i for i, cell in enumerate(cells)}
    place |= {cell.source.strip(): i for i, cell in enumerate(cells)}
    exercise_at = {e.number: e.cell for e in exercises(page.notebook)}
    answered: set[int] = set()
    added: dict[int, list[NotebookNode]] = {}
    last: int | None = None
    for cell in submitted.cells:
        if cell.cell_type != "code":
            continue
        if "injected-parameters" in cell.metadata.get("tags", []):  # the grader's go before
            continue
        marked = MARK.match(cell.source)
        known = place.get(cell.get("id"), place.get(cell.source.strip()))
        if marked and (number := int(marked[1])) in exercise_at:
            last = exercise_at[number]
            cells[last].source = cell.source
            answered.add(number)
        elif known is not None:
            last = known
        elif last is not None and not marked:  # before the page's first cell: the installation
            added.setdefault(last, []).append(
                new_code_cell(cell.source, metadata={"tags": ["added"]})
            )
    grafted = [one for i, cell in enumerate(cells) for one in (cell, *added.get(i, []))]
    return new_notebook(cells=grafted, metadata=page.notebook.metadata), answered


def _read(
    path: Path, folder: Path, profile: str, handed_out: pd.DataFrame | None, book: dict[str, Page]
) -> Submission:
    place = path.relative_to(folder).with_suffix("")
    name, student, empty = place.as_posix(), place.parts[0], nbformat.v4.new_notebook()
    try:
        notebook = nbformat.read(path, as_version=4)
        named = _page_of(notebook)
    except Exception as e:  # a student's file may be anything
        problem = f"cannot be read as a notebook: {type(e).__name__}"
        return Submission(name, student, empty, problem=problem)
    if not (page := book.get(named)):
        problem = f"is no page of this book: {named or 'no exercise names one'}"
        return Submission(name, student, empty, problem=problem)
    if handed_out is None:
        return Submission(name, student, notebook, page, plan(page, profile).changed)
    if not (variant := variants.find_variant(handed_out, page, student)):
        problem = (
            f"no variant of this page was handed out to {student!r}: each student's "
            "notebooks should be in a folder of that student's name"
        )
        return Submission(name, student, empty, page, problem=problem)
    return Submission(name, student, notebook, page, variant.changed)


def _forks(submissions: list[Submission]) -> AbstractContextManager[ForkServer | None]:
    """The process whose forks submissions are, if there are several and no sandbox, which would
    close it in with all of them. It has no keys either."""
    used = {one.page for one in submissions if one.page}
    if sandbox.missing() and (
        forks := fork_server({name for page in used for name in modules(page)})
    ):
        forks.environment = sandbox.environment(Path(tempfile.gettempdir()))
        if forks.if_worth(len(submissions)):
            forks.start()  # while the first checker runs its page
            return forks
    return nullcontext()


def _rows(
    one: Submission,
    checker: Checker,
    attempt: Callable[[str], tuple[dict[str, str], str]],
    handed_out: pd.DataFrame | None,
) -> list[tuple]:
    """The values of `COLUMNS` for each exercise of one submission."""
    page, submitted = one.page, one.notebook
    if not page or one.problem:
        return [(one.key[0], 0, "", "error", one.problem, "", None)]
    notebook, answered = graft(page, submitted)
    notebook = parameterize(notebook, one.parameters)
    asked = exercises(page.notebook)
    try:
        seed, asks = checker.asks()
        given, ended = attempt(_job(notebook, asks))
        outcomes = checker.outcomes(seed, given)
    except UserError as e:
        return [(page.name, 0, "", "error", str(e), "", None)]
    rows, times = [], minutes(submitted)
    for exercise, outcome in zip(asked, outcomes):
        if exercise.number not in answered:
            outcome = "missing", "its cell is not in the notebook", ""
        rows.append(
            (
                page.name,
                exercise.number,
                exercise.title,
                *(outcome or ("not reached", ended, "")),
                times.get(exercise.number),
            )
        )
    if handed_out is not None:
        last, answers = len(asked) + 1, handed_out[handed_out.page == page.name]
        outcome = variants.check_own_figure(submitted, mark(last, page.name), one.student, answers)
        rows.append((page.name, last, variants.TITLE, *outcome, times.get(last)))
    return rows


def _job(notebook: NotebookNode, asks: list[dict]) -> str:
    """The cells as `attempt` reads them: what runs and, in place of a check, what it asks for."""
    cells, left = [], iter(asks)
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type == "code":
            cells.append(
                next(left)
                if "check" in tags
                else {
                    "source": cell.source,
                    "student": bool(tags & STUDENTS),
                    "exercise": "exercise" in tags,
                }
            )
    return json.dumps(cells)


def _page_of(submitted: NotebookNode) -> str:
    for cell in submitted.cells:
        if marked := MARK.match(cell.source):
            return marked[2]
    return submitted.metadata.get("probebook", {}).get("page", "")


def _attempt(
    job: str, folder: Path, limits: Limits, forks: ForkServer | None
) -> tuple[dict[str, str], str]:
    """Run a submission. Returns what it gave at each check that it reached, by the check's number,
    and why it did not reach the others."""
    with tempfile.TemporaryDirectory(prefix="probebook-lab-", ignore_cleanup_errors=True) as name:
        work = Path(name).resolve()
        (work / "job.json").write_text(job, encoding="utf-8")
        words = [sys.executable, "-m", "probebook_runs.labs.attempt", "job.json", "given.jsonl"]
        words = sandbox.command(words, work, folder.resolve())
        environment = sandbox.environment(work)
        with enforce_limits(limits) as (processes, reason):
            process: Any = None
            if forks:
                with suppress(RuntimeError):  # a submission may have ended the server
                    process = forks.fork(words, environment, str(work))
            process = process or subprocess.Popen(
                words,
                cwd=work,
                env=environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            with suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(process.pid))
            process.wait()
        return _given(work / "given.jsonl"), reason() or "its process ended before"


def _given(path: Path) -> dict[str, str]:
    """The lines that a submission's process wrote, by the check's number. What is no such line, no
    plain file, or beyond `LARGEST`, is left out."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            text = file.read(LARGEST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:  # it wrote none, or a link
        return {}
    given = {}
    for line in text.split(b"\n"):
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            given[str(json.loads(line)["check"])] = line.decode()
    return given


def _no_formula(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, marked as a text."""
    risky = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if risky else value


def minutes(submitted: NotebookNode) -> dict[int, float]:
    """Minutes that exercises took, by their number, where the editor recorded when cells ran
    (JupyterLab: "Record timing" of notebooks).

    From the last run of any other cell to the last run of the exercise's check, or of its answer
    if it has none. Times below .1 minutes, as "run all" leaves them, say nothing and are left
    out."""
    cells = [cell for cell in submitted.cells if cell.cell_type == "code"]
    ran = {i: when for i, cell in enumerate(cells) if (when := _when(cell))}
    taken = {}
    for i, cell in enumerate(cells):
        marked = MARK.match(cell.source)
        answer = {i, i + 1} if "check" in _next_tags(cells, i) else {i}
        if marked and answer & set(ran):
            done = max(ran[k] for k in answer & set(ran))
            before = [when for k, when in ran.items() if k not in answer and when < done]
            time = (done - max(before)).total_seconds() / 60 if before else 0
            if time >= 0.1:
                taken[int(marked[1])] = round(time, 1)
    return taken


def _next_tags(cells: list[NotebookNode], i: int) -> list[str]:
    return cells[i + 1].metadata.get("tags", []) if i + 1 < len(cells) else []


def _when(cell: NotebookNode) -> datetime | None:
    try:
        return datetime.fromisoformat(cell.metadata["execution"]["iopub.execute_input"])
    except (KeyError, TypeError, ValueError):
        return None


def by_exercise(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each exercise of all graded submissions.

    - handed in: notebooks that hold it
    - right, %: of these, passed, predicted or to read
    - wrong answers: the three most frequent messages, with how often each came
    - minutes: median, where recorded
    - rubric: of a written answer, see `rubrics`"""
    rows = []
    graded = table[table.exercise > 0]
    marks = {page: rubrics(Page(page)) for page in graded.page.unique()}
    for (page, number, title), part in graded.groupby(["page", "exercise", "title"]):
        there = part[part.outcome != "missing"]
        right = round(100 * there.outcome.isin(ACCEPTED.values()).mean(), 1)
        messages = there[there.outcome.isin(["wrong", "error"])].message.value_counts().head(3)
        wrong = "; ".join(f"{times} × {message}" for message, times in messages.items())
        time, rubric = part.minutes.astype(float).median(), marks[page].get(number, "")
        rows.append((page, number, title, len(there), right, wrong, time, rubric))
    return pd.DataFrame(rows, columns=SUMMARY)


def _html(table: pd.DataFrame, summary: pd.DataFrame) -> str:
    """A page with the number of outcomes of each submission, the exercises, then all rows; text is
    escaped."""
    counts = pd.crosstab(table.submission, table.outcome).rename_axis(columns=None).reset_index()
    submissions, of_exercises, answers = (
        part.to_html(index=False, border=0, na_rep="").replace("\\n", "\n")  # it escapes those
        for part in (counts, summary, table)
    )
    return f"""<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content='width=device-width'><title>Grades</title><style>{STYLE}</style>
<h1>Grades</h1>
<h2>By submission</h2>{submissions}
<h2>By exercise</h2>{of_exercises}
<h2>All answers</h2>{answers}</html>
"""
