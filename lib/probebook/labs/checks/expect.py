"""What checks are made of: each compares an answer with what is right, prints a tick, or says in a line what is off."""
from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from probebook.runs.page import keep


class NotRight(AssertionError):
    """An answer that is not right; the message is for the student, and is all that a notebook shows of it."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


class NotDone(NotRight):
    """An answer that is still the stub's `...`."""


def close(found: Any, wanted: Any, what: str, tolerance: float = 1e-6, why: str = "") -> None:
    """A number or array is right to within `tolerance`. NotRight: says which entry is off, and `why` it might be."""
    _same(found, wanted, what, tolerance, why)
    tick(what)


def same_function(found: Callable, wanted: Callable, cases: Sequence[tuple], tolerance: float = 1e-6, why: str = ""):
    """A function gives what `wanted` gives, for each case's arguments. NotRight: names the first case that differs."""
    name = getattr(found, "__name__", "the function")
    for case in cases:
        call = f"{name}({', '.join(map(_short, case))})"
        try:
            answer = found(*case)
        except NotRight:
            raise
        except Exception as e:
            raise NotRight(f"{call} raises {type(e).__name__}: {e}") from None
        _same(answer, wanted(*case), call, tolerance, why)
    tick(name)


def choice(found: Any, right: Any, others: Mapping[Any, str], what: str = "your answer") -> None:
    """One of several answers, of which one is right; of each other one says why it is not."""
    given(found, what)
    if found in others and found != right:
        raise NotRight(f"{what} is {found!r}: {others[found]}")
    if found != right:
        raise NotRight(f"{what} is {found!r}: it should be one of {', '.join(sorted(map(repr, {right, *others})))}")
    tick(what)


def prediction(found: Any, among: Sequence[Any] | tuple[float, float], what: str = "prediction") -> None:
    """Any of the possible answers is taken: a prediction is made before the result is seen, and may be wrong.

    `among` is a list of answers, or (lowest, highest) of a number."""
    given(found, what)
    if isinstance(among, tuple):
        low, high = among
        if isinstance(found, bool) or not isinstance(found, int | float) or not low <= found <= high:
            raise NotRight(f"{what} is {found!r}: it should be a number from {low} to {high}")
    elif found not in among:
        raise NotRight(f"{what} is {found!r}: it should be one of {', '.join(map(repr, among))}")
    _keep(found)
    tick(f"{what}: {found!r} is kept, read on")


def interpretation(found: Any, about: Sequence[str] = (), words: int = 20, what: str = "your answer") -> None:
    """A text of some length that speaks of the matter; whether it is right, a reader has to say.

    `about` are words of which each must occur (a text "a|b": one of both)."""
    if not isinstance(given(found, what, f"{words} words or more, in quotes"), str):
        raise NotRight(f"{what} should be a text in quotes, not {type(found).__name__}")
    if (count := len(found.split())) < words:
        raise NotRight(f"{what} has {count} words: write {words} or more, with the figures you rely on")
    missing = [word for word in about if not any(one.lower() in found.lower() for one in word.split("|"))]
    if missing:
        raise NotRight(f"{what} says nothing of {missing[0].replace('|', ' or ')}")
    _keep(found)
    tick(f"{what} is kept for a reader ({count} words)")


def given(found: Any, what: str, put: str = "your answer") -> Any:
    """The answer, unless it is still the stub. NotDone: it is, and what to `put` there."""
    if found is ... or found is None:
        raise NotDone(f"{what} is still {'the stub’s ...' if found is ... else 'None'}: put {put} in its place")
    return found


def tick(what: str) -> None:
    """Say that something is right."""
    print(f"✓ {what}")


def _same(found: Any, wanted: Any, what: str, tolerance: float, why: str) -> None:
    found, wanted = _numbers(given(found, what), what), _numbers(wanted, "the check's own answer")
    if found.shape != wanted.shape:
        raise NotRight(_line(f"{what} has shape {found.shape}, not {wanted.shape}", why))
    off = ~np.isclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    if off.any():
        at = tuple(int(i) for i in np.argwhere(off)[0])
        place = f"{what}{list(at) if at else ''}"
        others = f" ({int(off.sum())} of {off.size} entries are off)" if found.ndim else ""
        raise NotRight(_line(f"{place} is {found[at]:.6g}, and should be {wanted[at]:.6g}{others}", why))


def _keep(answer: Any) -> None:
    """Keep an answer in the notebook, unseen, for the table of grades."""
    keep(f"probebook:answer:{hashlib.sha256(str(answer).encode()).hexdigest()[:8]}", "text/plain", str(answer))


def _numbers(value: Any, what: str) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise NotRight(f"{what} should be made of numbers, not {type(value).__name__}") from None


def _short(value: Any) -> str:
    text = value.__name__ if inspect.isroutine(value) else repr(value)
    shape = tuple(getattr(value, "shape", ()))
    return f"array of shape {shape}" if shape and len(text) > 40 else " ".join(text.split())[:60]


def _line(message: str, why: str) -> str:
    return f"{message}: {why}" if why else message
