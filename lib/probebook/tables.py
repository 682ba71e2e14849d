"""Tables as pages show them: texts that wrap, changes in a few letters."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from pandas.io.formats.style import Styler


def escape() -> None:
    """From now on styled tables show text as it is written, also `<b>` and `&`: pandas' own template takes it as HTML.

    That of plain tables escapes it."""
    blank, shown = '"&nbsp;"', "c.display_value"
    source = Styler.env.loader.get_source(Styler.env, "html_table.tpl")[0].replace("caption}}", "caption|e}}")
    source = source.replace(f"{{{{{shown}}}}}", f"{{{{{shown} if {shown} == {blank} else {shown}|e}}}}")
    Styler.template_html_table = Styler.env.from_string(source.replace("caption[0]}}", "caption[0]|e}}"))


def texts(frame: pd.DataFrame) -> Styler:
    """A table without its index, the columns with "text" in their names wrapped."""
    wrap = {"white-space": "normal", "text-align": "left", "min-width": "12em"}
    whole = frame.style.hide().set_properties(**{"vertical-align": "top"})
    return whole.set_properties(list(frame.filter(like="text")), **wrap)


def vectors(rows: Mapping[str, torch.Tensor], columns: Sequence[str]) -> Styler:
    """Vectors over the classes, one a row, with their signs."""
    return pd.DataFrame({name: v.detach().tolist() for name, v in rows.items()}, columns).T.style.format("{:+.2f}")


def changes(frame: pd.DataFrame, number: str = "{:.2f}") -> Styler:
    """A table with the index (aspect, from, to), each row named like "food: Neg → Pos"."""
    rows = [f"{aspect}: {c[:3]} → {to[:3]}" for aspect, c, to in frame.index]
    digits = int(number[number.index(".") + 1])
    return (frame.set_axis(rows).round(digits) + 0).style.format(number, na_rep="–")            # + 0: no -0.00


def listed(values: Mapping[str, float], form: str = ".2f") -> str:
    """Numbers by name for a sentence: "0.43 (ot), 0.16 (ibt)"; `values`: a Series or a dict."""
    return ", ".join(f"{value:{form}} ({name})" for name, value in values.items())
