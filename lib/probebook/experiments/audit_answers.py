"""The audit's questions in their order: figures with intervals and controls, a word, a sentence.

A word follows from the figures by the rules in this file; a sentence from the word alone."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probebook.corpora import planted
from probebook.experiments import audit
from probebook.experiments.audit import ACTUAL, CONTROLS, RANDOM, SHUFFLED, Case, Fit
from probebook.measures.intervals import contrast, contrasts, percentiles, rate, resample_seeds
from probebook.measures.reliability import reliability
from probebook.measures.sample_size import verdict

QUESTIONS = {
    "data": "Is there enough data, and how much would be?",
    "readable": "Is the concept readable?",
    "judges": "Are there usable judges of the concept, and of what should stay?",
    "edits": "Which edits do more than random ones, and than fits on shuffled labels?",
    "cost": "What do they cost what should stay?",
    "pairs": "How near do they come to the true counterfactual?",
    "behaviour": "Does the model's behaviour follow?",
    "shortcut": "Is the concept a shortcut?",
    "change": "What would change the verdict?",
    "paper": "Which sentence could stand in a paper?"}

SENTENCES = {
    ("data", "enough"): "Yes: there are {have:,.0f} items, and about {need:,.0f} would do to tell "
                        "the probe from {control}.",
    ("data", "too few"): "Not enough data: {have:,.0f} of about {need:,.0f} items needed.",
    ("data", "no difference"): "The probe does no better than {control}; more data of this kind "
                               "would hardly change that.",
    ("readable", "readable"): "Yes: the probe is right on {value} of items from unseen "
                              "groups, surely more than {control} ({control_value}).",
    ("readable", "by heart"): "Not shown: the probe is right on {value}, but it learns random "
                              "labels of the same groups about as well.",
    ("readable", "not shown"): "Not shown: the probe is right on {value}, and {control} on "
                               "{control_value}.",
    ("judges", "usable"): "Yes: judges of the concept, and of each property that should stay, beat "
                          "the best answer without states.",
    ("judges", "usable in part"): "Of the concept and of some properties that should stay; the "
                                  "others have no usable judge and are left out.",
    ("judges", "concept only"): "Only of the concept: nothing that should stay has a usable judge, "
                                "so the cost of an edit cannot be known.",
    ("judges", "none"): "No: no judge of the concept surely beats the best answer without states, "
                        "so no edit can be scored.",
    ("edits", "some"): "{what} surely beat both controls over the whole dose curve.",
    ("edits", "none"): "None: no edit surely beats both controls over the whole dose curve.",
    ("edits", "not judged"): "Unknown: without a usable judge no edit has a score.",
    ("cost", "kept"): "{what} keeps {value} of what should stay; random edits of the same "
                      "length keep {control_value}.",
    ("cost", "lost"): "Too much: even the best, {what}, reaches a reliability of {value}, and "
                      "its interval begins below the {control}.",
    ("cost", "not asked"): "Unknown: no property with a usable judge was named that should stay.",
    ("cost", "not judged"): "Unknown: there is no edit whose cost would matter.",
    ("pairs", "nearer"): "{what} goes {value} of the way to the states of the rewritten texts.",
    ("pairs", "not nearer"): "No nearer: after {what} the states are not surely closer to those of "
                             "the rewritten texts than unedited ones are ({value} of the way).",
    ("pairs", "not asked"): "Not asked: there are no rewritten texts, or no judged edit.",
    ("behaviour", "follows"): "Yes: {what} explains {value} of what rewriting the text does to "
                              "the model's choice (it moves by {rewriting}); random edits explain "
                              "{control_value}.",
    ("behaviour", "does not follow"): "No: {what} explains {value} of what rewriting does to "
                                      "the model's choice, not surely more than random edits.",
    ("behaviour", "unused"): "The model hardly uses the concept: rewriting the text itself moves "
                             "its choice by only {value_exact}.",
    ("behaviour", "moves"): "{what} moves the model's choice by {value}, random edits by "
                            "{control_value}; without rewritten texts nobody knows whether "
                            "this is the right way.",
    ("behaviour", "not asked"): "Not asked: no words were given, or no edit is judged.",
    ("shortcut", "named"): "Yes, it may be: where {what} points to another label, the probe is "
                           "right on only {value}.",
    ("shortcut", "none found"): "None found: where {what}, the nearest to a shortcut, points to "
                                "another label, the probe is still right on {value}.",
    ("shortcut", "none known"): "None found: no other source that was tried gives the label surely "
                                "more often than the majority does ({what}: {value}).",
    ("shortcut", "open"): "Open: {what} gives the label too; where it points to another one, the "
                          "items do not tell whether the probe follows it.",
    ("shortcut", "not asked"): "Not asked: nothing else is known of the items."}

FINAL = {       # word: verdict, what would change it, sentence for a paper
    "not enough data": (
        "Not enough data for a verdict.",
        "More items with labels, in more groups; see the first answer for how many.",
        "With {items:,} items we could not decide whether {concept} can be edited reliably."),
    "not readable": (
        "The concept is not shown to be readable here.",
        "Another layer or position, or labels with less noise.",
        "A probe of {concept} did not surely beat its controls."),
    "shortcut": (
        "The probe may read a shortcut, not the concept.",
        "Items in which the concept and the shortcut part.",
        "Where {what} pointed to another label, a probe of {concept} failed; we therefore draw no "
        "conclusion about edits."),
    "no usable judge": (
        "No usable judge, so no verdict on any edit.",
        "More items in which the concept does not go with what should stay.",
        "No probe qualified as a judge of {concept}, so we report no score of an edit."),
    "no better than chance": (
        "No edit does more than its controls.",
        "Other methods, another layer, or more items.",
        "No edit of {concept} surely exceeded random edits of equal length and fits on shuffled "
        "labels."),
    "costs too much": (
        "Edits change the concept, and too much else.",
        "A gentler method, or another layer.",
        "Edits changed {concept} but not reliably: at best {reliability} (95 % interval)."),
    "not used": (
        "{best} edits the state, but the model's behaviour does not follow.",
        "Another layer, or words that depend on the concept.",
        "{best} edits {concept} in the state (reliability {reliability}, 95 % interval), but the "
        "model's choice does not follow more than after random edits."),
    "cost unknown": (
        "{best} changes the concept; what else it changes is unknown.",
        "A property that should stay (--keep) with enough items.",
        "{best} changes {concept} more than random edits and fits on shuffled labels do; its side "
        "effects were not measured."),
    "reliable in the state": (
        "{best} is reliable in the state; behaviour was not tested.",
        "Rewritten texts (--pair) and words (--words) that show what the model does.",
        "{best} edits {concept} with a reliability of {reliability} (95 % interval over seeds and "
        "groups), more than random edits of equal length and fits on shuffled labels; whether the "
        "model's behaviour follows was not tested."),
    "reliable": (
        "{best} is reliable, as far as this audit can tell.",
        "A property that should stay and was not named, other texts, or another model.",
        "{best} edits {concept} with a reliability of {reliability} (95 % interval over seeds and "
        "groups), more than random edits of equal length and fits on shuffled labels, and the "
        "model's choice follows.")}
NEARER = {      # whether the states come nearer to those of rewritten texts, for a paper's sentence
    "nearer": " The edited states are nearer to those of rewritten texts than unedited ones.",
    "not nearer": " The edited states are not surely nearer to those of rewritten texts than "
                  "unedited ones."}
LEAST_EFFECT = .01          # a total variation below which rewriting counts as no effect
FEWEST_CONFLICTS = 20       # items where a rule is wrong that a shortcut's verdict needs


@dataclass(frozen=True)
class Findings:
    """What an audit found, as tidy tables; ids in words, figures as numbers.

    - `answers`: question, word, what, control; place (1 to 10), value, low, high,
      control_value, have, need
    - `readings`: layer, reader; value, low, high
    - `judges`: layer, judge, property; accuracy, low, high, without states, trained, usable
    - `doses`: layer, method, kind (edit or control), strength; complete, kept, reliability, ends
    - `edits`: layer, method, word, symbol, strength, measure; value, low, high
    - `shortcuts`: layer, source; association, rule (share right), rule low, conflicts, probe (right
      where the rule is wrong), low, high, usual (the majority)
    - `items`: item (row), kind, name, layer, measure; value"""

    answers: pd.DataFrame
    readings: pd.DataFrame
    judges: pd.DataFrame
    doses: pd.DataFrame
    edits: pd.DataFrame
    shortcuts: pd.DataFrame
    items: pd.DataFrame

    @property
    def word(self) -> str:
        """The verdict."""
        return str(self.answers.word[self.answers.question == "change"].iloc[0])


@dataclass(frozen=True)
class Layer:
    """All draws of one layer: `reading`, `control` (None: not asked), `scores` and `beyond` are
    rows of `resample_seeds`; `usable`: judges by (judge, property); `strength`, and reliability on
    the validation items (`valid`), by method; `items`: means over the seeds."""

    case: Case
    fits: Sequence[Fit]
    reading: pd.DataFrame
    control: pd.DataFrame | None
    judges: pd.DataFrame
    usable: list[tuple[str, str]]
    scores: pd.DataFrame
    beyond: pd.DataFrame
    strength: dict[str, float]
    valid: dict[str, float]
    items: pd.DataFrame
    fewest: int

    def c(self, method: str, kind: str, strength: float) -> np.ndarray:
        """Draws of completeness by the judge that sees least of it."""
        return np.min([self.scores[method, kind, strength, f"complete: {judge}"]
                       for judge, name in self.usable if not name], axis=0)

    def s(self, method: str, kind: str, strength: float) -> np.ndarray | None:
        """Draws of selectivity for the property that suffers most; None: nothing is judged."""
        found = [self.scores[method, kind, strength, f"kept: {judge}: {name}"]
                 for judge, name in self.usable if name]
        return np.min(found, axis=0) if found else None

    def r(self, method: str, kind: str, strength: float) -> np.ndarray:
        """Draws of reliability; of completeness alone where nothing that should stay is judged."""
        c, s = self.c(method, kind, strength), self.s(method, kind, strength)
        return c if s is None else reliability(c, s).numpy()

    def strengths(self, method: str) -> list[float]:
        """All strengths that were tried."""
        return [*self.fits[0].edits[method, ACTUAL]]


def measure(case: Case, seeds: int, methods: Sequence[str], doses: Sequence[float],
            ranks: Sequence[int], fewest: int = 300, draws: int = 2000) -> Layer:
    """Fit and judge everything at one layer. Every seed is judged on the same test items.

    `fewest`: uncorrelated training items that a judge needs; `draws`: of the bootstrap."""
    fits = [audit.fit(case, seed, methods, doses, ranks) for seed in range(seeds)]
    groups = pd.Series(case.group[case.test.numpy()])
    readings = [audit.reading(case, one) for one in fits]
    reading = resample_seeds(readings, groups, draws)
    tasks = [audit.control_task(case, seed) for seed in range(seeds)]
    control = None
    if all(task is not None for task in tasks):
        asked = [task.dropna() for task in tasks if task is not None]
        rows = sorted(set.intersection(*(set(one.index) for one in asked)))
        control = resample_seeds([one.loc[rows].reset_index(drop=True) for one in asked],
                                 pd.Series(case.group[rows]), draws)
    judges = _examine(case, fits, fewest, draws)
    able = judges[judges.usable.astype(bool)]
    of_concept = set(able.judge[able.property == ""])
    usable = [(row.judge, row.property) for row in able.itertuples()
              if row.judge in of_concept or row.property]
    if not of_concept:
        usable = []
    scores = beyond = pd.DataFrame()
    strength: dict[str, float] = {}
    valid: dict[str, float] = {}
    items = [one.add_prefix("probe|") for one in readings]
    if usable:
        strength, valid = _choose(case, fits, usable, methods)
        tables = [audit.judged(case, one, usable, case.test) for one in fits]
        scores = resample_seeds(tables, groups, draws)
        after = [audit.consequences(case, one, strength) for one in fits]
        if after[0].shape[1]:
            some = [column for column in after[0] if after[0][column].notna().any()]
            beyond = resample_seeds([one[some] for one in after], groups, draws)
        items = [_of_items(*both, strength) for both in zip(items, tables, after)]
    return Layer(case, fits, reading, control, judges, usable, scores, beyond, strength, valid,
                 sum(items[1:], items[0]) / seeds, fewest)


def _of_items(read: pd.DataFrame, scored: pd.DataFrame, after: pd.DataFrame,
              strength: Mapping[str, float]) -> pd.DataFrame:
    """One seed's scores of the edits themselves at their strength, with those of the probes."""
    found = {name: read[name] for name in read}
    for table in (scored, after):
        for method, kind, s, what in table:
            if kind == ACTUAL and s == strength[method]:
                found[f"edit|{method}|{what}"] = table[method, kind, s, what]
    return pd.DataFrame(found)


def _examine(case: Case, fits: Sequence[Fit], fewest: int, draws: int) -> pd.DataFrame:
    exams = [audit.examined(case, one) for one in fits]
    found = []
    for judge in audit.JUDGES:
        for name in ("", *case.keep):
            trained = min(one.trained[name] for one in fits)
            row: dict[str, Any] = {
                "judge": judge, "property": name, "accuracy": np.nan, "low": np.nan,
                "high": np.nan, "without states": np.nan, "trained": trained, "tested": 0,
                "usable": 0}
            if all((judge, name) in exam for exam in exams):
                rows = exams[0][judge, name][0]
                right = np.array([exam[judge, name][1] for exam in exams])
                best = float(np.mean([exam[judge, name][2] for exam in exams]))
                group = pd.Series(case.group[rows.numpy()])
                drawn = contrast(resample_seeds(right, group, draws)[0])
                least = min(float(drawn["low"]), rate(right.mean(0) > .5, group).low)
                row |= {"accuracy": drawn["here"], "low": least, "high": drawn["high"],
                        "without states": best, "tested": len(rows),
                        "usable": int(trained >= fewest and least > best)}
            found.append(row)
    return pd.DataFrame(found)


def _choose(case: Case, fits: Sequence[Fit], usable: list[tuple[str, str]],
            methods: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Each method's strength with the best reliability on the validation items, and that."""
    means = pd.concat([audit.judged(case, one, usable, one.valid).mean() for one in fits],
                      axis=1).mean(axis=1)
    found, scored = {}, {}
    for method in methods:
        by_strength = {}
        for s in fits[0].edits[method, ACTUAL]:
            c = min(means[method, ACTUAL, s, f"complete: {judge}"]
                    for judge, name in usable if not name)
            kept = [means[method, ACTUAL, s, f"kept: {judge}: {name}"]
                    for judge, name in usable if name]
            by_strength[s] = float(reliability(c, min(kept))) if kept else c
        found[method] = max(by_strength, key=by_strength.__getitem__)
        scored[method] = by_strength[found[method]]
    return found, scored


def findings(layers: Sequence[Layer], least: float = .5, items: int = 0) -> Findings:
    """Every table of the audit, and its answers, from the layers that were measured.

    `least`: the reliability below which an edit does not count; `items`: how many there are in
    all."""
    reads = contrasts({(i, name): one for i, layer in enumerate(layers)
                       for name, one in _leads_of_reading(layer).items()})
    leads = {(i, method): _leads_of_edit(layer, method) for i, layer in enumerate(layers)
             for method in layer.strength}
    verdicts = contrasts(leads) if leads else pd.DataFrame(columns=["verdict", "here"])
    passed = {key: bool(row.verdict > 0) for key, row in verdicts.iterrows()}
    at = _best_layer(layers, reads, passed)
    layer = layers[at]
    found = {"data": _data(layer, items), "readable": _readable(layer, reads.loc[at]),
             "judges": _judges(layer)}
    beat = [method for method in layer.strength if passed[at, method]]
    best = max(beat or [*layer.strength], key=layer.valid.__getitem__, default="")
    found["edits"] = {"word": "not judged" if not layer.usable else "some" if beat else "none",
                      "what": ", ".join(beat), "control": "random edits, shuffled labels"}
    if best:
        found["edits"] |= _figure(np.asarray(leads[at, best]).min(1))
    found["cost"] = _cost(layer, best, bool(beat), least)
    found["pairs"] = _pairs(layer, best)
    found["behaviour"] = _behaviour(layer, best)
    shortcuts = _shortcuts(layer)
    found["shortcut"] = _shortcut(shortcuts, layer.case.k)
    word = _final(found)
    end = {"word": word, "what": found["shortcut"].get("what", "") if word == "shortcut" else best,
           "control": ""}
    if best and layer.usable:
        end |= _figure(layer.r(best, ACTUAL, layer.strength[best]))
    found |= {"change": end, "paper": end | {"control": found["pairs"]["word"]}}
    answers = pd.DataFrame([{"question": name, "place": place, **one}
                            for place, (name, one) in enumerate(found.items(), 1)])
    readings, judges, doses, edits = _tables(layers, passed, least)
    return Findings(answers, readings, judges, doses, edits, shortcuts, _items(layers))


def sentence(row: Mapping, concept: str = "the concept", items: int = 0) -> str:
    """An answer as one sentence, from its word and its figures."""
    if row["question"] == "verdict":
        return FINAL[row["word"]][0].format(best=row["what"])
    if row["question"] == "change":
        return FINAL[row["word"]][1]
    if row["question"] == "paper":
        known = row.get("low") is not None and row.get("low") == row.get("low")
        ends = (f"{row['value']:.2f}, {row['low']:.2f} to {row['high']:.2f}" if known else
                "not measured")
        said = FINAL[row["word"]][2].format(items=items, concept=concept, best=row["what"],
                                            what=row["what"], reliability=ends)
        return said + NEARER.get(row["control"], "") if "{best}" in FINAL[row["word"]][2] else said
    shares = {name: percent(row[name]) for name in ("value", "control_value") if name in row}
    if "rewriting value" in row:
        shares["rewriting"] = percent(row["rewriting value"])
    exact = {"value_exact": f"{100 * row['value']:.1f} %"} if "value" in row else {}
    return SENTENCES[row["question"], row["word"]].format(**{**row, **shares, **exact})


def percent(share: float) -> str:
    """A share as a whole percentage: "83 %", "−20 %", "0 %"."""
    return f"{round(100 * share) + 0:d} %".replace("-", "−") if share == share else "–"


def _figure(draws: np.ndarray) -> dict[str, float]:
    low, high = percentiles(draws[1:])
    return {"value": float(draws[0]), "low": float(low), "high": float(high)}


def _leads_of_reading(layer: Layer) -> dict[str, np.ndarray]:
    others = layer.reading.drop(columns="probe")
    found = {"controls": layer.reading[["probe"]].to_numpy() - others.to_numpy()}
    if layer.control is not None:
        found["control task"] = (layer.control["label"]
                                 - layer.control["control task"]).to_numpy()[:, None]
    return found


def _leads_of_edit(layer: Layer, method: str) -> np.ndarray:
    """Draws of each lead that counts: completeness over the whole dose curve, by each judge, and
    reliability at the chosen strength, over both controls."""
    found = []
    for control in CONTROLS:
        for judge in [judge for judge, name in layer.usable if not name]:
            found.append(np.mean([
                layer.scores[method, ACTUAL, s, f"complete: {judge}"]
                - layer.scores[method, control, s, f"complete: {judge}"]
                for s in layer.strengths(method)], axis=0))
        s = layer.strength[method]
        found.append(layer.r(method, ACTUAL, s) - layer.r(method, control, s))
    return np.stack(found, 1)


def _best_layer(layers: Sequence[Layer], reads: pd.DataFrame, passed: Mapping) -> int:
    """The layer of the best edit on the validation items, else that of the clearest reading."""
    scored = {i: max(layer.valid[method] for method in layer.strength if passed[i, method])
              for i, layer in enumerate(layers)
              if any(passed[i, method] for method in layer.strength)}
    lead = {i: float(reads.loc[i].here.min()) for i in range(len(layers))}
    return max(scored or lead, key=(scored or lead).__getitem__)


def _data(layer: Layer, items: int) -> dict:
    """By paper 3: are the test items enough to tell the probe from its best control?"""
    means = layer.reading.iloc[0].drop("probe")
    control = str(means.idxmax())
    right = [audit.reading(layer.case, one) for one in layer.fits]
    pilot = verdict(np.stack([one.probe for one in right]),
                    np.stack([one[control] for one in right]), layer.case.h.shape[1])
    trained = int(np.mean([len(one.fit) for one in layer.fits]))
    judges = int(layer.judges.trained[layer.judges.property == ""].min())
    found: dict[str, Any] = {"control": control, "have": items or len(layer.case.z),
             "value": pilot.delta, "low": pilot.low, "high": pilot.high,
             "control_value": pilot.power, "what": ""}
    # the pilot speaks of training items of one probe, which are a part of all items
    need = max(0., pilot.by_power) * found["have"] / max(1, trained)
    if pilot.delta <= 0 or pilot.word == "collapsed" or not np.isfinite(need):
        return found | {"word": "no difference"}
    need = max(need, found["have"] * layer.fewest / max(1, judges))
    short = pilot.word != "enough" or judges < layer.fewest
    return found | {"word": "too few" if short else "enough", "need": min(need, 1e6)}


def _readable(layer: Layer, reads: pd.DataFrame) -> dict:
    means = layer.reading.iloc[0].drop("probe")
    best = str(means.idxmax())
    word = "readable"
    if "control task" in reads.index and reads.verdict["control task"] <= 0:
        word = "by heart"
    if reads.verdict["controls"] <= 0:
        word = "not shown"
    return {"word": word, "what": "linear probe", "control": best,
            "control_value": float(means[best]), **_figure(layer.reading.probe.to_numpy())}


def _judges(layer: Layer) -> dict:
    of_concept = layer.judges[layer.judges.property == ""]
    best = of_concept.sort_values(["usable", "low"]).iloc[-1]
    named = {name for _, name in layer.usable}
    kept = named & {*layer.case.keep}
    word = ("none" if not layer.usable else "concept only" if not kept else
            "usable" if kept == {*layer.case.keep} else "usable in part")
    return {"word": word, "what": str(best.judge), "control": "the best answer without states",
            "control_value": float(best["without states"]), "value": float(best.accuracy),
            "low": float(best.low), "high": float(best.high)}


def _cost(layer: Layer, best: str, beat: bool, least: float) -> dict:
    if not best or not beat:
        return {"word": "not judged", "what": best, "control": ""}
    s = layer.strength[best]
    kept = layer.s(best, ACTUAL, s)
    if kept is None:
        return {"word": "not asked", "what": best, "control": ""}
    r = _figure(layer.r(best, ACTUAL, s))
    if r["low"] < least:
        return {"word": "lost", "what": best, "control": f"{percent(least)} asked for", **r,
                "control_value": least}
    random = layer.s(best, RANDOM, s)
    return {"word": "kept", "what": best, "control": "random edits", **_figure(kept),
            "control_value": float(random[0]) if random is not None else np.nan}


def _share(layer: Layer, method: str, kind: str, of: str, whole: str) -> np.ndarray:
    """Draws of 1 − mean of one score / mean of another."""
    name = (method, kind, layer.strength[method])
    return 1 - layer.beyond[*name, of].to_numpy() / layer.beyond[*name, whole].to_numpy()


def _pairs(layer: Layer, best: str) -> dict:
    if not best or (best, ACTUAL, layer.strength[best], "far") not in layer.beyond:
        return {"word": "not asked", "what": best, "control": ""}
    closeness, random = (_share(layer, best, kind, "far", "way") for kind in (ACTUAL, RANDOM))
    figure = _figure(closeness)
    return {"word": "nearer" if figure["low"] > 0 else "not nearer", "what": best,
            "control": "random edits", "control_value": float(random[0]), **figure}


def _behaviour(layer: Layer, best: str) -> dict:
    if not best or (best, ACTUAL, layer.strength[best], "moved") not in layer.beyond:
        return {"word": "not asked", "what": best, "control": ""}
    name = layer.strength[best]
    about: dict[str, Any] = {"what": best, "control": "random edits"}
    if (best, ACTUAL, name, "effect") not in layer.beyond:
        moved, random = (layer.beyond[best, kind, name, "moved"].to_numpy()
                         for kind in (ACTUAL, RANDOM))
        return about | {"word": "moves", "control_value": float(random[0]), **_figure(moved)}
    moved = _figure(layer.beyond[best, ACTUAL, name, "rewriting"].to_numpy())
    about |= {f"rewriting {end}": number for end, number in moved.items()}
    if moved["high"] < LEAST_EFFECT:
        return about | {"word": "unused", "control": "", **moved}
    explained, random, mixed = (_share(layer, best, kind, "error", "effect")
                                for kind in (ACTUAL, RANDOM, SHUFFLED))
    low = min(_figure(explained - other)["low"] for other in (random, mixed, 0 * random))
    return about | {"word": "follows" if low > 0 else "does not follow",
                    "control_value": float(random[0]), **_figure(explained)}


def _shortcuts(layer: Layer) -> pd.DataFrame:
    case, found = layer.case, []
    seeds = [audit.conflicts(case, one) for one in layer.fits]
    groups = case.group[case.test.numpy()]
    for source in seeds[0]:
        wrong = np.mean([one[source].rule for one in seeds], axis=0) < .5
        probe = np.mean([one[source].probe for one in seeds], axis=0)
        share = rate((probe >= .5)[wrong], groups[wrong]) if wrong.any() else None
        own = case.keep.get(source)
        found.append({
            "layer": case.layer, "source": source,
            "association": np.nan if own is None else audit.association(case.z, own),
            "rule": float(1 - wrong.mean()), "rule low": rate(~wrong, groups).low,
            "conflicts": int(wrong.sum()),
            "probe": share.share if share else np.nan, "low": share.low if share else np.nan,
            "high": share.high if share else np.nan,
            "usual": float(case.z[case.test].bincount().max() / len(case.test))})
    return pd.DataFrame(found, columns=["layer", "source", "association", "rule", "rule low",
                                        "conflicts", "probe", "low", "high", "usual"])


def _shortcut(sources: pd.DataFrame, classes: int) -> dict:
    """Sources whose rule is surely better than the majority count; the one that misleads most
    leads."""
    real = sources[sources["rule low"] > sources.usual]
    if sources.empty:
        return {"word": "not asked", "what": "", "control": ""}
    if real.empty:
        row = sources.loc[sources.rule.idxmax()]
        return {"word": "none known", "what": str(row.source), "control": "the majority",
                "value": float(row.rule), "control_value": float(row.usual)}
    worst = real.sort_values("high").iloc[0]
    told = real.conflicts >= FEWEST_CONFLICTS
    named, clear = real[told & (real.high < 1 / classes)], (told & (real.low > 1 / classes)).all()
    if not len(named) and not clear:
        worst = real[~told | (real.low <= 1 / classes)].iloc[0]
    return {"word": "named" if len(named) else "none found" if clear else "open",
            "what": ", ".join(named.source) if len(named) else str(worst.source),
            "control": "a rule that reads this alone", "value": float(worst.probe),
            "low": float(worst.low), "high": float(worst.high), "control_value": float(worst.rule)}


def _final(found: Mapping[str, dict]) -> str:
    """The verdict, from the words of the answers: the first reason not to call it reliable."""
    word = {name: one["word"] for name, one in found.items()}
    steps = [(word["shortcut"] == "named", "shortcut"),
             (word["data"] == "too few", "not enough data"),
             (word["readable"] != "readable", "not readable"),
             (word["judges"] == "none", "no usable judge"),
             (word["edits"] != "some", "no better than chance"),
             (word["cost"] == "lost", "costs too much"),
             (word["behaviour"] in ("does not follow", "unused"), "not used"),
             (word["cost"] != "kept" or word["judges"] != "usable", "cost unknown"),
             (word["behaviour"] != "follows", "reliable in the state")]
    return next((verdict for holds, verdict in steps if holds), "reliable")


def _tables(layers: Sequence[Layer], passed: Mapping, least: float) -> tuple[pd.DataFrame, ...]:
    readings: list[dict] = []
    judges: list[pd.DataFrame] = []
    doses: list[dict] = []
    edits: list[dict] = []
    for i, layer in enumerate(layers):
        depth = layer.case.layer
        readings += [{"layer": depth, "reader": name, **_figure(layer.reading[name].to_numpy())}
                     for name in layer.reading]
        if layer.control is not None:
            readings += [{"layer": depth, "reader": f"{name}, seen groups",
                          **_figure(layer.control[name].to_numpy())} for name in layer.control]
        judges.append(layer.judges.assign(layer=depth))
        for method in layer.strength:
            symbol = "rank" if method in audit.ERASE else "dose"
            for kind in (ACTUAL, *CONTROLS):
                for s in layer.strengths(method):
                    doses.append(_dose(layer, method, kind, s) | {"symbol": symbol})
            edits += _edit(layer, method, passed[i, method], least, symbol)
    return (pd.DataFrame(readings), pd.concat(judges, ignore_index=True), pd.DataFrame(doses),
            pd.DataFrame(edits))


def _dose(layer: Layer, method: str, kind: str, s: float) -> dict:
    kept = layer.s(method, kind, s)
    r = _figure(layer.r(method, kind, s))
    c = _figure(layer.c(method, kind, s))
    return {"layer": layer.case.layer, "method": method, "kind": kind, "strength": s,
            "complete": c["value"], "complete low": c["low"], "complete high": c["high"],
            "kept": np.nan if kept is None else float(kept[0]), "reliability": r["value"],
            "reliability low": r["low"], "reliability high": r["high"]}


def _edit(layer: Layer, method: str, beat: bool, least: float, symbol: str) -> list[dict]:
    s = layer.strength[method]
    kept, r = layer.s(method, ACTUAL, s), layer.r(method, ACTUAL, s)
    word = ("no better than chance" if not beat else "cost unknown" if kept is None else
            "costs too much" if _figure(r)["low"] < least else "reliable in the state")
    found = {"complete": layer.c(method, ACTUAL, s), "reliability": r,
             "lead over random edits": r - layer.r(method, RANDOM, s),
             "lead over shuffled labels": r - layer.r(method, SHUFFLED, s)}
    if kept is not None:
        found["kept"] = kept
    for what, of, whole in (("closeness", "far", "way"), ("explained", "error", "effect")):
        if (method, ACTUAL, s, of) in layer.beyond:
            found[what] = _share(layer, method, ACTUAL, of, whole)
            found[f"{what}, random edits"] = _share(layer, method, RANDOM, of, whole)
    for what in ("follows", "moved"):
        if (method, ACTUAL, s, what) in layer.beyond:
            found[what] = layer.beyond[method, ACTUAL, s, what].to_numpy()
    return [{"layer": layer.case.layer, "method": method, "word": word, "symbol": symbol,
             "strength": s, "measure": name, **_figure(draws)} for name, draws in found.items()]


def _items(layers: Sequence[Layer]) -> pd.DataFrame:
    """Every score of every test item, mean over the seeds; `row` is the item's row in the data."""
    found = []
    for layer in layers:
        long = layer.items.assign(row=layer.case.test.numpy()).melt(
            id_vars="row", var_name="column", value_name="value").dropna()
        parts = long.column.str.split("|")
        edit = parts.str[0] == "edit"
        found.append(pd.DataFrame({
            "row": long.row, "kind": parts.str[0], "name": parts.str[1], "layer": layer.case.layer,
            "measure": parts.str[2].where(edit, "right"), "value": long.value}))
    return pd.concat(found, ignore_index=True)


def fitted_edits(layers: Sequence[Layer]) -> dict[str, Any]:
    """Name of a file → the edit that the first seed fitted, at the chosen strength."""
    return {f"layer{layer.case.layer}_{method}.safetensors":
            layer.fits[0].fitted[method][strength]
            for layer in layers for method, strength in layer.strength.items()}


def tidy(frame: pd.DataFrame, ids: Sequence[str]) -> pd.DataFrame:
    """A table in the form figure, number, without what was not measured."""
    long = frame.melt(id_vars=[*ids], var_name="figure", value_name="number")
    return long.dropna(subset="number")


def tried(kind: str, seeds: Sequence[int], base: np.ndarray | None = None, n: int = 2000,
          margin: float = 2.0, weight: float = 1.0, trainings: int = 5) -> pd.DataFrame:
    """The audit in planted worlds of one kind, one for each seed: a row each.

    Columns kind, seed, verdict, named (the planted shortcut is named), moved, low, high (how far
    rewriting moves the model's choice, as the audit says it), and truth."""
    found = []
    for seed in seeds:
        world = planted.world(kind, n, seed, margin=margin, weight=weight, base=base)
        layer = measure(audit.from_planted(world), trainings, ["LEACE", "MeanShift", "FGSM"],
                        [.5, 1, 2], [1], 150, 500)
        end = findings([layer], .5, len(world.h))
        rows = end.answers.set_index("question")
        moved = [rows.get(f"rewriting {end}", pd.Series(dtype=float)).get("behaviour", np.nan)
                 for end in ("value", "low", "high")]
        shortcut = rows.loc["shortcut"]
        found.append({"kind": kind, "seed": seed, "verdict": end.word,
                      "named": int(shortcut.word == "named" and "other" in shortcut.what),
                      **dict(zip(("moved", "low", "high"), moved)), "truth": world.moved})
    return pd.DataFrame(found)
