"""Run code cells without a kernel, whatever fails: python -m run_cells CELLS ERRORS.

CELLS is a JSON list of sources; ERRORS becomes one of their errors, an empty text for none."""
from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


def run_cells(cells: Path, errors: Path) -> None:
    os.chdir(errors.parent)
    shell, found = InteractiveShell(), []
    for source in json.loads(cells.read_text(encoding="utf-8")):
        with capture_output():
            error = shell.run_cell(source).error_in_exec
        found.append(f"{type(error).__name__}: {error}" if error else "")
    errors.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    run_cells(Path(sys.argv[1]), Path(sys.argv[2]))
