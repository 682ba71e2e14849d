"""The Masked Gender Challenge: texts on nobody at a time or place (McMilin, § 4.1, appendix D)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from probebook.base import UserError
from probebook.corpora.biographies import PLACES, STAGES
from probebook.corpora.words import phrases, word_table

# until 2016 as in the paper's data; its text says 2001
TIMES = [str(year) for year in np.linspace(1801, 2016, 30).astype(int)]
VERBS = phrases(word_table("biographies")["challenge verbs"])


def texts(kind: str, stages: int = len(STAGES)) -> pd.DataFrame:
    """Texts “In {w}, [MASK] {verb} {stage}.” of 30 times or 20 places, 60 for each: 1,800 or 1,200.

    `stages`: only the first of the six stages of life. Columns: text, w, w_index (0 …), verb,
    stage. UserError for another kind than "time" or "place".
    """
    if kind not in ("time", "place"):
        raise UserError(f"kind {kind!r}: time or place")
    names = TIMES if kind == "time" else PLACES
    rows = [
        (f"In {w}, [MASK] {verb} {stage}.", w, i, verb, stage)
        for (i, w), verb, stage in product(enumerate(names), VERBS, STAGES[:stages])
    ]
    return pd.DataFrame(rows, columns=["text", "w", "w_index", "verb", "stage"])
