"""The command line as a user meets it: what it prints where, and its exit status."""
from __future__ import annotations

import signal
import subprocess
import sys
import time

import pandas as pd
import psutil

from conftest import probebook


def test_help_is_quick_and_loads_no_library():
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", "import probebook.cli"], capture_output=True,
                          text=True, check=True)
    assert not {"torch", "transformers", "pandas", "papermill"} & {line.split("|")[-1].strip() for line in
                                                                 done.stderr.splitlines()}
    assert "params" in probebook("--help").stdout


def test_run_and_results(tiny, tmp_path):
    tiny("import pandas as pd", "record(pd.DataFrame({'word': ['a, b'], 'score': [n / 2]}), 'scores', ids=['word'])")
    done = probebook("run", "1_demo/01", "-p", "n=7", "-p", "sizes=[3]", "--out", str(tmp_path / "copy.ipynb"))
    assert done.returncode == 0 and done.stdout.strip() == str(tmp_path / "copy.ipynb")
    shown = probebook("results", "1_demo/01", "-p", "n=7", "-p", "sizes=[3]")
    assert shown.stdout == 'table,word,metric,value\nscores,"a, b",score,3.5\n' and shown.stderr == ""
    again = probebook("results", "1_demo/01")
    assert again.returncode == 2 and again.stderr.count("\n") == 1 and "probebook run 1_demo/01_first" in again.stderr


def test_params(tiny):
    tiny()
    lines = probebook("params", "1_demo").stdout.splitlines()
    assert lines[0].split(None, 3) == ["n", "Count", "5", "rows"] and len(lines) == 5


def test_errors_are_one_line(tiny):
    home = tiny()
    for words in (["run", "1_demo", "-p", "m=1"], ["run", "2_none"], ["run", "1_demo", "--profile", "huge"],
                  ["records", "show", "none"], ["models", "train", "none"], ["data", "get", "none"]):
        done = probebook(*words)
        assert done.returncode == 2 and done.stdout == "", done.stderr
        assert done.stderr.startswith("probebook: ") and done.stderr.count("\n") == 1
    assert not (home / "_build").exists()


def test_a_failed_page_is_exit_status_1(tiny):
    tiny("raise ValueError('no such verb\\nsecond line')")
    done = probebook("run", "1_demo")
    assert done.returncode == 1 and done.stdout == ""
    assert "1_demo/01_first: failed at cell 3 of 3: ValueError: no such verb" in done.stderr


def test_interrupt_ends_the_kernel_and_leaves_no_finished_run(tiny):
    home = tiny("import time", "time.sleep(100)")
    process = subprocess.Popen([sys.executable, "-c", "from probebook.cli import app; app()", "run", "1_demo"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a job may ignore it
    partial = home / "_build/partial/1_demo/01_first"
    deadline = time.monotonic() + 60
    while not any('"running"' in p.read_text() for p in partial.glob("*.ipynb")):
        assert time.monotonic() < deadline
        time.sleep(.2)
    kernels = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(150) == 130
    assert kernels and not psutil.wait_procs(kernels, timeout=30)[1]
    assert not list((home / "_build").glob("runs/*/*/*"))


def test_tables_are_readable(tiny):
    """What `results` prints is what pandas reads back."""
    tiny("import pandas as pd", "record(pd.DataFrame({'x': [0.1 + 0.2, float('nan')]}), 't')")
    probebook("run", "1_demo")
    import io
    table = pd.read_csv(io.StringIO(probebook("results", "1_demo").stdout))
    assert table.value.tolist()[0] == 0.1 + 0.2 and table.value.isna().tolist() == [False, True]
