"""Effects: the numbers that decide what becomes of a claim, from tables of runs and of sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from statsmodels.stats.proportion import proportion_confint

from probebook.base import UserError
from probebook.measures.intervals import least_over_seeds
from probebook_book.rule import Outcome, outcome_of_count, p_value
from probebook_runs.archive import archived, sweep_table
from probebook_runs.store import book_run, by_metric, tables

Row = str | int | tuple[str | int, ...]  # its id, or its ids
Rows = dict[str, str | int | list[str | int]]  # all that have these ids
At = tuple[str, str, Row | Rows]  # run (or sweep), table, row
BOOK_RUN = "this book's run"


class Effect(BaseModel):
    """A number that decides a part of a claim, and the side on which the claim puts it: "> 0",
    "= 0", or "all" for counts.

    - `numbers`: the names of value, low and high (of an exact number: the value alone; of counts:
      how many, of how many and, if some are undecided, how many fail) among the numbers of the
      page's text, or columns of the row `at`
    - `at`: of several rows the least counts, the largest for "<": with one column by its values
      over the seeds, with three by the ends of the rows' intervals
    - `minus`: such rows, to be subtracted
    - `trials`: the number is a share of so many
    - `within`: what bounds the ends of its interval; a share (`form` with %) lies in 0 to 1
    - `run`: where the number comes from, if not from the run of `at`
    - `read`: what someone read in code that nothing computes, and `why` it says so"""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str
    claim: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    of: float | None = None
    p: float | None = None
    outcomes: list[Outcome] = []
    run: str = BOOK_RUN
    why: str = ""
    key: str = Field("", exclude=True)
    at: At | None = Field(None, exclude=True)
    minus: At | None = Field(None, exclude=True)
    numbers: tuple[str, ...] = Field(("here", "low", "high"), exclude=True)
    trials: int = Field(0, exclude=True)
    read: Outcome | None = Field(None, exclude=True)
    form: str = Field(".2f", exclude=True)
    within: tuple[float, float] | None = Field(None, exclude=True)

    def measure(self, page: str, values: Mapping[str, float | str]) -> Effect:
        """The same with its value, interval and p, or its counts, by the page's runs and the
        numbers of its text. UserError: one is missing."""
        found: dict = {"run": self.at[0]} if self.at and self.run == BOOK_RUN else {}
        try:
            if self.read:
                found["outcomes"] = [self.read]
            elif self.claim == "all":
                found["value"], found["of"], *fails = self._figures(page, values, False)
                found["outcomes"] = outcome_of_count(found["value"], found["of"], *fails)
            else:
                claim = found["claim"] = self.claim.format_map(values)
                measured = self._measured(page, values, claim[0] == "<", float(claim[1:]))
                found |= zip(("value", "low", "high", "p"), measured)
                share = self.form.endswith("%") and not self.minus
                if within := self.within or ((0.0, 1.0) if share else None):
                    found |= {end: float(np.clip(found[end], *within)) for end in ("low", "high")}
        except KeyError as e:
            raise UserError(f"{page} has no number {e}: {self.what!r}") from None
        return self.model_copy(update=found)

    def _measured(
        self, page: str, values: Mapping, below: bool, threshold: float
    ) -> tuple[float, float, float, float | None]:
        """Value, low, high and p of the threshold."""
        if self.at and len(self.numbers) == 1 and isinstance(self.at[2], dict):
            by_seed = _by_seed(page, self.at, *self.numbers)
            if self.minus:
                by_seed = by_seed - _by_seed(page, self.minus, *self.numbers)
            sign = -1 if below else 1
            with np.errstate(divide="ignore"):  # equal in all seeds
                least = least_over_seeds(sign * (by_seed - threshold))
            here, *ends = (threshold + sign * least[end] for end in ("here", "low", "high"))
            return here, min(ends), max(ends), least["p"]
        value, low, high = (self._figures(page, values, below) * 3)[:3]  # an exact number has one
        if self.trials:
            low, high = proportion_confint(value * self.trials, self.trials, method="wilson")
        if self.minus:
            other, less, more = _ends(page, self.minus, self.numbers, below)
            value, half = value - other, float(np.hypot(high - low, more - less)) / 2
            low, high = value - half, value + half
        elif self.at and threshold == 0:
            exact = _rows(page, self.at).filter(["p", f"{self.numbers[0]} p"])
            if exact.size:
                return value, low, high, float(exact.iloc[0, 0])
        return value, low, high, p_value(value, low, high, threshold)

    def _figures(self, page: str, values: Mapping, below: bool) -> list[float]:
        if self.at:
            return _ends(page, self.at, self.numbers, below)
        return [float(values[name]) for name in self.numbers]

    @property
    def shown(self) -> str:
        """Its value and interval, or its counts, as text."""
        if self.value is None:
            return "read"
        if self.of is not None:
            return f"{self.value:.0f} of {self.of:.0f}"
        form = self.form.replace(".", "z.")  # no -0
        value, low, high = (
            format(x, form).replace("-", "−").replace("%", " %")
            for x in (self.value, self.low, self.high)
        )
        return value if self.low == self.high else f"{value} ({low} to {high})"

    @property
    def side(self) -> str:
        """The claim's side, its threshold with three digits."""
        if self.claim in ("", "all"):
            return self.claim
        return f"{self.claim[0]} {float(self.claim[1:]):.3g}".replace("-", "−")


def stored_value(page: str, run: str, table: str, row: Row | Rows, metric: str) -> float:
    """A number of a table of a stored run of a page, of a sweep, or of this book's run; of several
    rows their mean.

    UserError: there is no such run, table, row or metric."""
    rows = _rows(page, (run, table, row))
    if metric not in rows:
        raise UserError(f"{page} has no {metric!r} of {row!r} in table {table!r} of {run}")
    return float(rows[metric].mean())


def column(page: str, at: At, metric: str) -> pd.Series:
    """A column of some rows of a table, by their ids."""
    return _rows(page, at)[metric]


def _ends(page: str, at: At, columns: tuple[str, ...], below: bool) -> list[float]:
    """These columns of a row; of several rows the least, or the largest, of each."""
    rows = _rows(page, at)
    return [float(rows[name].max() if below else rows[name].min()) for name in columns]


def _by_seed(page: str, at: Any, metric: str) -> np.ndarray:
    """The values of some rows, which tell seeds apart by their other ids: [seeds, rows]."""
    return np.asarray(column(page, at, metric).unstack([*at[2]]).dropna(axis=1, how="all"))


def _rows(page: str, at: At) -> pd.DataFrame:
    """Rows of a table. UserError: there are none."""
    run, name, row = at
    table = _table(page, run, name)
    if isinstance(row, dict):
        for level, ids in row.items():
            table = table[table.index.get_level_values(level).isin(np.atleast_1d(ids))]
    else:
        table = table.loc[[row]] if row in table.index else table[:0]
    if table.empty:
        raise UserError(f"{page} has no row {row!r} in table {name!r} of {run}")
    return table


@cache
def _book_tables(page: str) -> dict[str, pd.DataFrame]:
    return tables(book_run(page).read())


@cache
def _table(page: str, run: str, name: str) -> pd.DataFrame:
    """A table of this book's run, of a stored run or of a sweep, with its ids as the index.

    UserError: there is none of that name."""
    if run == BOOK_RUN:
        long = _book_tables(page).get(name, pd.DataFrame())
    elif run in (stored := archived(page, name)):
        return stored[run]
    else:
        long = sweep_table(run).query("table == @name")
        long = long.drop(columns=["page", "table"]).dropna(axis=1, how="all")
    if long.empty:
        raise UserError(f"{page} has no table {name!r} of {run}")
    return by_metric(long)
