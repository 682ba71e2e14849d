"""Deletions from stories with questions, by the rules of Chaturvedi et al. (§ 5), and their
controls.

They need only the columns of a story table (`stories.generate`, `conversations`). The right answer
to what is left is "unknown", as the paper has it; in the generated world it is computed from the
facts that remain. Rows to which an edit does not apply are left out. Conversations and gold answers
stay as they are.
"""

from __future__ import annotations

import random

import pandas as pd

from probebook.base import UserError
from probebook.corpora.answer_spans import occurrence
from probebook.corpora.stories.facts import UNKNOWN, answer_span, entails, rationale
from probebook.corpora.stories.schemas import all_schemas, articles
from probebook.corpora.words import phrases, word_table

NEEDED = ("story", "answer", "start", "end", "rationale", "sentences", "edit")


def truncate(table: pd.DataFrame) -> pd.DataFrame:
    """TS of an OS table: the story up to the last sentence of the rationale, or all of it without
    one."""
    rows = []
    for row in _rows(table, ["OS"]):
        last = max((end for _, end in row["rationale"]), default=len(row["story"]))
        keep = [i for i, (start, _) in enumerate(row["sentences"]) if start < last]
        rows.append(_shorten(row, keep, "TS"))
    return pd.DataFrame(rows, columns=table.columns)


def delete_rationale(table: pd.DataFrame, put: bool = True) -> pd.DataFrame:
    """OS-R of an OS table, without the sentences of the rationale; TS-R of a TS table, without all
    that follows them either.

    Rows whose text becomes empty are dropped. If the answer was a span and its words no longer
    occur, they are put behind the story, bare: otherwise a model that answers by spans could not
    give them. (The paper's examples print a full stop after them; the released scripts add none.)
    `put` = False: nothing is put there (edit: OS-R0, TS-R0).
    """
    rows = []
    for row, answer in _deletions(table):
        if not put:
            row = row | {"edit": row["edit"] + "0"}
        elif answer:
            row = _append(row, answer)
        rows.append(row)
    return pd.DataFrame(rows, columns=table.columns)


def delete_other(table: pd.DataFrame) -> pd.DataFrame:
    """OS-D of an OS table, the control of OS-R0: as many sentences are deleted, but others.

    For each sentence of the rationale the other one nearest to it in length is deleted, so the
    answer stays. Rows without a rationale, without enough other sentences, or whose answer would
    change, are left out.
    """
    rows = []
    for row in _rows(table, ["OS"]):
        size = [end - start for start, end in row["sentences"]]
        needed = [
            i
            for i, span in enumerate(row["sentences"])
            if tuple(span) in {*map(tuple, row["rationale"])}
        ]
        others = [i for i in range(len(size)) if i not in needed]
        if not needed or len(others) <= len(needed):
            continue
        for i in needed:
            others.remove(min(others, key=lambda j: abs(size[j] - size[i])))
        shorter = _shorten(row, sorted([*others, *needed]), "OS-D")
        if shorter["answer"] == row["answer"]:
            rows.append(shorter)
    return pd.DataFrame(rows, columns=table.columns)


def augment(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """TS-R+Aug of a TS table, OS-R+Aug of an OS table: `delete_rationale` with a sentence for the
    bare answer.

    The sentence contains the answer and states nothing that a question is about: "A song about Mary
    was often sung." (The paper had gpt-3.5-turbo write them.) `seed` draws the sentences.
    """
    rng, rows = random.Random(seed), []
    for row, answer in _deletions(table):
        if answer:
            kind = ""
            if "query" in row:
                kind = all_schemas()[row["query"].schema].roles[row["query"].asks]
            is_noun_phrase = kind in articles()
            mentions = word_table("stories")["mentions"]
            text = rng.choice(phrases(mentions["noun phrase" if is_noun_phrase else "word"]))
            row = _append(row, text.format(articles().get(kind, "") + answer))
        rows.append(row | {"edit": row["edit"] + "+Aug"})
    return pd.DataFrame(rows, columns=table.columns)


def append_answer(table: pd.DataFrame) -> pd.DataFrame:
    """OS+answer of an OS table, TS+answer of a TS table: the whole story, then the bare answer.

    The right answer stays the same. A model that reads the story is not affected; one that takes
    the loose words for the sign of a deletion says "unknown". Rows whose answer is no span are left
    out.
    """
    rows = [
        _append(row, row["story"][row["start"] : row["end"]]) | {"edit": f"{row['edit']}+answer"}
        for row in _rows(table, ["OS", "TS"])
        if row["start"] >= 0
    ]
    return pd.DataFrame(rows, columns=table.columns)


def _rows(table: pd.DataFrame, edits: list[str]) -> list[dict]:
    if missing := [name for name in NEEDED if name not in table]:
        raise UserError(
            f"no column {', '.join(missing)}: a table of stories.generate or of "
            "conversations is needed"
        )
    if other := sorted({*table.edit} - {*edits}):
        raise UserError(
            f"the stories are {', '.join(other)}: this edit is for {' or '.join(edits)}"
        )
    return table.to_dict("records")


def _deletions(table: pd.DataFrame) -> list[tuple[dict, str]]:
    """Rows without their rationale, each with its answer if that was a span and its words are
    gone."""
    found = []
    for row in _rows(table, ["OS", "TS"]):
        needed = {*map(tuple, row["rationale"])}
        keep = [i for i, span in enumerate(row["sentences"]) if tuple(span) not in needed]
        if row["edit"] == "TS":
            first = min(needed, default=(0, 0))
            keep = [i for i in keep if tuple(row["sentences"][i]) < first]
        if needed and keep:
            shorter = _shorten(row, keep, row["edit"] + "-R")
            answer = row["story"][row["start"] : row["end"]] if row["start"] >= 0 else ""
            whole = (0, len(shorter["story"]))
            found.append((shorter, "" if occurrence(shorter["story"], whole, answer) else answer))
    return found


def _shorten(row: dict, keep: list[int], edit: str) -> dict:
    """The row with these sentences of its story, and the right answer to what is left."""
    story, old, new_spans = "", [tuple(row["sentences"][i]) for i in keep], {}
    for n, (i, (start, end)) in enumerate(zip(keep, old)):
        if n:
            follows = i == keep[n - 1] + 1
            story += row["story"][old[n - 1][1] : start] if follows else " "
        new_spans[start, end] = (len(story), len(story) + end - start)
        story += row["story"][start:end]
    row = row | {"story": story, "sentences": [*new_spans.values()], "edit": edit}
    if "facts" in row:
        return solve(row | {"facts": [row["facts"][i] for i in keep]})
    needed = [*map(tuple, row["rationale"])]
    if not new_spans.keys() >= {*needed}:
        return row | {"answer": UNKNOWN, "start": -1, "end": -1, "rationale": []}
    if row["start"] >= 0:
        shift = next(
            new[0] - start for (start, end), new in new_spans.items() if start <= row["start"] < end
        )
        row |= {"start": row["start"] + shift, "end": row["end"] + shift}
    return row | {"rationale": [new_spans[span] for span in needed]}


def solve(row: dict) -> dict:
    """The row of a generated story with the answer that follows from its facts, its span and
    rationale."""
    answer = entails(row["facts"], row["query"])
    start, end = answer_span(row["facts"], row["sentences"], row["query"], answer)
    needed = rationale(row["facts"], row["query"])
    return row | {
        "answer": answer,
        "start": start,
        "end": end,
        "rationale": [row["sentences"][i] for i in needed],
    }


def _append(row: dict, text: str) -> dict:
    """The row with a text behind its story that states nothing."""
    at = len(row["story"]) + 1
    row = row | {
        "story": f"{row['story']} {text}",
        "sentences": [*row["sentences"], (at, at + len(text))],
    }
    return row | {"facts": [*row["facts"], None]} if "facts" in row else row
