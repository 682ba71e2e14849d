"""papermill's engine with fewer writes: of a page of fifty cells it would write all that is there a
hundred times."""
from __future__ import annotations

import time

from papermill.engines import NBClientEngine, papermill_engines

NAME = "seldom"
SECONDS = 5         # between two writes of the partial notebook


class Seldom(NBClientEngine):
    """Executes as papermill does, but writes the partial notebook every few seconds, and at the end
    in any case."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **given):
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
