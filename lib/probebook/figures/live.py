"""Boxes whose arithmetic runs on the page itself, without a kernel; a static figure stands for them
on paper and without scripts.

    HTML(figures.live("toy_world", script, look, {"threshold": ("threshold θ", [0, 1, 2], 2)}))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from probebook.base import UserError
from probebook.figures.look import PALETTE


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
