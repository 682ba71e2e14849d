"""The ladder of verdicts: which answers raise a doubt, and the words in which all of it is said.

What readers see (questions, sentences, advice, tones) is in `verdicts.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from probebook.base import read_yaml

WORDS = read_yaml(Path(__file__).with_name("verdicts.yaml"))
QUESTIONS: dict[str, str] = {name: entry["asked"] for name, entry in WORDS["questions"].items()}


class Verdict(StrEnum):
    """How an audit ends. The first verdict whose `DOUBTS` apply is given."""

    SHORTCUT = "shortcut"
    CANNOT_BE_TOLD = "cannot be told from a shortcut"
    NOT_LINEARLY = "readable, but not linearly"
    NOT_ENOUGH_DATA = "not enough data"
    NOT_READABLE = "not readable"
    NO_USABLE_JUDGE = "no usable judge"
    NO_BETTER_THAN_CHANCE = "no better than chance"
    CHANGES_TOO_LITTLE = "changes too little"
    COSTS_TOO_MUCH = "costs too much"
    NOT_USED = "not used"
    FORCES_THE_CHOICE = "forces the choice"
    COST_UNKNOWN = "cost unknown"
    PASSES_IN_THE_STATE = "passes in the state"
    PASSES = "passes"


DOUBTS: dict[Verdict, dict[str, set[str]]] = {  # question: answers that bring this verdict
    Verdict.SHORTCUT: {"shortcut": {"named"}},
    Verdict.CANNOT_BE_TOLD: {"shortcut": {"cannot be told"}},
    Verdict.NOT_LINEARLY: {"readable": {"not linearly"}},
    Verdict.NOT_ENOUGH_DATA: {"data": {"too few"}},
    Verdict.NOT_READABLE: {"readable": {"by heart", "not shown"}},
    Verdict.NO_USABLE_JUDGE: {"judges": {"none", "too few", "not examined"}},
    Verdict.NO_BETTER_THAN_CHANCE: {"edits": {"none", "not judged"}},
    Verdict.CHANGES_TOO_LITTLE: {"cost": {"too little"}},
    Verdict.COSTS_TOO_MUCH: {"cost": {"lost"}},
    Verdict.NOT_USED: {"behaviour": {"does not follow", "unused"}},
    Verdict.FORCES_THE_CHOICE: {"pairs": {"farther"}},
    Verdict.COST_UNKNOWN: {
        "cost": {"not asked", "not judged"},
        "judges": {"none named", "concept only", "usable in part"},
    },
    Verdict.PASSES_IN_THE_STATE: {"behaviour": {"moves", "not asked"}},
}


def decide(answers: Mapping[str, str]) -> Verdict:
    """The verdict on an edit: the first reason against it, if there is one.

    `answers`: question → word of the answer; a question that is missing raises no doubt."""
    for verdict in Verdict:
        doubts = DOUBTS.get(verdict, {})
        if any(answers.get(question) in words for question, words in doubts.items()):
            return verdict
    return Verdict.PASSES


def sentence(row: Mapping, concept: str = "the concept", items: int = 0) -> str:
    """A row of the table `answers` as one sentence.

    The question "verdict" says the verdict, "change" what would change it, "paper" what a paper
    could say of `concept` and the number of `items`."""
    if row["question"] in ("verdict", "change", "paper"):
        return _say_verdict(row, concept, items)
    shares = {
        name.replace(" ", "_"): percent(row[name])
        for name in ("value", "low", "control_value", "rewriting value", "complete", "kept")
        if name in row
    }
    exact = {"value_exact": f"{100 * row['value']:.1f} %"} if "value" in row else {}
    answer = WORDS["questions"][row["question"]]["answers"][row["word"]]
    return answer["sentence"].format(**{**row, **shares, **exact})


def _say_verdict(row: Mapping, concept: str, items: int) -> str:
    verdict = WORDS["verdicts"][row["word"]]
    if row["question"] == "verdict":
        return verdict["sentence"].format(best=row["what"])
    if row["question"] == "change":
        return verdict["advice"].format(best=row["what"])
    low, near = row.get("low"), row.get("closeness value")
    reliability = (
        "not measured"
        if low is None or low != low
        else f"{row['value']:.2f}, {low:.2f} to {row['high']:.2f}"
    )
    paper = verdict["paper"].format(
        items=items, concept=concept, best=row["what"], what=row["what"], reliability=reliability
    )
    if "{best}" not in verdict["paper"] or near is None or near != near:
        return paper
    low, high = (row[f"closeness {end}"] for end in ("low", "high"))
    if row["control"] == "farther":
        near, low, high = -near, -high, -low
    ends = {"share": percent(near), "low": percent(low).removesuffix(" %"), "high": percent(high)}
    return f"{paper} {WORDS['nearer'][row['control']].format(**ends)}"


def tone(question: str, word: str) -> str:
    """How an answer is coloured in a report: good, bad or open."""
    answers = WORDS["questions"][question].get("answers", WORDS["verdicts"])
    return answers[word]["tone"]


def percent(share: float) -> str:
    """A share as a whole percentage: "83 %", "−20 %", "0 %"."""
    return f"{round(100 * share) + 0:d} %".replace("-", "−") if share == share else "–"
