"""Runs a page's notebook cell by cell: by papermill, or by nbclient, on which papermill rests.

`PROBEBOOK_ENGINE=nbclient` chooses the second, which does without papermill. The first is
`by_papermill.py`, the only module that knows papermill.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell

from probebook.base import UserError

SECONDS = 5.0  # between two writes of the partial notebook
KERNEL: dict[str, Any] = {
    "kernel_name": "python3",
    "iopub_timeout": 60,
    "extra_arguments": ["--log-level=50"],
}
START = 300  # seconds that a kernel may take to start


def execute(
    notebook: nbformat.NotebookNode,
    values: dict[str, Any],
    path: Path,
    kernel: type,
    on_cell: Callable[..., None],
) -> nbformat.NotebookNode:
    """The notebook after its last cell, run with `values` in a kernel of a class of managers.

    It is saved at `path` meanwhile and at the end. `on_cell` is called before each code cell. A
    page that ends itself (`sys.exit()`) raises nothing. CellExecutionError: a cell raised an error.
    UserError: no such engine.
    """
    engine = os.environ.get("PROBEBOOK_ENGINE") or "papermill"
    if engine not in ("papermill", "nbclient"):
        raise UserError(f"PROBEBOOK_ENGINE={engine}: should be papermill or nbclient")
    notebook = parameterized(notebook, values)
    if engine == "papermill":
        from probebook_runs.by_papermill import by_papermill

        return by_papermill(notebook, path, kernel, on_cell)
    return by_nbclient(notebook, path, kernel, on_cell)


def by_nbclient(
    notebook: nbformat.NotebookNode, path: Path, kernel: type, on_cell: Callable[..., None]
) -> nbformat.NotebookNode:
    """`execute` by nbclient alone."""
    with saving(notebook, path) as save:
        client = NotebookClient(
            notebook,
            kernel_manager_class=kernel,
            startup_timeout=START,
            raise_on_iopub_timeout=True,
            on_cell_start=save,
            on_cell_execute=on_cell,
            on_cell_executed=save,
            **KERNEL,
        )
        try:
            client.execute()
        except CellExecutionError as e:
            if (e.ename, e.evalue) not in (("SystemExit", ""), ("SystemExit", "0")):
                raise
    return notebook


@contextmanager
def saving(notebook: nbformat.NotebookNode, path: Path) -> Iterator[Callable[..., None]]:
    """A function that writes the notebook to `path`, but only every few seconds, not twice a cell.
    The end of the block writes it as well."""
    last = -SECONDS

    def save(**_: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS:
            nbformat.write(notebook, path)
            last = time.monotonic()

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield save
    finally:
        nbformat.write(notebook, path)


def parameterized(notebook: nbformat.NotebookNode, values: dict[str, Any]) -> nbformat.NotebookNode:
    """A copy of a notebook with one more cell after its parameters cell, which sets `values`; if
    there are none, just a copy."""
    notebook = deepcopy(notebook)
    if values:
        lines = ["# Parameters", *(f"{name} = {value!r}" for name, value in values.items())]
        given = new_code_cell(
            "\n".join(lines), id="injected-parameters", metadata={"tags": ["injected-parameters"]}
        )
        at = [
            i
            for i, cell in enumerate(notebook.cells, 1)
            if "parameters" in cell.metadata.get("tags", [])
        ]
        notebook.cells.insert(at[0] if at else 0, given)
    return notebook
