"""Stories under interventions, and the rows of each training regime (Chaturvedi et al., § 5.1)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from probebook.base import UserError
from probebook.corpora.stories import edits
from probebook.corpora.stories.changes import negate

VERSIONS = {
    "OS": lambda table: table,
    "TS": edits.truncate,
    "TS-R": lambda table: edits.delete_rationale(edits.truncate(table)),
    "OS-R": edits.delete_rationale,
    "TS-R+Aug": lambda table: edits.augment(edits.truncate(table)),
    "OS-R+Aug": edits.augment,
    "OS-R0": lambda table: edits.delete_rationale(table, put=False),
    "OS-D": edits.delete_other,
    "OS+answer": edits.append_answer,
    "TS+answer": lambda table: edits.append_answer(edits.truncate(table)),
}
NEGATED = ("negation", "value")  # the kinds that "ibt-negated" reads; others are held out
REGIMES = {
    "ot": ("OS",),
    "ot-matched": ("OS",),
    "ot-answered": ("OS",),
    "ot-unknown": ("OS",),
    "ibt": ("OS", "TS", "TS-R"),
    "ibt-negated": ("OS", "TS", "TS-R", *NEGATED),
}


def versions(table: pd.DataFrame, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The OS table under each intervention of `names`, keys of `VERSIONS`. UserError for another
    one."""
    unknown = [name for name in names if name not in VERSIONS]
    if unknown:
        raise UserError(f"intervention {unknown[0]!r}: one of {', '.join(VERSIONS)}")
    return {name: VERSIONS[name](table) for name in names}


def training(table: pd.DataFrame, regime: str, deleted: str = "TS-R") -> pd.DataFrame:
    """The rows that a regime of training reads. UserError for another regime.

    - "ot": the stories
    - "ot-matched": the same, read as often as it takes for as many updates as IBT has
    - "ot-answered", "ot-unknown": the same; the table should have no question without an answer, or
      many
    - "ibt": the stories, and what the interventions leave of them
    - "ibt-negated": and the stories negated in the ways of `NEGATED`

    `deleted`: "TS-R", as for CoQA, or "OS-R", as for HotpotQA, which has no TS.
    """
    if regime not in REGIMES or deleted not in ("TS-R", "OS-R"):
        raise UserError(
            f"regime {regime!r}, deleted {deleted!r}: one of {', '.join(REGIMES)}; TS-R or OS-R"
        )
    names: Sequence[str] = REGIMES[regime]
    if deleted == "OS-R":
        names = ["OS-R" if name == "TS-R" else name for name in names if name != "TS"]
    read = versions(table, [name for name in names if name not in NEGATED])
    changed = [negate(table, how) for how in names if how in NEGATED]
    return pd.concat([*read.values(), *changed], ignore_index=True)
