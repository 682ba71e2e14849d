"""Judge a reader's edit by chapter 6's yardsticks, beside the book's methods, in fresh worlds.

The contract: `method.fit(h, z)` learns from states [n, d] and labels [n] of 0 and 1 and returns a
fitted edit; `edit(h, to=z)` gives the states moved to the labels `to`. If the edit has `at`,
`edit.at(s)` is the edit at strength s. Both may return the object itself, as scikit-learn's `fit`
does: every fit and every strength works on a copy of its own.

Fresh worlds have a seed that no file knows, and other coordinates: states are turned by a random
rotation, which changes nothing for an edit that has learned from them, and everything for
one that remembers states. The book's worlds, with seed 0, stand beside them."""

from __future__ import annotations

import copy
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

from probebook.base import UserError, check_readable, read_yaml
from probebook.interventions import shuffled
from probebook.measures.intervals import mean_over_seeds
from probebook_chapters import across, causal_probing, concept_effects
from probebook_chapters.causal_probing import Edit

WORLDS = ("agreement", "reviews", "biographies", "stories")
BOOK_SEED = 0  # with which the book is built
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
ORACLES: dict[str, Any] = dict(layers=(1,), widths=(64, 256), lrs=(1e-3,))
SCORES = ["explained", "random", "follows", "closeness", "kept", "removed", "reliable"]
WORDS = read_yaml(Path(__file__).with_name("yardstick.yaml"))


def load(path: str | Path) -> Any:
    """The method in a Python file: what is named `method`, else its one class with `fit`.

    UserError: no such file, one that cannot be run, none or several such classes."""
    path = check_readable(path)
    if path.suffix != ".py" or not path.exists():
        raise UserError(f"{path}: give a Python file with a class that has fit(h, z)")
    spec = importlib.util.spec_from_file_location("probebook_own_method", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    with _errors_in_one_line(path):
        spec.loader.exec_module(module)
    if hasattr(module, "method"):
        methods = [module.method]
    else:
        methods = [
            one
            for one in vars(module).values()
            if isinstance(one, type)
            and one.__module__ == spec.name
            and callable(getattr(one, "fit", None))
        ]
    if len(methods) != 1 or not callable(getattr(methods[0], "fit", None)):
        raise UserError(
            f"{path} has {len(methods)} classes with fit(h, z): give one, or name the object "
            "`method`"
        )
    with _errors_in_one_line(path):
        return methods[0]() if isinstance(methods[0], type) else methods[0]


@contextmanager
def _errors_in_one_line(path: Path) -> Iterator[None]:
    """Turn an error in the reader's code into one line that names the place."""
    try:
        yield
    except UserError:
        raise
    except Exception as e:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(e.__traceback__)
            if frame.filename == str(path)
        ]
        line = e.lineno if isinstance(e, SyntaxError) else lines[-1] if lines else None
        where = f"{path}, line {line}" if line else str(path)
        raise UserError(f"{where}: {type(e).__name__}: {' '.join(str(e).split())[:200]}") from None


def _fit(method: Any, path: Path, h: Tensor, z: Tensor) -> dict[float, Callable]:
    """Fit a copy of a method on copies of states and labels: strength → edit, whose results are
    checked."""

    def fit() -> Any:
        return copy.deepcopy(method).fit(h.clone(), z.clone())

    def copied(edit: Any) -> Any:
        try:
            return copy.deepcopy(edit)
        except Exception:  # it holds a graph of gradients, a file …
            return fit()

    with _errors_in_one_line(path):
        edit = fit()
        edits = {s: copied(edit).at(s) for s in STRENGTHS} if hasattr(edit, "at") else {1.0: edit}
    if not all(map(callable, edits.values())):
        raise UserError(
            f"{path}: fit(h, z) gave {type(edit).__name__}, which cannot be called: "
            "return an edit with __call__(h, to)"
        )

    def check(edit: Callable) -> Callable:
        def apply(x: Tensor, to: Tensor) -> Tensor:
            with _errors_in_one_line(path):
                after = torch.as_tensor(edit(x.clone(), to=to.clone()))
            if after.shape != x.shape or not after.isfinite().all():
                raise UserError(
                    f"{path}: edit(h, to=z) gave the shape {[*after.shape]} or values "
                    f"that are not finite, for states {[*x.shape]}: give as many "
                    "finite states"
                )
            return after.detach().to(x)

        return apply

    return {s: check(edit) for s, edit in edits.items()}


def rotate(world: across.World, seed: int) -> across.World:
    """The same world in other coordinates: all states are turned by one random rotation."""
    rng = np.random.default_rng(seed)
    rotation = torch.from_numpy(np.linalg.qr(rng.normal(size=(world.h.shape[1],) * 2))[0])

    def turned(h: Tensor) -> Tensor:
        return (h.double() @ rotation).to(h)

    def back(h: Tensor) -> Tensor:
        return (h.double() @ rotation.T).to(h)

    def judged(edited: Tensor, rows: Tensor, to: Tensor | None) -> float:
        assert world.judged is not None
        return world.judged(back(edited), rows, to)

    aside = world.aside and (turned(world.aside[0]), world.aside[1])
    return replace(
        world,
        h=turned(world.h),
        partner=turned(world.partner),
        aside=aside,
        judged=world.judged and judged,
        probs=lambda h, rows: world.probs(back(h), rows),
        logits=lambda h: world.logits(back(h)),
    )


def make_world(
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
        return replace(across.agreement(s, n_judged), judged=_oracle_judge(s))
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


def _oracle_judge(
    s: causal_probing.AgreementSetting,
) -> Callable[[Tensor, Tensor, Tensor | None], float] | None:
    """Paper 1's reliability by oracles of these sentences; None: one of them is not usable."""
    try:
        oracles = causal_probing.oracles(s, fewest=FEWEST, **ORACLES)
    except UserError:  # a cell of the numbers is empty
        return None
    if causal_probing.why_unusable({"oracle": oracles}):
        return None
    return lambda edited, rows, to: causal_probing.means(
        *causal_probing.score_edit(s, oracles, edited, rows, to)
    )["reliability"]


def _reliability(world: across.World, edits: Sequence[Edit]) -> dict[str, float]:
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
    for edit in edits:
        reached = score(edit, across.VALID)
        if edit.method not in best or reached > best[edit.method][0]:
            best[edit.method] = reached, edit
    return {name: score(edit, across.TEST) for name, (_, edit) in best.items()}


def score(method: Any, path: Path, world: across.World, seed: int) -> pd.DataFrame:
    """Score a reader's method, the same on shuffled labels (a control), and the book's methods
    in one world: `across.score_edits`, and paper 1's reliability."""
    rows, name = world.parts[across.FIT], path.name
    x, z = world.h[rows], world.z[rows]
    edits: list[Edit] = []
    for label, labels in ((name, z), (f"{name}, shuffled labels", shuffled(z, seed=seed))):
        edits += causal_probing.flips(label, "s", _fit(method, path, x, labels))
    edits += across.edits(world, seed, **GRID)
    scores = across.score_edits(world, across.choose_edits(world, edits), seed, draws=2)
    return scores.reindex(columns=[*scores, *({*SCORES} - {*scores})]).assign(
        reliable=pd.Series(_reliability(world, edits), dtype=float)
    )


def run(
    method: Any,
    path: Path,
    names: Sequence[str],
    seeds: Sequence[int],
    report: Callable[[str], None] = print,
    **sizes: int,
) -> pd.DataFrame:
    """Score a method in the book's worlds (seed `BOOK_SEED`) and in a fresh one for each seed.

    Columns: world, seed, fresh, method, and `SCORES`. `report` gets a line on what is being
    done."""
    tables = []
    for name in names:
        for seed in (BOOK_SEED, *seeds):
            fresh = seed != BOOK_SEED
            report(f"{name}: " + (f"a fresh world, seed {seed}" if fresh else "the book's world"))
            made = make_world(name, seed, **sizes)
            scores = score(method, path, rotate(made, seed) if fresh else made, seed)
            tables.append(scores[SCORES].reset_index().assign(world=name, seed=seed, fresh=fresh))
    return pd.concat(tables, ignore_index=True)


def summarize(scores: pd.DataFrame, name: str) -> pd.DataFrame:
    """One row for each world and method: mean scores of fresh worlds, with the interval of what is
    explained over seeds, and what is explained in the book's world (book). Rows: the method
    `name`, its control, then the others from the best down."""
    fresh = scores[scores.fresh].groupby(["world", "method"], sort=False)
    means = fresh[SCORES].mean()
    seeds = fresh.size().max()
    ends = fresh.explained.agg(
        lambda shares: mean_over_seeds(shares)[1:] if seeds > 1 else (np.nan, np.nan)
    )
    means.insert(1, "low", [low for low, _ in ends])
    means.insert(2, "high", [high for _, high in ends])
    book = scores[~scores.fresh].set_index(["world", "method"]).explained
    means.insert(3, "book", book.reindex(means.index))
    first = {name: 0, f"{name}, shuffled labels": 1}
    order = means.reset_index()
    order["place"] = order.world.map(list(dict.fromkeys(scores.world)).index)
    order["rank"] = order.method.map(first).fillna(2)
    order = order.sort_values(
        ["place", "rank", "explained"], ascending=[True, True, False], kind="stable"
    )
    return order.drop(columns=["place", "rank"]).set_index(["world", "method"])


def format_table(table: pd.DataFrame, first: int, seeds: int) -> str:
    """`summarize` as text, for each world by itself, and what its columns mean."""
    parts = []
    for name, part in table.groupby(level="world", sort=False):
        scores = part.dropna(axis=1, how="all")  # removed, reliable: one world's each
        text = (
            ((100 * scores.droplevel("world")).round() + 0).map("{:.0f}".format).replace("nan", "–")
        )
        parts.append(
            f"{name}, percent ({seeds} fresh worlds, seeds from {first}; the book's: seed "
            f"{BOOK_SEED})\n{text.rename_axis(None).to_string()}"
        )
    columns = table.dropna(axis=1, how="all")
    legend = [
        f"{name + ':':10} {meaning}"
        for name, meaning in WORDS["columns"].items()
        if name.split(",")[0] in columns
    ]
    return "\n\n".join([*parts, "\n".join(legend)])


def verdicts(table: pd.DataFrame, name: str) -> list[str]:
    """What to think of the method `name`, one sentence for each world of `summarize`."""
    return [
        f"{world}: {_verdict(part.droplevel('world'), name)}"
        for world, part in table.groupby(level="world", sort=False)
    ]


def _percent(share: float) -> str:
    return f"{round(share, 2) + 0:.0%}"  # no minus zero


def _verdict(table: pd.DataFrame, name: str) -> str:
    mine, control = table.loc[name], table.loc[f"{name}, shuffled labels"]
    others = table.drop([name, f"{name}, shuffled labels", across.SHUFFLED])
    usual = max(0.0, float((others.book - others.explained).median()))
    best = others.explained.idxmax()
    rivals = {
        "doing nothing": 0.0,
        "random edits of the same length": mine.random,
        "itself, fitted on shuffled labels": control.explained,
    }
    rival = max(rivals, key=rivals.__getitem__)
    least = mine.explained if np.isnan(mine.low) else mine.low
    if mine.book - mine.explained - usual > FALL:
        word = "remembers"
    elif least <= rivals[rival]:
        word = "no better"
    else:
        word = "leads" if mine.low > others.explained[best] else "follows"
    return WORDS["verdicts"][word].format(
        name=name,
        book=_percent(mine.book),
        explained=_percent(mine.explained),
        fall=_percent(usual),
        rival=rival,
        reached=_percent(rivals[rival]),
        best=best,
        top=_percent(others.explained[best]),
        kept=_percent(mine.kept),
        beaten=int((others.explained < mine.explained).sum()),
        others=len(others),
    )
