"""Run one submission's notebook to its end, errors and all: python -m probebook.labs.attempt NOTEBOOK OUT.

The grader calls it in a process of its own. OUT is written anew after each check, so that what was reached counts."""
from __future__ import annotations

import resource
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from probebook.base import written_whole
from probebook.runs.kernels import Limits, watched

LARGEST_FILE = 1 << 30


def main(path: str, out: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    notebook = nbformat.read(path, as_version=4)

    def save(cell, **_):
        if "check" in cell.metadata.get("tags", []):
            with written_whole(Path(out)) as part:
                nbformat.write(notebook, part)

    with watched(Limits()) as (kernel, _):
        NotebookClient(notebook, timeout=None, allow_errors=True, kernel_name="python3", kernel_manager_class=kernel,
                       startup_timeout=300, on_cell_executed=save, extra_arguments=["--log-level=50"]).execute()


if __name__ == "__main__":
    main(*sys.argv[1:])
