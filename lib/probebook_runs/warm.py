"""Warm kernels: one process imports the libraries once, and each kernel is a fork of it.

The process (`python -m probebook_runs.warm MODULE …`) reads one line of JSON per kernel (command,
environment, folder), forks, and answers with the new process's number. It ends with its input; its
kernels then see that their parent is gone. It computes nothing itself, so kernels share no threads,
seeds or caches.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Collection, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

import psutil
from jupyter_client.provisioning import LocalProvisioner

LIBRARIES = (
    "ipykernel.debugger",
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "ipywidgets",
    "matplotlib.pyplot",
    "nbformat",
    "pandas.io.formats.style",
    "seaborn",
    "scipy.stats",
    "sklearn.linear_model",
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.modernbert.modeling_modernbert",  # the pocket models' own
    "transformers.models.llama.modeling_llama",
)
FEW = 2  # kernels that start by themselves in the time that the server takes to start
# what a kernel sets before a page imports matplotlib
INLINE = "module://matplotlib_inline.backend_inline"


class ForkServer:
    """Forks kernels from a process that has imported `modules` and LIBRARIES. Several threads may
    use it.

    The process starts with the first kernel, and again if it has died. A context manager ends it.
    """

    def __init__(self, modules: Iterable[str]):
        self.modules = sorted(modules)
        self.process: Any = None  # the server's Popen
        self.environment: dict[str, str] | None = None  # its own; None: this process's
        self.lock, self.asked = threading.Lock(), 0

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_) -> None:
        if self.process:
            with suppress(OSError):
                self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()

    def if_worth(self, kernels: int = 1) -> ForkServer | None:
        """The server, or None as long as FEW kernels or fewer were asked for, these included:
        starting it would take longer than starting them."""
        with self.lock:
            self.asked += kernels
            return self if self.asked > FEW else None

    def start(self) -> None:
        """Begin to import, if no process does or has; `fork` waits until it is done."""
        if not self.process or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, *LIBRARIES, *self.modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env=self.environment,
            )

    def fork(self, command: list[str], env: dict[str, str], folder: str) -> Forked:
        """A process that runs `command` (`python -m MODULE …`). RuntimeError: the server has
        died."""
        answer = ""
        with self.lock, suppress(OSError):
            self.start()
            self.process.stdin.write(json.dumps([command, env, folder]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that forks kernels has ended")
        return Forked(int(answer))


def fork_server(modules: Collection[str]) -> ForkServer | None:
    """A server, or None where it would be unsafe or slower.

    Only Linux can fork a process with these libraries safely. Pages that import nothing of the
    library start a kernel faster on their own.
    """
    return ForkServer(modules) if modules and sys.platform == "linux" else None


class Forked:
    """The part of `Popen` that `LocalProvisioner` needs, for a server's fork. Its exit status is
    unknown."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int):
        self.pid, self.process = pid, None
        with suppress(psutil.NoSuchProcess):
            self.process = psutil.Process(pid)

    def poll(self) -> int | None:
        """None while it runs, then 0."""
        return None if self.process and self.process.is_running() else 0

    def wait(self) -> int:
        if self.process:
            self.process.wait()
        return 0

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class WarmProvisioner(LocalProvisioner):
    """Starts a manager's kernel as a fork of `server`."""

    server: ForkServer

    async def launch_kernel(self, cmd, **given):
        self.process = self.server.fork(cmd, given["env"], str(given.get("cwd") or os.getcwd()))
        self.pid = self.pgid = self.process.pid  # it leads a session of its own
        self.cwd = given.get("cwd", os.getcwd())
        return self.connection_info


def _serve(modules: list[str]) -> tuple[list[str], dict[str, str], str] | None:
    """Fork at each request. The fork returns what it is to become; the server returns None at the
    end."""
    os.environ["MPLBACKEND"] = INLINE
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel reads it when it is imported
    # A GPU is lost to the forks of a process that has started CUDA. No import here does so; where a
    # library asks whether there is a GPU, this makes torch look without starting it.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    for name in modules:
        with suppress(ImportError):  # the page that wants it will say so
            import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no kernel waits to be reaped
    gc.collect()
    gc.freeze()  # or a kernel's first collection copies all pages
    gc.set_threshold(100_000)  # what a page makes are weights and states: no garbage
    for line in sys.stdin:
        # the threads that Python warns of are native, and their libraries make them anew in a fork
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            pid = os.fork()
        if not pid:
            return json.loads(line)
        print(pid, flush=True)
    return None


def _become(command: list[str], env: dict[str, str], folder: str) -> None:
    """Continue as the process that `command` would have started."""
    import numpy as np

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # the server's output is its line to the runner
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None  # the folder is another
    np.random.seed()
    sys.argv = command[2:]
    sys.path[0] = folder
    with suppress(SystemExit):
        runpy.run_module(command[2], run_name="__main__", alter_sys=True)
    atexit._run_exitfuncs()
    os._exit(0)  # or all libraries are taken down one by one


if __name__ == "__main__":
    if asked := _serve(sys.argv[1:]):
        _become(*asked)
