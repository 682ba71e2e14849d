"""Can the audit be trusted? Its verdicts in planted worlds, whose truth is known: 10 minutes.

Null worlds, in which no edit may be called reliable, and worlds with a concept that the model uses
with a known strength; noise is Gaussian, or the states of pocket-english. Finished worlds are rows
of the table, so a killed run goes on.

    .venv/bin/python benchmarks/audit_calibration.py data/records/benchmarks/audit_calibration.csv
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from probebook.models import embed
from probebook_audit import audit_planted, labelled
from probebook_chapters import planted

KEYS = ["noise", "kind", "weight", "seed"]


def worlds(nulls: int, used: int) -> list[tuple[str, str, float, int]]:
    """Noise, kind, weight and seed of every world; the seeds come first, so that a part of the
    table has all kinds."""
    kinds = [kind for kind in planted.KINDS if kind != planted.RELIABLE]
    found = [
        (noise, kind, 1.0, seed)
        for seed, noise, kind in product(range(nulls), ("gaussian", "pocket-english"), kinds)
    ]
    found += [
        (noise, planted.RELIABLE, weight, seed)
        for seed, noise, weight in product(range(used), ("gaussian", "pocket-english"), (0.25, 1.0))
    ]
    return sorted(found, key=lambda one: one[3])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--nulls", type=int, default=16, help="worlds of each kind and noise")
    parser.add_argument("--used", type=int, default=27, help="worlds of each weight and noise")
    asked = parser.parse_args()
    done = pd.read_csv(asked.table) if asked.table.exists() else pd.DataFrame(columns=KEYS)
    known = set(done[KEYS].itertuples(index=False, name=None))
    states: dict[str, np.ndarray | None] = {"gaussian": None}
    for noise, kind, weight, seed in worlds(asked.nulls, asked.used):
        if (noise, kind, weight, seed) in known:
            continue
        if noise not in states:
            texts = labelled.read("agreement", n=4000).text
            states[noise] = embed(texts or [], noise).numpy()
        row = audit_planted(kind, [seed], states[noise], weight=weight)
        row = row.assign(noise=noise, weight=weight)
        done = pd.concat([done, row], ignore_index=True) if len(done) else row
        done.to_csv(asked.table, index=False)
        print(noise, kind, weight, seed, row.verdict.iloc[0], flush=True)


if __name__ == "__main__":
    main()
