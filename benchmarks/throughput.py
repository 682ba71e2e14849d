"""Operations per second of this machine for the kinds of work in the cost of a sweep.

    .venv/bin/python benchmarks/throughput.py [--seconds 10]

Networks are of bert-base's size with random weights: `embed` on texts of 30 tokens (in bfloat16 on
a GPU), and steps of AdamW on 32 such texts. Probes are chapter 1's grid of perceptrons, attacks its
PGD, the search is chapter 3's. All run on the device that `PROBEBOOK_DEVICE` names, else on a GPU
if there is one. Operations are counted as in `probebook_runs.cost`. The machine's rows in
data/throughput.csv are replaced; OMP_NUM_THREADS sets the threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import date

import pandas as pd
import torch
import transformers as hf

from probebook.base import DATA
from probebook.devices import choose_device, gpu_name
from probebook.interventions import PGD
from probebook.models import Model, embed, load
from probebook.probes import MLPProbe
from probebook_chapters.data_requirements import GRIDS
from probebook_runs.cost import GRADIENT
from probebook_runs.page import processor

TABLE = DATA / "throughput.csv"
TOKENS, TEXTS, ROWS, WIDTH = 30, 32, 1024, 768
WORDS = "the old man near the houses knew that they were a child and went on".split()


def machine() -> str:
    """The GPU, if there is one; the processor and the number of threads."""
    device = choose_device()
    if device.type == "cpu":
        return processor()
    return f"{gpu_name(device)}, {processor()}"


def clock() -> float:
    """Seconds; without a GPU those that each thread had, so that other processes do not count."""
    if choose_device().type != "cpu":
        return time.perf_counter()
    return time.process_time() / torch.get_num_threads()


def per_second(work: Callable[[], object], operations: float, seconds: float) -> float:
    """Operations per second of `work()`, repeated for so many seconds after a first time."""
    work()
    times, began = 0, clock()
    while clock() - began < seconds:
        times += 1
        work()
    return times * operations / (clock() - began)


def network(dtype: torch.dtype) -> Model:
    """bert-base with random weights and the tokenizer of a pocket model."""
    tokenizer = load("pocket-english").tokenizer
    net = hf.BertForMaskedLM(hf.BertConfig(vocab_size=len(tokenizer)))
    net = net.eval().requires_grad_(False).to(choose_device(), dtype)
    return Model("bert-base's size", net, tokenizer, "masked")


def texts() -> list[str]:
    """Different texts of about TOKENS tokens."""
    return [
        " ".join(WORDS[(i * (k + 1) + k) % len(WORDS)] for k in range(TOKENS - 2))
        for i in range(TEXTS)
    ]


def networks(seconds: float) -> dict[str, float]:
    """The speeds of `embed` and of training steps."""
    model = network(torch.float32 if choose_device().type == "cpu" else torch.bfloat16)
    asked = texts()
    batch = model.tokenizer(asked, padding=True, return_tensors="pt").to(model.device)
    passed = sum(p.numel() for p in model.base.encoder.parameters())
    operations = 2 * passed * int(batch["attention_mask"].sum())
    times = 1 if choose_device().type == "cpu" else 300  # a GPU waits with few texts
    speeds = {
        "forward": per_second(
            lambda: embed(asked * times, model, at="[CLS]", cache=False),
            times * operations,
            seconds,
        )
    }
    model.net.float().train().requires_grad_(True)
    optimizer = torch.optim.AdamW(model.net.parameters(), lr=1e-5)

    def step() -> None:
        hidden = model.base(**batch).last_hidden_state
        hidden.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        float(hidden.detach()[0, 0, 0])  # waits for the GPU

    speeds["training"] = per_second(step, GRADIENT["training"] * operations, seconds)
    return speeds


def probes(seconds: float) -> dict[str, float]:
    """The speeds of chapter 1's grid of perceptrons and attacks, and of chapter 3's search."""
    draws = torch.Generator().manual_seed(0)
    h = torch.randn(ROWS, WIDTH, generator=draws).to(choose_device())
    z = torch.arange(ROWS, device=h.device) % 2
    grids = {
        "probes": MLPProbe.grid((1, 2), (64, 256, 512, 1024), (1e-3, 1e-2), [0], epochs=1),
        "search": MLPProbe.grid(**GRIDS["MLP-20"] | {"epochs": 1}, seeds=range(5)),
    }
    speeds = {}
    for name, grid in grids.items():
        passed = sum(
            WIDTH * cell.width + (cell.layers - 1) * cell.width**2 + 2 * cell.width
            for cell in grid.cells
        )
        operations = 2 * GRADIENT[name] * passed * ROWS

        def fit(grid=grid) -> None:
            grid.fit(h, z, h[:100], z[:100])

        speeds[name] = per_second(fit, operations, seconds)
    probe = MLPProbe(layers=1, width=1024, epochs=1).fit(h, z)
    attack = PGD(probe, steps=40).at(eps=0.1)
    operations = 2 * GRADIENT["attacks"] * (WIDTH + 2) * 1024 * len(h) * attack.steps
    speeds["attacks"] = per_second(lambda: attack(h, to=1 - z), operations, seconds)
    return speeds


def measure(seconds: float) -> dict[str, float]:
    """Operations per second of every kind of work, each for so many seconds."""
    return networks(seconds) | probes(seconds)


def write(speeds: dict[str, float]) -> None:
    """Replace the machine's rows in the table."""
    here = pd.DataFrame(
        [
            {
                "machine": machine(),
                "work": work,
                "operations_per_second": f"{speed:.3g}",
                "torch": torch.__version__,
                "measured": date.today().isoformat(),
            }
            for work, speed in speeds.items()
        ]
    )
    kept = pd.read_csv(TABLE, dtype=str) if TABLE.exists() else here.iloc[:0]
    kept = kept[kept.machine != machine()]
    pd.concat([kept, here]).to_csv(TABLE, index=False)
    print(here.to_string(index=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="for each kind of work")
    write(measure(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
