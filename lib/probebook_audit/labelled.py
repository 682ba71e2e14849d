"""Read labelled texts: a reader's file or a data set of the book, checked and coded alike.

data = labelled.read("texts.csv", text="sentence", label="number", keep=["tense"])"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from probebook.base import UserError
from probebook.corpora import agreement, cebab, reviews
from probebook.corpora.chats import Chat
from probebook.corpora.words import find_word, plain
from probebook_audit.from_tables import FORMATS, read_cells, read_table

BUILT_IN = ("agreement", "prose", "natural", "reviews", "cebab")
ROLES = ("text", "label", "pair", "group", "spot")  # of columns, one for each
TEXTS = ("text", "pair")  # which may be messages
MOST_CLASSES = 20
FEWEST_OF_CLASS = 10
FEWEST_GROUPS = 8
AGREEMENT: dict = {"concept": "the subject's number", "text": "text", "label": "subject's number"}
AGREEMENT |= {"keep": ["attractor's number"], "group": "group", "words": ["verb", "other_verb"]}


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
    - `notes`: what was assumed, merged, drawn or left out, in sentences
    - `rows` [n]: each item's row in the file, from 0; `size`: how many rows the file has
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
    notes: tuple[str, ...]
    rows: np.ndarray
    size: int
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
    known. `text` and `pair` may hold messages (`read_chat`). `words` name columns, one candidate in
    each, or are the candidates themselves. `spot` holds the word of each text whose state is read.
    Without `text` the items are known by their row alone. At most `n` items are kept, whole groups
    drawn by `seed`. Items that share a text or a rewritten text become one group, so that no text
    is on both sides of a split.

    UserError, in one line: a missing column or file, one class, a class of fewer than 10 items,
    numbers that name no class, an empty text, fewer than 8 groups, a group with half of all."""
    if data in BUILT_IN:
        if text or label or keep or pair or group or words or spot:
            raise UserError(
                f"{data} is a data set of the book and knows its columns: leave out "
                "--text, --label and the like, or give a file"
            )
        return _encode(*_load_built_in(data, n, seed), data, n, seed)
    if not label:
        raise UserError(f"{data}: say which column holds the label: --label COLUMN")
    table, notes = _read_file(data)
    names = {"text": text, "label": label, "keep": [*keep], "pair": pair, "group": group}
    return _encode(table, names | {"words": [*words], "spot": spot}, data, n, seed, notes)


def read_together(
    files: Sequence[str], columns: dict, n: int | None = None, seed: int = 0
) -> tuple[Labelled, np.ndarray]:
    """Several files as one, coded alike, rows counted through; and where each one's end [files].

    `columns`: as the arguments of `read` name them; each file must have them. UserError as `read`,
    or if a file is given twice."""
    if len({*files}) < len(files):
        raise UserError(f"{', '.join(files)}: give each file once")
    if not columns.get("label"):
        raise UserError(f"{files[0]}: say which column holds the label: --label COLUMN")
    tables, notes = zip(*map(_read_file, files))
    for table, file in zip(tables, files):
        for names in columns.values():
            for name in [names] if isinstance(names, str) else names:
                read_cells(table, name, file) if name else None
    whole = pd.concat(tables, ignore_index=True)
    data = _encode(whole, columns, " + ".join(files), n, seed, sum(notes, ()))
    return data, np.cumsum([len(table) for table in tables])


def _read_file(data: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    if Path(data).suffix.lower() not in FORMATS:
        near = get_close_matches(data, BUILT_IN, 1)
        raise UserError(
            f"{data!r} is not a valid data set: {f'did you mean {near[0]}? ' if near else ''}"
            f"expected a file ({', '.join(FORMATS)}) or one of {', '.join(BUILT_IN)}"
        )
    return read_table(Path(data))


def _load_built_in(name: str, n: int | None, seed: int) -> tuple[pd.DataFrame, dict]:
    if name == "reviews":
        return _load_reviews(reviews.generate(max(1, (n or 4000) // 5), seed))
    if name == "cebab":
        return _load_reviews(cebab.load("1.1"))
    source = "generated" if name == "agreement" else name
    table = agreement.load(source, n if name == "agreement" else None, seed, attractors=0.5)
    number = {0: "singular", 1: "plural", -1: ""}
    table = table.assign(
        group=table.subject if name == "agreement" else table.work,
        **{"subject's number": table.zc.map(number), "attractor's number": table.ze.map(number)},
    )
    return table, AGREEMENT | ({"pair": "subject_flipped"} if name == "agreement" else {})


def _load_reviews(table: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """Reviews that praise or criticise the food; what is said of other aspects should stay."""
    whole = table[table.split != cebab.SPLITS[0]].reset_index(drop=True)
    pairs = cebab.edit_pairs(whole, originals=True)
    polar = pairs[pairs.concept.eq("food") & ~pairs[["source", "target"]].eq("unknown").any(axis=1)]
    other = pd.Series("", whole.index)
    other[polar.source_row.to_numpy()] = whole.description.to_numpy()[polar.target_row]
    other[polar.target_row.to_numpy()] = whole.description.to_numpy()[polar.source_row]
    coded = whole.assign(pair=other)
    for aspect in cebab.ASPECTS:
        said = whole[f"{aspect}_aspect_majority"]
        coded[aspect] = said.where(said.isin(cebab.VALUES[:2]), "")
    names: dict = {"text": "description", "label": "food", "pair": "pair", "group": "original_id"}
    names |= {"keep": ["service", "ambiance", "noise"]}
    return coded[coded.food != ""], names | {"concept": "praise or criticism of the food"}


def _encode(
    table: pd.DataFrame, names: dict, data: str, n: int | None, seed: int, assumed: Sequence = ()
) -> Labelled:
    table, notes = table.reset_index(drop=True), [*assumed]
    items = pd.DataFrame(
        {one: read_cells(table, names[one], data, one in TEXTS) for one in ROLES if names.get(one)}
    )
    where = f"{data}, column {names['label']!r}"
    items["label"] = _labels(items.label, where)
    items = items[items.label != ""]  # its index: rows of the file
    at = items.index.to_numpy()
    lost = len(table) - len(at)
    notes += [f"Left out, without a label: {lost:,} of {len(table):,} items."] * (lost > 0)
    text = _texts(items, f"{data}, column {names.get('text')!r}")
    pair = _pairs(items, f"{data}, column {names.get('pair')!r}", notes)
    words = _words(table, names.get("words", ()), data, at, notes)
    group = _groups(items, text, pair, notes)
    rows = np.arange(len(at))
    if n is not None and n < len(at):
        rows = _draw_groups(group, n, seed)
        notes.append(f"Drawn, by whole groups: {len(rows):,} of {len(at):,} items.")
    others = np.setdiff1d(np.arange(len(at)), rows)
    every, classes = pd.factorize(items.label, sort=True)
    group = np.unique(group[rows], return_inverse=True)[1]
    _check(every[rows], [*classes], group, where)
    keep, known = {}, {"position in the file": at[rows].astype(float)}
    for name in names["keep"]:
        column, where = read_cells(table, name, data)[at], f"{data}, column {name!r}"
        many = _many_values(column)
        if many is None:
            keep[name] = _encode_property(_labels(column, where).to_numpy()[rows], where)
            continue
        known[name] = many[rows]
        notes.append(f"{name} has many values: tried as a shortcut, but no judge reads it.")

    def take(values: list | None) -> Any:
        return values and [values[row] for row in rows]

    return Labelled(
        name=data,
        concept=names.get("concept", names["label"]),
        text=take(text),
        z=every[rows],
        classes=[*classes],
        keep=keep,
        pair=take(pair),
        words=take(words),
        group=group,
        id=_ids(table, take(text), at[rows]),
        notes=tuple(notes),
        rows=at[rows],
        size=len(table),
        spot=take(_spots(items, f"{data}, column {names.get('spot')!r}")),
        other_rows=at[others],
        other_z=every[others],
        known=known,
    )


def _texts(items: pd.DataFrame, where: str) -> list[str] | None:
    if "text" not in items:
        return None
    empty = items.index[items.text.map(plain) == ""]
    if len(empty):
        raise UserError(f"{where}: row {empty[0] + 1} has no text: drop it")
    return [*items.text]


def _pairs(items: pd.DataFrame, where: str, notes: list[str]) -> list[str] | None:
    """The rewritten texts, "" where there is none, or none that differs from the text."""
    if "pair" not in items:
        return None
    pair = items.pair.where([isinstance(one, Chat) for one in items.pair], items.pair.str.strip())
    same = (pair != "") & (pair.map(plain) == items.get("text", pair + ".").map(plain))
    if (same | (pair == "")).all():
        raise UserError(f"{where}: no row has a rewritten text that differs from its text")
    if same.any():
        notes.append(f"Left out, since they equal their texts: {same.sum():,} rewritten texts.")
    return [*pair.mask(same, "")]


def _spots(items: pd.DataFrame, where: str) -> list[str] | None:
    """The word of each text as the text spells it."""
    if "spot" not in items or "text" not in items:
        return None
    spots = []
    for row, text, word in zip(items.index, items.text, items.spot):
        place = find_word(text, word)
        if place is None:
            raise UserError(f"{where}: row {row + 1}: {word!r} is not in the text {text[:100]!r}")
        spots.append(text[slice(*place)])
    return spots


def _labels(column: pd.Series, where: str) -> pd.Series:
    """Labels as text. Whole numbers may be written as floats; other numbers are refused, and names
    that differ in upper and lower case alone."""
    text = column.map(plain)
    some = text[text != ""]
    numbers = _numbers(some)
    if len(some) and np.isfinite(numbers).all():
        if (numbers != numbers.round()).any():
            broken = some[numbers != numbers.round()].iloc[0]
            raise UserError(
                f"{where}: {broken} is not a valid class: expected names or whole numbers, "
                "such as the halves above and below a threshold"
            )
        text[some.index] = numbers.round().astype("int64").astype(str)
    names = sorted({*text} - {""})
    if len(names) > MOST_CLASSES:
        many = f"{len(names)} different values, at most {MOST_CLASSES} classes"
        raise UserError(f"{where}: {many}: is this the right column?")
    alike = {name.casefold(): name for name in names}
    if len(alike) < len(names):
        one = next(name for name in names if alike[name.casefold()] != name)
        raise UserError(f"{where}: {one!r} and {alike[one.casefold()]!r}: write a class in one way")
    return text


def _numbers(text: pd.Series) -> pd.Series:
    """Cells as numbers, also with a decimal comma; NaN where there is none."""
    comma = text.str.contains(",", regex=False)
    if (
        text[comma].str.fullmatch(r"[+-]?\d+,\d+").all()
        and not text[comma].str[-4:-3].eq(",").all()
    ):
        text = text.str.replace(",", ".")
    return pd.to_numeric(text, errors="coerce")


def _many_values(column: pd.Series) -> np.ndarray | None:
    """A column of more values than a judge can read: floats if all are numbers, else a number for
    each name; None: of few, whole values."""
    text = column.map(plain)
    numbers = _numbers(text)
    some = numbers[text != ""]
    if text[text != ""].nunique() > MOST_CLASSES:
        return numbers.to_numpy(float) if np.isfinite(some).all() else pd.factorize(text)[0]
    broken = np.isfinite(some).all() and (some != some.round()).any()
    return numbers.to_numpy(float) if broken else None


def _check(z: np.ndarray, classes: list[str], group: np.ndarray, where: str) -> None:
    counts = np.bincount(z, minlength=len(classes))
    if len(classes) < 2:
        only = ", ".join(classes) or "no label"
        raise UserError(f"{where}: only one class ({only}): give texts of two at least")
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
        has = ", ".join(names) or "none"
        raise UserError(f"{where}: what should stay needs two values at least, it has {has}")
    return np.array([names.index(value) if value else -1 for value in values])


def _groups(
    items: pd.DataFrame, text: list[str] | None, pair: list[str] | None, notes: list[str]
) -> np.ndarray:
    """A number for each item: equal where two share a group, a text, or a rewritten text. Texts are
    the same if they differ in blanks, case or Unicode form alone."""
    given: list = [*range(len(items))]
    if "group" in items:
        given = [name or row for row, name in enumerate(items.group.map(plain))]
        lone = sum(isinstance(one, int) for one in given)
        of = f"{lone:,} of {len(items):,} items"
        notes += [f"Each a group of its own, without a given one: {of}."] * (lone > 0)
    links = [pd.factorize(np.asarray(given, dtype=object))[0]]
    if text is not None:
        other = [one or whole for one, whole in zip(pair or text, text)]
        keys = [plain(one).casefold() for one in (*text, *other)]
        both = links[0].max(initial=0) + 1 + pd.factorize(np.asarray(keys, dtype=object))[0]
        links += [*both.reshape(2, -1)]
    n = len(items)
    ends, rows = n + np.concatenate(links), np.tile(np.arange(n), len(links))
    graph = coo_matrix((np.ones(len(rows)), (rows, ends)), shape=(ends.max(initial=n) + 1,) * 2)
    group = connected_components(graph, directed=False)[1][:n]
    merged = len({*given}) - len({*group})
    if merged:
        of = f"{merged:,} of {len({*given}):,} {'groups' if 'group' in items else 'items'}"
        notes.append(f"Merged with others, since they share a text: {of}.")
    return group


def _draw_groups(group: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Rows of whole groups in a random order, as many groups as hold at most n items."""
    _, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    within = np.cumsum(sizes[order]) <= n
    within[0] = True
    return np.flatnonzero(np.isin(number, order[within]))


def _words(
    table: pd.DataFrame, words: Sequence[str], data: str, at: np.ndarray, notes: list[str]
) -> list[list[str]] | None:
    """Candidates of each item: those in the named columns, or the words themselves."""
    if not words:
        return None
    missing = [word for word in words if word not in table]
    if 0 < len(missing) < len(words):
        raise UserError(
            f"{data} has no column {missing[0]!r}: name a column for each word, or give "
            "only words that no column is called"
        )
    if len({*words}) < max(2, len(words)):
        raise UserError("--words: two at least, all different, since behaviour is a choice")
    if missing:
        return [[word.strip() for word in words]] * len(at)
    columns = [read_cells(table, word, data)[at].str.strip() for word in words]
    lacking = sum("" in row for row in zip(*columns))
    if lacking:
        notes.append(
            f"Left out of the model's choice, without a word: {lacking:,} of {len(at):,} items."
        )
    return [[*row] for row in zip(*columns)]


def _ids(table: pd.DataFrame, text: list[str] | None, rows: np.ndarray) -> list[str]:
    """Sixteen digits of the text's sha256; of repeated texts with #2 and so on; else the column id
    or the row's number."""
    if text is None:
        return [str(table.id[r]) if "id" in table else f"row {r + 1}" for r in rows]
    digits = pd.Series([hashlib.sha256(one.encode()).hexdigest()[:16] for one in text])
    again = digits.groupby(digits).cumcount()
    return [*digits.where(again == 0, digits + "#" + (again + 1).astype(str))]
