"""Run a submission's cells to their end: python -m probebook_runs.labs.attempt JOB OUT.

JOB is JSON: the cells in their order, and in place of each check the names that it asks for and the
calls of the student's functions that it makes. Nothing is checked here. OUT gets a line of plain
data for each check, as soon as it is reached, so that it counts even if the submission is then
ended; `grade` takes these values and nothing else from this process."""

from __future__ import annotations

import json
import os
import random
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from probebook_runs.labs.values import decode, encode

LARGEST_FILE = 1 << 30  # bytes
STUDENTS = {"exercise", "added"}  # tags of cells that a student wrote


def main(job: str, out: str) -> None:
    """Execute the cells and write what the checks ask for to `out`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet()
    run, names = shell()
    raised = ""
    for cell in json.loads(Path(job).read_text(encoding="utf-8")):
        if "check" in cell:
            line = json.dumps(_answers(cell, names, raised))
            with open(out, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            continue
        error = run(cell["source"], cell["student"])
        if cell["exercise"]:
            raised = _describe(error) if error else ""


def quiet() -> None:
    """Send what is printed nowhere, what libraries print themselves too."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)


def shell() -> tuple[Any, dict[str, Any]]:
    """A function that runs a cell as a kernel does and returns its error, and the cells' names.

    Where a cell is a student's, what it draws does not change what the page draws after it."""
    os.environ["MPLBACKEND"] = "agg"
    if "matplotlib" in sys.modules:  # a fork has it already, and with it another choice
        sys.modules["matplotlib"].use("agg")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    keep_nothing = {"HistoryManager": {"enabled": False}, "InteractiveShell": {"cache_size": 0}}
    page_shell = InteractiveShell(config=Config(keep_nothing))

    def run(source: str, student: bool = False) -> BaseException | None:
        with _random_state_restored() if student else nullcontext():
            ran = page_shell.run_cell(source, store_history=True)  # where `start` reads the types
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        return ran.error_before_exec or ran.error_in_exec

    return run, page_shell.user_ns


@contextmanager
def _random_state_restored() -> Iterator[None]:
    """Keep what Python, NumPy and torch draw meanwhile from changing what they draw later."""
    import numpy as np

    torch = sys.modules.get("torch")
    python_state, numpy_state = random.getstate(), np.random.get_state()
    torch_state = torch and torch.get_rng_state()
    yield
    random.setstate(python_state)
    np.random.set_state(numpy_state)
    if torch:
        torch.set_rng_state(torch_state)


def _answers(check: dict, names: dict[str, Any], raised: str) -> dict:
    """What a check asks for: values by name, and what each call gives, or the error it raises."""
    results: list[dict] = []
    for name, arguments in check["calls"]:
        try:
            results.append({"gives": _plain(names[name](*decode(arguments, records=True)))})
        except BaseException as e:  # SystemExit too is a function's answer
            results.append({"raises": _describe(e)})
    values = {name: _plain(names[name]) for name in check["asked"] if name in names}
    return {"check": check["check"], "raised": raised, "values": values, "results": results}


def _plain(value: Any) -> Any:
    try:
        return encode(value)
    except Exception:  # a list that holds itself, an object that will not be read
        return {"is": "other", "of": type(value).__name__}


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


if __name__ == "__main__":
    main(*sys.argv[1:])
