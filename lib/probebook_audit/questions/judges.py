"""Are there usable judges of the concept, and of what should stay?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from probebook.base import to_numpy
from probebook.measures.intervals import rate, resample_seeds
from probebook_audit.case import Case, divided, rule, uncorrelated
from probebook_audit.fitting import JUDGES, Fit
from probebook_audit.layer import Layer, figure_of_share
from probebook_audit.questions.readable import right


def examine(case: Case, fits: Sequence[Fit], fewest: int, draws: int) -> pd.DataFrame:
    """Every judge's examination on uncorrelated test items; columns as in `Findings.judges`."""
    exams = [examined(case, one) for one in fits]
    found = []
    for judge in JUDGES:
        for name in ("", *case.keep):
            trained = min(one.trained[name] for one in fits)
            row: dict[str, Any] = {
                "judge": judge,
                "property": name,
                "accuracy": np.nan,
                "low": np.nan,
                "high": np.nan,
                "without states": np.nan,
                "trained": trained,
                "tested": 0,
                "usable": 0,
            }
            if all((judge, name) in exam for exam in exams):
                rows = exams[0][judge, name][0]
                hits = np.array([exam[judge, name][1] for exam in exams])
                best = float(np.mean([exam[judge, name][2] for exam in exams]))
                group = pd.Series(case.group[to_numpy(rows)])
                drawn = figure_of_share(resample_seeds(hits, group, draws)[0].to_numpy())
                least = min(drawn["low"], rate(hits.mean(0) > 0.5, group).low)
                row |= {
                    "accuracy": drawn["value"],
                    "low": least,
                    "high": drawn["high"],
                    "without states": best,
                    "tested": len(rows),
                    "usable": int(trained >= fewest and least > best),
                }
            found.append(row)
    return pd.DataFrame(found)


def examined(case: Case, fitted: Fit) -> dict[tuple[str, str], tuple[Tensor, np.ndarray, float]]:
    """(kind, property) → test rows on which the property does not go with the other, whether the
    judge is right there, and the accuracy of the best answer without states."""
    found = {}
    parts = divided(case, fitted.seed)
    for (kind, name), probe in fitted.judges.items():
        rows = uncorrelated(case, case.test, name)
        if not len(rows):
            continue
        z = (case.keep[name] if name else case.z)[rows]
        others = {"": case.z} if name else dict(case.keep)
        k, own = int(z.max()) + 1, case.keep[name] if name else case.z
        train = parts["oracle"][own[parts["oracle"]] >= 0]
        best = [float(z.bincount().max() / len(z))]
        for other in others.values():
            said = rule(to_numpy(other[train]), to_numpy(own[train]), k, to_numpy(other[rows]))
            best.append(float((said == to_numpy(z)).mean()))
        found[kind, name] = rows, right(probe, case.h[rows], z), max(best)
    return found


def answer(layer: Layer) -> dict:
    """Which properties have a usable judge, and the figures of the concept's best one."""
    of_concept = layer.judges[layer.judges.property == ""]
    best = of_concept.sort_values(["usable", "low"]).iloc[-1]
    named = {name for _, name in layer.usable}
    kept = named & {*layer.case.keep}
    word = (
        "none"
        if not layer.usable
        else "concept only"
        if not kept
        else "usable"
        if kept == {*layer.case.keep}
        else "usable in part"
    )
    return {
        "word": word,
        "what": str(best.judge),
        "control": "the best answer without states",
        "control_value": float(best["without states"]),
        "value": float(best.accuracy),
        "low": float(best.low),
        "high": float(best.high),
    }
