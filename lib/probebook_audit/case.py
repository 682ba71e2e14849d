"""A case: the items of an audit at one layer, and how they are divided.

Test groups are fixed; each seed divides the other groups anew into those that train the judges and
those that fit probes and edits, so the intervals include both sources of variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.stats import contingency
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.corpora import agreement
from probebook.devices import place_states
from probebook.probes.moments import Moments
from probebook_audit.labelled import Labelled

FEWEST_TO_FIT = 2  # items of each class
Probe = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """Items to be audited at one layer.

    - `h` [n, d] float32, `z` [n] with `k` values, `keep`: property → [n] (−1: none)
    - `group` [n], `text`, `known`: as in `labelled`
    - `partner` [n, d]: states of the rewritten texts; `paired` [n]: which items have one
    - `twin` [n, d]: states of the same model with random weights
    - `probs(h, rows)` → [m, c]: the model's choice from states of `rows`; `true` [n, c]: for the
      rewritten texts
    - `test`: rows that nothing is fitted on; all groups are on one side
    - `saved`: a probe that a reader brought, judged in place of one fitted here
    - `others(labels [N, m])`: moments under each labelling of N further states, which are not in
      memory and of other groups; `other_z` [N]: their labels
    - `notes`: what was assumed, cut or left out to get the states, in sentences"""

    h: Tensor
    z: Tensor
    k: int
    keep: Mapping[str, Tensor]
    group: np.ndarray
    test: Tensor
    text: list[str] | None = None
    partner: Tensor | None = None
    paired: Tensor | None = None
    twin: Tensor | None = None
    probs: Callable[[Tensor, Tensor], Tensor] | None = None
    true: Tensor | None = None
    layer: int = -1
    saved: Probe | None = None
    others: Callable[[Tensor], list[Moments]] | None = None
    other_z: Tensor | None = None
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Bring everything to where the states are worked on."""
        h = place_states(self.h)

        def place(x: Any) -> Any:
            return x.to(h.device) if isinstance(x, Tensor) else x

        values = {name: place(value) for name, value in vars(self).items()} | {
            "h": h,
            "keep": {name: place(value) for name, value in self.keep.items()},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def target_labels(self, rows: Tensor, seed: int = 0) -> Tensor:
        """Another label for each of the rows: that of the rewritten text if there are two."""
        step = np.random.default_rng([seed, 77]).integers(1, self.k, len(rows))
        return (self.z[rows] + torch.from_numpy(step).to(self.z.device)) % self.k


def test_rows(data: Labelled, most: int = 1000, share: float = 0.25) -> Tensor:
    """Rows of whole groups for the test: about `share` of the items and at most `most`; the same in
    every report on the same data. UserError: a class is missing on one side."""
    sizes = np.bincount(data.group)
    order = np.random.default_rng(0).permutation(len(sizes))
    wanted = min(most, share * len(data.z))
    chosen = order[np.cumsum(sizes[order]) <= wanted]
    inside = np.isin(data.group, chosen)
    for side in (inside, ~inside):
        if np.bincount(data.z[side], minlength=len(data.classes)).min() < 2:
            raise UserError(
                f"{data.name}: after the split by groups one side has fewer than 2 items of a "
                "class: give more groups, or classes that are not one group each"
            )
    return torch.from_numpy(np.flatnonzero(inside))


def split_groups(group: np.ndarray, test: Tensor, seed: int) -> dict[str, Tensor]:
    """The groups outside of the test in three parts: oracle (45 %), fit (40 %), valid (15 %)."""
    rest = np.setdiff1d(np.arange(len(group)), to_numpy(test))
    number = np.unique(group[rest], return_inverse=True)[1]
    sizes = np.bincount(number)
    order = np.random.default_rng([seed, 1]).permutation(len(sizes))
    part: Any = np.zeros(len(sizes), dtype=np.int64)
    begin = np.cumsum(sizes[order]) - sizes[order]  # of each group, in this order
    part[order] = np.searchsorted([0.45 * len(rest), 0.85 * len(rest)], begin, side="right")
    part = part[number]
    return {
        name: torch.from_numpy(rest[part == i]).to(test.device)
        for i, name in enumerate(("oracle", "fit", "valid"))
    }


def check_division(
    z: np.ndarray, group: np.ndarray, test: Tensor, seeds: int, name: str = "the items"
) -> None:
    """UserError if a seed's division would leave too few items of a class to fit on, or none to
    choose strengths on."""
    for seed in range(seeds):
        parts = split_groups(group, test, seed)
        least = np.bincount(z[to_numpy(parts["fit"])], minlength=z.max() + 1).min()
        if least < FEWEST_TO_FIT or not len(parts["valid"]):
            raise UserError(
                f"{name}: {len({*group})} groups are too few: seed {seed} would fit on {least} "
                "items of a class; give more groups, or classes that are not one group each"
            )


def association(a: Tensor, b: Tensor) -> float:
    """Cramér's V of two properties [n], from 0 (independent) to 1; "none" (−1) counts as a
    value."""
    table = contingency.crosstab(to_numpy(a), to_numpy(b)).count
    return float(contingency.association(table)) if min(table.shape) > 1 else 0.0


def predict_by_rule(source: np.ndarray, z: np.ndarray, k: int, values: np.ndarray) -> np.ndarray:
    """The label that goes most often with each value of a source [n], for `values`;
    values never seen get the most frequent label."""
    usual = np.bincount(z, minlength=k).argmax()
    best = {
        value: int(np.bincount(z[source == value], minlength=k).argmax())
        for value in np.unique(source)
    }
    return np.array([best.get(value, int(usual)) for value in values])


def uncorrelated_rows(case: Case, rows: Tensor, name: str) -> Tensor:
    """Rows in which the property `name` ("": the label) says nothing about the other: the label, or
    the property to keep that goes with it most. All rows where nothing should stay."""
    if not case.keep:
        return rows
    z = case.z[rows]
    if name:
        w = case.keep[name][rows]
        rows, z, w = rows[w >= 0], z[w >= 0], w[w >= 0]
        kept = agreement.decorrelate(w, z) if len(rows) else np.arange(0)
    else:
        closest = max(case.keep, key=lambda one: association(z, case.keep[one][rows]))
        kept = agreement.decorrelate(z, case.keep[closest][rows] + 1)
    return rows[torch.from_numpy(kept)]


def choice_probabilities(head: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Probabilities [m, c] of the choices from states, `head` [c, d] giving their log-odds."""
    return lambda h, rows: (h.double() @ head.to(h.device).double().T).softmax(1)
