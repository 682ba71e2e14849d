"""Does the model's behaviour follow the edit, as it follows the rewriting of the text?"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from probebook.base import to_numpy
from probebook_audit.case import Case
from probebook_audit.fitting import ACTUAL, RANDOM, SHUFFLED
from probebook_audit.layer import Layer, figure
from probebook_audit.questions.counterfactual import where

LEAST_EFFECT = 0.01  # a total variation below which rewriting counts as no effect


def effects(case: Case, edited: Tensor, before: Tensor) -> dict[str, np.ndarray]:
    """What the edited test items' states [m, d] do to the model's choice, `before` [m, c] being
    that from the unedited ones; the scores are those of `measuring.consequences`."""
    rows = case.test
    found: dict[str, np.ndarray] = {}
    if case.probs is None:
        return found
    after = case.probs(edited, rows)
    found["moved"] = to_numpy((after - before).abs().sum(1) / 2)
    if case.true is not None and case.paired is not None:
        some, true = to_numpy(case.paired[rows]), case.true[rows]
        told = some & ~to_numpy(true.isnan().any(1))
        found["rewriting"] = where(some, (true - before).abs().sum(1) / 2)
        found["error"] = where(some, (after - true).norm(dim=1))
        found["effect"] = where(some, (before - true).norm(dim=1))
        found["follows"] = where(told, (after.argmax(1) == true.argmax(1)).double())
    return found


def answer(layer: Layer, best: str) -> dict:
    """The share of rewriting's effect on the choice that the best edit explains."""
    if not best or (best, ACTUAL, layer.strength[best], "moved") not in layer.beyond:
        return {"word": "not asked", "what": best, "control": ""}
    name = layer.strength[best]
    about: dict[str, Any] = {"what": best, "control": "random edits"}
    if (best, ACTUAL, name, "effect") not in layer.beyond:
        moved, random = (
            layer.beyond[best, kind, name, "moved"].to_numpy() for kind in (ACTUAL, RANDOM)
        )
        return about | {"word": "moves", "control_value": float(random[0]), **figure(moved)}
    moved = figure(layer.beyond[best, ACTUAL, name, "rewriting"].to_numpy())
    about |= {f"rewriting {end}": number for end, number in moved.items()}
    if moved["high"] < LEAST_EFFECT:
        return about | {"word": "unused", "control": "", **moved}
    explained, random, mixed = (
        layer.share(best, kind, "error", "effect") for kind in (ACTUAL, RANDOM, SHUFFLED)
    )
    low = min(figure(explained - other)["low"] for other in (random, mixed, 0 * random))
    return about | {
        "word": "follows" if low > 0 else "does not follow",
        "control_value": float(random[0]),
        **figure(explained),
    }
