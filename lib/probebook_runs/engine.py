"""Runs a page's notebook cell by cell, by papermill. No other module imports papermill."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import papermill
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

SECONDS = 5.0  # between two writes of the partial notebook
START = 300  # seconds that a kernel may take to start


class SparseSaving(NBClientEngine):
    """Executes a page as papermill does, but writes the partial notebook every few seconds and at
    the end, not about a hundred times for a page of fifty cells."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, path: Path, **options: Any
    ) -> None:
        with _save_sparsely(nb_man.nb, path) as nb_man.save:
            super().execute_managed_notebook(nb_man, kernel_name, **options)


papermill_engines.register("sparse saving", SparseSaving)


def execute(
    notebook: nbformat.NotebookNode, path: Path, kernel: type, on_cell: Callable[..., None]
) -> nbformat.NotebookNode:
    """Run a notebook, with its parameters in it, to its last cell and return it with its outputs.

    It is saved at `path` meanwhile and at the end. `kernel`: a class of kernel managers; `on_cell`
    is called before each code cell. PapermillExecutionError: a cell raised an error; a page that
    ends itself (`sys.exit()`) raises nothing."""
    logging.getLogger("papermill").setLevel(logging.ERROR)
    return papermill.execute_notebook(
        notebook,
        None,  # no output path, since `SparseSaving` writes
        engine_name="sparse saving",
        progress_bar=False,
        start_timeout=START,
        kernel_name="python3",
        kernel_manager_class=kernel,
        iopub_timeout=60,
        # the notebook has the outputs: the kernel need not keep a second copy
        extra_arguments=["--log-level=50", "--InteractiveShell.cache_size=0"],
        shutdown_kernel="immediate",  # to tidy up takes its libraries half a second
        on_cell_execute=on_cell,
        path=path,
    )


@contextmanager
def _save_sparsely(notebook: nbformat.NotebookNode, path: Path) -> Iterator[Callable[..., None]]:
    """Yield a function that writes the notebook to `path`, but only every few seconds; the end of
    the block writes it as well."""
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
