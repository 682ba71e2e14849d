"""Is the concept a shortcut? Where a rule that reads something else errs, is the probe right?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from probebook.base import to_numpy
from probebook.measures.intervals import rate
from probebook_audit.case import Case, association, rule
from probebook_audit.fitting import Fit
from probebook_audit.layer import Layer

FEWEST_CONFLICTS = 20  # items where a rule is wrong that a shortcut's verdict needs


def conflicts(case: Case, fitted: Fit, reading: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Source of a shortcut → test items: does a rule that knows only this source give the label,
    and is the probe right? Sources: the properties to keep, the number of words, the words.
    `reading`: the seed's own (`readable.reading`)."""
    rows, test, z = fitted.fit, case.test, to_numpy(case.z)
    sources = {name: to_numpy(values) for name, values in case.keep.items()}
    found = {}
    if case.text is not None:
        length = np.array([len(one.split()) for one in case.text])
        quarters = np.quantile(length, [0.25, 0.5, 0.75])
        sources["number of words"] = np.asarray(np.searchsorted(quarters, length))
        found["bag of words"] = pd.DataFrame(
            {"rule": reading["bag of words"], "probe": reading.probe}
        )
    for name, values in sources.items():
        said = rule(values[to_numpy(rows)], z[to_numpy(rows)], case.k, values[to_numpy(test)])
        found[name] = pd.DataFrame(
            {"rule": (said == z[to_numpy(test)]).astype(float), "probe": reading.probe}
        )
    return found


def table(layer: Layer) -> pd.DataFrame:
    """Every source that was tried; columns as in `Findings.shortcuts`. Right is what is right in
    most seeds, but the share "rule" is the mean over them."""
    case, found = layer.case, []
    seeds = [conflicts(case, *both) for both in zip(layer.fits, layer.readings)]
    groups = case.group[to_numpy(case.test)]
    for source in seeds[0]:
        rule_right = np.mean([one[source].rule for one in seeds], axis=0)
        wrong = rule_right <= 0.5
        probe = np.mean([one[source].probe for one in seeds], axis=0)
        share = rate((probe > 0.5)[wrong], groups[wrong]) if wrong.any() else None
        most = rate(~wrong, groups)
        own = case.keep.get(source)
        found.append(
            {
                "layer": case.layer,
                "source": source,
                "association": np.nan if own is None else association(case.z, own),
                "rule": float(rule_right.mean()),
                "rule low": most.low,
                "rule high": most.high,
                "conflicts": int(wrong.sum()),
                "probe": share.share if share else np.nan,
                "low": share.low if share else np.nan,
                "high": share.high if share else np.nan,
                "usual": float(case.z[case.test].bincount().max() / len(case.test)),
            }
        )
    return pd.DataFrame(
        found,
        columns=[
            "layer",
            "source",
            "association",
            "rule",
            "rule low",
            "rule high",
            "conflicts",
            "probe",
            "low",
            "high",
            "usual",
        ],
    )


def answer(sources: pd.DataFrame, classes: int) -> dict:
    """Sources whose rule is surely better than the majority count; the one that misleads most
    leads."""
    real = sources[sources["rule low"] > sources.usual]
    if sources.empty:
        return {"word": "not asked", "what": "", "control": ""}
    if real.empty:
        row = sources.loc[sources.rule.idxmax()]
        return {
            "word": "none known",
            "what": str(row.source),
            "control": "the majority",
            "value": float(row.rule),
            "low": float(row["rule low"]),
            "high": float(row["rule high"]),
            "control_value": float(row.usual),
        }
    worst = real.sort_values("high").iloc[0]
    told = real.conflicts >= FEWEST_CONFLICTS
    named, clear = real[told & (real.high < 1 / classes)], (told & (real.low > 1 / classes)).all()
    if not len(named) and not clear:
        worst = real[~told | (real.low <= 1 / classes)].iloc[0]
    return {
        "word": "named" if len(named) else "none found" if clear else "open",
        "what": ", ".join(named.source) if len(named) else str(worst.source),
        "control": "a rule that reads this alone",
        "value": float(worst.probe),
        "low": float(worst.low),
        "high": float(worst.high),
        "control_value": float(worst.rule),
    }
