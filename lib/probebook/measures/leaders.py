"""Who leads in each group of a table, and how often: ties and doubled rows told apart."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from probebook.base import UserError


def best_rows(
    table: pd.DataFrame, by: Sequence[str], value: str, lowest: bool = False
) -> pd.DataFrame:
    """The row with the highest `value` of each group `by`, in the order of the groups.

    Rows are found by their place, so that row labels may be doubled, as after `pd.concat`. Of equal
    values the first counts; a group whose values are all NaN has no row."""
    ordered = table.dropna(subset=value).sort_values(value, ascending=lowest, kind="stable")
    best = ordered.drop_duplicates([*by]).set_index([*by], drop=False)
    groups = table[[*by]].drop_duplicates().itertuples(index=False, name=None)
    keys = [key if len(by) > 1 else key[0] for key in groups]
    best = best.loc[[key for key in keys if key in best.index]]
    return best.reset_index(drop=True)


def count_leads(runs: pd.DataFrame, who: str, run: str, by: Sequence[str] = ()) -> pd.DataFrame:
    """In how many runs each of `who` has the highest value: a row each, a column a group `by`.

    Those that tie share a run equally, so that every column sums to the number of its runs.
    UserError: a run has two rows of one of `who`."""
    ids = [*by, run]
    if doubled := int(runs.duplicated([*ids, who]).sum()):
        raise UserError(f"{doubled} rows are doubled: one row for each {', '.join([*ids, who])}")
    leading = runs[runs.value == runs.groupby(ids).value.transform("max")]
    share = 1 / leading.groupby(ids).value.transform("size")
    table = leading.assign(lead=share).pivot_table(
        index=who, columns=[*by] or None, values="lead", aggfunc="sum", fill_value=0, sort=False
    )
    return table if by else table.rename(columns={"lead": "runs"})
