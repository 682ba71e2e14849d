"""What was measured at one layer, as draws of the bootstrap, from which every answer follows."""

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

NEAR = 0.9  # of the items that are needed: an audit goes on


@dataclass(frozen=True)
class LayerResult:
    """Everything that was measured at one layer.

    - `hits`, `rules`: each seed's `readability.reader_hits`, `shortcut.rule_hits`
    - `reader_draws`, `rule_draws` (and of the commonest label), `control_draws` (None: not asked),
      `edit_draws`, `effect_draws`: rows of `resample_seeds`, the first of which is the estimate, of
      `reader_hits`, `rule_hits`, `control_task_hits`, `score_edits` and `score_effects`
    - `judges`: `judge_table`; `usable`: the usable ones, (judge, property)
    - `validation`: `edit_scores.choose_strengths`
    - `items`: scores of the test items, means over the seeds
    - `fewest`: uncorrelated training items that a judge needs
    - `notes`: what was left out to measure it, in sentences"""

    case: Case
    fits: Sequence[Fit]
    hits: Sequence[pd.DataFrame]
    rules: Sequence[pd.DataFrame]
    reader_draws: pd.DataFrame
    rule_draws: pd.DataFrame
    control_draws: pd.DataFrame | None
    judges: pd.DataFrame
    usable: list[tuple[str, str]]
    edit_draws: pd.DataFrame
    effect_draws: pd.DataFrame
    validation: pd.DataFrame
    items: pd.DataFrame
    fewest: int
    notes: tuple[str, ...] = ()

    @property
    def strength(self) -> dict[str, float]:
        """The chosen strength of each method."""
        return dict(self.validation.get("strength", {}))

    def completeness(self, method: str, kind: str, strength: float) -> np.ndarray:
        """Draws of completeness by the less favourable judge."""
        judges = [f"complete: {judge}" for judge, name in self.usable if not name]
        return np.min([self.edit_draws[method, kind, strength, one] for one in judges], axis=0)

    def selectivity(self, method: str, kind: str, strength: float) -> np.ndarray | None:
        """Draws of selectivity for the property that suffers most; None: nothing is judged."""
        judges = [f"kept: {judge}: {name}" for judge, name in self.usable if name]
        draws = [self.edit_draws[method, kind, strength, one] for one in judges]
        return np.min(draws, axis=0) if draws else None

    def reliability(self, method: str, kind: str, strength: float) -> np.ndarray:
        """Draws of reliability; of completeness alone where nothing that should stay is judged."""
        complete = self.completeness(method, kind, strength)
        kept = self.selectivity(method, kind, strength)
        return complete if kept is None else to_numpy(reliability(complete, kept))

    def reduction(
        self, method: str, kind: str, left: str, whole: str, strength: float | None = None
    ) -> np.ndarray | None:
        """Draws of the share of `whole` that an edit takes away, at the method's strength if no
        other is given: 1 − left / whole, both means over items. None: not measured, or the whole
        may be 0, since the rewritten text has the same state."""
        name = (method, kind, self.strength[method] if strength is None else strength)
        if (*name, left) not in self.effect_draws or (self.effect_draws[*name, whole] <= 0).any():
            return None
        return 1 - (self.effect_draws[*name, left] / self.effect_draws[*name, whole]).to_numpy()

    def strengths(self, method: str) -> list[float]:
        """All strengths that were tried."""
        return [*self.fits[0].edits[method, ACTUAL]]


def estimate(draws: np.ndarray) -> dict[str, float]:
    """The estimate (the first draw) with its 95 % interval."""
    low, high = percentiles(draws[1:])
    return {"value": float(draws[0]), "low": float(low), "high": float(high)}


def estimate_share(draws: np.ndarray) -> dict[str, float]:
    """`estimate` of a share: Student's interval may reach beyond 0 and 1, a share cannot."""
    return {name: min(max(end, 0.0), 1.0) for name, end in estimate(draws).items()}
