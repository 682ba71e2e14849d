"""Edits of hidden states: fit once, `.at(...)` selects a strength, then call on h."""
from probebook.interventions.alterrep import AlterRep
from probebook.interventions.autoattack import AutoAttack
from probebook.interventions.fgsm import FGSM
from probebook.interventions.inlp import INLP
from probebook.interventions.leace import LEACE
from probebook.interventions.pgd import PGD
from probebook.interventions.rlace import RLACE

__all__ = ["INLP", "RLACE", "LEACE", "AlterRep", "FGSM", "PGD", "AutoAttack"]
