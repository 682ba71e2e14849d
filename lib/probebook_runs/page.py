"""What a page calls: `start` checks parameters and sets the seed, `write_table` writes a table."""

from __future__ import annotations

import base64
import json
import os
import platform
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from probebook.base import UserError, check_name
from probebook_runs.assertions import Measured, explain_comparison, explain_test
from probebook_runs.model_checks import check_models
from probebook_runs.schema import coerce, types_in

if TYPE_CHECKING:  # the command line checks names without it
    import pandas as pd

# outputs of this prefix are stored in a notebook and never shown
HIDDEN = "application/papermill.record/"
ENDED = "probebook:ended"  # holds why a page ended early
LARGEST_FILE = 1 << 25  # bytes of a file that a page keeps
CONTEXT = 1 << 29  # bytes of a GPU that a process takes before its first tensor, about
PLAIN = (bool, int, float, str, list, dict, type(None))


def start(page: dict) -> None:
    """Make a page ready to run: call `start(globals())` right after the parameters cell. It shows
    nothing.

    It checks the parameters (an undeclared plain value is an unknown parameter) and writes them
    back in their declared types. It seeds Python, NumPy and torch with `seed` (0 if the page has
    none), sets the style of figures, and escapes text in tables. UserError: the same line that
    `probebook run` prints before a kernel starts.
    """
    from IPython import get_ipython

    cells = page["In"] if "In" in page else [Path(page["__file__"]).read_text(encoding="utf-8")]
    types = {name: type_ for name, type_ in types_in(cells).items() if name in page}
    given = {
        name: value
        for name, value in page.items()
        if name in types
        or (isinstance(value, PLAIN) and not name.startswith("_") and name not in ("In", "Out"))
    }
    if "_started" in page:  # the cell is run again: other names are the page's own by now
        given = {name: page[name] for name in types}
    page.update(coerce(types, given))
    check_models(types, page)
    page["_started"] = True
    page.update(_explain_comparison=explain_comparison, _explain_test=explain_test)
    shell = get_ipython()
    if shell and not any(isinstance(one, Measured) for one in shell.ast_transformers):
        shell.ast_transformers.append(Measured())  # what is asserted says by how much it fails

    os.environ.update(
        TQDM_DISABLE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1"
    )
    import numpy as np
    import torch

    from probebook.figures import style
    from probebook.tables import escape

    if "transformers" in sys.modules:
        sys.modules["transformers"].logging.set_verbosity_error()
    seed = page.get("seed", 0)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    style()
    escape()
    versions = {"python": platform.python_version()} | {
        p: version(p) for p in ("torch", "transformers", "numpy")
    }
    about = {"seed": seed, "device": device(), "threads": threads(), "versions": versions}
    _keep_environment(about)


def _keep_environment(about: dict) -> None:
    """Store what the page runs on; and again after each cell with which it has taken more of a
    GPU's memory, since a record says how much it took at most."""
    from IPython import get_ipython

    def store(*_: object) -> None:
        if (taken := device_memory()) > about.get("device_memory", -1):
            again = "device_memory" in about
            about["device_memory"] = taken
            keep("probebook:environment", "application/json", json.dumps(about), again)

    store()
    if shell := get_ipython():
        shell.events.register("post_run_cell", store)


def end_page_if(reason: str) -> None:
    """Show why the page ends here, and leave out its other cells: what they do would mean nothing.
    Without a reason, go on. The run is finished all the same, and says so."""
    from IPython import get_ipython
    from IPython.display import Markdown, display

    if not reason:
        return
    display(Markdown(f"**The page ends here: {reason}.** The cells below are left out."))
    keep(ENDED, "text/plain", reason)

    def skip(lines: list[str]) -> list[str]:
        if any("start(globals())" in line for line in lines):  # it is run again
            shell.input_transformers_cleanup.remove(skip)
            return lines
        return []

    shell = get_ipython()
    shell.input_transformers_cleanup.append(skip)


def write_table(frame: pd.DataFrame, name: str, ids: Sequence[str] = ()) -> None:
    """Write a table of results into the page's notebook. Nothing is shown.

    One item per row; the columns in `ids` name it, every other column is a metric. `probebook
    results PAGE` prints all tables of a run as CSV: table, ids, metric, value. UserError: an id
    that is missing or has a reserved name, a metric that is no number, a name that cannot name a
    file. A page may use each name once.
    """
    if taken := {"table", "metric", "value"} & set(ids):
        raise UserError(
            f"table {name!r}: {min(taken)!r} cannot be an id, results have a column of that name"
        )
    missing = [column for column in ids if column not in frame]
    if missing:
        raise UserError(
            f"table {name!r}: no column {missing[0]!r}; the table has {', '.join(map(str, frame))}"
        )
    metrics = frame.drop(columns=list(ids))
    texts = list(metrics.columns.difference(metrics.select_dtypes("number").columns))
    if texts:
        raise UserError(
            f"table {name!r}: column {texts[0]!r} holds no numbers; name it in ids=[...] or drop it"
        )
    long = frame.melt(id_vars=list(ids), var_name="metric", value_name="value")
    keep(f"probebook:record:{check_name(name)}", "text/csv", long.to_csv(index=False))


def write_file(name: str, save: Callable[[Path], object]) -> None:
    """Put a small file into the page's notebook, for what reads it there. Nothing is shown.

    `save(path)` writes the file. UserError: it has more than 32 MB, or a name that is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, check_name(name))
        save(path)
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(
                f"{name} has {path.stat().st_size / 1e6:.0f} MB: a page keeps files "
                f"of at most {LARGEST_FILE / 1e6:.0f}"
            )
        text = base64.b64encode(path.read_bytes()).decode()
    keep(f"probebook:file:{name}", "application/base64", text)


def in_text(**numbers) -> None:
    """Let the page's text quote numbers and words by the role `glue`. Nothing is shown.

    Each becomes an output of that name and holds what Python would print, as the role expects."""
    for name, value in numbers.items():
        keep(name, "text/plain", repr(value.item() if hasattr(value, "item") else value))


def keep(name: str, mime: str, text: str, again: bool | None = None) -> None:
    """Store a text in the page's notebook without showing it. A page may use each `name` once, or
    `again` if it was False at first: the new text then takes the place of the old one."""
    from IPython.display import display

    display(
        {HIDDEN + mime: text},
        raw=True,
        metadata={"scrapbook": {"name": name, "mime_prefix": HIDDEN}},
        display_id=None if again is None else name,
        update=bool(again),
    )


def device() -> str:
    """The GPU that models are loaded on, if there is one; else the processor."""
    from probebook.devices import choose_device, gpu_name

    chosen = choose_device()
    return processor() if chosen.type == "cpu" else gpu_name(chosen)


def device_memory() -> int:
    """Bytes of CUDA's GPUs that this process has taken at most, its context included; 0: none."""
    import torch

    if not torch.cuda.is_initialized():
        return 0
    return CONTEXT + sum(map(torch.cuda.max_memory_reserved, range(torch.cuda.device_count())))


def processor() -> str:
    """Name of the processor as Linux gives it, else its architecture, and the threads in use."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.machine()
    return f"{name}, {threads()} thread{'s' * (threads() > 1)}"


def threads() -> int:
    """Threads of one operation of torch."""
    import torch

    return torch.get_num_threads()
