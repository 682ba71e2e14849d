"""Rules that turn an answer in free words into "yes", "no", "unknown" or a span.

Chaturvedi et al. score InstructGPT by exact match and F1 (tables 6, 11, § 7), but give no rule for
its wording. These rules are ours."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from probebook.base import UserError, check_choice
from probebook.measures.answers import normalise

UNKNOWN_PATTERNS = (  # patterns that mean "unknown" anywhere in an answer (rule "meaning")
    r"\bunknown\b",
    r"\bunclear\b",
    r"\bnot (?:sure|known|clear|certain)\b",
    r"\bno (?:information|mention|indication)\b",
    r"(?:\bnot|n't|\bnever) (?:\w+ )?"
    r"(?:mention|state|specif|sa(?:y|id)|tell|told|give|provide|indicate|answer)\w*",
    r"\b(?:do|does|did)(?: not|n't) know\b",
    r"\bnot enough (?:information|context)\b",
    r"\b(?:can ?not|can't|could not|couldn't|impossible to|not possible to) (?:be )?"
    r"(?:determin|tell|told|answer|know|say|said|infer)\w*",
)
RULES = ("as written", "opening", "meaning")
_UNKNOWN = re.compile("|".join(UNKNOWN_PATTERNS), re.IGNORECASE)


def interpret(answers: Sequence[str], rule: str = "meaning") -> list[str]:
    """Interpret answers in free words by a rule.

    - "as written": the words themselves
    - "opening": a first word yes or no stands for the whole answer
    - "meaning": like "opening", but "unknown" where a pattern of `UNKNOWN_PATTERNS` matches

    UserError for another rule."""
    check_choice(rule, "rule", RULES)
    meanings = []
    for text in answers:
        opening = normalise(text).split(" ")[0]
        if rule == "meaning" and _UNKNOWN.search(text.replace("’", "'")):
            text = "unknown"
        elif rule != "as written" and opening in ("yes", "no"):
            text = opening
        meanings.append(text)
    return meanings


def contains_gold(answers: Sequence[str], gold: Sequence[str]) -> np.ndarray:
    """1 where the right answer's words stand in the answer, both normalised, else 0; float64
    [n]."""
    if len(answers) != len(gold):
        raise UserError(f"{len(answers)} answers, {len(gold)} right ones: as many of each")
    pairs = [
        (f" {normalise(answer)} ", f" {normalise(right)} ") for answer, right in zip(answers, gold)
    ]
    return np.array([right in answer for answer, right in pairs], float)
