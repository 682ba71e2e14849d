"""`python -m probebook_book.html SOURCE` builds the book's HTML with several processes.

It does what `jupyter-book build SOURCE -W --keep-going -q` does with one."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import jupyter_book.cli.main  # noqa: F401  (its modules import each other: this one has to come first)
from joblib import cpu_count
from jupyter_book.sphinx import build_sphinx


def build(source: Path) -> int | Exception:
    """Write SOURCE/_build/html. A result other than 0 is a failure; its warnings are on stderr."""
    overrides = {"external_toc_path": str(source / "_toc.yml"), "latex_individualpages": False}
    return build_sphinx(
        source,
        source / "_build" / "html",
        path_config=source / "_config.yml",
        noconfig=True,
        confoverrides=overrides,
        builder="html",
        warningiserror=True,
        keep_going=True,
        quiet=True,
        jobs=cpu_count(),
    )


if __name__ == "__main__":
    gc.disable()  # looking for garbage among millions of nodes takes longer than the rest
    sys.exit(build(Path(sys.argv[1]).resolve()) != 0)
