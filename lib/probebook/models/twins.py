"""Twins of a model for comparison: with random weights, or corrupted by shuffled words."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from probebook.base import UserError
from probebook.corpora import probing_tasks
from probebook.devices import choose_device
from probebook.models.cache import load_or_compute
from probebook.models.loading import Model, load
from probebook.models.training.finetune import Cloze, Trainer

SENTENCES = 4_000  # number of sentences to shuffle


@lru_cache(maxsize=4)
def encoder(name: str, source: str = "plain", seed: int = 0) -> Model:
    """Load a model, or its twin "random:NAME" (untrained weights) or "corrupted-STEPS:NAME".

    `source`: the sentences on which a corrupted twin is trained. `seed`: of random weights, and of
    a corrupted twin's shuffling, masking and batches."""
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
        return corrupted_twin(
            plain, probing_tasks.sentences(source, SENTENCES), int(steps[1]), seed=12345 + seed
        )
    return load(name)


def corrupted_twin(
    name: str,
    texts: Sequence[str],
    steps: int = 200,
    batch: int = 16,
    lr: float = 5e-5,
    seed: int = 12345,
) -> Model:
    """Train a masked language model further on shuffled words (Zhu et al. 2022, § 4.4).

    BERT's masking and AdamW, with a rate that falls linearly to 0. Every epoch has the same
    shuffled texts. The weights are cached. UserError: not a masked model, or no steps."""
    model = load(name, "cpu", "float32")
    if model.kind != "masked" or steps < 1:
        raise UserError(
            f"{steps} steps of {name}, which is {model.kind}: give a masked language "
            "model, 1 step or more"
        )
    net = copy.deepcopy(model.net).to(choose_device())
    twin = replace(model, name=f"corrupted-{steps}:{name}", net=net)
    draws = np.random.default_rng(seed)
    shuffled = [" ".join(draws.permutation(text.split())) for text in texts]
    key = [model.fingerprint, shuffled, steps, batch, lr, seed]

    def train() -> dict[str, torch.Tensor]:
        cloze, epochs = Cloze(twin), -(-steps // -(-len(shuffled) // batch))
        settings = (epochs, batch, lr, seed, cloze.change, steps)
        trainer = Trainer(twin, shuffled, "[CLS]", twin.net.parameters(), *settings)
        trainer.fit(lambda rows, h, hidden: cloze.loss(hidden))
        return twin.net.state_dict()

    twin.net.load_state_dict(load_or_compute("corrupted", key, train))
    twin.net.requires_grad_(False)
    return twin
