"""The quizzes of all pages for learning platforms: as GIFT (Moodle) and as QTI 1.2 (Canvas)."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from probebook.base import atomic_write
from probebook_book.lectures import quiz
from probebook_book.templates import render
from probebook_runs.pages import pages

NAMES = ("quizzes.gift", "quizzes_qti.zip")


def write(out: Path) -> list[Path]:
    """Write the quizzes as `OUT/quizzes.gift` and `OUT/quizzes_qti.zip`, one assessment a page."""
    filters = {"html": platform_html, "gift": _gift}
    quizzes = {page.name.replace("/", "_"): (page.title, quiz(page)) for page in pages()}
    gift, qti = (out / name for name in NAMES)
    with atomic_write(gift) as part:
        part.write_text(render("quizzes.gift.j2", filters, quizzes=quizzes), encoding="utf-8")
    with atomic_write(qti) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("imsmanifest.xml", render("imsmanifest.xml.j2", names=list(quizzes)))
        for name, (title, questions) in quizzes.items():
            text = render("qti.xml.j2", filters, name=name, title=title, questions=questions)
            archive.writestr(f"{name}/{name}.xml", text)
    return [gift, qti]


def platform_html(text: str) -> str:
    """Markdown as one line of HTML, with formulas as both platforms read them."""
    from nbconvert.filters import markdown2html

    html = " ".join(markdown2html(text).split())
    return re.sub(r"\$([^$]+)\$", r"\\(\1\\)", html)


def _gift(text: str) -> str:
    """A text whose signs GIFT does not read as its own."""
    return re.sub(r"([\\~=#{}:])", r"\\\1", text)
