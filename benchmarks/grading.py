"""How long it takes to grade a class: 16 submissions of a page, two at a time.

    .venv/bin/python benchmarks/grading.py [PAGE, else 1_causal_probing/03] [N, else 16]

Each submission holds the book's solutions with a name and a cell of its own; every fourth leaves
the last exercise open. Asserts that each gets the outcomes that it should. CPU seconds are those of
all processes that the grading starts, read ten times a second. The load is the number of processes
that wanted a core in the minute before; the seconds on the clock grow with it. The page's row of
data/records/benchmarks/grading.csv is replaced."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import nbformat
import pandas as pd
import psutil
from nbformat.v4 import new_code_cell

from probebook.base import DATA
from probebook_runs.kernels import Limits
from probebook_runs.labs import sandbox
from probebook_runs.labs.checker import ACCEPTED
from probebook_runs.labs.exercises import exercises, solution
from probebook_runs.labs.grade import grade
from probebook_runs.labs.student import write
from probebook_runs.pages import Page, find

TABLE = DATA / "records" / "benchmarks" / "grading.csv"
WORKERS = 2


def hand_in(folder: Path, page: Page, n: int) -> list[list[str]]:
    """Write the submissions of a page; the outcomes that each should get."""
    [handed_out] = write(folder, [page])
    asked, wanted = exercises(page.notebook), []
    for i in range(n):
        notebook = nbformat.read(handed_out, as_version=4)
        done = asked[:-1] if i % 4 == 3 else asked
        for exercise in done:
            first = f"# exercise {exercise.number} of {page.name}\n"
            cell = next(cell for cell in notebook.cells if cell.source.startswith(first))
            answer = page.notebook.cells[exercise.cell].source
            cell.source = f"{first}{solution(answer)}\n# handed in by student {i}"
        notebook.cells.append(new_code_cell(f"mine = {i}"))
        nbformat.write(notebook, folder / f"student {i:03}.ipynb")
        wanted.append(
            [ACCEPTED[exercise.kind] for exercise in done] + ["not done"] * (len(asked) - len(done))
        )
    handed_out.unlink()
    return wanted


@contextmanager
def watched():
    """CPU seconds of each process that is started meanwhile, by its number."""
    used, over = {}, threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    used[process.pid] = times.user + times.system

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield used
    finally:
        over.set()
        thread.join()


def main(name: str = "1_causal_probing/03", n: str = "16") -> None:
    page = find(name)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "handed in"
        wanted = hand_in(folder, page, int(n))
        load, began = os.getloadavg()[0], time.monotonic()
        with watched() as used:
            table = grade(folder, Path(made) / "grades", "smoke", WORKERS, Limits(600))
        seconds = time.monotonic() - began
    found = table.groupby("submission", sort=False).outcome.agg(list).tolist()
    assert found == wanted, table.to_string()
    row = {
        "page": page.name,
        "submissions": int(n),
        "at a time": WORKERS,
        "sandbox": "no" if sandbox.missing() else "yes",
        "CPU seconds": round(sum(used.values())),
        "seconds": round(seconds),
        "load before": round(load, 1),
    }
    print(row)
    kept = [pd.read_csv(TABLE)] if TABLE.exists() else []
    (
        pd.concat([*kept, pd.DataFrame([row])])
        .drop_duplicates("page", keep="last")
        .sort_values("page")
        .to_csv(TABLE, index=False)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
