"""How often intervals hold the truth: simulated studies whose truth is 0.

    .venv/bin/python benchmarks/coverage.py                  # 1,000 studies a row: 10 minutes
    .venv/bin/python benchmarks/coverage.py --studies 100

Three tables, in % of the studies, printed and kept in data/records/benchmarks/coverage_*.csv: of
seeds (the luck of training beside that of groups and items), of the best of several methods, and of
families of comparisons. One percent point is about 1.5 standard errors of a share of 95 % in 1,000
studies."""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from probebook.base import DATA
from probebook.measures.intervals import (
    contrast,
    contrasts,
    draw_counts,
    mean_over_seeds,
    percentiles,
    resample_means,
    resample_seeds,
)

GROUPS, ITEMS, DRAWS = 40, 10, 500
# standard deviations between seeds, groups, items, answers of one seed to one item
WORLDS = {
    "all alike": (0.2, 0.5, 1, 1),
    "mostly seeds": (1, 0.5, 1, 1),
    "mostly groups": (0.05, 1, 1, 1),
    "single answers": (0, 0, 0, 2),
}
SEEDS = (3, 5, 10)
METHODS, STEPS = (2, 5, 10), (0, 2, 4)  # lead of the best, in a difference's errors
FAMILIES = [(20, 40), (20, 100), (20, 400), (11, 40), (11, 100)]  # nulls, groups


def holds(low: float, high: float, truth: float = 0.0) -> bool:
    return bool(low <= truth <= high)


def items_too(answers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means [draws] of drawn seeds, drawn groups, and items drawn within them, by answers
    [seeds, groups, items]."""
    seeds, groups, items = answers.shape
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS) / seeds
    drawn = rng.integers(groups, size=(DRAWS, groups, 1))
    within = rng.integers(items, size=(DRAWS, groups, items))
    each = np.stack([one[drawn, within].mean((1, 2)) for one in answers], 1)
    return (each * of_seeds).sum(1)


def study(seeds: int, deviations: tuple[float, ...], number: int) -> dict[str, bool]:
    """Which intervals of one study hold the truth."""
    rng = np.random.default_rng([number, seeds])
    shapes = (seeds, 1, 1), (1, GROUPS, 1), (1, GROUPS, ITEMS), (seeds, GROUPS, ITEMS)
    answers = sum(sd * rng.normal(size=shape) for sd, shape in zip(deviations, shapes))
    of_groups, flat = answers.mean(2), answers.reshape(seeds, -1)
    groups = pd.Series(np.repeat(np.arange(GROUPS), ITEMS))
    drawn = resample_means(pd.DataFrame(flat.T), groups, DRAWS, number).to_numpy()[1:]
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS) / seeds
    means, errors = flat.mean(1), of_groups.std(1, ddof=1) / GROUPS**0.5
    return {
        "one training": holds(*percentiles(drawn[:, 0])),
        "their mean, groups drawn": holds(*percentiles(drawn.mean(1))),
        "seeds, groups drawn": holds(*percentiles((drawn * of_seeds).sum(1))),
        "seeds, groups, items drawn": holds(*percentiles(items_too(answers, rng))),
        "resample_seeds": holds(*percentiles(resample_seeds(flat, groups, DRAWS, number)[0][1:])),
        "mean_over_seeds": holds(*mean_over_seeds(means)[1:]),
        "mean_over_seeds, item_errors": holds(*mean_over_seeds(means, errors)[1:]),
    }


def of_seeds(studies: int) -> pd.DataFrame:
    rows = {
        (name, seeds): pd.DataFrame([study(seeds, world, i) for i in range(studies)]).mean()
        for name, world in WORLDS.items()
        for seeds in SEEDS
    }
    return 100 * pd.DataFrame(rows).T.rename_axis(["luck", "seeds"])


def of_the_best(studies: int, groups: int = 100) -> pd.DataFrame:
    """A method's lead over the best other; the first of all by the data over the second."""
    counts = np.vstack([np.ones(groups), draw_counts(groups, 1000)]) / groups
    rng, rows = np.random.default_rng(0), {}
    for k in METHODS:
        for step in STEPS:
            lead = step * (2 / groups) ** 0.5
            true, found = lead * np.eye(k)[0], []
            for _ in range(studies):
                items, others = rng.normal(size=(2, groups, k)) + true
                leads = counts @ (items[:, :1] - items[:, 1:])
                one = contrasts({"lead": leads}).loc["lead"]
                plain = percentiles(leads[1:].min(1))
                second, first = items.mean(0).argsort()[-2:]
                same, apart = (
                    contrast(counts @ (part[:, first] - part[:, second]))
                    for part in (items, others)
                )
                truth = true[first] - true[second]
                found.append(
                    {
                        "percentiles of the least lead": holds(*plain, lead),
                        "contrasts": holds(one.low, one.high, lead),
                        "picked by the same items": holds(same["low"], same["high"], truth),
                        "picked by others": holds(apart["low"], apart["high"], truth),
                    }
                )
            rows[k, step] = pd.DataFrame(found).mean()
    return 100 * pd.DataFrame(rows).T.rename_axis(["methods", "lead, standard errors"])


def of_families(studies: int) -> pd.DataFrame:
    """Families of true nulls with some verdict other than 0."""
    rng, rows = np.random.default_rng(0), {}
    for nulls, groups in FAMILIES:
        counts = np.vstack([np.ones(groups), draw_counts(groups, 100 * nulls)]) / groups
        found = []
        for _ in range(studies):
            family = contrasts(pd.DataFrame(counts @ rng.normal(size=(groups, nulls))))
            found.append(
                {"each at 5 %": (family.p <= 0.05).any(), "contrasts": (family.verdict != 0).any()}
            )
        rows[nulls, groups] = pd.DataFrame(found).mean()
    return 100 * pd.DataFrame(rows).T.rename_axis(["comparisons", "groups"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    for name, simulate in {"seeds": of_seeds, "best": of_the_best, "families": of_families}.items():
        table = simulate(studies).round(1)
        print(table.to_string(), end="\n\n", flush=True)
        table.to_csv(DATA / "records" / "benchmarks" / f"coverage_{name}.csv")


if __name__ == "__main__":
    main()
