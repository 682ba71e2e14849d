"""Sphinx extension: pictures have their width and height in the HTML, so a page does not move while
it loads. Wide ones get the class `wide`, which the style sheet lets scroll on a phone."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PICTURE = re.compile(r'<img(?P<rest>[^>]*\ssrc="[^"]*_images/(?P<name>[^"/]+\.png)"[^>]*?)\s*/?>')
WIDE = 720  # pixels; a figure of one panel has fewer


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", _add_sizes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_sizes(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    sources = {name: source for source, name in app.builder.images.items()}

    def sized(match: re.Match) -> str:
        name, rest = match["name"], match["rest"]
        if name not in sources or re.search(r"\s(?:width|height|style)=", rest):
            return match[0]
        width, height = _size(Path(app.srcdir, sources[name]))
        if width > WIDE and " class=" not in rest:
            rest += f' width="{width}" height="{height}" class="wide" style="--width: {width}px"'
        else:
            rest += f' width="{width}" height="{height}"'
        return f"<img{rest}/>"

    if context.get("body"):
        context["body"] = PICTURE.sub(sized, context["body"])


def _size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file, in pixels, from its header."""
    with open(path, "rb") as file:
        return struct.unpack(">II", file.read(24)[16:])
