"""Two reports of an audit are compared item by item."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from probebook.base import UserError
from probebook.measures.intervals import holm
from probebook_audit import report as report_of
from probebook_audit import report_pairs as pairs
from probebook_cli import app

pytestmark = pytest.mark.library


def report(right, moved, ids=None, groups=None, layer=-1, label="1", **more):
    """The parts of a report.json that a comparison reads, and some that it does not."""
    ids = list(ids if ids is not None else map(str, range(len(right))))
    scores = [
        {"kind": "probe", "name": "linear", "layer": layer, "measure": "right", "values": right},
        {
            "kind": "edit",
            "name": "LEACE",
            "layer": layer,
            "measure": "complete: mlp",
            "values": moved,
        },
    ]
    return {
        "version": "1.0",
        "model": "pocket-english",
        "data": "agreement",
        "verdict": "open",
        "items": {
            "id": ids,
            "group": list(groups or ids),
            "label": [label] * len(ids),
            "scores": scores,
        },
    } | more


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    right = (rng.random((2, 60)) < [[0.9], [0.6]]).astype(float)
    return right, rng.random((2, 60))


def written(path, content):
    path.write_text(json.dumps(content))
    return path


def test_common_items_are_compared_whatever_their_order(drawn, tmp_path):
    (right_a, right_b), (moved_a, moved_b) = drawn
    gaps = [None, *moved_b.tolist()[1:]]
    a = report(right_a.tolist(), moved_a.tolist())
    b = report(right_b.tolist()[::-1], gaps[::-1], ids=map(str, range(59, -1, -1)), layer=5)
    paths = [written(tmp_path / f"{name}.json", one) for name, one in (("a", a), ("b", b))]
    found, items = pairs.compare_reports(*map(pairs.read, paths))
    only_a, only_b = int((right_a > right_b).sum()), int((right_b > right_a).sum())
    p = [
        stats.binomtest(only_a, only_a + only_b).pvalue,
        stats.ttest_rel(moved_a[1:], moved_b[1:]).pvalue,
    ]
    assert items == 60
    assert found["items"].tolist() == [60, 59]
    assert found.p_holm.tolist() == pytest.approx(holm(p).tolist())
    assert found.verdict.tolist() == ["A higher", "open"]
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "report.json", b)
    done = CliRunner().invoke(app, ["compare", str(paths[0]), str(tmp_path / "folder")])
    assert done.exit_code == 0, done.output
    assert "60 items in both, of 60 and 60" in done.output
    assert "A higher" in done.output


def test_groups_count_once(drawn):
    _, (x, y) = drawn
    groups = [str(i // 20) for i in range(60)]
    a, b = (
        pairs.Scored.model_validate(report(one.tolist(), one.tolist(), groups=groups))
        for one in (x, y)
    )
    found, _ = pairs.compare_reports(a, b)
    means = pd.Series(x - y).groupby(groups).mean()
    assert found.p_holm[0] == pytest.approx(holm([stats.ttest_1samp(means, 0).pvalue] * 2)[0])


@pytest.mark.verify
def test_two_audits_of_two_models(tmp_path):
    """The model that was trained on agreement reads and moves it better, item by item; a report
    does not differ from itself; the means are those that the reports print."""
    read = {}
    for model in ("pocket-english", "pocket-agreement"):
        done = CliRunner().invoke(
            app,
            [
                "audit",
                model,
                "agreement",
                "--profile",
                "smoke",
                "-p",
                "n=1200",
                "-p",
                "n_judged=250",
                "--methods",
                "LEACE,MeanShift",
                "--seeds",
                "2",
                "--out",
                str(tmp_path / model),
            ],
        )
        assert done.exit_code == 0, done.output
        read[model] = pairs.read(tmp_path / model)
    a, b = read.values()
    found, items = pairs.compare_reports(a, b)
    assert items == len(a.items.id) == len(b.items.id)
    by = found.set_index(["kind", "name", "measure"])
    assert by.verdict["edit", "MeanShift", "complete: linear"] == "B higher"
    assert by.verdict["model", "", "rewriting"] == "B higher"
    assert by.index.is_unique and {"way left", "effect left"} <= {*found.measure}
    for column, model in (("mean_a", "pocket-english"), ("mean_b", "pocket-agreement")):
        full = report_of.Report.model_validate_json((tmp_path / model / "report.json").read_bytes())
        for edit in full.edits:
            for left, figure in (("way left", "closeness"), ("effect left", "explained")):
                mean = by.loc[("edit", edit.method, left), column]
                assert mean == pytest.approx(1 - edit.figures[figure].value, abs=0.02)
    own, _ = pairs.compare_reports(a, a)
    assert (own.delta == 0).all() and (own.verdict == "open").all()
    done = CliRunner().invoke(app, ["compare", *(str(tmp_path / model) for model in read)])
    assert done.exit_code == 0 and "B higher" in done.output


def test_distances_count_in_lengths_of_the_way():
    """Twice as large a space does not make an edit worse."""
    far, way = np.array([1.0, 3.0, 2.0]), np.array([2.0, 4.0, 6.0])
    ids = [str(i) for i in range(3)]

    def audited(scale):
        return pairs.Scored.model_validate(
            report([1.0] * 3, [0.5] * 3)
            | {
                "items": {
                    "id": ids,
                    "group": ids,
                    "label": ["1"] * 3,
                    "scores": [
                        {
                            "kind": "edit",
                            "name": "LEACE",
                            "layer": 1,
                            "measure": measure,
                            "values": (scale * values).tolist(),
                        }
                        for measure, values in (("far", far), ("way", way))
                    ],
                }
            }
        )

    found, _ = pairs.compare_reports(audited(1.0), audited(2.0))
    assert found.measure.tolist() == ["way left"]
    assert found.mean_a[0] == found.mean_b[0] == pytest.approx(far.mean() / way.mean())


def test_reports_that_do_not_belong_together_are_refused_in_one_line(tmp_path):
    whole = report([1.0, 0.0], [0.5, 0.6])
    good = written(tmp_path / "good.json", whole)
    far = report([1.0, 0.0], [0.5, 0.6], ids=["x", "y"])
    short = report([1.0, 0.0], [0.5])
    two_layers = report([1.0, 0.0], [0.5, 0.6])
    for one in two_layers["items"]["scores"]:
        one["name"] = "another"
    for other, says in [
        (far, "share no item"),
        (two_layers, "share no score"),
        (short, "do not hold together"),
        ({"version": "1.0"}, "not a valid report.json"),
        (whole | {"version": "2.0"}, "not a valid report.json"),
        (report([], []), "scored no items"),
        (report([None, None], [None, 1.0]), "no score is there"),
        (report([1.0, 0.0], [0.5, 0.6], label="0"), "2 of 2 common items have other"),
    ]:
        path = written(tmp_path / "other.json", other)
        done = CliRunner().invoke(app, ["compare", str(good), str(path)])
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        assert says in done.output
    for words, says in [
        ([str(good), "3f2a9c"], "two reports"),
        ([str(good), str(tmp_path / "none.json")], "No such file"),
        ([str(good), str(tmp_path)], "two reports"),
        ([str(good), str(good), "--tolerance", "1"], "without --tolerance"),
    ]:
        done = CliRunner().invoke(app, ["compare", *words])
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        assert says in done.output
    with pytest.raises(UserError, match="not a regular file"):
        pairs.read("/dev/zero")
