"""Is the concept readable? A probe beside the majority, words, random weights, random labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from probebook.base import to_numpy
from probebook_audit.case import Case, Probe
from probebook_audit.fitting import Fit, linear
from probebook_audit.layer import Layer, figure_of_share


def reading(case: Case, fitted: Fit) -> pd.DataFrame:
    """Whether probes fitted on this seed's part are right on the test items: columns probe,
    majority, bag of words and random weights (where there are texts and a twin)."""
    rows, test, z = fitted.fit, case.test, case.z
    found = {
        "probe": right(fitted.probe, case.h[test], z[test]),
        "majority": to_numpy((z[test] == z[rows].bincount().argmax()).double()),
    }
    if case.text is not None:
        found["bag of words"] = bag(case, rows, test)
    if case.twin is not None:
        found["random weights"] = right(linear(case.twin[rows], z[rows]), case.twin[test], z[test])
    return pd.DataFrame(found)


def control_task(case: Case, seed: int, share: float = 0.2) -> pd.DataFrame | None:
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
            name: pd.Series(
                right(linear(case.h[rows], z[rows]), case.h[asked], z[asked]), to_numpy(asked)
            )
            for name, z in (("label", case.z), ("control task", types))
        }
    )
    return found.reindex(order[: int(share * n)])


def right(probe: Probe, h: Tensor, z: Tensor) -> np.ndarray:
    """Whether a probe is right on each state [n]."""
    return to_numpy((probe(h).argmax(1) == z.to(h.device)).double())


def bag(case: Case, rows: Tensor, asked: Tensor) -> np.ndarray:
    """Whether a logistic regression on the words that a text contains is right."""
    text = [one.replace("[MASK]", " ") for one in case.text or []]
    words = CountVectorizer(binary=True, token_pattern=r"(?u)\b\w+\b", max_features=20_000)
    try:
        x = words.fit_transform([text[int(r)] for r in rows])
    except ValueError:  # no word at all
        return np.zeros(len(asked))
    model = LogisticRegression(max_iter=300).fit(x, to_numpy(case.z[rows]))
    return (
        model.predict(words.transform([text[int(r)] for r in asked])) == to_numpy(case.z[asked])
    ).astype(float)


def leads(layer: Layer) -> dict[str, np.ndarray]:
    """Draws of the probe's lead over its controls, and over random labels of the groups."""
    others = layer.reading.drop(columns="probe")
    found = {"controls": layer.reading[["probe"]].to_numpy() - others.to_numpy()}
    if layer.control is not None:
        found["control task"] = (layer.control["label"] - layer.control["control task"]).to_numpy()[
            :, None
        ]
    return found


def answer(layer: Layer, reads: pd.DataFrame) -> dict:
    """The probe beside its best control; `reads`: the verdicts on its `leads`."""
    means = layer.reading.iloc[0].drop("probe")
    best = str(means.idxmax())
    word = "readable"
    if "control task" in reads.index and reads.verdict["control task"] <= 0:
        word = "by heart"
    if reads.verdict["controls"] <= 0:
        word = "not shown"
    return {
        "word": word,
        "what": "linear probe",
        "control": best,
        "control_value": float(means[best]),
        **figure_of_share(layer.reading.probe.to_numpy()),
    }
