"""Deletion interventions on stories with questions, by the rules of Chaturvedi et al. (§ 5), and their control.

They need only the columns of a story table (`stories.generate`, `conversations`): story, answer, gold, kind, start, end,
rationale, sentences, edit. The right answer to what is left is "unknown", as the paper has it; in the generated world,
where the facts are known, it is computed from those that still stand. Rows that an edit cannot apply to are left out."""
from __future__ import annotations

import pandas as pd

from probebook.base import UserError
from probebook.corpora.story_facts import UNKNOWN, entails, place, rationale

NEEDED = ("story", "answer", "gold", "kind", "start", "end", "rationale", "sentences", "edit")
SPANS = ("span", "number", "option")        # kinds of answer that a model can only give if the story has the word


def truncate(table: pd.DataFrame) -> pd.DataFrame:
    """TS: the story up to the sentence with which the rationale ends (whole where there is no rationale)."""
    rows = []
    for row in _rows(table):
        last = max((end for _, end in row["rationale"]), default=row["sentences"][-1][1])
        rows.append(_kept(row, [i for i, (start, _) in enumerate(row["sentences"]) if start < last], "TS"))
    return pd.DataFrame(rows, columns=table.columns)


def delete_rationale(table: pd.DataFrame) -> pd.DataFrame:
    """TS-R of a TS table, OS-R of an OS table: the sentences of the rationale are deleted.

    Of a TS, only what stands before the rationale is left, and a story that begins with its rationale is left out;
    so is any of which nothing is left. If the answer is a span that the rest does not contain, the bare answer is put
    behind it, without a full stop: a span model could not give it otherwise. (The paper prints one; the released
    scripts add none.)"""
    rows = []
    for row in _rows(table):
        if row["edit"] not in ("OS", "TS"):
            raise UserError(f"edit {row['edit']!r}: the rationale is deleted from an OS or a TS table")
        gone = {span for span in map(tuple, row["rationale"])}
        kept = [i for i, span in enumerate(row["sentences"]) if tuple(span) not in gone]
        if row["edit"] == "TS":
            first = min((start for start, _ in gone), default=0)
            kept = [i for i in kept if row["sentences"][i][1] <= first]
        if gone and kept:
            word = row["story"][row["start"]:row["end"]] if row["start"] >= 0 else ""
            left = _kept(row, kept, row["edit"] + "-R")
            present = not word or word.lower() in left["story"].lower()
            rows.append(left if present else _with(left, word))
    return pd.DataFrame(rows, columns=table.columns)


def append_answer(table: pd.DataFrame) -> pd.DataFrame:
    """OS+answer: the bare answer behind the intact story, exactly as TS-R has it. The right answer stays the same.

    The paper has no such control: a model that reads says what it said, one that takes the loose word as the sign
    of a deletion says "unknown". Rows whose answer is no span of the story are left out."""
    return pd.DataFrame([_with(row, row["story"][row["start"]:row["end"]]) | {"edit": f"{row['edit']}+answer"}
                         for row in _rows(table) if row["start"] >= 0], columns=table.columns)


def _rows(table: pd.DataFrame) -> list[dict]:
    if missing := [name for name in NEEDED if name not in table]:
        raise UserError(f"no column {', '.join(missing)}: a table of stories.generate or of conversations is needed")
    return table.to_dict("records")


def _kept(row: dict, kept: list[int], edit: str) -> dict:
    """The row with these sentences of its story, and what is right for them."""
    old = [tuple(row["sentences"][i]) for i in kept]
    texts, new, at = [row["story"][start:end] for start, end in old], [], 0
    for text in texts:
        new.append((at, at + len(text)))
        at += len(text) + 1
    row = row | {"story": " ".join(texts), "sentences": new, "edit": edit}
    if "facts" in row:
        return _answered(row | {"facts": [row["facts"][i] for i in kept]})
    moved = {span: to for span, to in zip(old, new)}
    lost = [span for span in map(tuple, row["rationale"]) if span not in moved]
    if lost:
        return row | {"answer": UNKNOWN, "start": -1, "end": -1, "rationale": []}
    shift = next((to[0] - span[0] for span, to in moved.items() if span[0] <= row["start"] < span[1]), 0)
    start, end = (row["start"] + shift, row["end"] + shift) if row["start"] >= 0 else (-1, -1)
    return row | {"start": start, "end": end, "rationale": [moved[span] for span in map(tuple, row["rationale"])]}


def _answered(row: dict) -> dict:
    """The row of a generated story with what follows from its facts."""
    answer = entails(row["facts"], row["query"])
    start, end = place(row["facts"], row["sentences"], row["query"], answer)
    return row | {"answer": answer, "start": start, "end": end,
                  "rationale": [row["sentences"][i] for i in rationale(row["facts"], row["query"])]}


def _with(row: dict, text: str) -> dict:
    """The row with a text behind its story that states nothing."""
    at = len(row["story"]) + 1
    row = row | {"story": f"{row['story']} {text}", "sentences": [*row["sentences"], (at, at + len(text))]}
    return row | {"facts": [*row["facts"], None]} if "facts" in row else row
