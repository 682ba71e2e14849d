"""Clouds of points: one or many panels, fitted lines, selections, states before and after an
edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import ArrayLike
from scipy import stats

from probebook.figures import look


def fits(data: pd.DataFrame, x: str, y: str, hue: str, col: str) -> Figure:
    """Points with a straight line and its 95 % band per value of `hue`, one panel per `col`."""
    figure, panels = look.row_of_panels(data, col, 4.2, 3.4)
    kinds = look.values_of(data, hue)
    for panel, ax in panels:
        for kind, colour, marker in zip(kinds, look.method_colours(kinds), look.MARKERS):
            part = data[(data[col] == panel) & (data[hue] == kind)]
            ax.scatter(part[x], part[y], s=16, color=colour, marker=marker, linewidths=0)
            if len(part) > 2:
                fit = stats.linregress(part[x], part[y])
                at = part[x].sort_values()
                spread = ((at - at.mean()) ** 2).sum()
                away = (1 / len(at) + (at - at.mean()) ** 2 / spread) ** 0.5
                away *= stats.t.ppf(0.975, len(at) - 2) * fit.stderr * spread**0.5
                line = fit.intercept + fit.slope * at
                ax.plot(at, line, color=colour, label=kind)
                ax.fill_between(at, line - away, line + away, color=colour, alpha=0.15, linewidth=0)
        ax.set(xlabel=str(panel), ylabel=y)
    look.legend_beside(panels[-1][1])
    return look.done(figure)


def scatter(
    data: pd.DataFrame,
    x: str,
    y: str,
    hue: str,
    col: str,
    line: float | None = None,
    floor: float = 0.01,
) -> Figure:
    """Points with a logarithmic y, one panel per value of `col`; `line`: a threshold.

    Values of y below `floor` are drawn at `floor`."""
    figure, panels = look.row_of_panels(data, col, 4.2, 3.4)
    kinds = look.values_of(data, hue)
    for panel, ax in panels:
        for kind, colour, marker in zip(kinds, look.method_colours(kinds), look.MARKERS):
            part = data[(data[col] == panel) & (data[hue] == kind)]
            ax.scatter(
                part[x],
                part[y].clip(lower=floor),
                s=14,
                color=colour,
                marker=marker,
                alpha=0.6,
                linewidths=0,
                label=kind,
            )
        look.dashed(ax, line, colour="0.3")
        ax.set(xlabel=x, ylabel=y, yscale="log")
        ax.yaxis.set_major_formatter("{x:g}")
        look.panel_name(ax, panel)
    look.legend_beside(panels[-1][1])
    return look.done(figure)


def against(
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


def clouds(
    panels: Mapping[str, pd.DataFrame], rows: int = 1, colours: Sequence[int] | None = None
) -> Figure:
    """Scatter plots with their correlations, one panel per label.

    `panels`: label → table whose first two columns are x and y; `colours`: position in the palette
    of each panel's colour."""
    columns = -(-len(panels) // rows)
    figure, axes = look.grid_of_axes(len(panels), columns, (2.7 * columns, 2.6 * rows))
    for ax, (label, data), colour in zip(axes.flat, panels.items(), colours or [0] * len(panels)):
        x, y = data.columns[:2]
        ax.scatter(
            data[x],
            data[y],
            s=3,
            alpha=0.35,
            linewidths=0,
            color=look.PALETTE[colour],
            rasterized=True,
        )
        ax.set(xlabel=x, ylabel=y)
        name = f"{label}\nr = {look.number(data[[x, y]].corr().iloc[0, 1])}"
        ax.annotate(
            name,
            (0, 1),
            (2, 3),
            xycoords="axes fraction",
            textcoords="offset points",
            va="bottom",
            fontsize=10,
        )
    return look.done(figure)


def by_class(panels: Mapping[str, pd.DataFrame], x: str, y: str, label: str) -> Figure:
    """Points coloured by their class, one panel per name; the panels share their axes.

    A large cross marks the mean of each class. `data`: columns x, y, label, in every panel."""
    figure, axes = look.grid_of_axes(
        len(panels), len(panels), (4 * len(panels), 3.4), sharex=True, sharey=True
    )
    for ax, (name, data) in zip(axes.flat, panels.items()):
        kinds = look.values_of(data, label)
        looks = zip(kinds, look.method_colours(kinds), look.MARKERS)
        for i, (kind, colour, marker) in enumerate(looks):
            part = data.loc[data[label] == kind, [x, y]]
            ax.scatter(
                part[x],
                part[y],
                s=18,
                color=colour,
                marker=marker,
                alpha=0.6,
                linewidths=0,
                label=kind,
            )
            ax.plot(*part.mean(), "P", ms=22 - 9 * i, mfc=colour, mec="white", mew=1.5, zorder=4)
        ax.set(xlabel=x, ylabel=y if ax is axes[0, 0] else "")
        look.panel_name(ax, name)
    look.legend_beside(axes[0, -1])
    return look.done(figure)


def by_source(data: pd.DataFrame, x: str, y: str, hue: str, col: str) -> Figure:
    """Published and our own points, one panel per value of `col`; the published ones are hollow.

    `data`: columns x, y, hue (sets colour and marker), col, source; the first source is the
    published one."""
    figure, panels = look.row_of_panels(data, col, 2.9, 3.3, more=1.2)
    published, *own = look.values_of(data, "source")
    kinds = look.values_of(data, hue)
    for panel, ax in panels:
        for kind, colour, marker in zip(kinds, look.method_colours(kinds), look.MARKERS):
            for source in (published, *own):
                part = data[(data[[col, hue, "source"]] == (panel, kind, source)).all(axis=1)]
                ax.scatter(
                    part[x],
                    part[y],
                    s=45 if source == published else 90,
                    marker=marker,
                    edgecolor=colour,
                    color="none" if source == published else [colour],
                    linewidth=1.3,
                    label=f"{kind},\n{source}",
                    clip_on=False,
                    zorder=3,
                )
        low, high = data[x].min(), data[x].max()
        ax.set(
            xlabel=x,
            ylabel=y if panel == panels[0][0] else "",
            xlim=(low - 0.05 * (high - low), high + 0.05 * (high - low)),
        )
        look.panel_name(ax, panel)
    look.legend_beside(panels[-1][1])
    return look.done(figure)


def cut(
    data: pd.DataFrame, kept: ArrayLike, curves: pd.DataFrame, at: float, xlabel: str
) -> Figure:
    """Left: a cloud with its selected rows coloured; right: curves over a setting, `at` marked.

    `data`: two columns; `kept`: which rows are selected; `curves`: index the setting's values, one
    colour per column."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
    x, y = data.columns[:2]
    left.scatter(data[x], data[y], s=4, color="0.8", linewidths=0, rasterized=True)
    left.scatter(
        data[x][kept], data[y][kept], s=4, color=look.PALETTE[3], linewidths=0, rasterized=True
    )
    left.set(xlabel=x, ylabel=y)
    dashes = cycle(["-", "--", "-", ":"])  # some curves coincide
    for name, colour, dash in zip(curves, look.PALETTE, dashes):
        value = curves[name].loc[at]
        label = f"{name}: {look.number(value)}"
        right.plot(curves.index, curves[name], dash, color=colour, label=label)
        right.plot(at, value, "o", color=colour)
    right.axvline(at, color="0.6", lw=1, ls=":")
    right.set(xlabel=xlabel, ylim=(-1.05, 1.05))
    look.legend_beside(right)
    return look.done(figure)


def before_and_after(plane: pd.DataFrame, trace: pd.DataFrame, strength: float) -> Figure:
    """Left: states before (pale) and after an edit; right: its strength on the path of C and S.

    - `plane`: columns x, y, when (`before` or `after`), label; its `attrs` may name the axes (x, y)
      and set their limits (limits)
    - `trace`: strength and the three measures of each"""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6))
    colours = dict(zip(sorted(plane["label"].unique()), look.PALETTE))
    for (when, label), part in plane.groupby(["when", "label"], sort=False):
        left.scatter(
            part["x"],
            part["y"],
            s=9,
            color=colours[label],
            alpha=0.15 if when == "before" else 0.7,
            label=label if when == "after" else None,
            linewidths=0,
        )
    left.set(xlabel=plane.attrs.get("x", "x"), ylabel=plane.attrs.get("y", "y"))
    if "limits" in plane.attrs:
        left.set(**plane.attrs["limits"])
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, markerscale=2, borderaxespad=0)
    right.plot(trace["completeness"], trace["selectivity"], color="0.7", marker=".", lw=1)
    here = trace[trace["strength"] == strength].iloc[0]
    right.plot(here["completeness"], here["selectivity"], "o", ms=11, color=look.GREYS[1])
    right.annotate(f"R = {here['reliability']:.2f}", (0.03, 0.05), xycoords="axes fraction")
    right.set(xlabel="completeness", ylabel="selectivity", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    return look.done(figure)


def among(cloud: pd.DataFrame, places: pd.DataFrame, xlabel: str, ylabel: str) -> Figure:
    """A few named states among the states of many sentences; arrows lead from the first to the
    others.

    `cloud`: x, y, label; `places`: x, y, one row per name."""
    figure, ax = plt.subplots(figsize=(6.4, 3.6))
    for label, colour in zip(sorted(cloud.label.unique(), reverse=True), look.PALETTE):
        part = cloud[cloud.label == label]
        ax.scatter(part.x, part.y, s=9, alpha=0.35, linewidths=0, color=colour, label=label)
    start, below = places.iloc[0], 0
    for name, place in places.iterrows():
        if name != places.index[0]:
            ax.annotate(
                "",
                place[["x", "y"]],
                start[["x", "y"]],
                arrowprops={"arrowstyle": "->", "color": "0.25", "shrinkB": 4},
            )
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
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, markerscale=2)
    return look.done(figure)
