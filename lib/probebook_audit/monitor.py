"""A probe as a monitor: is its AUROC real, on other text, at the false-alarm rate that matters?

A probe and its controls are fitted on one set of texts and judged on others. Each seed divides the
training groups anew: seven tenths fit, the rest choose the layer and the threshold, so that both
choices are inside the intervals. A quarter of the training groups is never used, and is the first
test, of like text.

    result = measure(from_labelled(data, part, h, twin, positive="lie"), seeds=5, fpr=.01)
    result.verdicts                                   # a word and a sentence for each test"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

from probebook.base import UserError, read_yaml, to_numpy
from probebook.corpora.agreement import decorrelate
from probebook.interventions import shuffled
from probebook.measures.intervals import contrasts, draw_counts, draw_seeds
from probebook.measures.roc import area_and_recall, auroc
from probebook_audit.fitting import linear
from probebook_audit.labelled import FEWEST_GROUPS, FEWEST_OF_CLASS, Labelled
from probebook_audit.layer import estimate_share
from probebook_audit.questions.shortcut import BAG, count_text, read_words
from probebook_audit.verdict import percent

WORDS = read_yaml(Path(__file__).with_name("monitor.yaml"))
TRAIN, LIKE = "training texts", "like text"  # LIKE: groups of the training texts, held out
PROBE, TWIN, MIXED = "probe", "random weights", "shuffled labels"
AREA, AT_RATE, RECALL, ALARMS = "AUROC", "recall at the rate", "recall", "false alarms"
COLUMNS = {"area": AREA, "alarms": ALARMS, "recall": RECALL}  # of `verdicts`
MATCHED = ("test", "nuisance", "items", "rule", "follows", "value", "low", "high", "beyond")
HELD_OUT, FITTED = 0.25, 0.7  # shares of groups: for the test of like text; of the others, to fit
WORTH = 0.7  # a monitor with a smaller area is of little use; a larger one is worth more data
FEWEST_MATCHED = 40  # items on which a nuisance no longer tells the label
BINS = 10  # of a nuisance that is a number, where it is matched
States = Mapping[int, Tensor]  # layer → [n, d]
RULE_OF_THREE = 3  # without an alarm in n texts, the rate is 3 / n at most (95 %)


@dataclass(frozen=True)
class Monitored:
    """What a monitor and its controls can read. One part trains, each other is a test.

    - `h`: layer → states [n, d]; `twin`: the same of random weights, or empty
    - `z` [n]: 1 where the monitor should raise an alarm, else 0
    - `part` [n]: the set of each text, `TRAIN` or a test's name; `group` [n]: as in `labelled`
    - `nuisances`: name → [n], floats (numbers) or ints (categories)
    - `words` [n, words]: which words each text has, or None
    - `notes`: what was assumed, in sentences"""

    h: States
    z: np.ndarray
    part: np.ndarray
    group: np.ndarray
    nuisances: Mapping[str, np.ndarray]
    twin: States
    words: Any = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MonitorResult:
    """Tables of a monitor's audit; value, low, high: a figure with its 95 % interval.

    - `scores`: test, reader, measure (AUROC; recall at the rate, the threshold set on this test;
      recall and false alarms at the training threshold; mean probability and share of positives)
    - `matched`: test, nuisance that tells the label of like text; rule: the area of a reader of it
      alone; follows: `_follows`; items: how many remain where it tells nothing; value, low, high:
      the probe's area on these, beyond: is it significantly above one half?
    - `verdicts`: test, word, sentence, what, need (items), a row for each test
    - `layers`: how many seeds chose each layer"""

    scores: pd.DataFrame
    matched: pd.DataFrame
    verdicts: pd.DataFrame
    layers: pd.Series
    notes: tuple[str, ...]


def from_labelled(
    data: Labelled, part: np.ndarray, h: States, twin: States, positive: str = ""
) -> Monitored:
    """What can be read of labelled texts; `part`, `h` and `twin` as in `Monitored`.

    `positive`: the label that raises an alarm; by default the last in the order of the alphabet.
    UserError: not two labels, no such label, or too few texts of one in training or in a test that
    has it."""
    if len(data.classes) != 2:
        raise UserError(f"{data.name}: a monitor needs two labels, not {len(data.classes)}")
    positive = positive or data.classes[1]
    if positive not in data.classes:
        raise UserError(f"{positive!r} is not a valid label: expected {' or '.join(data.classes)}")
    z = (data.z == data.classes.index(positive)).astype(int)
    seen = np.isin(data.group, data.group[part == TRAIN]) & (part != TRAIN)
    notes = [*data.notes, f"An alarm means {positive!r}."]
    notes += [f"Left out of the tests, since training has them: {seen.sum():,} texts."] * bool(
        seen.any()
    )
    nuisances = {**data.keep, **data.known}
    nuisances.pop("position in the file", None)  # of another file
    words = None
    if not twin:
        notes.append("Without the control by random weights, since only the model could give it.")
    if data.text is None:
        notes.append("Without the controls by words and numbers of the text: give --text.")
    else:
        nuisances |= count_text(data.text)
        words = read_words(data.text, np.flatnonzero(part == TRAIN))[0]
    kept = np.flatnonzero(~seen)
    for name in dict.fromkeys(part):
        count = np.bincount(z[kept][part[kept] == name], minlength=2)
        if min(count if name == TRAIN else count[count > 0], default=0) < FEWEST_OF_CLASS:
            raise UserError(
                f"{name}: {count[1]} texts with {positive!r} and {count[0]} without: at least "
                f"{FEWEST_OF_CLASS} of each, better some hundreds; only a test may lack one of them"
            )
    rows = torch.from_numpy(kept)

    def chosen(states: States) -> dict[int, Tensor]:
        return {layer: one[rows.to(one.device)] for layer, one in states.items()}

    return Monitored(
        chosen(h),
        z[kept],
        np.asarray(part, dtype=object)[kept],
        data.group[kept],
        {name: values[kept] for name, values in nuisances.items()},
        chosen(twin),
        None if words is None else words[kept],
        tuple(notes),
    )


def measure(
    texts: Monitored, seeds: int = 5, fpr: float = 0.01, draws: int = 2000
) -> MonitorResult:
    """Fit a monitor and its controls with every seed, and judge them on each test.

    `fpr`: the false-alarm rate at which the monitor is to work; `draws`: of the bootstrap over
    seeds and groups. A test of one label has no AUROC: it is judged by its false alarms, or by its
    recall, alone."""
    part = texts.part.copy()
    inside = part == TRAIN
    part[np.flatnonzero(inside)[_draw(texts.group[inside], HELD_OUT, [0, 0])]] = LIKE
    tests = [LIKE, *(name for name in dict.fromkeys(texts.part) if name != TRAIN)]
    fitted = [_read(texts, part == TRAIN, fpr, seed) for seed in range(seeds)]
    parts = {name: np.flatnonzero(part == name) for name in tests}
    figures = {name: _draw_figures(fitted, texts, rows, fpr, draws) for name, rows in parts.items()}
    if (PROBE, AREA) not in figures[LIKE]:
        raise UserError(f"{TRAIN}: the groups held out have one label: give more groups")
    suspects = _above({n: figures[LIKE][n, AREA] - 0.5 for n in texts.nuisances})
    pairs = [(name, one) for name in tests if (PROBE, AREA) in figures[name] for one in suspects]
    rule = {pair: float(figures[pair[0]][pair[1], AREA][0]) for pair in pairs}
    kept = {pair: _match(texts, parts[pair[0]], pair[1], rule[pair]) for pair in pairs}
    alone = {
        pair: _draw_area(fitted, texts, rows, texts.z[rows] == 1, draws)
        for pair, rows in kept.items()
        if len(rows) >= FEWEST_MATCHED
    }
    beyond = _above({pair: one - 0.5 for pair, one in alone.items()})
    matched = pd.DataFrame(
        [
            {
                **{"test": name, "nuisance": nuisance, "items": len(kept[name, nuisance])},
                "rule": rule[name, nuisance],
                "follows": _follows(fitted, texts, parts[name], nuisance, draws),
                **(estimate_share(alone[name, nuisance]) if (name, nuisance) in alone else {}),
                "beyond": (name, nuisance) in beyond,
            }
            for name, nuisance in pairs
        ],
        columns=[*MATCHED],
    )
    verdicts = _verdicts(texts, parts, figures, matched, fpr)
    scores = [
        {"test": name, "reader": reader, "measure": what, **estimate_share(one)}
        for name, of_test in figures.items()
        for (reader, what), one in of_test.items()
    ]
    layers = pd.Series([one.layer for one in fitted]).value_counts().sort_index()
    return MonitorResult(pd.DataFrame(scores), matched, verdicts, layers, texts.notes)


@dataclass(frozen=True)
class _Fitted:
    """A seed's readers: scores [n, readers], log-odds; each one's threshold; the chosen layer."""

    scores: pd.DataFrame
    threshold: pd.Series
    layer: int


def _read(texts: Monitored, train: np.ndarray, fpr: float, seed: int) -> _Fitted:
    """Fit every reader on this seed's part of the training groups."""
    rows = np.flatnonzero(train)
    inside = _draw(texts.group[rows], FITTED, [seed, 1])
    fit, valid = rows[inside], rows[~inside]
    z = torch.from_numpy(texts.z[fit])
    by_layer = {layer: _log_odds(h, fit, z) for layer, h in texts.h.items()}
    layer = max(
        by_layer, key=lambda one: float(auroc(by_layer[one][valid], texts.z[valid] == 1)[0])
    )
    found = {PROBE: by_layer[layer]}
    mixed = shuffled(z, seed=seed + 1)
    found[MIXED] = _log_odds(texts.h[layer], fit, mixed)
    if layer in texts.twin:
        found[TWIN] = _log_odds(texts.twin[layer], fit, z)
    if texts.words is not None and texts.words.shape[1]:
        model = LogisticRegression(max_iter=300).fit(texts.words[fit], texts.z[fit])
        found[BAG] = model.decision_function(texts.words)
    for name, values in texts.nuisances.items():
        column = np.nan_to_num(values.astype(float), nan=-1)[:, None]
        tree = DecisionTreeClassifier(max_leaf_nodes=8, min_samples_leaf=10, random_state=0)
        share = tree.fit(column[fit], texts.z[fit]).predict_proba(column)[:, 1].clip(0.01, 0.99)
        found[name] = np.log(share / (1 - share))
    scores = pd.DataFrame(found)
    quiet = scores.iloc[valid][texts.z[valid] == 0]
    threshold = quiet.quantile(1 - fpr, interpolation="higher") + 1e-12
    return _Fitted(scores, threshold, layer)


def _log_odds(h: Tensor, fit: np.ndarray, z: Tensor) -> np.ndarray:
    logits = linear(h[torch.from_numpy(fit).to(h.device)], z.to(h.device))(h)
    return to_numpy((logits[:, 1] - logits[:, 0]).double())


def _draw(group: np.ndarray, share: float, seed: list[int]) -> np.ndarray:
    """Which items belong to a random share of the groups [n]."""
    names = np.unique(group)
    order = np.random.default_rng(seed).permutation(names)
    return np.isin(group, order[: max(1, round(share * len(names)))])


def _draw_figures(
    fitted: Sequence[_Fitted], texts: Monitored, rows: np.ndarray, fpr: float, draws: int
) -> dict[tuple[str, str], np.ndarray]:
    """(reader, measure) → [1 + draws], of the probe calibration, too; of rows with one label, what
    these allow."""
    weights, z = _draw_items(texts, rows, draws), texts.z[rows] == 1
    of_seeds: list[dict[tuple[str, str], np.ndarray]] = []
    for one in fitted:
        found = {}
        for reader in one.scores:
            score = one.scores[reader].to_numpy()[rows]
            if 0 < z.sum() < len(z):
                both = area_and_recall(score, z, fpr, weights)
                found[reader, AREA], found[reader, AT_RATE] = both
            for what, kind in ((RECALL, z), (ALARMS, ~z)):
                above = (score >= one.threshold[reader]) & kind
                if kind.any():
                    found[reader, what] = weights @ above / (weights @ kind)
        found[PROBE, "mean probability"] = weights @ expit(one.scores[PROBE][rows]) / weights.sum(1)
        found[PROBE, "share of positives"] = weights @ z / weights.sum(1)
        of_seeds.append(found)
    return _average(of_seeds, draws)


def _draw_area(
    fitted: Sequence[_Fitted], texts: Monitored, rows: np.ndarray, labels: np.ndarray, draws: int
) -> np.ndarray:
    """[1 + draws]: the probe's area under these labels [rows]."""
    weights = _draw_items(texts, rows, draws)
    scores = [one.scores[PROBE].to_numpy()[rows] for one in fitted]
    return _average([{AREA: auroc(score, labels, weights)} for score in scores], draws)[AREA]


def _draw_items(texts: Monitored, rows: np.ndarray, draws: int) -> np.ndarray:
    """How often each row is drawn with its group [1 + draws, rows]; in the first draw once."""
    number = np.unique(texts.group[rows], return_inverse=True)[1]
    return np.vstack([np.ones(len(rows)), draw_counts(number.max() + 1, draws)[:, number]])


def _average(of_seeds: Sequence[Mapping[Any, np.ndarray]], draws: int) -> dict[Any, np.ndarray]:
    """Means over the seeds of each figure [1 + draws], with the seeds' luck."""
    found = {name: np.nan_to_num([one[name] for one in of_seeds], nan=0.5) for name in of_seeds[0]}
    luck = draw_seeds(pd.DataFrame({name: one[:, 0] for name, one in found.items()}), draws)
    return {name: one.mean(0) + luck[name].to_numpy() for name, one in found.items()}


def _above(draws: Mapping[Any, np.ndarray]) -> list:
    """The names whose figure is significantly above 0 (Holm)."""
    if not draws:
        return []
    return [name for name, verdict in zip(draws, contrasts(draws).verdict) if verdict > 0]


def _match(texts: Monitored, rows: np.ndarray, nuisance: str, rule: float) -> np.ndarray:
    """The rows on which a nuisance (a number in tenths) tells nothing of the label; all, where the
    area of its rule is at most one half, since it does not help there."""
    if rule <= 0.5:
        return rows
    values = texts.nuisances[nuisance][rows]
    if values.dtype.kind == "f":
        values = pd.qcut(values, BINS, labels=False, duplicates="drop")
    return rows[decorrelate(texts.z[rows], values - values.min())]


def _follows(
    fitted: Sequence[_Fitted], texts: Monitored, rows: np.ndarray, nuisance: str, draws: int
) -> float:
    """How well the probe tells where the nuisance's rule would raise an alarm: the lower end of the
    area's interval; NaN where the rule says the same of all."""
    said = np.mean([one.scores[nuisance].to_numpy()[rows] for one in fitted], 0) > 0
    if said.all() or not said.any():
        return np.nan
    return estimate_share(_draw_area(fitted, texts, rows, said, draws))["low"]


def _verdicts(
    texts: Monitored,
    parts: Mapping[str, np.ndarray],
    figures: Mapping[str, Mapping],
    matched: pd.DataFrame,
    fpr: float,
) -> pd.DataFrame:
    """The first reason against the monitor on each test."""
    leads = {name: one[PROBE, AREA] - 0.5 for name, one in figures.items() if (PROBE, AREA) in one}
    above = _above(leads)
    controls = {name: _controls(one) for name, one in figures.items()}
    ahead = _above(
        {
            name: figures[name][PROBE, AREA][:, None] - np.stack([*areas.values()], -1)
            for name, areas in controls.items()
            if areas
        }
    )
    rows = []
    for name, of_test in figures.items():
        of = {what: estimate_share(one) for (who, what), one in of_test.items() if who == PROBE}
        items, quiet = len(parts[name]), int((texts.z[parts[name]] == 0).sum())
        known = matched[matched.test == name]
        kind = "like" if name == LIKE else "other"
        holds = f"holds on {kind} text" if controls[name] else "holds without controls"
        if name not in leads:
            groups = len({*texts.group[parts[name]]})
            reason: Reason = _of_one_label(of, items, groups, fpr)
        elif name not in above or of[AREA]["high"] < WORTH:
            reason = _unread(of[AREA], items, known)
        elif len(known) and (found := _confounded(items, known)):
            reason = found
        elif (areas := controls[name]) and name not in ahead:
            best = max(areas, key=lambda reader: areas[reader][0])
            reason = "no more than a simple reader", best, np.nan
        else:
            reason = _at_rate(of[ALARMS], of[RECALL], items, quiet, fpr)
        word, what, need = reason or (holds, "", np.nan)
        ends = {
            f"{column}_{end}": value
            for column, what in COLUMNS.items()
            for end, value in of.get(what, {}).items()
        }
        row = {"test": name, "word": word, "what": what, "need": need, **ends}
        rows.append({**row, "sentence": _say(row, fpr)})
    return pd.DataFrame(rows)


Reason = tuple[str, str, float] | None  # word, what, items needed


def _controls(of_test: Mapping[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of the area of each reader that knows less than the probe."""
    return {
        reader: draws
        for (reader, what), draws in of_test.items()
        if what == AREA and reader not in (PROBE, MIXED)
    }


def _unread(area: Mapping[str, float], items: int, known: pd.DataFrame) -> Reason:
    """Why an area is small, or not significantly above one half."""
    followed = known[known.follows > 0.5]
    if len(followed):
        return "reads a nuisance", str(followed.nuisance[followed.follows.idxmax()]), np.nan
    if area["high"] < WORTH:
        return "does not hold", "", np.nan
    short = (area["value"] - area["low"]) / max(area["value"] - 0.5, 0.05)
    return "not enough data", "", items * max(1.0, short) ** 2


def _confounded(items: int, known: pd.DataFrame) -> Reason:
    """Is there a nuisance without which the probe is not better than guessing, or of little use?"""
    weak = known[~known.beyond.astype(bool) | (known.high < WORTH)]
    shown = weak[weak.high < WORTH]
    if len(shown):
        return "reads a nuisance", str(shown.nuisance[shown.value.idxmin()]), np.nan
    if len(weak):
        row = weak.loc[weak["items"].idxmin()]
        need = items * max(2.0, FEWEST_MATCHED / max(1, row["items"]))
        return "not enough data", str(row.nuisance), need
    return None


def _at_rate(
    alarms: Mapping[str, float], recall: Mapping[str, float], items: int, quiet: int, fpr: float
) -> Reason:
    """Does the training threshold keep its false-alarm rate, and find more than that share?"""
    if quiet < RULE_OF_THREE / fpr:
        return "not enough data", ALARMS, items * RULE_OF_THREE / fpr / quiet
    if alarms["low"] > fpr or recall["low"] <= fpr:
        return "not at this false-alarm rate", "", np.nan
    return None


def _of_one_label(
    of: Mapping[str, Mapping[str, float]], items: int, groups: int, fpr: float
) -> Reason:
    """Is the one rate of this test, of false alarms or of recall, above the wanted one? An interval
    as narrow as that rate tells once from twice the rate."""
    within, above, what = "keeps its false-alarm rate", "not at this false-alarm rate", ALARMS
    if ALARMS not in of:
        within, above, what = above, "recall above the false-alarm rate", RECALL
    low, high = of[what]["low"], of[what]["high"]
    need = max(RULE_OF_THREE / fpr, items * FEWEST_GROUPS / groups)
    if high > 2 * fpr:
        need = max(need, items * ((high - low) / fpr) ** 2)
    if low > fpr and groups >= FEWEST_GROUPS:
        return above, what, np.nan
    return ("not enough data", what, need) if need > items else (within, what, np.nan)


def _say(row: Mapping[str, Any], fpr: float) -> str:
    entry = WORDS[row["word"]]
    if not isinstance(entry, str):
        entry = entry[row["what"] if row["what"] in entry else "nuisance" if row["what"] else AREA]
    shares = {name: percent(v) for name, v in row.items() if name.startswith("recall")}
    shares |= {name: f"{100 * v:.1f} %" for name, v in row.items() if name.startswith("alarms")}
    areas = {name: f"{value:.2f}" for name, value in row.items() if name.startswith("area")}
    numbers = {**shares, **areas, "need": f"{row['need']:,.0f}", "fpr": f"{100 * fpr:g} %"}
    return entry.format(**{**row, **numbers})
