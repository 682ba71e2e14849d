"""A monitor's audit: closed forms of its measures, planted worlds whose answer is known, refusals."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import Result
from sklearn.metrics import roc_auc_score, roc_curve
from typer.testing import CliRunner

from probebook.base import UserError
from probebook.corpora import agreement
from probebook.measures.roc import area_and_recall, auroc, shares_above
from probebook_audit.calibration import APART, ELSEWHERE, planted_monitor
from probebook_audit.monitor import LIKE, Monitored, measure
from probebook_cli import app


def scored(seed, n=200):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    return np.round(rng.normal(size=n) + positive, 1), positive  # rounded: many ties


@pytest.mark.parametrize("seed", range(3))
def test_the_area_is_scikit_learns_with_ties_and_with_weights(seed):
    score, positive = scored(seed)
    weights = np.random.default_rng(seed).integers(0, 3, (4, len(score)))
    expected = [roc_auc_score(positive, score, sample_weight=one) for one in weights]
    np.testing.assert_allclose(auroc(score, positive, weights), expected, atol=1e-12)
    assert auroc(score, positive)[0] == pytest.approx(1 - auroc(-score, positive)[0])


@pytest.mark.parametrize("fpr", [0.0, 0.05, 0.3, 1.0])
def test_recall_at_a_rate_is_the_highest_point_of_the_curve_up_to_it(fpr):
    score, positive = scored(1)
    false, true, _ = roc_curve(positive, score, drop_intermediate=False)
    assert area_and_recall(score, positive, fpr)[1][0] == pytest.approx(
        true[false <= fpr + 1e-12].max()
    )


def test_a_threshold_counts_what_reaches_it():
    recall, alarms = shares_above([0, 1, 1, 2], [False, False, True, True], 1)
    assert (recall[0], alarms[0]) == (1, 0.5)
    with pytest.raises(UserError, match="items of both kinds"):
        shares_above([1, 2], [True, True], 1)


@pytest.mark.parametrize(
    "kind, word",
    [
        ("true", "holds on other text"),
        ("nuisance", "reads a nuisance"),
        ("another direction", "does not hold"),
        ("shifted", "not at this false-alarm rate"),
        ("few texts", "not enough data"),
    ],
)
def test_planted_worlds_get_their_verdicts(kind, word):
    result = measure(planted_monitor(kind, 0), seeds=3, fpr=0.05, draws=400)
    verdict = result.verdicts.set_index("test").loc[ELSEWHERE]
    assert verdict.word == word
    assert "{" not in verdict.sentence and "nan" not in verdict.sentence
    assert (verdict.what == "mark") == (kind == "nuisance")


def test_a_planted_nuisance_gives_a_large_area_on_like_text():
    """The number that would be shipped: .98 on texts of the same kind, and a coin elsewhere."""
    result = measure(planted_monitor("nuisance", 1), seeds=3, fpr=0.05, draws=400)
    areas = result.scores.query("reader == 'probe' and measure == 'AUROC'").set_index("test").value
    assert areas[LIKE] > 0.85 and abs(areas[ELSEWHERE] - 0.5) < 0.08
    assert result.verdicts.set_index("test").word[LIKE] != "holds on like text"


def test_the_area_of_the_probe_is_that_of_the_optimal_direction():
    """Two normal classes whose means lie APART apart: the area is Φ(APART / √2)."""
    result = measure(planted_monitor("true", 2), seeds=3, fpr=0.05, draws=400)
    row = result.scores.query(
        "reader == 'probe' and measure == 'AUROC' and test == @ELSEWHERE"
    ).iloc[0]
    best = 0.5 * (1 + torch.erf(torch.tensor(APART / 2)).item())
    assert row.value == pytest.approx(best, abs=0.02) and row.low < best


def test_each_seed_chooses_the_layer_that_tells_more():
    world = planted_monitor("true", 3)
    noise = torch.randn(world.h[1].shape, generator=torch.Generator().manual_seed(0))
    both = Monitored({0: noise, 1: world.h[1]}, world.z, world.part, world.group, {}, {})
    assert measure(both, seeds=3, fpr=0.05, draws=400).layers.to_dict() == {1: 3}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sentences whose two nouns agree in number to train on; others, and such that do not."""
    folder = tmp_path_factory.mktemp("monitor")
    table = agreement.load("generated", 4000, seed=0, attractors=0.5)
    numbers = {0: "singular", 1: "plural", -1: "none"}
    table = table.assign(number=table.zc.map(numbers), noun=table.ze.map(numbers))
    conflict = (table.ze >= 0) & (table.ze != table.zc)
    agree = table[~conflict]
    for name, part in (
        ("train", agree[:700]),
        ("same", agree[700:1000]),
        ("conflict", table[conflict][:300]),
    ):
        part[["text", "number", "noun"]].to_csv(folder / f"{name}.csv", index=False)
    return folder


def run(*words) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_the_command_writes_a_report_that_is_read_back(files, tmp_path):
    tests = [files / "same.csv", files / "conflict.csv"]
    columns = ["--text", "text", "--label", "number", "--keep", "noun", "--positive", "plural"]
    told = run(
        *("pocket-english", files / "train.csv", "--monitor", "--fpr", 0.05, "--seeds", 2),
        *("--test", tests[0], "--test", tests[1], "--out", tmp_path / "report", *columns),
    )
    assert told.exit_code == 0, told.output
    report = json.loads((tmp_path / "report/report.json").read_text())
    assert [row["test"] for row in report["verdicts"]] == [LIKE, *map(str, tests)]
    assert "An alarm means 'plural'." in report["notes"]
    assert any(note.startswith("Read in the first texts: '[MASK]'") for note in report["notes"])
    areas = pd.read_csv(tmp_path / "report/tables/scores.csv").query("measure == 'AUROC'")
    areas = areas.pivot(index="reader", columns="test", values="value")
    # the probe is better where the other noun agrees than where it does not
    assert areas.loc["probe", str(tests[0])] > areas.loc["probe", str(tests[1])] + 0.1
    assert areas.loc["probe", str(tests[0])] > areas.loc["random weights", str(tests[0])] + 0.1
    page = (tmp_path / "report/report.html").read_text()
    assert all(row["sentence"].split(":")[0] in page for row in report["verdicts"])


@pytest.mark.parametrize(
    "words, line",
    [
        (["--monitor", "--fpr", "2"], "--fpr 2 is not a valid false-alarm rate"),
        (["--monitor", "--positive", "dual"], "'dual' is not a valid label: expected"),
        (["--monitor", "--pair", "text"], "without --pair"),
        ([], "a monitor: probebook audit MODEL TRAIN --monitor"),
    ],
)
def test_bad_input_gets_one_line_and_nothing_is_written(files, tmp_path, words, line):
    told = run(
        *("pocket-english", files / "train.csv", "--test", files / "same.csv"),
        *("--text", "text", "--label", "number", "--out", tmp_path / "report", *words),
    )
    assert told.exit_code == 2 and line in told.output.replace("\n", " ")
    assert told.output.count("\n") == 1 and not (tmp_path / "report").exists()
