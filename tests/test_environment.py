"""pyproject.toml, constraints.txt and environment.yml say the same; the house rules hold."""
from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from probebook.base import ROOT
from probebook.corpora.fetch import entries

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().split()]


def test_every_direct_dependency_is_pinned_within_its_range():
    pins = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in PINS}
    extras = PROJECT["optional-dependencies"]
    for text in sum(extras.values(), PROJECT["dependencies"]):
        wanted = Requirement(text)
        assert pins[canonicalize_name(wanted.name)] in wanted.specifier, text


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
    assert next(d["pip"] for d in conda
                if isinstance(d, dict)) == ["-c constraints.txt", "-e .[book,dev]"]
    assert "-c constraints.txt -e '.[book,dev]'" in (ROOT / "Makefile").read_text()


def test_installed_versions_are_the_pinned_ones():
    for pin in PINS:
        if canonicalize_name(pin.name) in ("torch", "transformers", "numpy", "jupyter-book",
                                           "papermill"):
            assert version(pin.name).partition("+")[0] in pin.specifier


def test_the_table_of_licences_says_where_everything_comes_from():
    """Each row of README.md's has the address of a project, and what is installed, shipped with the
    book or registered as data is there."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Licences\n")[2]
    rows = re.findall(r"^\| (.+) \| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)[1:]
    for what, licence in rows:
        assert "](https://" in what, what
        assert licence
    named = "\n".join(what for what, _ in rows)
    for text in sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"]):
        assert f"[{Requirement(text).name}](https://" in named, text
    for folder in (ROOT / "book/_static/offline").iterdir():
        assert not folder.is_dir() or f"`book/_static/offline/{folder.name}`" in named, folder
    for entry in entries().values():
        for address in re.findall(r"https://\S+", entry.source):
            assert f"]({address})" in named, address


@pytest.mark.parametrize("words", [
    ["lint-imports", "--no-cache"], ["ruff", "check", "lib", "tests", "benchmarks", "setup.py"],
    ["ruff", "check", "notebooks", "--select", "E4,E7,E9,F", "--ignore", "E402,E731"],
    ["mypy"]], ids=" ".join)
def test_the_house_rules_hold(words):
    """Rooms import one way, code is clean (that of the pages too), types are right."""
    command = [Path(sys.executable).with_name(words[0]), *words[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
