"""How near does the best edit come to the true counterfactual, the state of the rewritten text?"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from probebook.base import to_numpy
from probebook_audit.case import Case
from probebook_audit.fitting import ACTUAL, RANDOM
from probebook_audit.layer import Layer, figure


def distances(case: Case, edited: Tensor) -> dict[str, np.ndarray]:
    """Of the edited test items' states [m, d]: "far", the distance [m] to the rewritten text's
    state, and "way", that of the unedited state; NaN where a text has none."""
    rows = case.test
    if case.partner is None or case.paired is None:
        return {}
    some, there = to_numpy(case.paired[rows]), case.partner[rows]
    return {
        "far": where(some, (edited - there).norm(dim=1)),
        "way": where(some, (case.h[rows] - there).norm(dim=1)),
    }


def where(some: np.ndarray, values: Tensor) -> np.ndarray:
    """The values [m] as an array, with NaN where an item has none."""
    return np.where(some, to_numpy(values.double()), np.nan)


def answer(layer: Layer, best: str) -> dict:
    """The share of the way to the rewritten text's state that the best edit goes."""
    if not best or (best, ACTUAL, layer.strength[best], "far") not in layer.beyond:
        return {"word": "not asked", "what": best, "control": ""}
    closeness, random = (layer.share(best, kind, "far", "way") for kind in (ACTUAL, RANDOM))
    nearer = figure(closeness)
    return {
        "word": "nearer" if nearer["low"] > 0 else "not nearer",
        "what": best,
        "control": "random edits",
        "control_value": float(random[0]),
        **nearer,
    }
