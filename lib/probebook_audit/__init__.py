"""Chapter 7's experiment: what an audit of a reader's own model and labels measures, and says.

A case becomes the draws of a layer, and layers become answers, each a word with its figures. The
words follow from the figures by the rules in `questions/` and `verdict.py`; the sentences, which
follow from the words alone, stand in `sentences.py`.

    case, = audit.cases(labelled.read("agreement"), "pocket-english", [-1])
    found = audit.findings([audit.measure(case, 5, ["LEACE", "FGSM"], [.5, 1, 2], [1])])
    found.word                                      # "reliable", "not enough data" …
"""

from probebook_audit.case import Case, from_planted, test_rows
from probebook_audit.fitting import METHODS, Fit, fit
from probebook_audit.from_files import fitting_items, from_states, saved_probe
from probebook_audit.from_model import cases, check, usual_place
from probebook_audit.layer import Layer
from probebook_audit.measuring import check_draws, measure
from probebook_audit.sentences import QUESTIONS, percent, sentence
from probebook_audit.tables import Findings, fitted_edits, tidy
from probebook_audit.verdict import findings, tried

__all__ = [
    "METHODS",
    "QUESTIONS",
    "Case",
    "Findings",
    "Fit",
    "Layer",
    "cases",
    "check",
    "check_draws",
    "findings",
    "fit",
    "fitted_edits",
    "fitting_items",
    "from_planted",
    "from_states",
    "measure",
    "percent",
    "saved_probe",
    "sentence",
    "test_rows",
    "tidy",
    "tried",
    "usual_place",
]
