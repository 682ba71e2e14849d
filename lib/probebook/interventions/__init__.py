"""Edits of hidden states: fit once, `.at(...)` selects a strength, then call on h."""
from probebook.interventions.alterrep import AlterRep
from probebook.interventions.fgsm import FGSM
from probebook.interventions.inlp import INLP

__all__ = ["INLP", "AlterRep", "FGSM"]
