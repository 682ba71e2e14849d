"""Memory of two workers that embed texts by shards with a network of bert-base's size.

    .venv/bin/python benchmarks/shards.py [texts, else 2000] [texts of a shard, else 60]

The network has random weights (110 million) and the tokenizer of pocket-english; the texts are
sentences of 8 to 12 words. The workers are processes of this machine. Their memory is read ten
times a second; a reading belongs to the shards that are finished by then. A shard holds whole
batches, at least one. Asserts that the peak of the last third of the shards is within 5 % of the
first third's. The table
data/records/benchmarks/shards.csv is replaced."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import pandas as pd
import psutil
import transformers as hf
from dask.distributed import Client, LocalCluster

from probebook.base import DATA
from probebook.corpora import english
from probebook.models import embed, embedding, load
from probebook_training.text import sentences

TABLE = DATA / "records" / "benchmarks" / "shards.csv"
WORKERS = 2


def network(folder: Path) -> int:
    """Save a network of bert-base's size with random weights; the number of its parameters."""
    net = hf.BertForMaskedLM(hf.BertConfig())
    net.save_pretrained(folder)
    load("pocket-english").tokenizer.save_pretrained(folder)
    return net.num_parameters()


def main(n: int = 2000, shard: int = 60) -> None:
    own = Path(os.environ["PROBEBOOK_CACHE"])
    embedding.SHARD = shard
    parameters = network(own / "model")
    texts = list(
        islice(
            (
                s
                for s in dict.fromkeys(sentences(english.paragraphs([0])))
                if 8 <= len(s.split()) <= 12
            ),
            n,
        )
    )
    readings: list[tuple[int, list[float]]] = []
    over = threading.Event()
    with (
        LocalCluster(
            WORKERS, threads_per_worker=1, memory_limit=0, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]

        def watch() -> None:
            while not over.wait(0.1):
                done = len(list((own / "embeddings").glob("*.safetensors")))
                readings.append((done, [p.memory_info().rss / 1e6 for p in processes]))

        thread = threading.Thread(target=watch)
        thread.start()
        began = time.monotonic()
        try:
            h = embed(texts, str(own / "model"), -1, "[CLS]", client=client)
        finally:
            seconds = time.monotonic() - began
            over.set()
            thread.join()
        shards = len(list((own / "embeddings").glob("*.safetensors")))
    assert h.shape == (len(texts), 768) and h.isfinite().all()
    # the first shard of each worker loads the network
    thirds = [(WORKERS, shards // 3), (shards // 3, 2 * shards // 3), (2 * shards // 3, shards + 1)]
    peaks = [
        [max(memory[k] for done, memory in readings if a <= done < b) for a, b in thirds]
        for k in range(WORKERS)
    ]
    growth = max(last / first - 1 for first, _, last in peaks)
    found = {
        "parameters, millions": round(parameters / 1e6),
        "texts": len(texts),
        "shards": shards,
        "seconds": round(seconds),
        **{
            f"peak memory of worker {k + 1}, MB, {when} third": round(peak)
            for k, row in enumerate(peaks)
            for when, peak in zip(("first", "second", "last"), row)
        },
        "growth, percent": round(100 * growth, 1),
    }
    table = pd.DataFrame({"what": found.keys(), "value": [f"{v:g}" for v in found.values()]})
    print(table.to_string(index=False))
    assert growth < 0.05, f"memory grows by {growth:.0%}"
    table.to_csv(TABLE, index=False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({"PROBEBOOK_CACHE": folder, "OMP_NUM_THREADS": "1"})
        main(*map(int, sys.argv[1:3]))
