"""What can be read: is there enough data, is the concept readable, is it a shortcut?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from probebook.base import to_numpy
from probebook.measures.intervals import rate
from probebook.measures.sample_size import judge_pilot
from probebook_audit.case import Case, Probe, association, predict_by_rule
from probebook_audit.fitting import Fit, linear
from probebook_audit.layer import LayerResult, estimate_share

FEWEST_CONFLICTS = 20  # items where a rule is wrong that a shortcut's verdict needs


def answer_data(layer: LayerResult, items: int) -> dict:
    """By paper 3: are the test items enough to tell the probe from its best control?"""
    means = layer.reader_draws.iloc[0].drop("probe")
    control = str(means.idxmax())
    pilot = judge_pilot(
        np.stack([one.probe for one in layer.hits]),
        np.stack([one[control] for one in layer.hits]),
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


def reader_hits(case: Case, fitted: Fit) -> pd.DataFrame:
    """Whether probes fitted on this seed's part are right on the test items: columns probe,
    majority, bag of words and random weights (where there are texts and a twin)."""
    rows, test, z = fitted.fit, case.test, case.z
    found = {
        "probe": hits(fitted.probe, case.h[test], z[test]),
        "majority": to_numpy((z[test] == z[rows].bincount().argmax()).double()),
    }
    if case.text is not None:
        found["bag of words"] = _bag_of_words_hits(case, rows, test)
    if case.twin is not None:
        found["random weights"] = hits(linear(case.twin[rows], z[rows]), case.twin[test], z[test])
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
            name: pd.Series(
                hits(linear(case.h[rows], z[rows]), case.h[asked], z[asked]), to_numpy(asked)
            )
            for name, z in (("label", case.z), ("control task", types))
        }
    )
    return found.reindex(order[: int(share * n)])


def hits(probe: Probe, h: Tensor, z: Tensor) -> np.ndarray:
    """Whether a probe is right on each state [n]."""
    return to_numpy((probe(h).argmax(1) == z.to(h.device)).double())


def _bag_of_words_hits(case: Case, rows: Tensor, asked: Tensor) -> np.ndarray:
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


def reader_leads(layer: LayerResult) -> dict[str, np.ndarray]:
    """Draws of the probe's lead over its controls, and over random labels of the groups."""
    others = layer.reader_draws.drop(columns="probe")
    found = {"controls": layer.reader_draws[["probe"]].to_numpy() - others.to_numpy()}
    if layer.control_draws is not None:
        found["control task"] = (
            layer.control_draws["label"] - layer.control_draws["control task"]
        ).to_numpy()[:, None]
    return found


def answer_readable(layer: LayerResult, leads: pd.DataFrame) -> dict:
    """The probe beside its best control; `leads`: the verdicts on its `leads`."""
    means = layer.reader_draws.iloc[0].drop("probe")
    best = str(means.idxmax())
    word = "readable"
    if "control task" in leads.index and leads.verdict["control task"] <= 0:
        word = "by heart"
    if leads.verdict["controls"] <= 0:
        word = "not shown"
    return {
        "word": word,
        "what": "linear probe",
        "control": best,
        "control_value": float(means[best]),
        **estimate_share(layer.reader_draws.probe.to_numpy()),
    }


def shortcut_hits(case: Case, fitted: Fit, hits: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Source of a shortcut → test items: does a rule that knows only this source give the label,
    and is the probe right? Sources: the properties to keep, the number of words, the words.
    `hits`: the seed's `reader_hits`."""
    rows, test, z = fitted.fit, case.test, to_numpy(case.z)
    sources = {name: to_numpy(values) for name, values in case.keep.items()}
    found = {}
    if case.text is not None:
        length = np.array([len(one.split()) for one in case.text])
        quarters = np.quantile(length, [0.25, 0.5, 0.75])
        sources["number of words"] = np.asarray(np.searchsorted(quarters, length))
        found["bag of words"] = pd.DataFrame({"rule": hits["bag of words"], "probe": hits.probe})
    for name, values in sources.items():
        predicted = predict_by_rule(
            values[to_numpy(rows)], z[to_numpy(rows)], case.k, values[to_numpy(test)]
        )
        found[name] = pd.DataFrame(
            {"rule": (predicted == z[to_numpy(test)]).astype(float), "probe": hits.probe}
        )
    return found


def shortcut_table(layer: LayerResult) -> pd.DataFrame:
    """Every source that was tried; columns as in `AuditResult.shortcuts`. Right is what is right in
    most seeds, but the share "rule" is the mean over them."""
    case, rows = layer.case, []
    seeds = [shortcut_hits(case, *both) for both in zip(layer.fits, layer.hits)]
    groups = case.group[to_numpy(case.test)]
    for source in seeds[0]:
        rule_right = np.mean([one[source].rule for one in seeds], axis=0)
        wrong = rule_right <= 0.5
        probe = np.mean([one[source].probe for one in seeds], axis=0)
        share = rate((probe > 0.5)[wrong], groups[wrong]) if wrong.any() else None
        most = rate(~wrong, groups)
        kept = case.keep.get(source)
        rows.append(
            {
                "layer": case.layer,
                "source": source,
                "association": np.nan if kept is None else association(case.z, kept),
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
        rows,
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


def answer_shortcut(sources: pd.DataFrame, classes: int) -> dict:
    """Name the source that misleads most among those whose rule is significantly better than the
    majority."""
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
    decided = real.conflicts >= FEWEST_CONFLICTS
    named, clear = (
        real[decided & (real.high < 1 / classes)],
        (decided & (real.low > 1 / classes)).all(),
    )
    if not len(named) and not clear:
        worst = real[~decided | (real.low <= 1 / classes)].iloc[0]
    return {
        "word": "named" if len(named) else "none found" if clear else "open",
        "what": ", ".join(named.source) if len(named) else str(worst.source),
        "control": "a rule that reads this alone",
        "value": float(worst.probe),
        "low": float(worst.low),
        "high": float(worst.high),
        "control_value": float(worst.rule),
    }
