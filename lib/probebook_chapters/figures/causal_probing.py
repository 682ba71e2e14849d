"""Plots that only chapter 1 uses: clouds before and after an edit, curves over strength."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from probebook.base import to_numpy
from probebook.figures import look
from probebook.interventions.table import INTERVENTIONS
from probebook.measures import MEASURES
from probebook_chapters.plane import EditedClouds


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
                hollow = {"ms": 8, "mfc": "none", "mew": 1.6, "color": colour}
                ax.plot(points["strength"], points[measure], marker, **hollow)
        best = part.loc[part["reliability"].idxmax()]
        ax.axvline(best["strength"], color="0.2", lw=1.5, ls=":")
        symbol = part["symbol"].iloc[0]
        if symbol == "ε":
            look.log_axis(ax)
        ax.set(xlabel=f"{method}: {symbol}", ylim=(-0.02, 1.02))
    for ax in axes[:, 0]:
        ax.set_ylabel("mean over sentences")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), **look.ABOVE, ncols=3)
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
        ax.legend(**look.ABOVE, ncols=2, borderaxespad=0, handlelength=1, columnspacing=1)
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


def before_and_after(plane: pd.DataFrame, trace: pd.DataFrame, strength: float) -> Figure:
    """Left: states before (pale) and after an edit; right: its strength on the path of C and S.

    - `plane`: columns x, y, when (`before` or `after`), label; its `attrs` may name the axes (x, y)
      and set their limits (limits)
    - `trace`: strength and the three measures of each"""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6))
    labels = sorted(plane["label"].unique())
    colours = dict(zip(labels, look.method_colours(labels)))
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
    left.legend(**look.ABOVE, ncols=3, markerscale=2, borderaxespad=0)
    right.plot(trace["completeness"], trace["selectivity"], color="0.7", marker=".", lw=1)
    here = trace[trace["strength"] == strength].iloc[0]
    right.plot(here["completeness"], here["selectivity"], "o", ms=11, color=look.GREYS[2])
    right.annotate(f"R = {here['reliability']:.2f}", (0.03, 0.05), xycoords="axes fraction")
    right.set(xlabel="completeness", ylabel="selectivity", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    return look.done(figure)


def edits_in_plane(clouds: EditedClouds, arrows: int = 5) -> Figure:
    """What each method does to two clouds: before (pale), the move of a few states, and after.

    The first panel names the parts. The dashed line is the probe's; a cross marks the state zero;
    large dots are means after the edit. Flips show the plural states alone.

    - `arrows`: moves drawn for each number"""
    panels = {"before": clouds.h} | clouds.edited
    figure, axes = look.grid_of_axes(6, 2, (6.4, 7.2), sharex=True, sharey=True)
    weight = to_numpy(clouds.probe.weight.diff(dim=0)[0])
    foot = -float(clouds.probe.bias.diff()) * weight / (weight @ weight)  # the line's, from zero
    colours = {"singular": look.SINGULAR, "plural": look.PLURAL}
    for ax, (name, after) in zip(axes.flat, panels.items()):
        ax.axline(foot, foot + [-weight[1], weight[0]], color="0.4", lw=1.2, ls="--", zorder=1)
        ax.plot(0, 0, "k+", ms=9, mew=1.5, zorder=6)
        method = INTERVENTIONS.get(name)
        for number, (label, colour) in enumerate(colours.items()):
            h, x = (to_numpy(states[clouds.z == number]) for states in (clouds.h, after))
            dots = {"s": 14, "color": colour, "linewidths": 0}
            ax.scatter(*h.T, alpha=0.25 if method else 0.8, **dots)
            if method is None:
                dark = 0.6 * np.array(to_rgb(colour))
                ax.text(h[:, 0].mean(), h[:, 1].max() + 0.15, label, ha="center", color=dark)
            elif number or not method.flips:
                ax.scatter(*x.T, alpha=0.9, zorder=3, **dots)
                shown = h[:, 1].argsort()[:: len(h) // arrows]
                for start, end in zip(h[shown], x[shown]):
                    arrow = {"arrowstyle": "-|>", "color": "0.25", "shrinkA": 0, "shrinkB": 2}
                    ax.annotate("", end, start, arrowprops=arrow, zorder=4)
                mean = {"ms": 13 - 6 * number, "mfc": colour, "mec": "white", "mew": 1.5}
                ax.plot(*x.mean(0), "o", zorder=5, **mean)
        does = f"{name} {'flips' if method.flips else 'erases'}" if method else name
        look.panel_name(ax, does)
        ax.set(aspect="equal", xticks=[], yticks=[], xlim=(-2.3, 3.1), ylim=(-1.2, 3))
    axes[0, 0].text(0.05, -0.15, "zero", ha="right", va="top")
    axes[0, 0].text(foot[0] + 0.2, -1.1, "the probe’s line")
    return look.done(figure)
