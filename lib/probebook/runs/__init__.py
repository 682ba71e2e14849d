"""How pages run: parameters, execution, stored results. A page imports what it needs from here."""
from probebook.runs.archive import determinism_table, stored, swept
from probebook.runs.page import in_text, record, start
from probebook.runs.schema import (
    Count,
    DataFolder,
    Encoder,
    FilePath,
    Layer,
    ModelName,
    Rank,
    Seed,
    Share,
    Source,
    Strength,
    Sweep,
)
from probebook.runs.store import run_table

__all__ = ["Count", "DataFolder", "Encoder", "FilePath", "Layer", "ModelName", "Rank", "Seed",
           "Share", "Source",
           "Strength", "Sweep", "determinism_table", "in_text", "record", "run_table", "start",
           "stored", "swept"]
