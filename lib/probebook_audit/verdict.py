"""The verdict: the answers in their order, and the first reason not to call an edit reliable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from probebook.measures.intervals import contrasts
from probebook_audit.case import from_planted
from probebook_audit.fitting import ACTUAL
from probebook_audit.layer import Layer, figure_of_share
from probebook_audit.measuring import measure
from probebook_audit.questions import (
    behaviour,
    cost,
    counterfactual,
    data,
    edits,
    judges,
    readable,
    shortcut,
)
from probebook_audit.tables import Findings, items, tables
from probebook_chapters import planted


def findings(layers: Sequence[Layer], least: float = 0.5, n: int = 0) -> Findings:
    """Every table of the audit, and its answers, from the layers that were measured.

    `least`: the reliability below which an edit does not count; `n`: how many items there
    are in all."""
    reads = contrasts(
        {
            (i, name): one
            for i, layer in enumerate(layers)
            for name, one in readable.leads(layer).items()
        }
    )
    leads = {
        (i, method): edits.leads(layer, method)
        for i, layer in enumerate(layers)
        for method in layer.strength
    }
    verdicts = contrasts(leads) if leads else pd.DataFrame(columns=["verdict", "here"])
    passed = {key: bool(row.verdict > 0) for key, row in verdicts.iterrows()}
    at = _best_layer(layers, reads, passed)
    layer = layers[at]
    found = {
        "data": data.answer(layer, n),
        "readable": readable.answer(layer, reads.loc[at]),
        "judges": judges.answer(layer),
    }
    beat = [method for method in layer.strength if passed[at, method]]
    best = max(beat or [*layer.strength], key=layer.valid.__getitem__, default="")
    found["edits"] = edits.answer(layer, beat, leads[at, best].min(1) if best else None)
    found["cost"] = cost.answer(layer, best, bool(beat), least)
    found["pairs"] = counterfactual.answer(layer, best)
    found["behaviour"] = behaviour.answer(layer, best)
    shortcuts = shortcut.table(layer)
    found["shortcut"] = shortcut.answer(shortcuts, layer.case.k)
    word = _final(found)
    end = {
        "word": word,
        "what": found["shortcut"].get("what", "") if word == "shortcut" else best,
        "control": "",
    }
    if best and layer.usable:
        end |= figure_of_share(layer.r(best, ACTUAL, layer.strength[best]))
    found |= {"change": end, "paper": end | {"control": found["pairs"]["word"]}}
    answers = pd.DataFrame(
        [
            {"question": name, "place": place, **one}
            for place, (name, one) in enumerate(found.items(), 1)
        ]
    )
    return Findings(
        answers, **tables(layers, passed, least), shortcuts=shortcuts, items=items(layers)
    )


def _best_layer(layers: Sequence[Layer], reads: pd.DataFrame, passed: Mapping) -> int:
    """The layer of the best edit on the validation items, else that of the clearest reading."""
    scored = {
        i: max(layer.valid[method] for method in layer.strength if passed[i, method])
        for i, layer in enumerate(layers)
        if any(passed[i, method] for method in layer.strength)
    }
    lead = {i: float(reads.loc[i].here.min()) for i in range(len(layers))}
    return max(scored or lead, key=(scored or lead).__getitem__)


def _final(found: Mapping[str, dict]) -> str:
    """The verdict, from the words of the answers: the first reason not to call it reliable."""
    word = {name: one["word"] for name, one in found.items()}
    steps = [
        (word["shortcut"] == "named", "shortcut"),
        (word["data"] == "too few", "not enough data"),
        (word["readable"] != "readable", "not readable"),
        (word["judges"] == "none", "no usable judge"),
        (word["edits"] != "some", "no better than chance"),
        (word["cost"] == "lost", "costs too much"),
        (word["behaviour"] in ("does not follow", "unused"), "not used"),
        (word["cost"] != "kept" or word["judges"] != "usable", "cost unknown"),
        (word["behaviour"] != "follows", "reliable in the state"),
    ]
    return next((verdict for holds, verdict in steps if holds), "reliable")


def tried(
    kind: str,
    seeds: Sequence[int],
    base: np.ndarray | None = None,
    n: int = 2000,
    margin: float = 2.0,
    weight: float = 1.0,
    trainings: int = 5,
) -> pd.DataFrame:
    """The audit in planted worlds of one kind, one for each seed: a row each.

    Columns kind, seed, verdict, named (the planted shortcut is named), moved, low, high (how far
    rewriting moves the model's choice, as the audit says it), and truth."""
    found = []
    for seed in seeds:
        world = planted.world(kind, n, seed, margin=margin, weight=weight, base=base)
        layer = measure(
            from_planted(world),
            trainings,
            ["LEACE", "MeanShift", "FGSM"],
            [0.5, 1, 2],
            [1],
            150,
            500,
        )
        end = findings([layer], 0.5, len(world.h))
        rows = end.answers.set_index("question")
        moved = [
            rows.get(f"rewriting {end}", pd.Series(dtype=float)).get("behaviour", np.nan)
            for end in ("value", "low", "high")
        ]
        shortcut = rows.loc["shortcut"]
        found.append(
            {
                "kind": kind,
                "seed": seed,
                "verdict": end.word,
                "named": int(shortcut.word == "named" and "other" in shortcut.what),
                **dict(zip(("moved", "low", "high"), moved)),
                "truth": world.moved,
            }
        )
    return pd.DataFrame(found)
