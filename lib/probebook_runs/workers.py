"""The workers of a cluster: what each must have before a run goes to it, and SLURM's jobs."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed.security import Security

from probebook.base import UserError
from probebook.corpora.fetch import entries
from probebook_runs.pages import Page, home, modules
from probebook_runs.schema import from_file
from probebook_runs.secrets import hide_secrets
from probebook_runs.store import _files, data_hashes, library_hashes

if TYPE_CHECKING:
    from dask.distributed import Client
    from dask_jobqueue import SLURMCluster

PACKAGES = ("torch", "transformers", "numpy", "distributed")
NO_DASHBOARD = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}  # of a scheduler
SHOWN = 3  # differences that the line about a refused worker names


def inventory(page: Page, values: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What this process has of all that runs of a page with these values may read: name → version
    or digest.

    Python, packages, the library's modules that the page imports, the book's data, files and models
    that the values name. If the page reads data sets, also the registered files under
    PROBEBOOK_DATA, by size, since `fetch` compares their checksums when it reads them.
    """
    library = modules(page)
    versions = {"Python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    versions |= library_hashes(page)
    versions |= {f"data/{name}": digest for name, digest in data_hashes().items()}
    for given in values:
        versions |= _files(page, given)
    folder = os.environ.get("PROBEBOOK_DATA")
    if folder and "probebook.corpora.fetch" in library:
        paths = [Path(folder, entry.file) for entry in entries().values()]
        versions |= {
            str(path): f"{path.stat().st_size:,} bytes" for path in paths if path.is_file()
        }
    return versions


class Question(NamedTuple):
    """What each worker is asked: whether it sees the file `token` in the book's folder, and has
    what runs of `page` with these values have here."""

    page: str
    values: list[dict[str, Any]]
    environment: dict[str, str]
    token: str
    right: dict[str, str]


def refusals(client: Client, workers: list[str], question: Question) -> dict[str, str]:
    """Worker → a line that says why it is refused, empty if it is not. Without those that have gone
    meanwhile."""
    answers = client.run(_answer, question, workers=workers, on_error="return") if workers else {}
    reasons = {}
    for worker, answer in answers.items():
        if isinstance(answer, Exception):
            text = f"lacks this version of the library: {hide_secrets(str(answer))}"
        else:
            text = answer
        if not isinstance(answer, OSError):
            reasons[worker] = text and f"worker {worker} is refused: it {text}"
    return reasons


async def _answer(question: Question) -> str:
    """`_differs` on a worker, which stays in touch with its scheduler meanwhile."""
    return await asyncio.to_thread(_differs, question)


def _differs(question: Question) -> str:
    """In what this process differs from the one that asks, empty if in nothing."""
    os.environ.update(question.environment)
    if not Path(question.token).exists():
        return f"does not see {home()}: a sweep needs a folder that all share"
    try:
        here = inventory(Page(question.page), question.values)
    except (OSError, UserError) as e:
        return f"cannot tell what it has: {one_line(e)}"
    differ = [
        f"{what} {_short(here[what])} where {_short(right)} is right"
        if what in here
        else f"no {what} ({_short(right)})"
        for what, right in question.right.items()
        if here.get(what) != right
    ]
    more = f", and {len(differ) - SHOWN} more" if len(differ) > SHOWN else ""
    return f"has {', '.join(differ[:SHOWN])}{more}" if differ else ""


def _short(text: str) -> str:
    return text[:8] if len(text) == 64 else text


def one_line(error: BaseException) -> str:
    """An error's kind and the first line of its message, without keys."""
    return hide_secrets(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")


@contextmanager
def slurm(file: Path) -> Iterator[SLURMCluster]:
    """A Dask cluster whose workers are SLURM jobs; the file holds what dask-jobqueue's
    `SLURMCluster` takes.

    The connections are encrypted, with a certificate for as long as the context lasts.
    UserError: dask-jobqueue is not installed, or does not take a value.
    """
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        raise UserError("dask-jobqueue is not installed: pip install -e '.[slurm]'") from None
    shared = home() / "_build"  # the jobs find the certificate there
    shared.mkdir(exist_ok=True)
    given: dict[str, Any] = {"scheduler_options": {**NO_DASHBOARD}}
    given |= {"shared_temp_directory": str(shared)}
    given |= from_file(file, as_text=False)
    try:
        cluster = SLURMCluster(**given, security=Security.temporary())
    except (OSError, RuntimeError, TypeError, ValueError) as e:
        raise UserError(f"{file}: {one_line(e)}") from None
    with cluster:
        yield cluster


def job_script(file: Path) -> str:
    """The script that dask-jobqueue hands to `sbatch` for each job. UserError: see `slurm`."""
    with slurm(file) as cluster:
        return cluster.job_script()
