"""Tables as pages show them: texts that wrap, changes in a few letters."""
from __future__ import annotations

import pandas as pd
from pandas.io.formats.style import Styler


def texts(frame: pd.DataFrame) -> Styler:
    """A table without its index, the columns with "text" in their names wrapped."""
    wrap = {"white-space": "normal", "text-align": "left", "min-width": "12em"}
    return frame.style.hide().set_properties(list(frame.filter(like="text")), **wrap)


def changes(frame: pd.DataFrame, number: str = "{:.2f}") -> Styler:
    """A table with the index (aspect, from, to), each row named like "food: Neg → Pos"."""
    rows = [f"{aspect}: {c[:3]} → {to[:3]}" for aspect, c, to in frame.index]
    return frame.set_axis(rows).style.format(number, na_rep="–")
