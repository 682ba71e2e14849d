"""Sphinx extension: the library's pages show what its authors wrote, not what pydantic and namedtuple add."""
from __future__ import annotations


def setup(app):
    app.connect("autodoc-skip-member", lambda app, what, name, member, skip, options: True if (
        name == "model_config" or type(member).__name__ == "_tuplegetter") else None)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
