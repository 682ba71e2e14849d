"""The words of the generated worlds: YAML files in `data/corpora` that anyone can read and edit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from probebook.base import DATA, read_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def single_tokens(words: Iterable[str], tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """word → id of those words that are one token within a text, after another word."""
    words = sorted(set(words))
    ids = tokenizer(["a", *(f"a {word}" for word in words)], add_special_tokens=False)["input_ids"]
    pieces = {word: row[len(ids[0]) :] for word, row in zip(words, ids[1:])}
    return {
        word: row[0]
        for word, row in pieces.items()
        if len(row) == 1 and row[0] != tokenizer.unk_token_id
    }


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
