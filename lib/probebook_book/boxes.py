"""What the boxes of the directive `try-it` offer: ten sentences, in each of which the model prefers
the right verb, and what a box shows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from probebook_runs.pages import home

SHOWN = ("words", "verb", "linear", "oracle", "picture")
FENCE = re.compile(r"^```\{try-it\}.*\n((?::\w+:.*\n)*)", re.MULTILINE)
OPTION = re.compile(r"^:(\w+):(.*)$", re.MULTILINE)

SENTENCES = (
    "The keys to the cabinet [MASK] on the table.",
    "The key to the cabinets [MASK] on the table.",
    "The letter from the kings [MASK] very long.",
    "The ships near the island [MASK] made of gold.",
    "The teacher of the boys [MASK] afraid of the dark.",
    "The dogs behind the house [MASK] very hungry.",
    "Everyone knows that the lamp near the windows [MASK] lost.",
    "The stories about the queen [MASK] hard to understand.",
    "The captain that the sailors saw [MASK] ready to go.",
    "The boxes on the table in the garden [MASK] very heavy.",
)


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
        return SENTENCES[self.sentence - 1]

    @property
    def key(self) -> str:
        """A name for the files that are made of these options."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:12]


def boxes() -> list[Box]:
    """The boxes on the book's pages."""
    paths = [
        path for folder in ("book", "notebooks") for path in sorted((home() / folder).rglob("*.md"))
    ]
    found = [
        dict(OPTION.findall(options))
        for path in paths
        for options in FENCE.findall(path.read_text(encoding="utf-8"))
    ]
    return list(
        dict.fromkeys(
            Box.of({name: value.strip() for name, value in options.items()}) for options in found
        )
    )
