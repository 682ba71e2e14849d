"""Run pages in parallel, each in a kernel of its own, with live progress.

Only an exception counts as a failure.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import psutil
from filelock import Timeout
from rich.console import Console

from probebook.base import UserError, atomic_write, cache_dir, device_name
from probebook_runs.jobs import choose_jobs, cores
from probebook_runs.kernels import Limits, kill, watch_kernel
from probebook_runs.model_checks import check_models
from probebook_runs.page import ENDED
from probebook_runs.pages import Page, home, modules, parameterize
from probebook_runs.progress import RunProgress, expected
from probebook_runs.records import run_lock
from probebook_runs.secrets import hide_secrets
from probebook_runs.store import Run, hidden_outputs, plan

if TYPE_CHECKING:
    import nbformat

    from probebook_runs.warm import ForkServer

QUIET = {
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PYTHONHASHSEED": "0",
}


class PageFailed(Exception):
    """A cell raised an error, or its kernel died or was ended. The message is one line with the
    cell's number."""


def run_all(
    runs: list[Run],
    force: bool = False,
    limits: Limits = Limits(),  # noqa: B008
    server: ForkServer | None = None,
    jobs: int | None = None,
) -> list[Run]:
    """Run all pages that are not finished and return the runs that failed.

    Pages begin in the book's order within a chapter, so that each pays for what it introduces and
    finds what the pages before it have fitted. Different chapters run side by side, because pages
    of one chapter wait for what they share. Progress and failures go to stderr.

    Args:
        force: Run the finished ones again, too.
        server: Kernels are its forks (`server_of`), if there are more than a few.
        jobs: Pages at a time; else one a core, as far as memory has room (`choose_jobs`).

    UserError before any kernel starts: a layer that a model lacks, a device that is not there, a
    cache that cannot be written."""
    todo = [run for run in runs if force or not run.finished]
    for run in todo:
        check_models(run.page.types, run.values)
    if not todo:
        return []
    cache_dir()
    workers = choose_jobs(todo, jobs)
    usual = {_key(run): expected(run.page.name, run.profile) for run in todo}
    queue, failed, stop = _Queue(todo, usual), [], threading.Event()
    forks = server and server.if_worth(len(todo))
    with (
        kernel_environment(max(1, cores() // workers), runs[0].profile),
        RunProgress(usual, workers) as progress,
        ThreadPoolExecutor(workers) as pool,
    ):

        def one() -> None:
            with queue.next() as run:
                key, began = _key(run), time.monotonic()
                progress.begin(key, run.page.name)
                try:
                    execute(run, partial(progress.at_cell, key), force, limits, stop.is_set, forks)
                    error = ""
                except Exception as e:
                    known = {PageFailed: "failed at ", UserError: "failed: "}
                    what = known.get(type(e), f"failed: {type(e).__name__}: ")
                    left = run.partial.relative_to(home())
                    error = f"{what}{e}\n  its partial notebook: {left}"
                    failed.append(run)
                progress.end(key, run.page.name, time.monotonic() - began, error)

        futures = [pool.submit(one) for _ in todo]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            # a kernel is in a session of its own and would not
            while not all(future.done() for future in futures):
                kill(psutil.Process().children())  # hear Ctrl-C; one may be about to start
                time.sleep(0.2)
            raise
    return failed


def _key(run: Run) -> str:
    """Names one of several runs. The id alone is not enough: pages with equal sources have equal
    ids."""
    return f"{run.page.name} {run.id}"


class _Queue:
    """The runs that wait."""

    def __init__(self, runs: list[Run], seconds: dict[str, float]):
        self.waiting, self.seconds = list(runs), seconds
        self.lock = threading.Lock()
        self.chapters: list[str] = []

    @contextmanager
    def next(self) -> Iterator[Run]:
        """Of the chapters that are not running, the one with most work left begins its first
        waiting run; if all are running, the longest of all begins."""
        with self.lock:
            left: dict[str, float] = {}
            for run in self.waiting:
                if (chapter := run.page.chapter) not in self.chapters:
                    left[chapter] = left.get(chapter, 0.0) + self.seconds[_key(run)]
            if left:
                most = max(left, key=left.__getitem__)
                run = next(run for run in self.waiting if run.page.chapter == most)
            else:
                run = max(self.waiting, key=lambda run: self.seconds[_key(run)])
            self.waiting.remove(run)
            self.chapters.append(run.page.chapter)
        try:
            yield run
        finally:
            with self.lock:
                self.chapters.remove(run.page.chapter)


def server_of(several: list[Page]) -> AbstractContextManager[ForkServer | None]:
    """The server that forks the kernels of several pages, where there can be one."""
    from probebook_runs.warm import fork_server

    return fork_server({name for page in several for name in modules(page)}) or nullcontext()


def execute(
    run: Run,
    at_cell: Callable[[int, int], None] = lambda i, n: None,
    force: bool = False,
    limits: Limits = Limits(),  # noqa: B008
    stopped: Callable[[], bool] = lambda: False,
    server: ForkServer | None = None,
) -> None:
    """Run one page and write its folder once every cell has ended without an error.

    If another process is making the same run, this one waits for it and then finds the run
    finished. The lock belongs to the operating system, so a killed process leaves none behind.

    Args:
        at_cell: Is called with the number of each code cell that begins, and how many there are.
        force: Run it again even if it is finished.
        stopped: Whether to stop waiting for another process.
        server: The kernel is its fork; without one it starts anew.

    PageFailed: a cell raised an error, or the kernel died or was ended."""
    try:
        with hold_lock(run, stopped):
            if force or not run.finished:
                began = time.monotonic()
                notebook = _execute_notebook(run, at_cell, limits, server)
                if plan(Page(run.page.name), run.profile, run.values, run.depends_on).id != run.id:
                    changed = "the page, the code or the data have changed meanwhile"
                    raise PageFailed(f"its end: {changed}: run it again")
                if why := ended_early(notebook):
                    line = f"{run.page.name} ended early: {why}"
                    Console(stderr=True).print(line, markup=False, soft_wrap=True)
                run.finish(*_finish_notebook(notebook, run, time.monotonic() - began))
    except OSError as e:
        where = e.filename or run.partial.parent
        raise PageFailed(f"its folder: {e.strerror or e}: {where}") from e


@contextmanager
def hold_lock(run: Run, stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """While the context lasts, no other process executes the run.

    Timeout: `stopped` said so before the other process had ended.
    """
    lock = run_lock(run.page.name, run.id)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        line = f"{run.page.name}: another process runs it, waiting"
        Console(stderr=True).print(line, markup=False)
        lock.acquire(cancel_check=stopped)
    try:
        yield
    finally:
        lock.release()


def _execute_notebook(
    run: Run, at_cell: Callable[[int, int], None], limits: Limits, server: ForkServer | None
) -> nbformat.NotebookNode:
    """The page's notebook after its last cell. Meanwhile it is saved as the run's partial
    notebook."""
    import nbformat
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill import PapermillExecutionError

    from probebook_runs import engine

    notebook = parameterize(run.page.notebook, run.changed)
    current, total = 0, sum(cell.cell_type == "code" for cell in notebook.cells)

    def on_cell_execute(cell, cell_index):
        nonlocal current
        current += 1
        at_cell(current, total)

    at_cell(0, total)
    with watch_kernel(limits, server) as (kernel, ended):
        try:
            notebook = engine.execute(notebook, run.partial, kernel, on_cell_execute)
        except PapermillExecutionError as e:
            problem = f"{e.ename}: {e.evalue.strip().partition(chr(10))[0]}"
        except DeadKernelError:
            problem = "the kernel died (killed, or out of memory)"
        except CellTimeoutError:
            problem = "the kernel gave no answer in time"
        except RuntimeError as e:
            problem = f"its kernel did not start: {e}"
        else:
            outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
            if all(o.output_type != "error" for o in outputs):  # sys.exit() leaves one
                return notebook
            problem = "the page ended itself before its last cell"
    with atomic_write(run.partial) as part:
        nbformat.write(hide_secrets(nbformat.read(run.partial, as_version=4)), part)
    raise PageFailed(hide_secrets(f"cell {current} of {total}: {ended() or problem}"))


def ended_early(notebook: nbformat.NotebookNode) -> str:
    """Why a page left out its last cells (`runs.end_page_if`); "" if it did not."""
    return next((text for name, text in hidden_outputs(notebook) if name == ENDED), "")


def _finish_notebook(
    notebook: nbformat.NotebookNode, run: Run, seconds: float
) -> tuple[nbformat.NotebookNode, float, str, str]:
    """The notebook without keys and without the engine's metadata (times, paths of this machine),
    then seconds, time of the end, commit."""
    notebook = hide_secrets(notebook)
    for part in (notebook, *notebook.cells):
        part.metadata.pop("papermill", None)
        part.metadata.pop("execution", None)
    commit = ""
    with suppress(FileNotFoundError):  # no git on this machine
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=home(),
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ).stdout.strip()
    finished = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    notebook.metadata["probebook"] = {
        "page": run.page.name,
        "run": run.id,
        "parameters": run.values,
        "seconds": round(seconds, 1),
        "finished": finished,
        "commit": commit,
    }
    return notebook, seconds, finished, commit


@contextmanager
def kernel_environment(threads: int, profile: str) -> Iterator[None]:
    """What kernels inherit: quiet libraries, a number of threads that suits the cores, the
    profile. UserError: `PROBEBOOK_DEVICE`, which they inherit too, is no device's name."""
    device_name()
    number = os.environ.get("OMP_NUM_THREADS", str(threads))  # one for all, or they fight for cores
    numbers = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), number)
    before = os.environ.copy()
    os.environ.update(numbers | before | QUIET | {"PROBEBOOK_PROFILE": profile})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
