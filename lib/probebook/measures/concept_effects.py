"""Effects of a concept on reviews and on classifiers, and an explainer's distance from them.

Abraham et al., § 3 and appendix A. `pairs` is a table of `corpora.cebab.edit_pairs` or
`icace_pairs` with the columns concept, source, target (labels c and c′). Effects are [n, k]: one
row per pair, one column per class (or [n])."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from pandas.api.typing import DataFrameGroupBy
from torch.nn import functional as F

from probebook.base import UserError, check_choice, tensor, to_numpy
from probebook.corpora.cebab import ASPECTS, VALUES, classes

CHANGE = ["concept", "source", "target"]
DISTANCES = ("cosine", "l2", "normdiff")


def icace_error(true: ArrayLike, estimated: ArrayLike, distance: str = "cosine") -> torch.Tensor:
    """Measure how far an explainer's effects [n, k] are from the true ones: float64 [n].

    This is definition 3, before the mean. The distance "cosine" is 1 − cos, and 1 if either effect
    is zero (up to rounding); "l2" is the norm of the difference; "normdiff" is the absolute
    difference of the norms."""
    check_choice(distance, "distance", DISTANCES)
    a, b = tensor(true).double(), tensor(estimated).double()
    if a.ndim != 2 or a.shape != b.shape:
        raise UserError(
            f"true effects {tuple(a.shape)}, estimated {tuple(b.shape)}: [pairs, classes] both"
        )
    if not torch.isfinite(a).all() or not torch.isfinite(b).all():
        raise UserError("an effect is not finite: give differences of probabilities")
    if distance == "l2":
        return (a - b).norm(dim=1)
    if distance == "normdiff":
        return (a.norm(dim=1) - b.norm(dim=1)).abs()
    return 1 - F.cosine_similarity(a, b, eps=1e-12)  # 0 for a zero effect or its rounding error


def ate(pairs: pd.DataFrame, task: str = "5-way") -> pd.DataFrame:
    """Mean change of the readers' majority from c to c′ (definition 5).

    Columns concept, source, target, effect, n. The effect is in stars; in the tasks "binary" and
    "ternary" it is in classes (`corpora.cebab.classes`). `n` pairs have a class on both sides."""
    missing = [name for name in (*CHANGE, "source_stars", "target_stars") if name not in pairs]
    if missing:
        raise UserError(
            f"the pairs have no column {', '.join(missing)}: take a table of cebab.edit_pairs"
        )
    change = classes(pairs.target_stars, task) - classes(pairs.source_stars, task)
    known = ~np.isnan(change)
    if not known.any():
        raise UserError(
            f"no pair whose reviews both have a class in the {task} task: give pairs with stars"
        )
    grouped = _by_change(pairs[known], change[known])[0]
    return _in_order(grouped.agg(effect="mean", n="size")).reset_index()


def cace(pairs: pd.DataFrame, effects: ArrayLike) -> pd.DataFrame:
    """Mean effect of each change of a concept (definition 4).

    Index concept, source, target; one column per class, or one column for effects [n] (of the most
    probable class, say, as in Table 4)."""
    return _in_order(_by_change(pairs, effects).mean())


def acace(pairs: pd.DataFrame, effects: ArrayLike) -> pd.DataFrame:
    """Mean absolute CaCE over the changes of a concept (equation 17): index concept."""
    return cace(pairs, effects).abs().groupby("concept", sort=False).mean()


def cace_error(
    pairs: pd.DataFrame, true: ArrayLike, estimated: ArrayLike, distance: str = "l2"
) -> pd.Series:
    """Distance of an explainer's mean estimate from CaCE (equation 19).

    Index concept, source, target."""
    return _distances(cace(pairs, true), cace(pairs, estimated), distance)


def acace_error(
    pairs: pd.DataFrame, true: ArrayLike, estimated: ArrayLike, distance: str = "l2"
) -> pd.Series:
    """Distance of an explainer's mean *absolute* estimate from ACaCE (equation 20); index concept.

    ACaCE takes the absolute value after the mean over pairs, the estimate before it. Even the true
    effects have an error of 0 only where all pairs of a change have effects of one sign."""
    return _distances(acace(pairs, true), acace(pairs, tensor(estimated).abs()), distance)


def _by_change(pairs: pd.DataFrame, effects: ArrayLike) -> DataFrameGroupBy:
    """The effects, grouped by concept, source and target of their pairs."""
    effects = to_numpy(tensor(effects).double())
    if missing := [name for name in CHANGE if name not in pairs]:
        raise UserError(
            f"the pairs have no column {', '.join(missing)}: take a table of cebab.icace_pairs"
        )
    if len(effects) != len(pairs) or not len(pairs) or not np.isfinite(effects).all():
        raise UserError(
            f"{len(effects)} effects of {len(pairs)} pairs: one row of finite numbers "
            "for each pair, and one pair at least"
        )
    return pd.DataFrame(effects).groupby([pairs[name].to_numpy() for name in CHANGE])


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the paper's tables; other concepts and labels last."""
    order = {name: i for i, name in enumerate([*ASPECTS, *VALUES])}
    return table.rename_axis(CHANGE).sort_index(key=lambda level: level.map(order))


def _distances(true: pd.DataFrame, estimated: pd.DataFrame, distance: str) -> pd.Series:
    return pd.Series(to_numpy(icace_error(true, estimated, distance)), true.index, name=distance)
