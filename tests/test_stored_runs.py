"""Stored runs say what the code gives: `make verify` makes the first run of each sweep again."""

from __future__ import annotations

import pandas as pd
import pytest
from stored_runs import OURS, moved, recorded, stored

from probebook_runs.archive import manifests, sweep_table
from probebook_runs.execute import execute

# another processor adds in another order, and what is trained ends elsewhere
SHARE = 0.1


@pytest.mark.verify
@pytest.mark.parametrize("name", OURS)
def test_the_first_run_of_a_sweep_gives_the_figures_that_are_stored(name, forks):
    run, before = stored(name)
    execute(run, server=forks)
    far = moved(before, recorded(run))
    assert len(far) <= SHARE * len(before), far.nlargest(20, "apart").to_string()


@pytest.mark.parametrize("name", OURS)
def test_a_sweep_has_figures_of_the_first_run_of_its_file(name):
    run, before = stored(name)
    assert len(before) == len(before.drop(columns="value").drop_duplicates()) > 0


def test_every_archived_run_can_be_asked_for_again():
    for name in manifests():
        run, before = stored(name)
        assert run.page.name == name.rpartition("/")[0] and len(before)


def test_a_printed_sweep_keeps_null(tmp_path):
    """As the value of a parameter and as the name of a table; what is empty is missing."""
    path = tmp_path / "printed.csv"
    path.write_text("page,run,layers,table,rule,metric,value\np,r,null,null,,n,2\np,s,2,t,a,n,\n")
    found = sweep_table(str(path))
    assert found.layers.tolist() == ["null", "2"]
    assert found.table.tolist() == ["null", "t"]
    assert found.rule.isna().tolist() == [True, False]
    assert found.value.isna().tolist() == [False, True]


def test_what_moved_is_a_hundredth_of_the_largest_value_or_is_gone():
    keys = {"table": "t", "method": ["a", "b", "c", "d"], "rank": ["1", "2", "", ""], "metric": "m"}
    before = pd.DataFrame({**keys, "value": ["1.0", "-200.0", "3.0", ""]})
    now = before.assign(rank=["1.0", "2.0", "", ""], value=["2.9", "-202.1", "3.0", ""])
    assert moved(before, now).method.tolist() == ["b"]
    assert moved(before, now).apart.tolist() == [pytest.approx(2.1 / 200)]
    assert moved(before, now.iloc[:3]).method.tolist() == ["b", "d"]
    assert moved(before, before).empty
    assert moved(before, before.assign(further="x")).empty
