"""What paper 1 concludes from its Table 3, each conclusion as differences that it puts above 0.

over_seeds(sweep_table("reliability_real"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pandas as pd

from probebook.measures import MEASURES
from probebook.measures.intervals import least_over_seeds

Scores = dict[str, np.ndarray]  # method → a score in each draw or with each seed
Conclusion = Callable[[Scores, Scores, Scores], np.ndarray]  # C, S, R → differences [draws, k]
ATTACKS = ("FGSM", "PGD", "AutoAttack")
FLIPS = (*ATTACKS, "AlterRep")
ERASURES = ("INLP", "RLACE")
ALIKE = 0.05  # the largest difference of what is alike; the paper names none


def leads(score: Scores, ahead: Sequence[str], behind: Sequence[str]) -> np.ndarray:
    """Every lead of a method `ahead` over one `behind`: [draws, leads]."""
    return np.stack([score[a] - score[b] for a in ahead for b in behind], -1)


def alike(score: Scores, names: Sequence[str]) -> np.ndarray:
    """`ALIKE` less every difference between two of the methods: [draws, differences]."""
    return ALIKE - np.stack([score[a] - score[b] for a in names for b in names if a != b], -1)


ALL: dict[str, Conclusion] = {
    "AlterRep is the most reliable (§ 5.1)": lambda C, S, R: leads(
        R, ["AlterRep"], [*ATTACKS, *ERASURES]
    ),
    "The attacks are less complete than AlterRep (Table 3)": lambda C, S, R: leads(
        C, ["AlterRep"], ATTACKS
    ),
    "AlterRep is more selective than the attacks (§ 6)": lambda C, S, R: leads(
        S, ["AlterRep"], ATTACKS
    ),
    "Erasing is more selective than the attacks (§ 6)": lambda C, S, R: leads(S, ERASURES, ATTACKS),
    "Flips are more complete than erasures (§ 6)": lambda C, S, R: leads(C, FLIPS, ERASURES),
    "Flips are more reliable than erasures (§ 6)": lambda C, S, R: leads(R, FLIPS, ERASURES),
    "The attacks are alike in reliability (§ 5.1)": lambda C, S, R: alike(R, ATTACKS),
    "INLP and R-LACE are alike in reliability (Table 3)": lambda C, S, R: alike(R, ERASURES),
}


def over_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """The conclusions for each model and kind of oracle: here, low, high, p of the least difference
    (`least_over_seeds`), by (model, oracle, claim).

    `runs`: a sweep of page 1/06, its table "best"."""
    best = runs[runs.table == "best"]
    found = {}
    for model, oracle in product(best.model.unique(), best.oracle.unique()):
        part = best[(best.model == model) & (best.oracle == oracle)]
        wide = part.pivot(index="seed", columns=["metric", "method"], values="value")
        C, S, R = (dict(wide[measure]) for measure in MEASURES)
        for claim, differences in ALL.items():
            found[model, oracle, claim] = least_over_seeds(differences(C, S, R))
    return pd.DataFrame(found).T.rename_axis(["model", "oracle", "claim"])
