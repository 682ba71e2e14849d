"""Every plot of the book: one function each, tidy data in, a matplotlib Figure out. Captions, not titles, name them."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from numbers import Number
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from scipy import stats

PALETTE = ["#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#a06a3a", "#69000f", "#949494", "#6900d2", "#56b4e9"]
GREYS = ["#7a7a7a", "#333333", "#a6a6a6", "#555555"]        # beside methods, or readers: what is none
MEASURES = ["completeness", "selectivity", "reliability"]
METHODS = {"INLP": 0, "AlterRep": 1, "LEACE": 2, "FGSM": 3, "S-Learner": 3, "PGD": 4, "ConceptSHAP": 5, "CONEXP": 5,
           "AutoAttack": 6, "TCAV": 6, "Approx": 8, "R-LACE": 9, "RLACE": 9, "CausaLM": 9,
           "ot": 0, "ot-matched": 1, "ot-answered": 2, "ot-unknown": 3, "ibt": 4, "ibt-negated": 6,
           "learned": 8}           # places in the palette: interventions, explainers, readers, directions


def style() -> None:
    """The book's look; called once by `runs.start`."""
    sns.set_theme(context="notebook", style="whitegrid", palette=PALETTE,
                  rc={"figure.dpi": 110, "savefig.bbox": "tight", "axes.spines.top": False, "axes.spines.right": False,
                      "figure.figsize": (6.4, 3.6), "legend.frameon": False, "grid.color": "#e6e6e6"})


def method_colours(kinds: Sequence, rows: Sequence = ()) -> list[tuple[float, float, float]]:
    """A colour for each kind: a method's is the same on every page (two that share one are never drawn together).

    Of a method's variants ("AlterRep, raw") each is darker than the one before; beside methods, also if they name the
    `rows`, what is none is grey; other kinds take the palette in its order, numbers one from light to dark."""
    methods = [str(kind).partition(",")[0] for kind in kinds]
    beside = METHODS.keys() & {*methods, *rows}
    if not beside and all(isinstance(kind, Number) for kind in kinds):
        return sns.color_palette("crest", len(kinds) + 2)[2:]
    others = cycle(GREYS if beside else PALETTE)
    before = [methods[:i].count(method) for i, method in enumerate(methods)]
    return [tuple(part * .55 ** n for part in to_rgb(PALETTE[METHODS[method]])) if method in METHODS
            else to_rgb(next(others)) for method, n in zip(methods, before)]


def lines(data: pd.DataFrame, x: str, y: str, hue: str | None = None, baseline: float | None = None,
          baseline_name: str = "majority", col: str | None = None, xlabel: str | None = None,
          ylabel: str | None = None, log: bool = False, columns: int | None = None, band: bool = False,
          limits: tuple[float, float] | None = None) -> Figure:
    """Curves of y over x, one colour a value of `hue`, one panel a value of `col`, a dashed baseline.

    Where rows share x, their mean; `band`: and their range. `columns`: panels in a row; None: all of them. `limits`:
    of y; None: as the curves want it."""
    panels = list(data[col].unique()) if col and len(data) else [None]
    columns = min(columns or len(panels), len(panels))
    shape = -(-len(panels) // columns), columns
    size = (6.4, 3.4) if len(panels) == 1 else (4.2 * columns, 3.4 * shape[0])
    figure, axes = plt.subplots(*shape, figsize=size, sharey=True, squeeze=False)
    for ax in axes.flat[len(panels):]:
        ax.set_axis_off()
    for i, (ax, panel) in enumerate(zip(axes.flat, panels)):
        part = data if panel is None else data[data[col] == panel]
        if part.empty:
            ax.annotate("no data", (.5, .5), xycoords="axes fraction", ha="center")
            continue
        sns.lineplot(part, x=x, y=y, hue=hue, style=hue, palette=_by_kind(data, hue), hue_order=_kinds(data, hue),
                     style_order=_kinds(data, hue), markers=True, dashes=False, ax=ax,
                     errorbar=("pi", 100) if band else None, err_kws={"alpha": .12} if band else None,
                     legend="auto" if i == len(panels) - 1 and hue else False)
        drawn = [line for line in ax.lines if len(line.get_xdata())]
        for width, line in zip(np.linspace(2.6, 1.4, len(drawn)), drawn):           # seen under the later ones
            line.set(linewidth=width, **({"markersize": 10, "zorder": 5} if len(line.get_xdata()) == 1 else {}))
        if ax.get_legend():
            ax.get_legend().remove()
        if baseline is not None:
            ax.axhline(baseline, ls="--", lw=1, color="0.4", label=baseline_name)
        if log:
            _log(ax)
        elif pd.api.types.is_integer_dtype(part[x]):
            ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        ax.set(xlabel=xlabel or x, ylabel=ylabel or y)
        if limits:
            ax.set_ylim(limits)
        if panel is not None:
            _name(ax, panel)
    if hue and len(data):
        handles, names = axes.flat[len(panels) - 1].get_legend_handles_labels()
        axes[0, -1].legend(handles, names, loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def scheme(boxes: Mapping[str, tuple[float, float]], arrows: Sequence[tuple[str, str, str]],
           marked: Sequence[str] = ()) -> Figure:
    """Boxes at (column, row) and arrows (from, to, text) between them; the boxes in `marked` are filled."""
    columns, rows = (max(at[i] for at in boxes.values()) for i in (0, 1))
    figure, ax = plt.subplots(figsize=(2.3 * (columns + 1), 1.15 * (rows + 1)))
    filled, plain = PALETTE[0], "0.35"
    texts = {name: ax.text(x, -y, name, ha="center", va="center", fontsize=10, zorder=3,
                           bbox={"boxstyle": "round,pad=.5", "fc": "#dcebf7" if name in marked else "white",
                                 "ec": filled if name in marked else plain}) for name, (x, y) in boxes.items()}
    ax.set(xlim=(-.6, columns + .6), ylim=(-rows - .6, .6))
    for start, end, text in arrows:
        (x0, y0), (x1, y1) = boxes[start], boxes[end]
        ax.annotate("", (x1, -y1), (x0, -y0), zorder=4, arrowprops={
            "arrowstyle": "-|>", "color": plain, "patchA": texts[start].get_bbox_patch(),
            "patchB": texts[end].get_bbox_patch(), "shrinkA": 2, "shrinkB": 2})
        ax.text((x0 + x1) / 2, -(y0 + y1) / 2 + .16, text, ha="center", fontsize=8.5, color=plain, zorder=5,
                bbox={"fc": "white", "ec": "none", "pad": 1})
    ax.set_axis_off()
    return _done(figure)


def points(data: pd.DataFrame, x: str, y: str, hue: str, size: str, col: str, baseline: float | None = None,
           baseline_name: str = "majority") -> Figure:
    """A point a row, x logarithmic, one panel a value of `col`; colour and marker by `hue`, area by the rank of `size`.

    A dashed baseline, if one is given."""
    panels, kinds = list(data[col].unique()), sorted(data[size].unique())
    figure, axes = plt.subplots(1, len(panels), figsize=(3.8 * len(panels), 3.6), sharey=True, squeeze=False)
    for ax, panel in zip(axes[0], panels):
        sns.scatterplot(data[data[col] == panel], x=x, y=y, hue=hue, style=hue, size=size, ax=ax, alpha=.85,
                        palette=_by_kind(data, hue),
                        linewidth=0, sizes=dict(zip(kinds, range(22, 22 + 30 * len(kinds), 30))),
                        legend=panel == panels[-1])
        if baseline is not None:
            ax.axhline(baseline, ls="--", lw=1, color="0.4", label=baseline_name)
        _log(ax)
        _name(ax, panel)
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def margins(data: pd.DataFrame, x: str, bounds: Sequence[str], col: str, ylabel: str = "accuracy") -> Figure:
    """Mean ± sd as a band over x, and mean ± each bound as a pair of lines, one panel a value of `col`.

    `data`: columns x, mean, sd, col, and the half-widths `bounds`; from 0 to 1 lie the possible values."""
    panels = list(data[col].unique())
    figure, axes = plt.subplots(1, len(panels), figsize=(3.4 * len(panels) + .8, 3.4), sharey=True, squeeze=False)
    for ax, panel in zip(axes[0], panels):
        part = data[data[col] == panel]
        colours = iter(PALETTE)
        colour = next(colours)
        ax.axhspan(0, 1, color="0.95", lw=0)
        ax.plot(part[x], part["mean"], color=colour, marker="o", ms=4, label="mean ± sd")
        ax.fill_between(part[x], part["mean"] - part["sd"], part["mean"] + part["sd"], color=colour, alpha=.35, lw=0)
        for bound, style, colour in zip(bounds, ("--", ":", "-."), colours):
            for sign in (-1, 1):
                ax.plot(part[x], part["mean"] + sign * part[bound], style, color=colour,
                        label=bound if sign > 0 else None)
        _log(ax)
        ax.set(xlabel=x, ylim=(-.6, 1.9))
        _name(ax, panel)
    axes[0, 0].set_ylabel(ylabel)
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def bars(data: pd.DataFrame, x: str, y: str, hue: str | None = None, baseline: float | None = None,
         ylabel: str | None = None, xlabel: str | None = None) -> Figure:
    """Grouped bars from 0 to 1 with a dashed baseline."""
    figure, ax = plt.subplots()
    sns.barplot(data, x=x, y=y, hue=hue, ax=ax, errorbar=None, saturation=1, palette=_by_kind(data, hue))
    if baseline is not None:
        ax.axhline(baseline, ls="--", lw=1, color="0.3")
    ax.set(ylim=(0, 1.02), ylabel=ylabel or y, xlabel=xlabel or x)
    if hue:
        sns.move_legend(ax, "center left", bbox_to_anchor=(1.01, .5), title=None)
    return _done(figure)


def strength_curves(data: pd.DataFrame) -> Figure:
    """Completeness, selectivity and reliability over strength, one panel a method (Canby et al., figures 1–6).

    `data`: columns method, strength, symbol, and the three measures; strengths of one method in rising order."""
    methods = list(data["method"].unique())
    rows = -(-len(methods) // 3)
    figure, axes = plt.subplots(rows, min(3, len(methods)), figsize=(4.1 * min(3, len(methods)), 3.4 * rows),
                                sharey=True, squeeze=False)
    for ax in axes.flat[len(methods):]:
        ax.set_axis_off()
    for ax, method in zip(axes.flat, methods):
        part = data[data["method"] == method]
        for measure, marker, colour in zip(MEASURES, "os^", PALETTE):
            ax.plot(part["strength"], part[measure], marker=marker, ms=4, color=colour, label=measure,
                    lw=2.4 if measure == "reliability" else 1.4)
        best = part.loc[part["reliability"].idxmax()]
        ax.axvline(best["strength"], color="0.2", lw=1.5, ls=":")
        symbol = part["symbol"].iloc[0]
        if symbol == "ε":
            _log(ax)
        ax.set(xlabel=f"{method}: {symbol}", ylim=(-.02, 1.02))
    for ax in axes[:, 0]:
        ax.set_ylabel("mean over sentences")
    axes[0, -1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def ranges(data: pd.DataFrame, y: str, measures: Sequence[str], hue: str | None = None,
           limits: tuple[float, float] | None = (-.02, 1.02), line: float | None = None) -> Figure:
    """A point with its interval for every value of `y`, one panel a measure; `line`: where a dashed one stands.

    `data`: columns `<measure>`, `<measure>_low` and `<measure>_high` of every measure, `y`, and `hue` if given.
    `limits`: of every panel's axis; None: each panel's own, as its points want it."""
    names = list(dict.fromkeys(data[y]))
    kinds = list(dict.fromkeys(data[hue])) if hue else [None]
    size = max(5.6, 3.2 * len(measures)), 1 + .42 * len(names)
    figure, axes = plt.subplots(1, len(measures), figsize=size, sharey=True, squeeze=False)
    for ax, measure in zip(axes[0], measures):
        for i, (kind, colour, marker) in enumerate(zip(kinds, method_colours(kinds, names), "osD^v")):
            part = data if kind is None else data[data[hue] == kind]
            place = [names.index(name) + .16 * (i - (len(kinds) - 1) / 2) for name in part[y]]
            away = [(part[measure] - part[f"{measure}_low"]).clip(0), (part[f"{measure}_high"] - part[measure]).clip(0)]
            ax.errorbar(part[measure], place, xerr=away, fmt=marker, ms=4, color=colour, label=kind, capsize=3)
        ax.set(xlabel=measure, yticks=range(len(names)), yticklabels=names)
        if line is not None:
            ax.axvline(line, ls="--", lw=1, color="0.4")
        if limits:
            ax.set_xlim(limits)
        else:
            ax.xaxis.set_major_locator(MaxNLocator(3))
    axes[0, 0].set_ylim(len(names) - .5, -.5)
    if hue:
        axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def fits(data: pd.DataFrame, x: str, y: str, hue: str, col: str) -> Figure:
    """Points with a straight line and its 95 % band for every value of `hue`, one panel a value of `col`."""
    panels, kinds = list(dict.fromkeys(data[col])), list(dict.fromkeys(data[hue]))
    figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.4), sharey=True, squeeze=False)
    for ax, panel in zip(axes[0], panels):
        for kind, colour, marker in zip(kinds, method_colours(kinds), "osD^v"):
            part = data[(data[col] == panel) & (data[hue] == kind)]
            ax.scatter(part[x], part[y], s=16, color=colour, marker=marker, linewidths=0)
            if len(part) > 2:
                fit = stats.linregress(part[x], part[y])
                at = part[x].sort_values()
                away = (1 / len(at) + (at - at.mean()) ** 2 / ((at - at.mean()) ** 2).sum()) ** .5
                away *= stats.t.ppf(.975, len(at) - 2) * fit.stderr * ((at - at.mean()) ** 2).sum() ** .5
                line = fit.intercept + fit.slope * at
                ax.plot(at, line, color=colour, label=kind)
                ax.fill_between(at, line - away, line + away, color=colour, alpha=.15, linewidth=0)
        ax.set(xlabel=str(panel), ylabel=y)
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def scatter(data: pd.DataFrame, x: str, y: str, hue: str, col: str, line: float | None = None,
            floor: float = .01) -> Figure:
    """Points, one panel a value of `col`; y is logarithmic, drawn at `floor` where it is less; `line`: a threshold."""
    panels, kinds = list(dict.fromkeys(data[col])), list(dict.fromkeys(data[hue]))
    figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.4), sharey=True, squeeze=False)
    for ax, panel in zip(axes[0], panels):
        for kind, colour, marker in zip(kinds, method_colours(kinds), "osD^v"):
            part = data[(data[col] == panel) & (data[hue] == kind)]
            ax.scatter(part[x], part[y].clip(lower=floor), s=14, color=colour, marker=marker, alpha=.6, linewidths=0,
                       label=kind)
        if line is not None:
            ax.axhline(line, ls="--", lw=1, color="0.3")
        ax.set(xlabel=x, ylabel=y, yscale="log")
        ax.yaxis.set_major_formatter("{x:g}")
        _name(ax, panel)
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def histograms(data: pd.DataFrame, x: str, hue: str, col: str, limits: tuple[float, float] | None = None,
               top: float | None = None, line: float | None = None) -> Figure:
    """Share of the items in each of 40 bins of x: one panel a value of `col`, a row of its own for each of `hue`.

    `limits`: of x, what lies beyond them counts in the last bins; `top`: of the shares; None: as the data want it.
    `line`: where a dashed one stands."""
    panels, kinds = list(dict.fromkeys(data[col])), list(dict.fromkeys(data[hue]))
    figure, axes = plt.subplots(len(kinds), len(panels), figsize=(max(4.6, 3.2 * len(panels)), .6 + 1.2 * len(kinds)),
                                sharex=True, sharey=True, squeeze=False)
    limits = limits or (data[x].min(), max(data[x].max(), data[x].min() + 1e-6))
    for (i, kind), colour in zip(enumerate(kinds), method_colours(kinds)):
        for ax, panel in zip(axes[i], panels):
            part = data.loc[(data[hue] == kind) & (data[col] == panel), x].clip(*limits)
            ax.hist(part, 40, limits, weights=[1 / max(1, len(part))] * len(part), color=colour, histtype="stepfilled")
            ax.annotate(str(kind), (1, 1), (0, 2), xycoords="axes fraction", textcoords="offset points", fontsize=10,
                        ha="right", va="bottom")
            if line is not None:
                ax.axvline(line, ls="--", lw=1, color="0.4")
            ax.set_ylabel("share" if panel == panels[0] else "")
            if top:
                ax.set_ylim(0, top)
            if limits == (0, 1):
                ax.set_xticks([0, .5, 1], ["0", ".5", "1"])
    for ax, panel in zip(axes[0], panels):
        _name(ax, panel)
    for ax in axes[-1]:
        ax.set_xlabel(x)
    return _done(figure)


def roc(data: pd.DataFrame, score: str, positive: str, hue: str, col: str, threshold: float | None = None) -> Figure:
    """ROC curves of "score above a threshold means positive", one a value of `hue`, one panel a value of `col`.

    A dot marks the given threshold; dashed: a coin. `data[positive]`: bool."""
    panels, kinds = list(dict.fromkeys(data[col])), list(dict.fromkeys(data[hue]))
    figure, axes = plt.subplots(1, len(panels), figsize=(3.5 * len(panels), 3.3), sharey=True, squeeze=False)
    for ax, panel in zip(axes[0], panels):
        for kind, colour in zip(kinds, method_colours(kinds)):
            part = data[(data[col] == panel) & (data[hue] == kind)].sort_values(score, ascending=False)
            ends = (part[score] != part[score].shift(-1)).to_numpy()                  # equal scores move together
            rates = [pd.concat([pd.Series([0.0]), (is_one.cumsum() / is_one.sum())[ends]])
                     for is_one in (~part[positive], part[positive])]
            ax.plot(*rates, color=colour, label=kind)
            if threshold is not None:
                found = part[score] > threshold
                ax.plot(found[~part[positive]].mean(), found[part[positive]].mean(), "o", color=colour)
        ax.axline((0, 0), slope=1, color="0.6", lw=1, ls="--")
        ax.set(xlabel="false positives", ylabel="true positives", xlim=(-.02, 1.02), ylim=(-.02, 1.02))
        _name(ax, panel)
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def before_and_after(plane: pd.DataFrame, trace: pd.DataFrame, strength: float) -> Figure:
    """Left: states on two axes before (pale) and after an edit; right: where its strength lies on the path of C and S.

    `plane`: columns x, y, when (`before` or `after`), label; `trace`: strength and the three measures of each."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6))
    colours = dict(zip(sorted(plane["label"].unique()), PALETTE))
    for (when, label), part in plane.groupby(["when", "label"], sort=False):
        left.scatter(part["x"], part["y"], s=9, color=colours[label], alpha=.15 if when == "before" else .7,
                     label=label if when == "after" else None, linewidths=0)
    left.set(xlabel=plane.attrs.get("x", "x"), ylabel=plane.attrs.get("y", "y"))
    if "limits" in plane.attrs:
        left.set(**plane.attrs["limits"])
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, markerscale=2, borderaxespad=0)
    right.plot(trace["completeness"], trace["selectivity"], color="0.7", marker=".", lw=1)
    here = trace[trace["strength"] == strength].iloc[0]
    right.plot(here["completeness"], here["selectivity"], "o", ms=11, color=GREYS[1])
    right.annotate(f"R = {here['reliability']:.2f}", (.03, .05), xycoords="axes fraction")
    right.set(xlabel="completeness", ylabel="selectivity", xlim=(-.03, 1.03), ylim=(-.03, 1.03))
    return _done(figure)


def slider(draw: Callable[[Any], Figure], values: Sequence, name: str, form: str = "{}", at: Any = None):
    """An ipywidgets slider through the pictures `draw(value)`; they are drawn beforehand and linked in the browser, so
    that it needs no kernel. With a kernel each position is drawn anew, with the page's variables as they are then.

    `name`: what the slider moves; `form`: how a value is written; `at`: the one of the values at which it opens (None:
    the first). Show a static figure first."""
    import io

    from ipywidgets import Image, SelectionSlider, Stack, VBox, jslink

    def png(value) -> bytes:
        file = io.BytesIO()
        draw(value).savefig(file, format="png", dpi=80)
        return file.getvalue()

    def redraw(change) -> None:
        stack.children[change["new"]].value = png(values[change["new"]])

    values = list(values)
    first = 0 if at is None else values.index(at)
    look = {"max_width": "100%", "object_fit": "contain"}
    stack = Stack([Image(value=png(value), format="png", layout=look) for value in values], selected_index=first)
    move = SelectionSlider(options=[form.format(value) for value in values], description=name, index=first,
                           continuous_update=True, layout={"width": "min(30em, 95%)"})
    jslink((move, "index"), (stack, "selected_index"))
    move.observe(redraw, "index")
    return VBox([move, stack])


def heat(table: pd.DataFrame, label: str, low: float = 0.0, high: float = 1.0, form: str = ".2f") -> Figure:
    """A small matrix with its numbers written in as `form`; where `low` is below 0, two colours meet in the middle."""
    figure, ax = plt.subplots(figsize=(1.8 + 1.1 * table.shape[1], 1.0 + .5 * table.shape[0]))
    sns.heatmap(table, annot=True, fmt=form, cmap="vlag" if low < 0 else "crest", vmin=low, vmax=high, ax=ax,
                cbar_kws={"label": label})
    for text in ax.texts:                                                  # true minus, none before zero
        text.set_text(_number(float(text.get_text()), form))
    ax.tick_params(axis="y", rotation=0)
    ax.set_xticklabels([str(name).replace("-", "-\n") for name in table.columns], rotation=0)
    return _done(figure)


def _number(value: float, form: str = ".2f") -> str:
    """A number with the minus that ticks have, and none before zero."""
    text = f"{value:{form}}"
    return text.replace("-", "−" if float(text) else "")


def _kinds(data: pd.DataFrame, hue: str | None) -> list | None:
    return list(data[hue].drop_duplicates()) if hue else None


def _by_kind(data: pd.DataFrame, hue: str | None) -> dict | None:
    kinds = _kinds(data, hue)
    return dict(zip(kinds, method_colours(kinds))) if hue else None


def _log(ax) -> None:
    """A logarithmic x axis with plain numbers, three a decade where there are few decades."""
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")


def _name(ax, panel) -> None:
    """A panel's name, above its left corner."""
    ax.annotate(str(panel), (0, 1), (2, 3), xycoords="axes fraction", textcoords="offset points", va="bottom",
                weight="bold")


def _done(figure: Figure) -> Figure:
    figure.tight_layout()
    plt.close(figure)                     # the page shows the returned figure once
    return figure


def against(data: pd.DataFrame, pairs: Sequence[tuple[str, str]], hue: str, log: Sequence[str] = (),
            limits: tuple[float, float] | None = None) -> Figure:
    """One panel a pair of columns (x, y): a point a row, colour and marker by `hue`; dashed where y = x.

    `log`: columns that, as y, have a logarithmic axis; there the dashed line is y = 1. `limits`: of all axes."""
    kinds = list(dict.fromkeys(data[hue]))
    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.0 * columns, 3.3 * rows), squeeze=False)
    for ax in axes.flat[len(pairs):]:
        ax.set_axis_off()
    for ax, (x, y) in zip(axes.flat, pairs):
        for i, (kind, colour, marker) in enumerate(zip(kinds, method_colours(kinds), "osD^vPX*<>")):
            part, size = data[data[hue] == kind], 20 + 6 * (len(kinds) - i)      # the first: seen under the later
            ax.scatter(part[x], part[y], s=size, color=colour, marker=marker, label=kind, linewidths=0)
        if y in log:
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_locator(LogLocator(subs=(.5, 2, 5)))
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
        axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def causal_graphs(graphs: Mapping[str, object], places: Mapping[str, tuple[float, float]], boxed: Sequence[str] = (),
                  path: Sequence[str] = ()) -> Figure:
    """Causal graphs side by side: `graphs` name → networkx.DiGraph, `places` node → (x, y).

    Nodes in `boxed` (conditioned on) are squares; edges between neighbours on `path` are drawn thick."""
    import networkx as nx

    figure, axes = plt.subplots(1, len(graphs), figsize=(3.1 * len(graphs), 2.6), squeeze=False)
    colours = PALETTE
    steps = {frozenset(pair) for pair in zip(path, path[1:])}
    for ax, (name, graph) in zip(axes[0], graphs.items()):
        for shape, nodes in (("s", [v for v in graph if v in boxed]), ("o", [v for v in graph if v not in boxed])):
            nx.draw_networkx_nodes(graph, places, nodes, node_shape=shape, node_size=620, node_color="white",
                                   edgecolors="0.2", linewidths=2.2 if shape == "s" else 1.2, ax=ax)
        nx.draw_networkx_labels(graph, places, font_size=12, ax=ax)
        on = [frozenset(edge) in steps for edge in graph.edges]
        nx.draw_networkx_edges(graph, places, node_size=620, ax=ax, arrowsize=14, width=[2.4 if x else 1.1 for x in on],
                               edge_color=[colours[3] if x else "0.35" for x in on])
        ax.annotate(name, (.5, -.02), xycoords="axes fraction", ha="center", va="top")
        ax.set_axis_off()
        ax.margins(.18)
    return _done(figure)


def clouds(panels: Mapping[str, pd.DataFrame], rows: int = 1, colours: Sequence[int] | None = None) -> Figure:
    """Scatter plots, one a panel: label → DataFrame whose first two columns are x and y; the correlation is written in.

    `colours`: the place in the palette of each panel."""
    columns = -(-len(panels) // rows)
    figure, axes = plt.subplots(rows, columns, figsize=(2.7 * columns, 2.6 * rows), squeeze=False)
    for ax in axes.flat[len(panels):]:
        ax.set_axis_off()
    for ax, (label, data), colour in zip(axes.flat, panels.items(), colours or [0] * len(panels)):
        x, y = data.columns[:2]
        ax.scatter(data[x], data[y], s=3, alpha=.35, linewidths=0, color=PALETTE[colour],
                   rasterized=True)
        ax.set(xlabel=x, ylabel=y)
        ax.annotate(f"{label}\nr = {_number(data[[x, y]].corr().iloc[0, 1])}", (0, 1), (2, 3), xycoords="axes fraction",
                    textcoords="offset points", va="bottom", fontsize=10)
    return _done(figure)


def cut(data: pd.DataFrame, kept, curves: pd.DataFrame, at: float, xlabel: str) -> Figure:
    """Left: a cloud with its selected rows coloured; right: curves over a setting, one colour a column, `at` marked.

    `data`: two columns; `kept`: which rows are selected; `curves`: index the setting's values."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
    x, y = data.columns[:2]
    left.scatter(data[x], data[y], s=4, color="0.8", linewidths=0, rasterized=True)
    left.scatter(data[x][kept], data[y][kept], s=4, color=PALETTE[3], linewidths=0, rasterized=True)
    left.set(xlabel=x, ylabel=y)
    for name, colour, dash in zip(curves, PALETTE, cycle(["-", "--", "-", ":"])):           # some lie on each other
        right.plot(curves.index, curves[name], dash, color=colour, label=f"{name}: {_number(curves[name].loc[at])}")
        right.plot(at, curves[name].loc[at], "o", color=colour)
    right.axvline(at, color="0.6", lw=1, ls=":")
    right.set(xlabel=xlabel, ylim=(-1.05, 1.05))
    right.legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)


def outcomes(data: pd.DataFrame, x: str, kind: str, curve: pd.Series, at: float, limits: tuple[float, float],
             line: float, level: float) -> Figure:
    """Left: shares of drawn x (counts over `at`) in some 40 bins, one on the other by what was concluded; right: a
    curve, `at` marked.

    `data`: a row a draw; `kind` is categorical, and its categories keep their colours. `curve`: index the sizes, with
    names; dashed: `line` among the x, `level` on the curve."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), width_ratios=(3, 2))
    kinds = list(data[kind].cat.categories)
    step = np.ceil((limits[1] - limits[0]) * at / 40) / at                  # each bin holds as many possible values
    bins = np.arange(limits[0] - .5 / at, limits[1] + step, step)
    left.hist([data.loc[data[kind] == one, x].clip(*limits) for one in kinds], bins, stacked=True,
              weights=[[1 / len(data)] * (data[kind] == one).sum() for one in kinds], color=method_colours(kinds),
              label=kinds, linewidth=0, histtype="stepfilled")
    left.axvline(line, ls="--", lw=1, color="0.4")
    left.set(xlabel=x, ylabel="share of draws")
    left.yaxis.set_major_formatter("{x:g}")
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(kinds), fontsize=9, handlelength=1, borderaxespad=0)
    colour = PALETTE[3]
    right.plot(curve.index, curve, color="0.6", marker=".")
    right.plot(at, curve.loc[at], "o", ms=9, color=colour)
    right.axhline(level, ls="--", lw=1, color="0.4")
    _log(right)
    right.set(xlabel=curve.index.name, ylabel=curve.name, ylim=(-.02, 1.02))
    return _done(figure)


def calibration(data: pd.DataFrame, x: str, y: str, hue: str, fitted: Mapping[str, tuple[float, float]]) -> Figure:
    """Measured over true values with their intervals, colour and marker by `hue`; dashed where y = x.

    `data`: columns x, y, `<y>_low`, `<y>_high`, hue. `fitted`: slope and intercept of a line, by value of `hue`."""
    figure, ax = plt.subplots(figsize=(5.2, 4.2))
    kinds, width = list(dict.fromkeys(data[hue])), data[x].max() - data[x].min() or 1
    for i, (kind, colour, marker) in enumerate(zip(kinds, method_colours(kinds), "osD^v")):
        part = data[data[hue] == kind]
        away = [(part[y] - part[f"{y}_low"]).clip(0), (part[f"{y}_high"] - part[y]).clip(0)]
        place = part[x] + .012 * width * (i - (len(kinds) - 1) / 2)                      # side by side
        ax.errorbar(place, part[y], yerr=away, fmt=marker, ms=5, color=colour, label=kind, capsize=2)
        if kind in fitted:
            slope, start = fitted[kind]
            ax.axline((0, start), slope=slope, color=colour, lw=1)
    ax.axline((0, 0), slope=1, color="0.6", lw=1, ls="--", label="y = x")
    ax.set(xlabel=x, ylabel=y)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, .5))
    return _done(figure)
