"""Students' notebooks: pages with stubs, their text in Markdown that JupyterLab and Colab show."""
from __future__ import annotations

from pathlib import Path

from probebook.base import written_whole
from probebook.labs.exercises import student_cells
from probebook.runs.pages import Page
from probebook.runs.plain import markdown, stored_numbers


def write(out: Path, pages: list[Page]) -> list[Path]:
    """Write the students' notebooks of pages as `OUT/PAGE.ipynb`; existing files are replaced."""
    paths = []
    for page in pages:
        paths.append(out / f"{page.name}.ipynb")
        with written_whole(paths[-1]) as part:
            part.write_text(edition(page), encoding="utf-8")
    return paths


def edition(page: Page) -> str:
    """The students' notebook of a page, as JSON."""
    import nbformat
    from nbformat.v4 import new_notebook
    cells = [page.install, *student_cells(page.notebook, page.name)]
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = markdown(cell.source, stored_numbers(page.name))
    metadata = dict(page.notebook.metadata) | {"probebook": {"page": page.name}}
    return nbformat.writes(new_notebook(cells=cells, metadata=metadata)) + "\n"
