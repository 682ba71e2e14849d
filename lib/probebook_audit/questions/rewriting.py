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
SAME = 1e-4  # of the mean distance of states from their mean: below it two states are the same


def score_effects(
    case: Case, fitted: Fit, rows: Tensor, strengths: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """What edits do beyond the probes, on `rows`; columns as in `score_edits`.

    "far": distance to the rewritten text's state, "way": that of the unedited state. "error": of
    the edit's effect on the model's probabilities, "effect": length of rewriting's effect;
    "follows": the model chooses as for the rewritten text; "moved": total variation by the edit,
    "rewriting": by rewriting the text.

    At each method's strength in `strengths` all of this is scored, for the edit and its controls;
    at the others only the edit's distances. None: all of it at every strength, for the edit and one
    random edit."""
    x, to = case.h[rows], case.target_labels(rows, fitted.seed)
    before = None if case.probs is None else case.probs(x, rows)
    columns = {}
    for (method, kind), by_strength in fitted.edits.items():
        for strength, edits in by_strength.items():
            chosen = strengths is None or strength == strengths[method]
            if kind == SHUFFLED if strengths is None else not chosen and kind != ACTUAL:
                continue
            scores = []
            for edit in edits[:1] if strengths is None else edits:
                edited = edit(x, to).detach()
                scores.append(_distances(case, rows, edited))
                if chosen:
                    scores[-1] |= _effects(case, rows, edited, before)
            for what in scores[0]:
                values = [one[what] for one in scores]
                columns[method, kind, strength, what] = np.mean(values, axis=0)
    return pd.DataFrame(columns)


def _distances(case: Case, rows: Tensor, edited: Tensor) -> dict[str, np.ndarray]:
    """Of the rows' edited states [m, d]: "far", the distance [m] to the rewritten text's state, and
    "way", that of the unedited state, 0 where the two hardly differ; NaN where a text has none."""
    if case.partner is None or case.paired is None:
        return {}
    some, there = to_numpy(case.paired[rows]), case.partner[rows]
    way = (case.h[rows] - there).norm(dim=1)
    least = SAME * (case.h[rows] - case.h[rows].mean(0)).norm(dim=1).mean()
    return {
        "far": _where(some, (edited - there).norm(dim=1)),
        "way": _where(some, way * (way > least)),
    }


def _where(some: np.ndarray, values: Tensor) -> np.ndarray:
    """The values [m] as an array, with NaN where an item has none."""
    return np.where(some, to_numpy(values.double()), np.nan)


def answer_pairs(layer: LayerResult, best: str) -> dict:
    """The share of the way to the rewritten text's state that the best edit goes."""
    if not best or (best, ACTUAL, layer.strength[best], "far") not in layer.effect_draws:
        return {"word": "not asked", "what": best, "control": ""}
    closeness, random = (layer.reduction(best, kind, "far", "way") for kind in (ACTUAL, RANDOM))
    if closeness is None or random is None:
        return {"word": "same state", "what": best, "control": ""}
    nearer = estimate(closeness)
    word = "nearer" if nearer["low"] > 0 else "farther" if nearer["high"] < 0 else "no nearer"
    about = {"word": word, "what": best, "control": "random edits"}
    return about | {"control_value": float(random[0]), **nearer}


def _effects(
    case: Case, rows: Tensor, edited: Tensor, before: Tensor | None
) -> dict[str, np.ndarray]:
    """What the rows' edited states [m, d] do to the model's choice, `before` [m, c] being that from
    the unedited ones; the scores are those of `score_effects`."""
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
    assert explained is not None and random is not None and mixed is not None  # it has an effect
    others = {"random edits": random, "edits by shuffled labels": mixed, "no edit": 0 * random}
    low = {name: estimate(explained - other)["low"] for name, other in others.items()}
    hardest = min(low, key=low.__getitem__)
    about["control"] = "random edits" if low[hardest] > 0 else hardest
    return about | {
        "word": "follows" if low[hardest] > 0 else "does not follow",
        "control_value": float(others[about["control"]][0]),
        **estimate(explained),
    }
