"""Mines the agreement sentences of `agreement.load("prose")` from the project's prose again.

    .venv/bin/python benchmarks/agreement_prose.py

Needs the shards under PROBEBOOK_DATA and takes five minutes. Replaces agreement_prose.tsv.xz and
agreement_works.tsv in data/corpora; the same text and words give the same bytes.
"""
from __future__ import annotations

import pandas as pd

from probebook.corpora.agreement import prose


def main() -> None:
    dropped = prose.make()
    table = pd.DataFrame(prose.mined())
    print(table.groupby(["zc", "ze"]).size().to_string())
    print(f"{len(table):,} sentences in {prose.SENTENCES.stat().st_size:,} bytes")
    print(f"{dropped:,} candidates whose verb does not agree were dropped")


if __name__ == "__main__":
    main()
