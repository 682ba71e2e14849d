"""States in which a concept was planted, or was not: worlds to try an audit on.

world = planted.world("shortcut", n=2_000, seed=0)      # h, pair, label, other, group, head"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probebook.base import UserError

KINDS = {
    "absent": "the states know nothing of the label",
    "unused": "the states hold the concept, the model's choice does not depend on it",
    "another used": "the model uses a property that goes with the concept, not the concept",
    "shortcut": "the states hold only a property that goes with the label in nine of ten items",
    "noisy": "the states hold the concept, the labels are random",
    "few": "the concept is there and used, but there are few items",
    "leaking": "the states know the group, and the groups have labels",
    "used": "the states hold the concept, and the model's choice depends on it",
}
RELIABLE = "used"  # the one in which an edit can be called reliable
FEW = 160  # items of "few"


@dataclass(frozen=True)
class Planted:
    """One world's items.

    - `h`, `pair` [n, d] float32: states, and those of the rewritten items
    - `label`, `other` [n]: the concept as labelled, and a property that should stay; 0 or 1
    - `group` [n]: ten items each
    - `head` [2, d]: log-odds of the model's two choices are `head @ h`
    - `moved`: total variation by which rewriting moves the model's choice, over all possible
      items"""

    h: np.ndarray
    pair: np.ndarray
    label: np.ndarray
    other: np.ndarray
    group: np.ndarray
    head: np.ndarray
    moved: float


def world(
    kind: str,
    n: int = 2000,
    seed: int = 0,
    d: int = 24,
    margin: float = 2.0,
    weight: float = 1.0,
    base: np.ndarray | None = None,
) -> Planted:
    """A world of one of `KINDS`.

    A state is noise, plus ±`margin` along a direction for the concept, plus as much along another
    one for the property that should stay. Noise is Gaussian, or the rows of `base` [m, d], the
    states of a real model, standardised; then d is theirs. The model's log-odds are ±`weight`
    times the state's place along the direction that it uses. UserError: no such kind, or fewer
    than `n` rows."""
    if kind not in KINDS:
        raise UserError(f"no world {kind!r}: {', '.join(KINDS)}")
    if base is not None and len(base) < n:
        raise UserError(f"{len(base)} states as noise for {n} items: give one for each")
    rng = np.random.default_rng([seed, [*KINDS].index(kind)])
    n = FEW if kind == "few" else n // 10 * 10
    group: np.ndarray = np.repeat(np.arange(n // 10), 10)
    if base is None:
        noise = rng.standard_normal((n, d))
    else:
        rows = rng.permutation(len(base))[:n]
        noise, d = (base - base.mean(0))[rows] / base.std(0).mean(), base.shape[1]
    axes = np.linalg.qr(rng.standard_normal((d, 3)))[0].T
    concept, label, other = _labels(kind, group, rng)
    along, beside = ((2 * one - 1)[:, None] * axis for one, axis in zip((concept, other), axes))
    held = kind not in ("absent", "shortcut", "leaking")
    rest = noise + margin * (
        beside if kind != "leaking" else rng.standard_normal((n // 10, d))[group]
    )
    h, pair = rest + held * margin * along, rest - held * margin * along
    used = {"unused": 2, "another used": 1, "shortcut": 1}.get(kind, 0)
    head = weight * np.stack([-axes[used], axes[used]])
    moved = 0.0
    if held and not used and base is None:
        places, share = np.polynomial.hermite_e.hermegauss(80)  # of a standard normal
        moved = float(_moved(places, margin, weight) @ share / share.sum())
    elif held and not used and base is not None:
        places = ((base - base.mean(0)) / base.std(0).mean()) @ axes[0]
        moved = float(_moved(places, margin, weight).mean())
    return Planted(
        h.astype(np.float32),
        pair.astype(np.float32),
        label,
        other,
        group,
        head.astype(np.float32),
        moved,
    )


def _labels(
    kind: str, group: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The concept, its labels, and the property that should stay: 0 or 1 for each item."""
    n = len(group)
    concept = rng.integers(0, 2, n)
    if kind == "leaking":
        concept = (rng.permutation(n // 10) % 2)[group]
    goes_with = {"shortcut": 0.9, "another used": 0.7}.get(kind, 0.5)
    other = np.where(rng.random(n) < goes_with, concept, 1 - concept)
    return concept, rng.integers(0, 2, n) if kind == "noisy" else concept, other


def _moved(places: np.ndarray, margin: float, weight: float) -> np.ndarray:
    """σ(2w(x + m)) − σ(2w(x − m)): how far rewriting moves the choice where the noise is at x."""
    low, high = (1 / (1 + np.exp(-2 * weight * (places + side * margin))) for side in (-1, 1))
    return high - low
