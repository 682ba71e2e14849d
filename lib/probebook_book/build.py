"""Build the book from executed pages, strictly, without writing into the sources."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import yaml

from probebook.base import DATA, PACKAGE, atomic_write, read_yaml, sha256
from probebook_book.boxes import boxes
from probebook_book.reading import add_times
from probebook_runs.execute import run_all, server_of
from probebook_runs.kernels import Limits
from probebook_runs.labs.exercises import book_edition
from probebook_runs.page import ENDED
from probebook_runs.pages import Page, home, pages
from probebook_runs.plain import NUMBERS, paired_notebook, quotes
from probebook_runs.records import Record, read_record
from probebook_runs.store import Run, plan

HOUR = 3_600
SECONDS_PER_PAGE = {"smoke": HOUR, "pocket": HOUR, "real": 24 * HOUR, "paper": 24 * HOUR}
BANNER = (
    "This copy shows runs of the profile {}. The text was written for the profile pocket: where "
    "numbers differ, trust the numbers."
)
LINKED = ("data", "lib")  # folders from which pages of the book may include files


def build(profile: str = "pocket", force: bool = False, jobs: int | None = None) -> Path | None:
    """Run all pages of a profile, `jobs` at a time, and build the book from them.

    Returns the path of index.html, or None if a page or the build failed. `_build/book_source/`
    becomes a copy of the sources, with executed notebooks in place of pages, and `_build/book/` the
    finished book. Files that stay the same keep their time, so Sphinx builds only what changed.
    After a failure it builds everything, since it warns only when it reads a file."""
    runs, limits = [plan(page, profile) for page in pages()], Limits(SECONDS_PER_PAGE[profile])
    last = _book_notebooks()
    with server_of([*pages(), *last]) as server:
        if run_all(runs, force, limits, server, jobs):
            return None
        if early := [run.page.name for run in runs if ENDED in run.path.read_text("utf-8")]:
            print(f"not in the book: {', '.join(early)} ended early", file=sys.stderr)
            return None
        executed = tuple(sha256(run.path) for run in runs)
        summaries = [plan(page, profile, depends_on=executed) for page in last]
        if run_all(summaries, False, limits, server, jobs):
            return None
    source, book = home() / "_build" / "book_source", home() / "_build" / "book"
    built = source / "_build" / "built"
    state = _stage(runs + summaries, source, _scripts(), profile)
    if not (built.exists() and built.read_text() == state and book.exists()):
        if not built.exists():
            shutil.rmtree(source / "_build", ignore_errors=True)
        built.unlink(missing_ok=True)
        shutil.rmtree(book, ignore_errors=True)
        command = [sys.executable, "-m", "probebook_book.html", str(source)]
        if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
            print("the book was not built: its sources gave the warnings above", file=sys.stderr)
            return None
        shutil.copytree(source / "_build" / "html", book)
        built.write_text(state)
    return book / "index.html"


def _book_notebooks() -> list[Page]:
    """Pages of `book/` that hold code; they summarize the runs of the other pages."""
    paths = sorted((home() / "book").rglob("*.md"))
    return [
        Page(path.relative_to(home()).with_suffix("").as_posix())
        for path in paths
        if "```{code-cell}" in path.read_text(encoding="utf-8")
    ]


def _scripts() -> dict[Path, Path]:
    """What the boxes of the page *Try it* load, and their still figures, by its place in the book;
    nothing without that page.

    They are written once, and again only when library, model, words or boxes have changed.
    UserError: a model of another architecture than the script's."""
    if not (home() / "book" / "try_it.md").exists():
        return {}
    read = [
        *sorted(PACKAGE.parent.glob("probebook*/**/*.py")),
        DATA / "corpora" / "agreement.yaml",
        home() / "book" / "try_it.yaml",
        *sorted((DATA / "models" / "pocket-agreement").iterdir()),
    ]
    made_of = [*map(sha256, read), *(box.key for box in boxes())]
    key = hashlib.sha256("".join(made_of).encode()).hexdigest()[:20]
    folder = home() / "_build" / "try_it" / key
    if not folder.exists():
        from probebook_book.try_it import write  # loads torch
        from probebook_chapters.every_layer import fit

        new = folder.with_suffix(".new")
        shutil.rmtree(new.parent, ignore_errors=True)
        new.mkdir(parents=True)
        write(new, fit())
        new.rename(folder)
    return {
        Path("book/_static/try_it" if path.suffix == ".js" else "book/stills") / path.name: path
        for path in sorted(folder.iterdir())
    }


def _stage(runs: list[Run], source: Path, more: dict[Path, Path], profile: str) -> str:
    """Bring `source` up to date with the sources, the runs and `more` files (by their place in it);
    returns a hash of its content."""
    executed = {run.page.path.relative_to(home()): run for run in runs}
    paths = [path for path in home().iterdir() if path.suffix in (".md", ".yml")]
    for folder in ("book", "notebooks"):
        paths += [
            path
            for path in (home() / folder).rglob("*")
            if path.is_file() and path.parent.name != "__pycache__"
        ]
    files = {path.relative_to(home()): path for path in paths} | more
    files = {name: path for name, path in files.items() if name.with_suffix(".md") not in executed}
    shown = {name.with_suffix(".ipynb"): run for name, run in executed.items()}
    files |= {name: run.path for name, run in shown.items()}
    config = _configure(read_yaml(files.pop(Path("_config.yml"))), profile)
    contents = _number_pages(read_yaml(files.pop(Path("_toc.yml"))))
    source.mkdir(parents=True, exist_ok=True)
    for file, settings in (("_config.yml", config), ("_toc.yml", contents)):
        text = yaml.safe_dump(settings, allow_unicode=True, sort_keys=False)
        _write_if_changed(source / file, text.encode())
    for name, path in files.items():
        content = _book_edition(shown[name]) if name in shown else path.read_bytes()
        _write_if_changed(source / name, content)
    made = [Path("_config.yml"), Path("_toc.yml")]
    kept = {*made, *files}
    there = [*source.glob("*"), *(source / "book").rglob("*"), *(source / "notebooks").rglob("*")]
    for path in there:  # what the sources no longer have
        if path.is_file() and path.relative_to(source) not in kept:
            path.unlink()
    for folder in LINKED:
        if (home() / folder).exists() and not (source / folder).exists():
            (source / folder).symlink_to(os.path.relpath(home() / folder, source))
    return _state(source, [*made, *files])


def _configure(config: dict, profile: str) -> dict:
    """The configuration, for sources that hold executed notebooks, with a banner above pages whose
    text was written for other runs than theirs."""
    config.setdefault("execute", {})["execute_notebooks"] = "off"
    if profile != "pocket":
        config.setdefault("html", {})["announcement"] = BANNER.format(profile)
    _add_launch_buttons(config)
    patterns = config.get("exclude_patterns", [])
    return config | {"exclude_patterns": [p for p in patterns if not p.endswith(".ipynb")]}


def _number_pages(contents: dict) -> dict:
    """The table of contents with the numbers of pages, "1.3 Title", for the side bar."""
    for part in contents.get("parts", []):
        for chapter in part["chapters"]:
            for number, page in enumerate(chapter.get("sections", []), 1):
                name = page["file"].removeprefix("notebooks/")
                if name != page["file"]:
                    page["title"] = f"{name[0]}.{number} {Page(name).title}"
    return contents


def _state(source: Path, names: list[Path]) -> str:
    """A hash of all that the book is made of: sources, what they may include, and tools."""
    paths = [source / name for name in names]
    for folder in LINKED:
        included = (".md", ".py", ".csv", ".json", ".yaml")
        there = sorted((source / folder).rglob("*"))
        paths += [path for path in there if path.is_file() and path.suffix in included]
    lines = [f"{path.relative_to(source)} {sha256(path)}" for path in paths]
    lines += [f"{tool} {version(tool)}" for tool in ("jupyter-book", "myst-nb", "sphinx")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _add_launch_buttons(config: dict) -> None:
    """Give pages buttons for Colab and Binder if the book has a public address.

    The address is the configuration's or, where GitHub builds the book, the repository's."""
    if place := os.environ.get("GITHUB_REPOSITORY"):
        config["repository"]["url"] = config["repository"]["url"] or f"https://github.com/{place}"
    if config.get("repository", {}).get("url"):
        config.setdefault("html", {})["use_repository_button"] = True
        config.setdefault("launch_buttons", {}).update(
            colab_url="https://colab.research.google.com", binderhub_url="https://mybinder.org"
        )


def _book_edition(run: Run) -> bytes:
    """An executed page with its times and its stamp, and its exercises as the book shows them."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell

    executed = nbformat.read(run.path, as_version=4)
    notebook = book_edition(executed)
    for i, cell in reversed([*enumerate(notebook.cells)]):
        about = cell.metadata.get("mystnb", {})
        if "table" in about:
            about["figure"] = about.pop("table") | {"classes": "numbered-table"}
            # every output would get the caption: records of numbers go into a cell of their own
            shown = [output for output in cell.outputs if "text/html" in output.get("data", {})]
            records = [output for output in cell.outputs if output not in shown]
            hidden = new_code_cell(
                outputs=records, metadata={"tags": ["remove-cell"]}, id=f"records-of-{cell.id}"
            )
            cell.outputs, notebook.cells[i:i] = shown, [hidden]
    first = next((cell for cell in notebook.cells if "{div} needs" in cell.source), None)
    record = read_record(run.folder)
    if first and record:
        first.source = add_times(first.source, executed, record.seconds)
        stamp = new_markdown_cell(_stamp(record), id="stamp")
        notebook.cells.append(stamp)
    return f"{nbformat.writes(notebook)}\n".encode()


def _stamp(record: Record) -> str:
    """When, how and from which sources a page was computed."""
    commit = f", commit {record.commit[:8]}" if record.commit else ""
    minutes = f"{record.seconds / 60:.1f} minutes"
    how = f"profile {record.profile}{commit}, run {record.run[:8]}"
    return f":::{{div}} stamp\nComputed on {record.finished} UTC in {minutes}: {how}.\n:::"


def _write_if_changed(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        with atomic_write(path) as part:
            part.write_bytes(content)


def pair(page: Page) -> bool:
    """Write a page's notebook, without outputs, beside the page. Returns whether it changed."""
    path = page.path.with_suffix(".ipynb")
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    new = paired_notebook(page)
    _write_if_changed(path, new.encode())
    return old != new


def store_numbers() -> None:
    """Keep the numbers that the pages' texts quote, from the book's finished runs, for the paired
    notebooks. UserError: a run is not finished."""
    from probebook_book.findings import quoted

    kept = {}
    for page in pages():
        texts = [cell.source for cell in page.notebook.cells if cell.cell_type == "markdown"]
        names = dict.fromkeys(name for text in texts for name in quotes(text))
        kept[page.name] = {name: quoted(page.name)[name] for name in names}
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    _write_if_changed(NUMBERS, f"{text}\n".encode())
