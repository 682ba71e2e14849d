"""The store of runs: what a run's id is made of, where its notebook lies, what it recorded.

A run is one page with one set of parameters. Its id hashes everything its result depends on; a finished run lies as
one executed notebook in `_build/runs/PAGE/ID.ipynb`, one that failed or is under way as `ID.partial.ipynb`.
"""
from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import nbformat
import pandas as pd

from probebook.base import DATA, UserError, sha256
from probebook.runs.pages import Page, home, modules, pages, profile_values
from probebook.runs.schema import coerce


@dataclass(frozen=True)
class Run:
    """One page with one set of parameters; `after` are hashes of runs that it reports on."""
    page: Page
    profile: str
    values: dict
    after: tuple[str, ...] = ()

    @property
    def changed(self) -> dict:
        """Parameters that differ from the page's own."""
        return {p.name: self.values[p.name] for p in self.page.parameters if self.values[p.name] != p.default}

    @cached_property
    def id(self) -> str:
        parts = {"page": self.page.source, "parameters": self.values, "after": self.after,
                 "library": {name: sha256(path) for name, path in sorted(modules(self.page).items())},
                 "data": data_hashes(), "records": _records(self.page, self.values),
                 "static": _static(self.page), "folders": _folders(self.values),
                 "versions": [platform.python_version(), version("torch"), version("transformers")]}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def path(self) -> Path:
        return home() / "_build" / "runs" / self.page.name / f"{self.id}.ipynb"

    @property
    def partial(self) -> Path:
        return self.path.with_suffix(".partial.ipynb")

    @property
    def finished(self) -> bool:
        return self.path.exists()

    def read(self) -> nbformat.NotebookNode:
        """The executed notebook. UserError if the run is not finished."""
        if not self.finished:
            command = ["probebook", "run", self.page.name]
            for name, value in self.changed.items():
                command += ["-p", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
            raise UserError(f"no finished run of {self.page.name} with these parameters: {shlex.join(command)}")
        return nbformat.read(self.path, as_version=4)


def plan(page: Page, profile: str = "pocket", values: dict | None = None, after: tuple[str, ...] = ()) -> Run:
    """The run of a page: its own parameters, changed by the profile, changed by `values`. UserError: bad values."""
    own = {p.name: p.default for p in page.parameters}
    given = profile_values(profile).get(page.name) or {}
    return Run(page, profile, own | coerce(page.types, given | (values or {}), page.name), after)


def data_hashes() -> dict[str, str]:
    """Hashes of the data that every page may read: the registry, the published figures, the shipped models."""
    return {name: _tree_hash(DATA / name) for name in ("registry.yaml", "published", "models")}


def _tree_hash(path: Path) -> str:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    lines = [f"{file.relative_to(path)} {sha256(file)}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _static(page: Page) -> dict[str, str]:
    """Hashes of the files of `book/_static` that the page names."""
    files = sorted(path for path in (home() / "book" / "_static").glob("*.*") if path.is_file())
    return {path.name: sha256(path) for path in files if path.name in page.source}


def _records(page: Page, values: dict) -> dict[str, str]:
    """Hashes of the page's stored runs, which it may show; that of this very run aside."""
    manifests = (home() / "data" / "records" / page.name).glob("*/manifest.json")
    return {path.parent.name: _tree_hash(path.parent) for path in sorted(manifests)
            if json.loads(path.read_text(encoding="utf-8"))["parameters"] != values}


def _folders(values: dict) -> dict[str, str]:
    """Hashes of local folders that are given as parameters, by parameter."""
    items = [(name, item) for name, value in values.items() for item in (value if isinstance(value, list) else [value])]
    return {f"{name} {item}": _tree_hash(Path(item)) for name, item in items
            if isinstance(item, str) and item and Path(item).is_dir()}


def _hidden(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """What a page keeps in its notebook without showing it: (name, text)."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            name = output.get("metadata", {}).get("scrapbook", {}).get("name", "")
            if name.startswith("probebook:"):
                yield name.removeprefix("probebook:"), next(iter(output["data"].values()))


def tables(notebook: nbformat.NotebookNode) -> dict[str, pd.DataFrame]:
    """Tables that a page recorded, by name: ids, metric, value. UserError if a name was used twice."""
    found = [(name.removeprefix("record:"), text) for name, text in _hidden(notebook) if name.startswith("record:")]
    names = [name for name, _ in found]
    if len(names) != len(set(names)):
        raise UserError(f"a page recorded {max(names, key=names.count)!r} twice: give each table its own name")
    return {name: pd.read_csv(io.StringIO(text)) for name, text in found}


def results(notebook: nbformat.NotebookNode) -> pd.DataFrame:
    """All recorded tables of a run as one: table, the tables' ids (empty where a table has none), metric, value."""
    long = pd.concat([table.assign(table=name) for name, table in tables(notebook).items()] or
                     [pd.DataFrame(columns=["table", "metric", "value"])], ignore_index=True)
    ends = ["metric", "value"]
    return long[["table", *(c for c in long.columns if c not in ("table", *ends)), *ends]]


def environment(notebook: nbformat.NotebookNode) -> dict:
    """Seed, device and versions that the page ran with; empty if it never called `start`."""
    return next((json.loads(text) for name, text in _hidden(notebook) if name == "environment"), {})


def run_table() -> pd.DataFrame:
    """The finished runs the book is made of (those of the profile `PROBEBOOK_PROFILE`, else pocket), one a row.

    Columns: page, profile, parameters (where they differ from the page's own), seconds, device, finished (UTC),
    versions, commit, run (first digits of its id).
    """
    profile = os.environ.get("PROBEBOOK_PROFILE", "pocket")
    runs = [run for page in pages() if (run := plan(page, profile)).finished]
    columns = ["profile", "parameters", "seconds", "device", "finished", "versions", "commit", "run"]
    return pd.DataFrame([_row(run) for run in runs], columns=["page", *columns]).set_index("page")


def _row(run: Run) -> dict:
    notebook = run.read()
    about, ran_with = notebook.metadata["probebook"], environment(notebook)
    return {"page": run.page.name, "profile": run.profile, "run": run.id[:8], "device": ran_with.get("device", ""),
            "parameters": ", ".join(f"{name}={value}" for name, value in run.changed.items()),
            "versions": ", ".join(f"{name} {v}" for name, v in ran_with.get("versions", {}).items()),
            "seconds": round(about["seconds"]), "finished": about["finished"], "commit": about["commit"]}
