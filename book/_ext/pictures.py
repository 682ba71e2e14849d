"""Sphinx extension: each picture of the book's own has its width and height in the HTML, so that its room is kept free
while it loads; those that a phone would show too small are of the class `wide`, which the style sheet lets scroll."""
from __future__ import annotations

import re
import struct
from pathlib import Path

PICTURE = re.compile(r'<img(?P<rest>[^>]*\ssrc="[^"]*_images/(?P<name>[^"/]+\.png)"[^>]*?)\s*/?>')
WIDE = 720                      # pixels; a figure of one panel has fewer


def setup(app):
    app.connect("html-page-context", _size)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _size(app, pagename, templatename, context, doctree) -> None:
    sources = {name: source for source, name in app.builder.images.items()}

    def sized(match: re.Match) -> str:
        if match["name"] not in sources or re.search(r"\s(?:width|height|style)=", match["rest"]):
            return match[0]
        with open(Path(app.srcdir, sources[match["name"]]), "rb") as file:
            width, height = struct.unpack(">II", file.read(24)[16:])
        wide = f' class="wide" style="--width: {width}px"' if width > WIDE and " class=" not in match["rest"] else ""
        return f'<img{match["rest"]} width="{width}" height="{height}"{wide}/>'

    if context.get("body"):
        context["body"] = PICTURE.sub(sized, context["body"])
