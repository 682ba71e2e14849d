"""The audit of table 3 on made outputs whose winners are known."""

import numpy as np
import pandas as pd
import pytest

from probebook.measures import specification as spec
from probebook_chapters import specification as audit
from probebook_chapters.released_outputs import unspecified

pytestmark = pytest.mark.library

YEARS, JOBS = [1901, 1904, 2012, 2016], [f"job{i}" for i in range(40)]


@pytest.fixture(scope="module")
def wide():
    """Three models, 40 occupations × 8 texts; well-specified texts move little. One decimal, as in
    the files."""
    rng = np.random.default_rng(0)
    participants = ["man", "woman", "someone", "other"]
    index = pd.MultiIndex.from_product(
        [["BERT-base", "BERT-large", "GPT-3"], [""], JOBS, participants, [0, 1]],
        names=["model", "prompt", "occupation", "participant", "template"],
    )
    size = np.where(unspecified(index), 1.5, 0.3)[:, None]
    columns = pd.MultiIndex.from_product([audit.NAMES, YEARS], names=["gender", "year"])
    return pd.DataFrame(
        (50 + size * rng.standard_normal((len(index), 12))).round(1), index, columns
    )


def test_metric_is_the_distance_of_the_ends_without_noise_of_floats(wide):
    one, two = audit.metrics(wide), audit.metrics(wide, 2)
    row = wide.iloc[3]["female"]
    assert one.female.iloc[3] == pytest.approx(abs(row[2016] - row[1901]))
    assert two.female.iloc[3] == pytest.approx(
        abs(row[2016] + row[2012] - row[1901] - row[1904]) / 2
    )
    edge = pd.DataFrame(
        [[49.4, 49.9]] * 2, wide.index[:2], pd.MultiIndex.from_product([["female"], [1901, 2016]])
    )
    edge = pd.concat([edge.rename(columns={"female": gender}) for gender in audit.NAMES], axis=1)
    assert (audit.metrics(edge) == 0.5).all().all()


def test_every_rule_lies_within_the_bounds(wide):
    outputs = {"winogender": wide}
    found = audit.rules(outputs).melt(
        ["texts", "model", "prompt", "gender"], ["tpr", "tnr"], "rate"
    )
    both = found.merge(audit.bounds(outputs), on=["texts", "model", "prompt", "rate"])
    assert len(both) == 18
    assert both.value.between(both.least, both.most).all()
    np.testing.assert_allclose(
        both.groupby(["model", "rate"]).value.mean(), both.groupby(["model", "rate"]).mixed.first()
    )
    assert (both.most - both.least).gt(0.1).all()


def test_known_winners_are_found_and_their_rates(wide):
    """Values of winners drawn at random; the true rates lie within narrow bounds, another model
    explains few."""
    rng = np.random.default_rng(1)
    two, one = (audit.with_prompt_a(audit.metrics(wide, k)) for k in (2, 1))
    two, one = two.loc[["BERT-base"]], one.loc["BERT-base"]
    winner = rng.integers(0, 3, len(two))
    older = pd.Series(two.to_numpy()[np.arange(len(two)), winner], two.index)
    row = audit.rates_from_older_values(wide, older).iloc[0]
    above = one.to_numpy()[np.arange(len(one)), winner] > 0.5
    free = unspecified(one.index)
    assert row["none"] == 0
    assert row["none, others"] > 0.5
    assert row["tpr least"] <= above[free].mean() <= row["tpr most"] < row["tpr least"] + 0.05
    assert row["tnr least"] <= (~above[~free]).mean() <= row["tnr most"]
    assert audit.rates_from_older_values(wide, older.iloc[:0]) is None


def test_areas_and_their_control(wide):
    found = audit.areas({"winogender": wide}, draws=50, shuffles=200)
    found = found.set_index("model").loc["GPT-3"]
    one = audit.with_prompt_a(audit.metrics(wide))["female"].loc["GPT-3"]
    free = unspecified(one.index)
    pairs = np.mean([(a > b) + 0.5 * (a == b) for a in one[free] for b in one[~free]])
    assert found.area == pytest.approx(pairs)
    assert found.area == pytest.approx(audit._area(audit.rankdata(one), free))
    assert found.least < 0.5 < found.most < found.low
    assert abs(found.shuffled - 0.5) < 0.02
    scan = (
        audit.thresholds({"winogender": wide}, [0.5, 200])
        .query("model == 'GPT-3'")
        .balanced.tolist()
    )
    assert scan == [spec.scores(one, free, 0.5).balanced, 0.5]
    curve = (
        audit.roc_curves({"winogender": wide}, np.linspace(0, 1, 2001))
        .query("model == 'GPT-3'")
        .found.to_numpy()
    )
    assert (curve[1:] + curve[:-1]).sum() / 4000 == pytest.approx(pairs, abs=2e-3)
    assert curve[-1] == 1
