"""The students' edition: each page as a notebook with stubs, its text in Markdown that JupyterLab and Colab show."""
from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from probebook.base import UserError, written_whole
from probebook.labs.exercises import student_cells
from probebook.runs.pages import Page, home

FENCE = re.compile(r"^(?P<fence>`{3,}|:{3,})\{(?P<kind>[a-z-]+)\}(?P<title>[^\n]*)\n(?P<options>(?::[a-z-]+:[^\n]*\n)*)"
                   r"(?P<body>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r"\{(?P<role>[a-z:]+)\}`(?P<text>[^`]*)`")


def write(out: Path, pages: list[Page]) -> list[Path]:
    """Write the students' notebooks of pages into a folder, `PAGE.ipynb` each; those that are there are replaced."""
    paths = []
    for page in pages:
        paths.append(out / f"{page.name}.ipynb")
        with written_whole(paths[-1]) as part:
            part.write_text(edition(page), encoding="utf-8")
    return paths


def edition(page: Page) -> str:
    """Text of a page's student notebook."""
    import nbformat
    from nbformat.v4 import new_notebook
    cells = [page.install, *student_cells(page.notebook, page.name)]
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = markdown(cell.source)
    metadata = dict(page.notebook.metadata) | {"probebook": {"page": page.name}}
    return nbformat.writes(new_notebook(cells=cells, metadata=metadata)) + "\n"


def markdown(text: str) -> str:
    """MyST as Markdown that any notebook shows: boxes as quotes, folds as HTML, citations as author and year.

    A number that the page computes is not known before it has run; it becomes "…"."""
    return ROLE.sub(_role, FENCE.sub(_box, text))


def _box(found: re.Match) -> str:
    kind, title, body = found["kind"], found["title"].strip(), markdown(found["body"].strip())
    if kind == "index":
        return ""
    if kind == "dropdown":
        return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
    if kind == "admonition":
        return f"**Exercise {title}**\n\n{body}" if "exercise" in found["options"] else f"**{title}**\n\n{body}"
    return "\n".join(f"> {line}".rstrip() for line in body.splitlines())


def _role(found: re.Match) -> str:
    role, text = found["role"], found["text"]
    if role.startswith("glue"):
        return "…"
    if role.startswith("cite"):
        known = _citations(home() / "book" / "references.bib")
        keys = [key.strip() for key in text.split(",")]
        if missing := [key for key in keys if key not in known]:
            raise UserError(f"{missing[0]!r} is cited, and book/references.bib has no such entry")
        names = [known[key] for key in keys]
        names = [f"{who} ({year})" if role == "cite:t" else f"{who}, {year}" for who, year in names]
        return "; ".join(names) if role == "cite:t" else f"({'; '.join(names)})"
    shown = re.fullmatch(r"(.*?)\s*<[^>]*>", text)
    if role in ("term", "index"):
        return shown[1] if shown else text
    return shown[1] if shown else f"“{text.rpartition('/')[2]}”"


@cache
def _citations(bibliography: Path) -> dict[str, tuple[str, str]]:
    """Authors and year of each entry."""
    from pybtex.database import parse_file
    found = {}
    for key, entry in parse_file(bibliography).entries.items():
        people = entry.persons.get("author", [])
        names = [" ".join(person.last_names) or str(person) for person in people]
        who = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
        found[key] = who.replace("{", "").replace("}", ""), entry.fields.get("year", "")
    return found
