"""CoQA and HotpotQA as tables of questions, one row each.

The columns are those of `stories.generate` but for its facts:

- `story_id`, `turn`, `story`, `question`
- `history`: earlier (question, answer) pairs
- `answer`: the text of a span, "yes", "no" or "unknown"
- `gold`: the annotated answer; `references`: a list of it and of others' (CoQA's "dev": three)
- `kind`: "span", "yes/no", "number", "option" or "unknown"
- `start`, `end`: of the answer in the story, in characters; −1 if it is none of its words
- `rationale`, `sentences`: spans
- `edit`: "OS", the original story
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from probebook.base import UserError
from probebook.corpora.answer_spans import best_span, kind_of, occurrence, sentences, words
from probebook.corpora.fetch import fetch

COQA = {"train": "coqa-train-v1.0.json", "dev": "coqa-dev-v1.0.json"}
HOTPOTQA = {
    "train": "hotpot_train_v1.1.json",
    "dev": "hotpot_dev_distractor_v1.json",
    "train_100": "hipporag_train_100.json",
    "dev_100": "meve_dev_distractor_first100.json",
}


def coqa(source: str | Path = "dev", n: int | None = None) -> pd.DataFrame:
    """CoQA's "train" or "dev" (version 1.0), or a file in its format; `n`: the first n stories.

    Sentences are those of sentencex; the rationale is every sentence that the annotated span
    touches. If the gold answer is free text, `answer` is the stretch of the annotated span that
    shares most words with it (F1 of `words`; the first and shortest of the best); if none shares
    any, `answer` is the free text, with start −1. An empty span counts as none. UserError if the
    file is missing or not CoQA's, a story is empty, or a span lies outside of it.
    """
    return _table(_read(source, COQA, "CoQA"), _coqa_rows, n, source, "CoQA")


def hotpotqa(source: str | Path = "dev_100", n: int | None = None) -> pd.DataFrame:
    """HotpotQA's questions with their gold paragraphs; `n`: the first n questions.

    `source`: "train" or "dev" (with distractors), the subsets "train_100" and "dev_100", or a file
    in its format. The story is the two gold paragraphs, in the order of the file and with its
    sentences; the rationale is the supporting ones; there is no history. A span is the answer's
    first occurrence in the rationale, else in the story. UserError if the file is missing or not
    HotpotQA's, or a story is empty.
    """
    return _table(_read(source, HOTPOTQA, "HotpotQA"), _hotpotqa_rows, n, source, "HotpotQA")


def _read(source: str | Path, names: dict[str, str], what: str) -> Any:
    path = fetch(names[source]) if source in names else Path(source)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(
            f"{source}: no such file: one of {', '.join(names)}, or a path to a file of {what}"
        ) from None
    except ValueError as e:
        raise UserError(f"{path}: not JSON ({e})") from None


def _table(
    content: Any,
    rows: Callable[[dict, int], list[dict]],
    n: int | None,
    source: str | Path,
    what: str,
) -> pd.DataFrame:
    if n is not None and n < 1:
        raise UserError(f"n = {n}: at least 1, or None for all")
    try:
        items = content["data"] if what == "CoQA" else content
        return pd.DataFrame([row for i, item in enumerate(items[:n]) for row in rows(item, i)])
    except (KeyError, TypeError, IndexError, AttributeError) as e:
        raise UserError(f"{source}: not {what}'s format ({type(e).__name__}: {e})") from None


def _coqa_rows(item: dict, number: int) -> list[dict]:
    story, rows = item["story"], []
    history: list[tuple[str, str]] = []
    spans, name = sentences(story), f"story {number} ({item['id']})"
    if not spans:
        raise UserError(f"{name} is empty: each needs a text")
    if len(item["questions"]) != len(item["answers"]):
        raise UserError(
            f"{name}: {len(item['questions'])} questions, {len(item['answers'])} "
            "answers: each question needs one"
        )
    for turn, (asked, given) in enumerate(zip(item["questions"], item["answers"])):
        question, gold = asked["input_text"].strip(), given["input_text"].strip()
        first, last = given["span_start"], min(given["span_end"], len(story))
        if first >= len(story):
            raise UserError(
                f"{name}, turn {turn + 1}: a span from {first} in a story of "
                f"{len(story)} characters: it must lie in it"
            )
        first = first if last > first else -1
        kind = kind_of(question, gold)
        free = kind in ("span", "number", "option")
        start, end = best_span(story, first, last, gold) if free and first >= 0 else (-1, -1)
        answer = story[start:end] if start >= 0 else gold if free else words(gold)[0]
        touched = [(a, b) for a, b in spans if a < last and first < b] if first >= 0 else []
        others = item.get("additional_answers", {}).values()
        references = [gold, *(answers[turn]["input_text"] for answers in others)]
        rows.append(
            {
                "story_id": item["id"],
                "turn": turn,
                "story": story,
                "question": question,
                "history": list(history),
                "answer": answer,
                "gold": gold,
                "references": references,
                "kind": kind,
                "start": start,
                "end": end,
                "rationale": touched,
                "sentences": spans,
                "edit": "OS",
            }
        )
        history.append((question, gold))
    return rows


def _hotpotqa_rows(item: dict, number: int) -> list[dict]:
    context, facts = item["context"], item["supporting_facts"]
    if isinstance(context, dict):  # as on the Hugging Face hub
        context = list(zip(context["title"], context["sentences"]))
        facts = list(zip(facts["title"], facts["sent_id"]))
    story, spans, rationale = _gold_paragraphs(context, {(title, i) for title, i in facts})
    if not spans:
        raise UserError(f"question {number}: its gold paragraphs are empty: a story is needed")
    question, gold = item["question"].strip(), item["answer"].strip()
    kind, start, end = kind_of(question, gold), -1, -1
    if kind != "yes/no":
        places = (occurrence(story, span, gold) for span in [*rationale, (0, len(story))])
        start, end = next(filter(None, places), (-1, -1))
    answer = story[start:end] if start >= 0 else gold.lower() if kind == "yes/no" else gold
    return [
        {
            "story_id": item.get("_id", number),
            "turn": 0,
            "story": story,
            "question": question,
            "history": [],
            "answer": answer,
            "gold": gold,
            "references": [gold],
            "kind": kind,
            "start": start,
            "end": end,
            "rationale": rationale,
            "sentences": spans,
            "edit": "OS",
        }
    ]


def _gold_paragraphs(
    context: list[tuple[str, list[str]]],
    supporting: set[tuple[str, int]],
) -> tuple[str, list[tuple[int, int]], list[tuple[int, int]]]:
    """The story, its sentences and the supporting ones."""
    titles = {title for title, _ in supporting}
    story, spans, rationale = "", [], []
    for title, texts in context:
        for i, text in enumerate(texts if title in titles else []):
            if text.strip():
                story += " " * bool(story)
                spans.append((len(story), len(story) + len(text.strip())))
                rationale += spans[-1:] if (title, i) in supporting else []
                story += text.strip()
    return story, spans, rationale
