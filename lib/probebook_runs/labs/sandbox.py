"""Where a submission runs: in a process of its own and, with bubblewrap, in a sandbox.

In the sandbox the machine is read-only. There are no other submissions, home folders or temporary
files, no network, and no processes but its own. Without bubblewrap a submission has a process, a
folder and limits of its own, and all the rights of the person who grades."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from probebook.base import ROOT, cache_path

PASSED_ON = (
    "PATH LANG LC_ALL TZ PYTHONPATH PYTHONHASHSEED PROBEBOOK_HOME PROBEBOOK_DATA PROBEBOOK_PROFILE "
    "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS HF_HUB_OFFLINE TQDM_DISABLE "
    "TRANSFORMERS_VERBOSITY"
).split()
HIDDEN = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/dev/shm")
BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]


def command(words: list[str], work: Path, hidden: Path) -> list[str]:
    """The command line that runs `words` in the sandbox, where `work` alone is writable.

    The folder or file `hidden` cannot be seen in it. Without bubblewrap: `words` as they are."""
    if missing():
        return words
    line = [*BWRAP, "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in HIDDEN:
        if Path(path).exists():
            line += ["--tmpfs", path]
    needed = [
        ROOT,
        Path(sys.prefix),
        Path(sys.base_prefix),
        cache_path(),
        os.environ.get("PROBEBOOK_DATA"),
        os.environ.get("PROBEBOOK_HOME"),
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
    ]
    for path in [str(Path(path).resolve()) for path in needed if path and Path(path).exists()]:
        if path != "/usr":
            line += ["--ro-bind", path, path]
    line += ["--tmpfs"] if hidden.is_dir() else ["--ro-bind", os.devnull]
    line += [str(hidden), "--bind", str(work), str(work), "--chdir", str(work)]
    return line + words


def environment(work: Path) -> dict[str, str]:
    """The environment of a submission: no keys; its home and temporary folders are `work`."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    folders = dict.fromkeys(("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR"), str(work))
    return passed_on | folders | {"PROBEBOOK_CACHE": str(cache_path())}


@cache
def missing() -> str:
    """Why there is no sandbox here; empty if there is one."""
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    done = subprocess.run([*BWRAP, "true"], capture_output=True, text=True, check=False)
    return f"bubblewrap does not work here: {done.stderr.strip()[:120]}" if done.returncode else ""
