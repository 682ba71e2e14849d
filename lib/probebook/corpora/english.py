"""Public-domain English prose: the text that the pocket models are trained on."""

from __future__ import annotations

import csv
import lzma
import re
from collections.abc import Iterable, Iterator

import pandas as pd

from probebook.base import UserError
from probebook.corpora.fetch import fetch

HELD_OUT = 200  # the last 1/200 of all paragraphs trains no model
_YEAR = re.compile(r"(?<!to )(1[5-9]\d\d)$")


def paragraphs(shards: Iterable[int] = range(8)) -> Iterator[str]:
    """The paragraphs of the chosen shards in order: about 80,000, or 28 M characters, per shard.

    UserError for a shard that is not one of the 8.
    """
    chosen = list(shards)
    if wrong := [shard for shard in chosen if shard not in range(8)]:
        raise UserError(f"shard {wrong[0]!r}: whole numbers from 0 to 7")
    for shard in chosen:
        with lzma.open(fetch(f"shard-{shard}.txt.xz"), "rt", encoding="utf-8") as lines:
            yield from (paragraph for line in lines if (paragraph := line.strip()))


def works() -> pd.DataFrame:
    """The 568 works, in the order in which they stand in the shards.

    Columns: `work` (a number as text), `author` and `title` (as the source files them: an anthology
    may be filed under one of its authors), `year` ("" if the file's name does not say it), `source`
    (eltec-eng, whose names give surname and year alone, or gutenberg), `shard`, `characters` (of
    its paragraphs and the line ends between them)."""
    with open(fetch("english/works.tsv"), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows.sort(key=lambda row: int(row["shard"]))
    return pd.DataFrame([_work(i, row) for i, row in enumerate(rows)])


def _work(i: int, row: dict[str, str]) -> dict:
    name = row["work"].rsplit(".", 1)[0]
    if row["source"] == "eltec-eng":  # ENG18552_Kavanagh
        title, _, author = name.partition("_")
        year = title[3:7]
    else:
        author, _, title = name.partition("/")
        found = _YEAR.search(title)
        year = found[1] if found else ""
    return {
        "work": str(i),
        "author": author,
        "title": title,
        "year": year,
        "source": row["source"],
        "shard": int(row["shard"]),
        "characters": int(row["characters"]),
    }


def paragraphs_of_works() -> Iterator[tuple[str, str]]:
    """The paragraphs of all shards in order, each after its work. UserError: the works' lengths do
    not end where paragraphs end."""
    for shard, table in works().groupby("shard"):
        texts = paragraphs([shard])
        for work, characters in zip(table.work, table.characters):
            length = -1
            while length < characters:
                paragraph = next(texts, "")
                length += len(paragraph) + 1
                yield work, paragraph
            if length != characters:
                raise UserError(
                    f"work {work} of english/works.tsv ends within a paragraph of "
                    f"shard {shard}: list and text belong to different versions"
                )
