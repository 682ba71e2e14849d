"""Sweeps: what a file asks for, what is run, reused and listed, and what a death in the middle
changes: nothing."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest
import torch
import yaml
from dask.distributed import Client, LocalCluster
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast
from typer.testing import CliRunner

from conftest import IMPORTS
from probebook.base import DATA, ROOT, UserError
from probebook.corpora import agreement
from probebook.models import embed, embedding, load, loading
from probebook_cli import app
from probebook_runs import jobs, sweep_table
from probebook_runs import sweep as sweeps
from probebook_runs.execute import run_all
from probebook_runs.kernels import Limits
from probebook_runs.pages import find
from probebook_runs.progress import RunProgress
from probebook_runs.records import read_record
from probebook_runs.schema import from_text
from probebook_runs.store import plan
from probebook_runs.sweep_file import read
from probebook_runs.workers import refusals

PAGE = """
    n: int = 5  # rows
    eps: float = 0.1  # step size
    rule: Literal["mean", "last"] = "mean"  # how pieces are joined
    sizes: list[int] = [1, 2]  # widths
    fast: bool = False  # skip the slow half
    seed: int = 0  # of the draw
    """
DRAW = """
    import os, random, time
    random.seed(seed)
    drawn, home = n * random.random(), os.environ["PROBEBOOK_HOME"]
    """
KEEP = """
    open(f"{home}/begun.txt", "a").write(f"{n} {seed}\\n")
    time.sleep(.8)
    hidden = "application/papermill.record/"
    about = {"scrapbook": {"name": "probebook:record:draw", "mime_prefix": hidden}}
    display({hidden + "text/csv": f"metric,value\\nx,{drawn}\\n"}, raw=True, metadata=about)
    open(f"{home}/ended.txt", "a").write(f"{n} {seed}\\n")
    """


@pytest.fixture
def book(tiny):
    """A book whose page draws a number, which takes a second; `book(cell)` puts a cell between.
    Returns the folder.

    The page imports nothing of the library, which would take longer than all else."""

    def write(*cells):
        home = tiny(DRAW, *cells, KEEP, parameters=PAGE)
        page = home / "notebooks/1_demo/01_first.md"
        page.write_text(page.read_text().replace(IMPORTS, "from typing import Literal"))
        return home

    return write


def file(home, **spec):
    path = home / "sweep.yaml"
    path.write_text(yaml.safe_dump({"page": "1_demo"} | spec))
    return path


def metrics(runs):
    return {run.id: (run.folder / "metrics.parquet").read_bytes() for run in runs.values()}


def until(true, seconds=300):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines(path):
    return sorted(path.read_text().splitlines()) if path.exists() else []


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"gird": {"n": [1]}}, "no key 'gird', grid perhaps"),
        ({"seed": 3}, "no key 'seed', seeds perhaps"),
        ({"page": "2_none"}, "no page begins with '2_none'"),
        ({"page": None}, "no page begins with"),
        ({"profile": "huge"}, "'huge' is not a valid profile"),
        ({"grid": {"n": 3}}, "grid.n: Input should be a valid list"),
        (
            {"grid": {"n": [1, "no"]}},
            "point n=no: n = 'no' of 1_demo/01_first: should be a valid integer",
        ),
        ({"list": [{"n": 1}, {"rule": "first"}]}, "point rule=first: "),
        ({"fixed": {"m": 1}}, "unknown parameter 'm'"),
        ({"exclude": [{"m": 1}]}, "unknown parameter 'm'"),
        ({"exclude": [{"n": [1, "many"]}]}, "valid integer"),
        ({"seeds": 2, "grid": {"seed": [1]}}, "seeds, and seed=1: give seeds in one place"),
        ({"seeds": -1}, "greater than or equal to 0"),
        ({"seeds": True}, "valid integer"),
        ({"grid": {"n": []}}, "asks for no run"),
        ({"seeds": 0}, "asks for no run"),
        ({"list": []}, "asks for no run"),
        ({"exclude": [{}]}, "asks for no run"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(book, spec, says):
    path = file(book(), **spec)
    with pytest.raises(UserError, match="^[^\n]+$") as e:
        read(path)
    assert says in str(e.value)
    assert not (path.parent / "_build").exists()


def test_a_layer_that_one_model_lacks_is_named(tiny):
    home = tiny(parameters="model: ModelName = 'pocket-agreement'\nlayer: Layer = -1")
    deepest = load("pocket-agreement").depth
    assert len(read(file(home, grid={"layer": list(range(deepest + 1))}))) == deepest + 1
    with pytest.raises(
        UserError,
        match=f"point layer={deepest + 1}: layer {deepest + 1}: pocket-agreement has layers",
    ):
        read(file(home, grid={"layer": [deepest, deepest + 1]}))
    assert (
        len(
            read(
                file(home, grid={"layer": [deepest, deepest + 1]}, exclude=[{"layer": deepest + 1}])
            )
        )
        == 1
    )


def test_how_many_runs_a_file_asks_for(book):
    home = book()

    def asked(**spec):
        return [run.values for run in read(file(home, **spec)).values()]

    grid = {"n": [1, 2, 3], "eps": ["1e-3", 0.1, 1], "sizes": [[1], [1, 2]]}
    assert len(asked()) == 1
    assert len(asked(grid=grid)) == 3 * 3 * 2
    assert len(asked(grid=grid, seeds=4)) == 3 * 3 * 2 * 4
    assert (
        len(asked(grid=grid, list=[{"n": 4}, {"n": 5, "eps": 2}], seeds=[7, 9]))
        == (3 * 3 * 2 + 2) * 2
    )
    # each once
    assert len(asked(grid=grid, list=[{"n": 1, "eps": 0.1, "sizes": [1]}] * 2)) == 3 * 3 * 2
    assert len(asked(grid=grid, exclude=[{"n": 3, "eps": 1e-3}])) == 3 * 3 * 2 - 2
    assert len(asked(grid=grid, exclude=[{"n": [1, 2], "eps": 0.1}, {"sizes": [1, 2]}])) == 9 - 2
    assert len(asked(grid=grid, exclude=[{"sizes": [[1], [1, 2]]}], list=[{"sizes": [5]}])) == 1
    assert [v["n"] for v in asked(fixed={"n": 8, "eps": 3}, list=[{"n": 9}, {"fast": True}])] == [
        9,
        8,
    ]
    assert all(
        v["eps"] == 3 for v in asked(fixed={"n": 8, "eps": 3}, list=[{"n": 9}, {"fast": True}])
    )


def test_a_command_repeats_its_run_in_any_profile(book):
    """Where the profile's value is not the page's own, and the point's is the page's, or
    neither's."""
    home = book()
    (home / "notebooks/profiles").mkdir()
    (home / "notebooks/profiles/smoke.yaml").write_text("1_demo/01_first: {n: 9, fast: true}")
    for run in read(file(home, profile="smoke", grid={"n": [5, 9, 7]})).values():
        words = shlex.split(run.command)
        given = from_text(words[6::2])
        assert words[:5] == ["probebook", "run", "1_demo/01_first", "--profile", "smoke"]
        assert set(words[5::2]) <= {"-p"}
        assert plan(run.page, "smoke", given).id == run.id
        assert ("n" in given) == (run.values["n"] != 9)


def test_the_example_of_the_book(tmp_path):
    """Two models × four layers but two, and one more, with three seeds each."""
    text = (ROOT / "book" / "how_to_use.md").read_text(encoding="utf-8")
    example = next(part for part in text.split("```yaml\n")[1:] if "seeds" in part).partition(
        "```"
    )[0]
    (tmp_path / "example.yaml").write_text(example)
    assert len(read(tmp_path / "example.yaml")) == (2 * 4 - 2 + 1) * 3


SWEEPS = ROOT / "notebooks" / "sweeps"


@pytest.mark.parametrize(
    "path",
    [*SWEEPS.glob("*_seeds.yaml"), *SWEEPS.glob("*_gemma.yaml")],
    ids=lambda path: path.stem,
)
def test_a_sweep_of_seeds_has_five_runs_that_differ_in_nothing_else(path, tmp_path, monkeypatch):
    """They are those that are stored, and their page shows them. A pocket model stands in for
    Gemma, which the book does not ship, and says that it has as many layers."""
    gemma = shutil.copytree(DATA / "models" / "pocket-english-gpt", tmp_path / "gemma-3-270m-q4")
    config = json.loads((gemma / "config.json").read_text())
    (gemma / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 18}))
    monkeypatch.setenv("PROBEBOOK_MODELS", str(tmp_path))
    runs = list(read(path).values())
    differs = [name for name in runs[0].values if runs[0].values[name] != runs[1].values[name]]
    assert differs and set(differs) <= {
        "seed",
        "seeds",
        "further",
        "box_seed",
        "causalm_seed",
        "twin_seed",
    }
    stored = sweep_table(path.stem).drop_duplicates("run")
    assert sorted(stored[differs].astype(str).itertuples(index=False, name=None)) == sorted(
        tuple(str(run.values[name]) for name in differs) for run in runs
    )
    assert len(stored) == 5
    assert re.search(rf'sweep_table\([^)]*"{path.stem}"', runs[0].page.path.read_text("utf-8"))


def test_the_stored_sweep_is_what_its_file_says():
    file = ROOT / "notebooks" / "sweeps" / "first_interventions.yaml"
    spec = yaml.safe_load(file.read_text(encoding="utf-8"))
    grid = {
        (model, layer)
        for model in spec["grid"]["model"]
        for layer in spec["grid"]["layer"]
        if not any(model in out["model"] and layer in out["layer"] for out in spec["exclude"])
    }
    stored = sweep_table("first_interventions")
    points = {(*place, i) for place in grid for i in range(spec["seeds"])}
    assert set(zip(stored.model, stored.layer, stored.seed)) == points
    assert stored.groupby(["model", "layer", "seed"]).run.nunique().eq(1).all()
    assert stored.groupby(["run", "table", "method", "metric"]).size().eq(1).all()
    assert stored.value.notna().all()


def test_pages_about_real_text_share_the_judges_that_one_of_them_stores():
    """Where another page made the same edit, its oracles gave the same scores."""
    keys = ["model", "seed", "method", "strength"]

    def scores(name, table):
        runs = sweep_table(name)
        runs = runs[(runs.table == table) & runs.get("oracle", runs.model).ne("linear")]
        return runs.pivot(
            index=["model", "seed", "method"] + ["strength"] * ("strength" in runs.columns),
            columns="metric",
            values="value",
        ).reset_index()

    judged = scores("reliability_real", "best")
    others = [
        ("first_interventions_real", "best"),
        ("nullifying_real", "best"),
        ("counterfactual_real", "at_published"),
    ]
    for name, table in others:
        both = scores(name, table).merge(judged, on=keys)
        assert len(both) >= 5, name
        for measure in ("completeness", "selectivity"):
            assert (both[f"{measure}_x"] - both[f"{measure}_y"]).abs().max() < 1e-4, name
    attacks = sweep_table("probing_audit_real").query(
        "table == 'attacks' and metric == 'oracle' and meaning == 'intervention'"
    )
    both = attacks.drop(columns="method").rename(columns={"attack": "method", "ε": "strength"})
    both = both.merge(judged, on=keys)
    assert len(both) >= 5 and (both.value - both.completeness).abs().max() < 1e-4


def test_a_worker_sees_one_gpu():
    assert sweeps.environments(3, []) == [{}] * 3
    assert sweeps.environments(2, ["0", "3"]) == [
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"CUDA_VISIBLE_DEVICES": "3"},
    ]
    assert [e["CUDA_VISIBLE_DEVICES"] for e in sweeps.environments(4, ["0", "3"])] == [
        "0",
        "3",
        "0",
        "3",
    ]


@pytest.mark.parametrize(
    "name, names",
    [("", ["4", "2"]), ("cuda", ["4", "2"]), ("cuda:1", []), ("cpu", []), ("mps", [])],
)
def test_gpus_are_dealt_to_workers_unless_one_device_is_named(monkeypatch, name, names):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,2")
    monkeypatch.setenv("PROBEBOOK_DEVICE", name)
    assert sweeps._gpus() == names


def test_the_memory_of_all_gpus_says_how_many_workers_there_are(book, monkeypatch):
    """Six runs of 2 GiB, and two GPUs with room for two of them each."""
    book()
    runs = {str(n): plan(find("1_demo"), values={"n": n}) for n in range(1, 7)}
    monkeypatch.setattr(sweeps, "_gpus", lambda: ["0", "1"])
    monkeypatch.setattr(jobs, "cores", lambda: 16)
    monkeypatch.setattr(jobs, "free_memory", lambda gpus: [5 << 30, 6 << 30][:gpus])
    assert sweeps._worker_count(None, runs) == 4
    assert sweeps._worker_count(5, runs) == 5
    assert sweeps._worker_count(9, runs) == 6
    assert sweeps._worker_count(None, {}) == 1


def command(*words):
    """What a command line says, in this process: exit status, stdout, stderr."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_a_failing_run_is_listed_and_only_what_is_missing_runs_again(book):
    home = book(
        "if n == 3 and not os.path.exists(f'{home}/mended'):\n"
        "    raise ValueError('no three\\nsecond line')"
    )
    path = file(home, profile="smoke", grid={"n": [2, 3, 4]}, fixed={"eps": 0.5})
    words = ("sweep", path, "--workers", "1")
    status, out, _ = command(*words, "--dry-run")
    assert status == 0
    assert "3 runs of 1_demo/01_first, 0 finished; time left: no estimate: no finished run" in out
    assert out.splitlines()[1:] == ["  n=2", "  n=3", "  n=4"]
    measured = "a second and 1 MB a run on one core"
    path = file(home, profile="smoke", grid={"n": [2, 3, 4]}, fixed={"eps": 0.5}, measured=measured)
    assert command(*words, "--dry-run")[1].splitlines()[1] == f"measured: {measured}"
    status, out, err = command(*words)
    assert (status, out) == (1, f"{path}: 3 runs: 2 run, 0 reused, 1 failed\n"), err
    listed = err.splitlines()[-2:]
    assert listed[0] == "1_demo/01_first, n=3: cell 5 of 6: ValueError: no three"
    status, _, err = command(*shlex.split(listed[1])[1:])
    assert status == 1
    assert "failed at cell 5 of 6: ValueError: no three" in err
    runs = read(path)
    seconds = [read_record(runs[p].folder).seconds for p in ("n=2", "n=4")]
    out = command(*words, "--dry-run")[1]
    assert (
        "3 runs of 1_demo/01_first, 2 finished; time left: about "
        f"{sum(seconds) / 2:.0f} s on 1 worker" in out
    )
    (home / "mended").touch()
    assert command(*words)[:2] == (0, f"{path}: 3 runs: 1 run, 2 reused, 0 failed\n")
    assert lines(home / "ended.txt") == ["2 0", "3 0", "4 0"]


def kernels(process):
    return [
        p for p in process.children(recursive=True) if "ipykernel_launcher" in " ".join(_said(p))
    ]


def _said(process) -> list[str]:
    with suppress(psutil.NoSuchProcess):  # it ended while it was looked at
        return process.cmdline()
    return []


def put_away(home, name):
    for what in ("_build", "begun.txt", "ended.txt"):
        os.renames(home / what, home / name / what)


def test_a_killed_worker_and_an_interrupt_change_no_number(book, capsys):
    """Each run of the disturbed sweeps ends once, and their metrics are those of runs without a
    sweep, to the bit."""
    home = book()
    path = file(home, fixed={"n": 3}, seeds=3)
    runs = read(path)
    assert run_all(list(runs.values())) == []
    undisturbed = metrics(runs)
    put_away(home, "undisturbed")

    thread = threading.Thread(target=sweeps.sweep, args=(path, 2))
    thread.start()
    until(lambda: lines(home / "begun.txt"))
    running = kernels(psutil.Process())
    running[0].parent().kill()
    thread.join(300)
    assert capsys.readouterr().out.endswith("3 runs: 3 run, 0 reused, 0 failed\n")
    assert running
    assert not psutil.wait_procs(running, timeout=10)[1]
    assert metrics(runs) == undisturbed
    assert lines(home / "ended.txt") == ["3 0", "3 1", "3 2"]
    put_away(home, "killed")

    words = [
        sys.executable,
        "-c",
        "from probebook_cli import app; app()",
        "sweep",
        str(path),
        "--workers",
        "2",
    ]
    process = subprocess.Popen(
        words, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    tree = psutil.Process(process.pid)
    until(lambda: len(lines(home / "begun.txt")) > 2)
    processes = tree.children(recursive=True)
    ports = [
        c.laddr.ip
        for p in (tree, *processes)
        for c in p.net_connections()
        if c.status == psutil.CONN_LISTEN
    ]
    assert kernels(tree)
    assert ports
    assert set(ports) == {"127.0.0.1"}
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not psutil.wait_procs(processes, timeout=10)[1]
    finished = sum(run.finished for run in runs.values())
    assert 0 < finished < 3
    assert sweeps.sweep(path, 2) == {}
    said = capsys.readouterr().out
    assert said.endswith(f"3 runs: {3 - finished} run, {finished} reused, 0 failed\n")
    assert metrics(runs) == undisturbed


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """A client of two worker processes, and the cache that is theirs."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBEBOOK_CACHE", str(cache))
        with (
            LocalCluster(
                2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client, cache


@pytest.fixture
def cluster(workers, monkeypatch):
    """The client; this process has the cache of its workers."""
    monkeypatch.setenv("PROBEBOOK_CACHE", str(workers[1]))
    return workers[0]


def test_a_run_that_kills_its_workers_is_a_failure_of_its_own(book, monkeypatch, capfd):
    home = book("if n == 3:\n    os.kill(os.getppid(), 9)\n    time.sleep(30)")
    monkeypatch.setitem(sweeps.CONFIG, sweeps.ALLOWED, 1)
    names = ("OMP_NUM_THREADS", "PYTHONHASHSEED", "PROBEBOOK_PROFILE", "CUDA_VISIBLE_DEVICES")
    before = [os.environ.get(name) for name in names]
    failed = sweeps.sweep(file(home, grid={"n": [3, 4]}), workers=2)
    assert failed == {"n=3": "its worker died 2 times (killed, or out of memory)"}
    assert [os.environ.get(name) for name in names] == before
    assert "probebook run 1_demo/01_first -p n=3" in capfd.readouterr().err
    assert lines(home / "ended.txt") == ["4 0"]


@pytest.mark.xdist_group("cluster")
def test_any_scheduler_will_do_if_its_workers_see_the_same(book, cluster, monkeypatch):
    home = book()
    path, address = file(home, list=[{"n": 2}]), cluster.scheduler.address
    status, _, err = command("sweep", path, "--scheduler", address, "--time-limit", ".001")
    assert status == 1
    assert "its time limit" in err
    assert command("sweep", path, "--scheduler", address)[0] == 0
    runs = read(file(home, list=[{"n": 3}]))
    planned = [(run.id, run.page.source) for run in runs.values()]
    book("'changed'")
    with (
        pytest.raises(
            UserError,
            match=f"plans run .* where {planned[0][0][:8]} is asked for: its "
            "sources or data have changed",
        ),
        RunProgress(dict.fromkeys(runs, 1.0), 1) as progress,
    ):
        sweeps._run_all(cluster, runs, Limits(), progress)
    monkeypatch.setattr(sweeps, "inventory", lambda page, values: {"torch": "9"})
    with (
        pytest.raises(
            UserError,
            match="^no worker is left: worker tcp://[0-9.:]* is refused: it "
            "has torch .* where 9 is right$",
        ),
        RunProgress(dict.fromkeys(runs, 1.0), 1) as progress,
    ):
        sweeps._run_all(cluster, runs, Limits(), progress)
    # a worker that has no such module, or another version of it
    (home / "only_here.py").write_text("def answer(question): pass")
    monkeypatch.syspath_prepend(home)
    monkeypatch.setattr(
        "probebook_runs.workers._answer", importlib.import_module("only_here").answer
    )
    said = refusals(cluster, [*cluster.nthreads()], None)
    assert len(said) == 2
    assert all(
        line.endswith(
            "it lacks this version of the library: "
            """ModuleNotFoundError("No module named 'only_here'")"""
        )
        for line in said.values()
    )
    status, _, err = command("sweep", path, "--scheduler", address, "--workers", "1")
    assert status == 2
    assert err.count("\n") == 1


# --- embeddings over a cluster
# -----------------------------------------------------------------------------


@pytest.mark.library
@pytest.mark.xdist_group("cluster")
def test_embedding_over_a_cluster_survives_a_worker(cluster, workers, monkeypatch):
    """Bit-equal to one machine's at any position; shards done before a worker was killed are not
    made again."""
    monkeypatch.setattr(embedding, "SHARD", 10)
    table = agreement.generate(200, seed=1)
    texts = list(table["text"])
    at = ("first", [text.split()[1].strip(".,") for text in texts])
    whole = embed(texts, "pocket-agreement", 2, at, cache=False)
    folder, got = workers[1] / "embeddings", []
    thread = threading.Thread(
        target=lambda: got.append(embed(texts, "pocket-agreement", 2, at, client=cluster))
    )
    pids = cluster.run(os.getpid)
    thread.start()
    until(lambda: len(list(folder.glob("*.safetensors"))) > 0)
    os.kill(max(pids.values()), signal.SIGKILL)
    before = {path: path.stat() for path in folder.glob("*.safetensors")}
    thread.join(300)
    after = {path: path.stat() for path in folder.glob("*.safetensors")}
    assert torch.equal(got[0], whole)
    assert 0 < len(before) < len(after)
    assert len(after) >= 200 / embedding.SHARD / 4
    assert all(
        (after[p].st_ino, after[p].st_mtime_ns) == (s.st_ino, s.st_mtime_ns)
        for p, s in before.items()
    )
    assert torch.equal(embed(texts, "pocket-agreement", 2, at, client=cluster), whole)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")} == {
        path: s.st_mtime_ns for path, s in after.items()
    }
    with pytest.raises(UserError, match="text 0"):
        embed(["no mask", "none"], "pocket-agreement", client=cluster)
    for given in (
        {"model": load("pocket-agreement")},
        {"model": "pocket-agreement", "cache": False},
    ):
        with pytest.raises(UserError, match="client: give the model by its name or folder"):
            embed(texts, client=cluster, **given)


def test_a_local_cluster_answers_only_to_whom_it_knows(tiny):
    """Other users of a machine reach its ports, and a task is code."""
    tiny()
    with sweeps._client(1, None, plan(find("1_demo"))) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert client.submit(sum, [1, 2]).result() == 3
        for other in (address, address.replace("tls:", "tcp:")):
            with pytest.raises((OSError, TypeError)):
                Client(other, timeout="2s", loop=client.loop)


@pytest.mark.library
@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("what", ["weights", "tokenizer"])
def test_a_worker_that_has_another_model_of_the_name_is_refused(cluster, tmp_path, what):
    folder, texts = str(tmp_path / what), ["the old man sat down", "a cat"]
    words = BertTokenizerFast(
        vocab={
            word: i
            for i, word in enumerate(
                ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "old", "man", "cat"]
            )
        }
    )
    words.save_pretrained(folder)
    size = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    net = BertForMaskedLM(BertConfig(vocab_size=len(words) + 1, **size))
    net.save_pretrained(folder)
    mine = embed(texts, folder, -1, "mean")
    if what == "weights":  # what lies there when the workers look
        net.bert.embeddings.word_embeddings.weight.data[5] = torch.arange(16.0)
        net.save_pretrained(folder)
    else:
        words.add_tokens(["sat"])
        words.save_pretrained(folder)
    with pytest.raises(
        UserError,
        match=f"^{folder}: the worker tcp://[0-9.:]* has other weights "
        "or another tokenizer under this name",
    ) as error:
        embed(texts, folder, -1, "mean", client=cluster)
    assert "\n" not in str(error.value)
    loading._load_once.cache_clear()  # now this process has the same as they
    again = embed(texts, folder, -1, "mean", client=cluster)
    assert torch.equal(again, embed(texts, folder, -1, "mean", cache=False))
    assert not torch.equal(again, mine)
