"""Words: those of the generated worlds, in YAML files that anyone can read and edit, and what
counts as a word in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from probebook.base import DATA, read_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MARKS = "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c)[0] == "M")
INVISIBLE = {i: "" for i in range(0x10000) if unicodedata.category(chr(i)) == "Cf"}
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese are written without blanks
NO_BLANKS = "\u0e00-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u9fff\uf900-\ufaff\uff66-\uff9f"
NO_BLANKS += "\U00020000-\U0003ffff"


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


def plain(text: str) -> str:
    """A text in Unicode's composed form, without outer blanks and invisible characters, and with
    one blank for several: equal for two texts that look alike."""
    return " ".join(unicodedata.normalize("NFC", text).translate(INVISIBLE).split())


def find_word(text: str, word: str) -> tuple[int, int] | None:
    """Where a text first has a word, in either case, any Unicode form and with any blanks; in
    scripts without blanks also within a longer run. None: nowhere."""
    word, letter = plain(word), rf"(?:(?![{NO_BLANKS}])[\w{MARKS}])"
    if not word:
        return None
    spelt = [re.escape(c) + "|" + re.escape(unicodedata.normalize("NFD", c)) for c in word]
    inside = "".join(r"\s+" if c == " " else f"(?:{one})" for c, one in zip(word, spelt))
    before, after = (not re.match(f"[{NO_BLANKS}]", c) for c in (word[0], word[-1]))
    borders = rf"(?<!{letter})" * before, rf"(?!{letter})" * after
    found = re.search(inside.join(borders), text, re.IGNORECASE)
    return found.span() if found else None


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
