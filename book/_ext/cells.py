"""Sphinx extension: tables of code cells have numbers, and folds of code say what the code does.

A cell with `mystnb: {table: {caption: ..., name: tab-...}}` shows "Table N: ..." above its output.
A fold that the page does not name is named by the figure or table that its code makes, else by the
comment that the code starts with."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

TABLE = "numbered-table"  # `probebook_book.build` makes such a cell a figure of this class


class numbered_table(nodes.figure):  # noqa: N801, docutils names nodes like this
    """A figure that counts as a table."""


class NumberTables(SphinxTransform):
    default_priority = 10  # before anything looks at captions

    def apply(self, **kwargs: Any) -> None:
        figures = (node for node in self.document.findall(nodes.figure) if TABLE in node["classes"])
        for figure in list(figures):
            table = numbered_table(figure.rawsource, *figure.children, **figure.attributes)
            figure.replace_self(table)
            self.document.ids |= dict.fromkeys(table["ids"], table)


class NameFolds(SphinxTransform):
    default_priority = 10

    def apply(self, **kwargs: Any) -> None:
        unnamed = self.config.nb_code_prompt_show
        for cell in self.document.findall(nodes.container):
            if cell.get("prompt_show", "") == unnamed:
                cell["prompt_show"] = _name(cell)
            if "prompt_show" in cell:
                cell["prompt_hide"] = cell["prompt_show"]


def _name(cell: nodes.container) -> str:
    """What the code of a cell does, as the name of its fold."""
    figure = cell["cell_metadata"].get("mystnb", {}).get("figure")
    if figure:
        return f"Code of this {'table' if figure.get('classes') == TABLE else 'figure'}"
    code = next(cell.findall(nodes.literal_block), None)
    first = code.astext().lstrip().partition("\n")[0] if code else ""
    words = first.removeprefix("#").strip() if first.startswith("#") else ""
    return f"Code: {words}" if words else "Code"


def setup(app: Sphinx) -> dict[str, bool]:
    as_figure = HTML5Translator.visit_figure, HTML5Translator.depart_figure
    app.add_enumerable_node(numbered_table, "table", html=as_figure)
    app.add_transform(NumberTables)
    app.add_transform(NameFolds)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
