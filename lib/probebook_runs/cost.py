"""What a sweep costs: operations, hours on machines whose speed was measured, and memory.

Operations are counted as usual (Kaplan et al. 2020, § 2.1): a token that passes p parameters takes
2 p of them, and three times as many where a gradient is wanted.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from probebook.base import DATA, UserError
from probebook.hub import Size, model_sizes

GRADIENT = {"forward": 1, "training": 3, "probes": 3, "search": 3, "attacks": 3}
BYTES = {"forward": 4, "training": 16}  # per parameter: a float; with its gradient and Adam's two
ACTIVATIONS = 68  # bytes per token and width of a block (Korthikanti et al. 2022, in 32 bits)
COPIES = 3  # of the states that probes read: plain, standardised, edited


class Work(BaseModel):
    """Something that each run of a sweep does.

    - `work`: "forward" or "training" of a network; on states "probes" (chapter 1's grid), "search"
      (chapter 3's) or "attacks"
    - `of`: the parameters that a token passes: a number, a model of `data/model_sizes.csv`, or the
      page's parameter that names models (all of them, one after the other)
    - `tokens`: that pass them; of states, rows
    - `times`: factors: numbers, or numbers and lists (how long) among the page's parameters
    - `batch`: tokens of a batch. `copies`: networks in memory at once. `width`: of states
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    work: Literal["forward", "training", "probes", "search", "attacks"]
    of: PositiveInt | str = Field(union_mode="left_to_right")  # of text
    tokens: PositiveFloat
    times: list[
        Annotated[Annotated[float, Field(gt=0)] | str, Field(union_mode="left_to_right")]
    ] = []
    batch: PositiveInt = 8192
    copies: PositiveInt = 1
    width: PositiveInt = 768

    def check(self, types: Mapping[str, Any]) -> None:
        """UserError for a name that is neither the page's nor, for `of`, a model's."""
        if isinstance(self.of, str) and self.of not in (*types, *model_sizes()):
            raise UserError(
                f"cost: of = {self.of!r}: a number, a parameter of the page, or a "
                "model of data/model_sizes.csv"
            )
        if unknown := [name for name in self.times if isinstance(name, str) and name not in types]:
            raise UserError(f"cost: times = {unknown[0]!r}: a number, or a parameter of the page")

    def operations(self, values: Mapping[str, Any]) -> float:
        """Of a run with these values. UserError: a model of unknown size."""
        passed = float(sum(size.in_blocks for size in self._sizes(values)))
        for factor in self.times:
            value = values[factor] if isinstance(factor, str) else factor
            passed *= len(value) if isinstance(value, list) else float(value)
        return 2 * GRADIENT[self.work] * passed * self.tokens

    def memory(self, values: Mapping[str, Any]) -> float:
        """Bytes that a run with these values takes at its peak."""
        if self.work not in BYTES:
            return 4.0 * COPIES * self.tokens * self.width
        each = []
        for size in self._sizes(values):
            blocks = 1 if self.work == "forward" else size.layers
            weights = self.copies * BYTES[self.work] * size.parameters
            each.append(weights + ACTIVATIONS * self.batch * size.width * blocks)
        return float(max(each))

    def _sizes(self, values: Mapping[str, Any]) -> list[Size]:
        if isinstance(self.of, int):
            return [Size(1, 0, self.of, self.of)]
        named, sizes = values.get(self.of, self.of), model_sizes()
        names = named if isinstance(named, list) else [named]
        if unknown := [name for name in names if name not in sizes]:
            raise UserError(f"{unknown[0]} is not in data/model_sizes.csv")
        return [sizes[name] for name in names]


class Estimate(NamedTuple):
    """The cost of runs: operations by kind of work, and the largest run's bytes."""

    operations: dict[str, float]
    network: float
    states: float

    def hours(self) -> dict[str, float]:
        """Machine → hours, where every kind of work was measured."""
        return {
            machine: sum(n / speeds[work] for work, n in self.operations.items()) / 3600
            for machine, speeds in throughput().items()
            if speeds.keys() >= {*self.operations}
        }


def estimate(cost: Sequence[Work], runs: Sequence[Mapping[str, Any]]) -> Estimate:
    """The cost of runs with these values. UserError: a model of unknown size."""
    operations: dict[str, float] = {}
    for work in cost:
        done = sum(work.operations(values) for values in runs)
        operations[work.work] = operations.get(work.work, 0) + done
    peaks = [(work.work in BYTES, work.memory(values)) for work in cost for values in runs]
    network, states = (
        max([size for kind, size in peaks if kind == wanted], default=0.0)
        for wanted in (True, False)
    )
    return Estimate(operations, network, states)


def lines(cost: Sequence[Work], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What `probebook sweep --dry-run` says of the cost of all runs, finished or not."""
    if not cost:
        return []
    try:
        total = estimate(cost, runs)
    except UserError as e:
        return [f"cost: no estimate, {e}"]
    parts = ", ".join(f"{work} {n:.2g}" for work, n in total.operations.items())
    memory = [
        f"{what} {size / 1e9:.1f} GB"
        for what, size in (("network", total.network), ("states", total.states))
        if size
    ]
    return [
        f"operations of all runs: {parts}; memory of the largest: {', '.join(memory)}",
        *(f"about {hours:,.1f} hours on {machine}" for machine, hours in total.hours().items()),
    ]


@cache
def throughput() -> dict[str, dict[str, float]]:
    """Machine → work → operations per second, as measured by `benchmarks/throughput.py`."""
    machines: dict[str, dict[str, float]] = {}
    path = DATA / "throughput.csv"
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                speeds = machines.setdefault(row["machine"], {})
                speeds[row["work"]] = float(row["operations_per_second"])
    return machines
