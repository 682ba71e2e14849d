"""Build the book from executed pages, strictly, without writing into the sources."""
from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import yaml

from probebook.base import read_yaml, sha256, written_whole
from probebook.labs.exercises import book_edition
from probebook.runs.execute import run_all
from probebook.runs.kernels import Limits
from probebook.runs.pages import Page, home, pages
from probebook.runs.store import Run, plan

HOUR = 3_600
LIMIT = {"smoke": HOUR, "pocket": HOUR, "real": 24 * HOUR, "paper": 24 * HOUR}      # seconds a page may take
LINKED = ("data", "lib")        # what book pages may include from elsewhere


def build(profile: str = "pocket", force: bool = False) -> Path | None:
    """Run all pages of a profile and build the book from them; path of index.html, or None if something failed.

    `_build/book_source/` becomes a copy of the sources with each page replaced by its executed notebook, and
    `_build/book/` the finished book. Files whose content is the same keep their time, so Sphinx builds only what
    changed; after a failure it builds everything, since a warning is given only when a file is read.
    """
    runs, limits = [plan(page, profile) for page in pages()], Limits(seconds=LIMIT[profile])
    if run_all(runs, force, limits):
        return None
    after = tuple(sha256(run.path) for run in runs)
    about = [plan(page, profile, after=after) for page in _book_notebooks()]
    if run_all(about, limits=limits):
        return None
    source, book = home() / "_build" / "book_source", home() / "_build" / "book"
    built = source / "_build" / "built"
    state = _stage(runs + about, source)
    if not (built.exists() and built.read_text() == state and book.exists()):
        if not built.exists():
            shutil.rmtree(source / "_build", ignore_errors=True)
        built.unlink(missing_ok=True)
        shutil.rmtree(book, ignore_errors=True)
        command = [sys.executable, "-m", "probebook.publish.html", source]
        if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
            print("the book was not built: its sources gave the warnings above", file=sys.stderr)
            return None
        shutil.copytree(source / "_build" / "html", book)
        built.write_text(state)
    return book / "index.html"


def _book_notebooks() -> list[Page]:
    """Pages of `book/` that hold code."""
    paths = sorted((home() / "book").rglob("*.md"))
    return [Page(path.relative_to(home()).with_suffix("").as_posix()) for path in paths
            if "```{code-cell}" in path.read_text(encoding="utf-8")]


def _stage(runs: list[Run], source: Path) -> str:
    """Bring `source` up to date with the sources and the runs; returns a hash of all that lies there."""
    executed = {run.page.path.relative_to(home()): run.path for run in runs}
    files = {path.relative_to(home()): path for path in home().iterdir() if path.suffix in (".md", ".yml")}
    for folder in ("book", "notebooks"):
        files |= {path.relative_to(home()): path for path in (home() / folder).rglob("*") if path.is_file()
                  and path.with_suffix(".md").relative_to(home()) not in executed}
    shown = {name.with_suffix(".ipynb"): path for name, path in executed.items()}
    files |= shown
    config = read_yaml(files.pop(Path("_config.yml")))
    config.setdefault("execute", {})["execute_notebooks"] = "off"
    _launchers(config)
    config["exclude_patterns"] = [p for p in config.get("exclude_patterns", []) if not p.endswith(".ipynb")]
    source.mkdir(parents=True, exist_ok=True)
    _write_if_changed(source / "_config.yml", yaml.safe_dump(config, allow_unicode=True).encode())
    for name, path in files.items():
        _write_if_changed(source / name, _as_shown(path) if name in shown else path.read_bytes())
    for path in [*source.glob("*"), *(source / "book").rglob("*"), *(source / "notebooks").rglob("*")]:
        if path.is_file() and path.name != "_config.yml" and path.relative_to(source) not in files:
            path.unlink()
    for name in LINKED:
        if (home() / name).exists() and not (source / name).exists():
            (source / name).symlink_to(os.path.relpath(home() / name, source))
    staged = [source / name for name in ("_config.yml", *files)]
    linked = [p for name in LINKED for p in sorted((source / name).rglob("*"))
              if p.is_file() and p.suffix in (".md", ".py", ".csv", ".json", ".yaml")]
    lines = [f"{path.relative_to(source)} {sha256(path)}" for path in staged + linked]
    lines += [f"{tool} {version(tool)}" for tool in ("jupyter-book", "myst-nb", "sphinx")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _launchers(config: dict) -> None:
    """With a public address (the configuration's, or where GitHub builds) pages have buttons for Colab and Binder."""
    if place := os.environ.get("GITHUB_REPOSITORY"):
        config["repository"]["url"] = config["repository"]["url"] or f"https://github.com/{place}"
    if config.get("repository", {}).get("url"):
        config.setdefault("html", {})["use_repository_button"] = True
        config.setdefault("launch_buttons", {}).update(
            colab_url="https://colab.research.google.com", binderhub_url="https://mybinder.org")


def _as_shown(path: Path) -> bytes:
    """An executed page, its exercises as the book shows them."""
    import nbformat
    return (nbformat.writes(book_edition(nbformat.read(path, as_version=4))) + "\n").encode()


def _write_if_changed(path: Path, content: bytes) -> None:
    if not path.exists() or path.read_bytes() != content:
        with written_whole(path) as part:
            part.write_bytes(content)


def pair(page: Page) -> bool:
    """Write a page's notebook for JupyterLab and Colab beside it (no outputs); True if it had to change."""
    path = page.path.with_suffix(".ipynb")
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    _write_if_changed(path, page.pair.encode())
    return old != page.pair
