"""Chapter 2's experiment (Abraham et al., § 6): reviews and edits, black boxes, explainers, errors against ICaCE.

A page prepares once, fits black boxes and explainers on training reviews, and scores them on another part's pairs."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import f1_score

from probebook import explainers as ex
from probebook.base import UserError
from probebook.corpora import cebab, reviews
from probebook.measures.concept_effects import DISTANCES, icace_error, interval
from probebook.models.classifier import Classifier, FittedClassifier


@dataclass(frozen=True)
class Part:
    """Ordered pairs of one split: `pairs` as of `cebab.icace_pairs` (rows point into the setting's table), and `asked`,
    what explainers are asked of them."""

    pairs: pd.DataFrame
    asked: pd.DataFrame


@dataclass(frozen=True)
class Setting:
    """A table of reviews, the rows of it to learn from, and the pairs of "dev" and "test" with a class in the task."""

    table: pd.DataFrame
    task: str
    train: pd.DataFrame
    parts: dict[str, Part]

    def examples(self, split: str) -> tuple[list[str], np.ndarray]:
        """Texts of a split that have a class in the task, and the classes int64 [n]."""
        rows = self.table[self.table.split == split]
        z = cebab.classes(rows.review_majority, self.task)
        return rows.description[~np.isnan(z)].tolist(), z[~np.isnan(z)].astype(np.int64)


def prepare(data: str = "reviews", n: int = 2299, task: str = "5-way", seed: int = 0,
            train: str = "train_exclusive") -> Setting:
    """CEBaB (`data="cebab"`) or the generated world ("reviews", `n` originals), with one text a group to learn from."""
    table = reviews.generate(n, seed) if data == "reviews" else cebab.load("1.1" if data == "cebab" else data)
    if train not in cebab.SPLITS:
        raise UserError(f"train = {train!r}: one of {', '.join(cebab.SPLITS)}")
    parts = {}
    for split in ("dev", "test"):
        pairs = cebab.icace_pairs(table, split, task)
        parts[split] = Part(pairs, ex.questions(table, pairs))
    return Setting(table, task, table[table.split == train].reset_index(drop=True), parts)


def black_boxes(s: Setting, encoder: str, seeds: Sequence[int], **settings) -> list[FittedClassifier]:
    """A classifier of the stars for each seed; `settings` as of `Classifier`. Kept in the cache folder."""
    return [Classifier(s.task, encoder, seed=seed, **settings).fit(s.train) for seed in seeds]


def macro_f1(model: Callable, s: Setting, split: str = "test") -> float:
    """Macro-averaged F1 of the stars (Table 8)."""
    texts, z = s.examples(split)
    return float(f1_score(z, model(texts).argmax(1).numpy(), average="macro"))


def true_effects(model: Callable, s: Setting, split: str = "test") -> torch.Tensor:
    """ICaCE of every pair [n, k] float64: N(φ(x′)) − N(φ(x)) (definition 2). Every text goes through the model once."""
    pairs = s.parts[split].pairs
    rows, places = np.unique(pairs[["source_row", "target_row"]].to_numpy(), return_inverse=True)
    probs = model(s.table.description.iloc[rows].tolist()).double()
    source, target = torch.from_numpy(places.reshape(-1, 2)).T
    return probs[target] - probs[source]


def explainers(seed: int = 0, variant: str = "paper", **unlearning) -> dict[str, ex.Explainer]:
    """The paper's eight explainers in the order of Table 10, and Zero before them. `unlearning`: how CausaLM's encoders
    are trained (lr, epochs, batch); for the variant only what has one changes."""
    return {"Zero": ex.Zero(), "Random": ex.Random(seed), "Approx": ex.Approx(seed), "CONEXP": ex.CONEXP(),
            "S-Learner": ex.SLearner(variant), "TCAV": ex.TCAV(variant, seed=seed),
            "ConceptSHAP": ex.ConceptSHAP(variant, seed=seed), "CausaLM": ex.CausaLM(variant, **unlearning),
            "INLP": ex.INLPExplainer(variant, seed=seed)}


def directed(s: Setting, model: FittedClassifier, alphas: Sequence[float] = (1, 4, 16, 64, 256, 1024),
             radii: Sequence[float] = (.25, .5, 1, 2, 4), aspects=None) -> dict[str, ex.Explainer]:
    """Chapter 1's methods as explainers that know c′, fitted, at the strengths with the least L2 error on dev."""
    true, asked = true_effects(model, s, "dev"), s.parts["dev"].asked

    def on_dev(explainer):
        return float(icace_error(true, explainer.effect(asked), "l2").mean())

    leace, alter, pgd = (method().fit(s.train, model, aspects)
                         for method in (ex.LEACEExplainer, ex.AlterRepExplainer, ex.PGDExplainer))
    return {"LEACE": leace, "AlterRep": min(map(alter.at, alphas), key=on_dev),
            "PGD": min(map(pgd.at, radii), key=on_dev)}


def estimates(methods: Mapping[str, ex.Explainer], train: pd.DataFrame, model: Callable, asked: pd.DataFrame,
              aspects=None) -> dict[str, torch.Tensor]:
    """name → what an explainer [n, k] answers that has learnt from these reviews."""
    return {name: method.fit(train, model, aspects).effect(asked) for name, method in methods.items()}


def shuffled(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The reviews with the aspect labels of other reviews, all four of one together: nothing is left to learn."""
    given = table[[f"{aspect}_aspect_majority" for aspect in cebab.ASPECTS]]
    return table.assign(**given.sample(frac=1, random_state=seed).set_index(table.index))


def errors(true: torch.Tensor, estimates: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """name → ICaCE-errors [pairs, 3] of its estimates, by DISTANCES."""
    return {name: torch.stack([icace_error(true, estimate, distance) for distance in DISTANCES], 1).numpy()
            for name, estimate in estimates.items()}


def mean_errors(true: torch.Tensor, estimates: Mapping[str, torch.Tensor], names="explainer") -> pd.DataFrame:
    """Mean ICaCE-errors: a row for each estimate (index `names`), a column for each of DISTANCES."""
    found = {key: error.mean(0) for key, error in errors(true, estimates).items()}
    return pd.DataFrame(found, DISTANCES).T.rename_axis(names)


def per_pair(by_seed: Sequence[Mapping[str, np.ndarray]], names: Sequence[str] = ("explainer",)) -> pd.DataFrame:
    """Errors of every pair, means over the black boxes: rows pairs, columns `names` (of the keys), distance."""
    return pd.concat({name: pd.DataFrame(np.mean([one[name] for one in by_seed], 0), columns=list(DISTANCES))
                      for name in by_seed[0]}, axis=1, names=[*names, "distance"])


def mean_effects(s: Setting, true: torch.Tensor, split: str = "test") -> torch.Tensor:
    """CaCE of each pair's change [n, k]: what is best in L2² for one who knows C, c and c′ but not the text."""
    pairs = s.parts[split].pairs
    keys = [pairs[name].to_numpy() for name in ("concept", "source", "target")]
    return torch.from_numpy(pd.DataFrame(true.numpy()).groupby(keys).transform("mean").to_numpy(copy=True))


def board(s: Setting, by_seed: Sequence[Mapping[str, np.ndarray]], split: str = "test", draws: int = 1000,
          seed: int = 0) -> pd.DataFrame:
    """Table 10's cells: explainer, distance, error (mean over pairs and seeds), sd (over seeds, of the mean over pairs;
    NaN for one seed), low, high (95 % bootstrap over groups of texts, of the mean over seeds)."""
    groups, rows = s.parts[split].pairs.group, []
    for name in by_seed[0]:
        found = np.stack([one[name] for one in by_seed])                                     # [seeds, pairs, distances]
        low, high = interval(found.mean(0), groups, draws, seed=seed)
        sd = found.mean(1).std(0, ddof=1) if len(found) > 1 else np.full(len(DISTANCES), np.nan)
        rows += [{"explainer": name, "distance": distance, "error": found[..., i].mean(), "sd": sd[i], "low": low[i],
                  "high": high[i]} for i, distance in enumerate(DISTANCES)]
    return pd.DataFrame(rows)
