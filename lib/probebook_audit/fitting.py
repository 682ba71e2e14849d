"""Everything fitted for one seed: judges of the label and of what should stay, edits, controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from probebook.base import UserError
from probebook.interventions import (
    FGSM,
    INLP,
    LEACE,
    PGD,
    RLACE,
    AffineSteering,
    AlterRep,
    MatchedDirection,
    MatchedSubspace,
    MeanShift,
    shuffled,
)
from probebook.probes import LinearDiscriminant, LinearProbe, MLPProbe
from probebook.probes.logistic_regression import ROWS
from probebook.probes.moments import Moments, moments
from probebook_audit.case import Case, Probe, split_groups, uncorrelated_rows

METHODS = ("LEACE", "INLP", "RLACE", "MeanShift", "AffineSteering", "AlterRep", "FGSM", "PGD")
ERASE = ("LEACE", "INLP", "RLACE")
STREAMED = ("LEACE", "MeanShift")  # which need sums over the states alone
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

    `doses` multiply each method's natural strength (`_of`). `others`: one seed's of `of_others`,
    from which LEACE, MeanShift and the probe learn too. UserError: unknown methods."""
    for method in methods:
        if method not in METHODS:
            raise UserError(f"unknown method {method!r}: {', '.join(METHODS)}")
    parts = split_groups(case, seed)
    judges, trained = {}, {}
    for name in ("", *case.keep):
        rows = _enough(case, uncorrelated_rows(case, parts["oracle"], name), name)
        trained[name] = len(rows)
        if len(rows):
            z = case.keep[name][rows] if name else case.z[rows]
            for kind in JUDGES:
                judges[kind, name] = _judge(kind, case.h[rows], z, seed)
    rows = parts["fit"]
    x, z = case.h[rows], case.z[rows]
    edits: dict[tuple[str, str], dict[float, list[Callable]]] = {}
    labels = torch.stack([z, shuffled(z, seed=seed + 1)], 1)
    both = _with(others, x, labels) or [None, None]
    fitted, mixed = (
        {method: _of(method, x, own, seed, doses, ranks, sums) for method in methods}
        for own, sums in zip(labels.T, both)
    )
    for method in methods:
        own = {s: _called(method, one) for s, one in fitted[method].items()}
        edits[method, ACTUAL] = {s: [edit] for s, edit in own.items()}
        edits[method, RANDOM] = {
            s: [_elsewhere(edit, seed * TURNS + turn, x.shape[1]) for turn in range(TURNS)]
            for s, edit in own.items()
        }
        edits[method, SHUFFLED] = {s: [_called(method, one)] for s, one in mixed[method].items()}
    probe = case.saved or _reader(case, rows, parts["valid"], both[0])
    return Fit(seed, rows, parts["valid"], probe, judges, trained, edits, fitted)


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


def _with(others: Sequence[Moments], x: Tensor, labels: Tensor) -> list[Moments | None]:
    """The moments of further states and of x [n, d] together, under each labelling [n, m]."""
    if not others:
        return []
    parts = zip(x.split(ROWS), labels.split(ROWS))
    own = moments(parts, len(others[0].counts), others[0].origin)
    return [one + other for one, other in zip(own, others)]


def _enough(case: Case, rows: Tensor, name: str) -> Tensor:
    """The rows, or none if a value has fewer than two."""
    z = (case.keep[name] if name else case.z)[rows]
    k = int(case.keep[name].max()) + 1 if name else case.k
    return rows if len(rows) and int(z.bincount(minlength=k).min()) >= 2 else rows[:0]


def _judge(kind: str, h: Tensor, z: Tensor, seed: int) -> Probe:
    if kind == "linear":
        return linear(h, z)
    return MLPProbe(width=64, lr=1e-3, seed=seed, epochs=12).fit(h, z)


def _of(
    method: str,
    x: Tensor,
    z: Tensor,
    seed: int,
    doses: Sequence[float],
    ranks: Sequence[int],
    sums: Moments | None = None,
) -> dict[float, Any]:
    """A fitted method at each strength: ranks for INLP, doses for what flips. A dose multiplies 1
    for MeanShift and AffineSteering, 2 for AlterRep, and for attacks the mean distance of the
    states from their mean. `sums`: what LEACE and MeanShift learn from in place of x and z."""
    if sums is not None and method in STREAMED:
        if method == "LEACE":
            return {1.0: LEACE().fit_moments(sums)}
        moved = MeanShift().fit_moments(sums)
        return {dose: moved.at(dose) for dose in doses}
    if method == "INLP":
        inlp = INLP(max(ranks), C=0.1).fit(x, z)
        return {float(rank): inlp.at(rank=rank) for rank in ranks}
    if method in ERASE:
        return {1.0: (LEACE() if method == "LEACE" else RLACE(seed=seed)).fit(x, z)}
    if method in ("FGSM", "PGD"):
        size = float((x - x.mean(0)).norm(dim=1).mean())
        probe = MLPProbe(width=64, lr=1e-3, seed=seed, epochs=12).fit(x, z)
        attack: Any = FGSM(probe, norm="l2") if method == "FGSM" else PGD(probe, norm="l2")
        return {dose: attack.at(eps=dose * size) for dose in doses}
    if method == "AlterRep":
        alter = AlterRep(max(ranks), C=0.1).fit(x, z)
        return {dose: alter.at(2 * dose) for dose in doses}
    steer: Any = (MeanShift() if method == "MeanShift" else AffineSteering()).fit(x, z)
    return {dose: steer.at(dose) for dose in doses}


def _called(method: str, fitted: Any) -> Callable:
    """A fitted edit as a function of states and wanted labels."""
    return (lambda h, to: fitted(h)) if method in ERASE else (lambda h, to: fitted(h, to=to))


def _elsewhere(edit: Callable, seed: int, width: int) -> Callable:
    """States moved as far as by the edit, turned by a random rotation; of wide states, whose
    rotations take long to draw, along one random direction."""
    control = (MatchedSubspace if width <= WIDE else MatchedDirection)(edit, seed)
    return lambda h, to: control(h, to)
