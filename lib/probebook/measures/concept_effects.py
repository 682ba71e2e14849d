"""Effects of a concept on reviews and on classifiers, and how far an explainer's estimate is from them.

Abraham et al., § 3 and appendix A. `pairs` is a table of `corpora.cebab.edit_pairs` or `icace_pairs` with the columns
concept, source, target (labels c and c′); effects are [n, k], one row a pair, one column a class (or [n])."""
from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from probebook.base import UserError, tensor
from probebook.corpora.cebab import ASPECTS, VALUES, classes

CHANGE = ["concept", "source", "target"]
DISTANCES = ("cosine", "l2", "normdiff")


def icace_error(true, estimated, distance: str = "cosine") -> torch.Tensor:
    """Distance of estimated from true effects (definition 3, before the mean): [n, k], [n, k] → float64 [n].

    "cosine": 1 − cos, 1 if either is zero (up to rounding); "l2": norm of the difference; "normdiff":
    absolute difference of the norms."""
    if distance not in DISTANCES:
        raise UserError(f"distance {distance!r}: one of {', '.join(DISTANCES)}")
    a, b = tensor(true).double(), tensor(estimated).double()
    if a.ndim != 2 or a.shape != b.shape:
        raise UserError(f"true effects {tuple(a.shape)}, estimated {tuple(b.shape)}: [pairs, classes] both")
    if not torch.isfinite(a).all() or not torch.isfinite(b).all():
        raise UserError("an effect is not finite: give differences of probabilities")
    if distance == "l2":
        return (a - b).norm(dim=1)
    if distance == "normdiff":
        return (a.norm(dim=1) - b.norm(dim=1)).abs()
    return 1 - F.cosine_similarity(a, b, eps=1e-12)                         # of zero, or of its rounding error: 0


def ate(pairs: pd.DataFrame, task: str = "5-way") -> pd.DataFrame:
    """Mean change of the readers' majority from c to c′ (definition 5): concept, source, target, effect, n.

    In stars; in "binary" and "ternary" in classes (`corpora.cebab.classes`). `n` pairs have a class on both sides."""
    if missing := [name for name in (*CHANGE, "source_stars", "target_stars") if name not in pairs]:
        raise UserError(f"the pairs have no column {', '.join(missing)}: take a table of cebab.edit_pairs")
    change = classes(pairs.target_stars, task) - classes(pairs.source_stars, task)
    known = ~np.isnan(change)
    if not known.any():
        raise UserError(f"no pair whose reviews both have a class in the {task} task: give pairs with stars")
    grouped = _by_change(pairs[known], change[known])[0]
    return _in_order(grouped.agg(effect="mean", n="size")).reset_index()


def cace(pairs: pd.DataFrame, effects) -> pd.DataFrame:
    """Mean effect of each change of a concept (definition 4): index concept, source, target; one column a class.

    Effects [n] (say, of the most probable class, as in Table 4) give one column."""
    return _in_order(_by_change(pairs, effects).mean())


def acace(pairs: pd.DataFrame, effects) -> pd.DataFrame:
    """Mean absolute CaCE over the changes of a concept (equation 17): index concept, one column a class."""
    return cace(pairs, effects).abs().groupby("concept", sort=False).mean()


def cace_error(pairs: pd.DataFrame, true, estimated, distance: str = "l2") -> pd.Series:
    """Distance of an explainer's mean estimate from CaCE (equation 19); index concept, source, target."""
    return _distances(cace(pairs, true), cace(pairs, estimated), distance)


def acace_error(pairs: pd.DataFrame, true, estimated, distance: str = "l2") -> pd.Series:
    """Distance of an explainer's mean *absolute* estimate from ACaCE (equation 20); index concept.

    ACaCE takes the absolute value after the mean over pairs, the estimate before it: the true effects themselves have
    an error of 0 only where all pairs of a change have effects of one sign."""
    return _distances(acace(pairs, true), acace(pairs, tensor(estimated).abs()), distance)


def interval(values, groups, n: int = 1000, level: float = .95, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap of a mean over pairs in which whole groups are drawn: low, high.

    Pairs of one group share texts, so they are not independent. `values` [n] or [n, m] (m means at once, on the same
    drawn groups), `groups` [n]."""
    from scipy.stats import bootstrap

    values = np.asarray(values, float)
    number, labels = pd.factorize(np.asarray(groups))
    if len(number) != len(values) or len(labels) < 2:
        raise UserError(f"{len(values)} values, the groups of {len(number)}, {len(labels)} groups in all: one group "
                        "for each value, two groups at least")
    total = pd.DataFrame(values).groupby(number).sum().to_numpy().T
    size = np.bincount(number)[None].repeat(len(total), 0)
    found = bootstrap((total, size), lambda total, size, axis: total.sum(axis) / size.sum(axis), paired=True, axis=1,
                      vectorized=True, n_resamples=n, batch=50, confidence_level=level, method="percentile",
                      rng=np.random.default_rng(seed)).confidence_interval
    shape = values.shape[1:]
    return found.low.reshape(shape), found.high.reshape(shape)


def resampled(values: pd.DataFrame, groups: pd.Series, n: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Means of the columns over all pairs (row 0) and over n draws of whole groups [pairs] of them (the other rows).

    All columns share the draws, so that differences, ratios and best ones have intervals too: see `contrast`."""
    parts = values.groupby(groups.to_numpy())
    total, size = parts.sum(), parts.size().to_numpy()
    drawn = np.random.default_rng(seed).multinomial(len(size), np.full(len(size), 1 / len(size)), n)
    drawn = np.vstack([np.ones(len(size)), drawn])
    return pd.DataFrame(drawn @ total.to_numpy() / (drawn @ size)[:, None], columns=values.columns)


def contrast(draws) -> dict[str, np.ndarray]:
    """Of draws as of `resampled` [1 + n] or [1 + n, m]: here (row 0), low, high (95 % of the others), and the verdict:
    whether that interval lies above 0 (1), below it (−1), or holds it (0)."""
    draws = np.asarray(draws)
    low, high = np.percentile(draws[1:], [2.5, 97.5], axis=0)
    return {"here": draws[0], "low": low, "high": high, "verdict": (low > 0) * 1 - (high < 0) * 1}


def _by_change(pairs: pd.DataFrame, effects):
    """The effects, grouped by concept, source and target of their pairs."""
    effects = tensor(effects).double().detach().cpu().numpy()
    if missing := [name for name in CHANGE if name not in pairs]:
        raise UserError(f"the pairs have no column {', '.join(missing)}: take a table of cebab.icace_pairs")
    if len(effects) != len(pairs) or not len(pairs) or not np.isfinite(effects).all():
        raise UserError(f"{len(effects)} effects of {len(pairs)} pairs: one row of finite numbers for each pair, and "
                        "one pair at least")
    return pd.DataFrame(effects).groupby([pairs[name].to_numpy() for name in CHANGE])


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the paper's tables; other concepts and labels last."""
    order = {name: i for i, name in enumerate([*ASPECTS, *VALUES])}
    return table.rename_axis(CHANGE).sort_index(key=lambda level: level.map(order))


def _distances(true: pd.DataFrame, estimated: pd.DataFrame, distance: str) -> pd.Series:
    return pd.Series(icace_error(true, estimated, distance).numpy(), true.index, name=distance)
