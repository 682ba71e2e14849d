"""Results of many runs: the list of runs, their metrics as one table, filters, pivots, and
comparisons.

Every run is checked when it is read. A run with a damaged record or damaged metrics is left out and
named on stderr.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from probebook.base import UserError
from probebook_runs.records import (
    METRICS,
    Record,
    newest,
    plain_value,
    read_all,
    refuse_name,
    run_folder,
    warn_damaged,
)

SIGNS = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
RUN_COLUMNS = ["page", "run", "profile", "changed", "seconds", "device", "finished", "commit"]
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#$~&])")


def runs(page: str = "") -> pd.DataFrame:
    """Finished runs of all pages whose names begin with `page`, one per row, oldest first.

    Columns: page, run, profile, changed (parameters that differ from the page's own), seconds,
    device, finished (UTC), commit. UserError: there are none.
    """
    rows = []
    for record in read_all(page):
        changed = (f"{name}={plain_value(record.parameters[name])}" for name in record.changed)
        about = {"changed": ", ".join(changed), "device": record.hardware}
        rows.append(record.model_dump() | about)
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


def parameters(records: Sequence[Record]) -> pd.DataFrame:
    """Parameters of runs, one run per row. Numbers and text stay; lists, truth values and null
    become JSON text."""
    rows = [
        {name: plain_value(value) for name, value in record.parameters.items()}
        for record in records
    ]
    return pd.DataFrame(rows, index=range(len(records))).convert_dtypes()


def metrics(
    page: str = "",
    where: Sequence[str] = (),
    tables: Sequence[str] = (),
    names: Sequence[str] = (),
    keep: Sequence[str] = (),
    all_versions: bool = False,
) -> pd.DataFrame:
    """Metrics of runs, one value per row.

    Args:
        page: Pages whose names begin so.
        where: Conditions on parameters and ids, such as "model=minilm" or "layer>=2".
        tables: The tables to return; empty: all.
        names: The metrics to return; empty: all.
        keep: Parameters to return although all runs have the same value.
        all_versions: Return every run; else only the newest of those with the same parameters,
            which ran with several versions of code or data.

    Columns: page, run, parameters that differ or are in `keep`, table, ids, metric, value. A
    parameter that shares its name with an id or another column is called `p.NAME`; an id called
    page or run becomes `id.NAME`. UserError: an unknown name, or nothing is left."""
    records = read_all(page)
    if not all_versions:
        records = newest(records)
    long, at = _long(records)
    long = long.rename(columns={name: f"id.{name}" for name in ("page", "run")})
    ids = _ids(long)
    values = parameters(records).rename(
        columns=lambda name: f"p.{name}" if name in ("page", "run", *long) else name
    )
    about = pd.DataFrame([(record.page, record.run) for record in records], columns=["page", "run"])
    frame = pd.concat([about.join(values).take(at).reset_index(drop=True), long], axis=1)
    frame = _select(_select(frame, "table", tables), "metric", names)
    for condition in where:
        frame = filter_rows(frame, condition, [*values, *ids])
    for name in keep:
        _require_known("column", name, frame.columns)
    same = [name for name in values if frame[name].nunique() < 2 and name not in keep]
    return (
        frame[["page", "run", *values, "table", *ids, "metric", "value"]]
        .drop(columns=[*same, *(name for name in ids if frame[name].isna().all())])
        .reset_index(drop=True)
    )


def filter_rows(frame: pd.DataFrame, condition: str, names: Iterable[str]) -> pd.DataFrame:
    """Rows for which NAME=VALUE holds, or another of != < <= > >=. Numbers compare as numbers.

    A row without NAME never fits. UserError: no such sign, a name that is not in `names`, text
    compared by < or >, or no row is left.
    """
    match = re.fullmatch(r"\s*([^<>=!]+?)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*", condition)
    if not match:
        raise UserError(
            f"--where {condition!r}: should be NAME=VALUE, or one of != < <= > >= in place of ="
        )
    name, sign, text = match.groups()
    _require_known("parameter or id", name, names)
    column, number = frame[name], pd.to_numeric(text, errors="coerce")
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    if pd.notna(number) and numbers.notna().any():
        fits = SIGNS[sign](numbers, number)
    elif sign in ("=", "!="):
        fits = SIGNS[sign](column.astype("string"), _list(text) if text.startswith("[") else text)
    else:
        raise UserError(
            f"--where {condition!r}: {sign} compares numbers; {name} has {_examples(column)}"
        )
    matching = frame[fits.fillna(False).astype(bool) & column.notna()]
    if matching.empty:
        raise UserError(f"--where {condition!r}: nothing is left; {name} has {_examples(column)}")
    return matching


def pivot(
    long: pd.DataFrame, rows: Sequence[str] = (), columns: Sequence[str] = ()
) -> pd.DataFrame:
    """Turn the values of `metrics` into a table. Values that lack one of its columns are left out.

    The values of `rows` (empty: all columns that differ, except the run) become rows, those of
    `columns` (empty: the metric) become columns. UserError: an unknown column, or two values for
    one cell (the line says how they differ)."""
    names = [name for name in long if name != "value"]
    for name in (*rows, *columns):
        _require_known("column", name, names)
    columns = list(columns) or ["metric"]
    rows = list(rows) or [
        name for name in names if name not in ("run", *columns) and long[name].nunique() > 1
    ]
    if not rows or set(rows) & set(columns):
        raise UserError("--rows and --columns: each needs a column of its own")
    long = long.dropna(subset=[*rows, *columns])
    cells = long.groupby([*rows, *columns])
    if (several := long[cells["value"].transform("size") > 1]).size:
        places = several[[*rows, *columns]]
        cell = several[places.eq(places.iloc[0]).all(axis=1)]
        differ = [name for name in names if cell[name].nunique(dropna=False) > 1]
        differ = [name for name in differ if name != "run"] or differ or ["nothing"]
        raise UserError(
            f"{len(cell)} values for one cell, which differ in {', '.join(differ)}: "
            "name it in --rows or --columns, or choose by --where, --table, --metric"
        )
    table = long.set_index([*rows, *columns])["value"].unstack(columns)
    table.columns = [
        ", ".join(map(str, name if isinstance(name, tuple) else (name,))) for name in table.columns
    ]
    return table.reset_index(allow_duplicates=True)


def show(frame: pd.DataFrame, form: Literal["csv", "markdown", "latex"] = "csv") -> str:
    """A table as text: CSV with all digits, or Markdown or LaTeX (booktabs) with four digits and
    escaped text."""
    if form == "csv":
        return frame.to_csv(index=False)
    from tabulate import tabulate

    texts = [[_text(value) for value in row] for row in frame.itertuples(index=False)]
    align = ["right" if pd.api.types.is_numeric_dtype(kind) else "left" for kind in frame.dtypes]
    names = [_text(name) for name in frame.columns]
    if form == "latex":
        done = tabulate(texts, names, "latex_booktabs", disable_numparse=True, colalign=align)
        return done.replace("|", r"\textbar{}") + "\n"  # tabulate escapes the rest
    texts = [[MARKDOWN.sub(r"\\\1", text) for text in row] for row in texts]
    names = [MARKDOWN.sub(r"\\\1", name) for name in names]
    return tabulate(texts, names, "pipe", disable_numparse=True, colalign=align) + "\n"


def compare(a: Record, b: Record, tolerance: float = 0.0) -> dict[str, pd.DataFrame]:
    """How two runs of a page differ: parameters, metrics (a, b, difference), and the rest of their
    records.

    Metrics differ if they are further apart than `tolerance`; above 1 it is relative to the larger
    one. UserError: runs of two pages.
    """
    if a.page != b.page:
        raise UserError(f"runs of two pages cannot be compared: {a.page}, {b.page}")
    long, at = _long([a, b])
    keys = [name for name in long if name != "value"]
    # rows without ids
    long["copy"] = long.assign(at=at).groupby(["at", *keys], dropna=False).cumcount()
    both = long[at == 0].merge(
        long[at == 1], "outer", [*keys, "copy"], suffixes=("_a", "_b"), sort=False
    )
    both = both.drop(columns="copy").rename(columns={"value_a": "a", "value_b": "b"})
    both["difference"] = both.b - both.a
    size = both[["a", "b"]].abs().max(axis=1).clip(lower=1)
    near = both.difference.abs().le(tolerance * size)
    same = both.a.eq(both.b) | both[["a", "b"]].isna().all(axis=1) | near
    return {
        "parameters": _differences(a.parameters, b.parameters),
        "metrics": both[~same].dropna(axis=1, how="all").reset_index(drop=True),
        "rest": _differences(_rest(a), _rest(b)),
    }


def _rest(record: Record) -> dict:
    """What a run depends on besides its parameters."""
    return (
        record.model_dump(include={"profile", "seed", "device", "dtype", "threads", "commit"})
        | {f"{name} version": version for name, version in record.versions.items()}
        | {f"data {name}": digest for name, digest in record.data.items()}
    )


def _differences(a: dict, b: dict) -> pd.DataFrame:
    rows = [
        (name, *("" if name not in r else plain_value(r[name]) for r in (a, b)))
        for name in a | b
        if (name in a, a.get(name)) != (name in b, b.get(name))
    ]
    return pd.DataFrame(rows, columns=["name", "a", "b"], dtype=object)


def _long(records: list[Record]) -> tuple[pd.DataFrame, np.ndarray]:
    """Metrics of all runs, and for each row the number of its record. UserError: no run is left."""
    parts = {}
    for i, record in enumerate(records):
        try:
            content = (run_folder(record.page, record.run) / METRICS).read_bytes()
            if hashlib.sha256(content).hexdigest() != record.files.get(METRICS):
                raise ValueError
            file = pq.ParquetFile(pa.BufferReader(content))
            part = file.read(use_threads=False).replace_schema_metadata()
            parts[i] = part.select([*part.schema.names[:-2], "metric", "value"])
        except (OSError, ValueError, KeyError, pa.ArrowException):
            warn_damaged(record.page, record.run)
    if not parts:
        raise UserError("there is no finished run that is whole: probebook run PAGE makes one")
    types: dict[str, set] = {}
    for part in parts.values():
        for field in part.schema:
            types.setdefault(field.name, set()).add(field.type)
    texts = {name for name, kinds in types.items() if len(kinds) > 1 and any(map(_is_text, kinds))}
    for number, part in parts.items():  # ids that are numbers in some runs and text in others
        for i, field in enumerate(part.schema):
            if field.name in texts and not _is_text(field.type):
                part = part.set_column(i, field.name, part.column(i).cast(pa.string()))
        parts[number] = part
    long = pa.concat_tables(parts.values(), promote_options="permissive").to_pandas()
    return (
        long.assign(value=long["value"].astype(float), **long[_ids(long)].convert_dtypes()),
        np.repeat(list(parts), [part.num_rows for part in parts.values()]),
    )


def _ids(long: pd.DataFrame) -> list[str]:
    return [name for name in long if name not in ("table", "metric", "value")]


def _select(frame: pd.DataFrame, column: str, wanted: Sequence[str]) -> pd.DataFrame:
    """Rows whose `column` is one of `wanted`; all rows if `wanted` is empty."""
    for name in wanted:
        _require_known(column, name, frame[column].unique())
    return frame[frame[column].isin(wanted)] if wanted else frame


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _list(text: str) -> str:
    """A list in the form in which parameters show it, however it was typed."""
    try:
        return str(plain_value(yaml.safe_load(text)))
    except yaml.YAMLError:
        return text


def _text(value) -> str:
    """A cell as one line of text. Whole numbers keep all digits, others four."""
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    return " ".join(str(value).split())


def _examples(column: pd.Series) -> str:
    values = list(map(str, column.dropna().unique()))
    return ", ".join(values[:10]) + (" …" if len(values) > 10 else "") or "no value"


def _require_known(kind: str, name: str, names: Iterable[str]) -> None:
    if name not in set(names):
        refuse_name(kind, name, names)
