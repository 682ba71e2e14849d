"""Chapter 1's experiment (Canby et al., § 4): agreement sentences, their states, oracle probes, scores over strength.

A page prepares once, fits its edits on the intervention part, and lets the oracles judge them on another part."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from probebook.base import UserError, cache_path
from probebook.corpora import agreement
from probebook.interventions.attack import Attack
from probebook.interventions.serialization import load as load_fitted
from probebook.interventions.serialization import save
from probebook.measures.reliability import completeness, reliability, selectivity
from probebook.models import Model, embed, embed_layers, load
from probebook.models.cache import cached, digest, once
from probebook.probes import LinearProbe, MLPProbe

Probe = Callable[[torch.Tensor], torch.Tensor]           # states [n, d] → logits [n, k]


@dataclass(frozen=True)
class Setting:
    """Sentences with both numbers, their states at [MASK], and the split by noun (or by sentence in natural text).

    `h` [n, d] float32; `zc`, `ze` [n] (0 singular, 1 plural; ze −1: no attractor); `parts`: name → rows, of
    oracle, oracle_valid, intervention, intervention_valid, test."""

    lm: Model
    layer: int
    table: pd.DataFrame
    h: torch.Tensor
    zc: torch.Tensor
    ze: torch.Tensor
    parts: dict[str, torch.Tensor]
    seed: int

    def at_layers(self, layers: Iterable[int]) -> dict[int, Setting]:
        """The same sentences and split at other layers: layer (0 … depth) → setting."""
        states = embed_layers(self.table.text, self.lm, layers)
        return {layer: replace(self, layer=layer, h=h) for layer, h in states.items()}


@dataclass(frozen=True)
class Judges:
    """Oracle probes of the property that an edit targets (Z_c) and of the one that it should leave alone (Z_e)."""

    zc: Probe
    ze: Probe


@dataclass(frozen=True)
class Edit:
    """One method at one strength: `apply(x, to)` → edited states; `flips`: towards `to`, else it erases."""

    method: str
    symbol: str
    strength: float
    apply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    flips: bool


def prepare(model: str, data: str = "generated", n: int = 16_000, layer: int = -1, attractors: float | None = .5,
            seed: int = 0) -> Setting:
    """Load sentences, embed them at [MASK], split them 40/40/20 (§ 4.2)."""
    lm = load(model)
    table = agreement.load(data, n, seed, lm.tokenizer, attractors).to_pandas()
    h = embed(table.text, lm, layer=layer, at="[MASK]")
    parts = {name: torch.tensor(rows) for name, rows in agreement.split(table, seed=seed).items()}
    return Setting(lm, layer, table, h, torch.tensor(table.zc.to_numpy()), torch.tensor(table.ze.to_numpy()), parts,
                   seed)


def perceptron(s: Setting, z: torch.Tensor, rows: torch.Tensor, valid: torch.Tensor, layers: Sequence[int] = (1, 2),
               widths: Sequence[int] = (64, 256), lrs: Sequence[float] = (1e-3, 1e-2)) -> Probe:
    """The best perceptron of a grid for labels `z`, trained on `rows` and chosen on `valid` (absent labels dropped).

    Kept in the cache folder, so that the pages of a chapter train it once."""
    rows, valid = rows[z[rows] >= 0], valid[z[valid] >= 0]
    grid = MLPProbe.grid(layers, widths, lrs, [s.seed])
    examples = [s.h[rows], z[rows], s.h[valid], z[valid]]
    key = hashlib.sha256(json.dumps([asdict(cell) for cell in grid.cells]).encode())
    for part in examples:
        key.update(str(part.shape).encode() + part.numpy().tobytes())
    path = cache_path() / "probes" / f"{key.hexdigest()[:40]}.safetensors"
    return once(path, _saved, lambda: grid.fit(*examples), save)


def _saved(path: Path) -> Probe | None:
    """The probe of a file; None if it is not there, or damaged."""
    try:
        return load_fitted(path)
    except UserError:
        return None


def linear(s: Setting, z: torch.Tensor, rows: torch.Tensor, valid: torch.Tensor,
           penalties: Sequence[float] = (.01, .1, 1.0)) -> LinearProbe:
    """The linear probe whose inverse penalty does best on `valid`. (The paper chooses a learning rate, appendix B;
    the optimum of the loss needs none.)"""
    rows, valid = rows[z[rows] >= 0], valid[z[valid] >= 0]
    fitted = [LinearProbe(C).fit(s.h[rows], z[rows]) for C in penalties]
    return max(fitted, key=lambda probe: accuracy(probe, s.h[valid], z[valid]))


@dataclass(frozen=True)
class Kept:
    """An attack on a fitted perceptron, called as the attack itself is: `Kept(PGD(probe)).at(eps=.1)(h, to=to)`.

    Its edits are kept in the cache folder, so that the pages of a chapter search for them once."""

    attack: Attack

    def at(self, eps: float) -> Kept:
        """The same attack with another radius ε ≥ 0."""
        return Kept(self.attack.at(eps=eps))

    def __call__(self, h, to, *, return_failed: bool = False):
        """Edited states [n, d]; with `return_failed` also the mask of the rows that failed."""
        settings = {field.name: getattr(self.attack, field.name) for field in fields(self.attack)}
        probe = settings.pop("probe")
        layers = {f"{kind} {i}": part for kind in ("weights", "biases") for i, part in enumerate(getattr(probe, kind))}
        data = digest({"h": h, "to": to, "mean": probe.mean, "std": probe.std, **layers})

        def search():
            return dict(zip(("edited", "failed"), self.attack(h, to, return_failed=True)))

        found = cached("attacks", [type(self.attack).__name__, settings, data], search)
        return (found["edited"], found["failed"]) if return_failed else found["edited"]


def accuracy(probe: Probe, h: torch.Tensor, z: torch.Tensor) -> float:
    """Share of the rows whose largest logit is the label's."""
    return float((probe(h).argmax(1) == z).double().mean())


def oracles(s: Setting, train: Callable = perceptron, **settings) -> Judges:
    """Oracle probes, trained on the largest parts of the oracle's sentences in which Z_c and Z_e are uncorrelated.

    For Z_c "no attractor" counts as a third value of Z_e, so that its oracle knows sentences without one.
    `train`: `perceptron` (figures 1–3) or `linear` (figures 4–6), with its settings."""
    rows, valid = s.parts["oracle"], s.parts["oracle_valid"]
    for_zc = rows[agreement.decorrelate(s.zc[rows], s.ze[rows] + 1)]
    for_ze = rows[agreement.decorrelate(s.ze[rows], s.zc[rows])]
    return Judges(train(s, s.zc, for_zc, valid, **settings), train(s, s.ze, for_ze, valid, **settings))


def target(s: Setting, **settings) -> Probe:
    """The interventional probe that the attacks work on: a perceptron for Z_c trained on the intervention part."""
    return perceptron(s, s.zc, s.parts["intervention"], s.parts["intervention_valid"], **settings)


@torch.no_grad()
def judge(s: Setting, judges: Judges, edited: torch.Tensor, rows: torch.Tensor,
          to: torch.Tensor | None = None, before: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Completeness [n] and selectivity [n] (NaN where there is no attractor) of the edited states of `rows`.

    `to`: wanted labels of a counterfactual edit. `before`: unedited states (default: the setting's)."""
    before = s.h[rows] if before is None else before
    c = completeness(judges.zc(edited).softmax(1), to=to)
    some = s.ze[rows] >= 0
    kept = torch.full_like(c, torch.nan)
    kept[some] = selectivity(F.softmax(judges.ze(edited[some]), 1), F.softmax(judges.ze(before[some]), 1))
    return c, kept


def means(c: torch.Tensor, s: torch.Tensor) -> dict[str, float]:
    """Mean completeness, mean selectivity over the items that have one, and their harmonic mean (Table 3's columns)."""
    c, s = c.mean(), s.nanmean()
    return {"completeness": float(c), "selectivity": float(s), "reliability": float(reliability(c, s))}


def sweep(s: Setting, judges: Mapping[str, Judges], edits: Iterable[Edit], part: str = "test") -> pd.DataFrame:
    """Every edit applied to a part once and judged by every pair of oracles: one row per oracle and edit.

    Columns oracle, method, symbol, strength, completeness, selectivity, reliability. The wanted label of an edit that
    flips is the other number."""
    rows = s.parts[part]
    x, to = s.h[rows], 1 - s.zc[rows]
    found = []
    for edit in edits:
        edited = edit.apply(x, to)
        for name, pair in judges.items():
            scores = means(*judge(s, pair, edited, rows, to if edit.flips else None))
            found.append({"oracle": name, "method": edit.method, "symbol": edit.symbol, "strength": edit.strength}
                         | scores)
    return pd.DataFrame(found)


def best(tried: pd.DataFrame, scored: pd.DataFrame, by: Sequence[str] = ("oracle", "method")) -> pd.DataFrame:
    """Rows of `scored` at the strength that was most reliable in `tried` (strength chosen on other sentences)."""
    top = tried.loc[tried.groupby(list(by), sort=False)["reliability"].idxmax(), [*by, "strength"]]
    return top.merge(scored, on=[*by, "strength"], validate="one_to_one")


def erasures(method: str, fitted: Mapping[int, Callable]) -> list[Edit]:
    """Edits that erase, one per rank: rank → fitted edit."""
    return [Edit(method, "rank", rank, lambda x, to, edit=edit: edit(x), False) for rank, edit in fitted.items()]


def flips(method: str, symbol: str, fitted: Mapping[float, Callable]) -> list[Edit]:
    """Edits towards the other label, one per strength: strength → fitted edit."""
    return [Edit(method, symbol, v, lambda x, to, edit=edit: edit(x, to=to), True) for v, edit in fitted.items()]


def intervals(c: torch.Tensor, s: torch.Tensor, n: int = 1000, level: float = .95, seed: int = 0) -> dict[str, float]:
    """Percentile bootstrap over sentences: `<measure>_low` and `_high` of the three means (scipy.stats.bootstrap).

    A sentence is drawn with both of its scores; selectivity averages over the drawn ones that have an attractor."""
    from scipy.stats import bootstrap

    def statistic(c, s, axis):
        c, s = c.mean(axis), np.nanmean(s, axis)
        return np.stack([c, s, 2 * c * s / np.maximum(c + s, 1e-300)])

    found = bootstrap((c.numpy(), s.numpy()), statistic, paired=True, vectorized=True, n_resamples=n, batch=50,
                      confidence_level=level, method="percentile", rng=np.random.default_rng(seed)).confidence_interval
    names = ("completeness", "selectivity", "reliability")
    return {f"{name}_{side}": float(v) for side, values in (("low", found.low), ("high", found.high))
            for name, v in zip(names, values)}
