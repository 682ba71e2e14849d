"""A picture that moves: a state on its way through a cloud of states, and the verb that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import pandas as pd

from probebook.figures import look

WIDTH, HEIGHT, MARGIN, SECONDS = 560, 190, 14, 10
STYLE = """
.moving-state { max-width: 46rem; margin: 1rem auto; }
.moving-state p { font-size: 1.35rem; text-align: center; margin: 0 0 .5rem; }
.moving-state .verb { display: inline-grid; padding: 0 .3em; border-bottom: 2px solid; }
.moving-state .verb > span { grid-area: 1 / 1; text-align: center; font-weight: 700; }
.moving-state svg { width: 100%; height: auto; overflow: visible; }
.moving-state .cloud { opacity: .5; }
.moving-state .key { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; justify-content: center; }
@media (prefers-reduced-motion: reduce) { .moving-state * { animation: none !important; } }
"""


def moving_state(
    cloud: pd.DataFrame, path: pd.DataFrame, sentence: tuple[str, str], forms: Sequence[str]
) -> str:
    """HTML in which a state goes along `path` through a cloud and back; its verb follows.

    - `cloud`: x, y, label, two kinds of label
    - `path`: x, y, and `singular`, the probability of the first form against the second
    - `sentence`: what stands before and after the verb; `forms`: the verb's two forms

    For readers who have asked for less motion it stands still at the path's end."""
    every = pd.concat([cloud, path])
    across = (WIDTH - 2 * MARGIN) / (every.x.max() - every.x.min())
    up = (HEIGHT - 2 * MARGIN) / (every.y.max() - every.y.min())

    def place(x: float, y: float) -> tuple[float, float]:
        return MARGIN + across * (x - every.x.min()), MARGIN + up * (every.y.max() - y)

    labels = sorted(cloud.label.unique(), reverse=True)
    colours = dict(zip(labels, look.PALETTE))
    dots = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="2.5" fill="{colours[label]}"/>'
        for (x, y), label in zip(map(place, cloud.x, cloud.y), cloud.label)
    )
    track = " ".join(f"{x:.0f},{y:.0f}" for x, y in map(place, path.x, path.y))
    end = path.iloc[-1]

    def shift(stop: pd.Series) -> str:
        x, y = place(stop.x, stop.y)
        return f"transform: translate({x:.1f}px, {y:.1f}px)"

    frames = (
        _frames("state", path, shift, "linear")
        + _frames("first", path, lambda stop: _shown(stop.singular > 0.5), "step-end")
        + _frames("second", path, lambda stop: _shown(stop.singular <= 0.5), "step-end")
    )
    first, second = map(escape, forms)
    before, after = map(escape, sentence)
    key = "".join(
        f'<span><span style="color: {colour}">●</span> {escape(label)}</span>'
        for label, colour in colours.items()
    )
    seen = (
        f"A cloud of states. One of them moves from those of {labels[1]}s to those of "
        f"{labels[0]}s and back; its verb changes from {second} to {first}."
    )
    verbs = "".join(
        f'<span class="ms-{name}" style="{_shown(likelier)}">{word}</span>'
        for name, likelier, word in (
            ("first", end.singular > 0.5, first),
            ("second", end.singular <= 0.5, second),
        )
    )
    return f"""<div class="moving-state" role="img" aria-label="{seen}">
<style>{STYLE}{frames}</style>
<p>{before} <span class="verb">{verbs}</span> {after}</p>
<svg viewBox="0 0 {WIDTH} {HEIGHT}"><g class="cloud">{dots}</g>
<polyline points="{track}" fill="none" stroke="currentColor" stroke-dasharray="4 4"/>
<circle class="ms-state" style="{shift(end)}" r="9" fill="#c0392b" stroke="white" stroke-width="2"/>
</svg>
<div class="key">{key}<span><span style="color: #c0392b">●</span> this sentence</span></div>
</div>"""


def _shown(shown: bool) -> str:
    return f"visibility: {'visible' if shown else 'hidden'}"


def _frames(name: str, path: pd.DataFrame, css: Callable[[pd.Series], str], pace: str) -> str:
    """The animation of an element: a rest at either end of the path, the way there and back."""
    stops = [stop for _, stop in path.iterrows()]
    way = [*[stops[0]] * 3, *stops, *[stops[-1]] * 3, *reversed(stops)]
    steps = " ".join(
        f"{100 * i / (len(way) - 1):.1f}% {{ {css(stop)}; }}" for i, stop in enumerate(way)
    )
    return (
        f"@keyframes ms-{name} {{ {steps} }}\n"
        f".moving-state .ms-{name} {{ animation: ms-{name} {SECONDS}s {pace} infinite; }}\n"
    )
