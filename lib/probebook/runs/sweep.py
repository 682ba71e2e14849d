"""Many runs of one page on a Dask cluster.

Finished runs are kept, and a run that fails or dies does not stop the others.
"""
from __future__ import annotations

import logging
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import dask
import psutil
from dask.distributed import Client, Future, Nanny, Scheduler, SpecCluster, get_worker, wait
from distributed.client import FuturesCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker
from distributed.security import Security
from distributed.utils import silence_logging_cmgr

from probebook.base import UserError
from probebook.runs.cost import lines as cost_lines
from probebook.runs.execute import QUIET, PageFailed, _cores, execute, kernel_environment
from probebook.runs.kernels import Limits, kill
from probebook.runs.pages import Page, home, modules
from probebook.runs.progress import USUAL, RunProgress, in_words
from probebook.runs.records import read_record
from probebook.runs.secrets import hide_secrets
from probebook.runs.store import Run, plan
from probebook.runs.sweep_file import load, read
from probebook.runs.warm import server

_server = cache(server)      # one as long as a worker's process lasts
ALLOWED = "distributed.scheduler.allowed-failures"
EVERY = 1.      # seconds after which new workers are looked for
SHOWN = 20      # runs that --dry-run lists
# a laptop may sleep; a run's memory is bounded by its own limit, not by Dask's
CONFIG: dict[str, Any] = {
    ALLOWED: 5, "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}


def sweep(path: Path, workers: int | None = None, scheduler: str | None = None,
          limits: Limits = Limits()) -> dict[str, str]:     # noqa: B008
    """Run everything in a sweep's file that is not finished; return the errors of failed runs by
    point.

    Runs use `workers` processes of this machine (default: one per GPU, else one per core), or the
    Dask cluster at `scheduler` (`tcp://host:port`), which must see the same folder and sources.
    Progress and failures go to stderr, counts to stdout. UserError: a bad file or scheduler, or a
    worker with other sources or another folder.
    """
    runs = read(path)
    todo = {point: run for point, run in runs.items() if not run.finished}
    failed = {}
    if todo:
        count, first = _worker_count(workers, todo), next(iter(todo.values()))
        usual = dict.fromkeys(todo, median(_seconds(first) or [USUAL]))
        with dask.config.set(CONFIG), _client(count, scheduler, first) as client, \
                RunProgress(usual, count, len(runs) - len(todo)) as progress:
            failed = _run_all(client, todo, limits, progress)
    for point, error in failed.items():
        progress.print(f"{runs[point].page.name}, {point}: {error}\n  {runs[point].command}")
    made, reused = len(todo) - len(failed), len(runs) - len(todo)
    print(f"{path}: {len(runs)} runs: {made} run, {reused} reused, {len(failed)} failed")
    return failed


def forecast(path: Path, workers: int | None = None) -> str:
    """What `sweep` would do, as text: the number of runs, how many are finished, the time left, the
    cost of all, the first points."""
    runs = read(path)
    todo = {point: run for point, run in runs.items() if not run.finished}
    first = next(iter(runs.values()))
    seconds = _seconds(first)
    workers = _worker_count(workers, todo)
    left = "no estimate: no finished run"
    if seconds:
        time_left = in_words(median(seconds) * len(todo) / workers)
        plural = "s" if workers > 1 else ""
        left = f"about {time_left} on {workers} worker{plural}, from {len(seconds)} finished"
    done = len(runs) - len(todo)
    lines = [f"{path}: {len(runs)} runs of {first.page.name}, {done} finished; time left: {left}",
             *cost_lines(load(path).cost, [run.values for run in runs.values()]),
             *(f"  {point}" for point in list(todo)[:SHOWN])]
    return "\n".join(lines + [f"  … and {len(todo) - SHOWN} more"] * (len(todo) > SHOWN))


def _seconds(run: Run) -> list[float]:
    """How long the finished runs of its page and profile took."""
    records = map(read_record, (home() / "_build" / "runs" / run.page.name).glob("*"))
    return [record.seconds for record in records if record and record.profile == run.profile]


def environments(workers: int | None = None, gpus: list[str] | None = None) -> list[dict[str, str]]:
    """Environment variables of each worker.

    With GPUs (`gpus`: their names, default: this machine's) each worker sees one of them, in turn.
    `workers`: default one per GPU, else one per core.
    """
    gpus = _gpus() if gpus is None else gpus
    workers = workers or len(gpus) or _cores()
    return [{"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)]} if gpus else {} for i in range(workers)]


def _worker_count(workers: int | None, todo: dict[str, Run]) -> int:
    return max(1, min(len(environments(workers)), len(todo)))


def _gpus() -> list[str]:
    import torch
    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return [name for name in names.split(",")[:count] if name]


@contextmanager
def _client(workers: int | None, scheduler: str | None, run: Run) -> Iterator[Client]:
    """A client of the scheduler, or of a cluster of processes on this machine that ends with the
    context."""
    if scheduler:
        try:
            client = Client(scheduler, timeout="20s")
        except (OSError, ValueError, TypeError):
            raise UserError(f"no Dask scheduler answers at {scheduler}: should be "
                            "tcp://host:port") from None
        with silence_logging_cmgr(logging.CRITICAL), client:
            try:
                yield client
            except (FuturesCancelledError, CommClosedError):
                raise UserError(f"the scheduler {scheduler} is gone; the same command runs what is "
                                "missing") from None
        return
    # a port of this machine is open to its users
    each, security = environments(workers), Security.temporary()
    loopback = {"host": "127.0.0.1", "protocol": "tls://", "security": security, "dashboard": False,
                "dashboard_address": "127.0.0.1:0"}
    options = loopback | {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    nannies = {i: {"cls": Nanny, "options": options | {"env": env}} for i, env in enumerate(each)}
    with kernel_environment(max(1, _cores() // len(each)), run.profile), \
            SpecCluster(nannies, {"cls": Scheduler, "options": loopback | {"port": 0}},
                        security=security,
                        silence_logs=logging.CRITICAL) as cluster, Client(cluster) as client:
        try:
            yield client
        except BaseException:
            for nanny in cluster.workers.values():          # a kernel would not hear Ctrl-C
                nanny.auto_restart = False
                kill([psutil.Process(nanny.pid)]
                     if nanny.pid and psutil.pid_exists(nanny.pid) else [])
            raise


def _run_all(client: Client, todo: dict[str, Run], limits: Limits,
             progress: RunProgress) -> dict[str, str]:
    """Errors by point.

    The cluster holds only as many runs as it has threads. A run that waited there would be blamed
    for the death of the worker that was to run it next, and would fill the scheduler's memory.
    """
    waiting, failed = deque(todo), {}
    under_way: dict[Future, tuple[str, float]] = {}
    (home() / "_build").mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=home() / "_build", prefix=".sweep-") as token:
        there = QUIET | {k: v for k, v in os.environ.items()
                         if k in ("PROBEBOOK_DATA", "PROBEBOOK_CACHE")}
        there |= {"PROBEBOOK_HOME": str(home()),
                  "PROBEBOOK_PROFILE": next(iter(todo.values())).profile}
        while waiting or under_way:
            room = max(1, sum(client.nthreads().values()))
            while waiting and len(under_way) < room:
                run = todo[point := waiting.popleft()]
                future = client.submit(_run_one, run.page.name, run.profile, run.values, run.id,
                                       there, token.name,
                                       limits, pure=False)
                under_way[future] = point, time.monotonic()
            try:
                done = wait(list(under_way), timeout=EVERY, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                continue
            for future in done:
                point, began = under_way.pop(future)
                if error := _error(future):
                    failed[point] = error
                progress.end(point, point, time.monotonic() - began, error and f"failed, {error}")
    return failed


def _error(future) -> str:
    """The error of a run, empty if there is none. UserError: no run can succeed on this cluster."""
    if future.status == "finished":
        return future.result()
    error = future.exception()
    if isinstance(error, KilledWorker):
        return f"its worker died {error.allowed_failures + 1} times (killed, or out of memory)"
    raise UserError(str(error) if isinstance(error, UserError) else
                    f"a worker cannot run this: {_one_line(error)}") from None


def _run_one(name: str, profile: str, values: dict, run_id: str, there: dict[str, str], token: str,
             limits: Limits) -> str:
    """On a worker: the error of one run, empty if there is none.

    UserError: the worker has other sources or another folder than the process that started the
    sweep.
    """
    os.environ.update(there)
    if not Path(token).exists():
        raise UserError(f"worker {get_worker().address} does not see {home()}: a sweep needs a "
                        "folder that all share")
    try:
        run = plan(Page(name), profile, values)
        same = run.id == run_id
    except OSError as e:
        return _one_line(e)
    if not same:
        raise UserError(f"worker {get_worker().address} plans run {run.id[:8]} where {run_id[:8]} "
                        "is asked for: "
                        "it has other sources, data or versions (or they have changed since the "
                        "sweep began)")
    try:
        warm = _server(tuple(modules(run.page)))
        execute(run, limits=limits, server=warm and warm.if_worth())
    except PageFailed as e:
        return str(e)
    except Exception as e:
        return _one_line(e)
    return ""


def _one_line(error: BaseException) -> str:
    return hide_secrets(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")

