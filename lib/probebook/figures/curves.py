"""Curves over a setting: lines, scores over strength, bands with bounds, ROC curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from probebook.figures import look
from probebook.measures import MEASURES


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
    - `log_y`: the y axis is logarithmic"""
    panels = look.values_of(data, col) if col and len(data) else [None]
    columns = min(columns or len(panels), len(panels))
    kinds = look.values_of(data, hue) if hue else None
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
            palette=look.colour_of(data, hue),
            hue_order=kinds,
            style_order=kinds,
            markers=True,
            dashes=dashes,
            ax=ax,
            errorbar=("pi", 100) if band else None,
            err_kws={"alpha": 0.12} if band else None,
            legend="auto" if i == len(panels) - 1 and hue else False,
        )
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


def strength_curves(data: pd.DataFrame, published: pd.DataFrame | None = None) -> Figure:
    """Completeness, selectivity and reliability over strength, one panel per method.

    Canby et al., figures 1–6. A dotted line marks the most reliable strength. `data`: columns
    method, strength, symbol, and the three measures; strengths of one method in rising order.
    `published`: points of the same columns, drawn hollow."""
    methods = look.values_of(data, "method")
    columns, rows = min(3, len(methods)), -(-len(methods) // 3)
    size = 2.7 * columns, 2.6 * rows
    figure, axes = look.grid_of_axes(len(methods), columns, size, sharey=True)
    for ax, method in zip(axes.flat, methods):
        part = data[data["method"] == method]
        for measure, marker, colour in zip(MEASURES, "os^", look.PALETTE):
            ax.plot(
                part["strength"],
                part[measure],
                marker=marker,
                ms=4,
                color=colour,
                label=measure,
                lw=2.4 if measure == "reliability" else 1.4,
            )
            if published is not None:
                points = published[published["method"] == method]
                ax.plot(
                    points["strength"],
                    points[measure],
                    marker,
                    ms=8,
                    mfc="none",
                    mew=1.6,
                    color=colour,
                )
        best = part.loc[part["reliability"].idxmax()]
        ax.axvline(best["strength"], color="0.2", lw=1.5, ls=":")
        symbol = part["symbol"].iloc[0]
        if symbol == "ε":
            look.log_axis(ax)
        ax.set(xlabel=f"{method}: {symbol}", ylim=(-0.02, 1.02))
    for ax in axes[:, 0]:
        ax.set_ylabel("mean over sentences")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="lower left", bbox_to_anchor=(0, 1), ncols=3
    )
    return look.done(figure)


def panels(data: pd.DataFrame, labels: Mapping[str, tuple[str, str]]) -> Figure:
    """Curves in the unit square: one panel for each value of `panel`, with axes of its own.

    - `data`: columns panel, curve, x, y
    - `labels`: panel → what its axes show"""
    figure, axes = plt.subplots(1, len(labels), figsize=(3.1 * len(labels), 3.5))
    for ax, (panel, (xlabel, ylabel)) in zip(axes, labels.items()):
        for name, part in data[data.panel == panel].groupby("curve", sort=False):
            ax.plot(part.x, part.y, label=name)
        ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, 1), ylim=(0, 1.03))
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=2,
            borderaxespad=0,
            handlelength=1,
            columnspacing=1,
        )
    return look.done(figure)


def margins(
    data: pd.DataFrame,
    x: str,
    bounds: Sequence[str],
    col: str,
    ylabel: str = "accuracy",
    columns: int | None = None,
) -> Figure:
    """A band of mean ± sd over x, and a pair of lines for mean ± each bound; one panel per `col`.

    - `data`: columns x, mean, sd, col, and the half-widths `bounds`; the possible values, 0 to 1,
      are shaded
    - `columns`: panels in a row; None: all of them"""
    panels = look.values_of(data, col)
    columns = min(columns or len(panels), len(panels))
    size = 3.4 * columns + 0.8, 3.2 * -(-len(panels) // columns)
    figure, axes = look.grid_of_axes(len(panels), columns, size, sharey=True)
    for panel, ax in zip(panels, axes.flat):
        part = data[data[col] == panel]
        mean, sd, colour = part["mean"], part["sd"], look.PALETTE[0]
        ax.axhspan(0, 1, color="0.95", lw=0)
        ax.plot(part[x], mean, color=colour, marker="o", ms=4, label="mean ± sd")
        ax.fill_between(part[x], mean - sd, mean + sd, color=colour, alpha=0.35, lw=0)
        for bound, dashes, colour in zip(bounds, ("--", ":", "-."), look.PALETTE[1:]):
            ax.plot(part[x], mean - part[bound], dashes, color=colour)
            ax.plot(part[x], mean + part[bound], dashes, color=colour, label=bound)
        look.log_axis(ax)
        ax.set(xlabel=x, ylim=(-0.6, 1.9))
        look.panel_name(ax, panel)
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    look.legend_beside(axes[0, -1])
    return look.done(figure)


def roc(
    data: pd.DataFrame,
    score: str,
    positive: str,
    hue: str,
    col: str,
    threshold: float | None = None,
) -> Figure:
    """ROC curves of "score above a threshold means positive", one per `hue`, one panel per `col`.

    A dot marks the given threshold; the dashed line is a coin. `data[positive]` is bool."""
    figure, panels = look.row_of_panels(data, col, 3.5, 3.3)
    kinds = look.values_of(data, hue)
    for panel, ax in panels:
        for kind, colour in zip(kinds, look.method_colours(kinds)):
            part = data[(data[col] == panel) & (data[hue] == kind)]
            part = part.sort_values(score, ascending=False)
            ends = (part[score] != part[score].shift(-1)).to_numpy()  # equal scores move together
            rates = [
                pd.concat([pd.Series([0.0]), (is_one.cumsum() / is_one.sum())[ends]])
                for is_one in (~part[positive], part[positive])
            ]
            ax.plot(*rates, color=colour, label=kind)
            if threshold is not None:
                found = part[score] > threshold
                false, true = found[~part[positive]].mean(), found[part[positive]].mean()
                ax.plot(false, true, "o", color=colour)
        ax.axline((0, 0), slope=1, color="0.6", lw=1, ls="--")
        ax.set(
            xlabel="false positives",
            ylabel="true positives",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
        look.panel_name(ax, panel)
    look.legend_beside(panels[-1][1])
    return look.done(figure)
