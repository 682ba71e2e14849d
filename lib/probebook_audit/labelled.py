"""Read labelled texts: a reader's file or a data set of the book, checked and coded alike.

data = labelled.read("texts.csv", text="sentence", label="number", keep=["tense"])"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from probebook.base import UserError, check_readable
from probebook.corpora import agreement, cebab, reviews

BUILT_IN = ("agreement", "prose", "natural", "reviews", "cebab")
FORMATS = {".csv": "CSV", ".tsv": "TSV", ".jsonl": "JSON lines", ".parquet": "Parquet"}
MOST_CLASSES = 20
FEWEST_OF_CLASS = 10
FEWEST_GROUPS = 8
AGREEMENT = {
    "concept": "the subject's number",
    "text": "text",
    "label": "subject's number",
    "keep": ["attractor's number"],
    "group": "group",
    "words": ["verb", "other_verb"],
}


@dataclass(frozen=True)
class Labelled:
    """Items with a label, what should stay, and what else is known of them.

    - `concept`: what the label is about
    - `text`: the texts, or None where only states are given
    - `z` [n]: the label as a number; `classes`: its names
    - `keep`: property → [n] numbers, −1: none
    - `known`: what else is known of the items and no judge reads: the position in the file, and
      columns to keep with too many values for that; [n] floats (numbers) or ints (categories)
    - `pair`: the text rewritten so that the label changes ("": none), or None
    - `words` [n, m]: candidates whose probabilities are the model's behaviour, or None
    - `group` [n]: number of the item's group; items in one group are not independent
    - `id`: the same for the same text everywhere
    - `notes`: what was done to the data, in sentences
    - `rows` [n]: each item's row in the file, from 0
    - `spot`: the word of each text whose state is read, or None
    - `other_rows`, `other_z` [m]: row and label of the items that were not drawn, whose groups are
      others"""

    name: str
    concept: str
    text: list[str] | None
    z: np.ndarray
    classes: list[str]
    keep: dict[str, np.ndarray]
    pair: list[str] | None
    words: list[list[str]] | None
    group: np.ndarray
    id: list[str]
    notes: list[str]
    rows: np.ndarray
    spot: list[str] | None = None
    other_rows: np.ndarray = field(default_factory=lambda: np.arange(0))
    other_z: np.ndarray = field(default_factory=lambda: np.arange(0))
    known: dict[str, np.ndarray] = field(default_factory=dict)


def read(
    data: str,
    text: str = "",
    label: str = "",
    keep: Sequence[str] = (),
    pair: str = "",
    group: str = "",
    words: Sequence[str] = (),
    spot: str = "",
    n: int | None = None,
    seed: int = 0,
) -> Labelled:
    """A file (CSV, TSV, JSON lines, Parquet) or a data set of `BUILT_IN`, ready for an audit.

    `text`, `label`, `keep`, `pair`, `group`, `spot` name columns; those of a built-in data set are
    known. `words` name columns, one candidate in each, or are the candidates themselves. `spot`
    holds the word of each text whose state is read. Without `text` the items are known by their row
    alone. At most `n` items are kept, whole groups drawn by `seed`. Items that share a text or a
    rewritten text become one group, so that no text is on both sides of a split.

    UserError, in one line: a missing column or file, one class, a class of fewer than 10 items,
    numbers that name no class, an empty text, fewer than 8 groups, a group with half of all."""
    if data in BUILT_IN:
        if text or label or keep or pair or group or words or spot:
            raise UserError(
                f"{data} is a data set of the book and knows its columns: leave out "
                "--text, --label and the like, or give a file"
            )
        table, names = _load_built_in(data, n, seed)
    else:
        if not label:
            raise UserError(f"{data}: say which column holds the label: --label COLUMN")
        table = _read_table(data)
        names = {
            "text": text,
            "label": label,
            "keep": [*keep],
            "pair": pair,
            "group": group,
            "words": [*words],
            "spot": spot,
        }
    return _encode(table, data, names, n, seed)


def _read_table(data: str) -> pd.DataFrame:
    path = Path(data)
    if path.suffix not in FORMATS:
        near = get_close_matches(data, BUILT_IN, 1)
        raise UserError(
            f"{data!r} is not a valid data set: {f'did you mean {near[0]}? ' if near else ''}"
            f"expected a file ({', '.join(FORMATS)}) or one of {', '.join(BUILT_IN)}"
        )
    if not path.exists():
        raise UserError(f"{data}: no such file")
    check_readable(path)
    plain = {"dtype": str, "keep_default_na": False}  # "None" and "NA" are labels
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix == ".jsonl":
            return pd.read_json(path, lines=True, dtype=False, convert_dates=False)
        return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",", **plain)  # type: ignore[call-overload]
    except (ValueError, OSError, UnicodeDecodeError) as e:
        problem = (str(e).splitlines() or ["it is empty"])[0]
        raise UserError(f"{data} is not valid {FORMATS[path.suffix]}: {problem}") from None


def _load_built_in(name: str, n: int | None, seed: int) -> tuple[pd.DataFrame, dict]:
    if name in ("reviews", "cebab"):
        return _load_reviews(
            reviews.generate(max(1, (n or 4000) // 5), seed)
            if name == "reviews"
            else cebab.load("1.1")
        )
    source = "generated" if name == "agreement" else name
    table = agreement.load(source, n if name == "agreement" else None, seed, attractors=0.5)
    number = {0: "singular", 1: "plural", -1: ""}
    grouped = (
        table.subject if name == "agreement" else table.work.where(table.work != "", table.text)
    )
    table = table.assign(
        group=grouped,
        **{"subject's number": table.zc.map(number), "attractor's number": table.ze.map(number)},
    )
    pair = {"pair": "subject_flipped"} if name == "agreement" else {}
    return table, AGREEMENT | pair


def _load_reviews(table: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Reviews that praise or criticise the food; what is said of other aspects should stay."""
    whole = table[table.split != cebab.SPLITS[0]].reset_index(drop=True)
    pairs = cebab.edit_pairs(whole, originals=True)
    polar = pairs[pairs.concept.eq("food") & ~pairs[["source", "target"]].eq("unknown").any(axis=1)]
    other = pd.Series("", whole.index)
    other[polar.source_row.to_numpy()] = whole.description.to_numpy()[polar.target_row]
    other[polar.target_row.to_numpy()] = whole.description.to_numpy()[polar.source_row]
    names = {aspect: f"{aspect}_aspect_majority" for aspect in cebab.ASPECTS}
    coded = whole.assign(
        pair=other,
        group=whole.original_id.astype(str),
        text=whole.description,
        **{
            aspect: whole[column].where(whole[column].isin(cebab.VALUES[:2]), "")
            for aspect, column in names.items()
        },
    )
    return coded[coded.food != ""], {
        "concept": "praise or criticism of the food",
        "text": "text",
        "label": "food",
        "keep": ["service", "ambiance", "noise"],
        "pair": "pair",
        "group": "group",
    }


def _encode(table: pd.DataFrame, data: str, names: dict, n: int | None, seed: int) -> Labelled:
    single = [names.get(what, "") for what in ("text", "label", "pair", "group", "spot")]
    for column in [*filter(None, single), *names["keep"]]:
        if column not in table:
            near = get_close_matches(column, map(str, table), 1)
            raise UserError(
                f"{data} has no column {column!r}: "
                f"{f'did you mean {near[0]}? ' if near else ''}it has "
                f"{', '.join(map(str, table))[:200]}"
            )
    notes = []
    label = _labels(table[names["label"]], f"{data}, column {names['label']!r}")
    given = (label != "").to_numpy()
    if not given.all():
        notes.append(f"{int((~given).sum())} items without a label were left out.")
    at = np.flatnonzero(given)
    table, label = table[given].reset_index(drop=True), label[given].reset_index(drop=True)
    text = _texts(table, names.get("text", ""), data)
    pair = [one.strip() for one in _strings(table[names["pair"]])] if names.get("pair") else None
    given_groups = (
        [*table[names["group"]].astype(str)] if names.get("group") else [*range(len(table))]
    )
    group = _join_groups(given_groups, text, pair)
    merged = len({*given_groups}) - len({*group})
    if merged:
        notes.append(f"{merged} groups were merged with others because they share a text.")
    if n is not None and n < len(table):
        rows = _draw_groups(group, n, seed)
        notes.append(f"{len(rows):,} of {len(table):,} items were drawn, by whole groups.")
    else:
        rows = np.arange(len(table))
    classes = sorted({*label})
    every = label.map({name: i for i, name in enumerate(classes)}).to_numpy()
    others = np.setdiff1d(np.arange(len(table)), rows)
    z = every[rows]
    group = np.unique(group[rows], return_inverse=True)[1]
    _check(z, classes, group, f"{data}, column {names['label']!r}")
    keep, known = {}, {"position in the file": at[rows].astype(float)}
    for column in names["keep"]:
        where, many = f"{data}, column {column!r}", _many_values(table[column])
        if many is None:
            keep[column] = _encode_property(_labels(table[column], where).to_numpy()[rows], where)
            continue
        known[column] = many[rows]
        notes.append(f"{column} has many values: tried as a shortcut, but no judge reads it.")
    take = [*rows]
    words = _words(table.iloc[rows], names.get("words", ()), data)
    return Labelled(
        data,
        names.get("concept", names["label"]),
        None if text is None else [text[r] for r in take],
        z,
        classes,
        keep,
        None if pair is None else [pair[r] for r in take],
        words,
        group,
        _ids(table, text, at, take),
        notes,
        at[rows],
        [*_strings(table[names["spot"]].iloc[rows])] if names.get("spot") else None,
        at[others],
        every[others],
        known,
    )


def _strings(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), "").astype(str)


def _texts(table: pd.DataFrame, column: str, data: str) -> list[str] | None:
    if not column:
        return None
    text = [*_strings(table[column])]
    empty = [i for i, one in enumerate(text) if not one.strip()]
    if empty:
        raise UserError(f"{data}, column {column!r}: row {empty[0] + 1} has no text: drop it")
    return text


def _labels(column: pd.Series, where: str) -> pd.Series:
    """Labels as text. Whole numbers may be written as floats; other numbers are refused."""
    text = _strings(column).str.strip()
    some = text[text != ""]
    numbers = pd.to_numeric(some, errors="coerce")
    if len(some) and numbers.notna().all():
        if (numbers != numbers.round()).any():
            broken = some[numbers != numbers.round()].iloc[0]
            raise UserError(
                f"{where}: {broken} is not a valid class: expected names or whole numbers, "
                "such as the halves above and below a threshold"
            )
        text[some.index] = numbers.round().astype("int64").astype(str)
    if text[text != ""].nunique() > MOST_CLASSES:
        raise UserError(
            f"{where}: {text[text != ''].nunique()} different values, at most "
            f"{MOST_CLASSES} classes: is this the right column?"
        )
    return text


def _many_values(column: pd.Series) -> np.ndarray | None:
    """A column of more values than a judge can read: floats if all are numbers, else a number for
    each name; None: of few, whole values."""
    text = _strings(column).str.strip()
    numbers = pd.to_numeric(text.where(text != ""), errors="coerce").to_numpy(float)
    numeric = np.isfinite(numbers[text != ""]).all()
    if text[text != ""].nunique() > MOST_CLASSES:
        return numbers if numeric else pd.factorize(text)[0]
    return numbers if numeric and (numbers != numbers.round())[text != ""].any() else None


def _check(z: np.ndarray, classes: list[str], group: np.ndarray, where: str) -> None:
    counts = np.bincount(z, minlength=len(classes))
    if len(classes) < 2:
        raise UserError(
            f"{where}: only one class ({', '.join(classes) or 'no label'}): "
            "give texts of two at least"
        )
    if counts.min() < FEWEST_OF_CLASS:
        raise UserError(
            f"{where}: class {classes[counts.argmin()]!r} has {counts.min()} items: "
            f"at least {FEWEST_OF_CLASS} of each, better some hundreds"
        )
    sizes = np.bincount(group)
    if len(sizes) < FEWEST_GROUPS:
        raise UserError(
            f"{where}: {len(sizes)} group{'s' * (len(sizes) > 1)} of texts: at least "
            f"{FEWEST_GROUPS}, since no group may be on both sides of the split"
        )
    if sizes.max() > len(z) / 2:
        raise UserError(
            f"{where}: one group has {sizes.max()} of {len(z)} items (items with the "
            "same text are one group): remove repeated texts or give finer groups"
        )


def _encode_property(values: np.ndarray, where: str) -> np.ndarray:
    names = sorted({*values} - {""})
    if len(names) < 2:
        raise UserError(
            f"{where}: a property that should stay needs two values at least, it has "
            f"{', '.join(names) or 'none'}"
        )
    return np.array([names.index(value) if value else -1 for value in values])


def _join_groups(given: Sequence, text: list[str] | None, pair: list[str] | None) -> np.ndarray:
    """A number for each item: equal where two items share a group, a text, or a rewritten text."""
    n = len(given)
    links = [pd.factorize(np.asarray(given, dtype=object))[0]]
    if text is not None:
        both = pd.factorize(np.asarray([*text, *(pair or [])], dtype=object))[0]
        first = links[0].max() + 1  # where the numbers of texts begin
        links.append(first + both[:n])
        if pair is not None:
            links.append(first + np.where(np.asarray(pair) == "", both[:n], both[n:]))
    ends = n + np.concatenate(links)
    size, rows = ends.max() + 1, np.tile(np.arange(n), len(links))
    graph = coo_matrix((np.ones(len(rows)), (rows, ends)), shape=(size, size))
    return connected_components(graph, directed=False)[1][:n]


def _draw_groups(group: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Rows of whole groups in a random order, as many groups as hold at most n items."""
    number, sizes = (
        np.unique(group, return_inverse=True)[1],
        np.unique(group, return_counts=True)[1],
    )
    order = np.random.default_rng(seed).permutation(len(sizes))
    within = np.cumsum(sizes[order]) <= n
    within[0] = True
    return np.flatnonzero(np.isin(number, order[within]))


def _words(table: pd.DataFrame, words: Sequence[str], data: str) -> list[list[str]] | None:
    """Candidates of each item: those in the named columns, or the words themselves."""
    if not words:
        return None
    columns = [word in table for word in words]
    if any(columns) and not all(columns):
        missing = words[columns.index(False)]
        raise UserError(
            f"{data} has no column {missing!r}: name a column for each word, or give "
            "only words that no column is called"
        )
    if len(words) < 2:
        raise UserError("--words: two at least, since behaviour is a choice between them")
    if all(columns):
        return table[[*words]].astype(str).values.tolist()
    return [[*words] for _ in range(len(table))]


def _ids(table: pd.DataFrame, text: list[str] | None, at: np.ndarray, rows: list[int]) -> list[str]:
    """Sixteen digits of the text's sha256; of repeated texts with #2 and so on; else the column id
    or the row's number."""
    if text is None:
        return [str(table.id[r]) if "id" in table else f"row {at[r] + 1}" for r in rows]
    seen: dict[str, int] = {}
    ids = []
    for r in rows:
        digits = hashlib.sha256(text[r].encode()).hexdigest()[:16]
        seen[digits] = seen.get(digits, 0) + 1
        ids.append(digits if seen[digits] == 1 else f"{digits}#{seen[digits]}")
    return ids
