"""Seconds to train ConceptSHAP's 16 perceptrons side by side against a loop over the coalitions.

    .venv/bin/python benchmarks/concept_shap.py [--width 256] [--epochs 50] [--reviews 1463]
                                                [--turns 3]

Both ways take the same starts and batches in one run on one CPU thread, or on a GPU where there is
one; the median of the turns counts (CPU seconds on a CPU). The Shapley values of the two are
asserted equal to nine digits in float64 after an epoch. The timed float32 runs, in which rounding
grows over 600 steps of rate .01, must end with the same mean loss of the coalitions to 2 %.
The loop is what one would write: a `torch.nn` network for each coalition that reads only the
coordinates in it.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import platform
import statistics
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from probebook.explainers.concept_shap import Coalitions, members, shapley
from probebook.models.training.finetune import Head

HIDDEN, BATCH, LR, K, M = 500, 128, 1e-2, 5, 4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def loop(start: Coalitions, x: Tensor, z: Tensor, head: Head, epochs: int) -> Tensor:
    """Class probabilities [16, n, k] of the perceptrons, trained one after the other."""
    frozen, device, dtype = head.net(0.0).requires_grad_(False).to(DEVICE, x.dtype), DEVICE, x.dtype
    found = []
    for s, seen in enumerate(members(M).bool()):
        seen = seen.nonzero()[:, 0] if seen.any() else torch.tensor([0])
        inputs = (x[:, seen] * bool(s)).to(device)  # the empty set sees a 0
        g = nn.Sequential(
            nn.Linear(len(seen), HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, head.out.shape[1])
        )
        begin = (
            start.first[s][seen].T,
            start.first_bias[s, 0],
            start.second[s].T,
            start.second_bias[s, 0],
        )
        with torch.no_grad():
            for parameter, tensor in zip(g.parameters(), begin):
                parameter.copy_(tensor)
        g, classes = g.to(device, dtype), z.to(device)
        optimizer, draws = torch.optim.Adam(g.parameters(), LR), np.random.default_rng(0)
        for _ in range(epochs):
            for rows in torch.from_numpy(draws.permutation(len(x))).to(device).split(BATCH):
                loss = F.cross_entropy(frozen(g(inputs[rows])), classes[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            found.append(frozen(g(inputs)).softmax(1).cpu())
    return torch.stack(found)


def batched(start: Coalitions, x: Tensor, z: Tensor, head: Head, epochs: int) -> Tensor:
    """The same, trained side by side."""
    return head(start.train(x, z, head, epochs, BATCH, LR, 0)(x)).softmax(2)


def clock() -> float:
    """CPU seconds of this process; seconds on the wall where a GPU works."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def main(width: int, epochs: int, reviews: int, turns: int) -> None:
    draws = torch.Generator().manual_seed(0)
    z = torch.randint(K, (reviews,), generator=draws)
    signal = (z[:, None] - 2) * torch.tensor([1.0, 0.5, 0.3, 0.1])
    x = torch.randn(reviews, M, generator=draws) + signal
    head = Head(*(5 * t for t in Head.initial(width, K, 0).tensors().values()))
    start = Coalitions.random(M, HIDDEN, width, 0)
    ways = {"batched": batched, "loop": loop}
    exact = {name: shapley(way(start, x.double(), z, head, 1)) for name, way in ways.items()}
    gap = float((exact["batched"] - exact["loop"]).abs().max())
    assert gap < 1e-9, f"Shapley values differ by {gap} after an epoch in float64"
    seconds, losses = {name: [] for name in ways}, {}
    for _ in range(turns):
        for name, way in ways.items():
            began = clock()
            probs = way(start, x, z, head, epochs)
            seconds[name].append(clock() - began)
            losses[name] = -probs[:, range(reviews), z].log().mean(1)
    apart = abs(float(losses["batched"].mean() / losses["loop"].mean()) - 1)
    assert apart < 0.02, f"the final losses differ by the share {apart}"
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    cpu = f"{platform.machine()}, 1 thread"
    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name() if DEVICE == "cuda" else cpu,
                "width": width,
                "epochs": epochs,
                "reviews": reviews,
                "seconds": {name: round(s, 2) for name, s in medians.items()},
                "largest gap, float64, one epoch": gap,
                "share between final losses": round(apart, 4),
                "ratio": round(medians["loop"] / medians["batched"], 2),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, default in (("width", 256), ("epochs", 50), ("reviews", 1463), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    main(**vars(parser.parse_args()))
