"""Many runs of one page on a Dask cluster.

Finished runs are kept, and a run that fails or dies does not stop the others. A worker that has
another library, other versions or data than this process gets no run.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

from probebook.base import UserError, device_name, precision
from probebook_runs.cost import lines as cost_lines
from probebook_runs.execute import QUIET, PageFailed, execute, kernel_environment
from probebook_runs.jobs import choose_jobs, cores
from probebook_runs.kernels import Limits, kill
from probebook_runs.pages import Page, home, modules
from probebook_runs.progress import USUAL, RunProgress, in_words
from probebook_runs.records import of_page
from probebook_runs.store import Run, plan
from probebook_runs.sweep_file import load, read
from probebook_runs.warm import fork_server
from probebook_runs.workers import NO_DASHBOARD, Question, inventory, one_line, refusals, slurm

_fork_server = cache(fork_server)  # one as long as a worker's process lasts
ALLOWED = "distributed.scheduler.allowed-failures"
EVERY = 1.0  # seconds after which new workers are looked for
SHOWN = 20  # runs that --dry-run lists
# a laptop may sleep; a run's memory is bounded by its own limit, not by Dask's
CONFIG: dict[str, Any] = {
    ALLOWED: 5,
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


def sweep(
    path: Path,
    workers: int | None = None,
    scheduler: str | None = None,
    limits: Limits = Limits(),  # noqa: B008
    jobs: Path | None = None,
) -> dict[str, str]:
    """Run everything in a sweep's file that is not finished; return the errors of failed runs by
    point.

    Progress, failures and refused workers go to stderr, counts to stdout.

    Args:
        workers: Processes of this machine, else `choose_jobs`; with `jobs`, SLURM jobs, else one.
        scheduler: A Dask cluster in place of workers here (`tls://host:port`), which must see the
            same folder.
        jobs: What starts SLURM jobs as workers (`workers.slurm`).

    UserError: a bad file or scheduler, or every worker is refused."""
    runs = read(path)
    todo = {point: run for point, run in runs.items() if not run.finished}
    failed = {}
    if todo:
        count = _worker_count(cores() if scheduler else workers, todo)
        first = next(iter(todo.values()))
        usual = dict.fromkeys(todo, median(_seconds(first) or [USUAL]))
        with (
            dask.config.set(CONFIG),
            _client(count, scheduler, first, jobs) as client,
            RunProgress(usual, count, len(runs) - len(todo)) as progress,
        ):
            failed = _run_all(client, todo, limits, progress)
    for point, error in failed.items():
        progress.print(f"{runs[point].page.name}, {point}: {error}\n  {runs[point].command}")
    made, reused = len(todo) - len(failed), len(runs) - len(todo)
    print(f"{path}: {len(runs)} runs: {made} run, {reused} reused, {len(failed)} failed")
    return failed


def forecast(path: Path, workers: int | None = None) -> str:
    """What `sweep` would do, as text: the number of runs, how many are finished, the time left,
    what a run took where it was tried, the cost of all, the first points."""
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
    file = load(path)
    lines = [
        f"{path}: {len(runs)} runs of {first.page.name}, {done} finished; time left: {left}",
        *[f"measured: {file.measured}"] * bool(file.measured),
        *cost_lines(file.cost, [run.values for run in runs.values()]),
        *(f"  {point}" for point in list(todo)[:SHOWN]),
    ]
    return "\n".join(lines + [f"  … and {len(todo) - SHOWN} more"] * (len(todo) > SHOWN))


def _seconds(run: Run) -> list[float]:
    """How long the finished runs of its page and profile took."""
    return [record.seconds for record in of_page(run.page.name, run.profile)]


def environments(workers: int, gpus: list[str] | None = None) -> list[dict[str, str]]:
    """Environment variables of each worker. With GPUs (`gpus`: their names, default: this
    machine's) each sees one of them, in turn."""
    gpus = _gpus() if gpus is None else gpus
    return [{"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)]} if gpus else {} for i in range(workers)]


def _worker_count(workers: int | None, todo: dict[str, Run]) -> int:
    return choose_jobs([*todo.values()], workers, 0 if workers else len(_gpus()))


def _gpus() -> list[str]:
    """Names of this machine's GPUs, as CUDA_VISIBLE_DEVICES has them. None where PROBEBOOK_DEVICE
    chooses the processor, another kind, or one GPU for all runs."""
    if device_name() not in ("", "cuda"):
        return []
    import torch

    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return [name for name in names.split(",")[:count] if name]


@contextmanager
def _client(
    workers: int, scheduler: str | None, run: Run, jobs: Path | None = None
) -> Iterator[Client]:
    """A client of the scheduler, or of a cluster of SLURM jobs or of processes on this machine that
    ends with the context."""
    if jobs:
        with slurm(jobs) as cluster, Client(cluster) as client:
            cluster.adapt(minimum_jobs=workers, maximum_jobs=workers)  # a job that ends is replaced
            yield client
        return
    if scheduler:
        try:
            client = Client(scheduler, timeout="20s")
        except (OSError, RuntimeError, TypeError, ValueError) as e:
            raise UserError(
                f"no Dask scheduler answers at {scheduler} ({one_line(e)}): should be "
                "tls://HOST:PORT, with its certificate in Dask's settings of TLS"
            ) from None
        with silence_logging_cmgr(logging.CRITICAL), client:
            try:
                yield client
            except (FuturesCancelledError, CommClosedError):
                raise UserError(
                    f"the scheduler {scheduler} is gone; the same command runs what is missing"
                ) from None
        return
    # a port of this machine is open to its users
    each, security = environments(workers), Security.temporary()
    loopback = {"host": "127.0.0.1", "protocol": "tls://", "security": security} | NO_DASHBOARD
    options = loopback | {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    nannies = {i: {"cls": Nanny, "options": options | {"env": env}} for i, env in enumerate(each)}
    with (
        kernel_environment(max(1, cores() // len(each)), run.profile),
        SpecCluster(
            nannies,
            {"cls": Scheduler, "options": loopback | {"port": 0}},
            security=security,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        try:
            yield client
        except BaseException:
            for nanny in cluster.workers.values():  # a kernel would not hear Ctrl-C
                nanny.auto_restart = False
                if nanny.pid and psutil.pid_exists(nanny.pid):
                    kill([psutil.Process(nanny.pid)])
            raise


def _run_all(
    client: Client, todo: dict[str, Run], limits: Limits, progress: RunProgress
) -> dict[str, str]:
    """Errors by point.

    A run is sent to a worker that is not refused and has a thread free, and to another one if that
    one dies. The cluster holds no run that waits: it would be blamed for the death of the worker
    that was to run it next, and would fill the scheduler's memory.
    """
    waiting, failed, deaths = deque(todo), {}, Counter[str]()
    under_way: dict[Future, tuple[str, str, float]] = {}  # point, worker, since when
    asked: dict[str, str] = {}  # worker → why it is refused, empty if it is not
    first = next(iter(todo.values()))
    (home() / "_build").mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=home() / "_build", prefix=".sweep-") as token:
        passed_on = ("PROBEBOOK_DATA", "PROBEBOOK_CACHE")
        there = QUIET | {k: os.environ[k] for k in passed_on if k in os.environ}
        there |= {"PROBEBOOK_HOME": str(home()), "PROBEBOOK_PROFILE": first.profile}
        there |= {"PROBEBOOK_DTYPE": precision()}
        values = [run.values for run in todo.values()]
        ask = Question(first.page.name, values, there, token.name, inventory(first.page, values))
        while waiting or under_way:
            threads = client.nthreads()
            new = refusals(client, [worker for worker in threads if worker not in asked], ask)
            for line in filter(None, new.values()):
                progress.print(line)
            asked = {worker: why for worker, why in (asked | new).items() if worker in threads}
            if asked and all(asked.values()) and not under_way:
                raise UserError(f"no worker is left: {next(iter(asked.values()))}")
            busy = Counter(worker for _, worker, _ in under_way.values())
            fit = [worker for worker, why in asked.items() if not why]
            free = [one for one in fit for _ in range(threads[one] - busy[one])]
            for worker in free[: len(waiting)]:
                run = todo[point := waiting.popleft()]
                about = (run.page.name, run.profile, run.values, run.id, there, limits)
                future = client.submit(_run_one, *about, pure=False, workers=[worker])
                under_way[future] = point, worker, time.monotonic()
            if under_way:
                with suppress(TimeoutError):
                    wait(list(under_way), timeout=EVERY, return_when="FIRST_COMPLETED")
            else:
                time.sleep(EVERY)  # no worker is here yet
            for future, (point, worker, began) in list(under_way.items()):
                if not (ended := future.status in ("finished", "error")) and worker in threads:
                    continue
                del under_way[future]
                deaths[point] += not ended
                if not ended and deaths[point] <= CONFIG[ALLOWED]:
                    future.cancel()
                    waiting.appendleft(point)
                    continue
                if error := _error(future) if ended else _died(deaths[point]):
                    failed[point] = error
                progress.end(point, point, time.monotonic() - began, error and f"failed, {error}")
    return failed


def _error(future: Future) -> str:
    """The error of a run, empty if there is none. UserError: no run can succeed on this cluster."""
    error = future.exception()
    if error is None or isinstance(error, PageFailed):
        return str(error or "")
    if isinstance(error, KilledWorker):
        return _died(error.allowed_failures + 1)
    if isinstance(error, UserError):
        raise UserError(str(error)) from None
    raise UserError(f"a worker cannot run this: {one_line(error)}") from None


def _died(times: int) -> str:
    return f"its worker died {times} times (killed, or out of memory)"


def _run_one(
    name: str, profile: str, values: dict, run_id: str, there: dict[str, str], limits: Limits
) -> None:
    """On a worker: one run. PageFailed: its error, which the scheduler hands on if the worker dies.

    UserError: sources, data or versions have changed since the worker was asked.
    """
    os.environ.update(there)
    try:
        run = plan(Page(name), profile, values)
        same = run.id == run_id
    except OSError as e:
        raise PageFailed(one_line(e)) from None
    if not same:
        raise UserError(
            f"worker {get_worker().address} plans run {run.id[:8]} where {run_id[:8]} "
            "is asked for: its sources or data have changed since the sweep began"
        )
    try:
        server = _fork_server(tuple(modules(run.page)))
        execute(run, limits=limits, server=server and server.if_worth())
    except PageFailed:
        raise
    except Exception as e:
        raise PageFailed(one_line(e)) from None
