"""Grading: run each submission's answers in its page's own cells, and check what they give.

A submission runs in a process that returns values (`attempt`); another process, in which nothing of
a submission runs, checks them (`checker`)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import psutil
from jinja2 import Template
from nbformat.v4 import new_code_cell, new_notebook
from rich.console import Console

from probebook.base import UserError, atomic_write
from probebook_runs.execute import kernel_environment
from probebook_runs.kernels import Limits, enforce_limits
from probebook_runs.labs import sandbox, variants
from probebook_runs.labs.attempt import STUDENTS
from probebook_runs.labs.checker import ACCEPTED, Checker
from probebook_runs.labs.exercises import (
    ANSWER,
    answers,
    exercises,
    is_stub,
    rubrics,
    student_cells,
)
from probebook_runs.labs.hand_ins import NO_HAND_IN, HandIn, collect, read_notebook
from probebook_runs.labs.people import by_key
from probebook_runs.labs.points import earned
from probebook_runs.pages import Page, modules, pages, parameterize
from probebook_runs.store import plan
from probebook_runs.warm import ForkServer, fork_server

if TYPE_CHECKING:
    from nbformat import NotebookNode

LARGEST = 64 << 20  # bytes of what a submission's process may return
COLUMNS = ["page", "exercise", "title", "outcome", "message", "answer", "minutes"]
COUNTS = ["handed in", "right, %", "wrong answers", "minutes", "rubric"]


@dataclass(frozen=True)
class Submission:
    """A notebook that was handed in, whose it is, and what it answers, or why nothing."""

    hand_in: HandIn
    student: str
    notebook: NotebookNode
    page: Page | None
    parameters: dict[str, Any]
    problem: str

    @property
    def key(self) -> tuple[str, str]:
        """Its page and parameters. Submissions with the same ones share a checker."""
        return self.page.name if self.page else "", json.dumps(self.parameters, sort_keys=True)


def grade(
    folder: Path,
    out: Path,
    profile: str,
    workers: int,
    limits: Limits,
    handed_out: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Run submissions, and write and return a table with a row for each exercise of each.

    Of several attempts the newest counts. What is left out is said on stderr and in the HTML page.

    Outcomes: passed, predicted, to read, wrong, error, not done, missing, not reached. A notebook
    that belongs to no page has one row.

    Args:
        folder: what holds the notebooks, or a zip file of them (see `collect`). Submissions do not
            see it where a sandbox works.
        out: where the files of `output_paths` are written.
        handed_out: the students' variants, if there are any. A submission then runs with its
            student's parameters, in the profile in which they were handed out."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    if why := sandbox.missing():
        console.print(
            f"{why}: submissions run with your rights and network; see Grading in the book"
        )
    submissions, notes = _submissions(folder, profile, handed_out)
    console.print("\n".join(notes))
    submissions.sort(key=lambda one: one.key)  # page by page
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
            table.insert(0, "submission", one.hand_in.name)
            table.insert(1, "student", one.student)
            accepted = table.outcome.isin(ACCEPTED.values()).sum()
            done.append(one.hand_in.name)
            console.print(f"{len(done)}/{len(submissions)} {done[-1]}: {accepted} of {len(table)}")
            return table

        pool = stack.enter_context(ThreadPoolExecutor(workers))
        table = pd.concat(pool.map(grade_one, submissions), ignore_index=True)
    table = table.astype({"minutes": float}).assign(points=earned(table.outcome))
    summary = by_exercise(table)
    *csv, html = output_paths(out)
    for path, rows in zip(csv, (table, summary)):
        with atomic_write(path) as part:
            rows.map(_no_formula).to_csv(part, index=False, errors="replace")
    with atomic_write(html) as part:
        part.write_text(_html(table, summary, notes), encoding="utf-8", errors="replace")
    return table


def output_paths(out: Path) -> tuple[Path, Path, Path]:
    """The files that `grade` writes: a row for each exercise of each submission, a row for each
    exercise, and a page with both."""
    exercises_csv = out.with_name(f"{out.stem}_exercises.csv")
    return out.with_suffix(".csv"), exercises_csv, out.with_suffix(".html")


def graft(page: Page, submitted: NotebookNode) -> tuple[NotebookNode, set[int]]:
    """The page's notebook with a student's answers, and the numbers of the exercises it holds.

    The first answer of an exercise that is no stub stands where the page has it; further ones, and
    cells that the student added, run where they stand. A cell of the page runs as the page has it,
    whatever the student made of it."""
    cells = list(student_cells(page.notebook, page.name))
    place = {cell.id: i for i, cell in enumerate(cells)}
    place |= {cell.source.strip(): i for i, cell in enumerate(cells)}
    exercise_at = {e.number: e.cell for e in exercises(page.notebook)}
    stubs = {number: cells[i].source for number, i in exercise_at.items()}
    held: set[int] = set()
    added: dict[int, list[NotebookNode]] = {}
    last: int | None = None

    def add(source: str, tag: str) -> None:
        if last is not None:  # before the page's first cell: the installation
            cell = new_code_cell(source, metadata={"tags": [tag]})
            added.setdefault(last, []).append(cell)

    for cell in submitted.cells:
        if cell.cell_type != "code":
            continue
        if "injected-parameters" in cell.metadata.get("tags", []):  # the grader's go before
            continue
        answering = answers(cell)
        known = place.get(cell.get("id"), place.get(cell.source.strip()))
        for number, source in answering:
            if (at := exercise_at.get(number)) is None:  # the student's own figure
                continue
            last = last if number in held else at
            held.add(number)
            if is_stub(source, stubs[number]):
                continue
            if cells[at].source == stubs[number]:
                cells[at].source = source
            else:
                add(source, "exercise")
        if known is not None and not answering:
            last = known
        elif not answering:
            add(cell.source, "added")
    grafted = [one for i, cell in enumerate(cells) for one in (cell, *added.get(i, []))]
    return new_notebook(cells=grafted, metadata=page.notebook.metadata), held


def _submissions(
    folder: Path, profile: str, handed_out: pd.DataFrame | None
) -> tuple[list[Submission], list[str]]:
    """The submissions that count, and in a few lines what was taken and what was left out."""
    hand_ins, others = collect(folder)
    book = {page.name: page for page in pages()}
    people = {} if handed_out is None else by_key(handed_out)
    every = [_read(hand_in, profile, handed_out, people, book) for hand_in in hand_ins]
    attempts: dict[Any, list[Submission]] = {}
    for one in every:
        beside = {other.hand_in.path for other in every if other.page == one.page}
        series = one.hand_in.series(beside) if handed_out is None else (one.student,)
        same = (one.key[0], series) if one.page and not one.problem else one.hand_in.path
        attempts.setdefault(same, []).append(one)
    notes = []
    for several in attempts.values():
        several.sort(key=lambda one: one.hand_in.age, reverse=True)
        if older := [one.hand_in.name for one in several[1:]]:
            newest = several[0]
            notes.append(
                f"{newest.student}, {newest.key[0]}: of {len(several)} attempts the newest counts, "
                f"{newest.hand_in.name}; left out: {', '.join(older)}"
            )
    hidden = [path for path in others if NO_HAND_IN.search(path)]
    for paths, what in (hidden, "hidden"), (sorted({*others} - {*hidden}), "no notebooks"):
        if paths:
            more = ", …" * (len(paths) > 3)
            notes.append(f"left out, {what}: {len(paths)} ({', '.join(paths[:3])}{more})")
    submissions = [several[0] for several in attempts.values()]
    students = len({one.student for one in submissions})
    return submissions, [f"notebooks: {len(submissions)}; students: {students}", *notes]


def _read(
    hand_in: HandIn,
    profile: str,
    handed_out: pd.DataFrame | None,
    people: dict[str, set[str]],
    book: dict[str, Page],
) -> Submission:
    student, notebook, page, problem = hand_in.student, new_notebook(), None, hand_in.problem
    parameters: dict[str, Any] = {}
    try:
        if not problem:
            notebook = read_notebook(hand_in.content)
            found = next(filter(None, (ANSWER.search(c.source) for c in notebook.cells)), None)
            named = found[2] if found else notebook.metadata.get("probebook", {}).get("page", "")
            page = book.get(named)
            problem = "" if page else f"is no page of this book: {named or 'no exercise names one'}"
        if page and handed_out is not None:
            student = hand_in.owner(people)
            parameters = variants.find_variant(handed_out, page, student).changed
        elif page:
            parameters = plan(page, profile).changed
    except UserError as e:
        problem = str(e)
    except Exception as e:  # a student's file may be anything
        problem = f"cannot be read as a notebook: {type(e).__name__}"
    return Submission(hand_in, student, notebook, page, parameters, problem)


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
        outcome = outcome or ("not reached", ended, "")
        if exercise.number not in answered:
            outcome = "missing", "its cell is not in the notebook", ""
        about = (page.name, exercise.number, exercise.title)
        rows.append((*about, *outcome, times.get(exercise.number)))
    if handed_out is not None:
        last, variant = len(asked) + 1, handed_out[handed_out.page == page.name]
        outcome = variants.check_own_figure(submitted, last, one.student, variant)
        rows.append((page.name, last, variants.TITLE, *outcome, times.get(last)))
    return rows


def _job(notebook: NotebookNode, asks: list[dict]) -> str:
    """The cells as `attempt` reads them: what runs and, in place of a check, what it asks for."""
    cells, left = [], iter(asks)
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        runs = {"student": bool(tags & STUDENTS), "exercise": "exercise" in tags}
        if cell.cell_type == "code":
            cells.append(next(left) if "check" in tags else runs | {"source": cell.source})
    return json.dumps(cells)


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
            nothing: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            process = process or subprocess.Popen(
                words, cwd=work, env=environment, start_new_session=True, **nothing
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
    records = [cell.metadata.get("execution") for cell in cells]
    times = [one.get("iopub.execute_input") if isinstance(one, dict) else None for one in records]
    ran = pd.Series(pd.to_datetime(times, errors="coerce", utc=True, format="ISO8601"))
    taken: dict[int, float] = {}
    for i, cell in enumerate(cells):
        checked = any("check" in after.metadata.get("tags", []) for after in cells[i + 1 : i + 2])
        own = ran.index.isin([i, i + checked])
        done = ran[own].max()
        time = (done - ran[~own & (ran < done)].max()).total_seconds() / 60
        if time >= 0.1:  # where nothing ran, it is not a number
            taken |= {number: round(time, 1) for number, _ in answers(cell)}
    return taken


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
    return pd.DataFrame(rows, columns=[*COLUMNS[:3], *COUNTS])


def _html(table: pd.DataFrame, summary: pd.DataFrame, notes: list[str]) -> str:
    """A page with the number of outcomes of each submission, what was left out, the exercises, then
    all rows; text is escaped."""
    counts = pd.crosstab(table.submission, table.outcome).rename_axis(columns=None).reset_index()
    submissions, of_exercises, rows = (
        part.to_html(index=False, border=0, na_rep="").replace("\\n", "\n")  # it escapes those
        for part in (counts, summary, table)
    )
    template = Path(__file__).with_name("grades.html.j2").read_text(encoding="utf-8")
    page = Template(template, autoescape=True)
    return page.render(notes=notes, submissions=submissions, exercises=of_exercises, rows=rows)
