"""The templates of `book/templates`, which tables of pages and the course are made of.

render("claims.html.j2", paper=paper)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError, select_autoescape
from markupsafe import Markup, escape

from probebook.base import UserError
from probebook_runs.pages import home


def render(
    template: str, filters: Mapping[str, Callable[..., Any]] | None = None, **values: Any
) -> str:
    """A template, a file of `book/templates`, with these values in it; in HTML and XML, text is
    escaped. UserError: it names a value that there is not.

    `filters`: functions that it calls, besides Jinja's own and `inline`."""
    environment = Environment(
        loader=FileSystemLoader(home() / "book" / "templates"),
        autoescape=select_autoescape(["html.j2", "xml.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["address"] = address
    environment.filters |= {"inline": inline, **(filters or {})}
    try:
        return environment.get_template(template).render(values)
    except UndefinedError as e:
        raise UserError(f"{template}: {e.message}") from None


def address(page: str, section: str = "") -> str:
    """Where a page, or a section of it, lies, as seen from a page of `book/`."""
    from docutils.nodes import make_id

    path = page.removeprefix("book/") if page.startswith("book/") else f"../notebooks/{page}"
    return f"{path}.html#{make_id(section)}" if section else f"{path}.html"


def inline(line: str) -> Markup:
    """A line of Markdown as HTML: emphasis, and the words of roles."""
    words = re.sub(r"\{\w+\}`([^`&]+?)(?: &lt;[^`]*)?`", r"\1", str(escape(line)))
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", words))
