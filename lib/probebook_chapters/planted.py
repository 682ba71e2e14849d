"""States in which a concept was planted, or was not: worlds to try an audit on.

world = planted.world("shortcut", n=2_000, seed=0)      # h, pair, label, other, group, head"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from probebook.base import UserError, check_choice, read_yaml


@dataclass(frozen=True)
class Kind:
    """A kind of world, as planted.yaml has it; `what` in words, `fits`: the verdicts that fit."""

    what: str
    fits: Sequence[str]
    source: str = ""
    goes_with: float = 0.5
    held: bool = True
    uses: int = 0


KINDS = {
    name: Kind(**kind) for name, kind in read_yaml(Path(__file__).with_suffix(".yaml")).items()
}
USED = "used"  # the one in which an edit may pass
TEXTS = ("length", "length, noisy", "three lengths", "one word", "punctuation", "capitals")
FEW = 160  # items of "few"
FEW_GROUPS = 12
WRONG = 0.03  # share of wrong labels in "length, noisy"


@dataclass(frozen=True)
class Planted:
    """One world's items. `known`: name → [n], what else is known of them, a number or the code of a
    category."""

    h: np.ndarray  # [n, d] float32, states
    pair: np.ndarray  # [n, d] float32, states of the rewritten items
    label: np.ndarray  # [n], the concept as labelled, 0 or 1
    other: np.ndarray  # [n], a property that should stay, 0 or 1
    group: np.ndarray  # [n], ten items each
    head: np.ndarray  # [2, d], log-odds of the model's two choices are `head @ h`
    moved: float  # total variation by which rewriting moves the choice, over all possible items
    text: list[str] | None = None  # of the worlds that have texts
    known: Mapping[str, np.ndarray] = field(default_factory=dict)


def world(
    kind: str,
    n: int = 2000,
    seed: int = 0,
    d: int = 24,
    margin: float = 2.0,
    weight: float = 1.0,
    base: np.ndarray | None = None,
    rare: float = 0.5,
) -> Planted:
    """A world of one of `KINDS`; `rare` is the share of label 1 where it is drawn.

    A state is noise, plus ±`margin` along a direction for the concept, plus as much along another
    one for the property that should stay. Noise is Gaussian, or the rows of `base` [m, d], the
    states of a real model, standardised; then d is theirs. The model's log-odds are ±`weight`
    times the state's place along the direction that it uses. UserError: no such kind, or fewer
    than `n` rows."""
    check_choice(kind, "world", KINDS)
    if base is not None and len(base) < n:
        raise UserError(f"{len(base)} states as noise for {n} items: give one for each")
    rng = np.random.default_rng([seed, [*KINDS].index(kind)])
    n = FEW if kind == "few" else n // 10 * 10
    many = FEW_GROUPS if kind == "few groups" else n // 10
    group: np.ndarray = np.arange(n) * many // n
    if base is None:
        noise = rng.standard_normal((n, d))
    else:
        rows = rng.permutation(len(base))[:n]
        noise, d = (base - base.mean(0))[rows] / base.std(0).mean(), base.shape[1]
    axes = np.linalg.qr(rng.standard_normal((d, 4)))[0].T
    concept, text, known = _concept(kind, group, rare, rng)
    of = KINDS[kind]
    other = np.where(rng.random(n) < of.goes_with, concept, 1 - concept)
    along, beside = (_signs(one)[:, None] * axis for one, axis in zip((concept, other), axes))
    if kind == "three lengths":
        along = 2 * axes[[0, 2, 3]][concept]
    if kind == "unnamed":
        hidden = np.where(rng.random(n) < 0.9, concept, 1 - concept)
        beside = beside + _signs(hidden)[:, None] * axes[2]
    if kind == "xor":
        first = rng.integers(0, 2, n)
        both = np.stack([first, np.where(concept == 1, 1 - first, first)])
        beside = beside + _signs(both[1])[:, None] * axes[3]
        along = _signs(both[0])[:, None] * axes[0]
    groups = rng.standard_normal((many, d))[group]
    rest = noise + margin * (groups if kind in ("leaking", "few groups") else beside)
    h, pair = rest + of.held * margin * along, rest - of.held * margin * along
    head = weight * np.stack([-axes[of.uses], axes[of.uses]])
    moved = 0.0
    if of.held and of.uses == 0:
        places, share = np.polynomial.hermite_e.hermegauss(80)  # of a standard normal
        if base is not None:
            places = ((base - base.mean(0)) / base.std(0).mean()) @ axes[0]
            share = np.ones(len(base))
        moved = float(np.average(_moved(places, margin, weight), weights=share))
    label = rng.integers(0, 2, n) if kind == "noisy" else concept
    if kind == "length, noisy":
        label = np.where(rng.random(n) < WRONG, 1 - concept, concept)
    return Planted(
        h.astype(np.float32),
        pair.astype(np.float32),
        label,
        other,
        group,
        head.astype(np.float32),
        moved,
        text,
        known,
    )


def _signs(values: np.ndarray) -> np.ndarray:
    return 2 * values - 1


def _concept(
    kind: str, group: np.ndarray, rare: float, rng: np.random.Generator
) -> tuple[np.ndarray, list[str] | None, dict[str, np.ndarray]]:
    """The concept of each item, 0, 1 (or 2), and what gives it away: texts, what is known."""
    n, many = len(group), int(group[-1]) + 1
    concept: np.ndarray = (rng.random(n) < rare).astype(int)
    if kind in ("leaking", "few groups"):
        return (rng.permutation(many) % 2)[group], None, {}
    if kind == "author":
        author: np.ndarray = group // 5
        return (rng.permutation(author[-1] + 1) % 2)[author], None, {"author": author}
    if kind == "position":
        place = np.arange(n)
        return (place >= n / 2).astype(int), None, {"position in the file": place.astype(float)}
    if kind not in TEXTS:
        return concept, None, {}
    words = rng.integers(5, 25, n)
    marked = rng.integers(0, words + 1) if kind in ("punctuation", "capitals") else 0 * words
    if kind == "three lengths":
        concept = np.digitize(words, [11, 18])
    elif kind == "capitals":
        concept = (marked > words / 2).astype(int)
    elif kind != "one word":
        number = marked if kind == "punctuation" else words
        concept = (number >= np.quantile(number, 1 - rare, method="higher")).astype(int)
    texts = []
    for end, size, first, one in zip(np.cumsum(words), words, marked, concept):
        text = [f"w{i}" for i in range(end - size, end)]  # a word stands in one text alone
        change = str.upper if kind == "capitals" else "{},".format
        text = ["moreover"] * (one if kind == "one word" else 0) + [
            *map(change, text[:first]),
            *text[first:],
        ]
        texts.append(" ".join(text))
    return concept, texts, {}


def _moved(places: np.ndarray, margin: float, weight: float) -> np.ndarray:
    """σ(2w(x + m)) − σ(2w(x − m)): how far rewriting moves the choice where the noise is at x."""
    low, high = (1 / (1 + np.exp(-2 * weight * (places + side * margin))) for side in (-1, 1))
    return high - low
