"""Run a submission's notebook to its end: python -m probebook.labs.attempt NOTEBOOK OUT.

Cells that fail do not stop it. OUT is written again after each check, so that what a submission
reached counts even if it is then ended. `grade` starts this in a process of its own."""
from __future__ import annotations

import resource
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from probebook.base import written_whole
from probebook.runs.kernels import Limits, watched

LARGEST_FILE = 1 << 30              # bytes


def main(notebook_path: str, out: str) -> None:
    """Execute the notebook and write what has run to `out`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    notebook = nbformat.read(notebook_path, as_version=4)

    def save_after_check(cell: NotebookNode, **_) -> None:
        if "check" in cell.metadata.get("tags", []):
            with written_whole(Path(out)) as part:
                nbformat.write(notebook, part)

    with watched(Limits()) as (kernel, _):
        client = NotebookClient(
            notebook, timeout=None, allow_errors=True, kernel_name="python3",
            kernel_manager_class=kernel, startup_timeout=300, on_cell_executed=save_after_check,
            extra_arguments=["--log-level=50"])
        client.execute()


if __name__ == "__main__":
    main(*sys.argv[1:])
