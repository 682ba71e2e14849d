"""Chapter 5's experiments: readers by regime of training, and their answers to edited stories.

Chaturvedi et al., § 5 and § 6."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from probebook.base import UserError, check_readable, to_numpy
from probebook.corpora import stories
from probebook.corpora.answer_spans import occurrence
from probebook.corpora.conversations import coqa, hotpotqa
from probebook.corpora.stories import schemas
from probebook.corpora.stories.facts import UNKNOWN
from probebook.corpora.stories.versions import REGIMES
from probebook.measures.answers import exact_match, f1
from probebook.measures.intervals import rate
from probebook.models.loading import load
from probebook.models.readers import FittedReader, Network, Reader, load_reader
from probebook.models.readers.windows import WORD_ANSWERS
from probebook_training.recipes import (
    READERS,
    UNANSWERABLE,
    regime_training,
    training_stories,
)

SHIPPED = "pocket-stories"  # encoder and readers of the book, trained on seeds 0 and 1
MODELS = {  # as the paper's tables call them
    "bert-base-uncased": "BERT-base",
    "bert-large-uncased": "BERT-large",
    "roberta-base": "RoBERTa-base",
    "roberta-large": "RoBERTa-large",
    "xlnet-base-cased": "XLNet-base",
    "xlnet-large-cased": "XLNet-large",
}
IN_WORDS: Mapping[str, str] = MappingProxyType(
    {  # what readers were trained on, or rules
        "untrained": "untrained",
        "base": "short stories",
        "ot": "whole stories",
        "OT": "whole stories",
        "ot-matched": "whole stories, more updates",
        "ot-answered": "all answerable",
        "ot-unknown": "many unanswerable",
        "ibt": "intervention",
        "IBT": "intervention",
        "ibt-negated": "intervention, negated",
        "ot, last character": "last-character rule",
        "drawn": "rule: any word",
        "overlap": "rule: shared words",
    }
)


def questions(source: str, n: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Load questions about `n` stories of a source.

    `source`: "stories" (generated), "coqa:PART" or "hotpotqa:PART", with a part that
    `corpora.conversations` names or a path."""
    name, _, part = source.partition(":")
    if name == "stories" and n:
        return stories.generate(n, seed)
    if name not in ("coqa", "hotpotqa") or not part:
        raise UserError(
            f"source {source!r}, n = {n}: stories (and how many), coqa:PART or hotpotqa:PART"
        )
    return {"coqa": coqa, "hotpotqa": hotpotqa}[name](part, n)


def two_wordings(table: pd.DataFrame) -> pd.DataFrame:
    """List the yes/no questions of generated stories that have two wordings, once in each.

    Columns as before, without the conversation so far (history); way, 0 or 1, and "in text":
    whether the word that the question puts forward stands in the story."""
    rows = []
    for row in table.to_dict("records"):
        query = row["query"]
        if len(query.values) != 1 or any(
            not isinstance(word, str) for word in query.bound.values()
        ):
            continue
        words = query.bound | {"x": query.values[0]}
        ways = [
            text.format(**words)
            for text in schemas.all_schemas()[query.schema].yes_no[query.asks]
            if {*re.findall(r"\{(\w+)\}", text)} == {*words}
        ]
        stands = bool(re.search(rf"\b{query.values[0]}\b", row["story"]))
        if len(ways) == 2:
            rows += [
                row | {"question": text, "history": [], "way": i, "in text": stands}
                for i, text in enumerate(ways)
            ]
    return pd.DataFrame(rows)


def answers(
    readers: Mapping[str, FittedReader], tables: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Let readers answer the questions of each version; a row for each reader and question.

    Columns reader, version, story_id, turn, kind, gold, answer (the right one for this version),
    said, and the scores right (against answer), em, f1 (against gold, as in the paper; of several
    references each is left out in turn, as in CoQA's script), old (1 if it is one of these) and
    unknown."""
    parts = []
    for name, reader in readers.items():
        for version, table in tables.items():
            given = reader(table).said.to_numpy()
            gold = table.get("references", table.gold)
            columns = table[["story_id", "turn", "kind", "gold", "answer"]]
            parts.append(
                columns.assign(
                    reader=name,
                    version=version,
                    said=given,
                    right=exact_match(given, table.answer),
                    em=exact_match(given, gold, leave_one_out=True),
                    f1=f1(given, gold, leave_one_out=True),
                    old=exact_match(given, gold),
                    unknown=exact_match(given, ["unknown"] * len(given)),
                )
            )
    return pd.concat(parts, ignore_index=True)


def scores(answered: pd.DataFrame, by: Sequence[str] = ("reader", "version")) -> pd.DataFrame:
    """Score answers by EM, F1, unk% (percent, table 4) and the share of right ones, by group.

    The share is of 1; its interval is over stories."""
    rows = []
    for key, part in answered.groupby(list(by), sort=False):
        right = rate(part.right, part.story_id)
        rows.append(
            {
                **dict(zip(by, key)),
                "n": len(part),
                "EM": 100 * part.em.mean(),
                "F1": 100 * part.f1.mean(),
                "unk%": 100 * part.unknown.mean(),
                "right": right.share,
                "right_low": right.low,
                "right_high": right.high,
            }
        )
    return pd.DataFrame(rows)


def train_reader(
    regime: str, recipe: Reader, table: pd.DataFrame, deleted: str = "TS-R"
) -> FittedReader:
    """Train a reader by a regime on a table of whole stories (`recipes.regime_training`)."""
    recipe, rows = regime_training(recipe, regime, table, deleted)
    return recipe.fit(rows)


def recipe(encoder: str, seed: int = 0) -> Reader:
    """Choose how a run trains readers on an encoder.

    Pocket models are trained like the shipped readers, others as in the paper (§ 4.3; an update
    sees four windows of 512 tokens)."""
    if encoder == SHIPPED:
        return replace(READERS[SHIPPED], seed=seed)
    if encoder.startswith("pocket-"):
        return replace(READERS[SHIPPED], encoder=encoder, lr=1e-3, seed=seed)
    config: Any = load(encoder).net.config
    kind = config.model_type
    return Reader(
        encoder=encoder,
        heads="typed" if kind == "xlnet" else "tagging",
        optimizer="adamw",
        lr=1e-5 if kind == "roberta" else 3e-5,
        embeddings=True,
        tokens=2_048,
        stride=128,
        seed=seed,
    )


def training_source(source: str) -> str:
    """Name the source of stories on which the readers of a source are trained.

    It is the part or the file whose name has train in place of dev. UserError for a name that has
    neither."""
    name, _, part = source.partition(":")
    path = Path(part)
    if name == "stories":
        return source
    if "train" not in path.name and "dev" not in path.name:
        raise UserError(
            f"source {source!r}: to train on other stories than those in the "
            "questions, call the file …dev… and put one called …train… beside it"
        )
    return f"{name}:{path.with_name(path.name.replace('dev', 'train'))}"


def readers(
    names: Sequence[str],
    encoder: str = SHIPPED,
    source: str = "stories",
    train: int = 3_000,
    seed: int = 0,
) -> dict[str, FittedReader]:
    """Load or train readers by name: a regime, or "untrained", whose heads have learned nothing.

    - `encoder`: "pocket-stories" loads the shipped readers, among them "base", from which the
      regimes start. Readers on any other encoder are trained here
    - `train`: how many stories they are trained on
    - `source`: "stories" generates these, with as many unanswerable questions as the shipped
      readers had; otherwise they come from `training_source(source)`, which has no "ot-answered"
      and no "ot-unknown"
    - `seed`: of the training, its order and dropout; 0: the shipped readers. Others are trained
      here from the same "base" on the same stories, in minutes each, and cached

    UserError for another name, and for "ot-answered" with a seed: its base is trained once."""
    free = ("untrained", *(["base"] if encoder == SHIPPED else []))
    generated = encoder == SHIPPED or source == "stories"
    known = [
        name for name in (*REGIMES, *free) if generated or name == "ot" or name not in UNANSWERABLE
    ]
    if wrong := [name for name in names if name not in known]:
        raise UserError(
            f"{wrong[0]!r} is not a valid reader of {encoder}: expected {', '.join(known)}"
        )
    how, trained = recipe(encoder), {}
    read = cache(lambda: questions(training_source(source), train))
    for name in names:
        if name == "untrained":
            trained[name] = FittedReader(how, Network(how))
        elif encoder == SHIPPED:
            trained[name] = (
                _retrain(name, seed)
                if seed and name != "base"
                else load_reader(SHIPPED if name == "base" else f"{SHIPPED}-{name}")
            )
        else:
            table = training_stories(name, train) if source == "stories" else read()
            table = table[(table.start >= 0) | table.answer.isin(WORD_ANSWERS)]
            trained[name] = train_reader(name, how, table, deletion(source))
    return trained


def _retrain(regime: str, seed: int) -> FittedReader:
    how = READERS[f"{SHIPPED}-{regime}"]
    if how.start is None:
        raise UserError(
            f"reader_seed={seed}: {regime!r} starts from another base and cannot be retrained with "
            "another seed; remove it from `regimes`"
        )
    return train_reader(regime, replace(how, seed=seed), training_stories(regime))


def printed_models(encoder: str) -> list[str]:
    """Choose whose rows of the paper's tables belong beside a run: the encoder's, else all six.

    A folder counts by its name."""
    name = MODELS.get(Path(encoder).name)
    return [name] if name else [*MODELS.values()]


def deletion(source: str) -> str:
    """Name the version that the paper makes by deletion: "OS-R" for HotpotQA, else "TS-R"."""
    return "OS-R" if source.startswith("hotpotqa") else "TS-R"


def read_hand_edits(path: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read yes/no questions from a CSV file, before and after an edit that reverses the answer.

    Columns: story, modified (the edited story), question, answer (yes or no, of the first); others
    are ignored. UserError for a file without them, or another answer."""
    check_readable(path)
    try:
        read = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as e:
        raise UserError(f"{path}: not read as a CSV file ({e})") from None
    needed = ["story", "modified", "question", "answer"]
    if missing := [name for name in needed if name not in read]:
        raise UserError(f"{path}: no column {', '.join(missing)}; needed are {', '.join(needed)}")
    answer = read.answer.str.strip().str.lower()
    if not len(read) or not answer.isin(("yes", "no")).all():
        raise UserError(f"{path}: the answers must be yes or no, and there must be some")
    before = pd.DataFrame(
        {
            "story_id": [f"own {i}" for i in range(len(read))],
            "turn": 0,
            "story": read.story,
            "question": read.question,
            "history": [[] for _ in range(len(read))],
            "answer": answer,
            "gold": answer,
            "kind": "yes/no",
        }
    )
    after = before.assign(story=read.modified, answer=answer.map({"yes": "no", "no": "yes"}))
    return before, after


def choices(table: pd.DataFrame, k: int = 4, seed: int = 0) -> list[list[str]]:
    """Draw answers to choose from for each question: gold first, "unknown" last.

    Between them stand

    - the other of yes and no, or of the two options of an option question
    - otherwise k − 1 other words of gold's type, those of the story first. A table without types
      gives the gold answers of other questions of its kind

    `seed` draws them."""
    rng, options = random.Random(seed), []
    alike = table.groupby("kind").gold.unique()
    for row in table.to_dict("records"):
        query, gold, story = row.get("query"), row["gold"], row["story"]
        if row["kind"] == "yes/no":
            words = ["yes", "no"]
        elif query is None:
            words = alike[row["kind"]]
        else:
            role = schemas.all_schemas()[query.schema].roles[query.asks]
            words = query.values or schemas.words()[role]
        rest = [word for word in words if word != gold]
        others = rng.sample(rest, min(len(rest), 200))
        near = [word for word in others if occurrence(story, (0, len(story)), word)]
        far = [word for word in others if word not in near]
        options.append([gold, *[*near, *far][: k - 1], UNKNOWN])
    return options


class ReaderStates(NamedTuple):
    """A reader's answers, and its states (float32) in the first window of each row of a table.

    `q` [n, d]: the heads' summary of the story (`summary`): of the tokens tagged as rationale, or,
    where heads do not tag, of those at which a span may start."""

    said: pd.DataFrame  # the answers
    cls: np.ndarray  # [layers + 1, n, d], the token that stands for the whole window ([CLS])
    q: np.ndarray
    ids: list[np.ndarray]  # n arrays [t], the tokens (only if asked for)
    tokens: list[np.ndarray]  # n arrays [t, d], their last states (only if asked for)


def reader_states(reader: FittedReader, table: pd.DataFrame, tokens: bool = False) -> ReaderStates:
    """Read a table once: the answers and the states from which the reader gives them.

    A reader says yes, no or unknown from the last layer's [CLS] and q."""
    rows = []

    def see(asked, windows, batch, encoded):
        last = encoded.last_hidden_state.float()
        at = torch.arange(len(windows)), batch["cls"]
        layers = [h[at].float() for h in encoded.hidden_states]
        q = reader.net.heads.summary(last, batch["story"])
        states = to_numpy(torch.stack([*layers, q], 1))
        for i, window in enumerate(windows):
            ids = asked.ids[window]
            whole = (np.array(ids), to_numpy(last[i, : len(ids)]).copy()) if tokens else ()
            rows.append((window, asked.item[window], states[i], *whole))

    given = reader(table, see)
    rows.sort(key=lambda row: row[0], reverse=True)  # the first window is kept
    first = {item: seen for _, item, *seen in rows}
    states, *whole = zip(*(first[item] for item in sorted(first)))
    states = np.stack(states, 1)
    return ReaderStates(given, states[:-1], states[-1], *(map(list, whole) if tokens else ([], [])))
