"""A page's parameters: their types, how a page declares them, how values are checked.

A page declares each parameter once, in the cell tagged `parameters`: `layer: Layer = -1  # hidden
layer, 0 = embeddings`. A type is a name of `TYPES`, `list[…]`, `Literal[…]`, `… | None`, or a range
of its own: `Annotated[float, Field(ge=0, le=1)]`.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from probebook.base import UserError, read_yaml
from probebook.hub import architecture, kind
from probebook_runs.secrets import hide_secrets, refuse_secrets

Count = Annotated[int, Field(ge=1)]
Rank = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Share = Annotated[float, Field(gt=0, lt=1)]
Strength = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Layer = Annotated[int, "hidden layer"]


@dataclass(frozen=True)
class Reads:
    """Part of a parameter's type: the local files and folders that a value may name.

    Those that exist are part of a run's id.
    """

    files: Callable[[str], tuple[str, ...]]


@dataclass(frozen=True)
class Fits:
    """Part of a parameter's type: the kinds of model (`hub.kind_of`) that a page can use there,
    `without` the architectures whose names begin so."""

    kinds: tuple[str, ...]
    words: str
    without: tuple[str, ...] = ()

    def __call__(self, model: str) -> bool:
        of_kind = not self.kinds or kind(model) in self.kinds
        return of_kind and not (self.without and architecture(model)[0].startswith(self.without))


def path_itself(path: str) -> tuple[str, ...]:
    return (path,)


def _encoder_files(text: str) -> tuple[str, ...]:
    """NAME in "NAME", "NAME POOLING", "random:NAME" and "corrupted-200:NAME"; the file in
    "vectors.txt-100"."""
    name = re.sub(r" (pooler|cls|mean|max|last)$", "", text)
    name = re.sub(r"^(random|corrupted-\d+):", "", name)
    return name, re.sub(r"-\d+$", "", name)


def _source_files(text: str) -> tuple[str, ...]:
    """PATH in "PATH" or "coqa:PATH", and the training file beside a development file."""
    path = Path(re.sub(r"^(coqa|hotpotqa):", "", text))
    return str(path), str(path.with_name(path.name.replace("dev", "train")) if path.name else path)


def _data_files(text: str) -> tuple[str, ...]:
    return text, os.path.join(os.environ.get("PROBEBOOK_DATA", ""), text)


ANY = Fits((), "a model")
BERT = ("masked", "encoder")
_Model = Annotated[str, Field(min_length=1), Reads(path_itself)]
_Twin = Annotated[str, Field(min_length=1), Reads(_encoder_files)]
# a model, if need be of some kinds only
ModelName = Annotated[_Model, ANY]
WithHead = Annotated[_Model, Fits(("masked", "causal", "seq2seq"), "a language model with a head")]
Masked = Annotated[_Model, Fits(("masked",), "a masked language model")]
LeftToRight = Annotated[_Model, Fits(("causal",), "a left-to-right language model")]
ANSWERS = "a model that answers a prompt: left-to-right, or an encoder–decoder"
Prompted = Annotated[_Model, Fits(("causal", "seq2seq"), ANSWERS)]
# a model, a twin of one, or word vectors
Encoder = Annotated[_Twin, ANY]
READS_BOTH = "an encoder such as BERT, which reads both sides of a word"
BothSides = Annotated[_Twin, Fits(BERT, READS_BOTH)]
MARKS = "an encoder such as BERT, whose readers mark the words that they use (XLNet's do not)"
Tagged = Annotated[_Twin, Fits(BERT, MARKS, without=("XLNet",))]
Source = Annotated[str, Reads(_source_files)]  # texts: one of the book's, a file, a folder
FilePath = Annotated[str, Reads(path_itself)]  # a file of the reader's own, or ""
DataFolder = Annotated[str, Reads(_data_files)]  # a folder under PROBEBOOK_DATA, or ""
# a stored sweep, or a CSV file
Sweep = Annotated[str, Reads(lambda name: (name, f"data/records/sweeps/{name}.csv"))]
TYPES = {
    "Count": Count,
    "Rank": Rank,
    "Seed": Seed,
    "Share": Share,
    "Strength": Strength,
    "Layer": Layer,
    "ModelName": ModelName,
    "WithHead": WithHead,
    "Masked": Masked,
    "LeftToRight": LeftToRight,
    "Prompted": Prompted,
    "BothSides": BothSides,
    "Tagged": Tagged,
    "Encoder": Encoder,
    "Source": Source,
    "FilePath": FilePath,
    "DataFolder": DataFolder,
    "Sweep": Sweep,
    "int": int,
    "float": Annotated[float, Field(allow_inf_nan=False)],
    "str": str,
    "bool": bool,
}
Note = TypeVar("Note")
# the limits of `Field` that a page may set
RANGE = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "allow_inf_nan")


@dataclass(frozen=True)
class Parameter:
    """One declared parameter. `kind` is its type as the page writes it."""

    name: str
    kind: str
    type: Any
    default: Any
    comment: str


@cache
def declared(source: str, page: str = "this page") -> list[Parameter]:
    """Parameters in the source of a parameters cell, in order; a comment stands behind its own
    parameter or on the line above. UserError: a statement is no declaration."""
    tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    notes = [token for token in tokens if token.type == tokenize.COMMENT]
    comments = {token.start[0]: token.string.lstrip("# ") for token in notes}
    above = {token.start[0] + 1 for token in notes if not token.start[1]}
    parameters = []
    for node in ast.parse(source).body:
        problem = "it lacks its type or its value"
        try:
            match node:
                case ast.AnnAssign(ast.Name(name), annotation, ast.expr() as value):
                    type_ = _type(annotation)
                    default = _fit(type_, ast.literal_eval(value))
                    line = node.lineno - 1 if node.lineno in above else node.end_lineno
                    comment = comments.get(line or 0, "")
                    kind = ast.unparse(annotation)
                    parameters.append(Parameter(name, kind, type_, default, comment))
                    continue
        except (TypeError, ValueError) as e:
            problem = str(e) if isinstance(e, ValueError) else problem
        raise UserError(
            f"parameters cell of {page}, line {node.lineno}: should be `name: Type = plain value` "
            f"with a type of {', '.join(TYPES)}, list[…], Literal[…], … | None, or a range "
            f"Annotated[…, Field(ge=…)] ({problem})"
        )
    return parameters


def types_in(cells: Iterable[str]) -> dict[str, Any]:
    """Types by name of the parameters that these cells of a notebook declare.

    From Python 3.14 on a kernel forgets all types of a cell but the last; its sources it keeps."""
    found = {}
    for cell in cells:
        nodes: list[ast.stmt] = []
        with suppress(SyntaxError):  # it did not run
            nodes = ast.parse(cell).body
        for node in nodes:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                with suppress(TypeError, ValueError):  # a name of the page's own
                    found[node.target.id] = _type(node.annotation)
    return found


def coerce(
    types: dict[str, Any], values: dict[str, Any], page: str = "this page"
) -> dict[str, Any]:
    """`values` in their declared types. UserError: unknown name, wrong type, impossible value."""
    fitted = {}
    for name, value in values.items():
        if name not in types:
            near = get_close_matches(name, types, n=1)
            raise UserError(
                f"unknown parameter {name!r} of {page}: "
                f"{f'did you mean {near[0]}? ' if near else ''}"
                f"it has {', '.join(types) or 'no cell tagged parameters'}"
            )
        refuse_secrets(name, value)
        try:
            fitted[name] = _fit(types[name], value)
        except ValueError as e:
            raise UserError(f"{name} = {value!r} of {page}: {e}") from None
    return fitted


def from_text(assignments: Sequence[str]) -> dict[str, str]:
    """Values from texts `name=value`. They stay text; `coerce` reads them in their declared
    types."""
    pairs = [assignment.partition("=") for assignment in assignments]
    for name, equals, _ in pairs:
        if not equals:
            raise UserError(f"{hide_secrets(name)!r}: a parameter is given as name=value")
    return {name: text for name, _, text in pairs}


def from_file(path: Path, as_text: bool = True) -> dict[str, Any]:
    """Values of a YAML file `name: value`, as text like those of `from_text`: `yes` and dates stay
    what was written. UserError: no such file, or something else in it."""
    values = read_yaml(path, as_text) or {}  # an empty file has no values
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UserError(
            f"{path}: should be a YAML mapping, a line `name: value` for each parameter"
        )
    return values


def files(types: dict[str, Any], values: dict[str, Any]) -> list[tuple[str, str]]:
    """(parameter, path) for each file or folder that values may name by their types. They need not
    exist."""
    return [
        (name, path)
        for name, type_ in types.items()
        for part in members(type_)
        if (reads := annotation(part, Reads))
        for item in flatten(values[name])
        if item
        for path in dict.fromkeys(reads.files(item))
    ]


def _type(node: ast.expr) -> Any:
    """The type that an annotation means. ValueError: pages may not use it."""
    match node:
        case ast.Name(name) if name in TYPES:
            return TYPES[name]
        case ast.Constant(None):
            return None
        case ast.BinOp(left, ast.BitOr(), right):
            return _type(left) | _type(right)
        case ast.Subscript(ast.Name("list"), item):
            return list[_type(item)]  # type: ignore[misc]
        case ast.Subscript(ast.Name("Literal"), constants):
            return Literal[ast.literal_eval(constants)]
        case ast.Subscript(
            ast.Name("Annotated"), ast.Tuple([kind, ast.Call(ast.Name("Field"), [], limits)])
        ) if all(limit.arg in RANGE for limit in limits):
            given = {str(limit.arg): ast.literal_eval(limit.value) for limit in limits}
            return Annotated[_type(kind), Field(**given)]
    raise ValueError(f"no type of a parameter: {ast.unparse(node)}")


def _kinds(type_: Any) -> tuple:
    """The members of a union type, else the type itself."""
    return get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)


def members(type_: Any) -> tuple:
    """The members of a union type, and the types of their lists' items."""
    return (*_kinds(type_), *map(_items, _kinds(type_)))


def annotation(part: Any, kind: type[Note]) -> Note | None:
    """What an annotated type says of this kind, None if it says nothing."""
    return next((one for one in getattr(part, "__metadata__", ()) if isinstance(one, kind)), None)


def _items(kind: Any) -> Any:
    """Type of a list's items; None if the type is no list."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_args(kind)[0] if get_origin(kind) is list else None


def flatten(value: Any) -> Iterator[Any]:
    """A value, or the items of a list, without those that are None."""
    items = value if isinstance(value, list) else [value]
    yield from (item for item in items if item is not None)


def _read(type_: Any, value: Any) -> Any:
    """Text read as its declared type: None, a list (`[1e-3, 2]`, as YAML), or a constant of a
    `Literal`."""
    kinds = _kinds(type_)
    items = next((items for kind in kinds if (items := _items(kind)) is not None), None)
    if isinstance(value, str):
        constants = [c for kind in kinds if get_origin(kind) is Literal for c in get_args(kind)]
        null = value in ("None", "none", "null", "~", "") and value not in constants
        if null and NoneType in kinds:
            return None
        value = next((c for c in constants if str(c) == value), value)
        if items is not None and value.startswith("["):
            with suppress(yaml.YAMLError):
                value = yaml.load(value, Loader=yaml.BaseLoader)  # its items stay text
    if items is not None and isinstance(value, list):
        return [_read(items, item) for item in value]
    return value


def _fit(type_: Any, value: Any) -> Any:
    """`value` as `type_`. Numbers may be written as text or as whole floats; a truth value is no
    number."""
    value = _read(type_, value)
    try:
        fitted = TypeAdapter(type_).validate_python(value)
    except ValidationError as e:
        error = e.errors()[0]
        place = "".join(f"item {i + 1} " for i in error["loc"] if isinstance(i, int))
        raise ValueError(place + error["msg"].removeprefix("Input ")) from None
    pairs = zip(value, fitted, strict=True) if isinstance(value, list) else [(value, fitted)]
    if any(isinstance(a, bool) and not isinstance(b, bool) for a, b in pairs):
        raise ValueError("should be a number, not true or false")
    return fitted
