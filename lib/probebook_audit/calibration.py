"""The audit of planted worlds, whose truth is known: does its verdict fit?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from probebook_audit.case import Case, choice_probabilities
from probebook_audit.measuring import measure
from probebook_audit.result import conclude
from probebook_chapters import planted


def from_planted(world: planted.Planted) -> Case:
    """The case of a world whose truth is known; a quarter of the groups, drawn at random, are the
    test."""
    h, pair, head = map(torch.from_numpy, (world.h, world.pair, world.head))
    groups = int(world.group.max()) + 1
    chosen = np.random.default_rng(groups).permutation(groups)[: groups // 4]
    probs = choice_probabilities(head)
    return Case(
        h,
        torch.from_numpy(world.label),
        2,
        {"other": torch.from_numpy(world.other)},
        world.group,
        torch.from_numpy(np.flatnonzero(np.isin(world.group, chosen))),
        None,
        pair,
        torch.ones(len(h), dtype=torch.bool),
        None,
        probs,
        probs(pair, torch.arange(0)),
    )


def audit_planted(
    kind: str,
    seeds: Sequence[int],
    base: np.ndarray | None = None,
    n: int = 2000,
    margin: float = 2.0,
    weight: float = 1.0,
    trainings: int = 5,
) -> pd.DataFrame:
    """Audit planted worlds of one kind, one for each seed; a row for each world.

    Columns kind, seed, verdict, named (the planted shortcut is named), moved, low, high (how far
    rewriting moves the model's choice, as the audit says it), and truth."""
    rows = []
    for seed in seeds:
        world = planted.world(kind, n, seed, margin=margin, weight=weight, base=base)
        layer = measure(
            from_planted(world),
            trainings,
            ["LEACE", "MeanShift", "FGSM"],
            [0.5, 1, 2],
            [1],
            150,
            500,
        )
        result = conclude([layer], 0.5, len(world.h))
        answers = result.answers.set_index("question")
        moved = [
            answers.get(f"rewriting {end}", pd.Series(dtype=float)).get("behaviour", np.nan)
            for end in ("value", "low", "high")
        ]
        shortcut = answers.loc["shortcut"]
        rows.append(
            {
                "kind": kind,
                "seed": seed,
                "verdict": result.verdict.value,
                "named": int(shortcut.word == "named" and "other" in shortcut.what),
                **dict(zip(("moved", "low", "high"), moved)),
                "truth": world.moved,
            }
        )
    return pd.DataFrame(rows)
