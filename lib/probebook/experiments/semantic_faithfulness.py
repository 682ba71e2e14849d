"""Chapter 5's experiments (Chaturvedi et al., § 5, § 6): readers by regime of training, and their answers to a story
and to what interventions leave of it."""
from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from probebook.base import UserError
from probebook.corpora import stories
from probebook.corpora.answer_spans import occurrence
from probebook.corpora.conversations import coqa, hotpotqa
from probebook.corpora.stories.facts import UNKNOWN
from probebook.corpora.stories.schemas import SCHEMAS, VALUES
from probebook.corpora.stories.versions import REGIMES
from probebook.measures.answers import exact_match, f1, rate
from probebook.models.loading import load
from probebook.models.readers import FittedReader, Network, Reader, load_reader
from probebook.models.readers.windows import OTHERS
from probebook.models.training.recipes import READERS, UNANSWERED, by_regime, told

SHIPPED = "pocket-stories"                  # encoder and readers that come with the book; trained on seeds 0 and 1


def questions(source: str, n: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Questions about `n` stories: "stories" (generated), "coqa:PART" or "hotpotqa:PART", with a part that
    `corpora.conversations` names or a path."""
    name, _, part = source.partition(":")
    if name == "stories" and n:
        return stories.generate(n, seed)
    if name not in ("coqa", "hotpotqa") or not part:
        raise UserError(f"source {source!r}, n = {n}: stories (and how many), coqa:PART or hotpotqa:PART")
    return {"coqa": coqa, "hotpotqa": hotpotqa}[name](part, n)


def answers(readers: Mapping[str, FittedReader], tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for each reader, version and question: story_id, turn, kind, gold, answer (what is right for this
    version), said, and 0 or 1: right, em, unknown; f1 (the last three as in the paper, against gold)."""
    found = []
    for (name, reader), (version, table) in ((r, t) for r in readers.items() for t in tables.items()):
        said = reader(table).said.to_numpy()
        gold = table.get("references", table.gold)
        found.append(table[["story_id", "turn", "kind", "gold", "answer"]].assign(
            reader=name, version=version, said=said, right=exact_match(said, table.answer), em=exact_match(said, gold),
            f1=f1(said, gold), unknown=exact_match(said, ["unknown"] * len(said))))
    return pd.concat(found, ignore_index=True)


def scores(found: pd.DataFrame, by: Sequence[str] = ("reader", "version")) -> pd.DataFrame:
    """EM, F1, unk% (percent, table 4) and the share that is right (of 1, with its interval over stories), by group."""
    rows = []
    for key, part in found.groupby(list(by), sort=False):
        right = rate(part.right, part.story_id)
        rows.append({**dict(zip(by, key)), "n": len(part), "EM": 100 * part.em.mean(), "F1": 100 * part.f1.mean(),
                     "unk%": 100 * part.unknown.mean(), "right": right.share, "right_low": right.low,
                     "right_high": right.high})
    return pd.DataFrame(rows)


def reader(regime: str, recipe: Reader, table: pd.DataFrame, deleted: str = "TS-R") -> FittedReader:
    """A reader trained by a regime on a table of whole stories (`recipes.by_regime`)."""
    recipe, rows = by_regime(recipe, regime, table, deleted)
    return recipe.fit(rows)


def recipe(encoder: str, seed: int = 0) -> Reader:
    """How readers on an encoder are trained in a run: pocket models like the shipped readers, others as in the paper
    (§ 4.3; four windows of 512 tokens in an update)."""
    if encoder == SHIPPED:
        return replace(READERS[SHIPPED], seed=seed)
    if encoder.startswith("pocket-"):
        return replace(READERS[SHIPPED], encoder=encoder, lr=1e-3, seed=seed)
    kind = load(encoder).net.config.model_type
    return Reader(encoder=encoder, heads="typed" if kind == "xlnet" else "tagging", optimizer="adamw",
                  lr=1e-5 if kind == "roberta" else 3e-5, embeddings=True, tokens=2_048, stride=128, seed=seed)


def trained(source: str) -> str:
    """Where the stories are on which readers of a source are trained: the part, or the file beside it, that has train
    in its name in place of dev. UserError for a name that has neither."""
    name, _, part = source.partition(":")
    path = Path(part)
    if name != "stories" and "train" not in path.name and "dev" not in path.name:
        raise UserError(f"source {source!r}: to train on other stories than those asked about, call the file …dev… and "
                        "put one called …train… beside it")
    return source if name == "stories" else f"{name}:{path.with_name(path.name.replace('dev', 'train'))}"


def readers(names: Sequence[str], encoder: str = SHIPPED, source: str = "stories", train: int = 3_000
            ) -> dict[str, FittedReader]:
    """Readers by name: a regime, or "untrained", the encoder with heads that have learned nothing.

    `encoder` "pocket-stories": the shipped ones, among them "base", from which the regimes begin. Any other is trained
    here, on `train` stories: generated ones, with as many questions without an answer as the shipped readers had, or
    those of `trained(source)`, whose share of them is what it is (no "ot-answered", no "ot-unknown"). UserError for
    another name."""
    free = ("untrained", *(["base"] if encoder == SHIPPED else []))
    drawn = encoder == SHIPPED or source == "stories"
    known = [name for name in (*REGIMES, *free) if drawn or name == "ot" or name not in UNANSWERED]
    if wrong := [name for name in names if name not in known]:
        raise UserError(f"reader {wrong[0]!r} of {encoder}: one of {', '.join(known)}")
    how, found = recipe(encoder), {}
    read = cache(lambda: questions(trained(source), train))
    for name in names:
        if name == "untrained":
            found[name] = FittedReader(how, Network(how))
        elif encoder == SHIPPED:
            found[name] = load_reader(SHIPPED if name == "base" else f"{SHIPPED}-{name}")
        else:
            table = told(name, train) if source == "stories" else read()
            table = table[(table.start >= 0) | table.answer.isin(OTHERS)]
            found[name] = reader(name, how, table, deletion(source))
    return found


def deletion(source: str) -> str:
    """What is left after the deletion, as the paper has it: "OS-R" for HotpotQA, else "TS-R"."""
    return "OS-R" if source.startswith("hotpotqa") else "TS-R"


def hand_edited(path: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Yes/no questions of a CSV file before and after somebody's edit turned the answer round; a row an item.

    Columns: story, modified (the edited story), question, answer (yes or no, of the first); others are ignored.
    UserError for a file without them, or another answer."""
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
    before = pd.DataFrame({"story_id": [f"own {i}" for i in range(len(read))], "turn": 0, "story": read.story,
                           "question": read.question, "history": [[] for _ in range(len(read))], "answer": answer,
                           "gold": answer, "kind": "yes/no"})
    return before, before.assign(story=read.modified, answer=answer.map({"yes": "no", "no": "yes"}))


def choices(table: pd.DataFrame, k: int = 4, seed: int = 0) -> list[list[str]]:
    """Answers to choose from for each question: gold first, "unknown" last.

    yes and no; the two options of an option question; else gold and k − 1 other words of its type (of other questions'
    gold answers of its kind, where a table has no types), those of the story before others. `seed` draws them."""
    rng, found = random.Random(seed), []
    alike = table.groupby("kind").gold.unique()
    for row in table.to_dict("records"):
        query, gold = row.get("query"), row["gold"]
        words = alike[row["kind"]] if query is None else VALUES[SCHEMAS[query.schema].roles[query.asks]]
        if row["kind"] == "yes/no":
            words = ["yes", "no"]
        elif query is not None and query.values:
            words = query.values
        others = rng.sample(rest := [word for word in words if word != gold], min(len(rest), 200))
        near = [word for word in others if occurrence(row["story"], (0, len(row["story"])), word)]
        found.append([gold, *[*near, *(word for word in others if word not in near)][:k - 1], UNKNOWN])
    return found


class Inside(NamedTuple):
    """What a reader says to each row of a table, and of its first window: `cls` [layers + 1, n, d],
    the states of the token that stands for the whole ([CLS]); `q` [n, d], which sums up what is
    tagged as rationale; `ids` and `tokens`, n arrays [t] and [t, d], the tokens and their last
    states (none unless asked for). States are float32."""

    said: pd.DataFrame
    cls: np.ndarray
    q: np.ndarray
    ids: list[np.ndarray]
    tokens: list[np.ndarray]


def inside(reader: FittedReader, table: pd.DataFrame, tokens: bool = False) -> Inside:
    """What is said and the states behind it, from one reading. A tagging reader says yes, no or
    unknown from the last layer's [CLS] and q. UserError for a reader with other heads: only tagging
    heads sum up what they tag."""
    if reader.recipe.heads != "tagging":
        raise UserError(f"heads {reader.recipe.heads!r}: only tagging heads sum up what they tag")
    rows = []

    def see(asked, windows, batch, encoded):
        last = encoded.last_hidden_state.float()
        states = [h[torch.arange(len(windows)), batch["cls"]].float() for h in encoded.hidden_states]
        q = reader.net.heads.tagged(last, batch["story"])[0]
        states = torch.stack([*states, q], 1).cpu().numpy()
        for i, window in enumerate(windows):
            ids = asked.ids[window]
            whole = (np.array(ids), last[i, :len(ids)].cpu().numpy().copy()) if tokens else ()
            rows.append((window, asked.item[window], states[i], *whole))

    said = reader(table, see)
    first = {item: seen for _, item, *seen in sorted(rows, key=lambda row: row[0], reverse=True)}
    states, *whole = zip(*(first[item] for item in sorted(first)))
    states = np.stack(states, 1)
    return Inside(said, states[:-1], states[-1], *(map(list, whole) if tokens else ([], [])))
