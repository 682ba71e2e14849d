"""Run a page's notebook without a kernel, whatever fails: python -m run_cells PAGE NOTEBOOK ERRORS.

PAGE names the page, whose values of the smoke profile are set. ERRORS becomes a JSON list with the
tags and the error of each code cell, an empty text for none."""
from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from probebook.runs.pages import find
from probebook.runs.store import plan


def run_cells(page: str, notebook: Path, errors: Path) -> None:
    cells = parameterize_notebook(load_notebook_node(str(notebook)),
                                  plan(find(page), "smoke").changed).cells
    os.chdir(errors.parent)
    shell, found = InteractiveShell(), []
    for cell in cells:
        if cell.cell_type == "code":
            with capture_output():
                error = shell.run_cell(cell.source).error_in_exec
            told = f"{type(error).__name__}: {error}" if error else ""
            found.append((cell.metadata.get("tags", []), told))
    errors.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    run_cells(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
