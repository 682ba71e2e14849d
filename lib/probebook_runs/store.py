"""The store of runs: what a run's id depends on, its folder, its tables.

A run is one page with one set of parameters. Its id is a hash of everything that its result depends
on. A finished run is the folder `_build/runs/PAGE/ID/` with `notebook.ipynb` (executed),
`metrics.parquet` (its tables as one: table, ids, metric, value) and `record.json`
(`records.Record`). The folder gets its name when all three are written. Runs that are under way or
have failed are in `_build/partial/PAGE/`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from probebook.base import DATA, UserError, precision, sha256
from probebook_runs.pages import LIBRARY, Page, home, modules, pages, profile_values, version
from probebook_runs.records import (
    METRICS,
    NOTEBOOK,
    RECORD,
    Record,
    intact,
    read_record,
    run_folder,
)
from probebook_runs.schema import coerce, files

if TYPE_CHECKING:  # loading them takes longer than all else here
    import pandas as pd
    from nbformat import NotebookNode


@dataclass(frozen=True)
class Run:
    """One page with one set of parameters. `depends_on`: hashes of the runs that it reports on;
    `dtype`: the precision of its models."""

    page: Page
    profile: str
    values: dict
    depends_on: tuple[str, ...] = ()
    dtype: str = field(default_factory=precision)

    @property
    def changed(self) -> dict:
        """Parameters that differ from the page's own."""
        return {
            p.name: self.values[p.name]
            for p in self.page.parameters
            if self.values[p.name] != p.default
        }

    @cached_property
    def id(self) -> str:
        static = sorted(p for p in (home() / "book" / "_static").glob("*.*") if p.is_file())
        parts = {
            "page": self.page.source,
            "parameters": self.values,
            "depends_on": self.depends_on,
            "library": library_hashes(self.page),
            "data": data_hashes(),
            "records": _records(self.page, self.values),
            "static": {
                path.name: _file_hash(path) for path in static if path.name in self.page.source
            },
            "files": _files(self.page, self.values),
            "versions": [platform.python_version(), version("torch"), version("transformers")],
        }
        parts |= {} if self.dtype == "float32" else {"dtype": self.dtype}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]

    @property
    def folder(self) -> Path:
        return run_folder(self.page.name, self.id)

    @property
    def path(self) -> Path:
        """The executed notebook."""
        return self.folder / NOTEBOOK

    @property
    def partial(self) -> Path:
        """The notebook while the page runs, or of the run that failed."""
        return home() / "_build" / "partial" / self.page.name / f"{self.id}.ipynb"

    @property
    def finished(self) -> bool:
        """Whether the run exists and is intact. A damaged run is named on stderr and counts as
        unfinished."""
        if not self.folder.exists():
            return False
        whole = intact(self.folder)
        if not whole:
            print(
                f"{self.page.name}: run {self.id[:8]} is damaged, it is made again", file=sys.stderr
            )
        return whole

    @property
    def command(self) -> str:
        """The command line that makes this run."""
        words = [] if self.dtype == "float32" else [f"PROBEBOOK_DTYPE={self.dtype}"]
        words += ["probebook", "run", self.page.name]
        words += ["--profile", self.profile] if self.profile != "pocket" else []
        usual = plan(self.page, self.profile).values
        for name, value in self.values.items():
            if value != usual[name]:
                words += ["-p", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
        return shlex.join(words)

    def read(self) -> NotebookNode:
        """The executed notebook. UserError if the run is not finished."""
        self._require_finished()
        import nbformat

        return nbformat.read(self.path, as_version=4)

    def metrics(self) -> pd.DataFrame:
        """The finished run's tables as one: `results` of its notebook. UserError: it is not
        finished."""
        self._require_finished()
        import pandas as pd

        return pd.read_parquet(self.folder / METRICS)

    def _require_finished(self) -> None:
        if not self.finished:
            raise UserError(
                f"no finished run of {self.page.name} with these parameters: {self.command}"
            )

    def finish(self, notebook: NotebookNode, seconds: float, finished: str, commit: str) -> None:
        """Write the run's folder from its executed notebook. It gets its name last and replaces an
        older one."""
        new, old = self.partial.with_suffix(".new"), self.partial.with_suffix(".old")
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        try:
            self._write(new, notebook, seconds, finished, commit)
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            if self.folder.exists():
                self.folder.rename(old)
            new.rename(self.folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        _to_disk(self.folder.parent)
        shutil.rmtree(old, ignore_errors=True)
        self.partial.unlink(missing_ok=True)

    def _write(
        self, folder: Path, notebook: NotebookNode, seconds: float, finished: str, commit: str
    ) -> None:
        import nbformat

        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / NOTEBOOK)
        metrics = results(notebook)
        # one type a column
        texts = metrics.columns.difference(["value", *metrics.select_dtypes("number")])
        metrics.astype(dict.fromkeys(texts, "string")).to_parquet(folder / METRICS, index=False)
        unknown: dict = {"seed": None, "device": "", "threads": None, "versions": {}}
        record = Record(
            **(environment(notebook) or unknown),
            page=self.page.name,
            run=self.id,
            profile=self.profile,
            parameters=self.values,
            dtype=self.dtype,
            changed=list(self.changed),
            data=data_hashes(),
            seconds=round(seconds, 1),
            finished=finished,
            commit=commit,
            files={name: sha256(folder / name) for name in (NOTEBOOK, METRICS)},
        )
        (folder / RECORD).write_text(
            record.sealed().model_dump_json(indent=1) + "\n", encoding="utf-8"
        )
        for path in (*folder.iterdir(), folder):
            _to_disk(path)


def _to_disk(path: Path) -> None:
    """Make a file's content or a folder's names survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def plan(
    page: Page,
    profile: str = "pocket",
    values: dict | None = None,
    depends_on: tuple[str, ...] = (),
) -> Run:
    """The run of a page: its own parameters, changed by the profile, then by `values`. UserError:
    bad values."""
    defaults = {p.name: p.default for p in page.parameters}
    given = profile_values(profile).get(page.name) or {}
    values = defaults | coerce(page.types, given | (values or {}), page.name)
    return Run(page, profile, values, depends_on)


def library_hashes(page: Page) -> dict[str, str]:
    """Hashes of the library's modules that a page imports, and of the words (YAML) beside them."""
    paths = modules(page)
    words = {file for path in paths.values() for file in path.parent.glob("*.yaml")}
    paths |= {str(file.relative_to(LIBRARY)): file for file in words}
    return {name: _file_hash(path) for name, path in sorted(paths.items())}


def data_hashes() -> dict[str, str]:
    """Hashes of data that any page may read: the registry, the words of the generators, the
    published figures, the shipped models."""
    names = "registry.yaml", "corpora", "published", "models"
    return {name: _tree_hash(DATA / name) for name in names}


def _tree_hash(path: Path) -> str:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    lines = [f"{file.relative_to(path)} {_file_hash(file)}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    """`sha256` of a file, computed once per process while the file stays as it is."""
    about = path.stat()
    return _hash_of(path, about.st_size, about.st_mtime_ns, about.st_ino)


@cache
def _hash_of(path, *_):
    return sha256(path)


def _records(page: Page, values: dict) -> dict[str, str]:
    """Hashes of the stored runs and sweeps that the page may show, except this very run: its own,
    and those of the pages and sweeps that its code names in quotes.

    A page of `book/` may show all of them, and the texts in `book/*.yaml` by its templates.
    """
    records = home() / "data" / "records"
    if page.name.startswith("book/"):
        texts = [*(home() / "book").glob("*.yaml"), *(home() / "book" / "templates").glob("*")]
        hashes = {path.name: _file_hash(path) for path in sorted(texts)}
        return {"all": _tree_hash(records)} | hashes
    names = {page.name, *re.findall(r'"(\w[\w/-]*)"', page.source)}
    sweeps = [path for name in names if (path := records / "sweeps" / f"{name}.csv").is_file()]
    shown = [
        path.parent
        for name in names
        for path in (records / name).glob("*/manifest.json")
        if name != page.name or json.loads(path.read_text(encoding="utf-8"))["parameters"] != values
    ]
    return {str(path.relative_to(records)): _tree_hash(path) for path in sorted(sweeps + shown)}


def _files(page: Page, values: dict) -> dict[str, str]:
    """Hashes of local files and folders that parameters name, by parameter and path as given."""
    hashes: dict[str, str] = {}
    for name, path in sorted(files(page.types, values)):
        places = [place for place in (path, home() / path) if os.path.exists(place)]
        hashes |= {f"{name} {path}": _tree_hash(Path(place)) for place in places[:1]}
    return hashes


def hidden_outputs(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """Name and text of each output that a page stores without showing it.

    Names that begin with "probebook:" are the library's own; the others are quoted in the page's
    text.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if name := output.get("metadata", {}).get("scrapbook", {}).get("name", ""):
                yield name, next(iter(output["data"].values()))


def _library_outputs(notebook: NotebookNode, kind: str) -> list[tuple[str, str]]:
    """The library's own among these outputs, of one kind, without it in their names."""
    start = f"probebook:{kind}"
    outputs = hidden_outputs(notebook)
    return [(name.removeprefix(start), text) for name, text in outputs if name.startswith(start)]


def tables(notebook: NotebookNode) -> dict[str, pd.DataFrame]:
    """A page's tables by name: ids, metric, value. UserError: a name was used twice."""
    import pandas as pd

    written = _library_outputs(notebook, "record:")
    names = [name for name, _ in written]
    if len(names) != len(set(names)):
        raise UserError(
            f"a page wrote {max(names, key=names.count)!r} twice: give each table its own name"
        )
    return {
        name: pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
        for name, text in written
    }


def kept_files(notebook: NotebookNode) -> dict[str, bytes]:
    """What a page put into its notebook with `runs.write_file`, by name."""
    return {name: base64.b64decode(text) for name, text in _library_outputs(notebook, "file:")}


def results(notebook: NotebookNode) -> pd.DataFrame:
    """All tables of a run as one: table, all ids (empty where a table lacks one), metric, value."""
    import pandas as pd

    long = pd.concat(
        [table.assign(table=name) for name, table in tables(notebook).items()]
        or [pd.DataFrame(columns=["table", "metric", "value"])],
        ignore_index=True,
    )
    ends = ["metric", "value"]
    return long[["table", *(c for c in long.columns if c not in ("table", *ends)), *ends]]


def book_run(page: str) -> Run:
    """The run of a page that the book shows: of the profile `PROBEBOOK_PROFILE`, else pocket."""
    return plan(Page(page), os.environ.get("PROBEBOOK_PROFILE", "pocket"))


def book_table(page: str, table: str) -> pd.DataFrame:
    """A table of that run: its ids, then one column per metric. UserError: there is no such
    table."""
    of_page = tables(book_run(page).read())
    if table not in of_page:
        raise UserError(f"{page} records no table {table!r}: there are {', '.join(of_page)}")
    return by_metric(of_page[table]).reset_index().rename_axis(columns=None)


def by_metric(long: pd.DataFrame) -> pd.DataFrame:
    """A table of ids, metric and value with a column for each metric, and the ids as its index."""
    ids = [column for column in long if column not in ("metric", "value")]
    return long.pivot(index=ids, columns="metric", values="value")


def environment(notebook: NotebookNode) -> dict:
    """Seed, device and versions that the page ran with; empty if it never called `start`."""
    return next((json.loads(text) for _, text in _library_outputs(notebook, "environment")), {})


def run_table() -> pd.DataFrame:
    """The finished runs that the book shows, one per row.

    Columns: page, profile, parameters (where they differ from the page's own), seed, seconds,
    device, finished (UTC), versions, commit, run (first digits of its id).
    """
    import pandas as pd

    runs = [book_run(page.name) for page in pages()]
    rows = [
        _row(run, record) for run in runs if run.finished and (record := read_record(run.folder))
    ]
    columns = "page profile parameters seed seconds device finished versions commit run".split()
    table = pd.DataFrame(rows, columns=columns).set_index("page")
    return table.rename_axis(index=None, columns="page")


def _row(run: Run, record: Record) -> dict:
    changes = ", ".join(f"{name}={value}" for name, value in run.changed.items())
    return {
        "page": run.page.name,
        "profile": run.profile,
        "run": run.id[:8],
        "parameters": changes or "the page's own",
        "device": record.hardware,
        "versions": ", ".join(f"{name} {v}" for name, v in record.versions.items()),
        "seed": record.seed,
        "seconds": round(record.seconds),
        "finished": record.finished,
        "commit": record.commit,
    }
