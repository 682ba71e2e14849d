"""Probes, oracles and edits of the blank's state at every layer, as pages 1/03 and 1/07 fit them.

layers = fit()                                   # 1 … depth → FittedLayer
layers[4].edit("AlterRep", 1.0, h, to)           # states [n, d]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError
from probebook.interventions.table import INTERVENTIONS, FitData
from probebook.models import carry, embed, load, word_logits
from probebook_chapters.causal_probing import (
    AgreementSetting,
    Judges,
    linear_probe,
    number_axes,
    oracles,
    perceptron,
    prepare,
    target,
)

GRID: dict[str, Any] = {"layers": [1, 2], "widths": [64], "lrs": [3e-4, 1e-3]}
METHODS = {row.name: row.slider for row in INTERVENTIONS.values() if row.slider is not None}
INLP_RANK, ALTERREP_RANK = 16, 4


@dataclass(frozen=True)
class FittedLayer:
    """What is fitted at one layer.

    `linear`, `oracle`: probes of the subject's number and of the attractor's. `data`: what the
    edits were fitted on; its `probe` is the perceptron that attacks work on, its `radius` the mean
    standard deviation of a coordinate."""

    s: AgreementSetting
    linear: Judges
    oracle: Judges
    data: FitData
    fitted: dict[str, Any]  # the edits by method
    axes: Tensor  # [d, 2], `number_axes`

    def edit(self, method: str, strength: float, h: Tensor, to: Tensor) -> Tensor:
        """States [n, d] after one of `METHODS` at a strength from 0 to the one given there.

        INLP's strength is a rank, LEACE's 0 or 1, an attack's a radius in σ. `to` [n]: wanted
        numbers, which the two erasures do not read. UserError: another method or strength."""
        if method not in METHODS or not 0 <= strength <= METHODS[method]:
            raise UserError(
                f"{method!r} at {strength:g} is not a valid edit: expected one of "
                f"{', '.join(METHODS)}, at a strength from 0 to the largest in METHODS"
            )
        row = INTERVENTIONS[method]
        if row.scale is None and not strength:
            return h
        return row.apply(row.at(self.fitted[method], strength, self.data), self.data)(h, to)


def fit(model: str = "pocket-agreement", n: int = 8_000, seed: int = 0) -> dict[int, FittedLayer]:
    """Fit probes, oracles and edits on `n` generated sentences at each layer above the embeddings.

    The embedding of the blank is the same in every sentence, so there is nothing to fit there."""
    lm = load(model, dtype="float32")  # whatever is asked for: a browser computes in it
    first = prepare(lm, "generated", n, layer=0, seed=seed)
    return {
        layer: _fit_layer(s) for layer, s in first.at_layers(range(1, first.lm.depth + 1)).items()
    }


def _fit_layer(s: AgreementSetting) -> FittedLayer:
    rows = s.parts["intervention"]
    h, radius = s.h[rows], float(s.h[rows].std(0).mean())
    attacked = target(s, **GRID)
    data = FitData(
        h, s.zc[rows], max_rank=INLP_RANK, perceptron=attacked, norm="linf", radius=radius
    )
    few = replace(data, max_rank=ALTERREP_RANK)
    fitted = {
        name: INTERVENTIONS[name].fit(few if name == "AlterRep" else data) for name in METHODS
    }
    return FittedLayer(
        s, oracles(s, linear_probe), oracles(s, perceptron, **GRID), data, fitted, number_axes(s)
    )


def over_strength(
    layers: dict[int, FittedLayer],
    text: str,
    forms: tuple[str, str],
    layer: int,
    to: int,
    methods: Sequence[str] = tuple(METHODS),
) -> pd.DataFrame:
    """What the verb and the oracles say of one sentence while the strength of edits grows.

    - `layer`: whose state at the blank is edited; its oracles read it
    - `to`: the number towards which the flips go

    Columns method, strength (a share of the largest one, the only one that LEACE has), and three
    probabilities of the plural: verb (the second of the `forms` against the first), subject and
    attractor."""
    lm, at, h = layers[layer].s.lm, layers[layer], embed([text], layers[layer].s.lm, layer=layer)
    rows = [
        (method, step / 16)
        for method in methods
        for step in range(17)
        if method != "LEACE" or step == 16
    ]
    states = torch.cat(
        [at.edit(method, share * METHODS[method], h, torch.tensor([to])) for method, share in rows]
    )
    arrived = carry([text], lm, layer, "[MASK]", states[:, None])[:, 0]
    logits = {
        "verb": word_logits([text] * len(rows), lm, [forms] * len(rows), h=arrived),
        "subject": at.oracle.zc(states),
        "attractor": at.oracle.ze(states),
    }
    return pd.DataFrame(rows, columns=["method", "strength"]).assign(
        **{name: ends.softmax(1)[:, 1].tolist() for name, ends in logits.items()}
    )


def verb_over_strength(
    layers: dict[int, FittedLayer], text: str, forms: tuple[str, str]
) -> pd.DataFrame:
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
