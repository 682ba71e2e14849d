"""Points of graded exercises, in a table that Moodle and Canvas import as grades."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from probebook.base import UserError, atomic_write
from probebook_runs.labs.people import PLATFORMS, by_key, key, read_csv, students

MOST = 2  # points of an exercise
EARNED = {"passed": MOST, "predicted": MOST, "to read": None}  # none yet: somebody has to read it
CANVAS = {"Student", "ID", "Section"}  # columns of its class lists
READ = ["student", "page", "exercise", "title", "points"]


def earned(outcomes: pd.Series) -> pd.Series:
    """The points of outcomes; none for a written answer, which a rubric marks."""
    return outcomes.map(lambda outcome: EARNED.get(outcome, 0)).astype("Int64")


def write(grades: Path, class_list: Path, out: Path) -> list[str]:
    """Write a row for each student of a class list: the columns that name them there, the points of
    each exercise, and their sum. It has a row of possible points if the list is from Canvas.

    Returns, a line each, the students of whom an answer has no points yet; they have no sum.
    UserError: `grades` is none, has other points, or a student whom the list does not name."""
    table = read_csv(grades)
    if missing := [column for column in READ if column not in table]:
        raise UserError(f"{grades}: it has no column {missing[0]}: give the CSV of lab grade")
    table = table[table.exercise != "0"]
    if (wrong := table[~table.points.isin(["", *map(str, range(MOST + 1))])]).size:
        said = f"{wrong.points.iloc[0]!r} for {wrong.student.iloc[0]}"
        raise UserError(f"{grades}: points should be 0, 1 or {MOST}, not {said}")
    people, rows = students(class_list), read_csv(class_list)
    folders = by_key(people.rename_axis("student").reset_index())
    row_of = {}
    for name in table.student.unique():
        found = people.row.reindex([*folders.get(key(name), {name})]).dropna()
        if len(found) != 1:
            raise UserError(f"{class_list} has {len(found)} students called {name!r}, not 1")
        row_of[name] = int(found.iloc[0])
    table = table.assign(row=table.student.map(row_of))
    number = table.page.str.replace(r"^(\d+)_[^/]*/0*(\d+)_.*", r"\1.\2", regex=True)
    table["column"] = number + "." + table.exercise + " " + table.title
    unread = table[table.points == ""]
    marks = table.assign(points=pd.to_numeric(table.points)).pivot_table(
        index="row", columns="column", values="points", aggfunc="max", sort=False, dropna=False
    )
    marks["Total"] = marks.sum(axis=1).where(~marks.index.isin(unread.row))
    kinds = "|".join(PLATFORMS[kind] for kind in ("name", "first name", "last name", "id", "group"))
    naming = [column for column in rows if re.fullmatch(kinds, key(column))]
    written = rows.loc[people.row, naming].join(marks)
    if CANVAS <= set(rows):
        most = dict.fromkeys(marks, MOST) | {"Total": MOST * (marks.shape[1] - 1)}
        written = pd.concat([pd.DataFrame([{"Student": "    Points Possible"} | most]), written])
    written[list(marks)] = written[list(marks)].astype("Int64")
    with atomic_write(out) as part:
        written[[*naming, *marks]].to_csv(part, index=False)
    return [f"{name}: {n} without points" for name, n in unread.student.value_counts().items()]
