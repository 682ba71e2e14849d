"""Tables of pages: runs side by side, numbers in a sentence."""

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from probebook.tables import format_list, judges_over_seeds, side_by_side

pytestmark = pytest.mark.library

HERE = pd.DataFrame({"C": [0.1, 0.2], "S": [0.3, 0.4]}, pd.Index(["PGD", "FGSM"], name="method"))


def test_columns_are_in_the_order_published_stored_this_run_on_the_rows_of_this_run():
    published = pd.Series({"FGSM": 0.5, "LEACE": 0.6})
    found = side_by_side(published, {"real": pd.Series({"PGD": 0.7})}, HERE.C)
    wanted = pd.DataFrame(
        {"published": [None, 0.5], "real": [0.7, None], "this run": [0.1, 0.2]}, HERE.index
    )
    assert_frame_equal(found, wanted.astype(float))


def test_of_tables_each_row_stands_beside_itself():
    published = pd.DataFrame({"S": [0.9], "more": [1], "C": [0.8]}, ["FGSM"])
    found = side_by_side(published, {"real": HERE + 1}, HERE)
    assert found.index.names == ["method", "run"]
    assert list(found) == ["C", "S"]
    assert found.loc["FGSM"].to_dict("index") == {
        "published": {"C": 0.8, "S": 0.9},
        "real": {"C": 1.2, "S": 1.4},
        "this run": {"C": 0.2, "S": 0.4},
    }
    assert found.loc["PGD"].index.tolist() == ["published", "real", "this run"]
    assert found.loc["PGD", "C"].isna().tolist() == [True, False, False]


def test_numbers_are_listed_with_their_names():
    assert format_list({"ot": 0.434, "ibt": 0.16}) == "0.43 (ot), 0.16 (ibt)"
    assert format_list(pd.Series({"ot": 43.4}), ".0f", "% on {}") == "43 % on ot"


def test_what_oracles_know_is_the_mean_over_the_runs_of_a_model():
    figures = {
        "accuracy": 0.8,
        "low": 0.7,
        "high": 0.9,
        "majority": 0.6,
        "wrong_rule": 0.5,
        "trained": 900,
        "judges": 3,
        "tried": 4,
        "usable": 1,
    }
    rows = [
        {
            "table": "judges",
            "run": f"{model} {seed}",
            "model": model,
            "oracle": "mlp",
            "property": "number of the attractor",
            "metric": metric,
            "value": 0 if metric == "usable" and (model, seed) == ("minilm", 1) else value,
        }
        for model in ("minilm", "other")
        for seed in (0, 1)
        for metric, value in figures.items()
    ]
    shown = judges_over_seeds(pd.DataFrame(rows)).data
    assert shown.judge.tolist() == ["MiniLM", "other"]
    assert shown["can judge"].tolist() == ["50 % of runs", "yes"]
    assert shown["correct, %"].tolist() == ["80 [70, 90]"] * 2
    assert shown["judges"].tolist() == ["3 of 4"] * 2
