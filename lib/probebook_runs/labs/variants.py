"""Variants: each student's notebooks have other data, and ask for a figure that only these give.

    probebook lab student labs/ 1_causal_probing/03 --seed-from class.csv

`class.csv` names the students, see `people.students`. It has a column `seed` where the teacher
wants to choose. What else differs, a layer or a corpus, is in `notebooks/variants.yaml`. Each page
runs once for each student, and the figure that differs most between the students becomes its last
exercise. `labs/variants.csv` says whose folder is which, holds the answers, and stays with the
teacher."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from nbformat import NotebookNode

from probebook.base import UserError, atomic_write, read_yaml
from probebook_runs.execute import run_all
from probebook_runs.labs.exercises import answers, exercises, is_stub
from probebook_runs.labs.people import read_csv, students
from probebook_runs.labs.student import edition
from probebook_runs.pages import Page, home
from probebook_runs.store import Run, plan

TOLERANCE = 0.02  # of an answer, relative: machines do not train alike
COLUMNS = "student name ids page profile parameters table row metric value".split()
TITLE = "Your own run"
TEXT = """```{{admonition}} {number} · {title} (easy, 5 minutes)
:class: exercise
Only your notebook runs with {parameters}. Run it from the first cell to the last. One of its
cells calls `write_table(…, "{table}", …)`. Find the column `{metric}` of that table{row}, and
write the number below with three significant digits.
```"""


def student_parameters(page: Page, seeds: dict[str, int]) -> dict[str, dict[str, Any]]:
    """The parameters of each student's variant: their seed, and in turn each of the values that
    `notebooks/variants.yaml` lists for the page."""
    path = home() / "notebooks" / "variants.yaml"
    lists = read_yaml(path).get(page.name, {}) if path.exists() else {}
    return {
        student: {"seed": seed} | {name: values[i % len(values)] for name, values in lists.items()}
        for i, (student, seed) in enumerate(seeds.items())
    }


def write(
    out: Path, pages: Sequence[Page], file: Path, profile: str, jobs: int | None = None
) -> list[Path]:
    """Write `OUT/STUDENT/PAGE.ipynb` for every student, and `OUT/variants.csv` with the answers.

    `jobs` runs go on at a time. UserError: a page without a seed, one that failed, or one whose
    tables are the same for all."""
    people = students(file)
    for page in pages:
        if "seed" not in page.types:
            raise UserError(f"{page.name} has no parameter seed: its data are the same for all")
    seeds = people.seed.to_dict()
    rows = [row for page in pages for row in _answers(page, seeds, profile, jobs)]
    table = pd.DataFrame(rows, columns=[COLUMNS[0], *COLUMNS[3:]])
    table = table.join(people[["name", "ids"]], on="student")[COLUMNS]
    paths = []
    for row in table.itertuples():
        values = plan(Page(row.page), profile, json.loads(row.parameters)).changed
        paths.append(out / row.student / f"{row.page}.ipynb")
        with atomic_write(paths[-1]) as part:
            part.write_text(edition(Page(row.page), values, question(row)), encoding="utf-8")
    with atomic_write(out / "variants.csv") as part:
        table.to_csv(part, index=False)
    return [*paths, out / "variants.csv"]


def question(row: Any) -> str:
    """The exercise of a row of `variants.csv`, as the text of a cell."""
    number = len(exercises(Page(row.page).notebook)) + 1
    where = f", in the row with {row.row}" if row.row else ""
    parameters = " and ".join(
        f"`{name} = {json.dumps(value)}`" for name, value in json.loads(row.parameters).items()
    )
    about = {"table": row.table, "metric": row.metric, "row": where}
    return TEXT.format(number=number, title=TITLE, parameters=parameters, **about)


def _answers(page: Page, seeds: dict[str, int], profile: str, jobs: int | None) -> list[tuple]:
    """A row of `COLUMNS` for each student: the figure that differs most between them."""
    values = student_parameters(page, seeds)
    runs = {student: plan(page, profile, changed) for student, changed in values.items()}
    if run_all(list(runs.values()), jobs=jobs):
        raise UserError(f"{page.name} failed with the data of a student: nothing is written")
    figures = pd.DataFrame({student: _figures(run) for student, run in runs.items()}).dropna()
    distinct = figures.apply(_count_distinct_pairs, axis=1)
    if distinct.empty or not distinct.max() and len(seeds) > 1:
        raise UserError(f"{page.name}: no figure of its tables depends on the students' data")
    place = distinct.idxmax()  # table, row, metric
    return [
        (student, page.name, profile, json.dumps(changed), *place, figures.loc[place, student])
        for student, changed in values.items()
    ]


def _count_distinct_pairs(figure: pd.Series) -> int:
    """In how many pairs of students the figure of the first is wrong for the second."""
    values = figure.to_numpy(float)
    return int((abs(values[:, None] - values) > 1.5 * TOLERANCE * abs(values)).sum())


def _figures(run: Run) -> pd.Series:
    """The numbers of a run's tables other than 0, by table, row and metric."""
    long = run.metrics()
    ids = [name for name in long if name not in ("table", "metric", "value")]
    long["row"] = [
        ", ".join(
            f"{name} = {value}"
            for name, value in zip(ids, values)
            if not pd.isna(value) and value != ""
        )
        for values in long[ids].itertuples(index=False)
    ]
    figures = long.set_index(["table", "row", "metric"]).value
    return figures[~figures.index.duplicated(keep=False) & (figures != 0)]


def check_own_figure(
    submitted: NotebookNode, number: int, student: str, right: pd.DataFrame
) -> tuple[str, str, str]:
    """Outcome, message and answer of a student's own figure.

    - `number`: of its exercise, whose cell must give the number itself
    - `right`: rows of `variants.csv` of this page"""
    given = [text for cell in submitted.cells for n, text in answers(cell) if n == number]
    if not given:
        return "missing", "its cell is not in the notebook", ""
    sources = [text for text in given if not is_stub(text, "own_figure = ...")]
    if not sources:
        return "not done", "the stub is still there", ""
    try:
        value = next(
            ast.literal_eval(node.value)
            for node in ast.parse(sources[-1]).body
            if isinstance(node, ast.Assign)
        )
    except Exception:  # a student's cell may be anything
        return "wrong", "own_figure should be the number that the run shows, not code", ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "wrong", "own_figure should be a number", repr(value)
    by_student = right.set_index("student").value
    figure = max(-1e300, min(value, 1e300))  # an integer may be larger than any float
    right_for = by_student.index[abs(by_student - figure) <= TOLERANCE * abs(by_student)]
    if student in right_for:
        return "passed", "", repr(value)
    message = "with these data the run gives another number"
    if len(right_for):
        message += f"; this one is right for {right_for[0]}"
    return "wrong", message, repr(value)


def read(file: Path) -> pd.DataFrame:
    """`variants.csv`, as `write` left it or a spreadsheet saved it, its parameters by name.

    UserError: another file."""
    table = read_csv(file)
    if [*table] != COLUMNS:
        raise UserError(
            f"{file}: not what `probebook lab student --seed-from` wrote: its columns "
            f"should be {', '.join(COLUMNS)}"
        )
    try:
        return table.assign(
            parameters=table.parameters.map(json.loads), value=table.value.astype(float)
        )
    except ValueError as e:
        raise UserError(f"{file}: {e}") from None


def find_variant(table: pd.DataFrame, page: Page, student: str) -> Run:
    """The run of a student's own variant of a page. UserError: none was handed out to them."""
    rows = table[(table.page == page.name) & (table.student == student)]
    if rows.empty:
        raise UserError(f"no variant of this page was handed out to {student!r}")
    return plan(page, rows.profile.iloc[0], rows.parameters.iloc[0])
