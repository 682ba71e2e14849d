"""Sphinx extension: the pages' texts, for the search page of a book that is read from files.

Sphinx's search fetches each hit's page for its excerpt, which browsers refuse over file://."""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", _write_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_texts(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        texts = {name: _text(app.env.get_doctree(name)) for name in sorted(app.env.found_docs)}
        path = Path(app.outdir) / "_static" / "search_texts.js"
        path.write_text(
            f"const SEARCH_TEXTS = {json.dumps(texts, ensure_ascii=False)};\n", encoding="utf-8"
        )


def _text(document: nodes.document) -> str:
    """What a reader reads of a page: no tags of tables and widgets."""
    for raw in list(document.findall(nodes.raw)):
        raw.parent.remove(raw)
    return " ".join(document.astext().split())
