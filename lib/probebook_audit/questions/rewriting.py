"""What rewriting the text would do: does the edit go the same way, and the model's choice too?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from probebook.base import to_numpy
from probebook_audit.case import Case
from probebook_audit.fitting import ACTUAL, RANDOM, SHUFFLED, Fit
from probebook_audit.layer import LayerResult, estimate

LEAST_EFFECT = 0.01  # a total variation below which rewriting counts as no effect


def score_effects(case: Case, fitted: Fit, strengths: Mapping[str, float]) -> pd.DataFrame:
    """What edits at one strength do beyond the probes, on the test items; columns as in
    `score_edits`.

    "far": distance to the rewritten text's state, "way": that of the unedited state. "error": of
    the edit's effect on the model's probabilities, "effect": length of rewriting's effect;
    "follows": the model chooses as for the rewritten text; "moved": total variation by the edit,
    "rewriting": by rewriting the text."""
    rows = case.test
    x, to = case.h[rows], case.target_labels(rows, fitted.seed)
    before = None if case.probs is None else case.probs(x, rows)
    columns = {}
    for (method, kind), by_strength in fitted.edits.items():
        strength = strengths[method]
        scores = []
        for edit in by_strength[strength]:
            edited = edit(x, to).detach()
            scores.append(_distances(case, edited) | _effects(case, edited, before))
        for what in scores[0]:
            columns[method, kind, strength, what] = np.mean([one[what] for one in scores], axis=0)
    return pd.DataFrame(columns)


def _distances(case: Case, edited: Tensor) -> dict[str, np.ndarray]:
    """Of the edited test items' states [m, d]: "far", the distance [m] to the rewritten text's
    state, and "way", that of the unedited state; NaN where a text has none."""
    rows = case.test
    if case.partner is None or case.paired is None:
        return {}
    some, there = to_numpy(case.paired[rows]), case.partner[rows]
    return {
        "far": _where(some, (edited - there).norm(dim=1)),
        "way": _where(some, (case.h[rows] - there).norm(dim=1)),
    }


def _where(some: np.ndarray, values: Tensor) -> np.ndarray:
    """The values [m] as an array, with NaN where an item has none."""
    return np.where(some, to_numpy(values.double()), np.nan)


def answer_pairs(layer: LayerResult, best: str) -> dict:
    """The share of the way to the rewritten text's state that the best edit goes."""
    if not best or (best, ACTUAL, layer.strength[best], "far") not in layer.effect_draws:
        return {"word": "not asked", "what": best, "control": ""}
    closeness, random = (layer.reduction(best, kind, "far", "way") for kind in (ACTUAL, RANDOM))
    nearer = estimate(closeness)
    return {
        "word": "nearer" if nearer["low"] > 0 else "not nearer",
        "what": best,
        "control": "random edits",
        "control_value": float(random[0]),
        **nearer,
    }


def _effects(case: Case, edited: Tensor, before: Tensor | None) -> dict[str, np.ndarray]:
    """What the edited test items' states [m, d] do to the model's choice, `before` [m, c] being
    that from the unedited ones; the scores are those of `score_effects`."""
    rows = case.test
    found: dict[str, np.ndarray] = {}
    if case.probs is None or before is None:
        return found
    after = case.probs(edited, rows)
    found["moved"] = to_numpy((after - before).abs().sum(1) / 2)
    if case.true is not None and case.paired is not None:
        some, true = to_numpy(case.paired[rows]), case.true[rows]
        known = some & ~to_numpy(true.isnan().any(1))
        found["rewriting"] = _where(some, (true - before).abs().sum(1) / 2)
        found["error"] = _where(some, (after - true).norm(dim=1))
        found["effect"] = _where(some, (before - true).norm(dim=1))
        found["follows"] = _where(known, (after.argmax(1) == true.argmax(1)).double())
    return found


def answer_behaviour(layer: LayerResult, best: str) -> dict:
    """The share of rewriting's effect on the choice that the best edit explains."""
    if not best or (best, ACTUAL, layer.strength[best], "moved") not in layer.effect_draws:
        return {"word": "not asked", "what": best, "control": ""}
    name = layer.strength[best]
    about: dict[str, Any] = {"what": best, "control": "random edits"}
    if (best, ACTUAL, name, "effect") not in layer.effect_draws:
        moved, random = (
            layer.effect_draws[best, kind, name, "moved"].to_numpy() for kind in (ACTUAL, RANDOM)
        )
        return about | {"word": "moves", "control_value": float(random[0]), **estimate(moved)}
    moved = estimate(layer.effect_draws[best, ACTUAL, name, "rewriting"].to_numpy())
    about |= {f"rewriting {end}": number for end, number in moved.items()}
    if moved["high"] < LEAST_EFFECT:
        return about | {"word": "unused", "control": "", **moved}
    explained, random, mixed = (
        layer.reduction(best, kind, "error", "effect") for kind in (ACTUAL, RANDOM, SHUFFLED)
    )
    low = min(estimate(explained - other)["low"] for other in (random, mixed, 0 * random))
    return about | {
        "word": "follows" if low > 0 else "does not follow",
        "control_value": float(random[0]),
        **estimate(explained),
    }
