"""The audit of a reader's own model and labels: what it measures, and what it concludes.

A case (items at one layer) is measured, layers are concluded on. Each answer is a word with its
figures, and the first doubt among them is the verdict (`verdict.py`).

    items = audit.prepare_texts(labelled.read("agreement"), "pocket-english", "[MASK]")
    case, = audit.cases(items, "pocket-english", [-1])
    result = audit.conclude([audit.measure(case, 5, ["LEACE", "FGSM"], [.5, 1, 2], [1])])
    result.verdict                                  # "passes", "not enough data" …
"""

from probebook_audit.calibration import MONITORED, audit_planted, from_planted, planted_monitor
from probebook_audit.case import Case, test_rows
from probebook_audit.fitting import fit
from probebook_audit.from_files import fitting_items, from_states
from probebook_audit.from_model import cases, check, prepare_texts
from probebook_audit.measuring import check_draws, measure
from probebook_audit.result import IDS, conclude, fitted_edits
from probebook_audit.verdict import QUESTIONS, Verdict, sentence, tone

__all__ = [
    "IDS",
    "MONITORED",
    "QUESTIONS",
    "Case",
    "Verdict",
    "audit_planted",
    "cases",
    "check",
    "check_draws",
    "conclude",
    "fit",
    "fitted_edits",
    "fitting_items",
    "from_planted",
    "from_states",
    "measure",
    "sentence",
    "test_rows",
    "tone",
    "planted_monitor",
    "prepare_texts",
]
