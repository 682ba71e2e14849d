"""The plot that only chapter 5 uses."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from probebook.figures import look


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
