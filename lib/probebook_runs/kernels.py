"""Kernels of pages: they talk through files instead of ports, and end when they exceed a limit."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from probebook.base import UserError

if TYPE_CHECKING:
    from probebook_runs.warm import ForkServer

UNITS = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}  # seconds
TIME = re.compile(rf"(?P<number>-?\d*\.?\d+)\s*(?P<unit>{'|'.join(UNITS)})")
EVERY = 0.2  # seconds between two looks at a kernel's memory


@dataclass(frozen=True)
class Limits:
    """What a page may take: `seconds` of wall time, bytes of `memory` of its kernel and all its
    children. None: no limit."""

    seconds: float | None = None
    memory: int | None = None


def parse_limits(seconds: str | None = None, memory: str | None = None) -> Limits:
    """Limits from texts such as "90", "30min", "2h" and "800MB", "6GiB". UserError: no such time or
    size."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    time_limit, memory_limit = None, None
    if seconds:
        match = TIME.fullmatch(seconds.strip())
        if not match:
            raise UserError(
                f"time limit {seconds!r}: should be seconds, or a time such as 30min or 2h"
            )
        time_limit = float(match["number"]) * UNITS[match["unit"]]
    if memory:
        try:
            memory_limit = int(TypeAdapter(ByteSize).validate_python(memory))
        except ValidationError:
            raise UserError(
                f"memory limit {memory!r}: should be a size such as 800MB or 6GiB"
            ) from None
    if any(limit is not None and not limit > 0 for limit in (time_limit, memory_limit)):
        raise UserError("a limit of time or memory must be positive")
    return Limits(time_limit, memory_limit)


@contextmanager
def watch_kernel(
    limits: Limits, server: ForkServer | None = None
) -> Iterator[tuple[type, Callable[[], str]]]:
    """A class of kernel managers for one page, and a function that says why its kernel was ended.

    The function returns an empty text if the kernel was not ended. With a server the kernel is its
    fork. Kernels that start at the same time would take each other's ports, so their addresses are
    files in a folder of their own. It is for their temporary files as well, and goes with them.
    """
    from jupyter_client import AsyncKernelManager

    class Watched(AsyncKernelManager):
        async def start_kernel(self, **given):
            self.transport, self.ip = "ipc", f"{folder}/kernel"
            self.connection_file = f"{folder}/kernel.json"
            given["env"] = given.get("env", os.environ) | {"TMPDIR": folder}
            if server:
                from probebook_runs.warm import WarmProvisioner

                self.provisioner = WarmProvisioner(
                    kernel_id=self.kernel_id, parent=self, kernel_spec=self.kernel_spec
                )
                self.provisioner.server = server
            await super().start_kernel(**given)
            processes.append(psutil.Process(self.provisioner.pid))

    with (
        tempfile.TemporaryDirectory(prefix="probebook-", ignore_cleanup_errors=True) as folder,
        enforce_limits(limits) as (processes, reason),
    ):
        yield Watched, reason


@contextmanager
def enforce_limits(limits: Limits) -> Iterator[tuple[list[psutil.Process], Callable[[], str]]]:
    """A list of processes to watch, and a function that says why they were ended.

    Processes in the list are ended, with their children, as soon as they exceed a limit. The
    function returns an empty text if they were not.
    """
    reasons: list[str] = []
    processes: list[psutil.Process] = []
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(limits, processes, reasons, over), daemon=True)
    watch.start()
    try:
        yield processes, lambda: "".join(reasons[:1])
    finally:
        over.set()
        watch.join()


def _watch(limits, processes, reasons, over) -> None:
    """Ends the processes once they exceed a limit; returns when that happens or `over` is set."""
    began = time.monotonic()
    while not over.wait(EVERY):
        if limits.seconds and time.monotonic() - began > limits.seconds:
            reasons.append(f"ended after {limits.seconds:g} s, its time limit")
        elif limits.memory and (used := sum(map(_memory, processes))) > limits.memory:
            reasons.append(
                f"ended at {used / 1e9:.2f} GB of memory, its limit is {limits.memory / 1e9:.2f} GB"
            )
        if reasons and processes:
            kill(processes)
            return


def _memory(process: psutil.Process) -> int:
    """Resident bytes of a process and its children; 0 for those that have ended."""
    used = 0
    with suppress(psutil.NoSuchProcess):
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += one.memory_info().rss
    return used


def kill(processes: list[psutil.Process]) -> None:
    """End processes and their children at once."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
