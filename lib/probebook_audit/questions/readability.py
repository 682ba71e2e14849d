"""What can be read: is there enough data, and is the concept readable?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import to_numpy
from probebook.measures.sample_size import judge_pilot
from probebook_audit.case import Case, Probe
from probebook_audit.fitting import Fit, linear
from probebook_audit.layer import NEAR, LayerResult, estimate_share
from probebook_audit.questions.shortcut import BAG

PERCEPTRON = "perceptron"  # a judge of the concept, beside the linear probe


def answer_data(layer: LayerResult, items: int) -> dict:
    """By paper 3: are the test items enough to tell the probe from its best control?"""
    control = str(_controls(layer).iloc[0].idxmax())
    pilot = judge_pilot(
        np.stack([one.probe for one in layer.hits]),
        np.stack([one[control] for one in layer.hits]),
        layer.case.h.shape[1],
    )
    trained = int(np.mean([len(one.fit) for one in layer.fits]))
    judges = int(layer.judges.trained[layer.judges.property == ""].min())
    found: dict[str, Any] = {"control": control, "have": items or len(layer.case.z), "what": ""}
    found |= {"value": pilot.delta, "low": pilot.low, "high": pilot.high}
    found["control_value"] = pilot.power
    # the pilot speaks of training items of one probe, which are a part of all items
    need = max(0.0, pilot.by_power) * found["have"] / max(1, trained)
    if pilot.delta <= 0 or pilot.word == "collapsed" or not np.isfinite(need):
        return found | {"word": "no difference"}
    need = max(need, found["have"] * layer.fewest / max(1, judges))
    short = pilot.word != "enough" or judges < layer.fewest
    near = found["have"] >= NEAR * need
    word = "enough" if not short else "nearly" if near else "too few"
    return found | {"word": word, "need": min(need, 1e6)}


def _controls(layer: LayerResult) -> pd.DataFrame:
    """Draws of the readers that know less than the probe."""
    return layer.reader_draws.drop(columns=["probe", PERCEPTRON], errors="ignore")


def reader_hits(case: Case, fitted: Fit, rules: pd.DataFrame) -> pd.DataFrame:
    """Whether probes fitted on this seed's part are right on the test items: columns probe,
    majority, bag of words and random weights (where there are texts and a twin), and the perceptron
    that judges the concept, if there is one. `rules`: this seed's of `shortcut.rule_hits`."""
    rows, test, z = fitted.fit, case.test, case.z
    found = {
        "probe": hits(fitted.probe, case.h[test], z[test]),
        "majority": to_numpy((z[test] == z[rows].bincount().argmax()).double()),
    }
    if BAG in rules:
        found[BAG] = rules[BAG].to_numpy()
    if case.twin is not None:
        found["random weights"] = hits(linear(case.twin[rows], z[rows]), case.twin[test], z[test])
    if (PERCEPTRON, "") in fitted.judges:
        found[PERCEPTRON] = hits(fitted.judges[PERCEPTRON, ""], case.h[test], z[test])
    return pd.DataFrame(found)


def control_task_hits(case: Case, seed: int, share: float = 0.2) -> pd.DataFrame | None:
    """The label against random labels, one for each group, as control task (Hewitt & Liang 2019).

    Both are read on items whose groups were seen in training: a fifth of all items, the same for
    every seed. None where a group has hardly more than one item, so that nothing could be learned
    by heart."""
    n = len(case.z)
    if n < 2 * len(np.unique(case.group)):
        return None
    order = np.random.default_rng(0).permutation(n)
    asked, rest = torch.from_numpy(order[: int(share * n)]), order[int(share * n) :]
    draws = np.random.default_rng([seed, 2])
    rows = torch.from_numpy(draws.permutation(rest)[: max(20, int(0.4 * n))])
    known = np.isin(case.group[to_numpy(asked)], case.group[to_numpy(rows)])
    asked = asked[torch.from_numpy(known)]
    usual = to_numpy(case.z.bincount(minlength=case.k).double() / n)
    types = torch.from_numpy(draws.choice(case.k, int(case.group.max()) + 1, p=usual)[case.group])
    if int(types[rows].bincount(minlength=case.k).min()) < 2:
        return None
    found = pd.DataFrame(
        {
            name: hits(linear(case.h[rows], z[rows]), case.h[asked], z[asked])
            for name, z in (("label", case.z), ("control task", types))
        },
        to_numpy(asked),
    )
    return found.reindex(order[: int(share * n)])


def hits(probe: Probe, h: Tensor, z: Tensor) -> np.ndarray:
    """Whether a probe is right on each state [n]."""
    return to_numpy((probe(h).argmax(1) == z.to(h.device)).double())


def reader_leads(layer: LayerResult) -> dict[str, np.ndarray]:
    """Draws of the probe's lead over its controls, and over random labels of the groups; and of the
    perceptron's, if it is a usable judge, over the same controls and the probe."""
    controls, readers = _controls(layer), layer.reader_draws
    found = {"controls": readers[["probe"]].to_numpy() - controls.to_numpy()}
    if (PERCEPTRON, "") in layer.usable:
        others = controls.assign(probe=readers.probe)
        found[PERCEPTRON] = readers[[PERCEPTRON]].to_numpy() - others.to_numpy()
    if layer.control_draws is not None:
        found["control task"] = (
            layer.control_draws["label"] - layer.control_draws["control task"]
        ).to_numpy()[:, None]
    return found


def answer_readable(layer: LayerResult, leads: pd.DataFrame) -> dict:
    """The probe beside its best control; `leads`: the verdicts on its `leads`."""
    means = _controls(layer).iloc[0]
    best = str(means.idxmax())
    word, reader = "readable", "probe"
    if "control task" in leads.index and leads.verdict["control task"] <= 0:
        word = "by heart"
    if leads.verdict["controls"] <= 0:
        word = "not shown"
        if PERCEPTRON in leads.index and leads.verdict[PERCEPTRON] > 0:
            word, reader = "not linearly", PERCEPTRON
    what = "linear probe" if reader == "probe" else reader
    about = {"word": word, "what": what, "control": best, "control_value": float(means[best])}
    return about | estimate_share(layer.reader_draws[reader].to_numpy())
