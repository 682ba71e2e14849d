"""The one table of explainers: how each is made, and its colour in figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from probebook.explainers.base import Explainer, Variant
from probebook.explainers.black_box import CONEXP, Approx, Random, SLearner, Zero
from probebook.explainers.causalm import CausaLM
from probebook.explainers.concept_shap import ConceptSHAP
from probebook.explainers.interventions import (
    AlterRepExplainer,
    INLPExplainer,
    LEACEExplainer,
    PGDExplainer,
)
from probebook.explainers.tcav import TCAV
from probebook.interventions.table import INTERVENTIONS


@dataclass(frozen=True)
class Row:
    """One explainer. What it sees of a question, and of the model, its class says."""

    make: Callable[[Variant, int], Explainer]  # of a variant, for those that have both, and a seed
    colour: int | None = None  # position in the figures' palette; None: grey, as baselines are
    in_paper: bool = True  # whether it is one of the eight of Abraham et al. or its floor


EXPLAINERS = {
    "Zero": Row(lambda variant, seed: Zero()),
    "Random": Row(lambda variant, seed: Random(seed)),
    "Approx": Row(lambda variant, seed: Approx(seed), colour=8),
    "CONEXP": Row(lambda variant, seed: CONEXP(), colour=5),
    "S-Learner": Row(lambda variant, seed: SLearner(variant), colour=3),
    "TCAV": Row(lambda variant, seed: TCAV(variant, seed=seed), colour=6),
    "ConceptSHAP": Row(lambda variant, seed: ConceptSHAP(variant, seed=seed), colour=5),
    "CausaLM": Row(lambda variant, seed: CausaLM(variant, seed=seed), colour=9),
    "INLP": Row(
        lambda variant, seed: INLPExplainer(variant, seed=seed), colour=INTERVENTIONS["INLP"].colour
    ),
    "LEACE": Row(
        lambda variant, seed: LEACEExplainer(), colour=INTERVENTIONS["LEACE"].colour, in_paper=False
    ),
    "AlterRep": Row(
        lambda variant, seed: AlterRepExplainer(),
        colour=INTERVENTIONS["AlterRep"].colour,
        in_paper=False,
    ),
    "PGD": Row(
        lambda variant, seed: PGDExplainer(), colour=INTERVENTIONS["PGD"].colour, in_paper=False
    ),
}
