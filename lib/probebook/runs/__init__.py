"""How pages run: parameters, execution, stored results. A page imports what it needs from here."""
from probebook.runs.page import in_text, record, start
from probebook.runs.records import stored, swept
from probebook.runs.schema import Count, Layer, ModelName, Rank, Seed, Share, Strength
from probebook.runs.store import run_table

__all__ = ["Count", "Layer", "ModelName", "Rank", "Seed", "Share", "Strength", "in_text", "record", "run_table",
           "start", "stored", "swept"]
