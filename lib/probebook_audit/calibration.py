"""The audit of planted worlds, whose truth is known: does its verdict fit?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from probebook.base import UserError, to_numpy
from probebook_audit.case import Case, check_division, choice_probabilities
from probebook_audit.measuring import measure
from probebook_audit.monitor import TRAIN, Monitored
from probebook_audit.result import conclude
from probebook_chapters import planted

REFUSED = "refused"  # the audit asks for other data before it begins


def from_planted(world: planted.Planted, rewritten: bool = True) -> Case:
    """The case of a world whose truth is known; a quarter of the groups, drawn at random, are the
    test. `rewritten`: whether the audit is given the states of the rewritten items."""
    h, pair, head = map(torch.from_numpy, (world.h, world.pair, world.head))
    groups, k = int(world.group.max()) + 1, int(world.label.max()) + 1
    rewritten &= k == 2
    chosen = np.random.default_rng(groups).permutation(groups)[: groups // 4]
    probs = choice_probabilities(head)
    return Case(
        h,
        torch.from_numpy(world.label),
        k,
        {"other": torch.from_numpy(world.other)},
        world.group,
        torch.from_numpy(np.flatnonzero(np.isin(world.group, chosen))),
        world.text,
        pair if rewritten else None,
        torch.ones(len(h), dtype=torch.bool) if rewritten else None,
        None,
        probs,
        probs(pair, torch.arange(0)) if rewritten else None,
        known=world.known,
    )


def audit_planted(
    kind: str,
    seeds: Sequence[int],
    base: np.ndarray | None = None,
    n: int = 2000,
    margin: float = 2.0,
    weight: float = 1.0,
    trainings: int = 5,
    rare: float = 0.5,
    rewritten: bool = True,
) -> pd.DataFrame:
    """Audit planted worlds of one kind, one for each seed; a row for each world.

    Columns kind, seed, verdict ("refused": too few groups), named (the planted source is named),
    moved, low, high (how far rewriting moves the model's choice, as the audit says it), and
    truth."""
    rows = []
    for seed in seeds:
        world = planted.world(kind, n, seed, margin=margin, weight=weight, base=base, rare=rare)
        row = {"kind": kind, "seed": seed, "verdict": REFUSED, "named": 0}
        try:
            row |= _audit(from_planted(world, rewritten), kind, trainings)
        except UserError as refusal:
            assert "give more groups" in str(refusal)
        rows.append(row | {"truth": world.moved})
    return pd.DataFrame(
        rows, columns=["kind", "seed", "verdict", "named", "moved", "low", "high", "truth"]
    )


def _audit(case: Case, kind: str, trainings: int) -> dict:
    check_division(to_numpy(case.z), case.group, case.test, trainings)
    methods = ["LEACE", "MeanShift", "FGSM"]
    layer = measure(case, trainings, methods, [0.5, 1, 2], [1], 150, 500)
    result = conclude([layer], 0.5, len(case.h))
    answers = result.answers.set_index("question")
    shortcut, about = answers.loc["shortcut"], answers.loc["behaviour"]
    source, told = planted.KINDS[kind].source, shortcut.word in ("named", "cannot be told")
    found = told and bool(source) and source in shortcut.what
    ends = {"moved": "value", "low": "low", "high": "high"}
    moved = {name: about.get(f"rewriting {end}") for name, end in ends.items()}
    return {"verdict": result.verdict.value, "named": int(found), **moved}


MONITORED = ("true", "nuisance", "another direction", "shifted", "few texts")  # kinds of worlds
ELSEWHERE = "other text"
APART = 2.5  # distance of the two labels' means, in standard deviations


def planted_monitor(kind: str, seed: int, n: int = 900, width: int = 24) -> Monitored:
    """A planted world of `MONITORED` to audit a monitor on: `n` training texts, and other text.

    The states are Gaussian noise with the label along one direction: "true". In the others
    something is wrong: the states hold a mark that goes with 98 % of the training labels, and of
    the others with none ("nuisance"); the label lies along another direction in the other text;
    there all states are shifted towards the alarm; or there are sixty of them."""
    if kind not in MONITORED:
        raise UserError(f"{kind!r} is not a valid kind: expected one of {', '.join(MONITORED)}")
    rng = np.random.default_rng([seed, MONITORED.index(kind)])
    first, second = np.linalg.qr(rng.normal(size=(width, 2)))[0].T
    sizes = [n, 60 if kind == "few texts" else n]
    train = np.arange(sum(sizes)) < n
    z, mark = rng.integers(0, 2, (2, len(train)))
    mark = np.where(train & (kind == "nuisance") & (rng.random(len(train)) < 0.98), z, mark)
    along = np.where(train[:, None] | (kind != "another direction"), first, second)
    told = mark if kind == "nuisance" else z
    h = rng.normal(size=(len(train), width)) + APART * (told[:, None] - 0.5) * along
    h += ~train[:, None] * (kind == "shifted") * first
    part = np.where(train, TRAIN, ELSEWHERE).astype(object)
    return Monitored(
        {1: torch.from_numpy(h).float()}, z, part, np.arange(len(z)), {"mark": mark}, {}
    )
