"""Pages of the book: their files, parameters and profiles, and the modules that they import."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from glob import escape, glob
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probebook import base
from probebook.base import UserError, atomic_write, cache_path, check_choice, read_yaml
from probebook_runs.schema import Parameter, declared

if TYPE_CHECKING:  # loading it takes longer than all else here
    from nbformat import NotebookNode

LIBRARY = base.PACKAGE.parent  # the folder of this package and its neighbours
PROFILES = ("smoke", "pocket", "real", "paper")
# a statement that imports: names in brackets, on continued lines, or on one
IMPORT = re.compile(
    r"(?:from[ \t]+[\w.]+[ \t]+)?\bimport[ \t]+(?:\((?:[^)#]|#.*)*\)|(?:.*\\\n)*.*)"
)
version = cache(metadata.version)  # of a package: seven milliseconds each time


def home() -> Path:
    """The book's folder, which holds `notebooks/` and `book/`: `PROBEBOOK_HOME`, else the checkout.

    UserError: the library is installed apart from the book, and `PROBEBOOK_HOME` is not set.
    """
    folder = os.environ.get("PROBEBOOK_HOME")
    if not folder and base.PACKAGE / "data" == base.DATA:
        raise UserError(
            "the library is installed without the book's pages: set PROBEBOOK_HOME to "
            "a checkout of it"
        )
    return Path(folder or base.ROOT).resolve()


@dataclass(frozen=True)
class Page:
    """A page by its name: "1_causal_probing/03_first_interventions", or "book/run_table"."""

    name: str

    @property
    def path(self) -> Path:
        return home() / ("." if self.name.startswith("book/") else "notebooks") / f"{self.name}.md"

    @property
    def chapter(self) -> str:
        """The folder that holds the page."""
        return self.name.partition("/")[0]

    @cached_property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """Its first heading. UserError: it has none."""
        heading = re.search(r"^# (.+)$", self.source, re.MULTILINE)
        if not heading:
            raise UserError(
                f"{self.path.name} has no heading: its first cell begins with one, # Title"
            )
        return heading[1]

    @cached_property
    def notebook(self) -> NotebookNode:
        """The page as a notebook without outputs; a cell's id depends on its source only.

        UserError: the page has no header, or options that cannot be read.
        """
        from nbformat import from_dict

        return from_dict(self._read)

    @cached_property
    def code(self) -> list[tuple[list[str], str]]:
        """Tags and source of each code cell."""
        return [
            (cell["metadata"].get("tags", []), cell["source"])
            for cell in self._read["cells"]
            if cell["cell_type"] == "code"
        ]

    @cached_property
    def _read(self) -> dict[str, Any]:
        """`notebook` in plain values, kept in the cache: jupytext takes two seconds to import, and
        a fifth of one for a page."""
        digest = hashlib.sha256(f"{version('jupytext')} {self.source}".encode()).hexdigest()
        path = cache_path() / "notebooks" / f"{digest}.json"
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError):  # it is new, or was cut short
            notebook = self._parse()
            with suppress(OSError), atomic_write(path) as part:
                part.write_text(json.dumps(notebook))
            return notebook

    def _parse(self) -> NotebookNode:
        import jupytext

        try:
            notebook = jupytext.reads(self.source, fmt="md:myst")
        except Exception as e:  # whatever the parsers raise that it calls
            problem = " ".join(str(getattr(e, "message", e)).split())
            raise UserError(f"{self.name}.md, header or cell options: {problem}") from None
        if "kernelspec" not in notebook.metadata:
            raise UserError(
                f"{self.name}.md has no kernelspec: begin it with the header of another page"
            )
        notebook.metadata.pop("jupytext", None)
        notebook.nbformat_minor = 5
        seen = set()
        for cell in notebook.cells:
            copies = (f"{cell.source}{'#' * n}" for n in range(len(notebook.cells)))
            cell.id = next(
                i for c in copies if (i := hashlib.sha256(c.encode()).hexdigest()[:8]) not in seen
            )
            seen.add(cell.id)
        return notebook

    @cached_property
    def parameters(self) -> list[Parameter]:
        return declared(
            "\n".join(source for tags, source in self.code if "parameters" in tags), self.name
        )

    @property
    def types(self) -> dict:
        return {p.name: p.type for p in self.parameters}


def pages() -> list[Page]:
    """All pages of the book, in its order."""
    paths = sorted((home() / "notebooks").glob("*/[0-9]*.md"))
    return [Page(f"{path.parent.name}/{path.stem}") for path in paths]


def find(name: str) -> Page:
    """The page called `name`, or the only one that begins with it. UserError: there is none, or
    several."""
    names = [page.name for page in pages()]
    name = name.removeprefix("notebooks/").removesuffix(".md").removesuffix(".ipynb")
    fits = [n for n in names if n == name] or [n for n in names if n.startswith(name)]
    if len(fits) != 1:
        raise UserError(
            f"{'several pages begin' if fits else 'no page begins'} with {name!r}: "
            f"there are {', '.join(fits or names) or 'none'}"
        )
    return Page(fits[0])


def profile_values(profile: str) -> dict[str, dict]:
    """Parameter values of a profile, by page. UserError: unknown profile or page."""
    check_choice(profile, "profile", PROFILES)
    path = home() / "notebooks" / "profiles" / f"{profile}.yaml"
    values = read_yaml(path) if path.exists() else None
    names = [page.name for page in pages()]
    for name, given in (values or {}).items():
        if name not in names:
            raise UserError(f"profile {profile}: no page {name!r}; there are {', '.join(names)}")
        if not isinstance(given, dict | None):
            raise UserError(
                f"profile {profile}: {name}: should be {{parameter: value, …}}, not {given!r}"
            )
    return values or {}


def parameterize(notebook: NotebookNode, values: Mapping[str, Any]) -> NotebookNode:
    """Copy a notebook and add a cell after its parameters cell, which sets `values`, if there are
    any."""
    from nbformat.v4 import new_code_cell

    notebook = deepcopy(notebook)
    if values:
        lines = ["# Parameters", *(f"{name} = {value!r}" for name, value in values.items())]
        tags = ["injected-parameters"]
        cell = new_code_cell("\n".join(lines), id=tags[0], metadata={"tags": tags})
        declares = ["parameters" in one.metadata.get("tags", []) for one in notebook.cells]
        notebook.cells.insert(declares.index(True) + 1 if any(declares) else 0, cell)
    return notebook


def modules(page: Page) -> dict[str, Path]:
    """The library's modules that a page imports, directly or through others, with their files."""
    paths = sorted(glob(f"{escape(str(LIBRARY))}/probebook*/**/*.py", recursive=True))
    times = tuple((path, os.stat(path).st_mtime_ns) for path in paths)
    return dict(_modules("\n".join(source for _, source in page.code), times))


@cache
def _modules(source: str, times: tuple[tuple[str, int], ...]) -> dict[str, Path]:
    """The same of a source, as long as no file of the library changes."""
    library = _named(times)
    files: dict[str, Path] = {}
    todo = [*_imports(source, "")]
    while todo:
        name = todo.pop()
        if name in library and name not in files:
            files[name] = path = library[name]
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            todo += [name.rpartition(".")[0], *_imports(path.read_text(encoding="utf-8"), package)]
    return files


@cache
def _named(times: tuple[tuple[str, int], ...]) -> dict[str, Path]:
    """The library's files by the names of their modules."""
    files = [Path(path) for path, _ in times]
    names = [".".join(file.relative_to(LIBRARY).with_suffix("").parts) for file in files]
    return {name.removesuffix(".__init__"): file for name, file in zip(names, files, strict=True)}


@cache
def _imports(source: str, package: str) -> tuple[str, ...]:
    """Names of the library's modules that a source imports anywhere in it. Its statements that
    import are parsed, which takes a hundredth of the time for all."""
    names: list[str] = []
    for statement in IMPORT.findall(source):
        with suppress(SyntaxError):  # a sentence with the word
            for node in ast.parse(statement).body:
                if isinstance(node, ast.Import):
                    names += [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    parents = f"{package}.".rsplit(".", node.level)[0] if node.level else ""
                    module = ".".join(filter(None, [parents, node.module]))
                    names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in names if name.startswith("probebook"))
