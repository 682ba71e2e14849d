"""Estimates of a concept's effect on a classifier: `.fit(train, model).effect(asked(table, pairs))` → [n, k]."""
from probebook.explainers.alterrep import AlterRepExplainer
from probebook.explainers.approx import Approx
from probebook.explainers.base import Explainer, asked
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

__all__ = ["Random", "Zero", "Approx", "CONEXP", "SLearner", "TCAV", "ConceptSHAP", "CausaLM", "INLPExplainer",
           "AlterRepExplainer", "PGDExplainer", "LEACEExplainer", "Explainer", "asked"]
