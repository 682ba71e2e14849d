"""Kill a run at random moments, resume it, and compare with a run that was not disturbed.

    .venv/bin/python benchmarks/faults.py [kills]

Each kill (−9, in turn of the runner, of its kernel, of a sweep's worker) has a folder and a cache
of its own. The run is then started again until it succeeds. `same`: its metrics are those of the
undisturbed run, bit for bit. data/records/benchmarks/faults.csv is replaced; it has a row per kill.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import psutil

from probebook.base import DATA, ROOT

PAGE = ["1_causal_probing/03_first_interventions", "--profile", "smoke"]
SWEEP = "{page: 1_causal_probing/03_first_interventions, profile: smoke, seeds: [0]}"
TABLE = DATA / "records" / "benchmarks" / "faults.csv"


def begin(*words: str, home: Path, **given: Any) -> subprocess.Popen:
    """Start the command line on the book in `home`, with a cache there; `given`: for Popen."""
    env = os.environ | {"PROBEBOOK_HOME": str(home), "PROBEBOOK_CACHE": str(home / "cache")}
    command = [sys.executable, "-c", "from probebook_cli import app; app()", *words]
    return subprocess.Popen(
        command,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home,
        **given,
    )


def the_runner(process: subprocess.Popen) -> list[psutil.Process]:
    """The process of the command line."""
    return [psutil.Process(process.pid)]


def its_kernel(process: subprocess.Popen) -> list[psutil.Process]:
    """The notebook kernels that the command line has started."""
    return _descendants(process, "ipykernel_launcher")


def a_worker(process: subprocess.Popen) -> list[psutil.Process]:
    """The worker processes of a sweep, busy or waiting."""
    workers = _descendants(process, "spawn_main")
    return [worker for worker in workers if worker.ppid() == process.pid]


def _descendants(process: subprocess.Popen, word: str) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += [child] * any(word in part for part in child.cmdline())
    return found


def kill(process: subprocess.Popen, whom: Callable, seconds: float) -> bool:
    """After `seconds` kill −9 the first process that `whom` names, as soon as there is one.

    False if the command ended before."""
    until = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() >= until and (found := whom(process)):
            found[0].kill()
            return True
        time.sleep(0.05)
    return False


def metrics(home: Path) -> dict[str, bytes]:
    """`metrics.parquet` of each finished run, by its folder."""
    paths = sorted(home.glob("_build/runs/*/*/*/metrics.parquet"))
    return {path.parent.name: path.read_bytes() for path in paths}


def go_on(*words: str, home: Path, tries: int = 3) -> int:
    """Start the same command until it succeeds, and say how often; RuntimeError after `tries`."""
    for i in range(1, tries + 1):
        done = begin(*words, home=home)
        err = done.communicate()[1]
        if done.returncode == 0:
            return i
    raise RuntimeError(err)


def a_home(folder: Path) -> Path:
    """A folder with the book's pages and nothing else."""
    for part in ("notebooks", "data"):
        (folder / part).symlink_to(ROOT / part)
    (folder / "sweep.yaml").write_text(SWEEP)
    return folder


def trial(whom: Callable, words: list[str], seconds: float, expected: dict[str, bytes]) -> dict:
    """One kill after `seconds`, and its consequences."""
    with TemporaryDirectory() as folder:
        home, began = a_home(Path(folder)), time.monotonic()
        process = begin(*words, home=home)
        killed = kill(process, whom, seconds)
        at = time.monotonic() - began
        process.communicate()
        repeats = 0 if process.returncode == 0 else go_on(*words, home=home)
        before = _record_times(home)
        go_on(*words, home=home, tries=1)
        after = _record_times(home)
        return {
            "killed": killed,
            "at second": round(at, 1),
            "ended with": process.returncode,
            "asked again": repeats,
            "runs": len(after),
            "same": metrics(home) == expected,
            "made twice": before != after,
        }


def _record_times(home: Path) -> list[int]:
    return [path.stat().st_mtime_ns for path in home.glob("_build/runs/*/*/*/record.json")]


def main(kills: int) -> None:
    run, sweep = ["run", *PAGE], ["sweep", "sweep.yaml"]
    rng, rows = random.Random(0), []
    with TemporaryDirectory() as folder:
        home, began = a_home(Path(folder)), time.monotonic()
        go_on(*run, home=home, tries=1)
        seconds, expected = time.monotonic() - began, metrics(home)
    while len(rows) < kills:
        whom = [the_runner, its_kernel, a_worker][len(rows) % 3]
        words = sweep if whom is a_worker else run
        row = trial(whom, words, rng.uniform(0, 0.9 * seconds), expected)
        print(row, flush=True)
        if row.pop("killed"):  # else it had ended before
            rows.append({"killed": whom.__name__.replace("_", " ")} | row)
            pd.DataFrame(rows).to_csv(TABLE, index=False)
    table = pd.DataFrame(rows)
    print(table.groupby("killed")[["same", "made twice"]].agg(["count", "sum"]))
    if not table.same.all() or table["made twice"].any():
        sys.exit("a kill changed numbers, or a finished run was made again")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
