"""All draws of one layer, from which every answer follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from probebook.base import to_numpy
from probebook.measures.intervals import percentiles
from probebook.measures.reliability import reliability
from probebook_audit.case import Case
from probebook_audit.fitting import ACTUAL, Fit


@dataclass(frozen=True)
class Layer:
    """All draws of one layer: `reading`, `control` (None: not asked), `scores` and `beyond` are
    rows of `resample_seeds`, `readings` each seed's `readable.reading`; `usable`: judges by (judge,
    property); `strength`, and reliability on the validation items (`valid`), by method; `items`:
    means over the seeds."""

    case: Case
    fits: Sequence[Fit]
    readings: Sequence[pd.DataFrame]
    reading: pd.DataFrame
    control: pd.DataFrame | None
    judges: pd.DataFrame
    usable: list[tuple[str, str]]
    scores: pd.DataFrame
    beyond: pd.DataFrame
    strength: dict[str, float]
    valid: dict[str, float]
    items: pd.DataFrame
    fewest: int

    def c(self, method: str, kind: str, strength: float) -> np.ndarray:
        """Draws of completeness by the judge that sees least of it."""
        return np.min(
            [
                self.scores[method, kind, strength, f"complete: {judge}"]
                for judge, name in self.usable
                if not name
            ],
            axis=0,
        )

    def s(self, method: str, kind: str, strength: float) -> np.ndarray | None:
        """Draws of selectivity for the property that suffers most; None: nothing is judged."""
        found = [
            self.scores[method, kind, strength, f"kept: {judge}: {name}"]
            for judge, name in self.usable
            if name
        ]
        return np.min(found, axis=0) if found else None

    def r(self, method: str, kind: str, strength: float) -> np.ndarray:
        """Draws of reliability; of completeness alone where nothing that should stay is judged."""
        c, s = self.c(method, kind, strength), self.s(method, kind, strength)
        return c if s is None else to_numpy(reliability(c, s))

    def share(self, method: str, kind: str, of: str, whole: str) -> np.ndarray:
        """Draws of 1 − mean of one score / mean of another, at the method's strength."""
        name = (method, kind, self.strength[method])
        return 1 - self.beyond[*name, of].to_numpy() / self.beyond[*name, whole].to_numpy()

    def strengths(self, method: str) -> list[float]:
        """All strengths that were tried."""
        return [*self.fits[0].edits[method, ACTUAL]]


def figure(draws: np.ndarray) -> dict[str, float]:
    """A figure and its 95 % interval: the first draw is the estimate."""
    low, high = percentiles(draws[1:])
    return {"value": float(draws[0]), "low": float(low), "high": float(high)}


def figure_of_share(draws: np.ndarray) -> dict[str, float]:
    """`figure` of a share: Student's interval may reach beyond 0 and 1, a share cannot."""
    return {name: min(max(end, 0.0), 1.0) for name, end in figure(draws).items()}
