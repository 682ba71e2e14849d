"""Sentences per second of `probebook.models.embed` against sentence-transformers and a plain loop.

    .venv/bin/pip install -c constraints.txt -e '.[bench]'
    .venv/bin/python benchmarks/embedding.py [model] [sentences]

Same model, same texts, same vectors (checked to 1e-5), in one run; the three take turns and the
median of the turns counts. The vector is the last layer's first token, which all three can give.
The model's rows in data/records/benchmarks/embedding.csv are replaced.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import pandas as pd
import torch

from probebook.base import DATA
from probebook.corpora import english
from probebook.models import Model, embed, load
from probebook_training.text import sentences

TURNS = 5
TABLE = DATA / "records" / "benchmarks" / "embedding.csv"


def plain(texts: list[str], model: Model) -> torch.Tensor:
    """What a page would write: batches of 32 in the given order, padded to the longest."""
    out = []
    for i in range(0, len(texts), 32):
        inputs = model.tokenizer(texts[i : i + 32], padding=True, return_tensors="pt")
        inputs = inputs.to(model.device)
        inputs.pop("token_type_ids", None)
        with torch.no_grad():
            out.append(model.base(**inputs).last_hidden_state[:, 0].float().cpu())
    return torch.cat(out)


def peer(model: Model) -> Callable[[list[str]], torch.Tensor]:
    """sentence-transformers around the same network and tokenizer, first-token pooling."""
    import tempfile

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    with tempfile.TemporaryDirectory() as folder:
        model.base.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        body = Transformer(folder)
        encoder = SentenceTransformer(
            modules=[body, Pooling(model.width, pooling_mode="cls")], device=str(model.device)
        )
    encoder[0].auto_model.to(model.dtype)

    def encode(texts: list[str]) -> torch.Tensor:
        vectors = encoder.encode(texts, batch_size=32, show_progress_bar=False)
        return torch.as_tensor(vectors).float()

    return encode


def main(name: str = "pocket-english", n: int = 4000) -> None:
    model = load(name)
    texts = [s for s in sentences(english.paragraphs([0])) if 3 <= len(s.split()) <= 40][:n]
    encode = peer(model)
    ways = {
        "probebook": lambda: embed(texts, model, -1, "[CLS]", cache=False),
        "plain loop": lambda: plain(texts, model),
        "sentence-transformers": lambda: encode(texts),
    }
    results = {way: run() for way, run in ways.items()}  # warm-up, and the check
    own = results["probebook"]
    gaps = {way: float((result - own).abs().max()) for way, result in results.items()}
    seconds = {w: [] for w in ways}
    for _ in range(TURNS):
        for way, run in ways.items():
            if model.device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - start)
    speed = {w: len(texts) / statistics.median(s) for w, s in seconds.items()}
    assert max(gaps.values()) < 1e-5, gaps
    found = pd.DataFrame(
        [
            {
                "model": name,
                "device": str(model.device),
                "sentences": len(texts),
                "contestant": way,
                "sentences a second": round(per_second),
                "ratio": round(speed["probebook"] / per_second, 2),
                "largest difference": f"{gaps[way]:.0e}",
            }
            for way, per_second in speed.items()
        ]
    )
    print(found.to_string(index=False))
    if TABLE.exists():
        before = pd.read_csv(TABLE)
        others = (before.model != name) | (before.device != str(model.device))
        found = pd.concat([before[others], found])
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    found.to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
