"""The papers' own figures, as tables with their source (`data/published`)."""

from __future__ import annotations

import pandas as pd

from probebook.base import DATA, UserError


def published(name: str) -> pd.DataFrame:
    """A table of published figures, e.g. "causal_probing_table3"; `source` cites the table."""
    path = DATA / "published" / f"{name}.csv"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.csv")))
        raise UserError(f"no published table {name!r}: there are {known}")
    return pd.read_csv(path)
