"""What all explainers share: what they are shown, and the call that shows it and checks what comes back."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from probebook.base import UserError, tensor
from probebook.corpora.cebab import ASPECTS, VALUES, classes
from probebook.models.classifier import column, labels

UNKNOWN = VALUES.index("unknown")


def asked(table: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """The question that each pair of `cebab.icace_pairs` puts: its change and the base review's text and labels."""
    names = ["description", *(f"{aspect}_aspect_majority" for aspect in ASPECTS)]
    base = table[names].iloc[pairs["source_row"].to_numpy()].reset_index(drop=True)
    return pd.concat([pairs[["concept", "source", "target"]].reset_index(drop=True), base], axis=1)


class Explainer(ABC):
    """Estimates N(φ(x′)) − N(φ(x)) for a change of one concept of x from c to c′ without seeing x′.

    `sees`: what `_effect` is shown of a pair, and nothing else (Table 2): "concept"; "source", "target" (c, c′);
    "text" of the base review; "labels" of its four aspects. `white_box`: needs `model.phi` and `model.head` too."""

    sees: tuple[str, ...] = ("concept",)
    white_box = False

    def fit(self, train: pd.DataFrame, model: Callable, aspects=None):
        """Learn from a table of reviews with CEBaB's columns and from a classifier: `model(texts)` → [n, k].

        `aspects`: a fitted classifier of the task "aspect", which then labels the base reviews, as in the paper, and
        the training reviews that lack a label. Without it the table's own labels count, and "unknown" for a lack.
        Raises UserError for a missing column, an unknown label, or a label that is needed and never there."""
        if self.white_box and not (hasattr(model, "phi") and hasattr(model, "head")):
            raise UserError(f"{type(self).__name__} looks inside: it needs a model with phi and head, not a function")
        self.model, self.aspects = model, aspects
        shown = self._shown(train)
        self.k = self._probs(shown.text[:1]).shape[1]
        self._fit(shown)
        return self

    def effect(self, pairs: pd.DataFrame) -> torch.Tensor:
        """Estimated effects [n, k] float64 of the pairs, a table with the columns of `asked`, whatever else it has."""
        if not hasattr(self, "model"):
            raise UserError(f"{type(self).__name__} has not learnt anything yet: call fit(train, model) first")
        shown = pd.DataFrame({"concept": column(pairs, "concept").to_numpy()})
        for name, allowed in (("concept", ASPECTS), ("source", VALUES), ("target", VALUES)):
            values = column(pairs, name)
            if unknown := [value for value in values.unique() if value not in allowed]:
                raise UserError(f"{name} {unknown[0]!r}: one of {', '.join(allowed)}")
            shown[name] = values.map(allowed.index).to_numpy() if allowed is VALUES else values.to_numpy()
        shown["text"] = column(pairs, "description").to_numpy()
        shown = shown[[name for name in shown if name in self.sees]].copy()
        if "labels" in self.sees:
            shown[ASPECTS] = filled(column(pairs, "description"), labels(pairs), self.aspects, predict=True)
        return self._effect(shown).double()

    def _fit(self, train: pd.DataFrame) -> None:                               # noqa: B027 (Zero learns nothing)
        """Learn from columns text, stars and the four aspects (ints: places in VALUES, −1 for no label)."""

    @abstractmethod
    def _effect(self, pairs: pd.DataFrame) -> torch.Tensor:
        """[n, k] from the columns that `sees` names; source, target and labels are places in VALUES."""

    def _shown(self, table: pd.DataFrame) -> pd.DataFrame:
        """Texts, aspects and stars of reviews, as `_fit` wants them."""
        shown = pd.DataFrame(labels(table), columns=ASPECTS)
        shown.insert(0, "text", column(table, "description").to_numpy())
        return shown.assign(stars=column(table, "review_majority").to_numpy())

    def _probs(self, texts) -> torch.Tensor:
        return tensor(self.model(list(texts))).double()

    def _classes(self, train: pd.DataFrame) -> torch.Tensor:
        """The training reviews' classes int64 [n] in the model's task, −1 for none."""
        return torch.from_numpy(np.nan_to_num(classes(train.stars, self.model.task), nan=-1)).long()

    def _each(self, pairs: pd.DataFrame, effect: Callable[[str, pd.DataFrame], torch.Tensor]) -> torch.Tensor:
        """`effect(concept, its rows)`, in the order of the pairs."""
        out = torch.empty(len(pairs), self.k, dtype=torch.float64)
        for concept, rows in pairs.groupby("concept").indices.items():
            out[rows] = effect(concept, pairs.iloc[rows]).double()
        return out

    def _moved(self, pairs: pd.DataFrame, edit: Callable) -> torch.Tensor:
        """N(edit(concept, φ(x), c′)) − N(φ(x)) of pairs with text, concept and target."""
        def effect(concept, rows):
            h = self.model.phi(list(rows.text)).double()
            edited = edit(concept, h, torch.from_numpy(rows.target.to_numpy(copy=True)))
            return self.model.head(edited).softmax(1) - self.model.head(h).softmax(1)
        return self._each(pairs, effect)


def known(variant: str) -> str:
    """The variant, if there is one of that name."""
    if variant not in ("paper", "released"):
        raise UserError(f"variant={variant!r}: 'paper' or 'released'")
    return variant


def filled(texts, found: np.ndarray, aspects=None, predict: bool = False) -> np.ndarray:
    """Labels [n, 4] with no −1: "unknown" in its place; with a classifier of aspects what this says of the texts, in
    place of −1, or of all (`predict`)."""
    if aspects is None:
        return np.where(found < 0, UNKNOWN, found)
    guessed = aspects.aspects(list(texts))
    return guessed if predict else np.where(found < 0, guessed, found)


def places(pairs: pd.DataFrame) -> np.ndarray:
    """The number [n] of each pair's concept in ASPECTS."""
    return np.array([ASPECTS.index(concept) for concept in pairs.concept], np.int64)


def labelled(train: pd.DataFrame, concept: str, needed: list[int]) -> np.ndarray:
    """Rows [m] whose label of the concept is one of `needed`; UserError where one of these is never there."""
    found = train[concept].to_numpy()
    for value in needed:
        if np.sum(found == value) < 2:
            raise UserError(f"{np.sum(found == value)} training reviews have {concept} {VALUES[value]!r}: "
                            "at least 2 are needed")
    return np.flatnonzero(np.isin(found, needed))
