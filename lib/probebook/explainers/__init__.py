"""Explainers: estimates of how much a change of one concept changes a classifier's output.

`fit(train, model)` learns from reviews and a classifier; `effect` maps questions to estimates
[n, k]. A question is a base review and a change of one of its concepts, without the edited review.

    effects = SLearner().fit(train, model).effect(questions(table, pairs))
"""

from probebook.explainers.base import Explainer, questions
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
