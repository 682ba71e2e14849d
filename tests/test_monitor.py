"""A monitor's audit: closed forms of its measures, planted worlds whose answer is known, refusals."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import Result
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score, roc_curve
from typer.testing import CliRunner

from probebook.base import UserError
from probebook.corpora import agreement
from probebook.measures.roc import area_and_recall, auroc, shares_above
from probebook.models import embed_layers, load
from probebook_audit import monitor
from probebook_audit.calibration import APART, ELSEWHERE, planted_monitor
from probebook_audit.monitor import LIKE, TRAIN, Monitored, measure
from probebook_cli import app

pytestmark = pytest.mark.library


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


COLUMNS = ("--label", "number", "--keep", "noun", "--positive", "plural")
COLUMNS += ("--fpr", 0.05, "--seeds", 2)


def read_report(folder):
    """The report as data, its scores (value; a row for each test, reader and measure), its page."""
    scores = pd.read_csv(folder / "tables/scores.csv", index_col=["test", "reader", "measure"])
    report = json.loads((folder / "report.json").read_text())
    return report, scores.value, (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def of_model(files):
    tests = [files / "same.csv", files / "conflict.csv"]
    told = run(
        *("pocket-english", files / "train.csv", "--monitor", "--text", "text", *COLUMNS),
        *("--test", tests[0], "--test", tests[1], "--out", files / "report"),
    )
    assert told.exit_code == 0, told.output
    return read_report(files / "report")


def test_the_command_writes_a_report_that_is_read_back(files, of_model):
    report, scores, page = of_model
    tests = [str(files / "same.csv"), str(files / "conflict.csv")]
    assert [row["test"] for row in report["verdicts"]] == [LIKE, *tests]
    assert "An alarm means 'plural'." in report["notes"]
    assert any(note.startswith("Read in the first texts: '[MASK]'") for note in report["notes"])
    areas = scores.xs("AUROC", level="measure").unstack("test")
    # the probe is better where the other noun agrees than where it does not
    assert areas.loc["probe", tests[0]] > areas.loc["probe", tests[1]] + 0.1
    assert areas.loc["probe", tests[0]] > areas.loc["random weights", tests[0]] + 0.1
    assert all(row["sentence"].split(":")[0] in page for row in report["verdicts"])


@pytest.fixture(scope="module")
def saved(files):
    """The states of the files' texts as the model's audit reads them, in files of three forms, and
    the quiet texts of one file alone. The folder, and the states by their file's name."""
    tables = {name: pd.read_csv(files / f"{name}.csv") for name in ("train", "same", "conflict")}
    texts = [text for table in tables.values() for text in table.text]
    (h,) = embed_layers(texts, load("pocket-english"), [-1], "[MASK]").values()
    states = dict(zip(tables, h.cpu().split([*map(len, tables.values())])))
    np.savez(files / "train.npz", acts=states["train"].numpy())
    save_file({"h": states["same"].clone()}, files / "same.safetensors")
    np.save(files / "conflict.npy", states["conflict"].numpy())
    quiet = np.array(tables["same"].number == "singular")
    tables["same"][quiet].to_csv(files / "quiet.csv", index=False)
    return files, {**states, "quiet": states["same"][torch.from_numpy(quiet)]}


def test_saved_states_get_the_scores_of_their_model(saved, of_model, tmp_path):
    folder, _ = saved
    told = run(
        *(folder / "train.csv", "--states", folder / "train.npz", "--monitor", "--text", "text"),
        *("--test", folder / "same.csv", "--test-states", folder / "same.safetensors"),
        *("--test", folder / "conflict.csv", "--test-states", folder / "conflict.npy"),
        *("--out", tmp_path / "report", *COLUMNS),
    )
    assert told.exit_code == 0, told.output
    report, scores, page = read_report(tmp_path / "report")
    pd.testing.assert_series_equal(scores, of_model[1].drop("random weights", level="reader"))
    missing = "Without the control by random weights, since only the model could give it."
    assert page.count(missing) == report["notes"].count(missing) == 1
    assert missing not in of_model[0]["notes"]
    words = [[row["word"] for row in one["verdicts"]] for one in (report, of_model[0])]
    assert words[0] == words[1]


def test_quiet_texts_alone_raise_the_false_alarms_that_they_raise_among_others(saved, tmp_path):
    """With the states named, and at one of two layers of which the other is empty."""
    folder, states = saved
    for name in ("train", "same", "quiet"):
        two = torch.stack([0 * states[name], states[name]], 1)
        save_file({"acts": two, "other": 0 * two}, tmp_path / f"{name}.safetensors")
    told = run(
        *(folder / "train.csv", "--states", tmp_path / "train.safetensors", "--monitor"),
        *("--test", folder / "same.csv", "--test-states", tmp_path / "same.safetensors"),
        *("--test", folder / "quiet.csv", "--test-states", tmp_path / "quiet.safetensors"),
        *("--states-key", "acts", "--states-layer", 1, "--out", tmp_path / "report", *COLUMNS),
    )
    assert told.exit_code == 0, told.output
    report, scores, page = read_report(tmp_path / "report")
    same, quiet = str(folder / "same.csv"), str(folder / "quiet.csv")
    alarms = scores.xs("false alarms", level="measure").unstack("test")
    pd.testing.assert_series_equal(alarms[same], alarms[quiet], check_names=False)
    assert {*scores[quiet].index.unique("measure")} == {
        *("false alarms", "mean probability", "share of positives")
    }
    verdict = report["verdicts"][-1]
    assert verdict["area_value"] is None and verdict["recall_low"] is None
    assert f"{100 * verdict['alarms_value']:.1f} %" in verdict["sentence"]
    assert verdict["sentence"] in page and "nan" not in page and "layers chosen" not in page
    assert "Without the controls by words and numbers of the text: give --text." in report["notes"]


@pytest.mark.parametrize("label, name", [(0, "false alarms"), (1, "recall")])
def test_a_test_of_one_label_is_counted_by_hand(label, name):
    world = planted_monitor("true", 4)
    kept = (world.part == TRAIN) | (world.z == label)
    alone = Monitored(
        {1: world.h[1][torch.from_numpy(kept)]},
        *(world.z[kept], world.part[kept], world.group[kept], {}, {}),
    )
    result = measure(alone, seeds=2, fpr=0.05, draws=400)
    scores = result.scores[result.scores.test == ELSEWHERE].set_index(["reader", "measure"])
    assert "AUROC" not in scores.index.unique("measure")
    inside = np.flatnonzero(alone.part == TRAIN)
    train = alone.part == TRAIN
    train[inside[monitor._draw(alone.group[inside], monitor.HELD_OUT, [0, 0])]] = False
    shares = []
    for seed in range(2):
        reader = monitor._read(alone, train, 0.05, seed)
        test = reader.scores.probe[alone.part == ELSEWHERE]
        shares.append(sum(score >= reader.threshold.probe for score in test) / len(test))
    row = scores.loc["probe", name]
    assert row.value == pytest.approx(np.mean(shares)) and row.low < row.value < row.high
    assert ("false alarms" in scores.index.unique("measure")) == (label == 0)
    assert result.verdicts.word[0] == "holds without controls"


@pytest.mark.parametrize(
    "what, low, high, items, groups, word, need",
    [
        ("false alarms", 0.004, 0.015, 900, 900, "keeps its false-alarm rate", None),
        ("false alarms", 0.0, 0.0, 300, 300, "keeps its false-alarm rate", None),
        ("false alarms", 0.012, 0.4, 900, 900, "not at this false-alarm rate", None),
        ("false alarms", 0.2, 0.4, 50, 50, "not at this false-alarm rate", None),
        ("false alarms", 0.0, 0.0, 50, 50, "not enough data", 300),
        ("false alarms", 0.004, 0.034, 400, 400, "not enough data", 3600),
        ("false alarms", 0.2, 0.2, 600, 1, "not enough data", 4800),  # texts of one author
        ("recall", 0.3, 0.6, 60, 60, "recall above the false-alarm rate", None),
        ("recall", 0.0, 0.015, 900, 900, "not at this false-alarm rate", None),
        ("recall", 0.0, 0.0, 30, 30, "not enough data", 300),
    ],
)
def test_one_rate_is_judged_by_its_interval(what, low, high, items, groups, word, need):
    of = {what: {"value": (low + high) / 2, "low": low, "high": high}}
    found, named, needed = monitor._of_one_label(of, items, groups, 0.01)
    assert (found, named) == (word, what)
    assert np.isnan(needed) if need is None else needed == pytest.approx(need)
    short = "alarms" if what == "false alarms" else what
    row = {"word": word, "what": what, "need": needed}
    row |= {f"{short}_{end}": value for end, value in of[what].items()}
    assert "{" not in monitor._say(row, 0.01) and "1 %" in monitor._say(row, 0.01)


def test_planted_shifts_are_seen_in_quiet_texts_alone():
    words = {}
    for kind in ("true", "shifted", "few texts"):
        world = planted_monitor(kind, 5)
        kept = (world.part == TRAIN) | (world.z == 0)
        some = {1: world.h[1][torch.from_numpy(kept)]}
        given = world.z[kept], world.part[kept], world.group[kept], {}, {}
        words[kind] = measure(Monitored(some, *given), 3, 0.05, 400).verdicts.word[1]
    assert words["shifted"] == "not at this false-alarm rate"
    assert words["few texts"] == "not enough data"
    assert words["true"] in ("keeps its false-alarm rate", "not enough data")


@pytest.mark.parametrize("train", [True, False])
def test_too_few_texts_of_a_label_are_refused_in_training_and_tests(files, tmp_path, train):
    """Training needs both labels; a test may lack one, but not have three texts of it."""
    table = pd.read_csv(files / "same.csv")
    quiet = table[table.number == "singular"]
    few = pd.concat([quiet, table[table.number == "plural"][:3]])
    (quiet if train else table).to_csv(tmp_path / "train.csv", index=False)
    (table if train else few).assign(text="A " + table.text).to_csv(tmp_path / "few.csv")
    for name in ("train", "few"):
        rows = len(pd.read_csv(tmp_path / f"{name}.csv"))
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(rows, 4)))
    told = run(
        *(tmp_path / "train.csv", "--states", tmp_path / "train.npy", "--monitor", *COLUMNS),
        *("--test", tmp_path / "few.csv", "--test-states", tmp_path / "few.npy"),
        *("--text", "text", "--out", tmp_path / "report"),
    )
    count = "0 texts with 'plural'" if train else "3 texts with 'plural'"
    assert told.exit_code == 2 and count in told.output and "may lack one" in told.output
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    "words, line",
    [
        (["--states", "train.npz"], "give a --test-states for each --test, in order"),
        (
            ["--states", "train.npz", "--test-states", "train.npz"],
            "acts has 700 rows, the data 300",
        ),
        (["--states", "train.npz", "--test-states", "narrow.npy"], "array has 3 columns, "),
        (
            ["--states", "train.npz", "--test-states", "conflict.npy", "--at", "mean"],
            "without --at",
        ),
        (["--states", "train.npz", "--layers", "3"], "see --states-layer"),
    ],
)
def test_states_that_do_not_fit_their_tables_are_refused(saved, tmp_path, words, line):
    folder, _ = saved
    np.save(folder / "narrow.npy", np.zeros((300, 3)))
    told = run(
        *(folder / "train.csv", "--monitor", "--test", folder / "conflict.csv", *COLUMNS),
        *(folder / one if "." in one else one for one in words),
        *("--out", tmp_path / "report"),
    )
    assert told.exit_code == 2 and line in told.output.replace("\n", " ")
    assert told.output.count("\n") == 1 and not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    "words, line",
    [
        (["--monitor", "--fpr", "2"], "--fpr 2 is not a valid false-alarm rate"),
        (["--monitor", "--positive", "dual"], "'dual' is not a valid label: expected"),
        (["--monitor", "--pair", "text"], "without --pair"),
        (["--monitor", "--force"], "without --force"),
        (["--monitor", "--profile", "smoke"], "without --profile"),
        (["--monitor", "--test-states", "x.npy"], "with --states FILE give a --test-states"),
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
