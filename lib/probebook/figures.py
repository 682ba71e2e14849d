"""Every plot of the book: one function each, tidy data in, a matplotlib Figure out. Captions, not titles, name them."""
from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

PALETTE = "colorblind"


def style() -> None:
    """The book's look; called once by `runs.start`."""
    sns.set_theme(context="notebook", style="whitegrid", palette=PALETTE,
                  rc={"figure.dpi": 110, "savefig.bbox": "tight", "axes.spines.top": False, "axes.spines.right": False,
                      "figure.figsize": (6.4, 3.6), "legend.frameon": False, "grid.color": "#e6e6e6"})


def lines(data: pd.DataFrame, x: str, y: str, hue: str | None = None, baseline: float | None = None,
          baseline_name: str = "majority", col: str | None = None, xlabel: str | None = None,
          ylabel: str | None = None, log: bool = False) -> Figure:
    """Curves of y over x, one colour a value of `hue`, one panel a value of `col`, a dashed baseline."""
    panels = list(data[col].unique()) if col and len(data) else [None]
    figure, axes = plt.subplots(1, len(panels), figsize=(6.4 if len(panels) == 1 else 4.2 * len(panels), 3.4),
                                sharey=True, squeeze=False)
    for i, (ax, panel) in enumerate(zip(axes[0], panels)):
        part = data if panel is None else data[data[col] == panel]
        if part.empty:
            ax.annotate("no data", (.5, .5), xycoords="axes fraction", ha="center")
            continue
        sns.lineplot(part, x=x, y=y, hue=hue, style=hue, markers=True, dashes=False, ax=ax, errorbar=None,
                     legend="auto" if i == len(panels) - 1 and hue else False)
        if baseline is not None:
            ax.axhline(baseline, ls="--", lw=1, color="0.4", label=baseline_name)
        if log:
            _log(ax)
        ax.set_xlabel(xlabel or x)
        ax.set_ylabel(ylabel or y)
        if panel is not None:
            ax.annotate(str(panel), (0, 1), (2, 3), xycoords="axes fraction", textcoords="offset points",
                        va="bottom", weight="bold")
    if hue and len(data):
        handles, names = axes[0, -1].get_legend_handles_labels()
        axes[0, -1].legend(handles, names, loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def bars(data: pd.DataFrame, x: str, y: str, hue: str | None = None, baseline: float | None = None,
         ylabel: str | None = None, xlabel: str | None = None) -> Figure:
    """Grouped bars from 0 to 1 with a dashed baseline."""
    figure, ax = plt.subplots()
    sns.barplot(data, x=x, y=y, hue=hue, ax=ax, errorbar=None, palette=PALETTE if hue else None)
    if baseline is not None:
        ax.axhline(baseline, ls="--", lw=1, color="0.3")
    ax.set(ylim=(0, 1.02), ylabel=ylabel or y, xlabel=xlabel or x)
    if hue:
        sns.move_legend(ax, "center left", bbox_to_anchor=(1.01, .5), title=None)
    return _done(figure)


def strength_curves(data: pd.DataFrame) -> Figure:
    """Completeness, selectivity and reliability over strength, one panel a method (Canby et al., figures 1–3).

    `data`: columns method, strength, symbol, and the three measures; strengths of one method in rising order."""
    methods = list(data["method"].unique())
    figure, axes = plt.subplots(1, len(methods), figsize=(4.1 * len(methods), 3.4), sharey=True, squeeze=False)
    measures = ["completeness", "selectivity", "reliability"]
    for ax, method in zip(axes[0], methods):
        part = data[data["method"] == method]
        for measure, marker, colour in zip(measures, "os^", sns.color_palette(PALETTE)):
            ax.plot(part["strength"], part[measure], marker=marker, ms=4, color=colour, label=measure,
                    lw=2.4 if measure == "reliability" else 1.4)
        best = part.loc[part["reliability"].idxmax()]
        ax.axvline(best["strength"], color="0.5", lw=1, ls=":")
        symbol = part["symbol"].iloc[0]
        if symbol == "ε":
            _log(ax)
        ax.set(xlabel=f"{method}: {symbol}", ylim=(-.02, 1.02))
    axes[0, 0].set_ylabel("mean over test sentences")
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def heat(table: pd.DataFrame, label: str, low: float = 0.0, high: float = 1.0) -> Figure:
    """A small matrix with its numbers written in."""
    figure, ax = plt.subplots(figsize=(1.8 + 1.1 * table.shape[1], 1.0 + .5 * table.shape[0]))
    sns.heatmap(table, annot=True, fmt=".2f", cmap="crest", vmin=low, vmax=high, cbar_kws={"label": label}, ax=ax)
    ax.tick_params(axis="y", rotation=0)
    ax.set_xticklabels([str(name).replace("-", "-\n") for name in table.columns], rotation=0)
    return _done(figure)


def _log(ax) -> None:
    """A logarithmic x axis with plain numbers."""
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")


def _done(figure: Figure) -> Figure:
    figure.tight_layout()
    plt.close(figure)                     # the page shows the returned figure once
    return figure
