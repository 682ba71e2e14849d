"""Run chapter 3's experiment: data sets of many sizes, states, probes, power of a comparison.

Zhu et al. (2022), § 4. A configuration is a task, an encoder with a pooling, and a probe. A data
set is drawn once at its largest (`prepare`), embedded once (`states`), and cut to size (`rows`);
`correct_answers` probes it, `compare` judges two such probings. At the end stand the marks of rules
that say how many items a comparison needs, in worlds whose truth is known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from probebook.base import UserError, to_numpy
from probebook.corpora import probing_tasks
from probebook.devices import place_states
from probebook.measures.folds import assign_folds, rotations
from probebook.measures.sample_size import TRAIN_TO_TEST, mcnemar_power, recommend
from probebook.models import static
from probebook.models.embedding import embed_poolings
from probebook.models.twins import encoder
from probebook.probes import LinearProbe, MLPProbe

POOLINGS = {"pooler": "[CLS]", "cls": "[CLS]", "mean": "mean", "max": "max", "last": "last"}
PENALTIES = (0.1, 10.0)  # C of a linear probe
ENOUGH = 0.8  # power
RATES = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2)  # paper, appendix C.4, as SEARCH
SEARCH = {"widths": (20,), "lrs": RATES, "batches": (8, 16, 32, 64), "epochs": 50, "patience": 5}
GRIDS: dict[str, dict[str, Any]] = {  # arguments of `MLPProbe.grid`
    "mlp": {"layers": (1,), "widths": (20,), "lrs": RATES, "epochs": 10, "batch": 64},
    "LogReg": {"layers": (0,), **SEARCH},
    "MLP-20": {"layers": (1,), **SEARCH},
}
DISPLAY_NAMES = {
    r" (mean|cls|pooler|max|last)$": r", \1",
    ", cls": ", [CLS]",
    "^random:": "untrained ",
    r"^pocket-vectors-(\d+)": r"static vectors of \1 numbers",
    "^pocket-vectors": "static vectors",
    r"^corrupted-(\d+):[^,]*": r"twin after \1 steps",
}


def display_name(name: str) -> str:
    """Name an encoder as figures do, e.g. "untrained pocket-english, [CLS]"."""
    for code, words in DISPLAY_NAMES.items():
        name = re.sub(code, words, name)
    return name


def prepare(
    task: str, source: str = "plain", n: int = 10_000, per_class: int = 1024, seed: int = 0
) -> pd.DataFrame:
    """Prepare a task's largest data set: text, z and split (train, dev, test as 4:1:1).

    `source`: "plain", "wikitext2" or "english", of which `n` sentences are drawn, or a folder with
    SentEval's files; `per_class`: training texts of each class."""
    if source in probing_tasks.SOURCES:
        table = probing_tasks.generate(task, _sentences(source, n, seed), seed=seed)
    else:
        table = probing_tasks.load(Path(source) / f"{task}.txt", task)
    return probing_tasks.subset(table, per_class, seed)


@lru_cache(maxsize=1)
def _sentences(source: str, n: int, seed: int) -> tuple:
    """Sentences, drawn once for all tasks of a page."""
    return tuple(probing_tasks.sentences(source, n, seed))


def rows(table: pd.DataFrame, per_class: int, seed: int = 0) -> np.ndarray:
    """Select the rows of a smaller data set from a prepared table; no row changes its split."""
    numbered = table.assign(row=range(len(table)))
    return probing_tasks.subset(numbered, per_class, seed).row.to_numpy(copy=True)


def states(
    texts: Sequence[str], configuration: str, source: str = "plain", seed: int = 0
) -> Tensor:
    """Embed texts by "NAME POOLING", as in "pocket-english mean" or "gpt2 last": float32 [n, d].

    NAME is one of

    - an encoder; "random:NAME", the same network with random weights; or "corrupted-200:NAME",
      after 200 training steps on shuffled words of sentences of `source` (WikiText-2, if that is
      none of the book's sources)
    - word vectors: pocket-vectors, pocket-vectors-100 (its first 100 dimensions), or a file (.txt,
      .vec)

    `seed` is that of a twin's weights.

    POOLING, on the last layer, is "pooler" (what BERT's sentence classifiers read), "cls", "mean",
    "max" or "last" (token). UserError for anything else."""
    name, _, pooling = configuration.rpartition(" ")
    if not name or pooling not in POOLINGS:
        raise UserError(
            f"configuration {configuration!r}: a name, a space and one of "
            f"{', '.join(POOLINGS)}, as in 'pocket-english mean'"
        )
    vectors = re.fullmatch(r"(pocket-vectors|.*\.(?:txt|vec))(?:-(\d+))?", name)
    if vectors:
        if pooling != "mean":
            raise UserError(
                f"configuration {configuration!r}: of word vectors there is only the mean"
            )
        word_vectors = static.load(vectors[1])
        return (word_vectors.at(int(vectors[2])) if vectors[2] else word_vectors)(texts)
    model = encoder(name, source, seed)
    if pooling in ("cls", "pooler") and model.kind == "causal":
        raise UserError(
            f"configuration {configuration!r}: the first token of a left-to-right "
            "model sees nothing else; use last, max or mean"
        )
    h = embed_poolings(texts, model)[POOLINGS[pooling]]
    return model.pooler(h) if pooling == "pooler" else h


def add_noise(h: Tensor, scale: float, seed: int = 0) -> Tensor:
    """Add Gaussian noise of standard deviation `scale` to every coordinate of states (§ 4.3)."""
    noise = torch.randn(h.shape, generator=torch.Generator().manual_seed(seed))
    return h + scale * noise.to(h)


def correct_answers(
    h: Tensor,
    z: ArrayLike,
    split: ArrayLike,
    probe: str = "linear",
    seeds: Sequence[int] = range(5),
    draw: bool = True,
    epochs: int | None = None,
    batches: Sequence[int] = (),
) -> np.ndarray:
    """Find out which test items the probe of each seed classifies correctly.

    - `h` [n, d], `z` [n], `split` [n]: states, labels, and "train", "dev" or "test"
    - `probe`: "linear" (the best on dev of PENALTIES), "majority", or one of GRIDS: "mlp" (one
      layer of 20 units, few epochs), "LogReg" and "MLP-20" by the paper's SEARCH. All settings and
      seeds of a grid are trained together; the seed also sets a grid's start and order
    - `draw`: a seed draws as many training rows as there are, with replacement within each class,
      and the same ones for every h and probe. If False, all seeds train on all rows, as in the
      paper
    - `epochs`, `batches` (of SEARCH): replace those of the grid

    Returns bool [seeds, test items]. Of probes that are equal on dev the first is taken. UserError
    for another probe, or a split without rows."""
    h = place_states(h)
    z, split = torch.tensor(to_numpy(z), device=h.device), np.asarray(split)
    train, dev, test = (np.flatnonzero(split == name) for name in ("train", "dev", "test"))
    if not len(h) == len(z) == len(split) or not min(map(len, (train, dev, test, seeds))):
        raise UserError(
            f"{len(h)} states, {len(z)} labels, {len(split)} splits, {len(seeds)} "
            "seeds: one of each per item, items in train, dev and test, and at least "
            "one seed"
        )
    x, classes = h[train], z[train]
    of_class = [np.flatnonzero(to_numpy(classes == c)) for c in classes.unique()]
    rows = {seed: np.arange(len(train)) for seed in seeds}
    for seed in seeds if draw else ():
        rng = np.random.default_rng(seed)
        rows[seed] = np.concatenate([rng.choice(some, len(some)) for some in of_class])
    if probe == "majority":
        guesses = [torch.bincount(classes).argmax()] * len(seeds)
    elif probe == "linear":
        guesses = [
            _linear(x[r], classes[r], h[dev], z[dev])(h[test]).argmax(1) for r in rows.values()
        ]
    elif probe in GRIDS:
        settings = GRIDS[probe] | ({"epochs": epochs} if epochs else {})
        if batches and "batches" in settings:
            settings |= {"batches": batches}
        grid = MLPProbe.grid(**settings, seeds=tuple(rows))
        fitted = grid.fit_seeds(x, classes, h[dev], z[dev], rows)
        guesses = [f(h[test]).argmax(1) for f in fitted.values()]
    else:
        raise UserError(
            f"{probe!r} is not a valid probe: expected linear, majority, {', '.join(GRIDS)}"
        )
    return np.stack([to_numpy(guess == z[test]) for guess in guesses])


def fold_accuracies(h: Tensor, z: ArrayLike, probe: str = "linear", seed: int = 0) -> np.ndarray:
    """Compute a probe's accuracy [6] with each sixth of the items as test set once (§ 3.6).

    The next sixth is the dev set. `seed` draws the folds; the probe of fold i has seed i and is
    otherwise as in `correct_answers`."""
    accuracies = []
    for i, (_, dev, test) in enumerate(rotations(assign_folds(z, seed=seed))):
        split = np.full(len(z), "train")
        split[dev], split[test] = "dev", "test"
        accuracies.append(correct_answers(h, z, split, probe, [i]).mean())
    return np.array(accuracies)


def _linear(x: Tensor, z: Tensor, x_dev: Tensor, z_dev: Tensor) -> LinearProbe:
    covariance = torch.cov(x.double().T, correction=0)
    fitted = [LinearProbe(C, tol=1e-4).fit(x, z, covariance=covariance) for C in PENALTIES]
    return max(fitted, key=lambda model: int((model(x_dev).argmax(1) == z_dev).sum()))


class Comparison(NamedTuple):
    """Two configurations on one test set; means over seeds.

    - `acc_a`, `acc_b`, `delta`: accuracies, and acc A − acc B
    - `only_a`, `only_b`: shares of items that one alone gets right"""

    items: int  # in the test set
    acc_a: float
    acc_b: float
    delta: float
    only_a: float
    only_b: float
    power: float  # of McNemar's exact test at p ≤ .05 if each seed's shares were the truth
    simulated: float  # the same as the paper has it
    agreed: float  # `power`, counted as 0 for seeds whose difference has the other sign than delta
    recommended: int  # the paper's N; for no difference, that of a difference of one answer


def compare(right_a: ArrayLike, right_b: ArrayLike, dim: int, draws: int = 1000) -> Comparison:
    """Compare two probings of the same items by the same seeds (§ 3.5, 4.3–4.6).

    - `right_a`, `right_b` [seeds, items] of 0 and 1; UserError if they do not belong together
    - `dim`: width of the wider states
    - `draws`: tables drawn of each seed's shares; the paper counts those of all seeds together"""
    a, b = np.asarray(right_a, float), np.asarray(right_b, float)
    if a.ndim != 2 or a.shape != b.shape or not a.size or not np.isin([a, b], (0, 1)).all():
        raise UserError(
            f"shapes {a.shape} and {b.shape}: both must be [seeds, items] and contain only 0 and 1"
        )
    only, items = np.stack([(a > b).mean(1), (b > a).mean(1)], 1), a.shape[1]
    delta = float(a.mean() - b.mean())
    power = np.array([mcnemar_power(only_a, only_b, items) for only_a, only_b in only])
    simulated = [
        mcnemar_power(only_a, only_b, items, method="simulate", draws=draws, seed=s)
        for s, (only_a, only_b) in enumerate(only)
    ]
    same = (only[:, 0] - only[:, 1]) * delta > 0
    mean_a, mean_b = only.mean(0).tolist()
    return Comparison(
        items,
        float(a.mean()),
        float(b.mean()),
        delta,
        mean_a,
        mean_b,
        float(power.mean()),
        float(np.mean(simulated)),
        float((power * same).mean()),
        recommend(max(abs(delta), 1 / a.size), dim),
    )


def sufficient_from(items: ArrayLike, power: ArrayLike) -> float:
    """Find the least number of test items from which on the power stays ENOUGH; NaN if none."""
    order = np.argsort(items)
    items, reached = np.asarray(items)[order], np.asarray(power)[order] >= ENOUGH
    stays = np.logical_and.accumulate(reached[::-1])[::-1]
    return float(items[stays].min()) if stays.any() else float("nan")


def score_rules(answers: Mapping[str, np.ndarray], sufficient: float) -> pd.DataFrame:
    """Score the numbers of items that rules gave to many labs; one row per rule.

    `answers`: rule → numbers [labs], inf where it gave none. Columns:

    - covered, short: shares of labs whose number is at least, or below, `sufficient`
    - none: share of labs without a number
    - N: the median number given
    - times, low, high: median, 5 % and 95 % point of the numbers given over `sufficient` (NaN if
      none was given)"""
    records = []
    for rule, numbers in answers.items():
        given = numbers[np.isfinite(numbers)]
        points = np.percentile(given, [5, 50, 95]) if len(given) else [np.nan] * 3
        low, median, high = points
        records.append(
            {
                "rule": rule,
                "covered": (given >= sufficient).sum() / len(numbers),
                "short": (given < sufficient).sum() / len(numbers),
                "none": 1 - len(given) / len(numbers),
                "N": median,
                "times": median / sufficient,
                "low": low / sufficient,
                "high": high / sufficient,
            }
        )
    return pd.DataFrame(records)


def share_enough(one: np.ndarray, other: np.ndarray, items: int) -> float:
    """Compute the share of labs whose verdict is "enough", a power of ENOUGH.

    `one`, `other` [labs]: test items, of `items`, that only one configuration got right."""
    tables, times = np.unique(np.stack([one, other]), axis=1, return_counts=True)
    enough = [mcnemar_power(x / items, y / items, items) >= ENOUGH for x, y in tables.T]
    return float(times[enough].sum() / times.sum())


def true_power(train: float, sizes: Sequence[int], rates: np.ndarray, sign: float = 1) -> float:
    """Compute the power with `train` training items and a quarter as many test items.

    It is the mean over training sets.

    - `rates` [sizes, draws, 2]: shares that only A and only B gets right after training on `sizes`
      items; interpolated over log n between sizes, constant beyond them
    - `sign`: of A's lead; power for the other side counts as 0"""
    if rates.ndim != 3 or rates.shape[::2] != (len(sizes), 2):
        raise UserError(
            f"rates of shape {rates.shape} for {len(sizes)} sizes: [sizes, draws, 2] are needed"
        )
    items = max(1, int(train) // TRAIN_TO_TEST)
    powers = []
    for draw in rates.swapaxes(0, 1):
        a, b = (np.interp(np.log(train), np.log(sizes), side) for side in draw.T)
        powers.append(mcnemar_power(a, b, items) * ((a - b) * sign > 0))
    return float(np.mean(powers))


def least_training_items(sizes: Sequence[int], rates: np.ndarray, sign: float = 1) -> float:
    """Find the training items from which on `true_power` reaches ENOUGH, to about 3 %; at most
    100,000."""
    grid = np.geomspace(min(sizes), 1e5, 120)
    low = [train for train in grid if true_power(train, sizes, rates, sign) < ENOUGH]
    return float(max(low) * (grid[1] / grid[0]) ** 0.5 if low else grid[0])
