"""When does a masked model learn the selection of its text? Many small trainings, and their slopes.

Texts of three strengths of selection, read with and without a second task that fills in their
pronouns, with equal steps and several seeds. Every 500 steps the slopes of the share of "she" over
times and places are measured. A killed run goes on from its checkpoints; finished trainings are
rows of the table.

    TABLE=data/records/benchmarks/selection.csv
    .venv/bin/python benchmarks/selection.py $TABLE
    .venv/bin/python benchmarks/selection.py $TABLE --masked .4 --strengths .5 --task none
"""

from __future__ import annotations

import argparse
import fcntl
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import torch
from transformers import PreTrainedModel

from probebook.base import cache_dir
from probebook.models.loading import Model
from probebook_book.card_measures import female_slopes
from probebook_training import pretrain, recipes

KEYS = ["s", "task", "masked", "steps", "seed"]


def trained(s: float, task: str, masked: float, steps: int, seed: int) -> pd.DataFrame:
    """One training: a row for every 500 steps, with loss and slopes."""
    tokenizer, prose, valid, pronouns = recipes.biography_texts(s, False, seed)
    recipe = replace(recipes.BIOGRAPHY, mask_rate=masked, steps=steps, seed=seed)
    torch.manual_seed(seed)
    model = pretrain.build(recipe)
    name = f"s{100 * s:02.0f}-{task}-{masked:g}-{steps}-{seed}"
    checkpoint = cache_dir() / "training" / "selection" / f"{name}.safetensors"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)

    def measure(net: PreTrainedModel) -> dict[str, float]:
        return female_slopes(Model(name, net, tokenizer, "masked"))

    records = pretrain.train(
        model,
        *prose,
        recipe,
        checkpoint,
        valid=valid,
        cloze=pronouns if task == "pronouns" else None,
        measure=measure,
    )
    keys = dict(zip(KEYS, (s, task, masked, steps, seed)))
    return pd.DataFrame(records).assign(**keys)


def add(rows: pd.DataFrame, path: Path) -> None:
    """Add a training's rows to the table, which several processes may write to."""
    columns = [*KEYS, "step", "tokens", "loss", "valid_loss", "time", "place", "seconds"]
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        old = pd.read_csv(path) if path.exists() else None
        table = pd.concat([old, rows[columns].round(4)]).sort_values([*KEYS, "step"])
        table.to_csv(path, index=False, lineterminator="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--strengths", type=float, nargs="+", default=[0, 0.5, 1])
    parser.add_argument(
        "--task",
        nargs="+",
        choices=["pronouns", "none"],
        default=["none", "pronouns"],
        help="the second task",
    )
    parser.add_argument(
        "--masked",
        type=float,
        default=recipes.BIOGRAPHY.mask_rate,
        help="share of all words that are masked",
    )
    parser.add_argument("--steps", type=int, default=recipes.BIOGRAPHY.steps)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    for seed, task, s in product(given.seeds, given.task, given.strengths):
        keys = dict(zip(KEYS, (s, task, given.masked, given.steps, seed)))
        done = pd.read_csv(given.table) if given.table.exists() else pd.DataFrame(columns=KEYS)
        if (done[KEYS] == pd.Series(keys)).all(axis=1).any():
            continue
        rows = trained(**keys)
        add(rows, given.table)
        last = rows.iloc[-1]
        print(
            f"{keys}: {last.seconds:.0f} s, slopes {last.time:+.3f}, {last.place:+.3f}", flush=True
        )


if __name__ == "__main__":
    main()
