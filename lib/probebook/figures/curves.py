"""Curves over a setting."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from probebook.figures import look


def lines(
    data: pd.DataFrame,
    x: str,
    y: str,
    hue: str | None = None,
    baseline: float | None = None,
    baseline_name: str = "majority",
    col: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    log: bool = False,
    columns: int | None = None,
    band: bool = False,
    limits: tuple[float, float] | None = None,
    dashes: bool = False,
    panel_width: float = 4.2,
    log_y: bool = False,
    intervals: bool = False,
) -> Figure:
    """Curves of y over x, one colour per value of `hue`, one panel per value of `col`.

    Rows with the same x are averaged. Up to five curves have their names at their right ends, if
    all of them end there; else there is a legend.

    - `baseline`, `baseline_name`: height and name of a dashed line
    - `xlabel`, `ylabel`: names of the axes; None: those of the columns
    - `log`: the x axis is logarithmic
    - `columns`: panels in a row; None: all of them
    - `band`: show the range of rows with the same x
    - `limits`: of the y axis; None: from the data
    - `dashes`: each curve has its own dashes, so that curves at one place all show
    - `panel_width`: of one of several panels, in inches; narrow panels keep the text large
    - `log_y`: the y axis is logarithmic
    - `intervals`: a band around each curve whose column y has y_low and y_high (NaN: none)"""
    panels = look.values_of(data, col) if col and len(data) else [None]
    columns = min(columns or len(panels), len(panels))
    kinds, colours = look.values_of(data, hue) if hue else None, look.colour_of(data, hue)
    size = 6.4 if columns == 1 else panel_width * columns, 3.4 * -(-len(panels) // columns)
    figure, axes = look.grid_of_axes(len(panels), columns, size, sharey=True)
    for i, (ax, panel) in enumerate(zip(axes.flat, panels)):
        part = data if panel is None else data[data[col] == panel]
        if part.empty:
            ax.annotate("no data", (0.5, 0.5), xycoords="axes fraction", ha="center")
            continue
        sns.lineplot(
            part,
            x=x,
            y=y,
            hue=hue,
            style=hue,
            palette=colours,
            hue_order=kinds,
            style_order=kinds,
            markers=True,
            dashes=dashes,
            ax=ax,
            errorbar=("pi", 100) if band else None,
            err_kws={"alpha": 0.12} if band else None,
            legend="auto" if i == len(panels) - 1 and hue else False,
        )
        for kind, colour in (colours or {}).items() if intervals else ():
            ends = part[part[hue] == kind].sort_values(x)
            low, high = ends[f"{y}_low"], ends[f"{y}_high"]
            ax.fill_between(ends[x], low, high, color=colour, alpha=0.15, linewidth=0)
        drawn = [line for line in ax.lines if len(line.get_xdata())]
        for width, line in zip(np.linspace(2.6, 1.4, len(drawn)), drawn):  # seen under later ones
            line.set_linewidth(width)
            if len(line.get_xdata()) == 1:
                line.set(markersize=10, zorder=5)
        if ax.get_legend():
            ax.get_legend().remove()
        look.dashed(ax, baseline, baseline_name)
        if log:
            look.log_axis(ax)
        elif pd.api.types.is_integer_dtype(part[x]):
            ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        ax.set(xlabel=xlabel or x, ylabel=ylabel or y)
        if log_y:
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:,.12g}")
            ax.yaxis.set_minor_formatter("")
        if limits:
            ax.set_ylim(limits)
        if panel is not None:
            look.panel_name(ax, panel)
    if kinds and len(data):
        _name(axes[0, -1], kinds, baseline_name, axes.flat[len(panels) - 1])
    return look.done(figure)


def _name(ax: Axes, kinds: list, baseline_name: str, last: Axes) -> None:
    """Name the curves at their ends where that can be read, else in the legend of `last`."""
    names = [*kinds, baseline_name]
    curves = [line for line in ax.lines if len(line.get_xdata())]
    if not (len(kinds) <= len(curves) <= len(names) and look.name_at_ends(ax, curves, names)):
        look.legend_beside(ax, *last.get_legend_handles_labels())
