"""Sphinx extension: the library's pages show what its authors wrote, not what pydantic, namedtuple, dataclass add."""
from __future__ import annotations


def setup(app):
    app.connect("autodoc-skip-member", lambda app, what, name, member, skip, options: True if (
        name == "model_config" or type(member).__name__ == "_tuplegetter") else None)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _signature(app, what, name, thing, options, signature, returns):
    """A default that is made anew each time, in a form that Sphinx can read."""
    return (signature.replace("<factory>", "..."), returns) if signature else None
