"""Run all cells of a notebook, whatever fails: python -m cells NOTEBOOK OUT.

OUT gets, as JSON, the tags and the error of each code cell."""

import json
import os
import sys
from pathlib import Path

import nbformat
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

notebook, out = map(Path, sys.argv[1:])
os.chdir(out.parent)
shell, errors = InteractiveShell(), []
for cell in nbformat.read(notebook, as_version=4).cells:
    if cell.cell_type == "code":
        with capture_output():
            error = shell.run_cell(cell.source, store_history=True).error_in_exec
        message = f"{type(error).__name__}: {error}" if error else ""
        errors.append((cell.metadata.get("tags", []), message))
out.write_text(json.dumps(errors), encoding="utf-8")
