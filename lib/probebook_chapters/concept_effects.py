"""Chapter 2's experiment: reviews and edits, black boxes, explainers, errors against ICaCE.

Abraham et al., § 6. A page prepares once, fits black boxes and explainers on training reviews, and
scores them on another part's pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from types import MappingProxyType

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.metrics import f1_score
from torch import Tensor

from probebook import explainers as ex
from probebook.base import UserError, check_choice, to_numpy
from probebook.corpora import cebab, reviews
from probebook.explainers.base import Variant
from probebook.explainers.table import EXPLAINERS
from probebook.measures.concept_effects import CHANGE, DISTANCES, icace_error
from probebook.measures.intervals import bootstrap_mean, contrast
from probebook.models.classifier import Classifier, FittedClassifier, labels


@dataclass(frozen=True)
class SplitPairs:
    """Ordered pairs of one split."""

    pairs: pd.DataFrame  # as `cebab.icace_pairs` gives them; rows point into the setting's table
    questions: pd.DataFrame  # for explainers about these pairs (`explainers.questions`)


@dataclass(frozen=True)
class ReviewSetting:
    """A table of reviews, its training rows, and the pairs of "dev" and "test" with a class."""

    table: pd.DataFrame
    task: str
    train: pd.DataFrame
    parts: dict[str, SplitPairs]

    def examples(self, split: str) -> tuple[list[str], np.ndarray]:
        """Texts of a split that have a class in the task, and the classes int64 [n]."""
        rows = self.table[self.table.split == split]
        z = cebab.classes(rows.review_majority, self.task)
        return rows.description[~np.isnan(z)].tolist(), z[~np.isnan(z)].astype(np.int64)


def prepare(
    data: str = "reviews",
    n: int = 2299,
    task: str = "5-way",
    seed: int = 0,
    train: str = "train_exclusive",
    causes: reviews.Causes = reviews.USUAL,
) -> ReviewSetting:
    """CEBaB or the generated world of reviews, with one training text per group.

    `data`: "reviews" (generated, `n` originals, by `causes`), "cebab", or another source of
    `cebab.load`."""
    if data == "reviews":
        table = reviews.generate(n, seed, causes)
    else:
        table = cebab.load("1.1" if data == "cebab" else data)
    check_choice(train, "split", cebab.SPLITS)
    parts = {}
    for split in ("dev", "test"):
        pairs = cebab.icace_pairs(table, split, task)
        parts[split] = SplitPairs(pairs, ex.questions(table, pairs))
    return ReviewSetting(table, task, table[table.split == train].reset_index(drop=True), parts)


def black_boxes(
    s: ReviewSetting, encoder: str, seeds: Sequence[int], **settings
) -> list[FittedClassifier]:
    """A classifier of the stars for each seed, kept in the cache folder; settings of
    `Classifier`."""
    return [Classifier(s.task, encoder, seed=seed, **settings).fit(s.train) for seed in seeds]


def macro_f1(model: Callable, s: ReviewSetting, split: str = "test") -> float:
    """Macro-averaged F1 of the stars (Table 8)."""
    texts, z = s.examples(split)
    return float(f1_score(z, to_numpy(model(texts).argmax(1)), average="macro"))


def true_effects(model: Callable, s: ReviewSetting, split: str = "test") -> Tensor:
    """ICaCE of every pair, N(φ(x′)) − N(φ(x)) (definition 2); [n, k] float64.

    Every text goes through the model once."""
    pairs = s.parts[split].pairs
    ends = pairs[["source_row", "target_row"]].to_numpy()
    rows, places = np.unique(ends, return_inverse=True)
    probs = model(s.table.description.iloc[rows].tolist()).double()
    source, target = torch.from_numpy(places.reshape(-1, 2)).T
    return probs[target] - probs[source]


def explainers(
    seed: int = 0, variant: Variant = "paper", causalm_seed: int = 0, **unlearning
) -> dict[str, ex.Explainer]:
    """Zero, then the paper's eight explainers in the order of Table 10.

    `variant` changes the explainers that have one. `causalm_seed` is CausaLM's own, so that one
    encoder per aspect can serve several black boxes; `unlearning`: how these encoders are trained
    (lr, epochs, batch)."""
    made = {name: row.make(variant, seed) for name, row in EXPLAINERS.items() if row.in_paper}
    return made | {"CausaLM": ex.CausaLM(variant, seed=causalm_seed, **unlearning)}


def direction_explainers(
    s: ReviewSetting,
    model: FittedClassifier,
    alphas: Sequence[float] = (1, 4, 16, 64, 256, 1024),
    radii: Sequence[float] = (0.25, 0.5, 1, 2, 4),
    aspects: Iterable[str] | None = None,
) -> dict[str, ex.Explainer]:
    """Chapter 1's methods as fitted explainers that know c′.

    Each has the strength with the least L2 error on dev."""
    true, questions = true_effects(model, s, "dev"), s.parts["dev"].questions

    def on_dev(explainer: ex.Explainer) -> float:
        return float(icace_error(true, explainer.effect(questions), "l2").mean())

    leace = ex.LEACEExplainer().fit(s.train, model, aspects)
    alter = ex.AlterRepExplainer().fit(s.train, model, aspects)
    pgd = ex.PGDExplainer().fit(s.train, model, aspects)
    return {
        "LEACE": leace,
        "AlterRep": min(map(alter.at, alphas), key=on_dev),
        "PGD": min(map(pgd.at, radii), key=on_dev),
    }


def inlp_by_penalty(
    s: ReviewSetting,
    model: FittedClassifier,
    penalties: Sequence[float],
    aspects: Iterable[str] | None = None,
    seed: int = 0,
) -> tuple[dict[float, ex.INLPExplainer], dict[float, float]]:
    """INLP by logistic regressions for each inverse penalty C, and how well each reads the aspects.

    The second are accuracies of INLP's first classifiers on the labelled aspects of the dev
    reviews, means over the aspects. They see no pair of texts, so C can be chosen by them."""
    dev = s.table[s.table.split == "dev"]
    h, z = model.phi(list(dev.description)), labels(dev)

    def accuracy(explainer: ex.INLPExplainer) -> float:
        right = []
        for edit, known in zip(explainer.edits.values(), z.T, strict=True):
            guessed = to_numpy(edit.probe(h).argmax(1))
            right.append((guessed == known)[known >= 0].mean())
        return float(np.mean(right))

    fitted = {
        C: ex.INLPExplainer("logistic", seed=seed, C=C).fit(s.train, model, aspects)
        for C in penalties
    }
    return fitted, {C: accuracy(explainer) for C, explainer in fitted.items()}


def estimates(
    methods: Mapping[str, ex.Explainer],
    train: pd.DataFrame,
    model: Callable,
    questions: pd.DataFrame,
    aspects: Iterable[str] | None = None,
) -> dict[str, Tensor]:
    """name → estimates [n, k] of an explainer that has been fitted on these reviews."""
    return {
        name: method.fit(train, model, aspects).effect(questions)
        for name, method in methods.items()
    }


def shuffle_labels(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The reviews with the aspect labels of other reviews, so that nothing is left to learn.

    All four labels of a review move together."""
    given = table[[f"{aspect}_aspect_majority" for aspect in cebab.ASPECTS]]
    return table.assign(**given.sample(frac=1, random_state=seed).set_index(table.index))


def errors(true: Tensor, estimates: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """name → ICaCE-errors [pairs, 3] of its estimates, by DISTANCES."""
    by_name = {}
    for name, estimate in estimates.items():
        columns = [icace_error(true, estimate, distance) for distance in DISTANCES]
        by_name[name] = to_numpy(torch.stack(columns, 1))
    return by_name


def mean_errors(
    true: Tensor, estimates: Mapping[str, Tensor], names: str | Sequence[str] = "explainer"
) -> pd.DataFrame:
    """Mean ICaCE-errors: a row for each estimate (index `names`), a column for each of
    DISTANCES."""
    means = {key: error.mean(0) for key, error in errors(true, estimates).items()}
    return pd.DataFrame(means, DISTANCES).T.rename_axis(names)


def per_pair(
    by_seed: Sequence[Mapping[str, np.ndarray]], names: Sequence[str] = ("explainer",)
) -> pd.DataFrame:
    """Errors of every pair, means over the black boxes.

    Rows: pairs; columns: `names` (of the keys), distance."""
    means = {name: np.mean([one[name] for one in by_seed], 0) for name in by_seed[0]}
    tables = {name: pd.DataFrame(mean, columns=list(DISTANCES)) for name, mean in means.items()}
    return pd.concat(tables, axis=1, names=[*names, "distance"])


def relative_errors(draws: pd.DataFrame, unit: str | tuple) -> pd.DataFrame:
    """Errors in units of the errors of the explainer `unit`, with 95 % bootstrap intervals.

    `draws`: `intervals.resample_means` of `per_pair`. Rows: the explainers, as its columns name
    them; columns: each distance, and its ends `<distance>_low` and `<distance>_high`."""
    rows, ordered = {}, draws.sort_index(axis=1)
    for key in draws.columns.droplevel("distance").unique():
        ratio = ordered[key] / ordered[unit]
        ends = pd.DataFrame(contrast(ratio), ratio.columns)
        rows[key] = pd.concat(
            [ends.here, ends.low.add_suffix("_low"), ends.high.add_suffix("_high")]
        )
    return pd.DataFrame(rows).T.rename_axis(draws.columns.names[:-1])


def effect_intervals(
    pairs: pd.DataFrame, moved: ArrayLike, draws: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Mean effect of each change with its 95 % bootstrap interval over the pairs' groups.

    `moved` [n]: how far the stars move from source to target; pairs with NaN are left out. Index
    concept, source, target; columns effect, low, high."""
    known = pairs.assign(moved=np.asarray(moved)).dropna(subset="moved")
    rows = {
        change: (part.moved.mean(), *bootstrap_mean(part.moved, part.group, draws, seed=seed))
        for change, part in known.groupby(CHANGE)
    }
    return pd.DataFrame(rows, ["effect", "low", "high"]).T.astype(float).rename_axis(CHANGE)


def mean_effects(s: ReviewSetting, true: Tensor) -> Tensor:
    """CaCE of each test pair's change [n, k]: the best in L2² of those that know C, c, c′ but no
    text."""
    pairs = s.parts["test"].pairs
    keys = [pairs[name].to_numpy() for name in CHANGE]
    effects = pd.DataFrame(to_numpy(true)).groupby(keys).transform("mean")
    return torch.from_numpy(effects.to_numpy(copy=True))


def mean_effects_given_labels(s: ReviewSetting) -> Tensor:
    """Mean effect of each test pair's change given all its labels [n, k], in a generated world.

    Over the moods of the training texts with the first text's labels; if there is no such text,
    over those of all training texts."""
    names = [f"{aspect}_aspect_majority" for aspect in cebab.ASPECTS]
    texts, pairs = s.table[s.table.split == "train_inclusive"], s.parts["test"].pairs
    mood = texts.opentable_metadata.map(lambda data: data["mood"])
    shares = pd.crosstab([texts[name] for name in names], mood, normalize="index")
    shares = shares.reindex(pd.MultiIndex.from_frame(s.table.iloc[pairs.source_row][names]))
    shares = shares.fillna(mood.value_counts(normalize=True))
    effects = np.zeros((len(pairs), 5))
    for value, share in shares.items():
        p = reviews.probabilities(
            s.table.assign(opentable_metadata=[{"mood": value}] * len(s.table))
        )
        moved = p[pairs.target_row] - p[pairs.source_row]
        effects += share.to_numpy()[:, None] * moved
    return torch.from_numpy(effects)


def shuffled_with_all_labels(
    table: pd.DataFrame, first: int, rng: np.random.Generator
) -> pd.DataFrame:
    """The reviews in random order; the `first` ones have every label of every aspect three times.

    UserError if no such order is found."""
    for _ in range(1000):
        drawn = table.iloc[rng.permutation(len(table))]
        columns = labels(drawn.iloc[:first]).T
        if all((np.bincount(z, minlength=3) >= 3).all() for z in columns):
            return drawn
    raise UserError(f"{first} training reviews never have all labels: larger sizes")


STARS = np.arange(1.0, 6)


def all_originals(confounding: float) -> pd.DataFrame:
    """The 243 kinds of original of a generated world and their exact shares (column share).

    Given the quality q of the visit, labels and mood are independent, so a kind's share is a mean
    of products over q ~ N(0, 1), taken here by Gauss–Hermite quadrature."""
    values = {"Negative": -1, "Positive": 1, "unknown": 0}
    names = [f"{aspect}_aspect_majority" for aspect in cebab.ASPECTS]
    originals = pd.DataFrame(product(values, repeat=5), columns=[*names, "mood"])
    leanings = {
        name: (reviews.LEAN[aspect], reviews.MENTIONED[aspect])
        for name, aspect in zip(names, cebab.ASPECTS)
    } | {"mood": (0, 0.5)}
    q, weight = np.polynomial.hermite_e.hermegauss(80)
    share = np.repeat(weight[None] / weight.sum(), len(originals), 0)
    for name, (lean, often) in leanings.items():
        liked = expit(lean + confounding * q)
        chances = {
            "Negative": often * (1 - liked),
            "Positive": often * liked,
            "unknown": 1 - often + 0 * q,
        }
        share = share * np.stack([chances[value] for value in originals[name]])
    metadata = [{"mood": values[value]} for value in originals.mood]
    return originals.assign(opentable_metadata=metadata, share=share.sum(1))


def _observed(table: pd.DataFrame, share: np.ndarray, aspect: str, value: str) -> np.ndarray:
    """Mean stars of the reviews that have a label, and its squared standard error."""
    has_it = (table[f"{aspect}_aspect_majority"] == value).to_numpy()
    stars = reviews.probabilities(table[has_it]) @ STARS
    return np.array([np.average(stars, weights=share[has_it]), stars.var() / len(stars)])


def conexp_biases(confounding: float, n: int, seed: int = 0) -> pd.DataFrame:
    """By how many stars CONEXP overstates each of twelve mean effects, given the confounding.

    Columns: effect, the exact mean effect when all originals get a label and then another; the bias
    "population, exact", and "originals, generated" from `n` of them; se, the standard error of the
    latter."""
    world, rows = all_originals(confounding), []
    texts = reviews.generate(n, seed, reviews.Causes(confounding))
    texts = texts[texts.is_original & ~texts.split.isin(cebab.PARTS_OF_TRAIN)]
    equal, share = np.ones(len(texts)), world.share.to_numpy()
    for aspect, (c, to) in product(cebab.ASPECTS, combinations(cebab.VALUES, 2)):
        forced = [
            share
            @ reviews.probabilities(world.assign(**{f"{aspect}_aspect_majority": value}))
            @ STARS
            for value in (c, to)
        ]
        effect = forced[1] - forced[0]
        exact, drawn = (
            [_observed(table, weights, aspect, value) for value in (c, to)]
            for table, weights in ((world, share), (texts, equal))
        )
        gaps = np.array([last[0] - first[0] - effect for first, last in (exact, drawn)])
        rows.append([effect, *np.sign(effect) * gaps, (drawn[0][1] + drawn[1][1]) ** 0.5])
    return pd.DataFrame(rows, columns=["effect", "population, exact", "originals, generated", "se"])


def board(
    s: ReviewSetting, by_seed: Sequence[Mapping[str, np.ndarray]], draws: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Table 10's cells, one row per explainer and distance.

    - error: mean over pairs and seeds
    - sd: over seeds, of the mean over pairs; NaN for one seed
    - low, high: 95 % bootstrap over groups of texts, of the mean over seeds"""
    groups, rows = s.parts["test"].pairs.group, []
    for name in by_seed[0]:
        errors = np.stack([one[name] for one in by_seed])  # [seeds, pairs, distances]
        low, high = bootstrap_mean(errors.mean(0), groups, draws, seed=seed)
        several = len(errors) > 1
        sd = errors.mean(1).std(0, ddof=1) if several else np.full(len(DISTANCES), np.nan)
        rows += [
            (name, distance, errors[..., i].mean(), sd[i], low[i], high[i])
            for i, distance in enumerate(DISTANCES)
        ]
    return pd.DataFrame(rows, columns="explainer distance error sd low high".split())


TITLES: Mapping[str, str] = MappingProxyType(
    {"cosine": "cosine error", "l2": "L2 error", "normdiff": "normdiff (length)"}
)


def panels(board: pd.DataFrame) -> pd.DataFrame:
    """A table of errors as figures of ranges want it: columns by TITLES, with `_low` and `_high`.

    `board`: columns error, low, high (others are left out); the last level of its index is
    distance. Rows: the other levels."""
    wide = board[["error", "low", "high"]].unstack("distance", sort=False)
    ends = {"error": "", "low": "_low", "high": "_high"}
    wide.columns = [TITLES[distance] + ends[column] for column, distance in wide]
    return wide.reset_index()


def double_edits(table: pd.DataFrame) -> pd.DataFrame:
    """Pairs of edits that two people made of one review with the same aspect and goal (§ B.8).

    Columns concept, goal; first_row, second_row (positions in `table`); first_stars, second_stars
    (NaN: no majority). The parts of the inclusive train split are left out. Without any such pair,
    as in the generated world, the table is empty."""
    kept = ~table.is_original.to_numpy(bool) & ~table.split.isin(cebab.PARTS_OF_TRAIN).to_numpy()
    edits = table.assign(row=np.arange(len(table)))[kept]
    found = []
    for (_, _, concept, goal), rows in edits.groupby(
        ["split", "original_id", "edit_type", "edit_goal"]
    ).row:
        found += [(concept, goal, *pair) for pair in combinations(rows, 2)]
    pairs = pd.DataFrame(found, columns=["concept", "goal", "first_row", "second_row"])
    stars = pd.to_numeric(table.review_majority, errors="coerce").to_numpy()
    for side in ("first", "second"):
        pairs[f"{side}_stars"] = stars[pairs[f"{side}_row"].astype(int)]
    return pairs


def self_validated(table: pd.DataFrame) -> pd.DataFrame:
    """Labels of edits for which the editor was also one of the readers (§ B.2).

    Columns: row (position in `table`); question ("review" or an aspect); edited: whether that is
    what the editor changed; before, after: the label of at least three readers with the editor's
    vote and without it, "no majority" if there is none. The parts of the inclusive train split are
    left out."""
    columns = {"review": "review_workers"}
    columns |= {aspect: f"{aspect}_aspect_validation_workers" for aspect in cebab.ASPECTS}
    kept = np.flatnonzero(~table.split.isin(cebab.PARTS_OF_TRAIN))
    workers, changed, found = table.edit_worker.array, table.edit_type.array, []
    for question, column in columns.items():
        for row, votes in zip(kept, table[column].array[kept]):
            if votes and workers[row] in votes:
                others = [vote for worker, vote in votes.items() if worker != workers[row]]
                majorities = _majority(votes.values()), _majority(others)
                found.append((row, question, question == changed[row], *majorities))
    return pd.DataFrame(found, columns=["row", "question", "edited", "before", "after"])


def _majority(votes: Iterable[str]) -> str:
    """The label of at least three votes, or "no majority"."""
    label, n = Counter(votes).most_common(1)[0]
    return label if n >= 3 else "no majority"


def edit_distance(a: str, b: str) -> int:
    """Levenshtein's distance: the fewest inserted, deleted or replaced characters (§ B.3).

    A bit of an integer stands for a character of `a` (Myers 1999, in the form of Hyyrö 2003), which
    makes 13,000 pairs of reviews a matter of seconds."""
    if not a:
        return len(b)
    whole, last, distance = (1 << len(a)) - 1, 1 << (len(a) - 1), len(a)
    places: dict[str, int] = {}
    for i, letter in enumerate(a):
        places[letter] = places.get(letter, 0) | 1 << i
    up, down = whole, 0  # where a column of the table of distances goes up, or down
    for letter in b:
        same = places.get(letter, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        right_up, right_down = down | ~(diagonal | up), up & diagonal  # and where a row does
        distance += bool(right_up & last) - bool(right_down & last)
        right_up, right_down = right_up << 1 | 1, right_down << 1
        up, down = (right_down | ~(diagonal | right_up)) & whole, right_up & diagonal & whole
    return distance
