"""A page's MyST as plain Markdown, which JupyterLab and Colab show: boxes become quotes, folds
HTML, citations authors and years, links links, and numbers those of the book's own run.

    markdown(text, {"share": .5})       # where the text quotes share:.2f, it says 0.50
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from probebook.base import DATA, UserError, read_yaml
from probebook_runs.pages import Page, home

if TYPE_CHECKING:
    from nbformat import NotebookNode

NUMBERS = DATA / "records" / "numbers.json"
CHECKED = """import importlib.util

if importlib.util.find_spec("probebook") is None:
"""
INSTALL = """    import sys
    !git clone -q --depth 1 {url} probebook
    %pip install -q -e "probebook[run]" -c probebook/constraints.txt
    sys.path.insert(0, "probebook/lib")"""
WHOSE_NUMBERS = (
    "*Numbers in the text are those of the run that the book ships with (profile "
    "`pocket`); what the cells print is of your own.*"
)
NO_ADDRESS = """    raise ModuleNotFoundError("install the book first: README.md says how")"""
FENCE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?P<kind>[a-z-]+)\}(?P<title>[^\n]*)\n"
    r"(?P<options>(?::[a-z-]+:[^\n]*\n)*)(?P<body>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
ROLE = re.compile(r"\{(?P<role>[a-z]+(?::[a-z]+)?)\}`(?P<text>[^`]*)`")
LABEL = re.compile(r"^\$\$[ ]*\((?P<label>[\w-]+)\)$|^\((?P<anchor>[\w-]+)\)=\n", re.MULTILINE)
TITLED = re.compile(r"(?P<title>.*?)\s*<(?P<target>[^>]*)>", re.DOTALL)


def stored_numbers(page: str) -> dict[str, float | str]:
    """What the text of a page quoted in the pocket run that the project keeps, by name; {} if the
    page is not among them."""
    return _stored(NUMBERS).get(page, {}) if NUMBERS.exists() else {}


@cache
def _stored(path: Path) -> dict[str, dict[str, float | str]]:
    return json.loads(path.read_text(encoding="utf-8"))


def quotes(text: str) -> list[str]:
    """The names of the numbers that a text quotes."""
    return [
        match["text"].partition(":")[0]
        for match in ROLE.finditer(text)
        if match["role"].startswith("glue")
    ]


def markdown(text: str, numbers: Mapping[str, float | str] | None = None, page: str = "") -> str:
    """MyST as plain Markdown.

    `numbers`: values of the quoted names; one that is missing becomes "…". `page`: where the text
    stands, so that its links lead to other notebooks; without it a link is a title in quotes.
    UserError: something is cited that the bibliography lacks."""
    tagged = LABEL.sub(_tag, text)
    plain = FENCE.sub(lambda box: _box(box, markdown(box["body"].strip(), numbers, page)), tagged)
    return ROLE.sub(lambda role: _role(role["role"], role["text"], numbers or {}, page), plain)


def install_cell() -> NotebookNode:
    """A notebook's first cell. It installs the book where the library is missing, as in Colab."""
    from nbformat.v4 import new_code_cell

    path = home() / "_config.yml"
    url = (read_yaml(path) if path.exists() else {}).get("repository", {}).get("url")
    how = INSTALL.format(url=url) if url else NO_ADDRESS
    return new_code_cell(CHECKED + how, id="install", metadata={"tags": ["install"]})


def paired_notebook(page: Page) -> str:
    """Text of the notebook beside a page, without outputs and with the page's own text in plain
    Markdown."""
    import nbformat

    notebook, numbers = deepcopy(page.notebook), stored_numbers(page.name)
    texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    quoting = any(quotes(cell.source) for cell in texts)
    for cell in texts:
        cell.source = markdown(cell.source, numbers, page.name)
    if quoting:
        texts[0].source += f"\n\n{WHOSE_NUMBERS}"
    notebook.cells = [install_cell(), *notebook.cells]
    return nbformat.writes(notebook) + "\n"


def _box(match: re.Match, body: str) -> str:
    kind, title = match["kind"], match["title"].strip()
    if kind == "index":
        return ""
    if kind == "dropdown":
        return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
    if kind == "admonition":
        label = "Exercise " if "exercise" in match["options"] else ""
        return f"**{label}{title}**\n\n{body}"
    return "\n".join(f"> {line}".rstrip() for line in body.splitlines())


def _tag(match: re.Match) -> str:
    """The end of a labelled equation, which shows its name at the right; nothing for an anchor."""
    return f"\\tag{{{_name(match['label'])}}}\n$$" if match["label"] else ""


def _name(label: str) -> str:
    """What follows the kind in a label: fig-one-pair is “one pair”."""
    return label.partition("-")[2].replace("-", " ")


def _role(role: str, text: str, numbers: Mapping[str, float | str], page: str) -> str:
    if role.startswith("glue"):
        name, _, form = text.partition(":")
        known = name in numbers and not (form and isinstance(numbers[name], str))  # of this page
        return format(numbers[name], form) if known else "…"
    if role.startswith("cite"):
        return _citation([key.strip() for key in text.split(",")], in_text=role == "cite:t")
    titled = TITLED.fullmatch(text)
    title, target = (titled["title"], titled["target"]) if titled else ("", text)
    if role == "doc":
        return _link(title, target, page)
    if role in ("numref", "eq"):
        kind = {"fig": "figure", "tab": "table"}.get(target.partition("-")[0], "equation")
        return f"the {kind} “{_name(target)}”"
    return title or target


def _link(title: str, target: str, page: str) -> str:
    """A link to a notebook beside `page`; to a page of `book/`, which is no notebook, to its
    text."""
    if not page:
        return title or f"“{target.rpartition('/')[2]}”"
    place = posixpath.normpath(posixpath.join("notebooks", page, "..", target)).lstrip("/")
    name = place.removeprefix("notebooks/")
    path = f"../../{place}.md" if name == place else f"../{name}.ipynb"
    return f"[{title or Page(name).title}]({path})"


def _citation(keys: list[str], in_text: bool) -> str:
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
