"""`python -m probebook_book.stored` packs the built book as `data/book.tar.xz`, to be read before
anything is installed (`make read`).

What a reader of a stored copy does not miss is left out: the pages' sources, maps of scripts, and
the weights of *Try it*, whose box then says what to do. Figures keep 256 colours."""

from __future__ import annotations

import io
import re
import sys
import tarfile
from pathlib import Path

from PIL import Image

from probebook.base import DATA, atomic_write
from probebook_runs.pages import home, pages
from probebook_runs.records import read_record
from probebook_runs.store import book_run

ARCHIVE = DATA / "book.tar.xz"
LEFT_OUT = re.compile(r"^_sources/|^_static/try_it/|webpack-macros\.html$|\.map$|\.buildinfo$")
SOURCE_LINK = re.compile(r'<li><a href="[^"]*_sources/.*?</li>', re.DOTALL)
BANNER = (
    '<div class="bd-header-announcement"><div class="bd-header-announcement__content">'
    "A stored copy, last run {}. <b>make book</b> runs the pages of your checkout."
    "</div></div>"
)


def pack(book: Path, archive: Path) -> None:
    """Write a built book as one archive; the same book gives the same bytes."""
    banner = BANNER.format(_last_run())
    names = sorted(path.relative_to(book).as_posix() for path in book.rglob("*") if path.is_file())
    with atomic_write(archive) as part, tarfile.open(part, "w:xz", preset=9) as tar:
        for name in (name for name in names if not LEFT_OUT.search(name)):
            content = _lighter(name, (book / name).read_bytes(), banner)
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))


def _lighter(name: str, content: bytes, banner: str) -> bytes:
    """A file as the copy has it."""
    if name.endswith(".html"):
        text = SOURCE_LINK.sub("", content.decode("utf-8"))
        return re.sub(r"<body[^>]*>", lambda body: body[0] + banner, text, count=1).encode()
    if name.endswith(".png"):
        picture, out = Image.open(io.BytesIO(content)), io.BytesIO()
        if picture.mode == "P":  # it has few already
            return content
        few = picture.convert("RGBA").quantize(256, Image.Quantize.FASTOCTREE)
        few.save(out, "PNG", optimize=True)
        return min(content, out.getvalue(), key=len)
    return content


def _last_run() -> str:
    """When, and from which commit, the last of the book's pages was run."""
    records = [read_record(book_run(page.name).folder) for page in pages()]
    last = max((record for record in records if record), key=lambda record: record.finished)
    return f"{last.finished} UTC from commit {last.commit[:8]}"


if __name__ == "__main__":
    index = home() / "_build" / "book" / "index.html"
    if not index.exists():
        sys.exit("there is no book to pack: make book first")
    pack(index.parent, ARCHIVE)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size / 1e6:.1f} MB")
