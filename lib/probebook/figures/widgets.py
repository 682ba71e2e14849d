"""Pictures that readers change: sliders through drawn pictures, boxes that compute on the page."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from probebook.base import UserError
from probebook.figures.look import PALETTE

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


def live(
    kind: str,
    script: str,
    look: str,
    settings: Mapping[str, tuple[str, Sequence[Any], Any]],
    given: Mapping[str, Any] | None = None,
) -> str:
    """HTML of a box with a slider for each setting, and pictures that follow it at once.

    - `kind`: which pictures, a name of `boxes` in `book/_static/live.html`
    - `script`, `look`: texts of `book/_static/arithmetic.js` and `live.html`
    - `settings`: name → what readers call it, its values, and the one at which the box opens;
      texts are chosen from a list
    - `given`: what the pictures show besides, of lists and numbers

    On screen, the picture of a cell with the tag `live` gives way to the box after it and leaves
    its caption. On paper and without scripts a line says that the figure before stands for the box.
    UserError: a setting opens at none of its values."""
    for name, (_, values, at) in settings.items():
        if at not in values:
            raise UserError(
                f"{name} opens at {at!r}: one of its values, {values[0]} to {values[-1]}"
            )
    fields = "".join(_field(name, *setting) for name, setting in settings.items())
    colours = "; ".join(f"--c{i}: {colour}" for i, colour in enumerate(PALETTE[:4]))
    return f"""<form class="live" data-kind="{kind}" data-given="{_json(given or {})}"
 style="{colours}" autocomplete="off" data-lm-suppress-shortcuts="true" hidden>
<div class="settings">{fields}</div><div class="panels"></div><ul></ul>
<p class="said" aria-live="polite"></p></form>
<p class="live-still">On paper, and without JavaScript, the last figure above stands for a box with
sliders.</p><script>{script}</script>{look}"""


def _field(name: str, label: str, values: Sequence[Any], at: Any) -> str:
    if isinstance(at, str):
        options = "".join(
            f"<option{' selected' if value == at else ''}>{escape(value)}</option>"
            for value in values
        )
        return f'<label>{escape(label)} <select name="{name}">{options}</select></label>'
    return (
        f'<label>{escape(label)}: <span class="value"></span>'
        f'<input type="range" name="{name}" min="0" max="{len(values) - 1}" '
        f'value="{list(values).index(at)}" data-values="{_json(list(values))}"></label>'
    )


def _json(value: Any) -> str:
    return escape(json.dumps(value))
