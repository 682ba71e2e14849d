"""Sphinx extension: the reference shows what the library's authors wrote, not what pydantic,
namedtuple and dataclass add or other libraries gave."""

from __future__ import annotations

import inspect
from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-skip-member", _skip_generated)
    app.connect("autodoc-process-signature", _shorten_factories)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _skip_generated(
    app: Sphinx,
    what: str,
    name: str,
    member: Any,
    skip: bool,
    options: Any,
) -> bool | None:
    if name == "model_config" or type(member).__name__ == "_tuplegetter":
        return True
    # Sphinx 9 reads the signature of an imported function before it leaves the function out
    return True if what == "module" and inspect.isroutine(member) and not _own(member) else None


def _own(function: Any) -> bool:
    return (function.__module__ or "").startswith("probebook")


def _shorten_factories(
    app: Sphinx,
    what: str,
    name: str,
    thing: Any,
    options: Any,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Write a default that is made anew each time as `...`, which Sphinx can read."""
    return (signature.replace("<factory>", "..."), returns) if signature else None
