"""A reader's own edit under chapter 6's yardsticks, beside the book's methods, in fresh worlds.

The contract: `method.fit(h, z)` learns from states [n, d] and labels [n] of 0 and 1 and returns a
fitted edit; `edit(h, to=z)` gives the states moved to the labels `to`. If the edit has `at`,
`edit.at(s)` is the edit at strength s.

Fresh worlds have a seed that no file knows, and coordinates of their own: states are turned by a
random rotation, which changes nothing for an edit that has learned from them, and everything for
one that remembers states. The book's worlds, with seed 0, stand beside them."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probebook.base import UserError, bounded
from probebook.interventions import shuffled
from probebook.measures.intervals import mean_over_seeds
from probebook_chapters import across, causal_probing, concept_effects
from probebook_chapters.causal_probing import Edit

WORLDS = ("agreement", "reviews", "biographies", "stories")
BOOK = 0  # the seed with which the book is built
STRENGTHS = (0.5, 1.0, 2.0, 4.0)
GRID: dict[str, Any] = dict(
    ranks=(1, 4),
    alphas=(1, 4, 16),
    strengths=STRENGTHS,
    radii=(0.25, 0.5, 1),
    queries=20,
    sae_steps=100,
)
FALL = 0.2  # of the share explained, from the book's worlds to fresh ones
FEWEST = 300  # training sentences that an oracle needs
ORACLES: dict[str, Any] = dict(layers=(1,), widths=(64,), lrs=(1e-2,))
SCORES = ["explained", "random", "follows", "closeness", "kept", "removed", "reliable"]
LEGEND = {
    "explained": "of what rewriting the text does to the model's choice; by doing nothing: 0",
    "low, high": "95 % interval of that over the fresh worlds",
    "book": "explained in the book's own world",
    "random": "explained by random edits of the same length",
    "follows": "texts in which the model then chooses as for the rewritten text",
    "closeness": "of the way to the rewritten text's state; below 0: farther off than before",
    "kept": "of the choices that should stay",
    "removed": "of the dependence that the selection of texts left in the model's choice",
    "reliable": "reliability by usable oracle probes, at its best strength",
}


def load(path: str | Path) -> Any:
    """The method in a Python file: what is named `method`, else its one class with `fit`.

    UserError: no such file, one that cannot be run, none or several such classes."""
    path = bounded(path)
    if path.suffix != ".py" or not path.exists():
        raise UserError(f"{path}: give a Python file with a class that has fit(h, z)")
    spec = importlib.util.spec_from_file_location("probebook_own_method", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    with _own(path):
        spec.loader.exec_module(module)
    if hasattr(module, "method"):
        found = [module.method]
    else:
        found = [
            one
            for one in vars(module).values()
            if isinstance(one, type)
            and one.__module__ == spec.name
            and callable(getattr(one, "fit", None))
        ]
    if len(found) != 1 or not callable(getattr(found[0], "fit", None)):
        raise UserError(
            f"{path} has {len(found)} classes with fit(h, z): give one, or name the object `method`"
        )
    with _own(path):
        return found[0]() if isinstance(found[0], type) else found[0]


@contextmanager
def _own(path: Path) -> Iterator[None]:
    """What goes wrong in the reader's own code is said in one line, with the line where it is."""
    try:
        yield
    except UserError:
        raise
    except Exception as e:
        own = [
            frame.lineno
            for frame in traceback.extract_tb(e.__traceback__)
            if frame.filename == str(path)
        ]
        line = e.lineno if isinstance(e, SyntaxError) else own[-1] if own else None
        where = f"{path}, line {line}" if line else str(path)
        raise UserError(f"{where}: {type(e).__name__}: {' '.join(str(e).split())[:200]}") from None


def _fitted(method: Any, path: Path, h: Tensor, z: Tensor) -> dict[float, Callable]:
    """Strength → edit, of a method fitted on copies of states and labels; every edit is checked."""
    with _own(path):
        edit = method.fit(h.clone(), z.clone())
        edits = {s: edit.at(s) for s in STRENGTHS} if hasattr(edit, "at") else {1.0: edit}
    if not all(map(callable, edits.values())):
        raise UserError(
            f"{path}: fit(h, z) gave {type(edit).__name__}, which cannot be called: "
            "return an edit with __call__(h, to)"
        )

    def checked(edit: Callable) -> Callable:
        def apply(x: Tensor, to: Tensor) -> Tensor:
            with _own(path):
                after = torch.as_tensor(edit(x.clone(), to=to.clone()))
            if after.shape != x.shape or not after.isfinite().all():
                raise UserError(
                    f"{path}: edit(h, to=z) gave the shape {[*after.shape]} or values "
                    f"that are not finite, for states {[*x.shape]}: give as many "
                    "finite states"
                )
            return after.detach().to(x)

        return apply

    return {s: checked(edit) for s, edit in edits.items()}


def disguised(world: across.World, seed: int) -> across.World:
    """The same world in other coordinates: all states are turned by one random rotation."""
    rng = np.random.default_rng(seed)
    turn = torch.from_numpy(np.linalg.qr(rng.normal(size=(world.h.shape[1],) * 2))[0])

    def there(h: Tensor) -> Tensor:
        return (h.double() @ turn).to(h)

    def back(h: Tensor) -> Tensor:
        return (h.double() @ turn.T).to(h)

    def judged(edited: Tensor, rows: Tensor, to: Tensor | None) -> float:
        assert world.judged is not None
        return world.judged(back(edited), rows, to)

    aside = world.aside and (there(world.aside[0]), world.aside[1])
    return replace(
        world,
        h=there(world.h),
        partner=there(world.partner),
        aside=aside,
        judged=world.judged and judged,
        probs=lambda h, rows: world.probs(back(h), rows),
        logits=lambda h: world.logits(back(h)),
    )


def world(
    name: str,
    seed: int,
    n: int = 2000,
    n_judged: int = 200,
    n_reviews: int = 300,
    n_stories: int = 100,
) -> across.World:
    """One of `WORLDS`: n sentences, reviews of food, biographies, or stories."""
    if name == "agreement":
        s = causal_probing.prepare("pocket-agreement", n=n, seed=seed)
        return replace(across.agreement(s, n_judged), judged=_oracles(s))
    if name == "reviews":
        reviews = concept_effects.prepare("reviews", n_reviews, "5-way", seed)
        (box,) = concept_effects.black_boxes(
            reviews, "pocket-english", [seed], epochs=3, lr=2e-3, batch=16, trained_layers=2
        )
        return across.reviews(reviews, box, "food")
    if name == "biographies":
        return across.biographies_world("pocket-biographies-s75", seed=seed)
    if name == "stories":
        return across.stories_world("pocket-stories-ibt", n_stories, seed + 5)
    raise UserError(f"world {name!r}: one of {', '.join(WORLDS)}")


def _oracles(s: causal_probing.Setting) -> Callable[[Tensor, Tensor, Tensor | None], float] | None:
    """Paper 1's reliability by oracles of these sentences; None: one of them is not usable."""
    try:
        oracles = causal_probing.oracles(s, fewest=FEWEST, **ORACLES)
    except UserError:  # a cell of the numbers is empty
        return None
    if causal_probing.unusable({"oracle": oracles}):
        return None
    return lambda edited, rows, to: causal_probing.means(
        *causal_probing.judge(s, oracles, edited, rows, to)
    )["reliability"]


def _reliable(world: across.World, tried: Sequence[Edit]) -> dict[str, float]:
    """Each method's reliability on the part "test", at the strength with the best one on "valid";
    empty without usable oracles."""
    if world.judged is None:
        return {}

    def score(edit: Edit, part: str) -> float:
        rows = world.parts[part]
        to = 1 - world.z[rows]
        assert world.judged is not None
        return world.judged(edit.apply(world.h[rows], to), rows, to if edit.flips else None)

    best: dict[str, tuple[float, Edit]] = {}
    for edit in tried:
        found = score(edit, across.VALID)
        if edit.method not in best or found > best[edit.method][0]:
            best[edit.method] = found, edit
    return {name: score(edit, across.TEST) for name, (_, edit) in best.items()}


def judged(method: Any, path: Path, world: across.World, seed: int) -> pd.DataFrame:
    """`across.measured` of a reader's method, of the same on shuffled labels (a control), and of
    the book's methods, in one world; and what paper 1's oracles find (reliable)."""
    rows, name = world.parts[across.FIT], path.name
    x, z = world.h[rows], world.z[rows]
    tried: list[Edit] = []
    for label, labels in ((name, z), (f"{name}, shuffled labels", shuffled(z, seed=seed))):
        tried += causal_probing.flips(label, "s", _fitted(method, path, x, labels))
    tried += across.edits(world, seed, **GRID)
    found = across.measured(world, across.chosen(world, tried), seed, draws=2)
    return found.reindex(columns=[*found, *({*SCORES} - {*found})]).assign(
        reliable=pd.Series(_reliable(world, tried), dtype=float)
    )


def run(
    method: Any,
    path: Path,
    names: Sequence[str],
    seeds: Sequence[int],
    say: Callable[[str], None] = print,
    **sizes: int,
) -> pd.DataFrame:
    """Scores in the book's worlds (seed `BOOK`) and in a fresh one for each seed: columns world,
    seed, fresh, method, and `SCORES`. `say` is told what is being done."""
    found = []
    for name in names:
        for seed in (BOOK, *seeds):
            fresh = seed != BOOK
            say(f"{name}: " + (f"a fresh world, seed {seed}" if fresh else "the book's world"))
            made = world(name, seed, **sizes)
            scores = judged(method, path, disguised(made, seed) if fresh else made, seed)
            found.append(scores[SCORES].reset_index().assign(world=name, seed=seed, fresh=fresh))
    return pd.concat(found, ignore_index=True)


def table(scores: pd.DataFrame, name: str) -> pd.DataFrame:
    """One row for each world and method: mean scores of fresh worlds, with the interval of what is
    explained over seeds, and what is explained in the book's world (book). Rows: the method
    `name`, its control, then the others from the best down."""
    fresh = scores[scores.fresh].groupby(["world", "method"], sort=False)
    found = fresh[SCORES].mean()
    seeds = fresh.size().max()
    ends = fresh.explained.agg(
        lambda own: mean_over_seeds(own)[1:] if seeds > 1 else (np.nan, np.nan)
    )
    found.insert(1, "low", [low for low, _ in ends])
    found.insert(2, "high", [high for _, high in ends])
    book = scores[~scores.fresh].set_index(["world", "method"]).explained
    found.insert(3, "book", book.reindex(found.index))
    first = {name: 0, f"{name}, shuffled labels": 1}
    order = found.reset_index()
    order["place"] = order.world.map(list(dict.fromkeys(scores.world)).index)
    order["rank"] = order.method.map(first).fillna(2)
    order = order.sort_values(
        ["place", "rank", "explained"], ascending=[True, True, False], kind="stable"
    )
    return order.drop(columns=["place", "rank"]).set_index(["world", "method"])


def shown(found: pd.DataFrame, first: int, seeds: int) -> str:
    """`table` as text, for each world by itself, and what its columns mean."""
    parts = []
    for name, part in found.groupby(level="world", sort=False):
        own = part.dropna(axis=1, how="all")  # removed, reliable: one world's each
        text = ((100 * own.droplevel("world")).round() + 0).map("{:.0f}".format).replace("nan", "–")
        parts.append(
            f"{name}, percent ({seeds} fresh worlds, seeds from {first}; the book's: seed "
            f"{BOOK})\n{text.rename_axis(None).to_string()}"
        )
    columns = found.dropna(axis=1, how="all")
    told = [
        f"{name + ':':10} {said}" for name, said in LEGEND.items() if name.split(",")[0] in columns
    ]
    return "\n\n".join([*parts, "\n".join(told)])


def verdict(found: pd.DataFrame, name: str) -> list[str]:
    """What to think of the method `name`, one sentence for each world of `table`."""
    return [
        f"{world}: {_verdict(part.droplevel('world'), name)}"
        for world, part in found.groupby(level="world", sort=False)
    ]


def _percent(share: float) -> str:
    return f"{round(share, 2) + 0:.0%}"  # no minus zero


def _verdict(found: pd.DataFrame, name: str) -> str:
    mine, control = found.loc[name], found.loc[f"{name}, shuffled labels"]
    others = found.drop([name, f"{name}, shuffled labels", across.SHUFFLED])
    fall, usual = mine.book - mine.explained, float((others.book - others.explained).median())
    best = others.explained.idxmax()
    share, top = _percent(mine.explained), _percent(others.explained[best])
    if fall - max(0.0, usual) > FALL:
        return (
            f"do not trust it. {name} explains {_percent(mine.book)} of the effect in the "
            f"book's world and {share} in fresh ones, while the other methods fall by "
            f"{_percent(max(0.0, usual))}: it knows that world, not the property."
        )
    least = mine.explained if np.isnan(mine.low) else mine.low
    rival = max(0.0, mine.random, control.explained)
    if least <= rival:
        what = (
            "doing nothing"
            if rival == 0
            else "random edits of the same length"
            if rival == mine.random
            else "itself, fitted on shuffled labels"
        )
        return (
            f"it explains {share} of the effect, not surely more than {what} ({_percent(rival)})."
        )
    if mine.low > others.explained[best]:
        return (
            f"it explains {share} of the effect, more than {best}, the best of the book's "
            f"methods ({top}), and keeps {_percent(mine.kept)} of what should stay."
        )
    beaten = int((others.explained < mine.explained).sum())
    return (
        f"it explains {share} of the effect and keeps {_percent(mine.kept)} of what "
        f"should stay; it is ahead of {beaten} of the book's {len(others)} methods, of which "
        f"{best} is the best ({top})."
    )
