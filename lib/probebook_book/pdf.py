"""The built book as PDF, one file per chapter: Chromium prints the pages, pypdf joins them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from probebook.base import UserError, atomic_write, read_yaml
from probebook_runs.pages import home

SECONDS = 20  # by the clock of the page: until formulas are set
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def chapters() -> dict[str, list[str]]:
    """Number and files (without ending) of each chapter: an opener with its pages, or a part of the
    contents without sections that holds notebooks."""
    files_of: dict[str, list[str]] = {}
    for part in read_yaml(home() / "_toc.yml")["parts"]:
        opened = [
            [chapter["file"], *(page["file"] for page in chapter["sections"])]
            for chapter in part["chapters"]
            if "sections" in chapter
        ]
        for files in opened or [[chapter["file"] for chapter in part["chapters"]]]:
            numbers = [file.split("/")[1][0] for file in files if file.startswith("notebooks/")]
            if numbers:
                files_of[numbers[0]] = files
    return files_of


def write(out: Path) -> list[Path]:
    """Write `OUT/N.pdf` for every chapter of the built book.

    UserError: the book is not built, there is no Chromium, or it cannot print a page."""
    browser = chromium()
    book = home() / "_build" / "book"
    if not browser:
        raise UserError("no Chromium: install it (Debian: apt-get install chromium)")
    if not (book / "index.html").exists():
        raise UserError("no built book: make book")
    from pypdf import PdfWriter

    paths = []
    for number, files in chapters().items():
        paths.append(out / f"{number}.pdf")
        with tempfile.TemporaryDirectory(prefix="probebook-pdf-") as work:
            pages = [print_page(browser, book / f"{name}.html", Path(work)) for name in files]
            writer = PdfWriter()
            for path in pages:  # each has a bookmark of its name
                writer.append(path, outline_item=path.stem)
            with atomic_write(paths[-1]) as part, open(part, "wb") as file:
                writer.write(file)
    return paths


def print_page(browser: str, page: Path, work: Path) -> Path:
    """Print an HTML page to a PDF file in the folder `work`. UserError: it could not be printed."""
    out = work / f"{page.stem}.pdf"
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--no-pdf-header-footer",
        "--allow-file-access-from-files",
        f"--user-data-dir={work / 'profile'}",
        f"--virtual-time-budget={SECONDS * 1000}",
        f"--print-to-pdf={out}",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not out.exists():
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise UserError(f"{page.name} could not be printed: {lines[-1]}")
    return out
