"""Probes, oracles and edits of the blank's state at every layer, as pages 1/03 and 1/07 fit them.

layers = fit()                                   # 1 … depth → At
layers[4].edited("AlterRep", 1.0, h, to)         # states [n, d]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError
from probebook.interventions import FGSM, INLP, LEACE, PGD, AlterRep, MeanShift
from probebook.interventions.alterrep import FittedAlterRep
from probebook.interventions.inlp import FittedINLP
from probebook.interventions.leace import FittedLEACE
from probebook.interventions.mean_shift import FittedMeanShift
from probebook.models import carry, embed, load, word_logits
from probebook.probes.mlp import FittedMLP
from probebook_chapters.causal_probing import (
    Judges,
    Setting,
    linear_probe,
    number_axes,
    oracles,
    prepare,
    target,
)

GRID: dict[str, Any] = {"layers": [1, 2], "widths": [64], "lrs": [1e-3, 1e-2]}
METHODS = {"INLP": 16, "LEACE": 1, "AlterRep": 16, "MeanShift": 4, "FGSM": 1.6, "PGD": 1.6}


@dataclass(frozen=True)
class At:
    """What is fitted at one layer.

    - `linear`, `oracle`: probes of the subject's number and of the attractor's (`Judges`)
    - `attacked`: the perceptron that FGSM and PGD work on
    - `sigma`: mean standard deviation of a coordinate, the unit of an attack's radius
    - `axes` [d, 2]: `number_axes`"""

    s: Setting
    linear: Judges
    oracle: Judges
    attacked: FittedMLP
    inlp: FittedINLP
    leace: FittedLEACE
    alterrep: FittedAlterRep
    shift: FittedMeanShift
    sigma: float
    axes: Tensor

    def edited(self, method: str, strength: float, h: Tensor, to: Tensor) -> Tensor:
        """States [n, d] after one of `METHODS` at a strength from 0 to the one given there.

        INLP's strength is a rank, LEACE's 0 or 1, an attack's a radius in σ. `to` [n]: wanted
        numbers, which the two erasures do not read. UserError: another method or strength."""
        if method not in METHODS or not 0 <= strength <= METHODS[method]:
            raise UserError(
                f"{method} at {strength:g}: one of {', '.join(METHODS)}, at a strength "
                "from 0 to the largest in METHODS"
            )
        if method == "INLP":
            return self.inlp.at(rank=int(strength))(h)
        if method == "LEACE":
            return self.leace(h) if strength else h
        if method == "AlterRep":
            return self.alterrep.at(alpha=strength)(h, to=to)
        if method == "MeanShift":
            return self.shift.at(strength)(h, to=to)
        attack = FGSM(self.attacked) if method == "FGSM" else PGD(self.attacked)
        return attack.at(eps=strength * self.sigma)(h, to=to)


def fit(model: str = "pocket-agreement", n: int = 8_000, seed: int = 0) -> dict[int, At]:
    """Fit probes, oracles and edits on `n` generated sentences at each layer above the embeddings.

    The embedding of the blank is the same in every sentence, so there is nothing to fit there."""
    lm = load(model, dtype="float32")  # whatever is asked for: a browser computes in it
    first = prepare(lm, "generated", n, layer=0, seed=seed)
    return {layer: _at(s) for layer, s in first.at_layers(range(1, first.lm.depth + 1)).items()}


def _at(s: Setting) -> At:
    rows = s.parts["intervention"]
    h, z = s.h[rows], s.zc[rows]
    attacked = target(s, **GRID)
    if not isinstance(attacked, FittedMLP):
        raise UserError("the attacked probe must be a perceptron")
    return At(
        s,
        oracles(s, linear_probe),
        oracles(s, **GRID),
        attacked,
        INLP(max_rank=int(METHODS["INLP"]), C=0.1).fit(h, z),
        LEACE().fit(h, z),
        AlterRep(max_rank=4, C=0.1).fit(h, z),
        MeanShift().fit(h, z),
        float(h.std(0).mean()),
        number_axes(s),
    )


def over_strength(
    layers: dict[int, At],
    text: str,
    forms: tuple[str, str],
    layer: int,
    to: int,
    methods: Sequence[str] = tuple(METHODS),
    steps: int = 17,
) -> pd.DataFrame:
    """What the verb and the oracles say of one sentence while the strength of edits grows.

    - `layer`: whose state at the blank is edited; its oracles read it
    - `to`: the number towards which the flips go

    Columns method, strength (a share of the largest one, the only one that LEACE has), and three
    probabilities of the plural: verb (the second of the `forms` against the first), subject and
    attractor."""
    lm, at, h = layers[layer].s.lm, layers[layer], embed([text], layers[layer].s.lm, layer=layer)
    rows = [
        (method, step / (steps - 1))
        for method in methods
        for step in range(steps)
        if method != "LEACE" or step == steps - 1
    ]
    states = torch.cat(
        [
            at.edited(method, share * METHODS[method], h, torch.tensor([to]))
            for method, share in rows
        ]
    )
    arrived = carry([text], lm, layer, "[MASK]", states[:, None])[:, 0]
    logits = {
        "verb": word_logits([text] * len(rows), lm, [forms] * len(rows), h=arrived),
        "subject": at.oracle.zc(states),
        "attractor": at.oracle.ze(states),
    }
    return pd.DataFrame(rows, columns=["method", "strength"]).assign(
        **{name: found.softmax(1)[:, 1].tolist() for name, found in logits.items()}
    )


def verb_over_strength(layers: dict[int, At], text: str, forms: tuple[str, str]) -> pd.DataFrame:
    """The preference for the plural form of a verb after edits at the first and last layer, without
    LEACE's, which has no strength.

    `text`: with a plural subject; the flips go towards the singular. Columns method, edited (which
    layer), strength (a share of the largest one), and plural: the probability of the second of the
    `forms` against the first."""
    methods = [method for method in METHODS if method != "LEACE"]
    ends = {"the first layer": 1, "the last layer": max(layers)}
    return pd.concat(
        [
            over_strength(layers, text, forms, layer, 0, methods).assign(edited=name)
            for name, layer in ends.items()
        ],
        ignore_index=True,
    ).rename(columns={"verb": "plural"})
