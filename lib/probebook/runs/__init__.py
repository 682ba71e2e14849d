"""How pages run: parameters, execution, stored results. A page imports what it needs from here."""
from probebook.runs.page import in_text, record, start
from probebook.runs.records import determinism_table, stored, swept
from probebook.runs.schema import Count, Layer, ModelName, Rank, Seed, Share, Strength
from probebook.runs.store import run_table

__all__ = ["Count", "Layer", "ModelName", "Rank", "Seed", "Share", "Strength", "determinism_table", "in_text", "record",
           "run_table", "start", "stored", "swept"]
