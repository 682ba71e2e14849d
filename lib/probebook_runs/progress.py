"""Progress of many runs: bars in a terminal, one line per finished run in a log, and the time left.

The time left comes from recorded durations (`data/durations.csv`), scaled by how long the finished
runs took on this machine.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from functools import cache

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from probebook.base import DATA

USUAL = 30.0  # seconds of a run of which nothing is recorded


@cache
def _recorded() -> dict[tuple[str, str], float]:
    with open(DATA / "durations.csv", encoding="utf-8", newline="") as file:
        return {
            (row["page"], row["profile"]): float(row["seconds"]) for row in csv.DictReader(file)
        }


def expected(page: str, profile: str) -> float:
    """Seconds that this page took in this profile when its duration was last recorded, else
    USUAL."""
    return _recorded().get((page, profile), USUAL)


def in_words(seconds: float) -> str:
    """A duration for people: "45 s", "12 min", "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class RunProgress:
    """Shows runs by key through `begin`, `at_cell` and `end`; a context manager. It writes to
    stderr.

    `expected`: seconds that each run should take. `workers`: runs at a time. `finished`: runs that
    were already there; they count towards the total.
    """

    def __init__(self, expected: Mapping[str, float], workers: int, finished: int = 0):
        self.waiting, self.workers = dict(expected), workers
        self.under_way: dict[str, tuple[float, float]] = {}  # key → expected, begun
        self.took, self.planned = 0.0, 0.0
        self.total, self.done, self.failed = len(expected) + finished, finished, 0
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
        )
        self.bars = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.whole = self.bars.add_task(
            self._rest(), total=self.total, completed=finished, unit="runs"
        )
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> RunProgress:
        self.bars.start()
        return self

    def __exit__(self, *_) -> None:
        self.bars.stop()

    def begin(self, key: str, label: str) -> None:
        """A run starts."""
        self.under_way[key] = self.waiting.pop(key), time.monotonic()
        self.tasks[key] = self.bars.add_task(label, total=None, unit="cells")

    def at_cell(self, key: str, number: int, cells: int) -> None:
        self.bars.update(self.tasks[key], completed=number, total=cells)

    def end(self, key: str, label: str, seconds: float, error: str = "") -> None:
        """A run has ended after so many seconds. Its error is shown at once."""
        self.done, self.failed = self.done + 1, self.failed + bool(error)
        usual, _ = self.under_way.pop(key, (self.waiting.pop(key, USUAL), 0.0))
        if not error:
            self.took, self.planned = self.took + seconds, self.planned + usual
        if key in self.tasks:
            self.bars.remove_task(self.tasks.pop(key))
        self.bars.update(self.whole, completed=self.done, description=self._rest())
        if error or self.bars.disable:
            left = f"; about {in_words(self.left())} left" if self.done < self.total else ""
            self.print(f"{self.done} of {self.total}: {label}: {error or f'{seconds:.1f} s{left}'}")

    def print(self, line: str) -> None:
        self.console.print(line, markup=False)

    def _rest(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"about {in_words(self.left())} left{failed}"

    def left(self) -> float:
        """Estimated seconds until all runs have ended."""
        pace, now = self.took / self.planned if self.planned else 1.0, time.monotonic()
        rest = [max(0.0, pace * usual - (now - begun)) for usual, begun in self.under_way.values()]
        waiting = [pace * usual for usual in self.waiting.values()]
        return max([sum(rest + waiting) / self.workers, *rest, *waiting, 0.0])
