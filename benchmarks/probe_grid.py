"""Seconds of chapter 3's search (Zhu et al. 2022, appendix C.4), trained together and in a loop.

    .venv/bin/python benchmarks/probe_grid.py [--sizes 64 128 …] [--loop-seeds 2] [--small]

The task is bigram_shift on generated sentences, in pocket-english's mean states. At each size there
are 5 seeds, 5 rates × 4 batch sizes, one layer of 20 units, at most 50 epochs, and patience 5. For
each seed the cell that is best on dev is tested.

The loop trains torch modules with torch's Adam, from the same starts, with the same batches and
stopping; once with Adam's default implementation and once with the fused one. It is measured on
`--loop-seeds` of the seeds, and its seconds are scaled to all. On these seeds the test accuracies
of both ways must agree within the noise of seeds and items. CPU seconds of one thread; each size is
one turn of all three. Without `--small` each finished size replaces the table in
data/records/benchmarks.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import time
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from references import network
from torch import Tensor
from torch.nn import functional as F

from probebook.base import DATA
from probebook.probes import MLPProbe
from probebook.probes.training import generator
from probebook_chapters.data_requirements import RATES, prepare, rows, states

SIZES = [2**i for i in range(6, 15)]  # training items
SETTINGS = {
    "layers": [1],
    "widths": [20],
    "lrs": RATES,
    "batches": [8, 16, 32, 64],
    "epochs": 50,
    "patience": 5,
}
Examples = tuple[Tensor, Tensor]  # states and labels


def together(
    seeds: Sequence[int], x: Tensor, z: Tensor, dev: Examples, test: Examples
) -> list[float]:
    """Test accuracy of each seed's best cell."""
    best = MLPProbe.grid(**SETTINGS, seeds=seeds).fit_seeds(x, z, *dev)
    return [float((best[seed](test[0]).argmax(1) == test[1]).double().mean()) for seed in seeds]


def one_by_one(
    seeds: Sequence[int], x: Tensor, z: Tensor, dev: Examples, test: Examples, fused: bool
) -> list[float]:
    """The same, one cell after another."""
    mean, std, accuracies = x.mean(0), x.std(0).clamp_min(1e-6), []
    x, x_dev, x_test = ((part - mean) / std for part in (x, dev[0], test[0]))
    for seed in seeds:
        cells = MLPProbe.grid(**SETTINGS, seeds=[seed]).cells
        found = [trained(cell, x, z, x_dev, dev[1], fused) for cell in cells]
        net = max(found, key=lambda pair: pair[0])[1]
        with torch.no_grad():
            accuracies.append(float((net(x_test).argmax(1) == test[1]).double().mean()))
    return accuracies


def trained(
    cell: MLPProbe, x: Tensor, z: Tensor, x_dev: Tensor, z_dev: Tensor, fused: bool
) -> tuple[float, torch.nn.Sequential]:
    """Best dev accuracy, and the network that had it."""
    net = network(cell, [x.shape[1], cell.width, 2])
    optimizer = torch.optim.Adam(net.parameters(), lr=cell.lr, fused=fused)
    least, best, since, weights = float("inf"), -1.0, 0, {}
    for epoch in range(cell.epochs):
        order = torch.randperm(len(x), generator=generator(cell.seed, epoch, len(x)))
        for batch in order.split(cell.batch):
            optimizer.zero_grad()
            F.cross_entropy(net(x[batch]), z[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            logits = net(x_dev)
        loss = float(F.cross_entropy(logits, z_dev))
        accuracy = float((logits.argmax(1) == z_dev).float().mean())
        if accuracy > best:
            best, weights = accuracy, {name: t.clone() for name, t in net.state_dict().items()}
        least, since = (loss, 0) if loss < least else (least, since + 1)
        if since == cell.patience:
            break
    net.load_state_dict(weights)
    return best, net


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="training items")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--loop-seeds", type=int, default=2, help="the first seeds, on which the loop is measured"
    )
    parser.add_argument(
        "--small", action="store_true", help="two sizes, two seeds; nothing is stored"
    )
    options = parser.parse_args()
    if options.small:
        options.sizes, options.seeds, options.loop_seeds = [64, 128], 2, 1
    torch.set_num_threads(1)
    most = max(options.sizes)
    table = prepare("bigram_shift", "plain", int(1.6 * most), most // 2)
    h, z = states(table.text.tolist(), "pocket-english mean"), torch.tensor(table.z.to_numpy())
    seeds, few, found = range(options.seeds), range(options.loop_seeds), []
    for size in options.sizes:
        here = rows(table, size // 2)
        train, dev, test = (
            here[table.split.to_numpy()[here] == name] for name in ("train", "dev", "test")
        )
        examples = h[train], z[train], (h[dev], z[dev]), (h[test], z[test])
        begin = time.process_time()
        whole = together(seeds, *examples)
        own = time.process_time() - begin
        for fused in (False, True):
            begin = time.process_time()
            loop = one_by_one(few, *examples, fused=fused)
            seconds = (time.process_time() - begin) * len(seeds) / len(few)
            gap = np.abs(np.subtract(whole[: len(few)], loop))
            deviation = np.std(whole, ddof=min(1, len(whole) - 1))
            noise = max(deviation, (0.25 / len(test)) ** 0.5) * (2 / len(few)) ** 0.5
            difference = abs(np.mean(whole[: len(few)]) - np.mean(loop))
            assert difference <= 2 * noise, f"accuracies: {whole}, {loop}"
            found.append(
                {
                    "training items": size,
                    "loop": "fused Adam" if fused else "default Adam",
                    "loop seeds": len(few),
                    "together, s": own,
                    "loop, s": seconds,
                    "times as long": seconds / own,
                    "test accuracy": np.mean(whole),
                    "sd over seeds": deviation,
                    "largest difference": gap.max(),
                }
            )
            row = pd.DataFrame(found[-1:]).round(4)
            print(row.to_string(index=False, header=len(found) == 1), flush=True)
        if not options.small:
            store(pd.DataFrame(found))


def store(found: pd.DataFrame) -> None:
    """Write the table with the sums over sizes."""
    groups = found.groupby(["loop", "loop seeds"], sort=False)
    total = groups[["together, s", "loop, s"]].sum().reset_index()
    total["times as long"] = total["loop, s"] / total["together, s"]
    print(total.to_string(index=False), flush=True)
    total["training items"] = "all"
    decimals = {
        "together, s": 2,
        "loop, s": 1,
        "times as long": 1,
        "test accuracy": 4,
        "sd over seeds": 4,
        "largest difference": 4,
    }
    whole = pd.concat([found.astype({"training items": str}), total]).round(decimals)
    whole.to_csv(DATA / "records" / "benchmarks" / "probe_grid.csv", index=False)


if __name__ == "__main__":
    main()
