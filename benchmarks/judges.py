"""How far do scores move with rounding, by how the perceptron that judges is chosen?

    .venv/bin/python benchmarks/judges.py [SEEDS]

Chapter 1's judges are trained on the same sentences four times: on one thread, on two, on states
computed in float64, and with the instructions that an older processor has. Each time LEACE, INLP,
AlterRep and PGD are scored by three judges: the perceptron with the best validation accuracy (the
paper's), that with the least validation loss, and the mean of all perceptrons that pass the tests.
Two grids of learning rates are tried. data/records/benchmarks/judges.csv has a row for each data
set, seed, rates, method, judge and variant: the reliability, and how far it is from that on one
thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from probebook.base import DATA
from probebook.interventions import INLP, LEACE, PGD, AlterRep
from probebook.models import load
from probebook_chapters import causal_probing as cp

TABLE = DATA / "records" / "benchmarks" / "judges.csv"
KEY = ["data", "seed", "rates", "method", "judge"]
SETS = {"generated": ("pocket-agreement", 16_000), "natural": ("pocket-english", 8_000)}
RATES = {".001 and .01": (1e-3, 1e-2), ".0003 and .001": (3e-4, 1e-3)}
OLDER = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}
VARIANTS = {"one thread": {}, "two threads": {}, "float64": {}, "older processor": OLDER}


def panel(s: cp.AgreementSetting, name: str, rates: tuple[float, ...]) -> dict[str, cp.Probe]:
    """The three judges of a property, by name."""
    z, valid = getattr(s, name), cp.uncorrelated_rows(s, name, "oracle_valid")
    every = cp.perceptrons(s, z, cp.uncorrelated_rows(s, name, "oracle"), valid, lrs=rates)
    valid = valid[z[valid] >= 0]
    loss = [float(F.cross_entropy(one(s.h[valid]), z[valid])) for one in every.members]
    return {
        "best accuracy": every.best(),
        "least loss": every.members[int(np.argmin(loss))],
        "mean": getattr(cp.oracles(s, lrs=rates), name),
    }


def scores(data: str, seed: int, dtype: str) -> pd.DataFrame:
    """The reliability of every method by every judge: columns as in KEY, and reliability."""
    model, n = SETS[data]
    s = cp.prepare(load(model, dtype=dtype), data, n, seed=seed)
    s = cp.replace(s, h=s.h.float())
    fit, rows = s.parts["intervention"], s.parts["test"]
    h, z, x, to = s.h[fit], s.zc[fit], s.h[rows], 1 - s.zc[rows]
    found = []
    for name, rates in RATES.items():
        attacked = cp.target(s, lrs=rates)
        edited = {
            "LEACE": (LEACE().fit(h, z)(x), None),
            "INLP": (INLP(max_rank=8, C=0.1).fit(h, z)(x), None),
            "AlterRep": (AlterRep(max_rank=4, C=0.1).fit(h, z).at(alpha=4)(x, to=to), to),
            "PGD": (PGD(attacked).at(eps=0.286)(x, to=to), to),
        }
        of = {noun: panel(s, noun, rates) for noun in ("zc", "ze")}
        report = cp.evaluate_oracles(s, {noun: judges["mean"] for noun, judges in of.items()})
        for judge in of["zc"]:
            pair = cp.Judges(of["zc"][judge], of["ze"][judge], report)
            for method, (states, goal) in edited.items():
                reached = cp.means(*cp.score_edit(s, pair, states, rows, goal))["reliability"]
                found.append((data, seed, name, method, judge, reached))
    return pd.DataFrame(found, columns=[*KEY, "reliability"])


def in_variant(data: str, seed: int, variant: str) -> pd.DataFrame:
    """`scores` in a process of its own, from an empty cache."""
    threads = "2" if variant == "two threads" else "1"
    dtype = "float64" if variant == "float64" else "float32"
    with TemporaryDirectory() as cache:
        env = os.environ | VARIANTS[variant] | {"PROBEBOOK_CACHE": cache}
        env |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        command = [sys.executable, __file__, data, str(seed), dtype]
        out = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return pd.read_csv(StringIO(out.stdout)).assign(variant=variant)


def main(seeds: int) -> None:
    for data in SETS:
        for seed in range(seeds):
            table = pd.concat([in_variant(data, seed, variant) for variant in VARIANTS])
            wide = table.pivot(index=KEY, columns="variant", values="reliability")
            moved = wide.sub(wide["one thread"], axis=0).abs().stack().rename("moved")
            table = table.join(moved, on=[*KEY, "variant"])
            print(table.groupby(["rates", "judge"]).moved.max(), flush=True)
            before = pd.read_csv(TABLE) if TABLE.exists() else None
            if before is not None:
                before = before[(before.data != data) | (before.seed != seed)]
            pd.concat([before, table]).sort_values([*KEY, "variant"]).to_csv(TABLE, index=False)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        scores(sys.argv[1], int(sys.argv[2]), sys.argv[3]).to_csv(sys.stdout, index=False)
    else:
        main(int((sys.argv[1:] or ["3"])[0]))
