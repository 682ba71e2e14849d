"""Leaders of groups: by place and not by label, ties shared, doubled rows refused."""

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.measures.leaders import best_rows, count_leads
from probebook_chapters.causal_probing import best_strengths
from probebook_runs import sweep_table

pytestmark = pytest.mark.library


def runs(seed: int = 0, groups: int = 4, of: int = 5) -> pd.DataFrame:
    """Scores of three methods in `of` runs of each group."""
    rng = np.random.default_rng(seed)
    ids = pd.MultiIndex.from_product(
        [range(groups), range(of), [*"abc"]], names=["group", "seed", "method"]
    )
    return pd.DataFrame({"value": rng.normal(size=len(ids))}, ids).reset_index()


def test_a_leader_is_the_maximum_of_its_group():
    table = runs()
    best = best_rows(table, ["group", "seed"], "value")
    assert len(best) == 20
    np.testing.assert_array_equal(best.value, table.groupby(["group", "seed"]).value.max())
    lowest = best_rows(table, ["group", "seed"], "value", lowest=True)
    np.testing.assert_array_equal(lowest.value, table.groupby(["group", "seed"]).value.min())


def test_doubled_row_labels_change_nothing():
    """`pd.concat` doubles them; a selection by label would then return both rows."""
    one, two = runs(0), runs(1).assign(group=lambda t: t.group + 4)
    joined = pd.concat([one, two])
    assert joined.index.has_duplicates
    renumbered = joined.reset_index(drop=True)
    for by in (["group"], ["group", "seed"]):
        pd.testing.assert_frame_equal(
            best_rows(joined, by, "value"), best_rows(renumbered, by, "value")
        )
    counted = count_leads(joined, "method", "seed", ["group"])
    pd.testing.assert_frame_equal(counted, count_leads(renumbered, "method", "seed", ["group"]))
    assert (counted.sum() == 5).all()


def test_the_order_is_that_of_the_groups_and_a_group_without_a_value_has_no_row():
    table = pd.DataFrame({"group": list("bbaac"), "value": [1, 2, 4, 3, np.nan]})
    assert best_rows(table, ["group"], "value").group.tolist() == ["b", "a"]
    tied = table.assign(value=1.0, place=range(5))
    assert best_rows(tied, ["group"], "value").place.tolist() == [0, 2, 4]


def test_ties_share_a_run():
    table = pd.DataFrame({"seed": [0, 0, 1, 1], "method": list("abab"), "value": [1, 1, 0, 2.0]})
    counted = count_leads(table, "method", "seed")
    assert counted.runs.to_dict() == {"a": 0.5, "b": 1.5}


def test_a_doubled_row_is_refused():
    table = pd.concat([runs(), runs()])
    with pytest.raises(UserError, match="60 rows are doubled: one row for each group, seed, meth"):
        count_leads(table, "method", "seed", ["group"])


@pytest.mark.parametrize("name", ["reliability_seeds", "reliability_real"])
def test_five_runs_have_five_leaders(name):
    """Of the stored sweeps of page 1/06, by each kind of judge."""
    table = sweep_table(name)
    table = table[(table.table == "best") & (table.metric == "reliability")]
    by = [column for column in ("model", "oracle") if column in table]
    assert (count_leads(table, "method", "seed", by).sum() == 5).all()


def test_the_best_strength_of_a_method_does_not_depend_on_row_labels():
    tried = pd.DataFrame(
        {
            "oracle": "mlp",
            "method": ["a", "a", "b"],
            "strength": [1.0, 2.0, 1.0],
            "reliability": [0.2, 0.3, np.nan],
        },
        index=[0, 0, 0],
    )
    assert best_strengths(tried, tried.dropna()).strength.tolist() == [2.0]
