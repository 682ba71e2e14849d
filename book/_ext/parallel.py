"""Sphinx extension: several processes read and write pages, and citations load quickly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pybtex import plugin
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

# These two do their work after reading, so pages may be read in parallel; they do not declare it.
SAFE_TO_READ = "sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"


def setup(app: Sphinx) -> dict[str, bool]:
    plugin._load_entry_point = cache(plugin._load_entry_point)  # else it searches for each citation
    app.connect("env-before-read-docs", _declare_safe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _declare_safe(app: Sphinx, env: BuildEnvironment, names: Sequence[str]) -> None:
    for name in SAFE_TO_READ:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True
