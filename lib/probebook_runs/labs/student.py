"""Students' notebooks: pages with stubs, their text in Markdown that JupyterLab and Colab show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probebook.base import atomic_write
from probebook_runs.labs.exercises import exercises, mark, student_cells
from probebook_runs.pages import Page, parameterize
from probebook_runs.plain import install_cell, markdown, stored_numbers


def write(out: Path, pages: list[Page]) -> list[Path]:
    """Write the students' notebooks of pages as `OUT/PAGE.ipynb`; existing files are replaced."""
    paths = []
    for page in pages:
        paths.append(out / f"{page.name}.ipynb")
        with atomic_write(paths[-1]) as part:
            part.write_text(edition(page), encoding="utf-8")
    return paths


def edition(page: Page, values: Mapping[str, Any] | None = None, question: str = "") -> str:
    """The students' notebook of a page, as JSON.

    - `values`: parameters that differ from the page's own
    - `question`: text of one more exercise at the end, whose answer is the number `own_figure`"""
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells = [install_cell(), *student_cells(page.notebook, page.name)]
    if question:
        number = len(exercises(page.notebook)) + 1
        stub = f"{mark(number, page.name)}own_figure = ..."
        cells += [new_markdown_cell(question), new_code_cell(stub, id=f"exercise-{number}")]
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = markdown(cell.source, stored_numbers(page.name))
    metadata = dict(page.notebook.metadata) | {"probebook": {"page": page.name}}
    notebook = new_notebook(cells=cells, metadata=metadata)
    return nbformat.writes(parameterize(notebook, dict(values or {}))) + "\n"
