"""Two systems over a suite of tasks: `probebook paired` on planted logs in the forms of both tools,
against scipy and statsmodels."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from typer.testing import CliRunner

from probebook.measures import eval_logs, paired
from probebook_cli import app
from test_eval_logs import REAL, answer, harness, inspect, sample

TIME = "2026-01-02T03-04-05.6"
N = 60
TASKS = {"facts": (0.9, 0.5), "gsm": (0.7, 0.6), "sums": (0.6, 0.6)}  # chances of A and of B
REFUSED = "torch", "transformers", "sklearn", "matplotlib", "seaborn", "datasets"


def invalidate(path, wrong):
    """Mark samples as Inspect does: in the header and in the samples, not in the summaries."""
    with zipfile.ZipFile(path) as old:
        files = {name: json.loads(old.read(name)) for name in old.namelist()}
    files["header.json"]["invalidated"] = True
    for name, content in files.items():
        if name.startswith("samples/") and content["id"] in wrong:
            content["invalidation"] = {"author": "me", "reason": "leaked"}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in files.items():
            new.writestr(name, json.dumps(content))


@pytest.fixture
def runs(tmp_path):
    """Runs A and B: two tasks of the harness and one of Inspect, and a task that each has alone.

    In `facts` (Inspect) sample 3 of A is invalid and sample 5 of B has another text; in `sums`
    document 7 of B has another text; documents and samples belong to stories of four."""
    rng = np.random.default_rng(5)
    right = {task: rng.random((2, N)) < np.array([p]).T for task, p in TASKS.items()}
    for run, name in enumerate("ab"):
        folder = tmp_path / name / "org__model"
        folder.mkdir(parents=True)
        (folder / f"results_{TIME}.json").write_text("{}")

        def log(task, lines, folder=folder):
            harness(folder / f"samples_{task}_{TIME}.jsonl", lines)

        x, about = right["sums"][run].astype(float), {"metrics": ["acc", "acc_norm"]}
        sums = [
            sample(i, x[i], acc_norm=1 - x[i], doc={"q": i, "story": i // 4}, **about)
            for i in range(N)
        ]
        if name == "b":
            sums[7]["doc_hash"] = "f" * 64
        log("sums", sums[:: 1 - 2 * run])
        log(f"only_{name}", [sample(i, 1.0) for i in range(9)])
        log(
            "gsm",
            [
                sample(i, x if each == "strict" else 0.0, "exact_match", each, doc={"q": i})
                for i, x in enumerate(right["gsm"][run].astype(float))
                for each in ("strict", "flexible")
            ],
        )
        facts = [
            answer(i, "IC"[int(x)], metadata={"story": f"s{i // 4}"})
            for i, x in enumerate(right["facts"][run])
        ]
        if name == "b":
            facts[5]["input"] = "another question"
        path = inspect(folder / "facts.eval", facts)
        header = {"version": 2, "status": "success", "eval": {"task": "facts"}}
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("header.json", json.dumps(header))
        if name == "a":
            invalidate(path, [3])
    kept = {task: np.ones(N, bool) for task in TASKS}
    kept["facts"][[3, 5]] = kept["sums"][7] = False
    return (
        tmp_path / "a",
        tmp_path / "b",
        {task: right[task][:, kept[task]] for task in TASKS},
        kept,
    )


CHOICE = ("--metric", "acc", "--filter", "strict")


def run(a, b, *more):
    return CliRunner().invoke(app, ["paired", str(a), str(b), *map(str, more)])


def by_task(path):
    whole = json.loads(path.read_text(encoding="utf-8"))
    return whole, {one["task"]: one for one in whole["tasks"]}


def test_each_task_has_its_test_and_holm_corrects_over_the_tasks(runs, tmp_path):
    a, b, right, _ = runs
    done = run(a, b, *CHOICE, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    whole, tasks = by_task(tmp_path / "out" / "paired.json")
    assert [*tasks] == ["gsm", "sums", "facts"]
    p = []
    for name, one in tasks.items():
        x, y = right[name]
        table = [[(x & y).sum(), (x & ~y).sum()], [(~x & y).sum(), (~x & ~y).sum()]]
        p.append(mcnemar(table, exact=True).pvalue)
        assert one["p"] == pytest.approx(p[-1])
        assert (one["items"], one["groups"]) == (len(x), len(x))
        assert (one["mean_a"], one["mean_b"]) == pytest.approx((x.mean(), y.mean()))
        assert one["delta"] == pytest.approx(x.mean() - y.mean())
        expected = paired.compare(x, y)
        figures = "low", "high", "power", "needed"
        for figure in figures:
            assert one[figure] == pytest.approx(getattr(expected, figure))
    holm = multipletests(p, method="holm")[1]
    assert [one["p_holm"] for one in tasks.values()] == pytest.approx(holm.tolist())
    assert whole["significant"] == (holm <= 0.05).sum() == 1
    assert tasks["facts"]["verdict"] == "A higher"
    assert {name: one["metric"] for name, one in tasks.items()} == {
        "facts": "match",
        "gsm": "exact_match,strict",
        "sums": "acc",
    }


def test_what_is_left_out_is_counted_and_named(runs, tmp_path):
    a, b, *_ = runs
    done = run(a, b, *CHOICE, "--out", tmp_path / "x.json")
    whole, tasks = by_task(tmp_path / "x.json")
    assert (whole["tasks_only_a"], whole["tasks_only_b"]) == (["only_a"], ["only_b"])
    counts = {name: (one["items"], one["items_a"], one["items_b"]) for name, one in tasks.items()}
    assert counts == {"facts": (58, 59, 60), "gsm": (60, 60, 60), "sums": (59, 60, 60)}
    assert tasks["facts"]["invalidated"] == ["facts 3 in A"]
    assert (tasks["facts"]["swapped"], tasks["sums"]["swapped"]) == (["facts 5"], ["sums 7"])
    assert (tasks["gsm"]["invalidated"], tasks["gsm"]["swapped"]) == ([], [])
    for line in (
        "- items with another text or target: 2, which were left out: sums 7, facts 5",
        "- answers marked as invalid: 1, which were left out: facts 3 in A",
        "- tasks that only A has: only_a",
        "- tasks that only B has: only_b",
        "- significant (5 %, Holm): 1 of 3 tasks",
    ):
        assert line in done.output.splitlines()


def test_over_the_tasks_each_counts_once(runs, tmp_path):
    """By hand: the mean of three differences; its variance is a ninth of the sum of theirs."""
    a, b, right, _ = runs
    done = run(a, b, *CHOICE, "--out", tmp_path / "x.json")
    pooled = by_task(tmp_path / "x.json")[0]["pooled"]
    each = [paired.compare(x, y) for x, y in right.values()]
    delta = np.mean([one.delta for one in each])
    error = np.sqrt(sum(one.error**2 for one in each)) / 3
    wald = [(one.high - one.low) / 2 / stats.norm.ppf(0.975) for one in each]
    assert [one.error for one in each] == pytest.approx(wald)
    df = sum(one.error**2 for one in each) ** 2 / sum(
        one.error**4 / (one.items - 1) for one in each
    )
    assert (pooled["delta"], pooled["error"]) == pytest.approx((delta, error))
    low, high = stats.t.interval(0.95, df, delta, error)
    assert (pooled["low"], pooled["high"]) == pytest.approx((low, high))
    assert pooled["p"] == pytest.approx(2 * stats.t.sf(abs(delta / error), df))
    assert f"{delta:+.4f} [{low:+.4f}, {high:+.4f}]" in done.output


def test_clusters_are_the_units_where_a_task_has_the_column(runs, tmp_path):
    """Stories of four: the test over them is scipy's on their sums, where all are whole."""
    a, b, right, kept = runs
    done = run(a, b, *CHOICE, "--cluster", "story", "--out", tmp_path / "x.json")
    assert done.exit_code == 0, done.output
    _, tasks = by_task(tmp_path / "x.json")
    groups = {name: (one["groups"], one["test"]) for name, one in tasks.items()}
    assert groups == {
        "facts": (15, paired.GROUPED),
        "sums": (15, paired.GROUPED),
        "gsm": (60, paired.MCNEMAR),
    }
    for name in ("facts", "sums"):
        x, y = right[name].astype(float)
        d = x - y
        sums = pd.Series(d - d.mean()).groupby(np.flatnonzero(kept[name]) // 4).sum()
        error = np.sqrt(15 / 14 * (sums**2).sum()) / len(d)
        assert tasks[name]["error"] == pytest.approx(error)
        assert tasks[name]["p"] == pytest.approx(2 * stats.t.sf(abs(d.mean() / error), 14))
    assert "clusters" in done.output
    assert "by the exact McNemar test: gsm" in done.output


def test_whole_clusters_give_scipys_paired_test(tmp_path):
    rng = np.random.default_rng(1)
    x, y = (rng.random((2, 40)) < [[0.8], [0.5]]).astype(float)
    for name, scores in (("a", x), ("b", y)):
        lines = [sample(i, s, doc={"story": f"s{i // 4}"}) for i, s in enumerate(scores)]
        harness(tmp_path / f"{name}.jsonl", lines)
    suite = eval_logs.read(tmp_path / "a.jsonl", tmp_path / "b.jsonl", cluster="story")
    (one,) = suite.tasks.itertuples()
    found = paired.compare(one.a, one.b, one.clusters)
    right = stats.ttest_rel(x.reshape(10, 4).mean(1), y.reshape(10, 4).mean(1))
    assert found.p == pytest.approx(right.pvalue)
    assert (found.low, found.high) == pytest.approx(right.confidence_interval())


def test_the_files_hold_what_is_printed(runs, tmp_path):
    a, b, *_ = runs
    done = run(a, b, *CHOICE, "--out", tmp_path / "new" / "folder")
    out = tmp_path / "new" / "folder"
    assert sorted(one.name for one in out.iterdir()) == ["paired.json", "paired.md"]
    assert (out / "paired.md").read_text(encoding="utf-8") == done.output
    for name in ("only.json", "only.md"):
        run(a, b, *CHOICE, "--out", out / name)
        assert (out / name).read_bytes() == (out / f"paired.{name[5:]}").read_bytes()
    assert run(a, b, *CHOICE, "--out", tmp_path / "new").exit_code == 0
    (tmp_path / "taken.json").mkdir()
    refused = run(a, b, *CHOICE, "--out", tmp_path / "taken.json")
    assert (refused.exit_code, refused.output.count("\n")) == (2, 1)
    assert not list((tmp_path / "taken.json").iterdir())


def test_the_metric_that_only_one_choice_leaves_needs_no_option(runs, tmp_path):
    """gsm has one metric and facts one scorer; sums has two metrics, gsm two filters."""
    a, b, right, kept = runs
    for more, says in [
        ((), "in gsm, give one of the filters strict, flexible by --filter"),
        (("--filter", "strict"), "in sums, give one of the metrics acc, acc_norm by --metric"),
        (("--filter", "strict", "--metric", "exact_match"), "in sums, give one of the metrics"),
    ]:
        done = run(a, b, *more)
        assert (done.exit_code, done.output.count("\n")) == (2, 1)
        assert says in done.output
    found = eval_logs.read(a, b, ["acc_norm", "acc"], ["flexible"]).tasks
    assert found.metric.to_dict() == {
        "facts": "match",
        "gsm": "exact_match,flexible",
        "sums": "acc_norm",
    }
    assert found.a["gsm"].sum() == 0
    assert found.a["sums"].sum() == (1 - right["sums"][0].astype(float)).sum()


def test_a_run_and_itself_do_not_differ(runs, tmp_path):
    a, *_ = runs
    done = run(a, a, *CHOICE, "--out", tmp_path / "x.json")
    assert done.exit_code == 0
    whole, tasks = by_task(tmp_path / "x.json")
    assert {one["p"] for one in tasks.values()} == {1.0} == {whole["pooled"]["p"]}
    assert {one["needed"] for one in tasks.values()} == {None}
    assert {one["verdict"] for one in tasks.values()} == {"open"}
    single = run(REAL / "epochs_a.eval", REAL / "epochs_b.eval")
    assert "each counting once" not in single.output


def test_over_tasks_the_interval_holds_the_truth(monkeypatch):
    """Three tasks of different sizes and differences, right and wrong, in 400 draws."""
    for slow in ("items_needed_exactly", "mcnemar_power"):  # which have tests of their own
        monkeypatch.setattr(paired, slow, lambda *_: np.nan)
    rng, held, truth = np.random.default_rng(0), 0, np.mean([0.1, 0.0, 0.02])
    for _ in range(400):
        each = []
        for n, only_a, only_b in [(40, 0.2, 0.1), (80, 0.05, 0.05), (300, 0.05, 0.03)]:
            x, y, _rest = rng.multinomial(n, [only_a, only_b, 1 - only_a - only_b])
            a, b = np.zeros((2, n))
            a[:x] = b[x : x + y] = 1
            each.append(paired.compare(a, b))
        pooled = paired.pool(pd.DataFrame(each))
        held += pooled.low <= truth <= pooled.high
    assert 0.93 * 400 <= held <= 0.98 * 400


def test_equal_differences_in_every_task_are_counted_by_signs():
    once = paired.compare([0.5] * 8, [0.25] * 8)
    often = paired.compare([0.75] * 20, [0.25] * 20)
    pooled = paired.pool(pd.DataFrame([once, often]))
    assert (pooled.delta, pooled.p) == (0.375, stats.binomtest(8, 8).pvalue)


def test_a_killed_run_has_the_name_of_its_task(tmp_path):
    """It stands in the journal's first file, not in the name of a log that was copied."""
    for name, log in (("a", "killed"), ("b", "several_b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.eval").write_bytes((REAL / f"{log}.eval").read_bytes())
        inspect(tmp_path / name / "y.eval", [answer(i, "C") for i in range(3)])
    suite = eval_logs.read(tmp_path / "a", tmp_path / "b", ["match"], unscored=0)
    assert suite.tasks.index.tolist() == ["corners", "sums"]
    assert suite.lines()["not run to the end"].startswith("corners: A (killed)")


def test_bad_input_is_one_line(runs, tmp_path):
    a, b, *_ = runs
    log = lambda name, lines: harness(tmp_path / f"{name}.jsonl", lines)
    stories = lambda count: [
        sample(i, 1.0, doc={"story": "s"} if i < count else {"q": 1}) for i in range(6)
    ]
    half, same = log("half", stories(3)), log("same", stories(6))
    other = log("other", [sample(i, 1.0, target="x") for i in range(6)])
    alone = log("alone", stories(6)[:1])
    f1 = log("f1", [sample(i, 1.0, "f1") for i in range(6)])
    empty = tmp_path / "empty"
    empty.mkdir()
    for words, says in [
        (
            (a, b, *CHOICE, "--metric", "f1"),
            "has no metric 'f1' but exact_match, acc, acc_norm, match",
        ),
        ((a, b, *CHOICE, "--filter", "lax"), "has no filter 'lax' but strict, flexible, none"),
        ((a, b, *CHOICE, "--cluster", "author"), "has no column 'author' but q, question, story"),
        ((half, half, "--cluster", "story"), "in half, 3 of 6 items have no 'story'"),
        ((same, same, "--cluster", "story"), "in same, there are fewer than two items or clusters"),
        ((alone, alone), "in alone, there are fewer than two items"),
        ((same, other), "6 of 6 common items have another text or target"),
        ((same, f1), "no metric is in both: A has acc, B f1"),
        ((a, half), "have no task in common"),
        ((empty, b), "is a folder without a log"),
        ((tmp_path / "none", b), "No such file"),
        ((a, "README.md"), "two logs of one tool"),
        ((a, b, *CHOICE, "--unscored", "x"), "should be a valid number"),
    ]:
        done = run(*words)
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        assert says in done.output


def test_a_task_with_no_valid_sample_left_is_refused(tmp_path):
    a, b = (inspect(tmp_path / f"{n}.eval", [answer(i, "C") for i in range(3)]) for n in "ab")
    invalidate(a, [0, 1, 2])
    done = run(a, b)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "in sums, no item is in both" in done.output


def test_it_imports_no_torch(runs):
    """In a process in which torch and its like cannot be imported."""
    a, b, *_ = runs
    code = f"""if True:
        import sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {REFUSED!r}:
                    raise ImportError(name + " is imported")

        sys.meta_path.insert(0, Refuse())
        from probebook_cli import app
        app({["paired", str(a), str(b), *CHOICE, "--cluster", "story"]!r})
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "of 3 tasks" in done.stdout
