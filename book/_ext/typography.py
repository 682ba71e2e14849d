"""Sphinx extension: numbers and formulas are set as in print.

A true minus stands before digits, no sign before zero; apostrophes are curly. Signs, "Table" and
"§" stay on the line of their number, a full stop on that of its formula. Columns of numbers in a
table that a cell wrote get the class `number`. Code, formulas and scripts do not change."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

# A formula with what must stay on its line: a bracket, punctuation, a relation and its number.
FORMULA = re.compile(
    r'([(\[“‘]*<span class="math [^>]*>[^<]*</span>(?:-\w+|[.,;:!?)\]”’]+'
    '|\xa0(?:[=≤≥]|&[lg]t;)\xa0(?:<span class="pasted-text">[^<]*</span>|[−.\\d]+)))'
)
PIECE = re.compile(
    r"<(script|style|pre|code|textarea)\b.*?</\1>"  # these stay: code, formulas, tags
    r'|<span class="math .*?</span>|<div class="math .*?</div>|<dt class="sig .*?</dt>'
    r"|<[^>]+>|(?P<text>[^<]+)",
    re.DOTALL,
)
MINUS = re.compile(r"(?<![\w.)\]–−+-])(?:[-−+](?P<zero>0*\.?0+(?!\.?\d))|[-−](?=\.?\d))")
NUMBERED = re.compile(
    r"(?<=[§±×])\s(?=\.?\d)|(?<=able)\s(?=\d)|(?<=igure)\s(?=\d)|(?<=\bet)\s(?=al\.)|\s(?=%)"
    r"|(?<=\d)(?=%)|(?<=\[\w,)\s(?=\w\])|\s(?=[·×]\s)"
)
RELATION = re.compile(r"\s([=≤≥]|&[lg]t;)\s(?=[−.\d]|$)")
EXPONENT = re.compile(r"(?<=\de)-(?=\d)")
APOSTROPHE = re.compile(r"(?<=\w)(?:'|&#x27;|&#39;)(?=\w)")
HYPHENATED = re.compile(r"\b(R-LACE|S-Learner|WikiText-2|[tp]-(?:test|value)s?)\b")
TABLE = re.compile(r'<table id="T_.*?</table>', re.DOTALL)
CELL = re.compile(r'(?<=class="data row)(\d+ )(?P<column>col\d+)(?=[ "][^>]*>(?P<text>[^<]*)<)')
HEAD = re.compile(r'(?<=class="col_heading level)(\d+ )(?P<column>col\d+)(?="\s*>)')
NUMBER = re.compile(r"[−+]?[\d.,]*\d(?:\xa0%)?")
NO_NUMBER = {"", "–", "∞", "\xa0", "&nbsp;"}
SPACE = "\N{NO-BREAK SPACE}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", _typeset_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _typeset_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    if context.get("body"):
        context["body"] = typeset(context["body"])


def typeset(html: str) -> str:
    """Set the text of a page; its code, formulas and tags stay."""
    html = PIECE.sub(lambda piece: _set(piece["text"]) if piece["text"] else piece[0], html)
    html = TABLE.sub(lambda table: _align(table[0]), html)
    return FORMULA.sub(r'<span class="together">\1</span>', html)


def _align(table: str) -> str:
    """Mark the cells and the head of each column that holds nothing but numbers."""
    columns: dict[str, set[str]] = {}
    for cell in CELL.finditer(table):
        columns.setdefault(cell["column"], set()).add(cell["text"].strip())
    numbers = {
        column
        for column, texts in columns.items()
        if (given := texts - NO_NUMBER) and all(map(NUMBER.fullmatch, given))
    }

    def marked(place: re.Match) -> str:
        return f"{place[0]} number" if place["column"] in numbers else place[0]

    return HEAD.sub(marked, CELL.sub(marked, table))


def _set(words: str) -> str:
    """Set a text between two tags."""
    words = NUMBERED.sub(SPACE, MINUS.sub(lambda found: found["zero"] or "−", words))
    words = APOSTROPHE.sub("’", EXPONENT.sub("−", words))
    words = RELATION.sub(rf"{SPACE}\1{SPACE}", words)
    return HYPHENATED.sub(r'<span class="together">\1</span>', words)
