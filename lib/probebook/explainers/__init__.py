"""Explainers: estimates of how much a change of one concept changes a classifier's output.

`fit(train, model)` learns from reviews and a classifier; `effect` maps questions to estimates
[n, k]. A question is a base review and a change of one of its concepts, without the edited review.

    effects = SLearner().fit(train, model).effect(questions(table, pairs))
"""

from probebook.explainers.alterrep import AlterRepExplainer
from probebook.explainers.approx import Approx
from probebook.explainers.base import Explainer, questions
from probebook.explainers.causalm import CausaLM
from probebook.explainers.concept_shap import ConceptSHAP
from probebook.explainers.conexp import CONEXP
from probebook.explainers.inlp import INLPExplainer
from probebook.explainers.leace import LEACEExplainer
from probebook.explainers.pgd import PGDExplainer
from probebook.explainers.random import Random
from probebook.explainers.slearner import SLearner
from probebook.explainers.tcav import TCAV
from probebook.explainers.zero import Zero

__all__ = [
    "Random",
    "Zero",
    "Approx",
    "CONEXP",
    "SLearner",
    "TCAV",
    "ConceptSHAP",
    "CausaLM",
    "INLPExplainer",
    "AlterRepExplainer",
    "PGDExplainer",
    "LEACEExplainer",
    "Explainer",
    "questions",
]
