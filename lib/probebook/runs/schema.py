"""A page's parameters: their types, how a page declares them, how values are checked.

A page declares each parameter once, in the cell tagged `parameters`:
`layer: Layer = -1  # hidden layer, 0 = embeddings`.
"""
from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from probebook.base import UserError

Count = Annotated[int, Field(ge=1)]
Rank = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Share = Annotated[float, Field(gt=0, lt=1)]
Strength = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Layer = Annotated[int, "hidden layer"]
ModelName = Annotated[str, Field(min_length=1)]
TYPES = {"Count": Count, "Rank": Rank, "Seed": Seed, "Share": Share, "Strength": Strength, "Layer": Layer,
         "ModelName": ModelName, "Literal": Literal, "int": int, "float": float, "str": str, "bool": bool, "list": list}


@dataclass(frozen=True)
class Parameter:
    """One declared parameter; `kind` is its type as the page writes it."""
    name: str
    kind: str
    type: Any
    default: Any
    comment: str


def declared(source: str, page: str = "this page") -> list[Parameter]:
    """Parameters declared in the source of a parameters cell, in order. UserError if a statement is no declaration."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    found = []
    for node in ast.parse(source).body:
        try:
            kind = ast.unparse(node.annotation)
            type_ = eval(kind, {"__builtins__": {}}, TYPES)
            default = _fit(type_, ast.literal_eval(node.value))
            found.append(Parameter(node.target.id, kind, type_, default, comments.get(node.end_lineno, "")))
        except (AttributeError, NameError, TypeError, ValueError) as e:
            raise UserError(f"parameters cell of {page}, line {node.lineno}: should be `name: Type = plain value` "
                            f"with a type of {', '.join(TYPES)} ({e})") from None
    return found


def coerce(types: dict[str, Any], values: dict[str, Any], page: str = "this page") -> dict[str, Any]:
    """`values` in their declared types. UserError: unknown name, wrong type, impossible value."""
    fitted = {}
    for name, value in values.items():
        if name not in types:
            raise UserError(f"unknown parameter {name!r} of {page}: it has {', '.join(types) or 'none'}")
        try:
            fitted[name] = _fit(types[name], value)
        except ValueError as e:
            raise UserError(f"{name} = {value!r} of {page}: {e}") from None
    return fitted


def from_text(types: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Values of `name=value` texts, read as YAML (`1e-3`, `[1, 2]`, `true`); text stays text where text is wanted."""
    values = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise UserError(f"{assignment!r}: a parameter is given as name=value")
        try:
            values[name] = text if types.get(name) in (str, ModelName) else yaml.safe_load(text)
        except yaml.YAMLError:
            values[name] = text
    return values


def from_file(path: Path) -> dict[str, Any]:
    """Values of a YAML file `name: value`. UserError: no such file, or something else in it."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        raise UserError(f"{path}: {' '.join(str(getattr(e, 'strerror', None) or e).split())}") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UserError(f"{path}: should be a YAML mapping, a line `name: value` for each parameter")
    return values


def check_layers(types: dict[str, Any], values: dict[str, Any]) -> None:
    """UserError if a `Layer` parameter lies outside a model that is given as a `ModelName` parameter."""
    def of(kind: Any) -> list[tuple[str, Any]]:
        names = [name for name, type_ in types.items() if type_ in (kind, list[kind])]
        return [(name, item) for name in names for item in ([values[name]] if types[name] == kind else values[name])]

    layers, models = of(Layer), of(ModelName)
    if not layers or not models:
        return
    from probebook.models.loading import depth
    for _, model in models:
        last = depth(model)
        for name, layer in layers:
            if not -last - 1 <= layer <= last:
                raise UserError(f"{name} {layer}: {model} has layers 0 … {last} (or −1 … −{last + 1})")


def _fit(type_: Any, value: Any) -> Any:
    """`value` as `type_`: numbers may be written as text or whole floats, a truth value is no number."""
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
