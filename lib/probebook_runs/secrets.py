"""Keys stay in environment variables: they never enter a parameter, a notebook, a record or an
error."""

from __future__ import annotations

import html
import json
import os
import re
from typing import Any
from urllib.parse import quote

from probebook.base import UserError

SECRET = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(_ID|_BASE64)?$", re.IGNORECASE
)
# user:password of an address
USER = re.compile(r"(?<=://)[^/?#\s\"'<>@]+(?:@[^/?#\s\"'<>@]+)*(?=@)")


def hide_secrets(what: Any) -> Any:
    """A copy of a text, notebook or plain value in which `***NAME***` replaces each key.

    A key is the value (8 characters or more) of an environment variable whose name ends in KEY,
    TOKEN, PASSWORD or the like, as it is or escaped (JSON, HTML, address). The user and password of
    an address are hidden as well.
    """
    keys = [(form, name) for name, value in secrets().items() for form in _forms(value)]
    return _hide(what, sorted(keys, key=lambda pair: -len(pair[0])))


def refuse_secrets(name: str, value: Any) -> None:
    """UserError if a parameter's value or one of its items holds a key, or an address with a user
    or password."""
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str):
            continue
        for variable, secret in secrets().items():
            if any(form in text for form in _forms(secret)):
                raise UserError(
                    f"{name}: holds the value of {variable}, and parameters are kept in records: "
                    "leave the key in the environment and give the variable's name"
                )
        if USER.search(text):
            why = "keys belong in environment variables"
            raise UserError(f"{name}: an address without user and password: {why}")


def secrets() -> dict[str, str]:
    """Environment variables that hold keys: name → value."""
    return {
        name: value.strip()
        for name, value in os.environ.items()
        if SECRET.search(name) and len(value.strip()) >= 8
    }


def _forms(value: str) -> set[str]:
    """A value as it is, and as JSON, HTML, CSV, Python's repr and an address write it."""
    return {
        value,
        value.replace('"', '""'),
        repr(value)[1:-1],
        *(json.dumps(value, ensure_ascii=e)[1:-1] for e in (True, False)),
        html.escape(value),
        html.escape(value, quote=False),
        quote(value),
        quote(value, safe=""),
    }


def _hide(what: Any, keys: list[tuple[str, str]]) -> Any:
    if isinstance(what, str):
        for form, name in keys:
            what = what.replace(form, f"***{name}***")
        return USER.sub("***", what)
    if isinstance(what, dict):
        return type(what)({_hide(key, keys): _hide(value, keys) for key, value in what.items()})
    if isinstance(what, list | tuple):
        return type(what)(_hide(item, keys) for item in what)
    return what
