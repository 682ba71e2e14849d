"""How many runs go on side by side: one a core, as far as the memory of the machine and of its GPU
has room.

A page uses a GPU for a few per cent of its time, so one page at a time would leave it idle.
"""

from __future__ import annotations

from collections.abc import Sequence

from probebook.base import device_name
from probebook_runs.records import of_page
from probebook_runs.store import Run

# Bytes of a GPU that a page takes before it was measured there. The pages' own models have at most
# 30 M parameters (.1 GB), to which come CUDA's own .5 GB, batches and states. The paper's profile
# trains models of 110 M: weights, gradients and Adam's moments take 1.8 GB, activations as much
# again and more.
USUAL = {"smoke": 2 << 30, "pocket": 2 << 30, "real": 2 << 30, "paper": 8 << 30}
# Bytes of the machine's memory that a page takes: 1.3 GB at most in the pocket profile, of which
# .5 are libraries that forked kernels share; 2.9 with Gemma 3 270M; the paper's is an estimate.
RESIDENT = {"smoke": 5 << 28, "pocket": 5 << 28, "real": 4 << 30, "paper": 8 << 30}


def side_by_side(
    todo: int, cores: int, asked: int | None = None, each: int = 0, free: Sequence[int] = ()
) -> int:
    """Choose how many of `todo` runs go on at a time: `asked`, else as many as there are cores and
    as have room on the GPUs, at least one.

    `each`: bytes that a run takes there. `free`: free bytes of each GPU, among which runs are dealt
    in turn; none where they run on the processor."""
    room = len(free) * (min(free) // each) if free else cores
    return max(1, min(todo, asked or min(cores, room)))


def choose_jobs(runs: Sequence[Run], asked: int | None = None, gpus: int = 0) -> int:
    """Choose how many of these runs go on at a time on this machine: `side_by_side`.

    `gpus`: the number of those on which they are spread; 0: all use the device of
    `choose_device`. Each run counts as the largest of them. torch is imported only where it is
    asked, which takes seconds."""
    if asked or len(runs) < 2:
        return side_by_side(len(runs), cores(), asked)
    pages = {(run.page.name, run.profile) for run in runs}
    at_once = min(cores(), resident_free() // max(RESIDENT[profile] for _, profile in pages))
    if not (free := free_memory(gpus)):
        return side_by_side(len(runs), at_once)
    each = max(memory_of(*page) for page in pages)
    return side_by_side(len(runs), at_once, None, each, free)


def resident_free() -> int:
    """Free bytes of the machine's memory; in a container, of its share at most."""
    import psutil
    from distributed.system import MEMORY_LIMIT

    return min(psutil.virtual_memory().available, MEMORY_LIMIT)


def memory_of(page: str, profile: str) -> int:
    """Bytes of a GPU that a page's runs in a profile took at most, else `USUAL`."""
    taken = max((record.device_memory for record in of_page(page, profile)), default=0)
    return taken or USUAL[profile]


def free_memory(gpus: int = 0) -> list[int]:
    """Free bytes of the first `gpus` GPUs (0: of the device of `choose_device`), [] where it is the
    processor or shares its memory. Asking takes CUDA's own part of each for this process."""
    if device_name() == "cpu":
        return []
    from probebook import devices

    asked = map(devices.choose_device, [f"cuda:{i}" for i in range(gpus)] or [""])
    return [devices.free_memory(one) for one in asked if one.type not in ("cpu", "mps")]


def cores() -> int:
    """Cores that this process may use; in a container, the container's share."""
    from joblib import cpu_count

    return cpu_count()
