"""Sphinx extension: numbers and formulas as print sets them, whatever code wrote them.

A true minus before digits, no sign before zero, curly apostrophes; signs, "Table" and "§" on the line of their number,
a full stop on that of its formula. Code, formulas and scripts stay as they are."""
from __future__ import annotations

import re

FORMULA = re.compile(r'([(\[“‘]*<span class="math [^>]*>[^<]*</span>(?:-\w+|[.,;:!?)\]”’]+'
                     '|\xa0(?:[=≤≥]|&[lg]t;)\xa0(?:<span class="pasted-text">[^<]*</span>|[−.\\d]+)))')
PIECE = re.compile(
    r"<(script|style|pre|code|textarea)\b.*?</\1>"                       # as it is written: code, formulas, tags
    r'|<span class="math .*?</span>|<div class="math .*?</div>|<dt class="sig .*?</dt>'
    r"|<[^>]+>|(?P<text>[^<]+)", re.DOTALL)
MINUS = re.compile(r"(?<![\w.)\]–−+-])(?:[-−+](?P<zero>0*\.?0+(?!\.?\d))|[-−](?=\.?\d))")
NUMBERED = re.compile(r"(?<=[§±×])\s(?=\.?\d)|(?<=able)\s(?=\d)|(?<=igure)\s(?=\d)|(?<=\bet)\s(?=al\.)|\s(?=%)"
                      r"|(?<=\d)(?=%)|(?<=\[\w,)\s(?=\w\])|\s(?=[·×]\s)")
RELATION = re.compile(r"\s([=≤≥]|&[lg]t;)\s(?=[−.\d]|$)")
EXPONENT = re.compile(r"(?<=\de)-(?=\d)")
APOSTROPHE = re.compile(r"(?<=\w)(?:'|&#x27;|&#39;)(?=\w)")
HYPHENED = re.compile(r"\b(R-LACE|S-Learner|[tp]-(?:test|value)s?)\b")
SPACE = "\N{NO-BREAK SPACE}"


def setup(app):
    app.connect("html-page-context", _set)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _set(app, pagename, templatename, context, doctree) -> None:
    if context.get("body"):
        context["body"] = typeset(context["body"])


def typeset(html: str) -> str:
    """The same page with its text set so."""
    html = PIECE.sub(lambda piece: text(piece["text"]) if piece["text"] else piece[0], html)
    return FORMULA.sub(r'<span class="together">\1</span>', html)


def text(words: str) -> str:
    """A text between two tags."""
    words = NUMBERED.sub(SPACE, MINUS.sub(lambda found: found["zero"] or "−", words))
    words = APOSTROPHE.sub("’", EXPONENT.sub("−", words))
    words = RELATION.sub(rf"{SPACE}\1{SPACE}", words)
    return HYPHENED.sub(r'<span class="together">\1</span>', words)
