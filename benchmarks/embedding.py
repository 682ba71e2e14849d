"""Sentences per second of `probebook.models.embed` against sentence-transformers and a plain loop.

    .venv/bin/pip install -c constraints.txt -e '.[bench]'
    .venv/bin/python benchmarks/embedding.py [model] [sentences]

Same model, same texts, same vectors (checked to 1e-5), in one run; the three take turns and the median of the
turns counts. The vector is the last layer's first token, which all three can give. The model's rows in
data/records/benchmarks/embedding.csv are written anew.
"""
import statistics
import sys
import time

import pandas as pd
import torch

from probebook.base import DATA
from probebook.corpora import english
from probebook.models import embed, load
from probebook.models.training.text import sentences

TURNS = 5
TABLE = DATA / "records" / "benchmarks" / "embedding.csv"


def plain(texts, model):
    """What a page would write: batches of 32 in the given order, padded to the longest."""
    out = []
    for i in range(0, len(texts), 32):
        inputs = model.tokenizer(texts[i:i + 32], padding=True, return_tensors="pt").to(model.device)
        inputs.pop("token_type_ids", None)
        with torch.no_grad():
            out.append(model.base(**inputs).last_hidden_state[:, 0].float().cpu())
    return torch.cat(out)


def peer(model):
    """sentence-transformers around the same network and tokenizer, first-token pooling."""
    import tempfile

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    with tempfile.TemporaryDirectory() as folder:
        model.base.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        body = Transformer(folder)
        encoder = SentenceTransformer(modules=[body, Pooling(model.width, pooling_mode="cls")],
                                      device=str(model.device))
    encoder[0].auto_model.to(next(model.net.parameters()).dtype)
    return lambda texts: torch.as_tensor(encoder.encode(texts, batch_size=32, show_progress_bar=False)).float()


def main(name="pocket-english", n=4000):
    model = load(name)
    texts = [s for s in sentences(english.paragraphs([0])) if 3 <= len(s.split()) <= 40][:n]
    encode = peer(model)
    ways = {"probebook": lambda: embed(texts, model, -1, "[CLS]", cache=False),
            "plain loop": lambda: plain(texts, model), "sentence-transformers": lambda: encode(texts)}
    results = {w: f() for w, f in ways.items()}                                  # warm-up, and the check
    gaps = {w: float((r - results["probebook"]).abs().max()) for w, r in results.items()}
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
    found = pd.DataFrame([{"model": name, "device": str(model.device), "sentences": len(texts), "contestant": way,
                           "sentences a second": round(v), "ratio": round(speed["probebook"] / v, 2),
                           "largest difference": f"{gaps[way]:.0e}"} for way, v in speed.items()])
    print(found.to_string(index=False))
    if TABLE.exists():
        kept = pd.read_csv(TABLE)
        found = pd.concat([kept[(kept.model != name) | (kept.device != str(model.device))], found])
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    found.to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
