"""Sentences of a text, the kind of an answer, and where in a text it stands."""
from __future__ import annotations

import re
from collections import Counter

import sentencex

NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand""".split()
_WORD = re.compile(r"\w+(?:[.,'’]\w+)*")


def sentences(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences of an English text, without the blanks around them."""
    spans, at = [], 0
    for part in sentencex.segment("en", text):
        if part.strip():
            start = at + len(part) - len(part.lstrip())
            spans.append((start, start + len(part.strip())))
        at += len(part)
    return spans


def words(text: str) -> list[str]:
    """Words in lower case without articles: what exact match and F1 compare."""
    return [word for word in _WORD.findall(text.lower()) if word not in ("a", "an", "the")] or [""]


def kind_of(question: str, gold: str) -> str:
    """By the answer's form, and whether the question names it as one of two."""
    said = words(gold)
    if said in (["yes"], ["no"], ["unknown"]):
        return "unknown" if said == ["unknown"] else "yes/no"
    if len(said) == 1 and (said[0] in NUMBERS or re.fullmatch(r"\d[\d.,]*", said[0])):
        return "number"
    asked = words(question)
    return "option" if "or" in asked and any(asked[i:i + len(said)] == said for i in range(len(asked))) else "span"


def best(story: str, first: int, last: int, gold: str) -> tuple[int, int]:
    """(start, end) of the stretch of words from `first` to `last` with the best F1 against `gold`; (−1, −1): all 0."""
    found = [m for m in _WORD.finditer(story, first, last)]
    counts = Counter(words(gold))
    ends = [i for i, m in enumerate(found) if m[0].lower() in counts]
    top, at = 0., (-1, -1)
    for i in ends:
        common, length = Counter(), 0
        for j in range(i, ends[-1] + 1):
            word = found[j][0].lower()
            if word in ("a", "an", "the"):
                continue
            length += 1
            common[word] += 1
            if word in counts:
                f1 = 2 * (common & counts).total() / (length + counts.total())
                if f1 > top:
                    top, at = f1, (found[i].start(), found[j].end())
    return at


def occurrence(story: str, span: tuple[int, int], gold: str) -> tuple[int, int] | None:
    """Where the answer stands as whole words, first in its own case."""
    pattern = rf"(?<!\w){re.escape(gold)}(?!\w)"
    match = re.compile(pattern).search(story, *span) or re.compile(pattern, re.IGNORECASE).search(story, *span)
    return match.span() if match else None
