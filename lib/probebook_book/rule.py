"""The rule that gives a claim its verdict, as the page *How a verdict is reached* prints it.

Effects have outcomes, and the outcomes of a line of evidence make its word:

    outcome((0.35, 0.20, 0.43), "> 0", p_value(0.35, 0.20, 0.43, 0))    # "confirms"
    verdict("generated text", ["contradicts"])            # "not reproduced in generated text"
"""

from __future__ import annotations

from collections.abc import Collection
from operator import eq, gt, lt
from typing import Literal

from scipy import stats

Kind = Literal["printed or released numbers", "real text", "generated text"]
Outcome = Literal["confirms", "contradicts", "undecided"]
SCOPES: dict[Kind, str] = {  # nearest to the paper first
    "printed or released numbers": "on the paper's own numbers",
    "real text": "on real text",
    "generated text": "in generated text",
}
# what the outcomes of a line's effects are, its word, and its word where text is generated
WORDS: list[tuple[set[Outcome], str, str]] = [
    ({"confirms"}, "confirmed", "shown"),
    ({"confirms", "undecided"}, "partly confirmed", "partly shown"),
    ({"confirms", "contradicts"}, "mixed", "mixed"),
    ({"confirms", "contradicts", "undecided"}, "mixed", "mixed"),
    ({"undecided"}, "undecided", "undecided"),
    ({"contradicts", "undecided"}, "partly contradicted", "not reproduced"),
    ({"contradicts"}, "contradicted", "not reproduced"),
]
SIDES = {">": gt, "<": lt, "=": eq}
LEVEL = 0.05


def p_value(value: float, low: float, high: float, threshold: float) -> float | None:
    """Two-sided p of "the true value is the threshold", by the normal law of a 95 % interval; None
    for an exact number (low = high), which no luck has moved."""
    if low == high:
        return None
    half = value - low if value > threshold else high - value
    return float(2 * stats.norm.sf(1.96 * abs(value - threshold) / half)) if half > 0 else 1.0


def outcome(ends: tuple[float, float, float], side: str, p: float | None) -> Outcome:
    """What an effect (value, low, high) says of a claim that puts it on a side of a threshold.

    With p above .05 or not a number, or with the threshold inside the interval, it is on neither.
    An interval never shows "= 0"."""
    value, low, high = ends
    sign, threshold = side[0], float(side[1:])
    if p is not None and not (p <= LEVEL and (threshold < low or high < threshold)):
        return "undecided"
    return "confirms" if SIDES[sign](value, threshold) else "contradicts"


def outcome_of_count(hits: float, total: float, fails: float | None = None) -> list[Outcome]:
    """What counts say of a claim about all: those that hold confirm it, those that fail (else the
    rest) contradict it, and any others leave it undecided."""
    fails = total - hits if fails is None else fails
    counts: dict[Outcome, float] = {"confirms": hits, "contradicts": fails}
    return [name for name, n in (counts | {"undecided": total - hits - fails}).items() if n > 0]


def verdict(kind: Kind, outcomes: Collection[Outcome]) -> str:
    """The word of a line of evidence, with its scope, from the outcomes of all its effects."""
    [(word, generated)] = [(word, other) for these, word, other in WORDS if these == {*outcomes}]
    return f"{generated if kind == 'generated text' else word} {SCOPES[kind]}"
