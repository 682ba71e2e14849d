"""Chapter 5's experiments (Chaturvedi et al., § 5, § 6): readers by regime of training, and their answers to a story
and to what interventions leave of it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from probebook.base import UserError
from probebook.corpora import stories
from probebook.corpora.conversations import coqa, hotpotqa
from probebook.corpora.story_versions import REGIMES, training
from probebook.measures.answers import exact_match, f1, rate
from probebook.models.qa import FittedReader, Network, Reader, load_reader
from probebook.models.recipes import READERS, told
from probebook.models.windows import OTHERS

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
    """A reader trained by a regime on a table of whole stories.

    "ot-matched" sees the stories of OT as often as it takes for as many updates as IBT has."""
    if regime == "ot-matched":
        recipe = replace(recipe, updates=recipe.count(training(table, "ibt", deleted)))
    return recipe.fit(training(table, regime, deleted))


def recipe(encoder: str, seed: int = 0) -> Reader:
    """How readers on an encoder are trained in a run: pocket models like the shipped readers, others as in the paper
    (§ 4.3; four windows of 512 tokens in an update)."""
    if encoder == SHIPPED:
        return replace(READERS[SHIPPED], seed=seed)
    if encoder.startswith("pocket-"):
        return replace(READERS[SHIPPED], encoder=encoder, lr=1e-3, seed=seed)
    return Reader(encoder=encoder, optimizer="adamw", lr=3e-5, embeddings=True, tokens=2_048, stride=128, seed=seed)


def readers(names: Sequence[str], encoder: str = SHIPPED, source: str = "stories", train: int = 3_000
            ) -> dict[str, FittedReader]:
    """Readers by name: a regime, or "untrained", the encoder with heads that have learned nothing.

    `encoder` "pocket-stories": the shipped ones, among them "base", from which the regimes begin. Any other is trained
    here, on `train` stories: generated ones, with as many questions without an answer as the shipped readers had, or
    those of the source's part "train" ("train_100" for "dev_100"; no "ot-unknown"). UserError for another name."""
    free = ("untrained", *(["base"] if encoder == SHIPPED else []))
    known = [name for name in (*REGIMES, *free) if name != "ot-unknown" or SHIPPED == encoder or source == "stories"]
    if wrong := [name for name in names if name not in known]:
        raise UserError(f"reader {wrong[0]!r} of {encoder}: one of {', '.join(known)}")
    how, found = recipe(encoder), {}
    for name in names:
        if name == "untrained":
            found[name] = FittedReader(how, Network(how))
        elif encoder == SHIPPED:
            found[name] = load_reader(SHIPPED if name == "base" else f"{SHIPPED}-{name}")
        else:
            table = told(name, train) if source == "stories" else questions(source.replace("dev", "train"), train)
            table = table[(table.start >= 0) | table.answer.isin(OTHERS)]
            found[name] = reader(name, how, table, deletion(source))
    return found


def deletion(source: str) -> str:
    """What is left after the deletion, as the paper has it: "OS-R" for HotpotQA, else "TS-R"."""
    return "OS-R" if source.startswith("hotpotqa") else "TS-R"
