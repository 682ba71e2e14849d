"""The file of a sweep: which runs of one page it asks for."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from probebook.base import UserError
from probebook_runs.cost import Work
from probebook_runs.model_checks import check_models
from probebook_runs.pages import find
from probebook_runs.schema import coerce, from_file
from probebook_runs.store import Run, plan

Point = dict[str, Any]


class SweepFile(BaseModel):
    """The keys that a sweep's file may have; book/how_to_use.md explains them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    page: str
    profile: str = "pocket"
    fixed: Point = {}  # values of every run
    grid: dict[str, list] | None = None  # every combination of these
    points: list[Point] | None = Field(None, alias="list")  # and these
    exclude: list[Point] = []  # but none that agrees with one of these
    # each of them with every seed
    seeds: Annotated[int, Field(ge=0)] | list[int] | None = None
    cost: list[Work] = []  # what each run does, for an estimate of hours and memory
    measured: str = ""  # what a run took where it was tried: time, memory, machine

    def combinations(self) -> list[Point]:
        """The points of the grid, then of the list, each with every seed.

        If there is neither, one point without values.
        """
        rows = (
            []
            if self.grid is None
            else [dict(zip(self.grid, row)) for row in product(*self.grid.values())]
        )
        rows += [{}] if self.grid is self.points is None else self.points or []
        if self.seeds is None:
            return rows
        if twice := [row for row in [self.fixed, *rows] if "seed" in row]:
            raise UserError(f"seeds, and {text(twice[0])}: give seeds in one place")
        seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
        return [row | {"seed": seed} for row in rows for seed in seeds]


def read(path: Path) -> dict[str, Run]:
    """The runs in a sweep's file, each once, by the values of its point, in order. UserError: see
    `checked`."""
    runs: dict[str, tuple[str, Run]] = {}
    for point, run in checked(path):
        runs.setdefault(run.id, (point, run))
    return dict(runs.values())


def checked(path: Path) -> list[tuple[str, Run]]:
    """The same runs without their ids, in a tenth of the time; some may occur twice.

    UserError names the point: no such file, an unknown key, a value that the page does not take, a
    layer that a model lacks, or nothing to run.
    """
    sweep = load(path)
    page, runs = find(sweep.page), []
    for work in sweep.cost:
        try:
            work.check(page.types)
        except UserError as e:
            raise UserError(f"{path}: {e}") from None
    rules = [
        {name: _any_of(page, name, value) for name, value in rule.items()} for rule in sweep.exclude
    ]
    for point in sweep.combinations():
        try:
            run = plan(page, sweep.profile, sweep.fixed | point)
            agrees = (all(run.values[name] in rule[name] for name in rule) for rule in rules)
            if any(agrees):
                continue
            check_models(page.types, run.values)
        except UserError as e:
            raise UserError(f"{path}, point {text(point)}: {e}") from None
        runs.append((text({name: run.values[name] for name in point}), run))
    if not runs:
        raise UserError(
            f"{path}: asks for no run; grid, list and seeds need a value each, exclude leaves none"
        )
    return runs


def load(path: Path) -> SweepFile:
    """A sweep's file as it stands. UserError: no such file, an unknown key, a value of a wrong
    type."""
    try:
        return SweepFile.model_validate(from_file(path))
    except ValidationError as e:
        first = min(e.errors(), key=lambda error: error["type"] != "extra_forbidden")
        raise UserError(f"{path}: {_problem(first)}") from None


def text(values: Point) -> str:
    """Values as one line: n=3, seed=0."""
    line = ", ".join(f"{name}={value}" for name, value in values.items())
    return line or "of the page's own values"


def _any_of(page, name: str, value: Any) -> list:
    """The values that an exclusion means: this one or, where the parameter itself takes no list,
    any item of a list."""
    try:
        return [coerce(page.types, {name: value}, page.name)[name]]
    except UserError:
        if name not in page.types or not isinstance(value, list):
            raise
    return [coerce(page.types, {name: item}, page.name)[name] for item in value]


def _problem(error: ErrorDetails) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] != "extra_forbidden":
        return f"{key}: {error['msg']}"
    fields = Work.model_fields if key.startswith("cost.") else SweepFile.model_fields
    known = [field.alias or name for name, field in fields.items()]
    near = get_close_matches(key, known, 1, 0)[0]
    return f"no key {key!r}, {near} perhaps: there are {', '.join(known)}"
