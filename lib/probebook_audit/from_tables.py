"""A reader's table, cell by cell as it is written: no row merged, no type guessed."""

from __future__ import annotations

import codecs
import csv
import re
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow.parquet

from probebook.base import LARGEST_READ, UserError, check_readable
from probebook.corpora.chats import read_chat

FORMATS = {".csv": "CSV", ".tsv": "TSV", ".jsonl": "JSON lines", ".parquet": "Parquet"}
QUOTED = re.compile(r'"(?:[^"]|"")*"')
LISTED = re.compile(r"""\s*(\[\s*(['"{\[].*|[\d\s.,+-]*)\]|\{\s*['"].*\})\s*""", re.DOTALL)


def read_table(path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows of a file of `FORMATS`, and what was assumed to read them, in sentences.

    UserError: a file that is missing, no text in UTF-8 or UTF-16, or not of its format; a row with
    more or fewer cells than the header; a quotation mark that is not closed."""
    kind = FORMATS[path.suffix.lower()]
    if not path.exists():
        raise UserError(f"{path}: no such file")
    check_readable(path)
    try:
        if kind == "Parquet":
            return pyarrow.parquet.read_table(path).to_pandas(ignore_metadata=True), ()
        text = _decode(path)
        if kind == "JSON lines":
            plain = {"dtype": False, "convert_dates": False, "convert_axes": False}
            return pd.read_json(StringIO(text), lines=True, **plain), ()  # type: ignore[call-overload]
        return _read_rows(text, path, "\t" if kind == "TSV" else ",")
    except UserError:
        raise
    except (ValueError, OSError, csv.Error, pyarrow.ArrowException) as e:
        problem = (str(e).splitlines() or ["it is empty"])[0]
        raise UserError(f"{path} is not valid {kind}: {problem}") from None


def _decode(path: Path) -> str:
    content = path.read_bytes()
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        raise UserError(f"{path}, line {line}, is not UTF-8: save the file as UTF-8") from None
    if "\0" in text:
        raise UserError(f"{path} is not text in UTF-8: save the file as UTF-8")
    return text


def _read_rows(text: str, path: Path, usual: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """CSV or TSV. Excel's line `sep=;` names the separator; else it is the usual one, or the one
    that the header has. In TSV a quotation mark is a part of the text unless all cells that begin
    with one end with it."""
    notes = []
    named = re.match(r"sep=(.)\r?\n", text)
    text = text[named.end() :] if named else text
    header = text.split("\n", 1)[0]
    separator = usual if usual in header else max(";\t,|", key=header.count)
    separator = named[1] if named else separator if separator in header else usual
    if separator != usual:
        notes.append(f"The columns are separated by {separator!r}.")
    csv.field_size_limit(LARGEST_READ)

    def rows(quoting: Literal[0, 3]) -> list[tuple[int, list[str]]]:
        whole = StringIO(text, newline="")
        lines = csv.reader(whole, delimiter=separator, strict=True, quoting=quoting)
        try:
            return [(lines.line_num, row) for row in lines if row]
        except csv.Error:
            raise UserError(
                f"{path}, line {lines.line_num}: a quotation mark is not closed, or stands within "
                'a quoted cell: write "" for each within, and " around the whole cell'
            ) from None

    literal = rows(csv.QUOTE_NONE) if separator == "\t" else []
    begun = [cell for _, row in literal for cell in row if cell.startswith('"')]
    even = len({len(row) for _, row in literal}) == 1
    if even and not all(map(QUOTED.fullmatch, begun)):
        table = literal
        notes.append("Quotation marks are parts of the texts.")
    else:
        table = rows(csv.QUOTE_MINIMAL)
    if not table:
        raise ValueError("it is empty")
    names = [name.strip() for name in table[0][1]]
    for line, row in table[1:]:
        if len(row) != len(names):
            raise UserError(
                f"{path}, line {line}: {len(row)} cells, the header has {len(names)}: put "
                'cells that hold a separator or a line break in " "'
            )
    return pd.DataFrame([row for _, row in table[1:]], columns=names, dtype=str), tuple(notes)


def read_cells(table: pd.DataFrame, name: str, data: str, chats: bool = False) -> pd.Series:
    """A column's cells as text, "" where there is none; if wanted, messages as chats. UserError: no
    such column or two of them; a cell holds several values, such as a list."""
    count = [*table].count(name)
    if count != 1:
        near = get_close_matches(name, map(str, table), 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(
            f"{data} has two columns {name!r}: rename one"
            if count
            else f"{data} has no column {name!r}: {hint}it has {', '.join(map(str, table))[:200]}"
        )
    column, cells = table[name].astype(object), []
    column = column.where(column.notna(), "")
    for row, cell in enumerate(column, 1):
        listed = (
            LISTED.fullmatch(cell) if isinstance(cell, str) else not pd.api.types.is_scalar(cell)
        )
        try:
            if isinstance(cell, bytes) or listed and not chats:
                raise UserError("write one text or label in each cell")
            cells.append(read_chat(cell) if listed else str(cell))
        except UserError as e:
            where = f"{data}, column {name!r}: row {row}"
            raise UserError(f"{where} holds a list, messages or bytes: {e}") from None
    return pd.Series(cells, column.index, dtype=object if chats else str)
