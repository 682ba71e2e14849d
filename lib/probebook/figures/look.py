"""What all figures share: colours, the book's style, axes, legends and names of panels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import cycle
from numbers import Number
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

PALETTE = [
    "#0173b2",
    "#de8f05",
    "#029e73",
    "#d55e00",
    "#cc78bc",
    "#a06a3a",
    "#69000f",
    "#949494",
    "#6900d2",
    "#56b4e9",
    "#890076",
    "#335544",
    "#8866ff",
]
SINGULAR, PLURAL = PALETTE[:2]  # of a noun, its state, its verb; also in pictures and style sheets
GREYS = ["#7a7a7a", "#a6a6a6", "#555555", "#333333"]  # controls and baselines beside methods
READERS_AND_FORMS = {
    "ot": 0,
    "ot-matched": 1,
    "ot-answered": 2,
    "ot-unknown": 3,
    "ibt": 4,
    "ibt-negated": 6,
    "whole stories": 0,
    "all answerable": 2,
    "many unanswerable": 3,
    "intervention": 4,
    "learned": 0,
    "as in the paper": 0,
    "as released": 1,
    "probe of the state": 0,
    "translated lens": 2,
    "logit lens": 3,
}  # positions in the palette of readers, directions, forms
NUMBERS = {
    "singular": 0,
    "singular subject": 0,
    "is": 0,
    "plural": 1,
    "plural subject": 1,
    "are": 1,
}  # positions of a noun's two numbers
MARKERS = "osD^vXP"
ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1)}  # where a legend stands


def style() -> None:
    """Set the book's look; `runs.start` calls it once."""
    look = {
        "figure.dpi": 110,
        "savefig.bbox": "tight",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.figsize": (6.4, 3.6),
        "legend.frameon": False,
        "grid.color": "#e6e6e6",
    }
    sns.set_theme(context="notebook", style="whitegrid", palette=PALETTE, rc=look)


@cache
def colour_positions() -> dict[str, int]:
    """Positions in the palette of all methods, readers, directions, forms and numbers of nouns.

    The tables are imported once a figure asks, because they bring torch and scikit-learn."""
    from probebook.explainers.table import EXPLAINERS
    from probebook.interventions.table import INTERVENTIONS

    interventions = {
        name: row.colour for row in INTERVENTIONS.values() for name in (row.name, row.title) if name
    }
    explainers = {name: row.colour for name, row in EXPLAINERS.items() if row.colour is not None}
    return explainers | interventions | READERS_AND_FORMS | NUMBERS


def method_colours(kinds: Sequence, rows: Sequence = ()) -> list[tuple[float, float, float]]:
    """A colour for each kind; one of `colour_positions` has the same on every page.

    - Two methods that share a colour are never drawn together.
    - Each variant of a method ("AlterRep, raw") is darker than the one before.
    - If any kind, or any of the figure's `rows`, is a method, other kinds are grey.
    - Otherwise kinds take the palette in its order, and numbers go from light to dark."""
    methods = [str(kind).partition(",")[0] for kind in kinds]
    positions = colour_positions()
    beside = positions.keys() & {*methods, *rows}
    if not beside and all(isinstance(kind, Number) for kind in kinds):
        return sns.color_palette("crest", len(kinds) + 2)[2:]
    others = cycle(GREYS if beside else PALETTE)
    colours: list[tuple[float, float, float]] = []
    for i, method in enumerate(methods):
        if method in positions:
            darker = 0.55 ** methods[:i].count(method)
            red, green, blue = to_rgb(PALETTE[positions[method]])
            colours.append((red * darker, green * darker, blue * darker))
        else:
            colours.append(to_rgb(next(others)))
    return colours


def values_of(data: pd.DataFrame, column: str) -> list:
    """The different values of a column in their order."""
    return list(dict.fromkeys(data[column]))


def colour_of(data: pd.DataFrame, hue: str | None) -> dict | None:
    """The colour of each value of a column; None without a column."""
    if not hue:
        return None
    kinds = values_of(data, hue)
    return dict(zip(kinds, method_colours(kinds)))


def row_of_panels(
    data: pd.DataFrame, col: str, width: float, height: float, more: float = 0
) -> tuple[Figure, list[tuple[object, Axes]]]:
    """A figure with one panel for each value of `col`, side by side, and (value, axes) of each.

    In inches: `width` of a panel, `height` of the figure, `more` width of the figure."""
    panels = values_of(data, col)
    size = width * len(panels) + more, height
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    return figure, list(zip(panels, axes[0]))


def grid_of_axes(
    count: int, columns: int, size: tuple[float, float], **shared: bool
) -> tuple[Figure, NDArray[np.object_]]:
    """A figure with `count` axes in rows of `columns`, and all its axes; the last may stay empty.

    `size`: width and height of the figure."""
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **shared)
    for ax in axes.flat[count:]:
        ax.set_axis_off()
    return figure, axes


def number(value: float, form: str = ".2f") -> str:
    """A number with the minus sign that ticks have, and none before zero."""
    text = f"{value:{form}}"
    return text.replace("-", "−" if float(text) else "")


def log_axis(ax: Axes) -> None:
    """Make the x axis logarithmic with plain numbers, three per decade if there are few decades."""
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    ax.xaxis.set_major_formatter("{x:,.12g}")
    ax.xaxis.set_minor_formatter("")


def dashed(ax: Axes, height: float | None, name: str | None = None, colour: str = "0.4") -> None:
    """A dashed horizontal line, unless `height` is None."""
    if height is not None:
        ax.axhline(height, ls="--", lw=1, color=colour, label=name)


def interval_bars(part: pd.DataFrame, name: str) -> list[pd.Series]:
    """Distances of an interval's ends from its point, as matplotlib's error bars want them."""
    return [(part[name] - part[f"{name}_low"]).clip(0), (part[f"{name}_high"] - part[name]).clip(0)]


def panel_name(ax: Axes, panel: object) -> None:
    """A panel's name, above its left corner."""
    text_above(ax, str(panel), weight="bold")


def text_above(
    ax: Axes, text: str, corner: int = 0, shift: tuple[int, int] = (2, 3), **font: Any
) -> None:
    """A text above the left (0) or right (1) corner of axes; `shift`, in points, to the right and
    up."""
    at: dict[str, Any] = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "va": "bottom",
    }
    ax.annotate(text, (corner, 1), shift, **at, **font)


def legend_beside(ax: Axes, *handles_and_names: list) -> None:
    """A legend to the right of the axes."""
    ax.legend(*handles_and_names, loc="center left", bbox_to_anchor=(1.01, 0.5))


def legend_above(figure: Figure, **settings: float) -> None:
    """A legend of the first axes above a figure, in as many columns as its names leave room for."""
    handles, names = figure.axes[0].get_legend_handles_labels()
    columns = max(1, 70 // (max(map(len, names)) + 4))
    figure.legend(handles, names, **ABOVE, ncols=columns, **settings)


def name_at_ends(ax: Axes, curves: Sequence[Line2D], names: Sequence) -> bool:
    """Write each curve's name beside its right end; near ends get names one below the other.

    Nothing is written, and the answer is False, if a name would not lead to its curve: if there are
    more than five, if one ends left of the last fifth of the axes, or if two end at one point. A
    horizontal line across the axes does not count. Without a curve there is nothing to name."""
    if not curves:
        return True
    ax.get_xlim(), ax.get_ylim()  # the limits from the data
    ends = [(line.get_xdata(orig=False)[-1], line.get_ydata(orig=False)[-1]) for line in curves]
    places = np.array(
        [
            ax.transAxes.inverted().transform(line.get_transform().transform(end))
            for line, end in zip(curves, ends)
        ]
    )
    own = np.sort(places[places[:, 0] < 1, 1])
    if len(own) > 5 or (places[:, 0] < 0.8).any() or (np.diff(own) < 0.012).any():
        return False
    size = FontProperties(size=plt.rcParams["legend.fontsize"]).get_size_in_points()
    gap = 1.3 * size / 72 * ax.figure.dpi / ax.bbox.height
    order, steps = np.argsort(places[:, 1], kind="stable"), gap * np.arange(len(curves))
    heights = isotonic_regression(places[order, 1] - steps).x.clip(0, 1 - steps[-1]) + steps
    for i, height in zip(order, heights):
        colour = np.array(to_rgb(curves[i].get_color()))
        line = {"arrowstyle": "-", "color": colour, "relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 4}
        ax.annotate(
            str(names[i]),
            ends[i],
            (1.07, height),
            curves[i].get_transform(),
            ax.transAxes,
            line,
            annotation_clip=False,
            va="center",
            size=size,
            color=0.6 * colour,
        )
    return True


def done(figure: Figure) -> Figure:
    """The figure, laid out and closed, so that a page shows it once."""
    figure.tight_layout()
    plt.close(figure)
    return figure
