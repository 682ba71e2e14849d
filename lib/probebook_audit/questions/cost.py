"""What does the best edit cost what should stay?"""

from __future__ import annotations

import numpy as np

from probebook_audit.fitting import ACTUAL, RANDOM
from probebook_audit.layer import Layer, figure_of_share
from probebook_audit.sentences import percent


def answer(layer: Layer, best: str, beat: bool, least: float) -> dict:
    """What the best edit keeps; too much is lost if its reliability may be below `least`."""
    if not best or not beat:
        return {"word": "not judged", "what": best, "control": ""}
    s = layer.strength[best]
    kept = layer.s(best, ACTUAL, s)
    if kept is None:
        return {"word": "not asked", "what": best, "control": ""}
    r = figure_of_share(layer.r(best, ACTUAL, s))
    if r["low"] < least:
        return {
            "word": "lost",
            "what": best,
            "control": f"{percent(least)} asked for",
            **r,
            "control_value": least,
        }
    random = layer.s(best, RANDOM, s)
    return {
        "word": "kept",
        "what": best,
        "control": "random edits",
        **figure_of_share(kept),
        "control_value": float(random[0]) if random is not None else np.nan,
    }
