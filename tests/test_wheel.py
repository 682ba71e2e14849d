"""The library installed apart from the checkout, as `pip install git+https://…` does it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from probebook.base import ROOT
from test_snippets import BLOCK

pytestmark = pytest.mark.xdist_group("wheel")  # the wheel is made once

SNIPPET = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))[1]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Runs Python in an empty folder with the wheel, and not the checkout, on its path."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    source = folder / "source"
    subprocess.run(["git", "clone", "-q", "--depth", "1", ROOT.as_uri(), source], check=True)
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source], check=True
    )
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", folder / "site", *folder.glob("*.whl")],
        check=True,
    )
    (folder / "empty").mkdir()

    def run(*words: str, **env: str) -> subprocess.CompletedProcess:
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("PROBEBOOK_")
        }
        variables |= {
            "PYTHONPATH": str(folder / "site"),
            "PROBEBOOK_CACHE": str(folder / "cache"),
            **env,
        }
        return subprocess.run(
            [sys.executable, *words],
            cwd=folder / "empty",
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_readmes_snippet_runs(elsewhere):
    done = elsewhere("-c", f"{SNIPPET}\nimport probebook\nprint(probebook.__file__)")
    assert done.returncode == 0, done.stderr[-2000:]
    assert Path(done.stdout.splitlines()[-1]).parents[1].name == "site"


@pytest.mark.parametrize(
    "code, line",
    [
        (
            "from probebook.models import load; load('pocket-english-gpt')",
            "pocket-english-gpt is not part of this installation: set PROBEBOOK_HOME to a checkout of "
            "the book",
        ),
        (
            "from probebook_runs.pages import find; find('1_causal_probing/03')",
            "the library is installed without the book's pages: set PROBEBOOK_HOME to a checkout of it",
        ),
    ],
)
def test_what_stayed_in_the_checkout_is_named_in_one_line(elsewhere, code, line):
    assert line in elsewhere("-c", code).stderr.splitlines()[-1]


def test_with_a_checkout_pages_and_models_are_found(elsewhere):
    code = (
        "from probebook.models import load; from probebook_runs.pages import find\n"
        "print(load('pocket-english-gpt').kind, find('1_causal_probing/03').title)"
    )
    done = elsewhere("-c", code, PROBEBOOK_HOME=str(ROOT))
    assert done.stdout.startswith("causal "), done.stderr[-2000:]


def test_the_agreement_prose_is_in_the_wheel(elsewhere):
    code = "from probebook.corpora import agreement\nprint(len(agreement.load('prose')))"
    done = elsewhere("-c", code)
    assert int(done.stdout) >= 20_000, done.stderr[-2000:]


def test_the_wheel_holds_the_small_data_and_no_more(elsewhere):
    code = (
        "from probebook.base import DATA\n"
        "print(sum(p.stat().st_size for p in DATA.rglob('*') if p.is_file()))\n"
        "print(*sorted(p.name for p in DATA.iterdir()))"
    )
    size, names = elsewhere("-c", code).stdout.splitlines()
    assert int(size) < 30e6
    assert {"models", "published", "registry.yaml"} <= set(names.split())
    assert "records" not in names.split()
