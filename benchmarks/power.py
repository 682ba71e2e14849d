"""Seconds for the power of McNemar's test: the exact sum against 2,000 drawn tables in statsmodels.

    .venv/bin/pip install -c constraints.txt -e '.[bench]'
    .venv/bin/python benchmarks/power.py

The loop is that of Card et al. (2020): draw a table, test it with the exact test, count. Both
answers are asserted to agree within four standard errors of the loop's. CPU seconds of one thread;
data/records/benchmarks/power.csv."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.stats.contingency_tables import mcnemar

from probebook.base import DATA
from probebook.measures.sample_size import mcnemar_power

CASES = [(0.12, 0.08, 64), (0.12, 0.08, 1024), (0.11, 0.09, 4096), (0.105, 0.095, 16_384)]
DRAWS = 2000


def loop(a: float, b: float, n: int, draws: int = DRAWS, seed: int = 0) -> float:
    """Share of drawn tables with p ≤ .05 and the true sign."""
    rng, found = np.random.default_rng(seed), 0
    for _ in range(draws):
        only_a, only_b, rest = rng.multinomial(n, [a, b, 1 - a - b])
        p = mcnemar([[rest, only_a], [only_b, 0]], exact=True).pvalue
        found += p <= 0.05 and (only_a > only_b) == (a > b)
    return found / draws


def seconds(call: Callable, *arguments: Any) -> tuple[Any, float]:
    """The result of a call, and its CPU seconds: the least of five times for a quick one."""
    times, begin = [], time.process_time()
    found = call(*arguments)
    times.append(time.process_time() - begin)
    while len(times) < 5 and times[0] < 0.5:
        begin = time.process_time()
        call(*arguments)
        times.append(time.process_time() - begin)
    return found, min(times)


def main() -> None:
    rows = []
    for a, b, n in CASES:
        exact, own = seconds(mcnemar_power, a, b, n)
        drawn, theirs = seconds(loop, a, b, n)
        assert abs(exact - drawn) <= 4 * (exact * (1 - exact) / DRAWS) ** 0.5, (exact, drawn)
        rows.append(
            {
                "only A": a,
                "only B": b,
                "items": n,
                "power, exact": round(exact, 4),
                "power, loop": drawn,
                "exact, ms": round(1e3 * own, 3),
                "loop, ms": round(1e3 * theirs, 1),
                "times as long": round(theirs / own),
            }
        )
    table = pd.DataFrame(rows)
    print(table.to_string(index=False))
    table.to_csv(DATA / "records" / "benchmarks" / "power.csv", index=False)


if __name__ == "__main__":
    main()
