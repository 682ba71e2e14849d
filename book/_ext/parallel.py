"""Sphinx extension: pages are read and written by several processes, and citations do not search all of Python."""
from __future__ import annotations

from functools import cache

from pybtex import plugin

SILENT = "sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"     # may be, but do not say so: they work afterwards


def setup(app):
    plugin._load_entry_point = cache(plugin._load_entry_point)      # looks through all that is installed, a citation
    app.connect("env-before-read-docs", _declare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _declare(app, env, names) -> None:
    for name in SILENT:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True
