"""The paper's raw outputs: what is read of made files of their form, and of the real ones; what is
said of none."""

import itertools
import os

import numpy as np
import pandas as pd
import pytest

from probebook.base import UserError
from probebook.measures.specification import scores
from probebook_chapters import released_outputs as released
from probebook_chapters import specification as audit

pytestmark = pytest.mark.library


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_DATA", str(tmp_path))
    (tmp_path / "raw" / "processed").mkdir(parents=True)
    models = ["bert-base-uncased", "davinci", "unknown"]
    texts = itertools.product(models, ["man", "client"], [0, 1], "fmn", [1901, 2016])
    rows = [
        (model, "P3" if model == "davinci" else None, "clerk", who, answer, g, year, i)
        for i, (model, who, answer, g, year) in enumerate(texts)
    ]
    columns = [
        "model",
        "prompt",
        "occupation",
        "participant_or_gender",
        "template_answer",
        "gender",
        "year",
    ]
    table = pd.DataFrame(rows, columns=[*columns, "prob_pct_normalised"])
    shuffled = table.sample(frac=1, random_state=0)
    shuffled.to_csv(tmp_path / "raw" / "winogender_long.csv.gz", index=False)
    mgc = [
        ("google_ul2", None, "time", w, g, p)
        for g in ("female", "male", "neutral")
        for w, p in (("1801", 1), ("1808", 2))
    ]
    mgc = pd.DataFrame(
        mgc, columns=["model", "prompt", "injected", "value", "gender", "mean_prob_pct"]
    )
    mgc.to_csv(tmp_path / "raw" / "mgc_long.csv", index=False)
    return tmp_path / "raw"


def test_shares_one_row_a_text(folder):
    wide = released.shares("raw", "winogender")
    assert wide.shape == (8, 6)
    assert list(wide.index.unique("model")) == ["BERT-base", "GPT-3"]
    # f, m, n × 1901, 2016
    assert wide.loc[("BERT-base", "", "clerk", "man", 0)].tolist() == [0, 1, 2, 3, 4, 5]
    assert wide.loc[("GPT-3", "P3", "clerk", "other", 1), ("neutral", 2016)] == 47
    index = wide.loc["BERT-base"].index
    unspecified = dict(zip(index, released.unspecified(index)))
    found = [unspecified["", "clerk", who, t] for who in ("man", "other") for t in (0, 1)]
    assert found == [True, False, True, True]


def test_masses_are_in_the_files_order(folder):
    rows = released.masses("raw")
    assert rows.w_index.tolist() == [0, 1]
    assert rows.female.tolist() == rows.neutral.tolist() == [1, 2]
    assert rows.model.unique() == ["UL2-20B-gen"]


def test_the_papers_own_metric_if_there(folder):
    assert released.processed("raw").empty
    path = folder / "processed" / "BERT-base_delta_stats.csv"
    path.write_text(",other_1,man_0\nclerk,4.35,0.0\n")
    found = released.processed("raw")
    assert found.to_dict() == {
        ("BERT-base", "clerk", "other", 1): 4.35,
        ("BERT-base", "clerk", "man", 0): 0,
    }


def test_simplified_texts_that_say_a_gender_are_specified():
    index = pd.MultiIndex.from_product(
        [["female", "male", "unspecified"], [0]], names=["participant", "template"]
    )
    assert released.unspecified(index).tolist() == [False, False, True]


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: released.shares("raw", "mgc"), "expected winogender, simplified"),
        (lambda: released.shares("raw", "simplified"), "no simplified_long.csv"),
        (lambda: released.masses("elsewhere"), "set PROBEBOOK_DATA"),
    ],
)
def test_bad_input_gets_one_line(folder, call, says):
    with pytest.raises(UserError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_missing_column_is_named(folder):
    (folder / "simplified_long.csv").write_text("model,prompt,occupation\n")
    with pytest.raises(UserError, match="no column 'participant_or_gender'"):
        released.shares("raw", "simplified")


@pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ, reason="needs real data: set PROBEBOOK_DATA"
)
def test_accuracies_by_the_female_share_to_three_digits():
    """From plain floats, rates rounded before their mean, as the paper rounds; and from exact
    decimals, not rounded: the two BERTs differ, of which a metric of just .5 comes out above it by
    rounding noise."""
    wide = released.shares("underspecification_raw", "winogender")
    plain = (wide["female", 2016] - wide["female", 1901]).abs()
    exact = audit.metrics(wide)["female"]
    found = {}
    for name, metric in (("plain", plain), ("exact", exact)):
        for model, one in audit.with_prompt_a(metric).groupby("model", sort=False):
            tpr, tnr, balanced = scores(one, released.unspecified(one.index), 0.5)
            rounded = (np.floor(1000 * tpr + 0.5) + np.floor(1000 * tnr + 0.5)) / 2000
            found.setdefault(model, {})[name] = rounded if name == "plain" else balanced
    assert {
        model: np.floor(1000 * f["plain"] + 0.5 + 1e-9) / 1000 for model, f in found.items()
    } == {
        "BERT-base": 0.673,
        "BERT-large": 0.728,
        "RoBERTa-base": 0.824,
        "RoBERTa-large": 0.904,
        "BART-base": 0.679,
        "BART-large": 0.671,
        "UL2-20B-gen": 0.679,
        "Flan-UL2-20B": 0.846,
        "GPT-3": 0.559,
        "GPT-3.5-SFT": 0.906,
        "GPT-3.5-RLHF": 0.732,
    }
    assert {
        model: round(f["exact"], 4)
        for model, f in found.items()
        if abs(f["exact"] - f["plain"]) > 6e-4
    } == {"BERT-base": 0.6708, "BERT-large": 0.7264}
