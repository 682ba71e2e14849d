"""How pages run, and what a run leaves: parameters, execution, sweeps, results.

A page writes tables; a run holds them; the archive keeps the tables of some runs with the sources;
`results` reads the tables of many runs. A page imports what it needs from here:

    from probebook_runs import Count, ModelName, start, write_table
"""

from probebook_runs.archive import (
    archived,
    calibration_table,
    determinism_table,
    matrix_table,
    sweep_table,
)
from probebook_runs.page import end_page_if, in_text, start, write_file, write_table
from probebook_runs.schema import (
    BothSides,
    Count,
    DataFolder,
    Encoder,
    FilePath,
    Layer,
    LeftToRight,
    Masked,
    ModelName,
    Prompted,
    Rank,
    Seed,
    Share,
    Source,
    Strength,
    Sweep,
    Tagged,
    WithHead,
)
from probebook_runs.store import run_table
