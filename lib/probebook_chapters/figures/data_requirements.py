"""What only chapter 3 draws: bands and bounds, draws and what was concluded from them."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from probebook.figures import look


def margins(
    data: pd.DataFrame, x: str, bounds: Sequence[str], col: str, columns: int | None = None
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
        ax.set_ylabel("accuracy")
    look.legend_beside(axes[0, -1])
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
    left.legend(**look.ABOVE, ncols=len(kinds), fontsize=9, handlelength=1, borderaxespad=0)
    right.plot(curve.index, curve, color="0.6", marker=".")
    right.plot(at, curve.loc[at], "o", ms=9, color=look.PALETTE[3])
    look.dashed(right, level)
    look.log_axis(right)
    right.set(xlabel=curve.index.name, ylabel=curve.name, ylim=(-0.02, 1.02))
    return look.done(figure)
