"""The words of the generated worlds: YAML files in `data/corpora` that anyone can read and edit."""
from __future__ import annotations

import re
from functools import cache
from typing import Any

from probebook.base import DATA, read_yaml


@cache
def word_table(name: str) -> dict[str, Any]:
    """What `data/corpora/NAME.yaml` holds, read once. UserError: the file is missing or no YAML."""
    return read_yaml(DATA / "corpora" / f"{name}.yaml")


@cache
def phrase_table(name: str) -> dict[str, Any]:
    """The word table with every text split into its phrases."""
    def split(entry: str | dict[str, Any]) -> Any:
        if isinstance(entry, str):
            return phrases(entry)
        return {key: split(value) for key, value in entry.items()}

    return split(word_table(name))


def phrases(text: str) -> list[str]:
    """The phrases of an entry: one a line, or separated by semicolons."""
    return [phrase.strip() for phrase in re.split("[;\n]", text) if phrase.strip()]
