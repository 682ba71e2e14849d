"""What a run survives: kills, damage, a full disk, a second runner, a clock that jumps, pages that
never end.

`benchmarks/faults.py` (make verify) kills a page of the book at thirty random moments; here each
fault is done once to a small page.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from faults import begin, go_on, its_kernel, kill, metrics, the_runner

from probebook_runs.execute import run_all
from probebook_runs.kernels import Limits, parse_limits
from probebook_runs.pages import find
from probebook_runs.records import read_record
from probebook_runs.store import plan

NUMBERS = (
    "import time, numpy as np, pandas as pd",
    "with open('made', 'a') as f:\n    f.write('once\\n')",
    "time.sleep(.7)",
    "write_table(pd.DataFrame({'x': np.random.default_rng(n).normal(size=200)}), 'draws')",
)
RUN = ["run", "1_demo"]


def made(home) -> int:
    """How often the page came to its second cell."""
    return len((home / "made").read_text().splitlines()) if (home / "made").exists() else 0


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    return tmp_path_factory.mktemp("undisturbed")


@pytest.fixture
def undisturbed(tiny, elsewhere):
    """The metrics of the small page, run once in another folder."""
    if not (elsewhere / "notebooks").exists():
        shutil.copytree(tiny(*NUMBERS) / "notebooks", elsewhere / "notebooks")
        assert go_on(*RUN, home=elsewhere) == 1
    return metrics(elsewhere)


@pytest.mark.parametrize("whom", [the_runner, its_kernel])
@pytest.mark.parametrize("at_once", [pytest.param(True, marks=pytest.mark.verify), False])
def test_a_killed_run_goes_on(tiny, undisturbed, whom, at_once):
    """Killed as soon as it is there, or while the page runs."""
    home = tiny(*NUMBERS)
    process = begin(*RUN, home=home)
    assert kill(process, lambda process: whom(process) if at_once or made(home) else [], 0)
    kernels = its_kernel(process) if process.poll() is None else []
    process.communicate()
    assert (process.returncode == 0) == bool(metrics(home))
    go_on(*RUN, home=home)
    assert metrics(home) == undisturbed
    times = made(home)
    assert run_all([plan(find("1_demo"))]) == []
    assert made(home) == times <= 2  # what is finished is never made again
    assert not psutil.wait_procs(kernels, timeout=20)[1]  # no kernel is left without its runner


def test_ctrl_c_is_clean_and_the_run_goes_on(tiny, undisturbed):
    home = tiny(*NUMBERS)
    process = begin(
        *RUN, home=home, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    while not (kernels := its_kernel(process)) or not made(home):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not metrics(home)
    assert not psutil.wait_procs(kernels, timeout=20)[1]
    assert go_on(*RUN, home=home) == 1
    assert metrics(home) == undisturbed


def test_two_processes_make_one_run(tiny, undisturbed):
    home = tiny(*NUMBERS)
    both = [begin(*RUN, home=home) for _ in range(2)]
    err = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert made(home) == 1
    assert metrics(home) == undisturbed
    assert sum("another process runs it, waiting" in text for text in err) <= 1


def test_a_damaged_run_is_made_again(tiny, capfd):
    home = tiny("import pandas as pd", "write_table(pd.DataFrame({'x': [n / 3]}), 't')")
    run = plan(find("1_demo"))
    assert run_all([run]) == []
    whole = metrics(home)
    for name in ("notebook.ipynb", "metrics.parquet", "record.json"):
        path = run.folder / name
        content = path.read_bytes()
        for i in (0, len(content) // 2, len(content) - 3):
            path.write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
            assert not run.finished, (name, i)
            path.write_bytes(content[:i])
            assert not run.finished, (name, i)
        path.unlink()
        assert not run.finished
        path.write_bytes(content)
        assert run.finished
    path.write_bytes(content[:-9])
    capfd.readouterr()
    assert run_all([run]) == []
    assert run.finished
    assert metrics(home) == whole
    said = capfd.readouterr().err
    assert f"1_demo/01_first: run {run.id[:8]} is damaged, it is made again" in said


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-9], lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:]]
)
def test_a_damaged_embedding_is_computed_again(tmp_path, monkeypatch, damage):
    from probebook.models import embed

    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    texts = ["The key to the cabinets [MASK] here.", "The keys [MASK] here."]
    h = embed(texts, "pocket-agreement")
    (path,) = tmp_path.rglob("*.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match="corrupt; computed again"):
        again = embed(texts, "pocket-agreement")
    assert np.array_equal(h, again)
    assert np.array_equal(h, embed(texts, "pocket-agreement"))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB; the function it gives mounts it anew with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield (
        folder,
        lambda options: subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True),
    )
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_loses_nothing(tiny, small_disk, monkeypatch, capfd):
    disk, remount = small_disk
    home = tiny(
        "import pandas as pd",
        "print('x' * n * 1_000_000)",
        "write_table(pd.DataFrame({'x': [1.5]}), 't')",
    )
    (home / "_build").symlink_to(disk)
    small, large = (plan(find("1_demo"), values={"n": n}) for n in (1, 2))
    assert run_all([large]) == [large]
    assert not large.folder.exists()
    err = capfd.readouterr().err
    assert "1_demo/01_first: failed" in err
    assert "No space left on device" in err
    assert "Traceback" not in err
    large.partial.unlink(missing_ok=True)
    assert run_all([small]) == []
    assert run_all([large]) == [large]
    assert small.finished
    remount("size=30m")
    assert run_all([large]) == []
    assert large.finished
    assert small.finished


def test_a_cache_on_a_full_or_read_only_disk(small_disk, monkeypatch):
    from probebook.base import UserError
    from probebook.models import embed

    disk, remount = small_disk
    monkeypatch.setenv("PROBEBOOK_CACHE", str(disk))
    kept = embed(["The key [MASK] here."], "pocket-agreement")
    (disk / "large").write_bytes(bytes(2_900_000))
    texts = [f"The {i} keys [MASK] here." for i in range(300)]
    with pytest.warns(UserWarning, match="cannot be kept in the cache"):
        h = embed(texts, "pocket-agreement")
    assert np.array_equal(h, embed(texts, "pocket-agreement", cache=False))
    assert sorted(p.name for p in disk.iterdir()) == ["embeddings", "large"]
    assert len(list(disk.rglob("*.part"))) == 0
    remount("ro")
    assert np.array_equal(kept, embed(["The key [MASK] here."], "pocket-agreement"))
    with pytest.raises(
        UserError, match="^cache folder .* cannot be written .*set PROBEBOOK_CACHE[^\n]*$"
    ):
        embed(texts, "pocket-agreement")


CLOCK = """
import time
true, offset = time.time, lambda: float(open({path!r}).read())
time.time, time.time_ns = lambda: true() + offset(), lambda: int((true() + offset()) * 1e9)
open({path!r} + " is used", "w").close()
"""


@pytest.mark.parametrize("days", [-400, 400])
def test_a_clock_that_jumps(tiny, undisturbed, days, tmp_path):
    """`time.time` of runner and kernel jumps by more than a year while the page runs; the run does
    not notice."""
    home, clock, site = tiny(*NUMBERS), tmp_path / "clock", tmp_path / "site"
    site.mkdir()
    clock.write_text("0")
    (site / "sitecustomize.py").write_text(CLOCK.format(path=str(clock)))
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [
        sys.executable,
        "-c",
        "from probebook_cli import app; app()",
        *RUN,
        "--time-limit",
        "90",
    ]
    process = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": path}, cwd=home)
    while not made(home):
        assert process.poll() is None
        time.sleep(0.02)
    clock.write_text(str(days * 86_400))
    assert process.wait(120) == 0
    assert (tmp_path / "clock is used").exists()
    assert metrics(home) == undisturbed
    assert 0 < read_record(plan(find("1_demo")).folder).seconds < 90
    assert run_all([plan(find("1_demo"))]) == []
    assert made(home) == 1  # with the true clock it is the same run


@pytest.mark.parametrize(
    "cell", ["while True: pass", "import ctypes; ctypes.PyDLL(None).sleep(600)"]
)
def test_a_page_that_hangs_is_ended(tiny, capfd, cell):
    tiny("import time", cell)
    run, began = plan(find("1_demo")), time.monotonic()
    assert run_all([run], limits=Limits(seconds=5)) == [run]
    assert time.monotonic() - began < 60
    assert "of 4: ended after 5 s, its time limit" in capfd.readouterr().err
    assert not run.finished


def test_a_page_that_eats_memory_is_ended(tiny, capfd):
    tiny(
        "import numpy as np, time",
        "kept = []\nwhile True:\n    kept.append(np.ones(2_500_000)); time.sleep(.01)",
    )
    run = plan(find("1_demo"))
    assert run_all([run], limits=parse_limits(memory="700MB")) == [run]
    err = capfd.readouterr().err
    assert "failed at cell 4 of 4: ended at" in err
    assert "of memory, its limit is 0.70 GB" in err


@pytest.mark.parametrize(
    ("seconds", "memory", "says"),
    [
        ("soon", None, "time limit 'soon': should be seconds, or a time such as 30min or 2h"),
        ("0", None, "must be positive"),
        ("-1h", None, "must be positive"),
        (None, "much", "memory limit 'much': should be a size such as 800MB or 6GiB"),
    ],
)
def test_limits_that_are_none(seconds, memory, says):
    with pytest.raises(ValueError, match="^[^\n]+$") as e:
        parse_limits(seconds, memory)
    assert says in str(e.value)


def test_limits_are_read():
    assert parse_limits("90", "800MB") == Limits(90, 800_000_000)
    assert parse_limits("2h", "6GiB") == Limits(7200, 6 * 2**30)
    assert parse_limits("1.5") == Limits(1.5)
    assert parse_limits() == Limits()
