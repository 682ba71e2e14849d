"""The stored copy of the book: what it leaves out, what it says, and that it opens from a disk."""

import re
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from probebook.base import ROOT, read_yaml
from probebook_book import stored

PAGE = (
    '<html><body class="x"><ul><li><a href="../_sources/a.ipynb" title="Download">s</a></li>'
    '<li><a href="b.html">b</a></li></ul><img src="_images/a.png"></body></html>'
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The archive of the repository, as `make read` unpacks it."""
    folder = tmp_path_factory.mktemp("stored")
    shutil.unpack_archive(stored.ARCHIVE, folder)
    return folder


@pytest.fixture
def built(tmp_path):
    """A built book of one page and one figure of many colours."""
    shades = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    book = tmp_path / "book"
    for name in ("_sources/a.ipynb", "_static/try_it/part_00.js", "_static/x.js.map", "a.html"):
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        (book / name).write_text(PAGE)
    (book / "_images").mkdir()
    Image.fromarray(shades).save(book / "_images" / "a.png")
    return book


def test_the_copy_is_lighter_says_what_it_is_and_is_the_same_twice(built, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "_last_run", lambda: "2026-01-02 03:04 UTC from commit abc")
    for name in ("one", "two"):
        stored.pack(built, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with tarfile.open(tmp_path / "one") as tar:
        assert tar.getnames() == ["_images/a.png", "a.html"]
        text = tar.extractfile("a.html").read().decode()
        picture = Image.open(BytesIO(tar.extractfile("_images/a.png").read()))
    assert "_sources" not in text and '<a href="b.html">' in text
    assert "A stored copy, last run 2026-01-02 03:04 UTC from commit abc" in text
    assert picture.size == (60, 60) and len(picture.convert("RGB").getcolors(4000)) <= 256


def test_it_is_small_and_has_every_page_of_the_contents(unpacked):
    assert stored.ARCHIVE.stat().st_size < 15e6
    contents = read_yaml(ROOT / "_toc.yml")
    listed = re.findall(r"'file': '([^']+)'", str(contents))
    missing = [name for name in listed if not (unpacked / f"{name}.html").exists()]
    assert len(listed) > 50 and not missing


def test_every_page_says_that_it_is_stored_and_its_links_resolve(unpacked):
    left = ("_sources/", "try_it/")
    for page in unpacked.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if "<body" not in text:  # a template of the theme, or a forwarding page
            continue
        assert text.count("A stored copy, last run ") == 1, page
        for link in set(re.findall(r'(?:href|src)="([^"#?:]+)["#?]', text)):
            assert not any(part in link for part in left), (page, link)
            assert (page.parent / link).exists(), (page, link)


def test_make_read_needs_python_alone(tmp_path):
    """The command of the Makefile, with a Python that finds no installed package."""
    line = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if "unpack_archive" in line
    )
    code = re.search(r'"(.*)"', line)[1].replace("data/", f"{ROOT.as_posix()}/data/")
    subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, check=True)
    assert (tmp_path / "_build" / "stored" / "index.html").exists()
    assert Path(stored.ARCHIVE).name in line
