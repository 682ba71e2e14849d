"""What the boxes of the directive `try-it` offer: the sentences of `book/try_it.yaml`, and what a
box shows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from probebook.base import read_yaml
from probebook_runs.pages import home

SHOWN = ("words", "verb", "linear", "oracle", "picture")
FENCE = re.compile(r"^```\{try-it\}.*\n((?::\w+:.*\n)*)", re.MULTILINE)
OPTION = re.compile(r"^:(\w+):(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Box:
    """A box by the directive's options: `sentence` (one of the ten, from 1); `methods`, `layers`
    and `show` (of `SHOWN`), each a list with spaces; `flip`: the flipped sentence stands beside."""

    sentence: int = 1
    methods: str = ""
    layers: str = ""
    show: str = " ".join(SHOWN)
    flip: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Box:
        """The box of options as a page writes them, or as Sphinx reads them."""
        texts = {name: options[name] for name in ("methods", "layers", "show") if name in options}
        return cls(int(options.get("sentence", 1)), **texts, flip="flip" in options)

    @property
    def text(self) -> str:
        """The sentence at which the box opens."""
        return sentences()[self.sentence - 1]

    @property
    def key(self) -> str:
        """A name for the files that are made of these options."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]


@cache
def sentences() -> tuple[str, ...]:
    """The sentences that a box offers; in each the model prefers the right verb."""
    return tuple(read_yaml(home() / "book" / "try_it.yaml"))


def boxes() -> list[Box]:
    """The boxes on the book's pages."""
    paths = [
        path for folder in ("book", "notebooks") for path in sorted((home() / folder).rglob("*.md"))
    ]
    written = [
        {name: value.strip() for name, value in OPTION.findall(options)}
        for path in paths
        for options in FENCE.findall(path.read_text(encoding="utf-8"))
    ]
    return list(dict.fromkeys(map(Box.of, written)))
