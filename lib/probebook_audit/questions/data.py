"""Is there enough data, and how much would be? Paper 3's question, asked of the probe and its best
control."""

from __future__ import annotations

from typing import Any

import numpy as np

from probebook.measures.sample_size import verdict
from probebook_audit.layer import Layer


def answer(layer: Layer, items: int) -> dict:
    """By paper 3: are the test items enough to tell the probe from its best control?"""
    means = layer.reading.iloc[0].drop("probe")
    control = str(means.idxmax())
    pilot = verdict(
        np.stack([one.probe for one in layer.readings]),
        np.stack([one[control] for one in layer.readings]),
        layer.case.h.shape[1],
    )
    trained = int(np.mean([len(one.fit) for one in layer.fits]))
    judges = int(layer.judges.trained[layer.judges.property == ""].min())
    found: dict[str, Any] = {
        "control": control,
        "have": items or len(layer.case.z),
        "value": pilot.delta,
        "low": pilot.low,
        "high": pilot.high,
        "control_value": pilot.power,
        "what": "",
    }
    # the pilot speaks of training items of one probe, which are a part of all items
    need = max(0.0, pilot.by_power) * found["have"] / max(1, trained)
    if pilot.delta <= 0 or pilot.word == "collapsed" or not np.isfinite(need):
        return found | {"word": "no difference"}
    need = max(need, found["have"] * layer.fewest / max(1, judges))
    short = pilot.word != "enough" or judges < layer.fewest
    return found | {"word": "too few" if short else "enough", "need": min(need, 1e6)}
