"""Twins of a model for comparison: one with random weights, one corrupted by training on shuffled words."""
from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch

from probebook.base import UserError
from probebook.corpora import probing_tasks
from probebook.models.cache import cached
from probebook.models.loading import Model, load
from probebook.models.training.cloze import Cloze
from probebook.models.training.finetune import Trainer

CORRUPTED = 4_000                                                                # sentences whose words are shuffled


@lru_cache(maxsize=4)
def encoder(name: str, source: str = "plain", seed: int = 0) -> Model:
    """A model by name, also "random:NAME" (weights as they are before any training) and "corrupted-STEPS:NAME"."""
    kind, _, plain = name.partition(":")
    if kind == "random":
        model = load(plain)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            net = type(model.net)(model.net.config).eval().requires_grad_(False)
        return Model(name, net.to(next(model.net.parameters())), model.tokenizer, model.kind)
    steps = re.fullmatch(r"corrupted-(\d+)", kind)
    if steps:
        source = source if source in probing_tasks.SOURCES else "wikitext2"
        return corrupted(plain, probing_tasks.sentences(source, CORRUPTED), int(steps[1]))
    return load(name)


def corrupted(name: str, texts: Sequence[str], steps: int = 200, batch: int = 16, lr: float = 5e-5,
              seed: int = 12345) -> Model:
    """A twin of a masked language model, trained on with texts whose words are shuffled (Zhu et al. 2022, § 4.4).

    BERT's masking, AdamW with a rate that falls linearly to 0; every epoch has the same shuffled texts. Kept in the
    cache folder. Raises UserError for a model that is no masked one, or no steps."""
    model = load(name, "cpu")
    if model.kind != "masked" or steps < 1:
        raise UserError(f"{steps} steps of {name}, which is {model.kind}: a masked language model, 1 step or more")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    twin = Model(f"corrupted-{steps}:{name}", copy.deepcopy(model.net).to(device), model.tokenizer, model.kind,
                 model.source)
    draws = np.random.default_rng(seed)
    shuffled = [" ".join(draws.permutation(text.split())) for text in texts]
    key = [model.fingerprint, shuffled, steps, batch, lr, seed]
    twin.net.load_state_dict(cached("corrupted", key, lambda: _train(twin, shuffled, steps, batch, lr, seed)))
    twin.net.requires_grad_(False)
    return twin


def _train(twin, texts, steps, batch, lr, seed):
    cloze = Cloze(twin)
    epochs = -(-steps // -(-len(texts) // batch))
    trainer = Trainer(twin, texts, "[CLS]", [*twin.net.parameters()], epochs, batch, lr, seed, cloze.change, steps)
    for _, _, hidden in trainer:
        trainer.step(cloze.loss(hidden))
    return twin.net.state_dict()
