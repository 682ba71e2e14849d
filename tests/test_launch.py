"""A published copy: buttons for Colab and Binder, a first cell that installs the book, chapters as
PDF, one archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
import yaml

from conftest import probebook
from probebook.base import ROOT
from probebook_book import build, pdf
from probebook_runs.pages import find
from probebook_runs.plain import install_cell, paired_notebook

ADDRESS = "https://github.com/somebody/book"


@pytest.fixture
def home(tiny):
    """A small book with the project's configuration and a public address."""
    home = tiny("start(globals())", "n")
    (home / "_toc.yml").write_text(
        "{format: jb-book, root: notebooks/1_demo/01_first, parts: [{caption: 1 · Demo, "
        "chapters: [{file: book/more}, {file: notebooks/1_demo/02_next}]}]}"
    )
    tiny("start(globals())", "n", name="1_demo/02_next")
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["repository"]["url"] = ADDRESS
    (home / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    for folder in ("_static", "_ext"):
        shutil.copytree(ROOT / "book" / folder, home / "book" / folder)
    shutil.copy(ROOT / "book/references.bib", home / "book")
    (home / "book/more.md").write_text("# More\n\nText.\n")
    return home


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "_build"


@pytest.fixture
def built(home, kept):
    """The same, built, which is done once."""
    if kept.exists():
        shutil.copytree(kept, home / "_build", symlinks=True)
    else:
        assert build.build()
        shutil.copytree(home / "_build", kept, symlinks=True)
    return home


@pytest.mark.xdist_group("launch")
def test_pages_open_in_colab_and_binder(built):
    page = (built / "_build/book/notebooks/1_demo/01_first.html").read_text(encoding="utf-8")
    for part in (
        "https://colab.research.google.com/github/somebody/book/blob/",
        "https://mybinder.org/v2/gh/",
        "notebooks/1_demo/01_first.ipynb",
    ):
        assert part in page


def test_no_buttons_without_an_address(monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    config = {"repository": {"url": ""}}
    build._add_launch_buttons(config)
    assert config == {"repository": {"url": ""}}
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/book")  # as in builds on GitHub
    build._add_launch_buttons(config)
    assert config["repository"]["url"] == ADDRESS
    assert "colab_url" in config["launch_buttons"]


def test_the_first_cell_installs_where_the_library_is_missing(home):
    cell = install_cell()
    assert '"id": "install"' in paired_notebook(find("1_demo/01"))
    code = cell.source.replace('find_spec("probebook")', "find_spec('none_of_this_name')")
    assert _asked(code) == [
        f"git clone -q --depth 1 {ADDRESS} probebook",
        'pip install -q -e "probebook[run]" -c probebook/constraints.txt',
    ]
    assert sys.path[0] == "probebook/lib"
    sys.path.pop(0)


def test_where_it_is_there_nothing_is_installed(home):
    assert _asked(install_cell().source) == []


def _asked(code: str) -> list[str]:
    """What a cell asks the system and pip for, in a shell that does neither."""
    from IPython.core.interactiveshell import InteractiveShell

    shell, asked = InteractiveShell(), []
    shell.system = asked.append
    shell.run_line_magic = lambda name, line, **_: asked.append(f"{name} {line}")
    shell.run_cell(code, store_history=False).raise_error()
    return asked


def test_a_clone_installs_as_the_cell_does(tmp_path):
    """What the first cell fetches is enough: a clone imports and finds its models and data."""
    command = ["git", "clone", "-q", "--depth", "1", ROOT.as_uri(), tmp_path / "probebook"]
    subprocess.run(command, check=True)
    code = (
        "import sys; sys.path.insert(0, 'probebook/lib'); from probebook.base import DATA; "
        "from probebook.models import load; print(DATA, load('pocket-agreement').width)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PROBEBOOK_HOME"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(str(tmp_path / "probebook" / "data")), done.stderr[-2000:]


@pytest.mark.xdist_group("launch")
@pytest.mark.skipif(not pdf.chromium(), reason="no Chromium")
def test_chapters_become_pdf(built, tmp_path):
    from pypdf import PdfReader

    [path] = pdf.write(tmp_path / "out")
    reader = PdfReader(path)
    assert path.name == "1.pdf"
    assert [item.title for item in reader.outline] == ["more", "02_next"]
    assert "More" in reader.pages[0].extract_text()


def test_pdf_says_what_is_missing(tiny, monkeypatch):
    home = tiny()
    done = probebook("pdf", env={"PROBEBOOK_HOME": str(home), "PATH": ""})
    assert done.returncode == 2
    assert "no Chromium" in done.stderr


def test_the_archive_holds_the_book(tmp_path):
    """`make archive` zips the folder of the built book, in a folder with a space too."""
    home = tmp_path / "a copy"
    pages = {"book/index.html": "x", "book/a/b.html": "y"}
    for name, text in pages.items():
        (home / "_build" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "_build" / name).write_text(text)
    (home / ".venv" / "bin").mkdir(parents=True)
    (home / ".venv" / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(ROOT / "Makefile", home)
    made = subprocess.check_output(["make", "-o", "book", "archive"], cwd=home, text=True)
    assert "_build/probebook.zip" in made.splitlines()
    packed = zipfile.ZipFile(home / "_build" / "probebook.zip")
    names = {name for name in packed.namelist() if not name.endswith("/")}
    assert {name: packed.read(name).decode() for name in names} == pages
