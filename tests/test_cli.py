"""The command line as a user meets it: what it prints where, and its exit status."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from typer.testing import CliRunner

from conftest import probebook
from probebook.base import ROOT
from probebook_cli import app

PAGE = "1_causal_probing/03"


def cpu_seconds(words, limit: float, **env) -> tuple[float, subprocess.CompletedProcess]:
    """Processor seconds of a command, on a busy machine the least of three, and what it printed."""
    best = float("inf")
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = probebook(*words, env={"PROBEBOOK_HOME": str(ROOT)} | env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if best <= limit:
            break
    return best, done


def refused(*words) -> str:
    """The line in which a command is refused; in this process, which has the libraries."""
    done = CliRunner().invoke(app, [str(word) for word in words], prog_name="probebook")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    return done.stderr


def test_help_takes_half_a_second():
    seconds, done = cpu_seconds(["--help"], 0.5)
    assert done.returncode == 0
    assert "params" in done.stdout
    assert seconds <= 0.5


def test_the_parameters_of_a_page_take_two_seconds():
    seconds, done = cpu_seconds(["params", PAGE], 2)
    assert done.returncode == 0
    assert seconds <= 2


@pytest.mark.parametrize(
    "words",
    [
        ["run", PAGE, "-p", "nosuch=1"],
        ["run", PAGE, "-p", "layer=77"],
        ["results", PAGE, "-p", "n=77"],
        ["sweep", "none.yaml"],
    ],
    ids=" ".join,
)
def test_a_refusal_takes_two_seconds_and_one_line(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seconds, done = cpu_seconds(words, 2)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert seconds <= 2


def test_a_finished_run_is_printed_in_every_form(tiny):
    tiny(
        "import pandas as pd",
        "write_table(pd.DataFrame({'word': ['a'], 'score': [n / 2]}), 'scores', ids=['word'])",
    )
    probebook("run", "1_demo")
    assert probebook("results", "1_demo").stdout == "table,word,metric,value\nscores,a,score,2.5\n"
    listed = probebook("results").stdout
    assert listed.splitlines()[0] == "page,run,profile,changed,seconds,device,finished,commit"
    for form in ("markdown", "latex"):
        assert "2.5" in probebook("results", "1_demo", "--format", form).stdout


def test_an_unknown_model_is_refused_at_once_where_the_hub_cannot_be_reached(tmp_path):
    """One attempt (the hub's own client tries for a minute, a line each time), and one line."""
    nowhere = {
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path),
        "PROBEBOOK_HOME": str(ROOT),
    }
    began = time.monotonic()
    done = probebook("run", PAGE, "-p", "model=no/such", env=nowhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        "probebook: 'no/such' is not a known model: expected a pocket model (pocket-agreement, "
    )
    assert time.monotonic() - began < 20  # five more attempts would sleep 23 s


def test_run_and_results(tiny, tmp_path):
    tiny(
        "import pandas as pd",
        "write_table(pd.DataFrame({'word': ['a, b'], 'score': [n / 2]}), 'scores', ids=['word'])",
    )
    done = probebook(
        "run", "1_demo/01", "-p", "n=7", "-p", "sizes=[3]", "--out", str(tmp_path / "copy.ipynb")
    )
    assert done.returncode == 0
    assert done.stdout.strip() == str(tmp_path / "copy.ipynb")
    shown = probebook("results", "1_demo/01", "-p", "n=7", "-p", "sizes=[3]")
    assert shown.stdout == 'table,word,metric,value\nscores,"a, b",score,3.5\n'
    assert shown.stderr == ""
    again = probebook("results", "1_demo/01")
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    assert "probebook run 1_demo/01_first" in again.stderr


def test_params(tiny):
    tiny()
    lines = probebook("params", "1_demo").stdout.splitlines()
    assert lines[0].split(None, 3) == ["n", "Count", "5", "rows"]
    assert len(lines) == 5


def test_errors_are_one_line(tiny):
    home = tiny()
    for words in (
        ["run", "1_demo", "-p", "m=1"],
        ["run", "2_none"],
        ["run", "1_demo", "--profile", "huge"],
        ["archive", "show", "none"],
        ["models", "train", "none"],
        ["data", "get", "none"],
    ):
        assert refused(*words).startswith("probebook: ")
    assert not (home / "_build").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["models", "train", "pocket-english", "neg"],
        ["compare", "0", "nan"],
        ["results", "--format", "x"],
        ["run"],
        ["nope"],
        ["--nope"],
        ["run", "1_demo", "--nope"],
        ["findings", "--format", "x"],
        ["models", "train", "pocket-english", "--steps", "nan"],
    ],
)
def test_a_wrong_command_line_is_one_line_that_says_where_help_is(tiny, words):
    tiny()
    line = refused(*words)
    assert line.startswith("probebook: ")
    assert words[0] == "compare" or "--help" in line


@pytest.mark.parametrize("odd", ["/dev/zero", "pipe", ".", "sparse"])
@pytest.mark.parametrize(
    "words",
    [
        ["sample-size", "--pilot-b", "README.md", "--pilot-a"],
        ["run", "1_demo", "-f"],
        ["sweep"],
        ["archive", "import"],
        ["lab", "student", "out", "--seed-from"],
    ],
    ids=" ".join,
)
def test_a_file_without_end_is_refused_in_one_line(tiny, tmp_path, odd, words):
    """A device, a pipe that nobody writes to, a folder, a file of a thousand gigabytes and one."""
    tiny()
    path = odd if odd in ("/dev/zero", ".") else tmp_path / odd
    if odd == "pipe":
        os.mkfifo(path)
    if odd == "sparse":
        with open(path, "wb") as file:
            file.truncate((1 << 40) + 1)
    assert str(path) in refused(*words, path)


def test_what_is_no_file_is_not_written_to(tiny, tmp_path):
    """/dev/full itself would be replaced by a file, as root, and success reported. A page is
    refused before it runs."""
    home = tiny()
    os.mkfifo(tmp_path / "pipe")
    for words in (["run", "1_demo", "--out"], ["archive", "export"]):
        for path in ("/dev/full", tmp_path / "pipe"):
            assert f"{path} is not a regular file" in refused(*words, path)
            assert not Path(path).is_file()
        if words[0] == "run":
            assert not (home / "_build" / "runs").exists()
            assert probebook("run", "1_demo").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["run", "1_demo", "--out"],
        ["audit", "distilbert", "texts.csv", "--out"],
        ["yardstick", "mine.py", "--out"],
        ["lab", "student"],
        ["archive", "export"],
    ],
    ids=" ".join,
)
def test_an_address_is_no_folder_of_this_machine(tiny, words):
    """`s3://bucket/report` would be a folder `s3:`, found by nobody."""
    home = tiny()
    says = "s3://bucket/report is an address: give a file or folder of this machine"
    assert says in refused(*words, "s3://bucket/report")
    assert not (home / "s3:").exists()


def test_a_value_apart_from_its_name_is_told_how_it_is_given(tiny):
    """Papermill has `-p NAME VALUE`."""
    tiny()
    for value in ("-2", "-.5"):
        assert "but a value: give -p NAME=VALUE" in refused("run", "1_demo", "-p", "n", value)


def test_a_cache_that_cannot_be_written_is_found_before_a_kernel_starts(tiny, tmp_path):
    home = tiny()
    (tmp_path / "cache").write_text("a file")
    done = probebook("run", "1_demo", env={"PROBEBOOK_CACHE": str(tmp_path / "cache")})
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr
    assert "PROBEBOOK_CACHE" in done.stderr
    assert not (home / "_build" / "runs").exists()


def test_a_failed_page_is_exit_status_1(tiny):
    tiny("raise ValueError('no such verb\\nsecond line')")
    done = probebook("run", "1_demo")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "1_demo/01_first: failed at cell 3 of 3: ValueError: no such verb" in done.stderr


def test_interrupt_ends_the_kernel_and_leaves_no_finished_run(tiny):
    home = tiny("import time", "time.sleep(100)")
    process = subprocess.Popen(
        [sys.executable, "-c", "from probebook_cli import app; app()", "run", "1_demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # a job may ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    partial = home / "_build/partial/1_demo/01_first"
    deadline = time.monotonic() + 60
    while not any('"running"' in p.read_text() for p in partial.glob("*.ipynb")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    kernels = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(150) == 130
    assert kernels
    assert not psutil.wait_procs(kernels, timeout=30)[1]
    assert not list((home / "_build").glob("runs/*/*/*"))


def test_tables_are_readable(tiny):
    """What `results` prints is what pandas reads back."""
    tiny("import pandas as pd", "write_table(pd.DataFrame({'x': [0.1 + 0.2, float('nan')]}), 't')")
    probebook("run", "1_demo")
    import io

    table = pd.read_csv(io.StringIO(probebook("results", "1_demo").stdout))
    assert table.value.tolist()[0] == 0.1 + 0.2
    assert table.value.isna().tolist() == [False, True]
