"""Where a submission runs: a process of its own, and, where bubblewrap works, one that sees little and reaches nobody.

In it the machine is read-only; other submissions, home folders and temporary files are not there, nor is a network,
nor any process but its own. Without bubblewrap it has its own process, folder and limits, and the rights of whoever
grades."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from probebook.base import ROOT, UserError, cache_path

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "PROBEBOOK_HOME", "PROBEBOOK_DATA", "PROBEBOOK_PROFILE", "PYTHONPATH",
             "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "HF_HUB_OFFLINE",
             "TQDM_DISABLE", "TRANSFORMERS_VERBOSITY")


def submissions(folder: Path) -> list[Path]:
    """The notebooks of a folder, at any depth. UserError: there are none."""
    paths = sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    if not paths:
        raise UserError(f"{folder}: no notebooks (*.ipynb) in it: give the folder that the submissions lie in")
    return paths


def command(words: list[str], work: Path, hidden: Path) -> list[str]:
    """The command line that runs `words` with `work` writable and, where bubblewrap works, `hidden` out of sight."""
    if missing():
        return words
    seen = [ROOT, Path(sys.prefix), Path(sys.base_prefix), cache_path(), os.environ.get("PROBEBOOK_DATA"),
            os.environ.get("PROBEBOOK_HOME"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    seen = [str(Path(path).resolve()) for path in seen if path and Path(path).exists()]
    covered = [path for path in ("/home", "/root", "/run", "/tmp", "/var/tmp", "/dev/shm") if Path(path).exists()]
    binds = [word for path in seen if path != "/usr" for word in ("--ro-bind", path, path)]
    return ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/", "/",
            "--dev", "/dev", "--proc", "/proc", *(word for path in covered for word in ("--tmpfs", path)), *binds,
            "--tmpfs", str(hidden), "--bind", str(work), str(work), "--chdir", str(work), *words]


def environment(work: Path) -> dict[str, str]:
    """What a submission may read of the environment: no keys; its home and temporary files are in its folder."""
    own = dict.fromkeys(("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR"), str(work))
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | own | {
        "PROBEBOOK_CACHE": str(cache_path())}


@cache
def missing() -> str:
    """Why submissions cannot be closed in; empty if they can."""
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    words = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"bubblewrap does not work here: {tried.stderr.strip()[:120]}"
