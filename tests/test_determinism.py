"""Same seed and threads, same numbers: what was found for every page; `make verify` measures each
again, and builds the book with the sums of an older processor."""

from __future__ import annotations

import os
import subprocess
import sys

import pandas as pd
import pytest
from determinism import apart, kept, measure

from conftest import linked_home, probebook
from probebook_runs.pages import pages
from probebook_runs.store import plan

ROUNDING = 1e-6
OLDER = {  # sums in another order, and so other last digits in whatever is trained
    "ATEN_CPU_CAPABILITY": "default",
    "DNNL_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Nehalem",
}


def test_every_page_gave_the_same_again(built_book):
    """The table that readers see names each metric that a page now records, and no other."""
    found = kept()
    for page in pages():
        recorded = set(plan(page, "smoke").metrics().groupby(["table", "metric"]).groups)
        said = found[found.page == page.name]
        assert recorded == {*zip(said.table, said.metric)}, f"benchmarks/determinism.py {page.name}"
    assert set(found.page) == {page.name for page in pages()}
    assert (found.again == 0).all()
    assert found.threads.between(0, 1).all()


@pytest.mark.verify
@pytest.mark.parametrize("page", [page.name for page in pages()])
def test_a_page_gives_the_same_again_and_with_two_threads_as_far_as_said(page):
    now = measure(page).set_index(["table", "metric"])
    said = kept().query("page == @page").set_index(["table", "metric"]).threads
    assert (now.again == 0).all()
    assert set(now.index) == set(said.index)
    assert (now.threads <= 10 * said.clip(lower=ROUNDING)).all()


@pytest.mark.verify
def test_what_pages_say_of_their_runs_holds_on_an_older_processor(tmp_path):
    asked = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    env = os.environ | OLDER
    assert subprocess.check_output([sys.executable, "-c", asked], env=env) == b"DEFAULT\n"
    here = {
        "PROBEBOOK_HOME": str(linked_home(tmp_path / "home")),
        "PROBEBOOK_CACHE": str(tmp_path / "cache"),
    }
    done = probebook("build", env=OLDER | here)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize(
    ("values", "share"),
    [([1.0, -4.0], 0), ([1.0, -3.0], 0.25), ([1.5, -4.0], 0.125), ([float("nan"), -4.0], 1)],
)
def test_differences_are_shares_of_the_largest_value(values, share):
    table = pd.DataFrame({"table": "t", "method": ["a", "b"], "metric": "m", "value": [1.0, -4.0]})
    assert apart(table, table.assign(value=values))["t", "m"] == share
    assert apart(table, table.iloc[::-1].reset_index(drop=True))["t", "m"] == 1  # other rows
