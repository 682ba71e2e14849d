"""Format tables for pages: runs side by side, columns of text that wrap, changes of a concept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    import torch
    from pandas.io.formats.style import Styler


MODELS = {  # names as readers know them
    "minilm": "MiniLM",
    "all-mpnet-base-v2": "MPNet",
    "gemma-3-270m-q4": "Gemma 3 270M",
}
# pandas' templates of styled tables take text as HTML, that of plain tables escapes it
ESCAPED_TABLE = """
{%- extends "html_table.tpl" %}
{% block caption %}
{% if caption %}
  <caption>{{ (caption if caption is string else caption[0])|e }}</caption>
{% endif %}
{% endblock %}
{% macro escape(row) %}
{% for cell in row if cell.display_value != "&nbsp;" %}
{% set _ = cell.update(display_value=cell.display_value|e) %}
{% endfor %}
{% endmacro %}
{% block head_tr %}
{{ escape(r) }}{{ super() }}{% endblock %}
{% block tr %}
{{ escape(r) }}{{ super() }}{% endblock %}
"""


def escape() -> None:
    """Make all styled tables show text as it is written, also `<b>` and `&`."""
    from pandas.io.formats.style import Styler  # needs Jinja

    Styler.template_html_table = Styler.env.from_string(ESCAPED_TABLE)


def side_by_side(
    published: pd.Series | pd.DataFrame,
    stored: Mapping[str, pd.Series | pd.DataFrame],
    here: pd.Series | pd.DataFrame,
) -> pd.DataFrame:
    """Set a paper's figures and stored runs', by name, beside this run, on its rows and columns.

    Of series, a column for each source. Of tables, the rows of all sources, each followed by the
    same row of the next source; the index gains the level run."""
    sources = {"published": published, **stored, "this run": here}
    if isinstance(here, pd.Series):
        return pd.DataFrame({run: one.reindex(here.index) for run, one in sources.items()})
    aligned = {run: one.reindex(here.index, columns=list(here)) for run, one in sources.items()}
    side = pd.concat(aligned, names=["run", here.index.name]).swaplevel()
    return side.sort_index(level=0, sort_remaining=False)


def in_percent(shares: pd.DataFrame, value: str = "value") -> list[str]:
    """Format shares and intervals (columns `value`, low, high) in percent: "92 [89, 95]"."""

    def whole(share: float) -> str:
        return f"{round(100 * share):d}".replace("-", "−")

    ends = shares[[value, "low", "high"]].itertuples(index=False, name=None)
    return [
        f"{whole(share)} [{whole(low)}, {whole(high)}]" if share == share else "–"
        for share, low, high in ends
    ]


def drop_constant(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Drop a column if all rows have the same value there."""
    return frame if frame[column].nunique() > 1 else frame.drop(columns=column)


def judges(report: pd.DataFrame) -> Styler:
    """Show what every judge knows (`causal_probing.oracle_report`), in percent with the 95 %
    interval, and whether it can judge."""
    table = pd.DataFrame(
        {
            "judge": report.oracle.replace("mlp", "perceptron"),
            "reads": report.property.str.removeprefix("number of the "),
            "trained on": report.trained,
            "judges": report.judges.map("{:.0f}".format) + report.tried.map(" of {:.0f}".format),
            "correct, %": in_percent(report, "accuracy"),
            "majority, %": 100 * report.majority,
            "wrong rule, %": 100 * report.wrong_rule,
            "can judge": [
                {1: "yes", 0: "no"}.get(usable, f"{100 * usable:.0f} % of runs")
                for usable in report.usable
            ],
        }
    )
    wrapped = [{"selector": "th", "props": "white-space: normal"}]  # heads of two lines fit
    return (
        table.style.hide()
        .set_table_styles(wrapped)
        .format("{:.0f}", subset=["trained on", "majority, %", "wrong rule, %"])
    )


def judges_over_seeds(
    runs: pd.DataFrame, oracle: str = "mlp", by: Sequence[str] = ("model",)
) -> Styler:
    """Show `judges` for the runs of a sweep: one row per model (or other `by`), the runs' mean.

    `runs` has the long form of `runs.sweep_table`; `oracle`: which pair of judges."""
    read = runs[(runs.table == "judges") & (runs.oracle == oracle)]
    mean = read.pivot_table(
        index=[*by, "property"], columns="metric", values="value", sort=False
    ).reset_index()
    names = mean[[*by]].replace(MODELS).astype(str).agg(", ".join, axis=1)
    table = judges(mean.assign(oracle=names))
    return table.relabel_index([", ".join(by), *list(table.data)[1:]], axis=1)


def over_runs(beside: pd.DataFrame, verdict: str, above: str, below: str) -> Styler:
    """Show a figure of this run beside its mean over several (`intervals.figures_over_seeds`).

    The last column, headed `verdict`, says `above` or `below` where the mean is significantly above
    or below 0, otherwise "undecided"."""
    words = {1: above, 0: "undecided", -1: below}
    table = beside.drop(columns="runs").assign(verdict=beside.verdict.map(words))
    table = table.rename(
        columns={"mean": "mean of runs", "low": "95 % from", "high": "to", "verdict": verdict}
    )
    return table.style.format("{:+.3f}", subset=list(table)[:-1], na_rep="–")


def wrap_text_columns(frame: pd.DataFrame) -> Styler:
    """Show a table without its index; columns with "text" in their names wrap."""
    wrap = {"white-space": "normal", "text-align": "left", "min-width": "12em"}
    whole = frame.style.hide().set_properties(**{"vertical-align": "top"})
    return whole.set_properties(list(frame.filter(like="text")), **wrap)


def wrap_headers(frame: pd.DataFrame) -> Styler:
    """Show a table without its index; long heads wrap, so that many columns fit the page."""
    wrapped = [{"selector": "th", "props": "white-space: normal; vertical-align: bottom"}]
    return frame.style.hide().set_table_styles(wrapped)


def vectors(rows: Mapping[str, torch.Tensor], columns: Sequence[str]) -> Styler:
    """Show vectors over the classes, one per row, with their signs."""
    values = {name: v.detach().tolist() for name, v in rows.items()}
    return pd.DataFrame(values, columns).T.style.format("{:+.2f}")


def style_changes(frame: pd.DataFrame, number: str = "{:.2f}") -> Styler:
    """Show a table with the index (aspect, from, to), each row named like "food: Neg → Pos"."""
    rows = [f"{aspect}: {c[:3]} → {to[:3]}" for aspect, c, to in frame.index]
    digits = int(number[number.index(".") + 1])
    rounded = frame.set_axis(rows).round(digits) + 0  # + 0: no -0.00
    return rounded.style.format(number, na_rep="–")


def format_list(values: Mapping[str, float], form: str = ".2f", name: str = "({})") -> str:
    """Format numbers with their names for a sentence: "0.43 (ot), 0.16 (ibt)"."""
    return ", ".join(f"{value:{form}} {name.format(key)}" for key, value in values.items())
