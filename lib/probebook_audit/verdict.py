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
    NOT_ENOUGH_DATA = "not enough data"
    NOT_READABLE = "not readable"
    NO_USABLE_JUDGE = "no usable judge"
    NO_BETTER_THAN_CHANCE = "no better than chance"
    COSTS_TOO_MUCH = "costs too much"
    NOT_USED = "not used"
    COST_UNKNOWN = "cost unknown"
    RELIABLE_IN_THE_STATE = "reliable in the state"
    RELIABLE = "reliable"


DOUBTS: dict[Verdict, dict[str, set[str]]] = {  # question: answers that bring this verdict
    Verdict.SHORTCUT: {"shortcut": {"named"}},
    Verdict.NOT_ENOUGH_DATA: {"data": {"too few"}},
    Verdict.NOT_READABLE: {"readable": {"by heart", "not shown"}},
    Verdict.NO_USABLE_JUDGE: {"judges": {"none"}},
    Verdict.NO_BETTER_THAN_CHANCE: {"edits": {"none", "not judged"}},
    Verdict.COSTS_TOO_MUCH: {"cost": {"lost"}},
    Verdict.NOT_USED: {"behaviour": {"does not follow", "unused"}},
    Verdict.COST_UNKNOWN: {
        "cost": {"not asked", "not judged"},
        "judges": {"concept only", "usable in part"},
    },
    Verdict.RELIABLE_IN_THE_STATE: {"behaviour": {"moves", "not asked"}},
}


def decide(answers: Mapping[str, str]) -> Verdict:
    """The verdict on an edit: the first reason not to call it reliable, if there is one.

    `answers`: question → word of the answer; a question that is missing raises no doubt."""
    for verdict in Verdict:
        doubts = DOUBTS.get(verdict, {})
        if any(answers.get(question) in words for question, words in doubts.items()):
            return verdict
    return Verdict.RELIABLE


def sentence(row: Mapping, concept: str = "the concept", items: int = 0) -> str:
    """A row of the table `answers` as one sentence.

    The question "verdict" says the verdict, "change" what would change it, "paper" what a paper
    could say of `concept` and the number of `items`."""
    if row["question"] in ("verdict", "change", "paper"):
        return _say_verdict(row, concept, items)
    shares = {name: percent(row[name]) for name in ("value", "low", "control_value") if name in row}
    if "rewriting value" in row:
        shares["rewriting"] = percent(row["rewriting value"])
    exact = {"value_exact": f"{100 * row['value']:.1f} %"} if "value" in row else {}
    answer = WORDS["questions"][row["question"]]["answers"][row["word"]]
    return answer["sentence"].format(**{**row, **shares, **exact})


def _say_verdict(row: Mapping, concept: str, items: int) -> str:
    verdict = WORDS["verdicts"][row["word"]]
    if row["question"] == "verdict":
        return verdict["sentence"].format(best=row["what"])
    if row["question"] == "change":
        return verdict["advice"]
    low = row.get("low")
    reliability = (
        "not measured"
        if low is None or low != low
        else f"{row['value']:.2f}, {low:.2f} to {row['high']:.2f}"
    )
    paper = verdict["paper"].format(
        items=items, concept=concept, best=row["what"], what=row["what"], reliability=reliability
    )
    nearer = WORDS["nearer"].get(row["control"]) if "{best}" in verdict["paper"] else None
    return f"{paper} {nearer}" if nearer else paper


def tone(question: str, word: str) -> str:
    """How an answer is coloured in a report: good, bad or open."""
    answers = WORDS["questions"][question].get("answers", WORDS["verdicts"])
    return answers[word]["tone"]


def percent(share: float) -> str:
    """A share as a whole percentage: "83 %", "−20 %", "0 %"."""
    return f"{round(100 * share) + 0:d} %".replace("-", "−") if share == share else "–"
