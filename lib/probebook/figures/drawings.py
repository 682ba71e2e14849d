"""Drawings without data: schemes of boxes and arrows, causal graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from probebook.figures.look import PALETTE, done

if TYPE_CHECKING:
    from networkx import DiGraph


def scheme(
    boxes: Mapping[str, tuple[float, float]],
    arrows: Sequence[tuple[str, str, str]],
    marked: Sequence[str] = (),
) -> Figure:
    """Boxes at (column, row), filled if `marked`, and arrows (from, to, text) between them."""
    columns, rows = (max(at[i] for at in boxes.values()) for i in (0, 1))
    figure, ax = plt.subplots(figsize=(2.3 * (columns + 1), 1.15 * (rows + 0.5)))
    plain, texts = "0.35", {}
    for name, (x, y) in boxes.items():
        fill, edge = ("#dcebf7", PALETTE[0]) if name in marked else ("white", plain)
        texts[name] = ax.text(
            x,
            -y,
            name,
            ha="center",
            va="center",
            fontsize=10,
            zorder=3,
            bbox={"boxstyle": "round,pad=.5", "fc": fill, "ec": edge},
        )
    ax.set(xlim=(-0.6, columns + 0.6), ylim=(-rows - 0.3, 0.3))
    for start, end, text in arrows:
        (x0, y0), (x1, y1) = boxes[start], boxes[end]
        look = {
            "arrowstyle": "-|>",
            "color": plain,
            "patchA": texts[start].get_bbox_patch(),
            "patchB": texts[end].get_bbox_patch(),
            "shrinkA": 2,
            "shrinkB": 2,
        }
        ax.annotate("", (x1, -y1), (x0, -y0), zorder=4, arrowprops=look)
        upright = x0 == x1  # its text stands beside it
        ax.text(
            (x0 + x1) / 2 + 0.05 * upright,
            -(y0 + y1) / 2 + 0.16 * (not upright),
            text,
            ha="left" if upright else "center",
            va="center" if upright else "baseline",
            fontsize=8.5,
            color=plain,
            zorder=5,
            bbox={"fc": "white", "ec": "none", "pad": 1},
        )
    ax.set_axis_off()
    return done(figure)


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
            edge_color=[PALETTE[3] if on else "0.35" for on in thick],
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
    return done(figure)
