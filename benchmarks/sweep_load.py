"""What a sweep adds to plain papermill: N runs of a page that sleeps for a second, on two workers.

    .venv/bin/python benchmarks/sweep_load.py [N, else 1000]

The page imports nothing of the library; a run is the start and end of a kernel and that second. The
sweep is compared with 20 runs of the same page by papermill.execute_notebook in two warm processes,
one half before the sweep and one after. Seconds per run are seconds on the clock times two over the
runs; those of the sweep include planning and the start of its workers. Memory is that of the
process that runs the sweep, read every half second. The table
data/records/benchmarks/sweep_load.csv is replaced."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import psutil

from probebook.base import DATA
from probebook_runs import results
from probebook_runs import sweep as sweeps
from probebook_runs.execute import QUIET
from probebook_runs.pages import find
from probebook_runs.plain import paired_notebook
from probebook_runs.records import read_record

TABLE = DATA / "records" / "benchmarks" / "sweep_load.csv"
WORKERS = 2
PAGE = """---
file_format: mystnb
kernelspec: {display_name: Python 3, language: python, name: python3}
---
# A page

```{code-cell}
:tags: [parameters]
i: int = -1  # which run
```

```{code-cell}
import time

time.sleep(1)
display({"application/papermill.record/text/csv": f"metric,value\\ni,{i}\\n"}, raw=True, metadata={
    "scrapbook": {"name": "probebook:record:own", "mime_prefix": "application/papermill.record/"}})
```
"""


def plain(notebook: str, i: int) -> None:
    """One run by papermill alone."""
    import papermill

    papermill.execute_notebook(
        notebook, f"{notebook}.{i}.ipynb", {"i": i}, kernel_name="python3", progress_bar=False
    )


def loop(pool: ProcessPoolExecutor, notebook: str, runs: int) -> float:
    """Seconds of runs by papermill, as many at a time as the pool has processes."""
    began = time.monotonic()
    list(pool.map(plain, [notebook] * runs, range(runs)))
    return time.monotonic() - began


def swept(path: Path) -> tuple[float, list[float]]:
    """Seconds of a sweep, and this process's memory, in MB, every half second of it."""
    memory, over = [], threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            memory.append(psutil.Process().memory_info().rss / 1e6)

    thread = threading.Thread(target=watch)
    thread.start()
    began = time.monotonic()
    try:
        assert sweeps.sweep(path, WORKERS) == {}
        return time.monotonic() - began, memory
    finally:
        over.set()
        thread.join()


def main(n: int = 1000) -> None:
    home = Path(os.environ["PROBEBOOK_HOME"])
    (home / "notebooks" / "1_load").mkdir(parents=True)
    (home / "notebooks" / "1_load" / "01_second.md").write_text(PAGE)
    (home / "sweep.yaml").write_text(f"page: 1_load\ngrid: {{i: {list(range(n))}}}\n")
    (home / "plain.ipynb").write_text(paired_notebook(find("1_load")))
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        loop(pool, str(home / "plain.ipynb"), 2 * WORKERS)  # imports, first starts of kernels
        alone = loop(pool, str(home / "plain.ipynb"), 10)
        seconds, memory = swept(home / "sweep.yaml")
        alone += loop(pool, str(home / "plain.ipynb"), 10)
    began = time.monotonic()
    folders = (home / "_build/runs/1_load/01_second").glob("*")
    assert len([read_record(path) for path in folders]) == n
    read, began = time.monotonic() - began, time.monotonic()
    assert sorted(results.pivot(results.metrics("1_load"), ["i"], []).iloc[:, 0]) == list(range(n))
    pivoted, began = time.monotonic() - began, time.monotonic()
    sweeps.forecast(home / "sweep.yaml", WORKERS)
    one, other = WORKERS * seconds / n, WORKERS * alone / 20
    moments = (("after a tenth", 0.1), ("in the middle", 0.5), ("at the end", 1))
    found = {
        "runs": n,
        "seconds a run, sweep": round(one, 2),
        "seconds a run, papermill": round(other, 2),
        "ratio": round(one / other, 3),
        "milliseconds a run more": round(1e3 * (one - other)),
        **{
            f"memory, MB, {where}": round(memory[int(share * (len(memory) - 1))])
            for where, share in moments
        },
        "seconds to read all records": round(read, 2),
        "seconds to check, read and pivot all metrics": round(pivoted, 2),
        "seconds of a dry run": round(time.monotonic() - began, 1),
    }
    values = [f"{value:g}" for value in found.values()]
    table = pd.DataFrame({"what": found.keys(), "value": values})
    print(table.to_string(index=False))
    table.to_csv(TABLE, index=False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        os.environ.update(QUIET | threads | {"PROBEBOOK_HOME": folder})
        main(*map(int, sys.argv[1:2]))
