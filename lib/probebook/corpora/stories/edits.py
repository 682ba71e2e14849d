"""Deletion interventions on stories with questions by the rules of Chaturvedi et al. (§ 5), and a control they lack.

They need only the columns of a story table (`stories.generate`, `conversations`). Right for what is left is "unknown",
as the paper has it; in the generated world it is computed from the facts that still stand. Rows that an edit cannot
apply to are left out; conversations and gold answers stay as they are."""
from __future__ import annotations

import random

import pandas as pd

from probebook.base import UserError
from probebook.corpora.answer_spans import occurrence
from probebook.corpora.stories.facts import UNKNOWN, entails, place, rationale
from probebook.corpora.stories.schemas import NOUNS, SCHEMAS

NEEDED = ("story", "answer", "start", "end", "rationale", "sentences", "edit")
ABOUT = ["There was a good deal of talk about {}.", "Nobody had thought much about {} for years.",
         "A song about {} was often sung.", "The talk then turned to {} and to the weather."]
WRITTEN = ["Somebody had written {} on the wall.", "A child was learning how to spell {}.",
           "On the first page of a book stood the word {}."]


def truncate(table: pd.DataFrame) -> pd.DataFrame:
    """TS of an OS table: the story up to the sentence with which the rationale ends; all of it if there is none."""
    rows = []
    for row in _rows(table, ["OS"]):
        last = max((end for _, end in row["rationale"]), default=len(row["story"]))
        rows.append(_kept(row, [i for i, (start, _) in enumerate(row["sentences"]) if start < last], "TS"))
    return pd.DataFrame(rows, columns=table.columns)


def delete_rationale(table: pd.DataFrame, put: bool = True) -> pd.DataFrame:
    """OS-R of an OS table: the sentences of the rationale are deleted; TS-R of a TS table: and all that follows them.

    Where nothing is left the row is. If the answer was a span and its words no longer occur, they are put behind the
    story, bare: a model that answers by spans could not give them otherwise. (The paper's examples print a full stop
    after them; the released scripts add none.) `put` = False: nothing is put there (edit: OS-R0, TS-R0)."""
    rows = [(_with(left, answer) if answer else left) if put else left | {"edit": left["edit"] + "0"}
            for left, answer in _deleted(table)]
    return pd.DataFrame(rows, columns=table.columns)


def delete_other(table: pd.DataFrame) -> pd.DataFrame:
    """OS-D of an OS table: as many sentences as the rationale has are deleted, but others, for each the one nearest to
    it in length; the answer stays. The control of OS-R0. Rows without a rationale or enough other sentences are left
    out, and those whose answer would be another."""
    rows = []
    for row in _rows(table, ["OS"]):
        size = [end - start for start, end in row["sentences"]]
        gone = [i for i, span in enumerate(row["sentences"]) if tuple(span) in {*map(tuple, row["rationale"])}]
        kept = [i for i in range(len(size)) if i not in gone]
        if not gone or len(kept) <= len(gone):
            continue
        for i in gone:
            kept.remove(min(kept, key=lambda j: abs(size[j] - size[i])))
        left = _kept(row, sorted([*kept, *gone]), "OS-D")
        if left["answer"] == row["answer"]:
            rows.append(left)
    return pd.DataFrame(rows, columns=table.columns)


def augment(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """TS-R+Aug of a TS table, OS-R+Aug of an OS table: as `delete_rationale`, but with a sentence for the bare answer.

    It contains the answer and states nothing that a question is about: "A song about Mary was often sung." (The paper
    had gpt-3.5-turbo write them.) `seed` draws the sentences."""
    rng, rows = random.Random(seed), []
    for left, answer in _deleted(table):
        if answer:
            kind = SCHEMAS[left["query"].schema].roles[left["query"].asks] if "query" in left else ""
            frame = rng.choice(ABOUT if kind in NOUNS else WRITTEN)
            left = _with(left, frame.format(NOUNS.get(kind, "") + answer))
        rows.append(left | {"edit": left["edit"] + "+Aug"})
    return pd.DataFrame(rows, columns=table.columns)


def append_answer(table: pd.DataFrame) -> pd.DataFrame:
    """OS+answer of an OS table (of a TS table: TS+answer): the bare answer behind the whole story, as TS-R has it.

    What is right stays the same, so a model that reads the story is unmoved, and one that takes the loose words for
    the sign of a deletion says "unknown". Rows whose answer is no span are left out."""
    return pd.DataFrame([_with(row, row["story"][row["start"]:row["end"]]) | {"edit": f"{row['edit']}+answer"}
                         for row in _rows(table, ["OS", "TS"]) if row["start"] >= 0], columns=table.columns)


def _rows(table: pd.DataFrame, edits: list[str]) -> list[dict]:
    if missing := [name for name in NEEDED if name not in table]:
        raise UserError(f"no column {', '.join(missing)}: a table of stories.generate or of conversations is needed")
    if other := sorted({*table.edit} - {*edits}):
        raise UserError(f"the stories are {', '.join(other)}: this edit is for {' or '.join(edits)}")
    return table.to_dict("records")


def _deleted(table: pd.DataFrame) -> list[tuple[dict, str]]:
    """(row without its rationale, its answer if that was a span and the rest does not have the same words)."""
    found = []
    for row in _rows(table, ["OS", "TS"]):
        gone = {*map(tuple, row["rationale"])}
        kept = [i for i, span in enumerate(row["sentences"]) if tuple(span) not in gone]
        if row["edit"] == "TS":
            kept = [i for i in kept if tuple(row["sentences"][i]) < min(gone, default=(0, 0))]
        if gone and kept:
            left = _kept(row, kept, row["edit"] + "-R")
            answer = row["story"][row["start"]:row["end"]] if row["start"] >= 0 else ""
            found.append((left, "" if occurrence(left["story"], (0, len(left["story"])), answer) else answer))
    return found


def _kept(row: dict, kept: list[int], edit: str) -> dict:
    """The row with these sentences of its story, and what is right for them."""
    story, old, moved = "", [tuple(row["sentences"][i]) for i in kept], {}
    for n, (i, (start, end)) in enumerate(zip(kept, old)):
        if n:
            story += row["story"][old[n - 1][1]:start] if i == kept[n - 1] + 1 else " "
        moved[start, end] = (len(story), len(story) + end - start)
        story += row["story"][start:end]
    row = row | {"story": story, "sentences": [*moved.values()], "edit": edit}
    if "facts" in row:
        return answered(row | {"facts": [row["facts"][i] for i in kept]})
    of = [*map(tuple, row["rationale"])]
    if not moved.keys() >= {*of}:
        return row | {"answer": UNKNOWN, "start": -1, "end": -1, "rationale": []}
    if row["start"] >= 0:
        by = next(new[0] - start for (start, end), new in moved.items() if start <= row["start"] < end)
        row |= {"start": row["start"] + by, "end": row["end"] + by}
    return row | {"rationale": [moved[span] for span in of]}


def answered(row: dict) -> dict:
    """The row of a generated story with the answer that follows from its facts, where it stands, and why."""
    answer = entails(row["facts"], row["query"])
    start, end = place(row["facts"], row["sentences"], row["query"], answer)
    return row | {"answer": answer, "start": start, "end": end,
                  "rationale": [row["sentences"][i] for i in rationale(row["facts"], row["query"])]}


def _with(row: dict, text: str) -> dict:
    """The row with a text behind its story that states nothing."""
    at = len(row["story"]) + 1
    row = row | {"story": f"{row['story']} {text}", "sentences": [*row["sentences"], (at, at + len(text))]}
    return row | {"facts": [*row["facts"], None]} if "facts" in row else row
