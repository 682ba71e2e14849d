"""What `probebook audit` takes when it is given very much: CPU seconds and peak memory.

    .venv/bin/python benchmarks/audit_size.py [states, else 1000000] [dimensions, else 4096]
        [texts, else 20000]

States: an audit of a float16 file, by the two methods that stream, with five seeds; 8 GB of disk.
Texts: an audit's states of sentences of 8 to 10 words, by a network of bert-base's size with random
weights; of a tenth of them, and of all by a process that follows one killed half way. Memory is the
resident size of all processes together, read four times a second. The table
data/records/benchmarks/audit_size.csv is replaced."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from shards import network

from probebook.base import DATA
from probebook.corpora import english
from probebook.models import load
from probebook_audit.from_model import embed_in_shards
from probebook_training.text import sentences

TABLE = DATA / "records" / "benchmarks" / "audit_size.csv"
COMMAND = [sys.executable, "-c", "from probebook_cli import app; app()", "audit"]
ROWS = 10_000


def file(folder: Path, n: int, d: int) -> list[str]:
    """Write n states that hold a concept and another property, and their labels; the options that
    name them. Rows of one pool of noise, with other shifts of the dimensions in each block."""
    rng = np.random.default_rng(0)
    z, other = rng.integers(0, 2, (2, n))
    axes = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    pool = rng.standard_normal((ROWS + d, d), dtype=np.float32)
    head = json.dumps({"h": {"dtype": "F16", "shape": [n, d], "data_offsets": [0, 2 * n * d]}})
    head += " " * (-len(head) % 8)
    with open(folder / "h.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head.encode())
        for start in range(0, n, ROWS):
            signs = 2.0 * np.stack([z, other], 1)[start : start + ROWS] - 1
            places = (np.arange(len(signs)) + start // 7) % len(pool)
            h = np.roll(pool[places], int(rng.integers(d)), axis=1)
            out.write((h + 2 * signs @ axes).astype(np.float16).tobytes())
    pd.DataFrame({"label": z, "other": other, "group": np.arange(n) // 10}).to_csv(
        folder / "labels.csv", index=False
    )
    return [
        str(folder / "labels.csv"),
        "--states",
        str(folder / "h.safetensors"),
        "--label",
        "label",
        "--keep",
        "other",
        "--group",
        "group",
    ]


def watched(command: list[str]) -> tuple[float, float]:
    """CPU seconds of a command and its children, and their peak memory together in GB."""
    before, peak = os.times(), 0
    with subprocess.Popen(command) as process:
        own = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                peak = max(
                    peak, sum(one.memory_info().rss for one in [own, *own.children(recursive=True)])
                )
            except psutil.Error:  # one has just ended
                pass
            time.sleep(0.25)
    assert process.returncode == 0
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system,
        peak / 1e9,
    )


def texts(n: int) -> None:
    """The audit's states of n sentences."""
    found = list(
        islice(
            (
                s
                for s in dict.fromkeys(sentences(english.paragraphs([0])))
                if 8 <= len(s.split()) <= 10
            ),
            n,
        )
    )
    assert len(found) == n
    lm = load(os.environ["PROBEBOOK_CACHE"] + "/model")
    embed_in_shards(found, lm, [lm.depth], "mean")


def main(n: int = 1_000_000, d: int = 4096, said: int = 20_000) -> None:
    own, rows = Path(os.environ["PROBEBOOK_CACHE"]), []
    options = file(own, n, d)
    rows.append(
        (
            f"{n:,} saved states of {d:,} dimensions",
            *watched(
                [*COMMAND, *options, "--methods", "LEACE,MeanShift", "--out", str(own / "report")]
            ),
        )
    )
    network(own / "model")
    one = [sys.executable, __file__, "texts"]
    rows.append((f"states of {said // 10:,} texts", *watched([*one, str(said // 10)])))
    before = shards(own)
    with subprocess.Popen([*one, str(said)]) as first:
        while shards(own) < before + said // 4096 // 2:
            time.sleep(0.25)
        first.kill()
    kept = shards(own) - before
    rows.append(
        (
            f"states of {said:,} texts, {4096 * kept:,} of which a killed process had kept",
            *watched([*one, str(said)]),
        )
    )
    table = pd.DataFrame(rows, columns=["what", "CPU seconds", "peak memory, GB"])
    table = table.round({"CPU seconds": 0, "peak memory, GB": 2}).astype({"CPU seconds": int})
    print(table.to_string(index=False))
    table.to_csv(TABLE, index=False)


def shards(folder: Path) -> int:
    """How many shards of states the cache holds."""
    return len([*(folder / "embeddings").glob("*.safetensors")])


if __name__ == "__main__":
    if sys.argv[1:2] == ["texts"]:
        texts(int(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as home:
            os.environ.update({"PROBEBOOK_CACHE": home, "OMP_NUM_THREADS": "1"})
            main(*map(int, sys.argv[1:4]))
