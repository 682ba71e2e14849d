"""papermill, as the engine that runs a page. No other module imports it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import papermill
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

from probebook_runs.engine import KERNEL, START, saving


class Seldom(NBClientEngine):
    """Executes a page as papermill does, but writes the partial notebook every few seconds and at
    the end, not about a hundred times for a page of fifty cells."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, path: Path, **given: Any
    ) -> None:
        with saving(nb_man.nb, path) as nb_man.save:
            super().execute_managed_notebook(nb_man, kernel_name, **given)


papermill_engines.register("seldom", Seldom)


def by_papermill(
    notebook: NotebookNode, path: Path, kernel: type, on_cell: Callable[..., None]
) -> NotebookNode:
    """`engine.execute` by papermill, which gets no output path, since `Seldom` writes."""
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        return papermill.execute_notebook(
            notebook,
            None,
            None,
            "seldom",
            progress_bar=False,
            start_timeout=START,
            kernel_manager_class=kernel,
            on_cell_execute=on_cell,
            path=path,
            **KERNEL,
        )
    except papermill.PapermillExecutionError as e:
        raise CellExecutionError("", e.ename, e.evalue) from e
