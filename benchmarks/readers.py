"""Training tokens per second of `probebook.models.readers` against a plain padded loop.

    .venv/bin/python benchmarks/readers.py [stories]

Same network, heads, optimizer, rates and number of updates, one epoch over the same questions about
generated stories. What differs is how windows are put into batches and how a step is computed; the
held-out losses are printed. Tokens are those of the texts, without padding; seconds are CPU
seconds. data/records/benchmarks/readers.csv is replaced.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from probebook.base import DATA
from probebook.corpora import stories
from probebook.models.readers import Network, Reader, windows

TABLE = DATA / "records" / "benchmarks" / "readers.csv"
RECIPE = Reader(tokens=1_024, max_length=256, optimizer="adamw")


def held_out_loss(net: Network, asked: Any, want: Any) -> float:
    """Mean loss of the heads over windows, with the tags."""
    net.eval()
    total, count = 0.0, 0
    with torch.inference_mode():
        for rows in asked.batches(4_096):
            batch = net.batch(asked, rows)
            loss = net.heads.loss(net(batch)[1], batch, windows.batch_targets(want, rows, batch))
            total, count = total + len(rows) * float(loss), count + len(rows)
    return total / count


def plain(net: Network, asked: Any, want: Any, size: int, width: int) -> None:
    """What a page would write: random batches of `size` windows, padded to `width` or the longest.

    In float32, with transformers' own attention."""
    net.train()
    parameters = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, RECIPE.lr, betas=(0.9, 0.98), weight_decay=0.01)
    order = np.random.default_rng(0).permutation(len(asked.ids))
    steps = [order[i : i + size] for i in range(0, len(order), size)]

    def rate(step: int) -> float:
        rising = (step + 1) / (RECIPE.warmup * len(steps))
        return min(rising, (len(steps) - step) / (1 - RECIPE.warmup) / len(steps))

    scale = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for rows in steps:
        batch = asked.padded(rows)
        if width:
            for key, value in batch.items():
                if value.ndim == 2:
                    missing = (0, width - value.shape[1])
                    batch[key] = F.pad(value, missing, value=asked.pad if key == "ids" else 0)
        with mock.patch("torch.autocast", lambda *a, **k: nullcontext()):
            out = net(batch)[1]
        net.heads.loss(out, batch, windows.batch_targets(want, rows, batch)).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        scale.step()


def main(n: int = 600) -> None:
    table = stories.generate(n, seed=0)
    held = stories.generate(n // 4, seed=1)
    sizes, found = None, []
    for way in ("token budget", "padded to the longest", "padded to the window"):
        net = Network(RECIPE)
        asked, other = (
            windows.cut(
                examples, net.body.tokenizer, RECIPE.context, RECIPE.max_length, RECIPE.stride
            )
            for examples in (table, held)
        )
        want, wanted = windows.targets(table, asked), windows.targets(held, other)
        tokens = sum(len(ids) for ids in asked.ids)
        sizes = sizes or -(-len(asked.ids) // len(RECIPE.batches(asked)))
        start = time.process_time()
        if way == "token budget":
            RECIPE._train(net, asked, want, ["benchmark", time.time()], 10**9)
        else:
            plain(net, asked, want, sizes, RECIPE.max_length if way.endswith("window") else 0)
        seconds = time.process_time() - start
        found.append(
            {
                "contestant": way,
                "questions": len(table),
                "tokens": tokens,
                "CPU seconds": round(seconds, 1),
                "tokens a second": round(tokens / seconds),
                "held-out loss": held_out_loss(net, other, wanted),
            }
        )
    found = pd.DataFrame(found)
    found["ratio"] = (found["tokens a second"].iloc[0] / found["tokens a second"]).round(2)
    found["held-out loss"] = found["held-out loss"].round(3)
    print(found.to_string(index=False))
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    found.to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
