"""Drawings of the front pages: schemes of the papers, the story's cloud, the moving picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from probebook.figures import look

WIDTH, HEIGHT, MARGIN, SECONDS = 560, 190, 14, 10  # of the moving picture


def scheme(
    boxes: Mapping[str, tuple[float, float]],
    arrows: Sequence[tuple[str, str, str]],
    marked: Sequence[str] = (),
) -> Figure:
    """Boxes at (column, row), filled if `marked`, and arrows (from, to, text) between them."""
    columns, rows = (max(at[i] for at in boxes.values()) for i in (0, 1))
    figure, ax = plt.subplots(figsize=(2.3 * (columns + 1), 1.15 * (rows + 0.5)))
    plain, texts = "0.35", {}
    for name, (x, y) in boxes.items():
        fill, edge = ("#dcebf7", look.PALETTE[0]) if name in marked else ("white", plain)
        texts[name] = ax.text(
            x,
            -y,
            name,
            ha="center",
            va="center",
            fontsize=10,
            zorder=3,
            bbox={"boxstyle": "round,pad=.5", "fc": fill, "ec": edge},
        )
    ax.set(xlim=(-0.6, columns + 0.6), ylim=(-rows - 0.3, 0.3))
    for start, end, text in arrows:
        (x0, y0), (x1, y1) = boxes[start], boxes[end]
        arrow = {
            "arrowstyle": "-|>",
            "color": plain,
            "patchA": texts[start].get_bbox_patch(),
            "patchB": texts[end].get_bbox_patch(),
            "shrinkA": 2,
            "shrinkB": 2,
        }
        ax.annotate("", (x1, -y1), (x0, -y0), zorder=4, arrowprops=arrow)
        upright = x0 == x1  # its text stands beside it
        ax.text(
            (x0 + x1) / 2 + 0.05 * upright,
            -(y0 + y1) / 2 + 0.16 * (not upright),
            text,
            ha="left" if upright else "center",
            va="center" if upright else "baseline",
            fontsize=8.5,
            color=plain,
            zorder=5,
            bbox={"fc": "white", "ec": "none", "pad": 1},
        )
    ax.set_axis_off()
    return look.done(figure)


def highlight(cloud: pd.DataFrame, places: pd.DataFrame, xlabel: str, ylabel: str) -> Figure:
    """A few named states among the states of many sentences; arrows lead from the first to the
    others.

    `cloud`: x, y, label; `places`: x, y, one row per name."""
    figure, ax = plt.subplots(figsize=(6.4, 3.6))
    labels = sorted(cloud.label.unique(), reverse=True)
    for label, colour in zip(labels, look.method_colours(labels)):
        part = cloud[cloud.label == label]
        ax.scatter(part.x, part.y, s=9, alpha=0.35, linewidths=0, color=colour, label=label)
    start, below = places.iloc[0], 0
    for name, place in places.iterrows():
        if name != places.index[0]:
            arrow = {"arrowstyle": "->", "color": "0.25", "shrinkB": 4}
            ax.annotate("", place[["x", "y"]], start[["x", "y"]], arrowprops=arrow)
        ax.plot(place.x, place.y, "o", ms=8, color="#c0392b", mec="white")
        above = place.y >= start.y
        below += not above
        shift = 9 if above else -9 - 16 * (below % 2)  # names at two heights
        ax.annotate(
            str(name),
            place[["x", "y"]],
            (0, shift),
            ha="center",
            va="bottom" if above else "top",
            textcoords="offset points",
            bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 1},
        )
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend(**look.ABOVE, ncols=2, markerscale=2)
    return look.done(figure)


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
    colours = dict(zip(labels, map(to_hex, look.method_colours(labels))))
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
<style>{frames}</style>
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
