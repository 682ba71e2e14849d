"""Run chapter 1's experiment: agreement sentences, states, oracle probes, scores over strength.

Canby et al., § 4. A page prepares once, fits its edits on the intervention part, and lets the
oracles judge them on another part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError, cache_path, to_numpy
from probebook.corpora import agreement
from probebook.devices import place_states
from probebook.interventions.attack import Attack
from probebook.interventions.serialization import load as load_fitted
from probebook.interventions.serialization import save
from probebook.measures import MEASURES
from probebook.measures.intervals import rate
from probebook.measures.leaders import best_rows
from probebook.measures.reliability import completeness, reliability, selectivity
from probebook.models import Model, carry, embed, embed_layers, word_logits
from probebook.models.cache import digest, key_name, load_or_compute, read_or_make
from probebook.models.loading import as_model
from probebook.probes import LinearProbe, MLPProbe, Panel
from probebook.probes.mlp import FittedMLP

Probe = Callable[[Tensor], Tensor]  # states [n, d] → logits [n, k], a panel's [m, n, k]


@dataclass(frozen=True)
class AgreementSetting:
    """Sentences with both numbers, their states at [MASK], and the split, all on one device.

    `parts`: name → rows; oracle, oracle_valid, intervention, intervention_valid, test. No noun (in
    natural text: no sentence, or work) is in two parts."""

    lm: Model
    layer: int
    table: pd.DataFrame
    h: Tensor  # [n, d] float32, states of `lm` at `layer`
    zc: Tensor  # [n], number of the subject (0 singular, 1 plural)
    ze: Tensor  # [n], number of the attractor (−1: none)
    parts: dict[str, Tensor]
    seed: int

    def at_layers(self, layers: Sequence[int]) -> dict[int, AgreementSetting]:
        """The same sentences and split at other layers: layer (0 … depth) → setting."""
        states = embed_layers(self.table.text, self.lm, layers)
        return {
            layer: replace(self, layer=layer, h=h.to(self.h.device)) for layer, h in states.items()
        }


@dataclass(frozen=True)
class Judges:
    """Oracle probes of the property that an edit targets (Z_c) and of the one to leave alone (Z_e).

    Each is a probe, or a panel of all perceptrons of a grid that can judge, whose scores are
    averaged.
    `report`: how well they judge (`evaluate_oracles`). Scores by an unusable oracle are NaN."""

    zc: Probe
    ze: Probe
    report: pd.DataFrame

    def usable(self, name: str) -> bool:
        """Whether the oracle of a property, "zc" or "ze", can be a judge."""
        return bool(self.report.usable[name])

    def __str__(self) -> str:
        failed = self.report[~self.report.usable]
        reasons = "; ".join(f"{row.property}: {row.reason}" for row in failed.itertuples())
        return f"no usable judge: {reasons}" if reasons else "both oracles can judge"


@dataclass(frozen=True)
class Edit:
    """One method at one strength.

    `apply(x, to)` gives the edited states; the edit `flips` towards `to`, or else it erases."""

    method: str
    symbol: str
    strength: float
    apply: Callable[[Tensor, Tensor], Tensor]
    flips: bool


def prepare(
    model: str | Model,
    data: str = "generated",
    n: int = 16_000,
    layer: int = -1,
    attractors: float | None = 0.5,
    seed: int = 0,
) -> AgreementSetting:
    """Load sentences, embed them at [MASK], split them 40/40/20 (§ 4.2)."""
    lm = as_model(model)
    table = agreement.load(data, n, seed, lm.tokenizer, attractors)
    h = place_states(embed(table.text, lm, layer=layer, at="[MASK]"))
    zc, ze = (torch.tensor(table[name].to_numpy(), device=h.device) for name in ("zc", "ze"))
    split = agreement.split(table, seed=seed)
    parts = {name: torch.tensor(rows, device=h.device) for name, rows in split.items()}
    return AgreementSetting(lm, layer, table, h, zc, ze, parts, seed)


def perceptrons(
    s: AgreementSetting,
    z: Tensor,
    rows: Tensor,
    valid: Tensor,
    layers: Sequence[int] = (1, 2),
    widths: Sequence[int] = (64, 256),
    lrs: Sequence[float] = (3e-4, 1e-3),
) -> Panel:
    """Train a grid of perceptrons on `rows`, to judge together; rows with z −1 are left out.

    `z` are labels of all sentences; accuracies are measured on `valid`. The grid (`layers`: numbers
    of hidden layers) is cached, so that the pages of a chapter train it once."""
    rows, valid = rows[z[rows] >= 0], valid[z[valid] >= 0]
    grid = MLPProbe.grid(layers, widths, lrs, [s.seed])
    examples = s.h[rows], z[rows], s.h[valid], z[valid]
    data = digest(dict(zip(("h", "z", "h_valid", "z_valid"), examples)))
    key = ["panel", [asdict(cell) for cell in grid.cells], data]
    path = cache_path() / "probes" / f"{key_name(key)}.safetensors"
    return read_or_make(path, _load_panel, lambda: Panel(tuple(grid.fit_all(*examples))), save)


def perceptron(
    s: AgreementSetting, z: Tensor, rows: Tensor, valid: Tensor, **grid: Sequence
) -> FittedMLP:
    """The best of the `perceptrons` on `valid`: one probe, to be attacked or to read states."""
    return perceptrons(s, z, rows, valid, **grid).best()


def _load_panel(path: Path) -> Panel | None:
    """The perceptrons in a file; None if the file is missing or damaged."""
    try:
        return load_fitted(path)
    except UserError:
        return None


def linear_probe(s: AgreementSetting, z: Tensor, rows: Tensor, valid: Tensor) -> LinearProbe:
    """Train the linear probe whose inverse penalty does best on `valid`; z −1 is left out.

    The paper chooses a learning rate (appendix B); the optimum of the loss needs none."""
    rows, valid = rows[z[rows] >= 0], valid[z[valid] >= 0]
    fitted = [LinearProbe(C).fit(s.h[rows], z[rows]) for C in (0.01, 0.1, 1.0)]
    return max(fitted, key=lambda probe: accuracy(probe, s.h[valid], z[valid]))


def verb_choice(table: pd.DataFrame, lm: str | Model) -> pd.DataFrame:
    """Count how often a model prefers the right form of the verb to the other one at [MASK].

    One row per cell. Columns zc, ze, and of `measures.intervals.rate`: share, low, high (95 %) and
    n; sentences of one work count as a group. UserError: a form is not a single token of the
    model."""
    right, wrong = word_logits(table.text, lm, table[["verb", "other_verb"]].values.tolist()).T
    scored = table.assign(right=to_numpy(right > wrong))
    groups = scored["work"].where(scored["work"] != "", scored["text"])
    cells = scored.groupby(["zc", "ze"])
    return pd.DataFrame(
        {"zc": zc, "ze": ze, **rate(cell.right, groups[cell.index])._asdict()}
        for (zc, ze), cell in cells
    )


@dataclass(frozen=True)
class CachedAttack:
    """An attack on a fitted perceptron whose edits are cached: pages search for each of them once.

    It is called as the attack itself: `CachedAttack(PGD(probe)).at(eps=.1)(h, to=to)`."""

    attack: Attack

    def at(self, eps: float) -> CachedAttack:
        """The same attack with another radius ε ≥ 0."""
        return CachedAttack(self.attack.at(eps=eps))

    def __call__(self, h: Tensor, to: Tensor) -> Tensor:
        """Edited states [n, d]."""
        settings = {field.name: getattr(self.attack, field.name) for field in fields(self.attack)}
        probe = settings.pop("probe")
        layers = {
            f"{kind} {i}": part
            for kind in ("weights", "biases")
            for i, part in enumerate(getattr(probe, kind))
        }
        data = digest({"h": h, "to": to, "mean": probe.mean, "std": probe.std, **layers})
        key = [type(self.attack).__name__, settings, data]
        return load_or_compute("attacks", key, lambda: {"edited": self.attack(h, to)})["edited"].to(
            h.device
        )

    def failed(self, edited: Tensor, to: Tensor) -> Tensor:
        """Which edited states the probe does not put into class `to`: bool [n]."""
        return self.attack.failed(edited, to)


def accuracy(probe: Probe, h: Tensor, z: Tensor) -> float:
    """Compute the share of rows whose largest logit is the label's; of a panel, the mean."""
    return float((probe(h).argmax(-1) == z).double().mean())


def uncorrelated_rows(s: AgreementSetting, name: str, part: str) -> Tensor:
    """The largest set of rows of a part on which Z_c and Z_e do not correlate, for one oracle.

    They keep the label shares of the property `name`, "zc" or "ze". For Z_c, "no attractor" counts
    as a third value of Z_e, so that its oracle also knows sentences without one."""
    rows = s.parts[part]
    zc, ze = s.zc[rows], s.ze[rows]
    chosen = agreement.decorrelate(zc, ze + 1) if name == "zc" else agreement.decorrelate(ze, zc)
    if not len(chosen):
        raise UserError(
            f"the two numbers always go together in the sentences of {part}: give "
            "more sentences, or data with all four cells of Z_c and Z_e"
        )
    return rows[chosen]


def oracles(
    s: AgreementSetting, train: Callable[..., Probe] = perceptrons, fewest: int = 500, **settings
) -> Judges:
    """Train and evaluate oracle probes on sentences where Z_c and Z_e do not correlate.

    The paper judges by the perceptron with the best validation accuracy. Many tie there, and
    rounding decides; so all that can judge do, and their scores are averaged.

    - `train`: `perceptrons` (figures 1–3) or `linear_probe` (figures 4–6); `perceptron` for one;
      with `settings`
    - `fewest`: an oracle with fewer training sentences does not judge (`evaluate_oracles`); 0 lets
      every oracle judge, to try code on a few sentences or a model that knows nothing"""
    probes, rows = {}, {}
    for name in ("zc", "ze"):
        trained, valid = uncorrelated_rows(s, name, "oracle"), _choosing(s, name, fewest)
        probe = train(s, getattr(s, name), trained, valid, **settings)
        probes[name], rows[name] = _examine(s, name, probe, fewest)
    return Judges(**probes, report=pd.DataFrame(rows.values(), index=[*rows]))


def _choosing(s: AgreementSetting, name: str, fewest: int) -> Tensor:
    """Rows on which an oracle is chosen; without a cell of the two numbers, and `fewest` 0, all."""
    try:
        return uncorrelated_rows(s, name, "oracle_valid")
    except UserError:
        if fewest:
            raise
        return s.parts["oracle_valid"]


def evaluate_oracles(
    s: AgreementSetting, probes: Mapping[str, Probe], fewest: int = 500
) -> pd.DataFrame:
    """Can these oracles judge? One row for each of "zc" and "ze".

    - property; trained, tested: uncorrelated sentences of the oracle's part and of the test part
    - tried, judges: probes of the oracle, and those of them that can judge
    - accuracy: on the tested sentences, the mean of those that can judge (of all, if none can);
      low, high: from the lowest to the highest end of their 95 % intervals (over nouns where they
      are known)
    - majority: accuracy of always giving the more frequent label
    - wrong_rule: accuracy of the better of two rules that read the other property, "the same
      number" and "the opposite number"
    - usable: at least `fewest` training sentences, and a probe whose interval lies above majority
      and wrong rule; else reason says why not
    """
    rows = [_examine(s, name, probe, fewest)[1] for name, probe in probes.items()]
    return pd.DataFrame(rows, index=[*probes])


def _examine(s: AgreementSetting, name: str, probe: Probe, fewest: int) -> tuple[Probe, dict]:
    """An oracle without the members that cannot judge, and its row of `evaluate_oracles`."""
    noun, other = {"zc": ("subject", "ze"), "ze": ("attractor", "zc")}[name]
    trained = len(uncorrelated_rows(s, name, "oracle"))
    test = uncorrelated_rows(s, name, "test")
    z, elsewhere = getattr(s, name)[test], getattr(s, other)[test]
    nouns = s.table[noun].to_numpy()[to_numpy(test)]
    right = (probe(s.h[test]).argmax(-1) == z).reshape(-1, len(z))
    groups = nouns if (nouns != "").all() else None
    scores = pd.DataFrame([rate(to_numpy(one.double()), groups) for one in right])
    same = float((elsewhere == z)[elsewhere >= 0].double().mean())
    majority = float(z.bincount().max() / len(z))
    baseline = max(majority, same, 1 - same)
    able = scores.low > baseline if fewest else scores.low >= 0
    reason, best = "", scores.loc[scores.low.idxmax()]
    if trained < fewest:
        reason = f"{trained} training sentences, fewer than {fewest}"
    elif not able.any():
        reason = (
            f"right in {best.share:.0%} of uncorrelated sentences (interval from "
            f"{best.low:.0%}), and a rule without it in {baseline:.0%}"
        )
    if isinstance(probe, Panel) and able.any():
        probe = Panel(tuple(one for one, can in zip(probe.members, able) if can))
    counted = scores[able] if able.any() else scores
    return probe, {
        "property": f"number of the {noun}",
        "trained": trained,
        "tested": len(test),
        "tried": len(scores),
        "judges": int(able.sum()),
        "accuracy": float(counted.share.mean()),
        "low": float(counted.low.min()),
        "high": float(counted.high.max()),
        "majority": majority,
        "wrong_rule": max(same, 1 - same),
        "usable": not reason,
        "reason": reason,
    }


def oracle_report(judges: Mapping[str, Judges]) -> pd.DataFrame:
    """Join the reports on several pairs of oracles, by name: a row for each oracle and property."""
    tables = [
        pair.report.assign(oracle=name, usable=pair.report.usable.astype(int))
        for name, pair in judges.items()
    ]
    return pd.concat(tables, ignore_index=True)


def why_unusable(judges: Mapping[str, Judges]) -> str:
    """Say why scores by these oracles would mean nothing; "" if every one of them can judge."""
    for name, pair in judges.items():
        if not pair.report.usable.all():
            return (
                f"{pair} ({name}); the page rests on scores by these oracles: give more "
                "sentences, another model or another layer"
            )
    return ""


def target(s: AgreementSetting, **settings) -> FittedMLP:
    """The probe that the attacks work on: a perceptron for Z_c trained on the intervention part."""
    return perceptron(s, s.zc, s.parts["intervention"], s.parts["intervention_valid"], **settings)


@torch.no_grad()
def score_edit(
    s: AgreementSetting, judges: Judges, edited: Tensor, rows: Tensor, to: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Score the edited states [n, d] of `rows` by a pair of oracles; `to`: wanted labels of a flip.

    Returns completeness [m, n] and selectivity [m', n] by each of m and m' judges (NaN: no
    attractor); NaN throughout where the oracle is not usable."""
    before = s.h[rows]
    c = completeness(judges.zc(edited).softmax(-1), to=to).reshape(-1, len(rows))
    some = s.ze[rows] >= 0
    kept = selectivity(judges.ze(edited[some]).softmax(-1), judges.ze(before[some]).softmax(-1))
    kept = kept.reshape(-1, int(some.sum()))
    selective = c.new_full((len(kept), len(rows)), torch.nan)
    if judges.usable("ze"):
        selective[:, some] = kept
    return c if judges.usable("zc") else torch.full_like(c, torch.nan), selective


def means(c: Tensor, s: Tensor) -> dict[str, float]:
    """Average scores as in Table 3: completeness, selectivity without NaN, their harmonic mean."""
    c, s = c.mean(), s.nanmean()
    return dict(zip(MEASURES, (float(c), float(s), float(reliability(c, s)))))


def intervals(
    c: Tensor, s: Tensor, n: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, float]:
    """Bootstrap the three `means` (percentiles): `<measure>_low`, `<measure>_high`.

    Each of `n` draws takes as many judges as there are, with replacement, from `c` [m, n] and from
    `s` [m', n], and as many sentences, each with both of its scores; selectivity averages over the
    drawn sentences that have an attractor."""
    rng = np.random.default_rng(seed)
    sentences = rng.multinomial(c.shape[-1], np.full(c.shape[-1], 1 / c.shape[-1]), n)

    def draws(scores: Tensor) -> np.ndarray:
        by_judge = to_numpy(scores).reshape(-1, scores.shape[-1])
        judges = rng.multinomial(len(by_judge), np.full(len(by_judge), 1 / len(by_judge)), n)
        counted = ~np.isnan(by_judge[0])
        weights = sentences[:, counted]
        means = weights @ by_judge[:, counted].T / weights.sum(1, keepdims=True)
        return (means * judges).sum(1) / len(by_judge)

    complete, kept = draws(c), draws(s)
    drawn = (complete, kept, to_numpy(reliability(complete, kept)))
    ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=1)
    return {
        f"{name}_{side}": float(value)
        for side, values in zip(("low", "high"), ends)
        for name, value in zip(MEASURES, values)
    }


def sweep(
    s: AgreementSetting, judges: Mapping[str, Judges], edits: Iterable[Edit], part: str = "test"
) -> pd.DataFrame:
    """Apply every edit to a part once and judge it by every pair of oracles: one row each.

    Columns oracle, method, symbol, strength, and the three measures. An edit that flips is asked
    for the other number."""
    rows = s.parts[part]
    x, to = s.h[rows], 1 - s.zc[rows]
    records = []
    for edit in edits:
        edited = edit.apply(x, to)
        for name, pair in judges.items():
            scores = means(*score_edit(s, pair, edited, rows, to if edit.flips else None))
            about = {"oracle": name, "method": edit.method, "symbol": edit.symbol}
            records.append({**about, "strength": edit.strength, **scores})
    return pd.DataFrame(records)


def best_strengths(validated: pd.DataFrame, scored: pd.DataFrame) -> pd.DataFrame:
    """Choose each method's most reliable strength on the sentences of `validated`, by oracle, and
    return the rows of `scored`, its scores on other sentences.

    Methods that no usable oracle judged are left out."""
    by = ["oracle", "method"]
    top = best_rows(validated, by, "reliability")[[*by, "strength"]]
    return top.merge(scored, on=[*by, "strength"], validate="one_to_one")


def number_axes(s: AgreementSetting) -> Tensor:
    """Find two orthonormal axes [d, 2]: towards plural subjects, towards plural attractors.

    Differences of class means in the intervention part; the first is taken out of the second."""
    fit = s.parts["intervention"]
    h = s.h[fit]
    ways = torch.stack([h[z[fit] == 1].mean(0) - h[z[fit] == 0].mean(0) for z in (s.zc, s.ze)], 1)
    axes = torch.linalg.qr(ways)[0]
    return axes * (axes * ways).sum(0).sign()


def on_axes(s: AgreementSetting, axes: Tensor, rows: Tensor, edited: Tensor) -> pd.DataFrame:
    """States of `rows` before and after an edit as points, for `before_and_after`."""
    label = np.array(["singular subject", "plural subject"])[to_numpy(s.zc[rows])]
    parts = [
        pd.DataFrame(to_numpy(states @ axes), columns=["x", "y"]).assign(when=when, label=label)
        for when, states in (("before", s.h[rows]), ("after", edited))
    ]
    plane = pd.concat(parts, ignore_index=True)
    plane.attrs = {"x": "towards plural subjects", "y": "towards plural attractors"}
    return plane


def follow(
    at: Mapping[int, AgreementSetting],
    judges: Mapping[int, Judges],
    layer: int,
    edits: Sequence[Edit],
    rows: Tensor,
    push: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> pd.DataFrame:
    """Score edits of some sentences at [MASK] where they are made and where they arrive.

    - `at`, `judges`: the sentences and their oracles by layer; the highest is the model's last
    - `layer`: where the edits are made
    - `push`: maps states and edited states to other ones in place of these (a control, "random")

    Two rows for each edit. Columns method, layer, strength, directions ("learned" or "random"),
    other verb (share of the sentences in which the head prefers the form that does not fit the
    subject), judged ("at its layer" or "at the last layer"), and the three measures."""
    s, end = at[layer], max(at)
    x, to, table = s.h[rows], 1 - s.zc[rows], s.table.iloc[to_numpy(rows)]
    texts, forms = list(table.text), table[["other_verb", "verb"]].to_numpy().tolist()
    edited = torch.stack([edit.apply(x, to) for edit in edits])
    if push:
        edited = torch.stack([push(x, states) for states in edited])
    records = []
    for edit, here, there in zip(edits, edited, carry(texts, s.lm, layer, "[MASK]", edited)):
        other = word_logits(texts, s.lm, forms, h=there).argmax(1) == 0
        about = {
            "method": edit.method,
            "layer": layer,
            "strength": edit.strength,
            "directions": "random" if push else "learned",
            "other verb": float(other.double().mean()),
        }
        for name, k, states in (("at its layer", layer, here), ("at the last layer", end, there)):
            scores = means(*score_edit(at[k], judges[k], states, rows, to if edit.flips else None))
            records.append(about | {"judged": name} | scores)
    return pd.DataFrame(records)


def erasures(method: str, fitted: Mapping[int, Callable]) -> list[Edit]:
    """Make the edits that erase, one per rank, from rank → fitted edit."""
    return [
        Edit(method, "rank", rank, partial(lambda edit, x, to: edit(x), edit), False)
        for rank, edit in fitted.items()
    ]


def flips(method: str, symbol: str, fitted: Mapping[float, Callable]) -> list[Edit]:
    """Make the edits towards the other label, one per strength, from strength → fitted edit."""
    return [
        Edit(method, symbol, strength, partial(lambda edit, x, to: edit(x, to=to), edit), True)
        for strength, edit in fitted.items()
    ]
