"""Can the audit be trusted? Its verdicts in planted worlds, whose truth is known: 25 minutes.

Worlds in which no edit may pass, and worlds with a concept that the model uses with a known
strength; noise is Gaussian, or the states of pocket-english. Smaller sets have noise with heavy
tails (Student's t with two degrees of freedom), classes of 95 and 5 %, audits with two seeds, and
one without rewritten texts. Finished worlds are rows of the table, so a killed run goes on.

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

KEYS = ["setting", "kind", "weight", "seed"]
MAIN = ("Gaussian noise", "a model's states")
OTHERS = {
    "heavy tails": {},
    "95 and 5 %": {"rare": 0.05},
    "two seeds": {"trainings": 2},
    "no rewritten texts": {"rewritten": False},
}
SOME = ("absent", "unused", "length", planted.USED)  # kinds of the other settings


def worlds(nulls: int, used: int, others: int) -> list[tuple[str, str, float, int]]:
    """Setting, kind, weight and seed of every world; the seeds come first, so that a part of the
    table has all kinds."""
    kinds = [kind for kind in planted.KINDS if kind != planted.USED]
    found = [(at, kind, 1.0, seed) for at, kind, seed in product(MAIN, kinds, range(nulls))]
    found += [
        (at, planted.USED, weight, seed)
        for at, weight, seed in product(MAIN, (0.25, 1.0), range(used))
    ]
    for at in OTHERS:
        some = ("unnamed",) if at == "no rewritten texts" else SOME
        found += [(at, kind, 1.0, seed) for kind, seed in product(some, range(others))]
    return sorted(found, key=lambda one: one[3])


def noise(setting: str) -> np.ndarray | None:
    """The states to which a world of this setting adds its concepts; None: Gaussian noise."""
    if setting == "heavy tails":
        return np.random.default_rng(0).standard_t(2, (4000, 24))
    if setting == "a model's states":
        return embed(labelled.read("agreement", n=4000).text or [], "pocket-english").numpy()
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--nulls", type=int, default=12, help="worlds of each kind and noise")
    parser.add_argument("--used", type=int, default=16, help="worlds of each weight and noise")
    parser.add_argument("--others", type=int, default=6, help="of each kind in other settings")
    asked = parser.parse_args()
    done = pd.read_csv(asked.table) if asked.table.exists() else pd.DataFrame(columns=KEYS)
    known = set(done[KEYS].itertuples(index=False, name=None))
    states = {setting: noise(setting) for setting in (*MAIN, *OTHERS)}
    for setting, kind, weight, seed in worlds(asked.nulls, asked.used, asked.others):
        if (setting, kind, weight, seed) in known:
            continue
        row = audit_planted(
            kind, [seed], states[setting], weight=weight, **OTHERS.get(setting, {})
        ).assign(setting=setting, weight=weight)
        done = pd.concat([done, row], ignore_index=True) if len(done) else row
        done.to_csv(asked.table, index=False)
        print(setting, kind, weight, seed, row.verdict.iloc[0], flush=True)


if __name__ == "__main__":
    main()
