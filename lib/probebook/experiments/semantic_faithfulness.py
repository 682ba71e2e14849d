"""Chapter 5's experiments (Chaturvedi et al., § 5, § 6): readers by regime of training, and their answers to a story
and to what interventions leave of it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from probebook.base import UserError
from probebook.corpora import stories
from probebook.corpora.conversations import coqa, hotpotqa
from probebook.corpora.story_versions import training
from probebook.measures.answers import exact_match, f1, rate
from probebook.models.qa import FittedReader, Reader, load_reader


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


def reader(regime: str, recipe: Reader, table: pd.DataFrame | None, deleted: str = "TS-R") -> FittedReader:
    """A reader trained by a regime on a table; without one the shipped reader of that regime.

    "ot-matched" sees the stories of OT as often as it takes for as many updates as IBT has."""
    if table is None:
        return load_reader(f"pocket-stories-{regime}")
    if regime == "ot-matched":
        recipe = replace(recipe, updates=recipe.count(training(table, "ibt", deleted)))
    return recipe.fit(training(table, regime, deleted))
