"""Training tokens a second of `probebook.models.readers` against a plain padded loop, at equal held-out loss.

    .venv/bin/python benchmarks/readers.py [stories]

Same network, heads, optimizer, rates and number of updates, one epoch over the same questions about generated stories;
what differs is how windows are put into batches and how a step is computed. Tokens are those of the texts, without
padding; seconds are CPU seconds. data/records/benchmarks/readers.csv is written anew.
"""
import sys
import time
from contextlib import nullcontext
from unittest import mock

import numpy as np
import pandas as pd
import torch

from probebook.base import DATA
from probebook.corpora import stories
from probebook.models import readers as qa
from probebook.models.readers import Network, Reader, windows

TABLE = DATA / "records" / "benchmarks" / "readers.csv"
RECIPE = Reader(tokens=1_024, max_length=256, optimizer="adamw")


def held_out_loss(net, asked, want):
    """Mean loss of the heads over windows, with the tags."""
    net.eval()
    with torch.inference_mode():
        losses = [(len(rows), float(net.heads.loss(net(batch := net.batch(asked, rows))[1], batch,
                                                   qa._rows(want, rows, batch)))) for rows in asked.batches(4_096)]
    return sum(n * loss for n, loss in losses) / sum(n for n, _ in losses)


def plain(net, asked, want, size, width):
    """What a page would write: windows in random order, `size` a batch, padded to `width` or to the longest; float32,
    transformers' own attention."""
    net.body.net.set_attn_implementation("sdpa")
    net.train()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], RECIPE.lr, betas=(.9, .98),
                                  weight_decay=.01)
    order = np.random.default_rng(0).permutation(len(asked.ids))
    steps = [order[i:i + size] for i in range(0, len(order), size)]
    scale = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(
        (s + 1) / (RECIPE.warmup * len(steps)), (len(steps) - s) / (1 - RECIPE.warmup) / len(steps)))
    for rows in steps:
        batch = asked.padded(rows)
        if width:
            batch = {k: torch.nn.functional.pad(v, (0, width - v.shape[1]), value=asked.pad if k == "ids" else 0)
                     if v.ndim == 2 else v for k, v in batch.items()}
        with mock.patch("torch.autocast", lambda *a, **k: nullcontext()):
            out = net(batch)[1]
        net.heads.loss(out, batch, qa._rows(want, rows, batch)).backward()
        torch.nn.utils.clip_grad_norm_([p for p in net.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        scale.step()


def main(n=600):
    table = stories.generate(n, seed=0)
    held = stories.generate(n // 4, seed=1)
    sizes, found = None, []
    for way in ("token budget", "padded to the longest", "padded to the window"):
        net = Network(RECIPE)
        tables = [(t, windows.cut(t, net.body.tokenizer, RECIPE.context, RECIPE.max_length, RECIPE.stride))
                  for t in (table, held)]
        (asked, want), (other, wanted) = [(w, windows.targets(t, w)) for t, w in tables]
        tokens = sum(len(ids) for ids in asked.ids)
        sizes = sizes or -(-len(asked.ids) // len(RECIPE.order(asked)))
        start = time.process_time()
        if way == "token budget":
            RECIPE._train(net, asked, want, f"benchmark {time.time()}", 10**9)
        else:
            plain(net, asked, want, sizes, RECIPE.max_length if way.endswith("window") else 0)
        seconds = time.process_time() - start
        found.append({"contestant": way, "questions": len(table), "tokens": tokens, "CPU seconds": round(seconds, 1),
                      "tokens a second": round(tokens / seconds), "held-out loss": held_out_loss(net, other, wanted)})
    found = pd.DataFrame(found)
    found["ratio"] = (found["tokens a second"].iloc[0] / found["tokens a second"]).round(2)
    found["held-out loss"] = found["held-out loss"].round(3)
    print(found.to_string(index=False))
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    found.to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
