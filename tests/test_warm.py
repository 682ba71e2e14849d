"""Warm kernels: forks of one process give what a kernel of its own gives, and share nothing with
each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent

import pandas as pd
import psutil
import pytest

from probebook.models.cache import load_or_compute
from probebook_runs import warm
from probebook_runs.execute import kernel_environment, run_all, server_of
from probebook_runs.pages import find
from probebook_runs.progress import RunProgress
from probebook_runs.store import plan
from probebook_runs.warm import ForkServer, fork_server

DRAWS = """
    import os, random, sys, threading
    import numpy as np, pandas as pd, torch
    start(globals())
    h = torch.randn(200, 40) @ torch.randn(40, 40)
    numbers = [torch.linalg.svdvals(h)[0].item(), np.random.rand(), random.random(),
               hash("word") % 1e6, n, torch.get_num_threads(), float(h.float().exp().log1p().sum())]
    """
KEEP = """
    table = pd.DataFrame({"place": range(len(numbers)), "number": numbers})
    write_table(table, "numbers", ["place"])
    """
STATE = """
    first = (not hasattr(torch, "left_behind"), "LEFT" not in os.environ,
             threading.active_count() < 12)
    torch.left_behind, os.environ["LEFT"] = True, "1"
    write_table(pd.DataFrame({"new": [float(all(first))], "pid": [float(os.getpid())]}), "state")
    """


@pytest.fixture
def kernels():
    """Each starts anew."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(warm, "LIBRARIES", ("ipykernel.kernelapp",))
    with kernel_environment(1, "pocket"), ForkServer(["probebook_runs"]) as found:
        yield found


def forked(runs, force=False):
    """Run in forks; the runs that failed."""
    with server_of([run.page for run in runs]) as some:
        failed = run_all(runs, force, server=some)
        assert some.process  # it was worth it
    return failed


def metrics(run):
    return pd.read_parquet(run.folder / "metrics.parquet")


def test_a_fork_gives_the_numbers_of_a_fresh_kernel(tiny, monkeypatch):
    """A run in a kernel of its own and one in a fork: every bit is the same, random numbers
    included."""
    monkeypatch.setattr(warm, "FEW", 0)
    tiny(DRAWS, KEEP)
    runs = [plan(find("1_demo"), values={"n": n}) for n in (5, 6)]
    assert run_all(runs[:1]) == []
    fresh = metrics(runs[0])
    assert forked(runs, force=True) == []
    pd.testing.assert_frame_equal(metrics(runs[0]), fresh, check_exact=True)
    assert metrics(runs[1]).value.drop(4).tolist() == fresh.value.drop(4).tolist()


@pytest.mark.parametrize("warm_kernel", [False, True])
def test_temporary_files_and_processes_go_with_their_kernel(tiny, monkeypatch, server, warm_kernel):
    """It is ended at once, and could not remove them itself."""
    left = """
        import os, subprocess, tempfile
        from pathlib import Path
        child = subprocess.Popen(["sleep", "600"])
        said = f"{child.pid} {tempfile.mkdtemp()}"
        Path(os.environ["PROBEBOOK_HOME"], "left").write_text(said)"""
    monkeypatch.setattr(warm, "FEW", 0)
    home = tiny(left)
    assert run_all([plan(find("1_demo"))], server=server if warm_kernel else None) == []
    assert server.process if warm_kernel else not server.process
    child, folder = (home / "left").read_text().split()
    until(lambda: not psutil.pid_exists(int(child)))
    assert Path(folder).parent.name.startswith("probebook-")
    assert not Path(folder).parent.exists()


def test_pages_that_import_nothing_need_no_server():
    assert fork_server(()) is None
    assert isinstance(fork_server({"probebook.base"}), ForkServer)


def test_the_first_few_do_not_wait_for_the_server():
    some = ForkServer(["probebook.base"])
    assert [some.if_worth() for _ in range(4)] == [None, None, some, some]
    assert ForkServer(["probebook.base"]).if_worth(2) is None
    many = ForkServer(["probebook.base"])
    assert many.if_worth(3) is many
    assert some.process is None


def test_forks_share_no_state(tiny, monkeypatch):
    monkeypatch.setattr(warm, "FEW", 0)
    monkeypatch.setattr(warm, "LIBRARIES", ("ipykernel.kernelapp", "torch"))
    tiny(DRAWS, STATE)
    runs = [plan(find("1_demo"), values={"n": n}) for n in (1, 2, 3)]
    assert forked(runs) == []
    found = [metrics(run).set_index("metric").value for run in runs]
    assert [one["new"] for one in found] == [1, 1, 1]
    assert len({one["pid"] for one in found}) == 3


def test_a_fork_is_ended_by_its_group(server):
    command = ["python", "-m", "timeit", "-n1", "-r1", "__import__('time').sleep(600)"]
    fork = server.fork(command, dict(os.environ), os.getcwd())
    until(lambda: os.getsid(fork.pid) == fork.pid)  # it has a session of its own
    assert fork.poll() is None
    os.killpg(fork.pid, signal.SIGKILL)
    assert fork.wait() == 0
    assert fork.poll() == 0
    assert not psutil.pid_exists(fork.pid)


def test_a_kernel_ends_when_its_server_is_killed(server, tmp_path):
    """As it does when the runner is killed: the server then reads the end of its input."""
    address = tmp_path / "kernel.json"
    fork = server.fork(
        ["python", "-m", "ipykernel_launcher", "-f", str(address)], dict(os.environ), os.getcwd()
    )
    until(address.exists)  # it is under way
    assert fork.poll() is None
    server.process.kill()
    until(lambda: fork.poll() == 0)
    assert not psutil.pid_exists(fork.pid)


def until(holds, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_pages_that_say_the_same_run_together(tiny):
    names = "1_demo/01_a", "1_demo/02_b"
    for name in names:
        tiny("import pandas as pd", "write_table(pd.DataFrame({'n': [n]}), 't')", name=name)
    runs = [plan(find(name)) for name in names]
    assert runs[0].id == runs[1].id
    assert run_all(runs) == []
    assert all(run.finished for run in runs)


def test_a_server_that_died_starts_again(server):
    command = ["python", "-m", "timeit", "-n1", "-r1", "0"]
    server.fork(command, dict(os.environ), os.getcwd()).wait()
    first = server.process.pid
    server.process.kill()
    server.process.wait()
    assert server.fork(command, dict(os.environ), os.getcwd()).wait() == 0
    assert server.process.pid != first


def test_what_two_ask_for_at_once_is_made_once(tmp_path, monkeypatch):
    import torch

    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    made, found = [], []

    def make():
        made.append(1)
        time.sleep(0.5)
        return {"h": torch.arange(3.0)}

    askers = [
        threading.Thread(target=lambda: found.append(load_or_compute("demo", ["same"], make)["h"]))
        for _ in range(4)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(made) == 1
    assert [h.tolist() for h in found] == [[0, 1, 2]] * 4


def test_the_chapter_with_most_left_goes_on_with_its_next_page(tiny):
    from probebook_runs.execute import _key, _Queue

    names = ("1_demo/01_a", "1_demo/02_b", "1_demo/03_c", "2_demo/01_d", "2_demo/02_e")
    for name in names:
        tiny("1", name=name)
    runs = [plan(find(name)) for name in names]
    queue = _Queue(runs, dict(zip(map(_key, runs), (1.0, 9.0, 9.0, 15.0, 1.0))))
    begun = []
    with queue.next() as first, queue.next() as second, queue.next() as third:
        begun += [first, second, third]
    with queue.next() as fourth, queue.next() as fifth:
        begun += [fourth, fifth]
    # both chapters ran when the third began: it is the longest of all
    assert [run.page.name for run in begun] == [
        "1_demo/01_a",
        "2_demo/01_d",
        "1_demo/02_b",
        "1_demo/03_c",
        "2_demo/02_e",
    ]


def test_the_time_left_is_scaled_by_what_has_ended(capsys):
    """Two of four like runs took twice what was expected on one worker: the others will as well."""
    with RunProgress(dict.fromkeys("abcd", 10.0), 1) as progress:
        assert progress.left() == 40
        for key in "ab":
            progress.end(key, f"page {key}", 20.0)
        assert progress.left() == 40
        progress.end("c", "page c", 1.0, "failed at cell 2")
        progress.end("d", "page d", 20.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "1 of 4: page a: 20.0 s; about 60 s left",
        "2 of 4: page b: 20.0 s; about 40 s left",
        "3 of 4: page c: failed at cell 2",
        "4 of 4: page d: 20.0 s",
    ]


def test_the_server_does_not_start_cuda_whose_forks_could_not_use_it():
    """It imports what all pages import, and then asks, as a library might, whether there is a
    GPU."""
    code = """
        import sys
        import torch
        from probebook_runs import warm
        from probebook_runs.pages import modules, pages

        def start(*_):
            raise SystemExit("CUDA is started")

        torch.cuda._is_compiled = lambda: True
        torch.cuda._device_count_nvml = lambda: 1
        torch._C._cuda_getDeviceCount = torch._C._cuda_init = torch.cuda._lazy_init = start
        every = {name for page in pages() for name in modules(page)}
        assert warm._serve([*warm.LIBRARIES, *sorted(every)]) is None
        print("transformers" in sys.modules, torch.cuda.is_available())"""
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_a_page_is_seeded_and_styled_whatever_it_has_imported(tmp_path):
    """A kernel of its own has imported less than a fork, and gives the same numbers and figures. So
    does a page written as a script."""
    script = tmp_path / "page.py"
    code = """
        from probebook_runs import Seed, start
        seed: Seed = 5
        start(globals())
        import torch
        print(torch.rand(3).tolist() == torch.rand(3, generator=torch.manual_seed(5)).tolist())
        import matplotlib.pyplot as plt
        print(plt.rcParams["axes.spines.top"])
        later: Seed = 6"""
    script.write_text(dedent(code), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout.split()[-2:] == ["True", "False"], done.stderr
