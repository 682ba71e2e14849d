"""What the book does on a machine with a GPU: one script of at most eight minutes, one table.

    python benchmarks/gpu.py [--part pages methods embedding speed size] [--small] [--write]

- pages: all pages of the book side by side; those that fail, and the seconds
- methods: every probe, erasure, flip and attack, fitted and applied on the GPU and on the CPU:
  the largest difference, and the seconds of both
- embedding: tokens per second of `embed` in bfloat16 and float32, of sentence-transformers (if it
  is installed) and of a plain loop, on a network of bert-base's size with random weights
- speed: the paper's 36 perceptrons on 100,000 × 768 states (one epoch of eight), INLP of rank 40,
  R-LACE, PGD, and AutoAttack with 5,000 queries on 10,000 states
- size: from which number of values on the GPU is faster than the CPU (`devices.WORTH`)

`--small`: tiny sizes, to try the script, also without a GPU. `--write`: the machine's rows of
data/throughput.csv are replaced (`throughput.py`).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import torch
from embedding import peer, plain
from throughput import measure, network, write

from probebook.devices import WORTH, choose_device
from probebook.interventions import (
    FGSM,
    INLP,
    LEACE,
    PGD,
    QLEACE,
    RLACE,
    AffineSteering,
    AlterRep,
    AutoAttack,
    MeanShift,
    SparseAutoencoder,
    SparseFeatures,
)
from probebook.models import embed
from probebook.probes import LinearProbe, MLPProbe
from probebook.probes.discriminant import LinearDiscriminant
from probebook.probes.mlp import FittedMLP

HERE, THERE = torch.device("cpu"), choose_device()
Row = dict[str, object]


def wait() -> None:
    """Wait until a GPU has done what it was given."""
    module = torch.get_device_module(THERE.type)
    if THERE.type != "cpu" and hasattr(module, "synchronize"):
        module.synchronize()


@contextmanager
def only(device: torch.device) -> Iterator[None]:
    """Let large states stay on `device`, which is the CPU too."""
    os.environ["PROBEBOOK_DEVICE"] = str(device)
    yield
    os.environ["PROBEBOOK_DEVICE"] = str(THERE)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work()` gives, and its seconds."""
    wait()
    began = time.perf_counter()
    found = work()
    wait()
    return found, time.perf_counter() - began


def seconds(work: Callable[[], object]) -> float:
    """Seconds of `work()`, after a first time."""
    work()
    return timed(work)[1]


def states(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    """States [n, d] in which a label [n] can be read, but not always."""
    draws = torch.Generator().manual_seed(0)
    z = torch.randint(2, (n,), generator=draws)
    return torch.randn(n, d, generator=draws) + 0.3 * z[:, None] * torch.ones(d).sqrt(), z


def pages(small: bool) -> Iterator[Row]:
    """All pages, as `probebook build` runs them."""
    from probebook_runs.execute import run_all, server_of
    from probebook_runs.pages import pages as all_pages
    from probebook_runs.store import plan

    chosen = [page for page in all_pages() if not small or page.name.startswith("3_data")]
    runs = [plan(page, "smoke" if small else "pocket") for page in chosen]
    began = time.perf_counter()
    with server_of(chosen) as server:
        failed = run_all(runs, force=True, server=server)
    names = ", ".join(run.page.name for run in failed) or "none fails"
    yield {
        "what": f"{len(runs)} pages side by side",
        "GPU, s": time.perf_counter() - began,
        "note": names,
    }


def methods(small: bool) -> Iterator[Row]:
    """Fits and edits on both devices, from the same states."""
    h, z = states(300 if small else 4_000, 16 if small else 768)
    steps = 5 if small else 300
    sparse = SparseAutoencoder(width=2 * h.shape[1], steps=steps)
    mlp = MLPProbe(width=256, epochs=1).fit(h, z)
    ways: dict[str, Callable] = {
        "linear probe": lambda h, z: LinearProbe().fit(h, z)(h),
        "discriminant": lambda h, z: LinearDiscriminant().fit(h, z)(h),
        "perceptron": lambda h, z: MLPProbe(width=256, epochs=1, batch=1024).fit(h, z)(h),
        "INLP, rank 4": lambda h, z: INLP(4).fit(h, z)(h),
        "R-LACE": lambda h, z: RLACE(steps=steps).fit(h, z)(h),
        "LEACE": lambda h, z: LEACE().fit(h, z)(h),
        "QLEACE": lambda h, z: QLEACE().fit(h, z)(h, z),
        "AlterRep": lambda h, z: AlterRep(4).fit(h, z)(h, to=1 - z),
        "MeanShift": lambda h, z: MeanShift().fit(h, z)(h, to=1 - z),
        "AffineSteering": lambda h, z: AffineSteering().fit(h, z)(h, to=1 - z),
        "SparseFeatures": lambda h, z: SparseFeatures(autoencoder=sparse).fit(h, z)(h, to=1 - z),
        "FGSM": lambda h, z: FGSM(mlp)(h, to=1 - z),
        "PGD": lambda h, z: PGD(mlp)(h, to=1 - z),
        "AutoAttack": lambda h, z: AutoAttack(mlp, steps=20, queries=20)(h, to=1 - z),
    }
    few, labels = h[:, :16].to(THERE), z.to(THERE)
    for fit in (LinearProbe().fit, QLEACE().fit):  # a first call loads libraries
        fit(few, labels)
    for name, way in ways.items():
        found, took = {}, {}
        for device in (HERE, THERE):
            given = h.to(device), z.to(device)
            with only(device):
                edited, took[device] = timed(lambda given=given, way=way: way(*given))
            found[device] = edited.detach().cpu()
        apart = (found[HERE] - found[THERE]).abs() / found[HERE].abs().clamp_min(1)
        yield {
            "what": f"{name}, {len(h):,} × {h.shape[1]}",
            "GPU, s": took[THERE],
            "CPU, s": took[HERE],
            "note": f"differs by {apart.max():.0e}, in {(apart > 1e-5).double().mean():.2%} of "
            "the values by more than 1e-5",
        }


def embedding(small: bool) -> Iterator[Row]:
    """`embed` against a plain loop and sentence-transformers, at equal vectors."""
    words = "the old man near the houses knew that they were a child and went on".split()
    texts = [
        " ".join(words[(i * (k + 1) + k) % len(words)] for k in range(25 + i % 40))
        for i in range(8 if small else 20_000)
    ]
    for dtype in (torch.bfloat16, torch.float32):
        model = network(dtype)
        tokens = sum(map(len, model.tokenizer(texts)["input_ids"]))
        ways: dict[str, Callable] = {
            "embed": lambda m=model: embed(texts, m, -1, "[CLS]", cache=False),
            "a plain loop": lambda m=model: plain(texts, m),
        }
        try:
            encode = peer(model)
            ways["sentence-transformers"] = lambda encode=encode: encode(texts)
        except ImportError:
            pass
        own = ways["embed"]()
        for name, way in ways.items():
            found, took = timed(way)
            apart = float((found - own).abs().max())
            yield {
                "what": f"{name}, {str(dtype)[6:]}, {len(texts):,} texts",
                "GPU, s": took,
                "note": f"{tokens / took:,.0f} tokens per second, differs by {apart:.0e}",
            }


def speed(small: bool) -> Iterator[Row]:
    """The heavy parts of the paper's profile, on the GPU alone."""
    n, few, d = (600, 100, 16) if small else (100_000, 10_000, 768)
    h, z = (x.to(THERE) for x in states(n, d))
    grid = MLPProbe.grid(epochs=1)
    queries, steps = (9, 9) if small else (5_000, 1_000)
    rows = slice(0, few)
    probe = MLPProbe(width=1024, epochs=1, batch=1024).fit(h, z)
    assert isinstance(probe, FittedMLP)
    ways: dict[str, Callable] = {
        f"36 perceptrons, one epoch, {n:,} × {d}": lambda: grid.fit(h, z),
        f"INLP, rank 40, {n:,} × {d}": lambda: INLP(min(40, d)).fit(h, z),
        f"R-LACE, {steps:,} steps, {n:,} × {d}": lambda: RLACE(steps=steps).fit(h, z),
        f"PGD, 40 steps, {few:,} × {d}": lambda: PGD(probe)(h[rows], to=1 - z[rows]),
        f"AutoAttack, {queries:,} queries, {few:,} × {d}": lambda: AutoAttack(
            probe, 0.05, queries=queries
        )(h[rows], to=1 - z[rows]),
    }
    for name, way in ways.items():
        yield {"what": name, "GPU, s": timed(way)[1]}


def size(small: bool) -> Iterator[Row]:
    """Fits and attacks at growing sizes on both devices."""
    for n in (200, 400) if small else (1_000, 4_000, 16_000, 32_000):
        h, z = states(n, 16 if small else 256)
        probe = MLPProbe(width=256, epochs=1).fit(h, z)
        ways: dict[str, Callable] = {
            "linear probe": lambda h, z: LinearProbe().fit(h, z),
            "perceptrons": lambda h, z: MLPProbe.grid((1, 2), (64, 256), epochs=1).fit(h, z),
            "PGD": lambda h, z, p=probe: PGD(p)(h, to=1 - z),
        }
        for name, way in ways.items():
            took = {}
            for device in (HERE, THERE):
                given = h.to(device), z.to(device)
                with only(device):
                    took[device] = seconds(lambda way=way, given=given: way(*given))
            yield {
                "what": f"{name}, {h.numel():,} values",
                "GPU, s": took[THERE],
                "CPU, s": took[HERE],
                "note": f"WORTH is {WORTH:,}",
            }


PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "embedding": embedding,
    "methods": methods,
    "speed": speed,
    "pages": pages,
    "size": size,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    parser.add_argument("--write", action="store_true", help="rows of data/throughput.csv")
    asked = parser.parse_args()
    rows: list[Row] = []
    for name in asked.part:
        for row in PARTS[name](asked.small):
            rows.append({"part": name, **row})
            print(f"{name}: {row}", flush=True)  # what a killed run leaves
    if asked.write:
        write(measure(2.0))
    table = pd.DataFrame(rows, columns=["part", "what", "GPU, s", "CPU, s", "note"])
    print(f"\nGPU: {THERE}, torch {torch.__version__}")
    print(table.to_string(index=False, float_format="{:.3g}".format, na_rep=""))


if __name__ == "__main__":
    main()
