"""Public-domain English prose: the text that the pocket models are trained on."""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Iterator

from probebook.base import UserError
from probebook.corpora.fetch import fetch

HELD_OUT = 200  # the last 1/200 of all paragraphs trains no model


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
