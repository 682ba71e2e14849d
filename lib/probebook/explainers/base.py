"""What all explainers share: what they may see, and the call that shows it to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError, tensor
from probebook.corpora.cebab import ASPECTS, VALUES, classes
from probebook.models.classifier import column, labels

UNKNOWN = VALUES.index("unknown")
Variant = Literal["paper", "released"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)


def questions(table: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """What each pair of `cebab.icace_pairs` asks: its change, the base review and the labels."""
    names = ["description", *(f"{aspect}_aspect_majority" for aspect in ASPECTS)]
    base = table[names].iloc[pairs["source_row"].to_numpy()].reset_index(drop=True)
    return pd.concat([pairs[["concept", "source", "target"]].reset_index(drop=True), base], axis=1)


class Explainer(ABC):
    """Estimates N(φ(x′)) − N(φ(x)) for a change of one concept of x from c to c′ without seeing x′.

    - `sees`: what `_effect` is shown of a pair, and nothing else (Table 2): "concept"; "source" and
      "target" (c, c′); the "text" of the base review; the "labels" of its four aspects.
    - `white_box`: whether it needs `model.phi` and `model.head`."""

    sees: tuple[str, ...] = ("concept",)
    white_box: bool = False

    def fit(self, train: pd.DataFrame, model: Callable, aspects: Any = None) -> Self:
        """Learn from a table of reviews with CEBaB's columns and a classifier.

        `model(texts)` → [n, k]. `aspects`: a fitted classifier of the task "aspect"; as in the
        paper it then labels the base reviews, and the training reviews that lack a label. Without
        it the table's own labels count, and a missing one is "unknown". Raises UserError for a
        missing column, an unknown label, or a needed label that never occurs."""
        if self.white_box and not (hasattr(model, "phi") and hasattr(model, "head")):
            raise UserError(
                f"{type(self).__name__} looks inside: "
                "it needs a model with phi and head, not a function"
            )
        self.model: Any = model  # white boxes also need its phi and head
        self.aspects = aspects
        shown = self._shown(train)
        self.k = self._probs(shown.text[:1]).shape[1]
        self._fit(shown)
        return self

    def effect(self, pairs: pd.DataFrame) -> Tensor:
        """Estimated effects [n, k] float64; `pairs` has at least the columns of `questions`."""
        if not hasattr(self, "model"):
            raise UserError(
                f"{type(self).__name__} has not learnt anything yet: call fit(train, model) first"
            )
        shown = pd.DataFrame({"concept": column(pairs, "concept").to_numpy()})
        for name, allowed in (("concept", ASPECTS), ("source", VALUES), ("target", VALUES)):
            values = column(pairs, name)
            if unknown := [value for value in values.unique() if value not in allowed]:
                raise UserError(
                    f"{unknown[0]!r} is not a valid {name}: expected one of {', '.join(allowed)}"
                )
            shown[name] = (values.map(VALUES.index) if allowed is VALUES else values).to_numpy()
        shown["text"] = column(pairs, "description").to_numpy()
        shown = shown[[name for name in shown if name in self.sees]].copy()
        if "labels" in self.sees:
            texts = column(pairs, "description")
            shown[ASPECTS] = fill_labels(texts, labels(pairs), self.aspects, predict=True)
        return self._effect(shown).double().cpu()

    def _fit(self, train: pd.DataFrame) -> None:  # noqa: B027 (Zero learns nothing)
        """Learn from columns text, stars and the four aspects (places in VALUES, −1: no label)."""

    @abstractmethod
    def _effect(self, pairs: pd.DataFrame) -> Tensor:
        """[n, k] from the columns that `sees` names; labels are places in VALUES."""

    def _shown(self, table: pd.DataFrame) -> pd.DataFrame:
        """Texts, aspects and stars of reviews, as `_fit` wants them."""
        shown = pd.DataFrame(labels(table), columns=ASPECTS)
        shown.insert(0, "text", column(table, "description").to_numpy())
        return shown.assign(stars=column(table, "review_majority").to_numpy())

    def _probs(self, texts: Sequence[str]) -> Tensor:
        return tensor(self.model(list(texts))).double().cpu()

    def _classes(self, train: pd.DataFrame) -> Tensor:
        """The training reviews' classes int64 [n] in the model's task, −1 for none."""
        return torch.from_numpy(np.nan_to_num(classes(train.stars, self.model.task), nan=-1)).long()

    def _each(self, pairs: pd.DataFrame, effect: Callable[[str, pd.DataFrame], Tensor]) -> Tensor:
        """`effect(concept, its rows)`, in the order of the pairs."""
        out = torch.empty(len(pairs), self.k, dtype=torch.float64)
        for concept, rows in pairs.groupby("concept").indices.items():
            out[rows] = effect(concept, pairs.iloc[rows]).double().cpu()
        return out

    def _moved(self, pairs: pd.DataFrame, edit: Callable[[str, Tensor, Tensor], Tensor]) -> Tensor:
        """N(edit(concept, φ(x), c′)) − N(φ(x)) of pairs with text, concept and target."""

        def effect(concept: str, rows: pd.DataFrame) -> Tensor:
            h = self.model.phi(list(rows.text)).double()
            edited = edit(concept, h, torch.from_numpy(rows.target.to_numpy(copy=True)))
            return self.model.head(edited).softmax(1) - self.model.head(h).softmax(1)

        return self._each(pairs, effect)


def fill_labels(
    texts: Sequence[str], given: np.ndarray, aspects: Any = None, predict: bool = False
) -> np.ndarray:
    """Labels [n, 4] without −1: a classifier of aspects labels the texts in its place.

    With `predict` it labels all texts anew. Without a classifier −1 becomes "unknown"."""
    if aspects is None:
        return np.where(given < 0, UNKNOWN, given)
    predicted = aspects.aspects(list(texts))
    return predicted if predict else np.where(given < 0, predicted, given)


def concept_indices(pairs: pd.DataFrame) -> np.ndarray:
    """The place [n] of each pair's concept in ASPECTS."""
    return np.array([ASPECTS.index(concept) for concept in pairs.concept], np.int64)


def labelled_rows(train: pd.DataFrame, concept: str, needed: Sequence[int]) -> np.ndarray:
    """Rows [m] whose label of the concept is one of `needed`.

    Raises UserError where one of these occurs fewer than twice."""
    values = train[concept].to_numpy()
    for value in needed:
        if np.sum(values == value) < 2:
            raise UserError(
                f"{np.sum(values == value)} training reviews have {concept} "
                f"{VALUES[value]!r}: at least 2 are needed"
            )
    return np.flatnonzero(np.isin(values, needed))


def fit_concepts(
    train: pd.DataFrame, h: Tensor, fit: Callable[[Tensor, np.ndarray], Any]
) -> dict[str, Any]:
    """`fit(states, labels)` of each concept, on the reviews that have a label of it; h [n, d]."""
    fitted = {}
    for concept in ASPECTS:
        rows = labelled_rows(train, concept, range(len(VALUES)))
        fitted[concept] = fit(h[rows], train[concept].to_numpy()[rows])
    return fitted
