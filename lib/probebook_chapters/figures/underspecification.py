"""Plots that only chapter 4 uses: causal graphs, clouds, fits, ROC curves, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.metrics import roc_curve

from probebook.figures import look, versus_published

if TYPE_CHECKING:
    from networkx import DiGraph


def causal_graphs(
    graphs: Mapping[str, DiGraph],
    places: Mapping[str, tuple[float, float]],
    boxed: Sequence[str] = (),
    path: Sequence[str] = (),
    words: Mapping[str, str] | None = None,
) -> Figure:
    """Causal graphs side by side, by name; `places`: node → (x, y).

    Nodes in `boxed` (conditioned on) are squares; edges between neighbours on `path` are thick.
    `words`: node → what it means, written beside it, on the side away from the graph's middle."""
    import networkx as nx

    size = (4.2 if words else 3.1) * len(graphs), 2.6
    figure, axes = plt.subplots(1, len(graphs), figsize=size, squeeze=False)
    middle = sum(x for x, _ in places.values()) / len(places)
    steps = {frozenset(pair) for pair in zip(path, path[1:])}
    for ax, (name, graph) in zip(axes[0], graphs.items()):
        squares = [node for node in graph if node in boxed]
        circles = [node for node in graph if node not in boxed]
        for shape, nodes, width in (("s", squares, 2.2), ("o", circles, 1.2)):
            nx.draw_networkx_nodes(
                graph,
                places,
                nodes,
                node_shape=shape,
                node_size=620,
                node_color="white",
                edgecolors="0.2",
                linewidths=width,
                ax=ax,
            )
        nx.draw_networkx_labels(graph, places, font_size=12, ax=ax)
        thick = [frozenset(edge) in steps for edge in graph.edges]
        nx.draw_networkx_edges(
            graph,
            places,
            node_size=620,
            ax=ax,
            arrowsize=14,
            width=[2.4 if on else 1.1 for on in thick],
            edge_color=[look.PALETTE[3] if on else "0.35" for on in thick],
        )
        for node, meaning in (words or {}).items():
            side = (places[node][0] > middle) - (places[node][0] < middle)
            ax.annotate(
                meaning,
                places[node],
                (18 * side, 0 if side else 16),
                fontsize=10,
                textcoords="offset points",
                ha=("center", "left", "right")[side],
                va="center" if side else "bottom",
            )
        ax.annotate(name, (0.5, -0.02), xycoords="axes fraction", ha="center", va="top")
        ax.set_axis_off()
        ax.margins(0.6 if words else 0.18, 0.18)
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
        look.text_above(ax, name, fontsize=10)
    return look.done(figure)


def selection_and_curves(
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


def around_threshold(
    data: pd.DataFrame, x: str, y: str, hue: str, col: str, threshold: float
) -> Figure:
    """The points of `scatter`; beside the line stands what the rule calls them on either side."""
    figure = scatter(data, x, y, hue, col, threshold)
    last = figure.axes[-1]
    if legend := last.get_legend():
        legend.remove()
    sides = {"called\nunspecified": (6, "bottom"), "called well\nspecified": (-6, "top")}
    for name, (shift, edge) in sides.items():
        last.annotate(
            name,
            (1, threshold),
            (6, shift),
            last.get_yaxis_transform(),
            "offset points",
            va=edge,
            fontsize=11,
        )
    figure = look.done(figure)
    look.legend_above(figure)
    return figure


def over_years(
    data: pd.DataFrame, x: str, y: str, hue: str, col: str, solid: str, ylabel: str
) -> Figure:
    """Curves of y over x, named at their right ends, one panel per value of `col`.

    A curve is solid where the column `solid` is true, and dashed otherwise. Curves that end at
    nearly the same height share a name."""
    figure, panels = look.row_of_panels(data, col, 5.0, 3.6)
    kinds = look.values_of(data, hue)
    colours = dict(zip(kinds, look.method_colours(kinds)))
    drawn = []
    for panel, ax in panels:
        lines = {}
        for kind in kinds:
            part = data[(data[col] == panel) & (data[hue] == kind)].dropna(subset=y)
            if len(part):
                style = "-" if part[solid].iloc[0] else "--"
                [lines[kind]] = ax.plot(part[x], part[y], style, lw=2, color=colours[kind])
        ax.set(xlabel=x, ylabel=ylabel if ax is panels[0][1] else "")
        look.panel_name(ax, panel)
        drawn.append((ax, lines))
    for ax, lines in drawn:  # once all panels have their common limits
        low, high = ax.get_ylim()
        ends: list[tuple[float, list[str]]] = []
        for kind, line in sorted(lines.items(), key=lambda item: item[1].get_ydata()[-1]):
            height = line.get_ydata()[-1]
            if ends and height - ends[-1][0] < 0.03 * (high - low):
                ends[-1][1].append(kind)
            else:
                ends.append((height, [kind]))
        look.name_at_ends(
            ax, [lines[group[0]] for _, group in ends], [",\n".join(group) for _, group in ends]
        )
    return look.done(figure)


def accuracies(data: pd.DataFrame) -> Figure:
    """Balanced accuracies in percent by model, published, stored and of this run; dashed: a coin.

    `data`: columns source, model, texts, balanced, low, high; one panel per value of texts."""
    figure = versus_published(data, "model", "balanced", "texts", (5, 103), 50)
    for ax in figure.axes:
        look.panel_name(ax, ax.get_xlabel().replace(" (", "\n("))
        ax.set_xlabel("")
        ax.set_xticks([25, 50, 75, 100], ["25", "50\na coin", "75", "100"])
    figure.supxlabel("balanced accuracy, %", fontsize=12)
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
    figure, panels = look.row_of_panels(data, col, 3.8, 3.5)
    kinds = look.values_of(data, hue)
    for panel, ax in panels:
        for kind, colour in zip(kinds, look.method_colours(kinds)):
            part = data[(data[col] == panel) & (data[hue] == kind)]
            *rates, _ = roc_curve(part[positive], part[score], drop_intermediate=False)
            ax.plot(*rates, color=colour, label=kind)
            if threshold is not None:
                found = part[score] > threshold
                false, true = found[~part[positive]].mean(), found[part[positive]].mean()
                ax.plot(false, true, "o", color=colour)
        ax.axline((0, 0), slope=1, color="0.6", lw=1, ls="--")
        ax.set(
            xlabel="well-specified texts flagged",
            ylabel="unspecified texts flagged" if panel == panels[0][0] else "",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
        look.panel_name(ax, panel)
    look.legend_beside(panels[-1][1])
    return look.done(figure)


def calibration(
    data: pd.DataFrame, x: str, y: str, hue: str, fitted: Mapping[str, tuple[float, float]]
) -> Figure:
    """Measured over true values with their intervals, one colour and marker per `hue`.

    The dashed line is y = x. `data`: columns x, y, `<y>_low`, `<y>_high`, hue. `fitted`: slope
    and intercept of a line, by value of `hue`."""
    figure, ax = plt.subplots(figsize=(7, 4.2))
    kinds, width = look.values_of(data, hue), data[x].max() - data[x].min() or 1
    looks = zip(kinds, look.method_colours(kinds), look.MARKERS)
    for i, (kind, colour, marker) in enumerate(looks):
        part = data[data[hue] == kind]
        place = part[x] + 0.012 * width * (i - (len(kinds) - 1) / 2)  # side by side
        ax.errorbar(
            place,
            part[y],
            yerr=look.interval_bars(part, y),
            fmt=marker,
            ms=5,
            color=colour,
            label=kind,
            capsize=2,
        )
        if kind in fitted:
            slope, start = fitted[kind]
            ax.axline((0, start), slope=slope, color=colour, lw=1)
    ax.axline((0, 0), slope=1, color="0.6", lw=1, ls="--", label="y = x")
    ax.set(xlabel=x, ylabel=y)
    look.legend_beside(ax)
    return look.done(figure)
