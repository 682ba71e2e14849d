"""papermill's engine with fewer writes.

papermill writes the whole partial notebook before and after every cell, about a hundred times for a
page of fifty cells.
"""
from __future__ import annotations

import time
from typing import Any

from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

NAME = "seldom"
SECONDS = 5         # between two writes of the partial notebook


class Seldom(NBClientEngine):
    """Executes a page as papermill does, but writes the partial notebook every few seconds and at
    the end."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: NotebookExecutionManager, kernel_name: str,
                                 **given: Any) -> None:
        write, last = nb_man.save, -SECONDS

        def save(**_):
            nonlocal last
            if time.monotonic() - last >= SECONDS:
                write()
                last = time.monotonic()

        nb_man.save = save
        try:
            super().execute_managed_notebook(nb_man, kernel_name, **given)
        finally:
            write()


papermill_engines.register(NAME, Seldom)
