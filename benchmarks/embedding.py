"""Sentences per second of `probebook.models.embed` against sentence-transformers and a plain loop.

    .venv/bin/pip install -c constraints.txt -e '.[bench]'
    .venv/bin/python benchmarks/embedding.py [model] [sentences]

Same model, same texts, same vectors (checked to 1e-5), in one run; the three take turns and the median of the
turns counts. The vector is the last layer's first token, which all three can give.
"""
import json
import statistics
import sys
import time

import torch

from probebook.corpora import english
from probebook.models import embed, load
from probebook.models.pretrain_text import sentences

TURNS = 5


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
    best = max(v for w, v in speed.items() if w != "probebook")
    print(json.dumps({"model": name, "device": str(model.device), "sentences": len(texts),
                      "largest difference": gaps, "sentences per second": {w: round(v) for w, v in speed.items()},
                      "ratio to the faster peer": round(speed["probebook"] / best, 2)}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
