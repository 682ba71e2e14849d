"""CoQA and HotpotQA as tables of questions, with the columns of `stories.generate` but for its facts.

A row: story_id, turn, story, question, history (earlier (question, answer) pairs), answer (a span's text, "yes", "no"
or "unknown"), gold (the annotated answer), references (that and those of other annotators), kind ("span", "yes/no",
"number", "option", "unknown"), start, end (of the answer in the story, in characters; −1: it is none of its words),
rationale and sentences (spans), edit ("OS")."""
from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import sentencex

from probebook.base import UserError
from probebook.corpora.fetch import fetch

COQA = {"train": "coqa-train-v1.0.json", "dev": "coqa-dev-v1.0.json"}
HOTPOTQA = {"train": "hotpot_train_v1.1.json", "dev": "hotpot_dev_distractor_v1.json",
            "train_100": "hipporag_train_100.json", "dev_100": "meve_dev_distractor_first100.json"}
NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand""".split()
_WORD = re.compile(r"\w+(?:[.,'’]\w+)*")


def coqa(source: str | Path = "dev", n: int | None = None) -> pd.DataFrame:
    """CoQA's "train" or "dev" (version 1.0), or a file in its format; `n`: the first n stories.

    Sentences are those of sentencex; the rationale is every sentence that the annotated span touches. If the answer is
    free text, `answer` is the stretch of the annotated span that has most words in common with it (F1 of
    `common_words`; the shortest, then the first of the best), and the text itself, with start −1, if none has any.
    `gold` is the answer as written. UserError if the file is missing or not CoQA's, or a story is empty."""
    return _table(_read(source, COQA, "CoQA")["data"], _coqa_rows, n, source, "CoQA")


def hotpotqa(source: str | Path = "dev_100", n: int | None = None) -> pd.DataFrame:
    """HotpotQA's "train" or "dev" (with distractors), the subsets "train_100" and "dev_100", or a file in its format.

    The story is the two gold paragraphs, in the order of the file and with its sentences; the rationale is the
    supporting ones; there is no history. A span is the answer's first occurrence in the rationale, else in the story.
    `n`: the first n questions. UserError if the file is missing or not HotpotQA's, or a story is empty."""
    return _table(_read(source, HOTPOTQA, "HotpotQA"), _hotpotqa_rows, n, source, "HotpotQA")


def _read(source: str | Path, names: dict[str, str], what: str):
    path = fetch(names[source]) if source in names else Path(source)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{source}: no such file: one of {', '.join(names)}, or a path to a file of {what}") from None
    except ValueError as e:
        raise UserError(f"{path}: not JSON ({e})") from None


def _table(items: list, rows, n: int | None, source, what: str) -> pd.DataFrame:
    if n is not None and n < 1:
        raise UserError(f"n = {n}: at least 1, or None for all")
    try:
        return pd.DataFrame([row for i, item in enumerate(items[:n]) for row in rows(item, i)])
    except (KeyError, TypeError, IndexError, AttributeError) as e:
        raise UserError(f"{source}: not {what}'s format ({type(e).__name__}: {e})") from None


def _coqa_rows(item: dict, number: int) -> list[dict]:
    story, history, rows = item["story"], [], []
    spans = sentences(story)
    if not spans:
        raise UserError(f"story {number} ({item['id']}) is empty: each needs a text")
    for turn, (asked, given) in enumerate(zip(item["questions"], item["answers"], strict=True)):
        question, gold = asked["input_text"].strip(), given["input_text"].strip()
        first, last = given["span_start"], given["span_end"]
        if first >= 0 and not first < last <= len(story):
            raise UserError(f"story {number} ({item['id']}), turn {turn + 1}: span {first} to {last} is not within "
                            f"its {len(story)} characters")
        kind = _kind(question, gold)
        free = kind in ("span", "number", "option")
        start, end = _best(story, first, last, gold) if free and first >= 0 else (-1, -1)
        answer = story[start:end] if start >= 0 else gold if free else words(gold)[0]
        rationale = [(a, b) for a, b in spans if a < last and first < b] if first >= 0 else []
        references = [gold, *(answers[turn]["input_text"] for answers in item.get("additional_answers", {}).values())]
        rows.append(_row(item["id"], turn, story, question, list(history), answer, gold, references, kind, start, end,
                         rationale, spans))
        history.append((question, gold))
    return rows


def _hotpotqa_rows(item: dict, number: int) -> list[dict]:
    context, facts = item["context"], item["supporting_facts"]
    if isinstance(context, dict):                           # as on the Hugging Face hub
        context = list(zip(context["title"], context["sentences"]))
        facts = list(zip(facts["title"], facts["sent_id"]))
    story, spans, rationale, supporting = "", [], [], {(title, i) for title, i in facts}
    for title, texts in context:
        for i, text in enumerate(texts if title in {title for title, _ in supporting} else []):
            if text.strip():
                story += " " * bool(story)
                spans.append((len(story), len(story) + len(text.strip())))
                rationale += spans[-1:] if (title, i) in supporting else []
                story += text.strip()
    if not spans:
        raise UserError(f"question {number}: its gold paragraphs are empty: a story is needed")
    question, gold = item["question"].strip(), item["answer"].strip()
    kind, start, end = _kind(question, gold), -1, -1
    if kind != "yes/no":
        start, end = next((at for span in [*rationale, (0, len(story))] if (at := _find(story, span, gold))), (-1, -1))
    answer = story[start:end] if start >= 0 else gold.lower() if kind == "yes/no" else gold
    return [_row(item.get("_id", number), 0, story, question, [], answer, gold, [gold], kind, start, end,
                 rationale, spans)]


def _row(story_id, turn, story, question, history, answer, gold, references, kind, start, end, rationale, spans):
    return {"story_id": story_id, "turn": turn, "story": story, "question": question, "history": history,
            "answer": answer, "gold": gold, "references": references, "kind": kind, "start": start, "end": end,
            "rationale": rationale, "sentences": spans, "edit": "OS"}


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
    """Words in lower case without articles: what exact match and F1 compare."""
    return [word for word in _WORD.findall(text.lower()) if word not in ("a", "an", "the")] or [""]


def _kind(question: str, gold: str) -> str:
    """By the answer's form, and whether the question names it as one of two."""
    said = words(gold)
    if said in (["yes"], ["no"], ["unknown"]):
        return "unknown" if said == ["unknown"] else "yes/no"
    if len(said) == 1 and (said[0] in NUMBERS or re.fullmatch(r"\d[\d.,]*", said[0])):
        return "number"
    asked = words(question)
    return "option" if "or" in asked and any(asked[i:i + len(said)] == said for i in range(len(asked))) else "span"


def _best(story: str, first: int, last: int, gold: str) -> tuple[int, int]:
    """(start, end) of the stretch of words from `first` to `last` with the best F1 against `gold`; (−1, −1): all 0."""
    found = [m for m in _WORD.finditer(story, first, last)]
    counts = Counter(words(gold))
    ends = [i for i, m in enumerate(found) if m[0].lower() in counts]
    best, at = 0., (-1, -1)
    for i in ends:
        common, length = Counter(), 0
        for j in range(i, ends[-1] + 1):
            word = found[j][0].lower()
            if word in ("a", "an", "the"):
                continue
            length += 1
            common[word] += 1
            if word in counts:
                f1 = 2 * (common & counts).total() / (length + counts.total())
                if f1 > best:
                    best, at = f1, (found[i].start(), found[j].end())
    return at


def _find(story: str, span: tuple[int, int], gold: str) -> tuple[int, int] | None:
    """Where the answer stands as whole words, first in its own case."""
    pattern = rf"(?<!\w){re.escape(gold)}(?!\w)"
    match = re.compile(pattern).search(story, *span) or re.compile(pattern, re.IGNORECASE).search(story, *span)
    return match.span() if match else None
