"""Pages side by side: what they take of a GPU is measured, and bounds how many run at a time."""

from __future__ import annotations

import os
import time

import psutil
import pytest
import torch
from typer.testing import CliRunner

from probebook.base import UserError
from probebook_book import build
from probebook_cli import app
from probebook_runs import execute, jobs, page, records, sweep
from probebook_runs.execute import run_all
from probebook_runs.jobs import choose_jobs, free_memory, memory_of, resident_free, side_by_side
from probebook_runs.labs import variants
from probebook_runs.page import CONTEXT
from probebook_runs.pages import find
from probebook_runs.records import read_record
from probebook_runs.store import plan

GIB = 1 << 30
# what torch says of a GPU of which a page takes more and more, then less
TAKES = """
    import torch
    _taken = [0, 5]
    torch.cuda.is_initialized = lambda: _taken[0] > 0
    torch.cuda.device_count = lambda: 2
    torch.cuda.max_memory_reserved = lambda device: _taken[device]
    start(globals())
    """


def test_a_record_has_the_most_memory_that_its_page_took_of_a_gpu(tiny):
    tiny(TAKES, "_taken[0] = 1000", "_taken[0] = 3000", "_taken[0] = 2000")
    assert run_all([run := plan(find("1_demo"))]) == []
    assert read_record(run.folder).device_memory == CONTEXT + 3005
    outputs = [len(cell.outputs) for cell in run.read().cells if cell.cell_type == "code"]
    assert sum(outputs) == 1  # the record of the start, which has changed


def test_without_a_gpu_a_page_takes_none_of_its_memory(tiny):
    tiny(TAKES, "n")
    assert run_all([run := plan(find("1_demo"))]) == []
    assert read_record(run.folder).device_memory == 0


@pytest.mark.parametrize("name", ["", "cpu"])
def test_the_device_of_a_record_is_the_one_that_models_use(monkeypatch, name):
    """And to ask for its name takes none of its memory where the processor is used."""
    monkeypatch.setenv("PROBEBOOK_DEVICE", name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a card, {device}")
    assert page.device() == (page.processor() if name else "a card, cuda:0")


@pytest.mark.parametrize(
    "todo, cores, asked, each, free, want",
    [
        (39, 16, None, 0, [], 16),
        (3, 16, None, 0, [], 3),
        (0, 16, None, 0, [], 1),  # a CPU
        (39, 16, None, 2 * GIB, [79 * GIB], 16),  # a large card: the cores bound it
        (39, 16, None, 2 * GIB, [7 * GIB], 3),
        (39, 16, None, 2 * GIB, [6 * GIB], 3),
        (39, 2, None, 2 * GIB, [7 * GIB], 2),
        (2, 16, None, 2 * GIB, [7 * GIB], 2),
        (39, 16, None, 8 * GIB, [7 * GIB], 1),  # one always runs
        (39, 16, None, 2 * GIB, [7 * GIB, 5 * GIB], 4),  # dealt in turn: the fuller card bounds it
        (39, 16, 14, 8 * GIB, [7 * GIB], 14),
        (39, 2, 5, 0, [], 5),
        (3, 2, 5, 0, [], 3),
    ],
)
def test_cores_and_free_memory_bound_the_runs_at_a_time(todo, cores, asked, each, free, want):
    assert side_by_side(todo, cores, asked, each, free) == want


def cards(monkeypatch, *free):
    """A large machine on which torch sees GPUs with so many free bytes, and one of Apple's."""
    monkeypatch.setattr(jobs, "resident_free", lambda: 99 * GIB)
    monkeypatch.delenv("PROBEBOOK_DEVICE", raising=False)
    for kind in (torch.cuda, torch.mps):
        monkeypatch.setattr(kind, "is_available", lambda: True)
        monkeypatch.setattr(kind, "device_count", lambda: len(free))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[device.index], 80 * GIB))


def test_the_device_that_models_use_is_asked_for_its_free_memory(monkeypatch):
    cards(monkeypatch, 7 * GIB, 5 * GIB)
    assert free_memory() == [7 * GIB]
    assert free_memory(2) == [7 * GIB, 5 * GIB]
    monkeypatch.setenv("PROBEBOOK_DEVICE", "cuda:2")
    with pytest.raises(UserError, match="'cuda:2' is not there"):
        free_memory()
    for name, found in [("cuda:1", [5 * GIB]), ("cpu", []), ("cpu:0", []), ("mps", [])]:
        monkeypatch.setenv("PROBEBOOK_DEVICE", name)
        assert free_memory() == found
    monkeypatch.setenv("PROBEBOOK_DEVICE", "gpu")
    with pytest.raises(UserError, match="'gpu' is not a valid device"):
        free_memory()


def test_a_page_counts_with_what_it_took_and_the_largest_bounds_all(tiny, monkeypatch):
    small, large = "1_demo/01_small", "1_demo/02_large"
    tiny(TAKES, f"_taken[0] = {GIB}", name=small)
    tiny(TAKES, f"_taken[0] = {3 * GIB} + n", name=large)
    runs = [plan(find(name), values={"n": n}) for name in (small, large) for n in (5, 6)]
    assert [memory_of(large, profile) for profile in ("pocket", "paper")] == [2 * GIB, 8 * GIB]
    cards(monkeypatch, 10 * GIB)
    monkeypatch.setattr(jobs, "cores", lambda: 16)
    assert choose_jobs(runs) == 4  # by what pages usually take
    assert execute.run_all([runs[0], runs[2]], jobs=2) == []
    assert memory_of(small, "pocket") == GIB + 5 + CONTEXT
    assert memory_of(large, "pocket") == 3 * GIB + 10 + CONTEXT
    assert choose_jobs(runs) == 2
    assert choose_jobs([runs[0], runs[1]] * 9) == 6
    assert choose_jobs(runs, asked=3) == 3
    assert choose_jobs(runs[:1]) == 1
    assert records.of_page(small, "smoke") == []


@pytest.mark.parametrize(
    "profile, free, want",
    [("pocket", 99, 8), ("pocket", 5, 4), ("smoke", 2, 1), ("real", 9, 2), ("paper", 5, 1)],
)
def test_a_laptop_runs_as_many_pages_as_its_memory_holds(tiny, monkeypatch, profile, free, want):
    """Eight cores, and so many GiB free: one page of the pocket profile takes 1.25."""
    tiny("n")
    monkeypatch.setenv("PROBEBOOK_DEVICE", "cpu")
    monkeypatch.setattr(jobs, "cores", lambda: 8)
    monkeypatch.setattr(jobs, "resident_free", lambda: free * GIB)
    runs = [plan(find("1_demo"), profile, {"n": n}) for n in range(1, 20)]
    assert choose_jobs(runs) == want
    assert choose_jobs(runs, asked=7) == 7


def test_the_free_memory_of_a_container_is_its_share_at_most(monkeypatch):
    assert 0 < resident_free() <= psutil.virtual_memory().total
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 1000)
    assert resident_free() == 1000


@pytest.mark.parametrize("asked, at_a_time, threads", [(None, 2, "3"), (1, 1, "6"), (3, 3, "2")])
def test_as_many_run_at_a_time_and_share_the_cores(tiny, monkeypatch, asked, at_a_time, threads):
    """Six cores, a GPU with room for two pages."""
    names = [f"1_demo/0{i}_page" for i in range(1, 5)]
    for name in names:
        tiny("n", name=name)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cards(monkeypatch, 5 * GIB)
    for module in (jobs, execute):
        monkeypatch.setattr(module, "cores", lambda: 6)
    running, most, given = [], [], []

    def run(run, *_):
        running.append(run)
        time.sleep(0.2)
        most.append(len(running))
        given.append(os.environ["OMP_NUM_THREADS"])
        running.remove(run)

    monkeypatch.setattr(execute, "execute", run)
    assert execute.run_all([plan(find(name)) for name in names], jobs=asked) == []
    assert max(most) == at_a_time
    assert given == [threads] * 4


@pytest.mark.parametrize(
    "words", [["build"], ["lab", "student", "x", "1_demo", "--seed-from", "class.csv"]]
)
def test_the_command_line_says_how_many(tiny, monkeypatch, words):
    home, asked = tiny("n", parameters="seed: int = 0"), []
    monkeypatch.chdir(home)
    (home / "class.csv").write_text("name\nada\nbob\n")

    def run_all(runs, *given, jobs=None):
        asked.append(jobs or given[-1])
        return runs

    for module in (build, variants):
        monkeypatch.setattr(module, "run_all", run_all)
    CliRunner().invoke(app, [*words, "--jobs", "3"])
    assert asked == [3]


@pytest.mark.parametrize("option", ["--jobs", "--workers"])
def test_a_sweep_has_the_same_option(tiny, monkeypatch, option):
    (tiny("n") / "sweep.yaml").write_text("page: 1_demo\n")
    asked = []
    monkeypatch.setattr(sweep, "sweep", lambda file, workers, *_: asked.append(workers))
    done = CliRunner().invoke(app, ["sweep", str(tiny("n") / "sweep.yaml"), option, "3"])
    assert (done.exit_code, asked) == (0, [3])
