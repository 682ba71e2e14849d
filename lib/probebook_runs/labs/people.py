"""Class lists, as learning platforms and spreadsheets write them, and the names in them.

Two spellings are one name if they differ in case, accents, blanks or the order of their parts:
"Doe, Jane", "doejane" and "Jane Doe"."""

from __future__ import annotations

import csv
import io
import re
import sys
import unicodedata
from collections import defaultdict
from contextlib import suppress
from itertools import count
from pathlib import Path

import pandas as pd

from probebook.base import UserError, check_readable, read_yaml

FIRST_SEED = 1001  # of the first student of a list without seeds
PLATFORMS = read_yaml(Path(__file__).with_name("platforms.yaml"))


def words(text: str) -> list[str]:
    """The parts of a name, in small letters without accents."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", plain))


def key(text: str) -> str:
    """A name without the blanks and signs between its parts."""
    return "".join(words(text))


def decode_text(content: bytes) -> str:
    """The text of a file in UTF-8, in UTF-16 with its mark, or in Latin-1. Lines end in "\\n"."""
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = content.decode("latin-1")
    for encoding in ["utf-16"] if marked else ["cp1252", "utf-8-sig"]:
        with suppress(UnicodeDecodeError):
            text = content.decode(encoding)
    return re.sub(r"\r\n?", "\n", text)


def read_csv(file: Path) -> pd.DataFrame:
    """A table of texts with commas, semicolons or tabs between its columns.

    UserError: no such file, a workbook, or a row with more values than there are columns."""
    try:
        content = check_readable(file).read_bytes()
    except OSError as e:
        raise UserError(f"{file}: {e.strerror}") from None
    if content.startswith((b"PK", b"\xd0\xcf\x11\xe0")):
        raise UserError(f"{file} is a workbook: save its sheet as CSV and give that file")
    text = re.sub(r"\A\s*(sep=.\s+)?", "", decode_text(content))  # Excel's hint to itself
    separator = max("\t;,", key=text.partition("\n")[0].count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if any(row)]
    except csv.Error as e:
        raise UserError(f"{file} is not a valid CSV file: {e}") from None
    head = [name.strip() for name in rows[0]] if rows else []
    if wide := [row for row in rows if any(row[len(head) :])]:
        raise UserError(
            f"{file}: {separator.join(wide[0])!r} has more values than the {len(head)} columns: "
            f"put a value that holds {separator!r} between quotation marks"
        )
    records = [{name: value.strip() for name, value in zip(head, row)} for row in rows[1:]]
    return pd.DataFrame(records, columns=[*dict.fromkeys(head)]).fillna("")


def students(file: Path) -> pd.DataFrame:
    """The students of a class list, by the names of their folders: name, ids, seed, and the row of
    the list. Says on stderr how many there are, and which rows name nobody.

    UserError: no column of names, somebody who is named twice, or seeds that are none."""
    table = read_csv(file)
    heads = {key(column): column for column in table}
    whole, first, last, ids = (
        [column for head, column in heads.items() if re.fullmatch(PLATFORMS[kind], head)]
        for kind in ("name", "first name", "last name", "id")
    )
    parts = [*first[:1], *last[:1]]  # "Name, Vorname" and "Name, Surname" are parts, too
    if not (named := whole[:1] + parts if len(parts) == 1 else whole[:1] or parts or ids[:1]):
        raise UserError(
            f"{file}: a column name is wanted, or Student, or First name and Last name; its "
            f"columns are {', '.join(table) or 'none'}"
        )
    rows, nobody = [], []
    for i, row in enumerate(table.to_dict("records")):
        known = [row[column] for column in ids if row[column]]
        name = " ".join(row[column] for column in named).strip() or "".join(known[:1])
        if not name or re.fullmatch(PLATFORMS["nobody"], name.lower()):
            nobody.append(name or "a row without a name")
        else:
            rows.append((name, "; ".join(known), row.get(heads.get("seed", "")), i))
    left_out = f"; left out: {', '.join(nobody)}" if nobody else ""
    print(f"{file}: {len(rows)} students{left_out}", file=sys.stderr)
    people = pd.DataFrame(rows, columns=["name", "ids", "seed", "row"])
    if (twice := people.duplicated(["name", "ids"])).any():
        raise UserError(
            f"{file}: each row should name another student; {people.name[twice].iloc[0]!r} is "
            "there twice, and no address or number tells the two apart"
        )
    if "seed" not in heads:
        people["seed"] = range(FIRST_SEED, FIRST_SEED + len(people))
    seeds = people.seed.astype(str).str.removesuffix(".0").str.lstrip("0").replace("", "0")
    if people.empty or seeds.duplicated().any() or not seeds.str.fullmatch("[0-9]{1,10}").all():
        raise UserError(f"{file}: each student should have a seed of their own, 0, 1, 2, …")
    return people.assign(seed=seeds.astype(int)).set_axis(_folders(people.name))


def _folders(names: pd.Series) -> list[str]:
    """A name for each student's folder. Where two would be alike, the later one is numbered."""
    folders: list[str] = []
    for name in names:
        slug = "-".join(words(name))[:60] or "student"
        numbered = (slug if n == 1 else f"{slug}-{n}" for n in count(1))
        folders.append(next(folder for folder in numbered if folder not in folders))
    return folders


def by_key(table: pd.DataFrame) -> dict[str, set[str]]:
    """The students of `variants.csv`, by the keys of all names that they may go by."""
    keys = defaultdict(set)
    for student, name, ids in table[["student", "name", "ids"]].drop_duplicates().to_numpy():
        parts = words(name)
        known = ["".join(parts[i:] + parts[:i]) for i in range(len(parts))]
        for one in [student, *ids.split("; "), *re.findall(r"([^; ]+)@", ids)]:
            known.append(key(one))
        for one in filter(None, known):
            keys[one].add(student)
    return keys
