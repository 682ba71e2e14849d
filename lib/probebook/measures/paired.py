"""Compare two systems on the same items: their difference, and how many items would show it.

The items are shared, so every figure here is one of the differences, item by item."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from probebook.base import UserError
from probebook.measures.eval_logs import Suite
from probebook.measures.intervals import holm
from probebook.measures.sample_size import (
    CARE,
    items_needed,
    items_needed_exactly,
    mcnemar_power,
)

POWER, ALPHA = 0.8, 0.05
MCNEMAR = "exact McNemar test"
STUDENT = "paired t-test"
GROUPED = "paired t-test over groups"
SIGNS = "exact test of signs"
POOLED = "t-test of the tasks' mean"
REACH = stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER)
FORMS = {"items": ",", "groups": ",", "mean_a": ".3f", "mean_b": ".3f", "delta": "+.3f"}
FORMS |= {"low": "+.3f", "high": "+.3f", "p": ".2g", "p_holm": ".2g", "power": ".2f"}
FORMS |= {"needed": ",.0f", "verdict": ""}
TITLES = {"items_a": "in A", "items_b": "in B", "groups": "clusters", "mean_a": "A", "mean_b": "B"}
TITLES |= {"items": "in both", "delta": "A less B", "p_holm": "p, Holm", "needed": "items needed"}
NOTE = "low, high: 95 % interval; power, items needed: if the difference is as here"
OVER = "Mean over the tasks, each counting once; the tasks are as they are, their items are drawn:"


@dataclass(frozen=True)
class Comparison:
    """The result of comparing the scores of A and B on the same items.

    - `test`: `MCNEMAR` where all scores are 0 or 1, else `STUDENT`; `GROUPED` where items come in
      groups; `SIGNS` where all differences are equal; `POOLED` over tasks
    - `items`, `groups`: how many; `mean_a`, `mean_b`: mean scores
    - `delta`, `error`, `low`, `high`: mean of A less mean of B, its standard error (of which the
      interval is made) and 95 % interval; `p`, two-sided
    - `power`: chance that the test is significant on as many new items if `delta` is the truth
    - `needed`: items for a chance of 80 % if `delta` is the truth (inf: no difference)
    - `least`: the smallest true difference that so many items show with a chance of 80 %
    - `only_a`, `only_b`: items that only one of them gets right; None for graded scores"""

    test: str
    items: int
    groups: int
    mean_a: float
    mean_b: float
    delta: float
    error: float
    low: float
    high: float
    p: float
    power: float
    needed: float
    least: float
    only_a: int | None = None
    only_b: int | None = None

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if self.p <= ALPHA:
            better, worse = "AB" if self.delta > 0 else "BA"
            return f"{better} is better than {worse} on such items"
        if -CARE < self.low and self.high < CARE and self.least > 0:
            return f"any remaining difference is below {CARE}"
        if np.isinf(self.needed):
            return "open: no difference in these items"
        return (
            f"open: if the difference is as large as here, about {self.needed:,.0f} items "
            "would show it"
        )

    def lines(self) -> dict[str, str]:
        """The verdict as names and texts, one line each."""
        sides = "only A right, only B right"
        only = {} if self.only_a is None else {sides: f"{self.only_a:,}, {self.only_b:,} items"}
        groups = f" in {self.groups:,} groups" if self.groups < self.items else ""
        needed = "none (no difference)" if np.isinf(self.needed) else f"{self.needed:,.0f}"
        return {
            "verdict": self.sentence,
            "items": f"{self.items:,}{groups}",
            "score of A, of B": f"{self.mean_a:.4f}, {self.mean_b:.4f}",
            "A less B (95 % interval)": f"{self.delta:+.4f} [{self.low:+.4f}, {self.high:+.4f}]",
            **only,
            self.test: f"p = {self.p:.2g}",
            "power if the difference is as here": f"{self.power:.3f}",
            f"items for power {POWER}, likewise": needed,
            "least difference that so many items show": f"{self.least:.4f}",
        }


def compare(a: ArrayLike, b: ArrayLike, groups: ArrayLike | None = None) -> Comparison:
    """Compare scores [n] of A and B on the same items.

    Scores of 0 and 1: the exact McNemar test, and Bonett & Price's interval (2012), a Wald interval
    after adding one item to each side on which they differ. Other scores: Student's test and
    interval of the differences; the test of signs where all differences are equal. `groups` [n]:
    items of one group are not independent; the standard error is that of sums over groups, and
    Student's t has a degree of freedom less than there are groups. UserError for scores that are no
    numbers, or for fewer than two items or groups."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.ndim != 1 or a.shape != b.shape or not np.isfinite([a, b]).all():
        raise UserError(
            f"scores of shapes {a.shape} and {b.shape}: one number for each item, the "
            "same items, none of them NaN"
        )
    n, number = len(a), np.arange(len(a))
    if groups is not None:
        number = np.unique(np.asarray(groups), return_inverse=True)[1]
    count = int(number.max(initial=-1)) + 1
    if count < 2:
        raise UserError(f"{n} items in {count} groups: two groups at least")
    d = a - b
    about = {"items": n, "groups": count, "delta": float(d.mean())}
    about |= {"mean_a": float(a.mean()), "mean_b": float(b.mean())}
    if count == n and np.isin([a, b], (0, 1)).all():
        return _compare_binary(about, int((d > 0).sum()), int((d < 0).sum()))
    return _compare_graded(about, d, number, STUDENT if count == n else GROUPED)


def compare_family(comparisons: Sequence[Comparison], names: pd.Index) -> pd.DataFrame:
    """A row for each comparison: what it says; p_holm, corrected over the rows by Holm's method;
    verdict by it: "A higher", "B higher" or "open"."""
    table = pd.DataFrame(comparisons, names)
    table["p_holm"] = holm(table.p)
    sides = np.where(table.delta > 0, "A higher", "B higher")
    return table.assign(verdict=np.where(table.p_holm <= ALPHA, sides, "open"))


def pool(tasks: pd.DataFrame) -> Comparison:
    """Compare over tasks (`compare_family`): the mean of their differences, each task counting
    once.

    The tasks are taken as they are, and their items as drawn: of K tasks the error is √(Σ error²)/K
    with Satterthwaite's degrees of freedom (1946). `needed`: items of all tasks, in the proportions
    that they have."""
    about = {**tasks[["mean_a", "mean_b", "delta"]].mean(), **tasks[["items", "groups"]].sum()}
    variances = tasks.error**2 / len(tasks) ** 2
    df = variances.sum() ** 2 / max((variances**2 / (tasks.groups - 1)).sum(), 1e-300)
    return _conclude(POOLED, about, np.sqrt(variances.sum()), df, tasks.groups.min())


def format_family(table: pd.DataFrame, *names: str) -> str:
    """A table of `compare_family` in Markdown: its columns `names`, then its figures."""
    forms = dict.fromkeys(names, "") | FORMS
    if (table.groups == table["items"]).all():
        del forms["groups"]
    cells = table[[*forms]].rename(columns=TITLES)
    rows = cells.to_markdown(index=False, intfmt=",", floatfmt=[*forms.values()])
    return f"{rows}\n\n{NOTE}"


def format_suite(suite: Suite, a: str, b: str) -> tuple[str, str]:
    """JSON and Markdown of the comparison of runs called `a` and `b` on each task, over its
    clusters where it has them, and over the tasks. In JSON null is infinite or missing."""
    tasks = suite.tasks.drop(columns=["a", "b", "clusters"])
    comparisons = [compare(one.a, one.b, one.clusters) for one in suite.tasks.itertuples()]
    table = tasks.join(compare_family(comparisons, tasks.index)).reset_index()
    pooled = [pool(table)] if len(table) > 1 else []
    significant = int((table.verdict != "open").sum())
    records, over = (
        json.loads(one.to_json(orient="records", double_precision=15))
        for one in (table, pd.DataFrame(pooled))
    )
    whole = {"version": "1.0", "a": a, "b": b, "tasks": records, "significant": significant}
    whole["pooled"] = over[0] if over else None
    whole |= {"tasks_only_a": suite.only_a, "tasks_only_b": suite.only_b}
    lines = suite.lines() | {"significant (5 %, Holm)": f"{significant} of {len(table)} tasks"}
    lines |= {f"by the {test}": ", ".join(one.task) for test, one in table.groupby("test")}
    texts = [f"A is {a}, B is {b}.", format_family(table, "task", "metric", "items_a", "items_b")]
    for title, about in [("", lines), *((OVER, one.lines()) for one in pooled)]:
        texts += [title, "\n".join(f"- {name}: {text}" for name, text in about.items())]
    return json.dumps(whole, indent=1, ensure_ascii=False), "\n\n".join(filter(None, texts))


def _compare_binary(about: dict, only_a: int, only_b: int) -> Comparison:
    n, differ = about["items"], only_a + only_b
    x, y = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    error = float(np.sqrt((x + y - (x - y) ** 2) / (n + 2)))
    half = stats.norm.ppf(1 - ALPHA / 2) * error
    shares = only_a / n, only_b / n
    needed = float(np.ceil(items_needed(*shares, POWER, ALPHA)))
    if needed < 100_000:  # beyond, the normal approximation is exact too
        needed = items_needed_exactly(*shares, POWER, ALPHA)
    return Comparison(
        MCNEMAR,
        **about,
        error=error,
        low=max(-1.0, x - y - half),
        high=min(1.0, x - y + half),
        p=float(stats.binomtest(only_a, differ).pvalue) if differ else 1.0,
        power=mcnemar_power(*shares, n) if differ else 0.0,
        needed=needed,
        least=float(REACH * np.sqrt(x + y) / np.sqrt(n)),
        only_a=only_a,
        only_b=only_b,
    )


def _compare_graded(about: dict, d: np.ndarray, number: np.ndarray, test: str) -> Comparison:
    n, count = about["items"], about["groups"]
    sums = np.bincount(number, d - about["delta"])
    error = float(np.sqrt(count / (count - 1)) * np.linalg.norm(sums) / n)
    equal = error <= 1e-12 * np.abs(d).max()
    return _conclude(test, about, 0.0 if equal else error, count - 1, count)


def _conclude(test: str, about: dict, error: float, df: float, signs: int) -> Comparison:
    """By Student's t, or by the test of so many equal signs where the differences have no error."""
    n, delta, edge = about["items"], about["delta"], stats.t.ppf(1 - ALPHA / 2, df)
    if not error:
        p = 2 * 0.5**signs if delta else 1.0
        needed = float(np.ceil(n * np.ceil(np.log2(2 / ALPHA)) / signs)) if delta else np.inf
        about = about | {"power": float(p <= ALPHA), "needed": needed, "least": 0.0}
        return Comparison(SIGNS, **about, error=0.0, low=delta, high=delta, p=p)
    t = delta / error
    return Comparison(
        test,
        **about,
        error=error,
        low=delta - edge * error,
        high=delta + edge * error,
        p=float(2 * stats.t.sf(abs(t), df)),
        power=float(stats.nct.sf(edge, df, abs(t))),
        needed=float(np.ceil(n * (REACH / t) ** 2)) if delta else np.inf,
        least=float(REACH * error),
    )
