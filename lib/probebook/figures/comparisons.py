"""Comparisons: bars, points with intervals, a small matrix, histograms, one column over another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from probebook.figures import look


def bars(
    data: pd.DataFrame,
    x: str,
    y: str,
    hue: str | None = None,
    baseline: float | None = None,
    ylabel: str | None = None,
    xlabel: str | None = None,
    lying: bool = False,
) -> Figure:
    """Grouped bars from 0 to 1 with a dashed baseline.

    `lying`: the values of `x` stand below each other, so that long or many names have room; there
    is no baseline, and the names say what they are"""
    figure, ax = plt.subplots()
    sns.barplot(
        data,
        x=y if lying else x,
        y=x if lying else y,
        hue=hue,
        ax=ax,
        errorbar=None,
        saturation=1,
        palette=look.colour_of(data, hue),
    )
    if lying:
        ax.set(xlim=(0, 1.02), xlabel=ylabel or y, ylabel=xlabel or "")
        ax.grid(axis="x")
        ax.grid(visible=False, axis="y")
    else:
        look.dashed(ax, baseline, colour="0.3")
        ax.set(ylim=(0, 1.02), ylabel=ylabel or y, xlabel=xlabel or x)
    if hue:
        beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
        place = look.ABOVE | {"ncols": 3} if lying else beside
        sns.move_legend(ax, **place, title=None)
    return look.done(figure)


def ranges(
    data: pd.DataFrame,
    y: str,
    measures: Sequence[str],
    hue: str | None = None,
    limits: tuple[float, float] | None = (-0.02, 1.02),
    line: float | None = None,
    width: float = 5.6,
    panel: float = 3.2,
    log: bool = False,
) -> Figure:
    """A point with its interval for every value of `y`, one panel per measure.

    - `data`: columns y, hue (if given), `<measure>`, `<measure>_low`, `<measure>_high`
    - `limits`: of every panel's axis; None: from each panel's points
    - `line`: position of a dashed line
    - `width`: of the figure in inches, at least; long names need more
    - `panel`: width of a panel; narrow panels keep the text large
    - `log`: the axes are logarithmic, and `limits` come from the points"""
    names = look.values_of(data, y)
    kinds = (look.values_of(data, hue) if hue else []) or [None]
    size = max(width, panel * len(measures)), 1 + 0.42 * len(names)
    figure, axes = plt.subplots(1, len(measures), figsize=size, sharey=True, squeeze=False)
    for ax, measure in zip(axes[0], measures):
        colours = look.method_colours(kinds, names)
        for i, (kind, colour, marker) in enumerate(zip(kinds, colours, look.MARKERS)):
            part = data if kind is None else data[data[hue] == kind]
            place = [names.index(name) + 0.16 * (i - (len(kinds) - 1) / 2) for name in part[y]]
            ax.errorbar(
                part[measure],
                place,
                xerr=look.interval_bars(part, measure),
                fmt=marker,
                ms=4,
                color=colour,
                label=kind,
                capsize=3,
            )
        ax.set(xlabel=measure, yticks=range(len(names)), yticklabels=names)
        if line is not None:
            ax.axvline(line, ls="--", lw=1, color="0.4")
        if log:
            ax.set_xscale("log")
        elif limits:
            ax.set_xlim(limits)
        else:
            ax.xaxis.set_major_locator(MaxNLocator(3))
    axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
    if hue and max(len(str(kind)) for kind in kinds) > 20:  # beside, it would take the room
        look.legend_above(figure)
    elif hue:
        look.legend_beside(axes[0, -1])
    return look.done(figure)


def versus_published(
    data: pd.DataFrame,
    y: str,
    x: str,
    col: str | None = None,
    limits: tuple[float, float] | None = None,
    line: float | None = None,
    log: bool = False,
) -> Figure:
    """Published values beside ours: one row per value of `y`, one panel per value of `col`.

    - `data`: columns y, x, low and high (the ends of an interval, empty where none is known),
      source, col; the first source is the published one, a hollow diamond
    - `limits`: of every panel's axis; None: from each panel's points
    - `line`: position of a dashed line
    - `log`: the axes are logarithmic"""
    names, kinds = look.values_of(data, y), look.values_of(data, "source")
    panels = look.values_of(data, col) if col else [x]
    size = (5.8 if len(panels) > 1 else 5.2), 1 + 0.42 * len(names)
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    for ax, panel in zip(axes[0], panels):
        shown = data[data[col] == panel] if col else data
        for i, (kind, colour, marker) in enumerate(zip(kinds, ["0.15", *look.PALETTE], "Dos^v")):
            part = shown[shown["source"] == kind]
            step = min(0.22, 0.8 / len(kinds))
            place = [names.index(name) + step * (i - (len(kinds) - 1) / 2) for name in part[y]]
            away = [part[x] - part["low"], part["high"] - part[x]]
            ax.errorbar(
                part[x],
                place,
                xerr=[side.clip(0) for side in away],
                fmt=marker,
                ms=6,
                color=colour,
                mfc=colour if i else "white",
                label=kind,
                capsize=2,
            )
        if line is not None:
            ax.axvline(line, ls="--", lw=1, color="0.4")
        if log:
            ax.set_xscale("log")
        else:
            ax.xaxis.set_major_locator(MaxNLocator(3 if col else 5, steps=[1, 2, 5, 10]))
            ax.xaxis.set_major_formatter("{x:g}")
        ax.set(xlabel=panel, xlim=limits, yticks=range(len(names)), yticklabels=names)
    axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
    look.legend_above(figure, handletextpad=0.3, columnspacing=1.2)
    return look.done(figure)


def heat(
    table: pd.DataFrame, label: str, low: float = 0.0, high: float = 1.0, form: str = ".2f"
) -> Figure:
    """A small matrix with its numbers written in as `form`; `label` names the scale of colours.

    If `low` is below 0, two colours meet in the middle of the scale."""
    size = 1.8 + 1.1 * table.shape[1], 1.0 + 0.5 * table.shape[0]
    figure, ax = plt.subplots(figsize=size)
    sns.heatmap(
        table,
        annot=True,
        fmt=form,
        cmap="vlag" if low < 0 else "crest",
        vmin=low,
        vmax=high,
        ax=ax,
        cbar_kws={"label": label},
    )
    for text in ax.texts:
        text.set_text(look.number(float(text.get_text()), form))
    ax.tick_params(axis="y", rotation=0)
    ax.set_xticklabels([str(name).replace("-", "-\n") for name in table.columns], rotation=0)
    return look.done(figure)


def histograms(
    data: pd.DataFrame,
    x: str,
    hue: str,
    col: str,
    limits: tuple[float, float] | None = None,
    top: float | None = None,
    line: float | None = None,
) -> Figure:
    """Share of the items in each of 40 bins of x: a column per value of `col`, a row per `hue`.

    - `limits`: of x; values beyond them count in the end bins; None: from the data
    - `top`: of the shares; None: from the data
    - `line`: position of a dashed line"""
    panels, kinds = look.values_of(data, col), look.values_of(data, hue)
    size = max(4.6, 3.2 * len(panels)), 0.6 + 1.2 * len(kinds)
    figure, axes = plt.subplots(
        len(kinds), len(panels), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    limits = limits or (data[x].min(), max(data[x].max(), data[x].min() + 1e-6))
    for row, kind, colour in zip(axes, kinds, look.method_colours(kinds)):
        for ax, panel in zip(row, panels):
            part = data.loc[(data[hue] == kind) & (data[col] == panel), x].clip(*limits)
            weights = [1 / max(1, len(part))] * len(part)
            ax.hist(part, 40, limits, weights=weights, color=colour, histtype="stepfilled")
            look.text_above(ax, str(kind), 1, (0, 2), fontsize=10, ha="right")
            if line is not None:
                ax.axvline(line, ls="--", lw=1, color="0.4")
            ax.set_ylabel("share" if panel == panels[0] else "")
            if top:
                ax.set_ylim(0, top)
            if limits == (0, 1):
                ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
    for ax, panel in zip(axes[0], panels):
        look.panel_name(ax, panel)
    for ax in axes[-1]:
        ax.set_xlabel(x)
    return look.done(figure)


def scatter_pairs(
    data: pd.DataFrame,
    pairs: Sequence[tuple[str, str]],
    hue: str,
    log: Sequence[str] = (),
    limits: tuple[float, float] | None = None,
    outlines: bool = False,
) -> Figure:
    """One panel per pair of columns (x, y), one point per row; the dashed line is y = x.

    - `hue`: sets colour and marker
    - `log`: columns that, as y, have a logarithmic axis; there the dashed line is y = 1
    - `limits`: of all axes
    - `outlines`: empty markers, each kind's inside the one before, so that points at one place
      all show"""
    kinds, columns = look.values_of(data, hue), min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    figure, axes = look.grid_of_axes(len(pairs), columns, (4.0 * columns, 3.3 * rows))
    for ax, (x, y) in zip(axes.flat, pairs):
        looks = zip(kinds, look.method_colours(kinds), "osD^vhX*<>" if outlines else "osD^vPX*<>")
        for i, (kind, colour, marker) in enumerate(looks):
            part = data[data[hue] == kind]
            size = 20 + 6 * (len(kinds) - i)  # the first: seen under later ones
            if outlines and i < len(kinds) - 1:
                ax.scatter(
                    part[x],
                    part[y],
                    s=2.4 * size,
                    facecolors="none",
                    edgecolors=[colour],
                    linewidths=1.5,
                    marker=marker,
                    label=kind,
                )
                continue
            ax.scatter(
                part[x], part[y], s=size, color=colour, marker=marker, label=kind, linewidths=0
            )
        if y in log:
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_locator(LogLocator(subs=(0.5, 2, 5)))
            ax.yaxis.set_minor_formatter("{x:g}")
            ax.axhline(1, color="0.6", lw=1, ls="--")
        else:
            ax.axline((0, 0), slope=1, color="0.6", lw=1, ls="--")
        ax.set(xlabel=x, ylabel=y)
        if limits:
            ax.set(xlim=limits, ylim=limits)
    if rows * columns > len(pairs):
        axes[-1, -1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center")
    else:
        look.legend_beside(axes[0, -1])
    return look.done(figure)
