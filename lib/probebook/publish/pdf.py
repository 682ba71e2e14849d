"""The built book as PDF, a file a chapter: each page printed by Chromium, then joined with bookmarks."""
from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from probebook.base import UserError, read_yaml, written_whole
from probebook.runs.pages import home

SECONDS = 20        # of a page's own clock: until formulas are set


def chromium() -> str | None:
    """Path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def chapters() -> dict[str, list[str]]:
    """The parts of the table of contents that hold pages of notebooks: caption → files without ending."""
    toc = read_yaml(home() / "_toc.yml")
    parts = {part["caption"]: [chapter["file"] for chapter in part["chapters"]] for part in toc["parts"]}
    return {caption: files for caption, files in parts.items() if any(f.startswith("notebooks/") for f in files)}


def write(out: Path) -> list[Path]:
    """Write `OUT/N.pdf` for every chapter of the built book. UserError: no built book, no Chromium."""
    browser = chromium()
    book = home() / "_build" / "book"
    if not browser:
        raise UserError("no Chromium: install it (Debian: apt-get install chromium)")
    if not (book / "index.html").exists():
        raise UserError("no built book: make book")
    paths = []
    for caption, files in chapters().items():
        paths.append(out / f"{caption.partition(' ')[0]}.pdf")
        with tempfile.TemporaryDirectory(prefix="probebook-pdf-") as work, written_whole(paths[-1]) as part:
            _join({name: _printed(browser, book / f"{name}.html", Path(work)) for name in files}, part)
    return paths


def _printed(browser: str, page: Path, work: Path) -> Path:
    out = work / f"{page.stem}.pdf"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer",
               "--allow-file-access-from-files", f"--user-data-dir={work / 'profile'}",
               f"--virtual-time-budget={SECONDS * 1000}", f"--print-to-pdf={out}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not out.exists():
        raise UserError(f"{page.name} could not be printed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return out


def _join(printed: dict[str, Path], out: Path) -> None:
    from pypdf import PdfWriter
    writer = PdfWriter()
    for name, path in printed.items():
        writer.append(path, outline_item=name.rpartition("/")[2])
    with open(out, "wb") as file:
        writer.write(file)
