"""Seconds to score explainers on pairs of reviews: arrays against a DataFrame row by row.

    .venv/bin/python benchmarks/concept_scoring.py [pairs] [explainers]

All three distances of every explainer for every pair, then their means for each explainer and
concept. The row-wise way is what a page would write: a table with a row for each pair and
explainer, and a function applied to its rows. The two take turns in one run on one CPU thread;
their results are asserted equal, and the median of the turns' CPU seconds counts.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import json
import statistics
import sys
import time

import numpy as np
import pandas as pd

from probebook.corpora import cebab, reviews
from probebook.measures.concept_effects import DISTANCES, icace_error

TURNS = 5


def effects(n: int, explainers: int) -> tuple[pd.Series, np.ndarray, dict[str, np.ndarray]]:
    """Concepts [n], exact effects [n, 5] of edits of generated reviews, and estimates [n, 5]."""
    table = reviews.generate(2_400)
    pairs, p = cebab.icace_pairs(table), reviews.probabilities(table)
    if len(pairs) < n:
        sys.exit(f"{n} pairs: at most {len(pairs)}")
    pairs, rng = pairs[:n], np.random.default_rng(0)
    true = p[pairs.target_row] - p[pairs.source_row]
    estimates = {
        f"explainer {i}": true + rng.normal(0, 0.1 * i, true.shape) for i in range(1, explainers)
    }
    return pairs.concept, true, {"zero": np.zeros_like(true)} | estimates


def arrays(concept: pd.Series, true: np.ndarray, estimates: dict[str, np.ndarray]) -> pd.DataFrame:
    """Mean distances of each explainer and concept."""
    errors = {
        (name, distance): icace_error(true, estimate, distance).numpy()
        for name, estimate in estimates.items()
        for distance in DISTANCES
    }
    means = pd.DataFrame(errors).groupby(concept.to_numpy()).mean()
    return means.stack(0, future_stack=True).swaplevel().sort_index()[list(DISTANCES)]


def row_by_row(
    concept: pd.Series, true: np.ndarray, estimates: dict[str, np.ndarray]
) -> pd.DataFrame:
    """The same with a function for each distance, applied to the rows of a table."""
    table = pd.concat(
        [
            pd.DataFrame(
                {
                    "explainer": name,
                    "concept": concept.array,
                    "true": list(true),
                    "estimated": list(estimate),
                }
            )
            for name, estimate in estimates.items()
        ]
    )

    def cosine(row: pd.Series) -> float:
        # Rounding errors count as zero.
        a, b = (max(np.linalg.norm(v), 1e-12) for v in (row.true, row.estimated))
        return 1 - row.true @ row.estimated / (a * b)

    def normdiff(row: pd.Series) -> float:
        return abs(np.linalg.norm(row.true) - np.linalg.norm(row.estimated))

    table["cosine"] = table.apply(cosine, axis=1)
    table["l2"] = table.apply(lambda row: np.linalg.norm(row.true - row.estimated), axis=1)
    table["normdiff"] = table.apply(normdiff, axis=1)
    return table.groupby(["explainer", "concept"])[list(DISTANCES)].mean()


def main(n: int = 4_000, explainers: int = 10) -> None:
    given = effects(n, explainers)
    ways = {"arrays": arrays, "row by row": row_by_row}
    results = {way: run(*given) for way, run in ways.items()}  # warm-up, and the check
    gap = float(np.abs(results["arrays"].to_numpy() - results["row by row"].to_numpy()).max())
    assert results["arrays"].index.tolist() == results["row by row"].index.tolist()
    assert gap < 1e-12, gap
    seconds = {way: [] for way in ways}
    for _ in range(TURNS):
        for way, run in ways.items():
            start = time.process_time()
            run(*given)
            seconds[way].append(time.process_time() - start)
    median = {way: statistics.median(times) for way, times in seconds.items()}
    print(
        json.dumps(
            {
                "pairs": n,
                "explainers": explainers,
                "seconds": {way: round(s, 4) for way, s in median.items()},
                "largest difference": gap,
                "times as fast": round(median["row by row"] / median["arrays"], 1),
            }
        )
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
