"""Logs of lm-evaluation-harness and Inspect, real ones (`eval_logs/README.md`) and some written by
hand in their forms, give the paired verdict."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from eval_logs import make
from probebook.base import UserError
from probebook.measures import eval_logs, paired
from probebook_cli import app


def sample(doc_id, right, metric="acc", filter="none", **more):
    """A line of samples_*.jsonl, as --log_samples writes them."""
    return {
        "doc_id": doc_id,
        "doc": {"question": f"What is {doc_id}?"},
        "target": doc_id % 4,
        "arguments": {"gen_args_0": {"arg_0": f"Question: What is {doc_id}?", "arg_1": " a"}},
        "resps": [[["-2.5", "False"]]],
        "filtered_resps": [["-2.5", "False"]],
        "filter": filter,
        "metrics": [metric],
        "doc_hash": f"{doc_id:064x}",
        "prompt_hash": "0" * 64,
        "target_hash": "1" * 64,
        metric: right,
    } | more


def harness(path, samples):
    path.write_text("".join(json.dumps(one) + "\n" for one in samples), encoding="utf-8")
    return path


def answer(i, value, epoch=1, scorer="match", **more):
    """A sample of an Inspect log, as its summaries have it."""
    return {
        "id": i,
        "epoch": epoch,
        "input": f"What is {i}?",
        "target": f"the answer to {i}",
        "metadata": {},
        "scores": {scorer: {"value": value, "answer": "1", "history": []}},
        "model_usage": {},
        "completed": True,
    } | more


def inspect(path, samples, form="summaries.json"):
    header = {"version": 2, "status": "success", "eval": {"task": "sums", "model": "none/none"}}
    if path.suffix == ".json":
        path.write_text(json.dumps(header | {"samples": samples}), encoding="utf-8")
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("_journal/start.json", json.dumps({"version": 2}))
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        if form:
            archive.writestr(form, json.dumps(samples))
    return path


A = [1] * 30 + [0] * 12 + [1] * 20 + [0] * 8
B = [0] * 30 + [1] * 12 + [1] * 20 + [0] * 8
RIGHT = paired.compare(A, B)


REAL = Path(make.__file__).parent


def read(a, b, metric=None, filter=None, **more):
    """The one task of two logs."""
    chosen = [[name] if name else [] for name in (metric, filter)]
    (task,) = eval_logs.read(a, b, *chosen, **more).tasks.itertuples()
    return task


def says(a, b, *more):
    return CliRunner().invoke(app, ["sample-size", "--pilot-a", str(a), "--pilot-b", str(b), *more])


def test_logs_of_the_harness_are_joined_by_the_documents_hash(tmp_path):
    """In any order, whatever their numbers; items that only one log has are left out."""
    a = harness(tmp_path / "samples_sums_a.jsonl", [sample(i, x) for i, x in enumerate(A)])
    mixed = [sample(i, x) | {"doc_id": i + 5} for i, x in enumerate(B)][::-1]
    mixed += [sample(99, 1)]
    b = harness(tmp_path / "samples_sums_b.jsonl", mixed)
    suite = eval_logs.read(a, b)
    assert paired.compare(*suite.scores()) == RIGHT
    assert suite.lines()["items in both, in A, in B"] == "70, 70, 71"
    done = says(a, b)
    assert done.exit_code == 0
    assert done.output.splitlines()[0].split(maxsplit=1)[1] == RIGHT.sentence
    assert "exact McNemar test" in done.output
    assert "30, 12 items" in done.output


def test_old_logs_without_hashes_or_names_of_metrics(tmp_path):
    def old(i, right):
        whole = sample(i, right)
        return {
            key: value
            for key, value in whole.items()
            if key not in ("metrics", "doc_hash", "prompt_hash", "target_hash", "filter")
        }

    a, b = (
        harness(tmp_path / f"{name}.jsonl", [old(i, x) for i, x in enumerate(scores)])
        for name, scores in (("a", A), ("b", B))
    )
    joined = read(a, b)
    assert (joined.metric, paired.compare(joined.a, joined.b)) == ("acc", RIGHT)


def test_a_text_that_stands_twice_in_a_data_set_is_two_items(tmp_path):
    twice = {"doc_hash": "f" * 64, "target": 0}
    a = harness(tmp_path / "a.jsonl", [sample(0, 1, **twice), sample(1, 0, **twice)])
    b = harness(tmp_path / "b.jsonl", [sample(0, 0, **twice), sample(1, 0, **twice)])
    joined = read(a, b)
    assert (joined.a.tolist(), joined.b.tolist()) == ([1, 0], [0, 0])


def test_filters_and_metrics_are_chosen(tmp_path):
    def both(scores, path):
        return harness(
            path,
            [
                sample(
                    i,
                    1 - x if name == "strict" else x,
                    filter=name,
                    metrics=["acc", "acc_norm"],
                    acc_norm=x,
                )
                for i, x in enumerate(scores)
                for name in ("strict", "flexible")
            ],
        )

    a, b = both(A, tmp_path / "a.jsonl"), both(B, tmp_path / "b.jsonl")
    chosen = read(a, b, "acc", "flexible")
    assert paired.compare(chosen.a, chosen.b) == RIGHT
    assert read(a, b, "acc", "strict").a.tolist() == [1 - x for x in A]
    for more, right in [
        ({}, "give one of the filters strict, flexible by --filter"),
        ({"filter": "none"}, "no filter 'none' but strict, flexible"),
        ({"filter": "strict"}, "by --metric"),
        ({"filter": "strict", "metric": "f1"}, "no metric 'f1' but acc, acc_norm"),
    ]:
        with pytest.raises(UserError, match=right):
            read(a, b, **more)


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_logs_of_inspect_are_joined_by_the_samples_id(tmp_path, name):
    """Its letters are scores: C is right, I is wrong."""
    a = inspect(tmp_path / f"a_{name}", [answer(i, "CI"[1 - x]) for i, x in enumerate(A, 1)])
    b = inspect(tmp_path / f"b_{name}", [answer(i, "CI"[1 - x]) for i, x in enumerate(B, 1)][::-1])
    joined = read(a, b)
    assert (joined.metric, paired.compare(joined.a, joined.b)) == ("match", RIGHT)


@pytest.mark.parametrize(
    "form", ["summary.json", "_journal/summaries/1.json", "summaries/1.json", None]
)
def test_older_and_unfinished_logs_of_inspect(tmp_path, form):
    a, b = (
        inspect(tmp_path / f"{name}.eval", [answer(i, x) for i, x in enumerate(scores)], form)
        for name, scores in (("a", A), ("b", B))
    )
    assert paired.compare(*eval_logs.read(a, b).scores()) == RIGHT


def test_epochs_are_averaged_and_partial_scores_are_graded(tmp_path):
    rng = np.random.default_rng(0)
    letters, worth = "CPIN", dict(zip("CPIN", (1, 0.5, 0, 0)))
    logs = []
    for name in "ab":
        drawn = rng.choice([*letters], (20, 3))
        logs.append([[worth[x] for x in row] for row in drawn])
        inspect(
            tmp_path / f"{name}.eval",
            [
                answer(f"q{i}", x, epoch + 1)
                for i, row in enumerate(drawn)
                for epoch, x in enumerate(row)
            ],
        )
    joined = read(tmp_path / "a.eval", tmp_path / "b.eval")
    assert (joined.epochs, len(joined.a)) == (3, 20)
    assert np.allclose([joined.a, joined.b], np.mean(logs, 2))
    done = says(tmp_path / "a.eval", tmp_path / "b.eval")
    assert "paired t-test" in done.output
    assert "up to 3 for each item" in done.output


def test_a_scorer_with_several_values_has_a_name_for_each(tmp_path):
    a, b = (
        inspect(
            tmp_path / f"{name}.json",
            [answer(i, {"clear": x, "kind": 0.5}) for i, x in enumerate(scores)],
        )
        for name, scores in (("a", A), ("b", B))
    )
    assert paired.compare(*eval_logs.read(a, b, ["match.clear"]).scores()) == RIGHT
    with pytest.raises(UserError, match="match.clear, match.kind"):
        read(a, b)


def test_answers_without_a_score_are_refused_or_given_one(tmp_path):
    """A model that fails on the hard items must not look better for it."""
    gaps = [sample(i, x if i > 2 else float("nan")) for i, x in enumerate(A)]
    a = harness(tmp_path / "a.jsonl", gaps)
    b = harness(tmp_path / "b.jsonl", [sample(i, x) for i, x in enumerate(B)])
    done = says(a, b)
    assert done.exit_code == 2
    assert "3 of 70 answers have no acc; --unscored 0" in done.output
    joined = read(a, b, unscored=0)
    assert (joined.a.sum(), joined.unscored) == (sum(A) - 3, 3)
    failed = [
        answer(i, "C", scores=None, error={"message": "timeout"}) if i < 2 else answer(i, "C")
        for i in range(9)
    ]
    x, y = (inspect(tmp_path / f"{name}.eval", failed) for name in "xy")
    with pytest.raises(UserError, match="2 of 9 answers have no match"):
        read(x, y)


def test_what_does_not_belong_together_is_said_in_one_line(tmp_path):
    h = harness(tmp_path / "h.jsonl", [sample(i, x) for i, x in enumerate(A)])
    log = inspect(tmp_path / "i.eval", [answer(i, x) for i, x in enumerate(A)])
    csv = tmp_path / "p.csv"
    csv.write_text("s1\n1\n")
    far = harness(tmp_path / "far.jsonl", [sample(i, 1) for i in range(100, 110)])
    same_ids = inspect(tmp_path / "ids.eval", [answer(i, 1, target="x") for i in range(70)])
    twice = harness(tmp_path / "twice.jsonl", [sample(0, 1), sample(0, 1)])
    empty = harness(tmp_path / "empty.jsonl", [])
    bare = harness(tmp_path / "bare.jsonl", [{"text": "no log"}])
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"doc_id": 0,\n')
    deep = tmp_path / "deep.json"
    deep.write_text('{"samples": ' + "[" * 100_000)
    results = tmp_path / "results.json"
    results.write_text('{"results": {"sums": {"acc,none": 0.5}}}')
    no_zip = tmp_path / "no_zip.eval"
    no_zip.write_text("no zip")
    listed = harness(tmp_path / "listed.jsonl", [sample(i, [-3.2, 7]) for i in range(3)])
    bomb = tmp_path / "bomb.eval"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("summaries.json", "w", force_zip64=True) as file:
            for _ in range(257):
                file.write(bytes(1 << 20))
    for a, b, right in [
        (h, log, "two logs of one tool"),
        (h, csv, "two logs of one tool"),
        (h, far, "no item is in both"),
        (log, same_ids, "another text or target"),
        (h, twice, "item 0 is there twice"),
        (h, empty, "no sample in it"),
        (bare, h, "no field 'doc_id'"),
        (broken, h, "not a valid log of lm-eval"),
        (deep, deep, "not a valid log of Inspect"),
        (results, log, "no samples in it"),
        (no_zip, log, "not a zip file"),
        (listed, listed, "one number for each"),
        (bomb, log, "at most 268 are read"),
        (tmp_path / "none.eval", log, "No such file"),
    ]:
        done = says(a, b)
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        assert right in done.output
    assert "belong to two logs" in says(csv, csv, "--metric", "acc").output


@pytest.mark.parametrize("suffix", [".jsonl", ".eval", ".json"])
def test_a_log_without_end_is_refused(tmp_path, suffix):
    """A link to /dev/zero, a pipe that nobody writes to, a folder, a file of a terabyte and one."""
    other = inspect(tmp_path / "b.eval", [answer(0, 1)])
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with open(tmp_path / f"sparse{suffix}", "wb") as file:
        file.truncate((1 << 40) + 1)
    for name in ("zero", "pipe", "folder", "sparse"):
        path = tmp_path / f"{name}{suffix}"
        done = says(path, other if suffix != ".jsonl" else path)
        assert (done.exit_code, done.output.count("\n")) == (2, 1)
        assert str(path) in done.output


def test_real_logs_of_inspect():
    """Their zip is packed by Zstandard; items, means and test are those of the mock's answers."""
    a, b = (np.array(make.RIGHT[who], float) for who in "ab")
    for metric in ("match", "graded.right"):
        joined = read(REAL / "several_a.eval", REAL / "several_b.eval", metric)
        assert (joined.a.tolist(), joined.b.tolist()) == (a.tolist(), b.tolist())
        found = paired.compare(joined.a, joined.b)
        only_a = int((a > b).sum())
        assert found.p == stats.binomtest(only_a, int((a != b).sum())).pvalue
        assert (found.mean_a, found.mean_b) == (a.mean(), b.mean())
        assert not joined.unfinished
    with pytest.raises(UserError, match="match, graded.right, graded.length, letters"):
        read(REAL / "several_a.eval", REAL / "several_b.eval")
    mixed = read(REAL / "several_a.eval", REAL / "several_b.json", "match")
    assert (len(mixed.a), mixed.items_a, mixed.items_b) == (3, 8, 3)
    told = json.loads((REAL / "several_b.json").read_text())["results"]["scores"][0]
    assert mixed.b.mean() == pytest.approx(told["metrics"]["accuracy"]["value"])
    twice = read(REAL / "epochs_a.eval", REAL / "epochs_b.eval")
    assert (twice.a.tolist(), twice.b.tolist()) == (a[:4].tolist(), b[:4].tolist())
    assert twice.epochs == 2


def test_letters_and_a_missing_score_in_a_real_log():
    paths = REAL / "several_a.eval", REAL / "several_b.eval"
    with pytest.raises(UserError, match="1 of 8 answers has no letters; --unscored 0 counts it"):
        read(*paths, "letters")
    joined = read(*paths, "letters", unscored=0)
    for scores, letters in zip((joined.a, joined.b), make.LETTERS.values()):
        right = [{"C": 1, "P": 0.5}.get(letter, 0) for letter in letters]
        right[2] = 0
        assert scores.tolist() == right
    assert joined.unscored == 2


@pytest.mark.parametrize(
    "name, reached, how", [("cancelled", 7, "A (cancelled)"), ("killed", 6, "A (killed)")]
)
def test_a_run_that_was_cut_off_is_named(name, reached, how):
    """What it reached is compared, and the verdict says that this is not all."""
    done = says(
        REAL / f"{name}.eval", REAL / "several_b.eval", "--metric", "match", "--unscored", "0"
    )
    assert done.exit_code == 0, done.output
    assert f"{reached}, {reached}, 8" in done.output
    assert f"{how}; only the items it reached count" in done.output


def test_real_logs_of_the_harness():
    paths = [REAL / f"samples_corners_{who}.jsonl" for who in "ab"]
    joined = read(*paths, "acc")
    for path, scores in zip(paths, (joined.a, joined.b)):  # the likelier choice, by hand
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        choice = [np.argmax([float(one[0]) for one in each["filtered_resps"]]) for each in samples]
        assert scores.tolist() == [
            float(i == int(each["target"])) for i, each in zip(choice, samples)
        ]
    with pytest.raises(UserError, match="give one of the metrics acc, brier_score by"):
        read(*paths)
    with pytest.raises(UserError, match="one number for each item"):
        read(*paths, "brier_score")
    filters = [REAL / f"samples_filters_{who}.jsonl" for who in "ab"]
    with pytest.raises(UserError, match="filters first, again by --filter"):
        read(*filters, "acc")
    assert len(read(*filters, "acc", "again").a) == len(make.QUESTIONS)


def test_a_spoilt_zip_of_inspect_is_refused(tmp_path):
    """One byte of a file that Zstandard packed is another."""
    content = bytearray((REAL / "several_a.eval").read_bytes())
    with zipfile.ZipFile(REAL / "several_a.eval") as archive:
        entry = archive.getinfo("summaries.json")
    assert entry.compress_type == eval_logs.ZSTD
    content[entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2] ^= 1
    (tmp_path / "a.eval").write_bytes(content)
    done = says(tmp_path / "a.eval", REAL / "several_b.eval", "--metric", "match")
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "not a valid log of Inspect" in done.output


def test_summaries_cut_what_samples_hold_whole(tmp_path):
    """Inspect's summaries end long texts early: the item is the same one."""
    long = "a word of many " * 900
    whole = inspect(tmp_path / "whole.json", [answer(i, 1, input=f"{i} {long}") for i in range(9)])
    cut = [answer(i, 0, input=f"{i} {long}"[:5120] + "...\n(content truncated)") for i in range(9)]
    assert len(read(whole, inspect(tmp_path / "cut.eval", cut)).a) == 9
    other = inspect(tmp_path / "other.eval", [one | {"input": "b" + one["input"]} for one in cut])
    with pytest.raises(UserError, match="9 of 9 common items have another text"):
        read(whole, other)


@pytest.mark.parametrize("name", ["several_a.eval", "several_b.json", "samples_corners_a.jsonl"])
def test_compare_sends_logs_to_paired(name):
    done = CliRunner().invoke(app, ["compare", str(REAL / name), str(REAL / name)])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "compared by probebook paired" in done.output


@pytest.mark.parametrize("form", ["eval", "json"])
def test_answers_marked_as_invalid_are_left_out(tmp_path, form):
    """Inspect's summaries do not tell; only the header and the samples do."""
    a, b = (
        inspect(tmp_path / f"{name}.{form}", [answer(i, x) for i, x in enumerate(scores)])
        for name, scores in (("a", A), ("b", B))
    )
    bad = {"invalidated": True, "status": "success", "version": 2}
    marked = [
        answer(i, x) | ({"invalidation": {"author": "me"}} if i < 9 else {})
        for i, x in enumerate(A)
    ]
    if form == "json":
        a.write_text(json.dumps(bad | {"samples": marked}))
    else:
        with zipfile.ZipFile(a, "w") as archive:
            archive.writestr("header.json", json.dumps(bad))
            archive.writestr("summaries.json", json.dumps([answer(i, x) for i, x in enumerate(A)]))
            for one in marked:
                archive.writestr(f"samples/{one['id']}_epoch_1.json", json.dumps(one))
    suite = eval_logs.read(a, b)
    assert paired.compare(*suite.scores()) == paired.compare(A[9:], B[9:])
    assert suite.lines()["items in both, in A, in B"] == "61, 61, 70"
    assert "9, which were left out" in says(a, b).output


def test_a_folder_stands_for_its_logs(tmp_path):
    """One log, or one of each task, in the folders that the tools write."""
    half = len(A) // 2
    for name, scores in (("a", A), ("b", B)):
        place = tmp_path / name / "some__model"
        place.mkdir(parents=True)
        (place / "results_2026-01-02T03-04-05.6.json").write_text("{}")
        (place / "._samples_sums_2026-01-02T03-04-05.6.jsonl").write_text("hidden")
        for task, part in (("sums", scores[:half]), ("facts", scores[half:])):
            harness(
                place / f"samples_{task}_2026-01-02T03-04-0{name == 'a':d}.jsonl",
                [sample(i, x) for i, x in enumerate(part)],
            )
        (tmp_path / "logs" / name).mkdir(parents=True)
        inspect(tmp_path / "logs" / name / "x.eval", [answer(i, x) for i, x in enumerate(scores)])
    suite = eval_logs.read(tmp_path / "a", tmp_path / "b")
    assert paired.compare(*suite.scores()) == RIGHT
    logs = tmp_path / "logs"
    assert paired.compare(*eval_logs.read(logs / "a", logs / "b" / "x.eval").scores()) == RIGHT
    assert says(tmp_path / "a", tmp_path / "b").exit_code == 0
    (tmp_path / "empty").mkdir()
    for a, b, right in [
        (logs, logs / "a", "has 2 logs of sums: give one, as b/x.eval"),
        (tmp_path / "a", logs / "a", "two logs of one tool"),
        (tmp_path / "empty", logs / "a", "is a folder without a log"),
    ]:
        done = says(a, b)
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        assert right in done.output
