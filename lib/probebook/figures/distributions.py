"""Distributions: histograms, and drawn values with what was concluded from them."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from probebook.figures import look


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
            ax.annotate(
                str(kind),
                (1, 1),
                (0, 2),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=10,
                ha="right",
                va="bottom",
            )
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


def outcomes(
    data: pd.DataFrame,
    x: str,
    kind: str,
    curve: pd.Series,
    at: float,
    limits: tuple[float, float],
    line: float,
    level: float,
) -> Figure:
    """Left: histogram of drawn x, coloured by the conclusion; right: a curve with `at` marked.

    - `data`: one row per draw; x holds counts over `at`, and `kind` is categorical: its categories
      keep their colours
    - `curve`: index the sizes; index and values have names
    - `limits`: of x, in some 40 bins
    - `line`, `level`: positions of the dashed lines, on x and on the curve"""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), width_ratios=(3, 2))
    kinds = list(data[kind].cat.categories)
    step = np.ceil((limits[1] - limits[0]) * at / 40) / at  # as many possible values per bin
    bins = np.arange(limits[0] - 0.5 / at, limits[1] + step, step)
    parts = [data.loc[data[kind] == one, x].clip(*limits) for one in kinds]
    left.hist(
        parts,
        bins,
        stacked=True,
        weights=[[1 / len(data)] * len(part) for part in parts],
        color=look.method_colours(kinds),
        label=kinds,
        linewidth=0,
        histtype="stepfilled",
    )
    left.axvline(line, ls="--", lw=1, color="0.4")
    left.set(xlabel=x, ylabel="share of draws")
    left.yaxis.set_major_formatter("{x:g}")
    left.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(kinds),
        fontsize=9,
        handlelength=1,
        borderaxespad=0,
    )
    right.plot(curve.index, curve, color="0.6", marker=".")
    right.plot(at, curve.loc[at], "o", ms=9, color=look.PALETTE[3])
    look.dashed(right, level)
    look.log_axis(right)
    right.set(xlabel=curve.index.name, ylabel=curve.name, ylim=(-0.02, 1.02))
    return look.done(figure)
