"""Sentences of a text, the kind of an answer, and its place in a text."""

from __future__ import annotations

import re
from collections import Counter

import sentencex

NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen
    fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy
    eighty ninety hundred thousand""".split()
_ARTICLES = ("a", "an", "the")
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
    """Words in lower case without articles, which exact match and F1 compare."""
    return [word for word in _WORD.findall(text.lower()) if word not in _ARTICLES] or [""]


def kind_of(question: str, gold: str) -> str:
    """The kind of an answer: "unknown", "yes/no", "number", "option" or "span".

    It is an option if the question names it and has an "or".
    """
    answer = words(gold)
    if answer in (["yes"], ["no"], ["unknown"]):
        return "unknown" if answer == ["unknown"] else "yes/no"
    if len(answer) == 1 and (answer[0] in NUMBERS or re.fullmatch(r"\d[\d.,]*", answer[0])):
        return "number"
    asked = words(question)
    named = any(asked[i : i + len(answer)] == answer for i in range(len(asked)))
    return "option" if "or" in asked and named else "span"


def best_span(story: str, first: int, last: int, gold: str) -> tuple[int, int]:
    """(start, end) of the words between `first` and `last` with the best F1 against `gold`.

    Of several it is the first and shortest stretch; (−1, −1) if every F1 is 0.
    """
    found = [m for m in _WORD.finditer(story, first, last)]
    counts = Counter(words(gold))
    ends = [i for i, m in enumerate(found) if m[0].lower() in counts]
    top, at = 0.0, (-1, -1)
    for i in ends:
        common: Counter[str] = Counter()
        length = 0
        for j in range(i, ends[-1] + 1):
            word = found[j][0].lower()
            if word in _ARTICLES:
                continue
            length += 1
            common[word] += 1
            if word in counts:
                f1 = 2 * (common & counts).total() / (length + counts.total())
                if f1 > top:
                    top, at = f1, (found[i].start(), found[j].end())
    return at


def occurrence(story: str, span: tuple[int, int], gold: str) -> tuple[int, int] | None:
    """(start, end) of the answer as whole words within `span`, preferably in its own case."""
    pattern = rf"(?<!\w){re.escape(gold)}(?!\w)"
    own_case = re.compile(pattern).search(story, *span)
    match = own_case or re.compile(pattern, re.IGNORECASE).search(story, *span)
    return match.span() if match else None
