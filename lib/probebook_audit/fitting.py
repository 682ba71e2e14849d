"""Everything fitted for one seed: judges of the label and of what should stay, edits, controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from probebook.base import UserError
from probebook.interventions import MatchedDirection, MatchedSubspace, shuffled
from probebook.interventions.table import INTERVENTIONS, FitData, Intervention
from probebook.probes import LinearDiscriminant, LinearProbe, MLPProbe
from probebook.probes.logistic_regression import ROWS
from probebook.probes.moments import Moments, moments
from probebook_audit.case import Case, Probe, split_groups, uncorrelated_rows

METHODS = {
    row.name: row
    for row in INTERVENTIONS.values()
    if row.needs in ("states", "probe") and row.speed != "very slow"
}
ERASE = tuple(name for name, row in METHODS.items() if not row.flips)
STREAMED = tuple(name for name, row in METHODS.items() if row.streamed)
JUDGES = ("linear", "perceptron")
ACTUAL, RANDOM, SHUFFLED = "edit", "random", "shuffled"
CONTROLS = (RANDOM, SHUFFLED)
TURNS = 4  # random edits for each edit and seed
WIDE = 1024


@dataclass(frozen=True)
class Fit:
    """One seed's division and what it learned: rows by part, judges, edits by method and kind.

    `probe` reads the label; `judges`: (kind, property) → probe, property "" for the label;
    `trained`: property → number of uncorrelated training items; `edits`: (method, kind of edit) →
    strength → functions of (h, to), whose scores are averaged; `fitted`: method → strength → the
    fitted edit of the true labels."""

    seed: int
    fit: Tensor
    valid: Tensor
    probe: Probe
    judges: dict[tuple[str, str], Probe]
    trained: dict[str, int]
    edits: dict[tuple[str, str], dict[float, list[Callable]]]
    fitted: dict[str, dict[float, Any]] = field(default_factory=dict)


def of_others(case: Case, seeds: int) -> list[list[Moments]]:
    """For each seed the moments of the states that are not in memory, under their labels and under
    shuffled ones, from one pass through the file; empty lists: there are none."""
    if case.others is None or case.other_z is None:
        return [[] for _ in range(seeds)]
    mixed = [shuffled(case.other_z, seed=seed + 1) for seed in range(seeds)]
    found = case.others(torch.stack([case.other_z, *mixed], 1))
    return [[found[0], one] for one in found[1:]]


def fit(
    case: Case,
    seed: int,
    methods: Sequence[str],
    doses: Sequence[float],
    ranks: Sequence[int],
    others: Sequence[Moments] = (),
) -> Fit:
    """Divide, train the judges, and fit every method on the labels and on shuffled ones.

    `doses` multiply each method's natural strength. `others`: one seed's of `of_others`, from which
    the `STREAMED` methods and the probe learn too. UserError: unknown methods."""
    check_methods(methods)
    parts = split_groups(case.group, case.test, seed)
    perceptron = MLPProbe(width=64, lr=1e-3, seed=seed, epochs=12)
    judges: dict[tuple[str, str], Probe] = {}
    trained = {}
    for name in ("", *case.keep):
        rows = _enough(case, uncorrelated_rows(case, parts["oracle"], name), name)
        trained[name] = len(rows)
        if len(rows):
            z = case.keep[name][rows] if name else case.z[rows]
            for kind, fit_judge in zip(JUDGES, (linear, perceptron.fit)):
                judges[kind, name] = fit_judge(case.h[rows], z)
    rows = parts["fit"]
    x, z = case.h[rows], case.z[rows]
    edits: dict[tuple[str, str], dict[float, list[Callable]]] = {}
    labels = torch.stack([z, shuffled(z, seed=seed + 1)], 1)
    both: Sequence[Moments | None] = [None, None]
    if others:
        parts_of_fit = zip(x.split(ROWS), labels.split(ROWS))
        own = moments(parts_of_fit, len(others[0].counts), others[0].origin)
        both = [one + other for one, other in zip(own, others)]
    true, mixed = (
        FitData(x, of_items, seed, max(ranks), perceptron, sums=sums)
        for of_items, sums in zip(labels.T, both)
    )
    fitted: dict[str, dict[float, Any]] = {}
    for method in methods:
        row = METHODS[method]
        fitted[method] = _strengths(row, true, doses, ranks)
        applied = {s: row.apply(edit, true) for s, edit in fitted[method].items()}
        edits[method, ACTUAL] = {s: [edit] for s, edit in applied.items()}
        edits[method, RANDOM] = {
            s: [_turned(edit, seed * TURNS + turn, x.shape[1]) for turn in range(TURNS)]
            for s, edit in applied.items()
        }
        edits[method, SHUFFLED] = {
            s: [row.apply(edit, mixed)] for s, edit in _strengths(row, mixed, doses, ranks).items()
        }
    probe = case.saved or _reader(case, rows, parts["valid"], both[0])
    return Fit(seed, rows, parts["valid"], probe, judges, trained, edits, fitted)


def check_methods(methods: Sequence[str]) -> None:
    """UserError if a method is none that the audit knows."""
    for method in methods:
        if method not in METHODS:
            raise UserError(
                f"{method!r} is not a valid method: expected one of {', '.join(METHODS)}"
            )


def linear(h: Tensor, z: Tensor) -> Probe:
    """The linear probe of the audit, fitted on h [n, d] and z [n]."""
    return LinearProbe(C=0.1).fit(h, z)


def _reader(case: Case, rows: Tensor, valid: Tensor, sums: Moments | None) -> Probe:
    """The linear probe of the rows; with sums over more states the linear discriminant from these,
    if it is right more often on the valid items."""
    probes = [linear(case.h[rows], case.z[rows])]
    if sums is not None:
        probes.append(LinearDiscriminant().fit_moments(sums))
    h, z = case.h[valid], case.z[valid]
    return max(probes, key=lambda probe: float((probe(h).argmax(1) == z).double().mean()))


def _enough(case: Case, rows: Tensor, name: str) -> Tensor:
    """The rows, or none if a value has fewer than two."""
    z = (case.keep[name] if name else case.z)[rows]
    k = int(case.keep[name].max()) + 1 if name else case.k
    return rows if len(rows) and int(z.bincount(minlength=k).min()) >= 2 else rows[:0]


def _strengths(
    row: Intervention, data: FitData, doses: Sequence[float], ranks: Sequence[int]
) -> dict[float, Any]:
    """A fitted method by strength: ranks for INLP, doses for what flips, else 1 alone."""
    edit = row.fit(data)
    if row.scale is None:
        return {1.0: edit}
    if row.scale == "rank":
        return {float(rank): row.at(edit, rank, data) for rank in ranks}
    return {dose: row.at(edit, row.natural * dose, data) for dose in doses}


def _turned(edit: Callable, seed: int, width: int) -> Callable:
    """States moved as far as by the edit, turned by a random rotation; of wide states, whose
    rotations take long to draw, along one random direction."""
    control = (MatchedSubspace if width <= WIDE else MatchedDirection)(edit, seed)
    return lambda h, to: control(h, to)
