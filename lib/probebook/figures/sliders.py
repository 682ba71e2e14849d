"""Sliders through pictures that work with and without a kernel."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from ipywidgets import VBox


def slider(
    draw: Callable[[Any], Figure], values: Sequence, name: str, form: str = "{}", at: Any = None
) -> VBox:
    """An ipywidgets slider through the pictures `draw(value)`. Show a static figure first.

    The pictures are drawn beforehand and linked in the browser, so the slider needs no kernel. With
    a kernel, each move draws its picture again with the page's present variables.

    - `name`: the name of the setting that the slider moves
    - `form`: how a value is written
    - `at`: the value at which the slider opens; None: the first"""
    from ipywidgets import Image, SelectionSlider, Stack, VBox, jslink

    def png(value: Any) -> bytes:
        file = io.BytesIO()
        draw(value).savefig(file, format="png", dpi=80)
        return file.getvalue()

    def redraw(change: dict) -> None:
        stack.children[change["new"]].value = png(values[change["new"]])

    values = list(values)
    first = 0 if at is None else values.index(at)
    look = {"max_width": "100%", "object_fit": "contain"}
    images = [Image(value=png(value), format="png", layout=look) for value in values]
    stack = Stack(images, selected_index=first)
    move = SelectionSlider(
        options=[form.format(value) for value in values],
        description=name,
        index=first,
        continuous_update=True,
        layout={"width": "min(30em, 95%)"},
    )
    jslink((move, "index"), (stack, "selected_index"))
    move.observe(redraw, "index")
    return VBox([move, stack])
