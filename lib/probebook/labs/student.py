"""Students' notebooks: pages with stubs, their text in Markdown that JupyterLab and Colab show."""
from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from probebook.base import UserError, written_whole
from probebook.labs.exercises import student_cells
from probebook.runs.pages import Page, home

FENCE = re.compile(r"^(?P<fence>`{3,}|:{3,})\{(?P<kind>[a-z-]+)\}(?P<title>[^\n]*)\n"
                   r"(?P<options>(?::[a-z-]+:[^\n]*\n)*)(?P<body>.*?)^(?P=fence)$",
                   re.MULTILINE | re.DOTALL)
ROLE = re.compile(r"\{(?P<role>[a-z:]+)\}`(?P<text>[^`]*)`")


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
            cell.source = markdown(cell.source)
    metadata = dict(page.notebook.metadata) | {"probebook": {"page": page.name}}
    return nbformat.writes(new_notebook(cells=cells, metadata=metadata)) + "\n"


def markdown(text: str) -> str:
    """MyST as plain Markdown: boxes become quotes, folds HTML, citations authors and years.

    A number that the page computes becomes "…": nobody knows it before the page has run."""
    return ROLE.sub(_role, FENCE.sub(_box, text))


def _box(found: re.Match) -> str:
    kind, title, body = found["kind"], found["title"].strip(), markdown(found["body"].strip())
    if kind == "index":
        return ""
    if kind == "dropdown":
        return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
    if kind == "admonition":
        label = "Exercise " if "exercise" in found["options"] else ""
        return f"**{label}{title}**\n\n{body}"
    return "\n".join(f"> {line}".rstrip() for line in body.splitlines())


def _role(found: re.Match) -> str:
    role, text = found["role"], found["text"]
    if role.startswith("glue"):
        return "…"
    if role.startswith("cite"):
        return _cited([key.strip() for key in text.split(",")], in_text=role == "cite:t")
    if titled := re.fullmatch(r"(.*?)\s*<[^>]*>", text):
        return titled[1]
    return text if role in ("term", "index") else f"“{text.rpartition('/')[2]}”"


def _cited(keys: list[str], in_text: bool) -> str:
    entries = _bibliography(home() / "book" / "references.bib")
    if missing := [key for key in keys if key not in entries]:
        raise UserError(f"{missing[0]!r} is cited, and book/references.bib has no such entry")
    if in_text:
        return "; ".join("{} ({})".format(*entries[key]) for key in keys)
    return f"({'; '.join(', '.join(entries[key]) for key in keys)})"


@cache
def _bibliography(path: Path) -> dict[str, tuple[str, str]]:
    """Authors and year of each entry."""
    from pybtex.database import parse_file
    entries = {}
    for key, entry in parse_file(path).entries.items():
        people = entry.persons.get("author", [])
        names = [" ".join(person.last_names) or str(person) for person in people]
        authors = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
        plain = authors.replace("{", "").replace("}", "")
        entries[key] = plain, entry.fields.get("year", "")
    return entries
