"""What an answer in free words says: rules that make "yes", "no", "unknown" or a span of it.

Chaturvedi et al. score InstructGPT by exact match and F1 (tables 6, 11, § 7) and give no rule for its wording; these
are ours."""
from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from probebook.base import UserError
from probebook.measures.answers import normalise

UNKNOWN_SAID = (                            # what counts as "unknown" under the rule "meaning", anywhere in the answer
    r"\bunknown\b", r"\bunclear\b", r"\bnot (?:sure|known|clear|certain)\b",
    r"\bno (?:information|mention|indication)\b",
    r"(?:\bnot|n't|\bnever) (?:\w+ )?(?:mention|state|specif|sa(?:y|id)|tell|told|give|provide|indicate|answer)\w*",
    r"\b(?:do|does|did)(?: not|n't) know\b", r"\bnot enough (?:information|context)\b",
    r"\b(?:can ?not|can't|could not|couldn't|impossible to|not possible to) (?:be )?"
    r"(?:determin|tell|told|answer|know|say|said|infer)\w*")
RULES = ("as written", "opening", "meaning")
_UNKNOWN = re.compile("|".join(UNKNOWN_SAID), re.IGNORECASE)


def heard(answers: Sequence[str], rule: str = "meaning") -> list[str]:
    """What each answer says. "as written": its words; "opening": a first word yes or no stands for all of them;
    "meaning": "unknown" where a pattern of `UNKNOWN_SAID` matches, else as in "opening". UserError for another rule."""
    if rule not in RULES:
        raise UserError(f"rule {rule!r}: one of {', '.join(RULES)}")
    found = []
    for text in answers:
        opening = normalise(text).split(" ")[0]
        if rule == "meaning" and _UNKNOWN.search(text.replace("’", "'")):
            text = "unknown"
        elif rule != "as written" and opening in ("yes", "no"):
            text = opening
        found.append(text)
    return found


def within(answers: Sequence[str], gold: Sequence[str]) -> np.ndarray:
    """1 where the normalised right answer stands, as whole words, within the normalised answer, else 0; float64 [n]."""
    if len(answers) != len(gold):
        raise UserError(f"{len(answers)} answers, {len(gold)} right ones: as many of each")
    pairs = [(f" {normalise(answer)} ", f" {normalise(right)} ") for answer, right in zip(answers, gold)]
    return np.array([right in answer for answer, right in pairs], float)
