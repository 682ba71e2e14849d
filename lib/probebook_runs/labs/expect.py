"""The parts of which checks are made. Each compares an answer with the right one: it prints a tick,
or raises an error with one line for the student."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from probebook_runs.page import keep

Answer = Any  # what a student gives: it may be anything
Function = Callable[..., Any]  # a function that a student, or the check, has written
Cases = Sequence[tuple[Any, ...]]  # the arguments of one call each
SEED = 0  # of drawn cases; who grades draws another one each time


class NotRight(AssertionError):
    """A wrong answer. A notebook shows the student its message and nothing else."""

    def _render_traceback_(self) -> list[str]:
        return [f"✗ {self}"]


class NotDone(NotRight):
    """An answer that is still the stub's `...`."""


def close(answer: Answer, wanted: Any, what: str, tolerance: float = 1e-6, why: str = "") -> None:
    """Accept numbers that are right to within `tolerance`, relative or absolute.

    NotRight: names the first entry that is wrong; `why` is a hint about the cause."""
    _compare(answer, wanted, what, tolerance, why)
    tick(what)


def same_function(
    answer: Function, wanted: Function, cases: Cases, tolerance: float = 1e-6, why: str = ""
) -> None:
    """Accept a function that gives the same numbers as `wanted` for the arguments of every case.

    NotRight: names the first call that gives something else or raises an error."""
    name = getattr(answer, "__name__", "the function")
    for case in cases:
        call = f"{name}({', '.join(map(_short, case))})"
        try:
            result = answer(*deepcopy(case))  # it may change its arguments
        except NotRight:
            raise
        except Exception as e:
            raise NotRight(f"{call} raises {type(e).__name__}: {e}") from None
        _compare(result, wanted(*case), call, tolerance, why)
    tick(name)


def reference_solution(
    cases: Cases | Callable[..., Cases], tolerance: float = 1e-6, why: str = ""
) -> Callable[[Function], Callable[..., None]]:
    """Turn the right function into the check of a student's function (see `same_function`).

    `cases` are the arguments of the calls, or a function that makes them of a generator and of what
    the page hands over beside the answer."""

    def check_of(wanted: Function) -> Callable[..., None]:
        def check(answer: Function, *given: Any) -> None:
            drawn = cases(draws(), *given) if callable(cases) else cases
            same_function(answer, wanted, drawn, tolerance, why)

        check.__doc__ = wanted.__doc__
        return check

    return check_of


def draws() -> np.random.Generator:
    """What draws a check's cases: the same in every notebook, others each time it is graded."""
    return np.random.default_rng(SEED)


def choice(
    answer: Answer, right: Any, others: Mapping[Any, str], what: str = "your answer"
) -> None:
    """Accept the right one of several answers.

    NotRight: says why another one is wrong, or which answers there are."""
    given(answer, what)
    if answer in others and answer != right:
        raise NotRight(f"{what} is {answer!r}: {others[answer]}")
    if answer != right:
        answers = ", ".join(sorted(map(repr, {right, *others})))
        raise NotRight(f"{what} is {answer!r}: it should be one of {answers}")
    tick(what)


def prediction(answer: Answer, among: Sequence[Any] | tuple[float, float]) -> None:
    """Accept and keep any possible answer: a prediction precedes the result and may be wrong.

    `among` is a list of answers, or a pair (lowest, highest) for a number.
    NotRight: says which answers are possible."""
    given(answer, "prediction")
    if isinstance(among, tuple):
        low, high = among
        a_number = isinstance(answer, int | float) and not isinstance(answer, bool)
        if not a_number or not low <= answer <= high:
            raise NotRight(f"prediction is {answer!r}: it should be a number from {low} to {high}")
    elif answer not in among:
        answers = ", ".join(map(repr, among))
        raise NotRight(f"prediction is {answer!r}: it should be one of {answers}")
    _keep(answer)
    tick(f"prediction: {answer!r} is kept, read on")


def interpretation(answer: Answer, about: Sequence[str] = (), words: int = 20) -> None:
    """Accept and keep a text of some length on the subject; a reader judges whether it is right.

    Each text of `about` must occur in it; of "a|b" one of the two.
    NotRight: says that the text is too short, or what it does not mention."""
    if not isinstance(given(answer, "your answer", f"{words} words or more, in quotes"), str):
        raise NotRight(f"your answer should be a text in quotes, not {type(answer).__name__}")
    if (count := len(answer.split())) < words:
        raise NotRight(
            f"your answer has {count} words: write {words} or more, with the figures you rely on"
        )
    for subject in about:
        if not any(word.lower() in answer.lower() for word in subject.split("|")):
            raise NotRight(f"your answer says nothing of {subject.replace('|', ' or ')}")
    _keep(answer)
    tick(f"your answer is kept for a reader ({count} words)")


def written(*about: str, words: int = 20) -> Callable[[Answer], None]:
    """The check of an `interpretation` about these subjects."""
    return partial(interpretation, about=about, words=words)


def given(answer: Answer, what: str, put: str = "your answer") -> Answer:
    """Return the answer. NotDone: it is still the stub; the message says what to `put` there."""
    if answer is ... or answer is None:
        stub = "the stub’s ..." if answer is ... else "None"
        raise NotDone(f"{what} is still {stub}: put {put} in its place")
    return answer


def numbers(answer: Answer, what: str, form: str = "") -> np.ndarray:
    """Return the answer as an array of floats. NotRight: it is none; it should be `form`."""
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
    try:
        return np.asarray(given(answer, what), dtype=float)
    except (TypeError, ValueError):
        form = form or f"made of numbers, not {type(answer).__name__}"
        raise NotRight(f"{what} should be {form}") from None


def entries(answer: Answer, wanted: pd.Series, what: str, each: str) -> pd.Series:
    """Return a Series in the order of `wanted`.

    NotRight: it is no Series, or it lacks an entry for `each` of the index of `wanted`."""
    if not isinstance(given(answer, what), pd.Series):
        raise NotRight(f"{what} should be a Series indexed by {each}, not {type(answer).__name__}")
    if set(answer.index) != set(wanted.index):
        raise NotRight(
            f"{what} should have one entry for each {each}, and no other; its index "
            f"is {', '.join(map(str, answer.index[:4]))} …"
        )
    return answer.reindex(wanted.index)


def tick(what: str) -> None:
    """Print that something is right."""
    print(f"✓ {what}")


def _compare(answer: Answer, wanted: Any, what: str, tolerance: float, why: str) -> None:
    answer, wanted = numbers(answer, what), numbers(wanted, "the check's own answer")
    hint = f": {why}" if why else ""
    if answer.shape != wanted.shape:
        raise NotRight(f"{what} has shape {answer.shape}, not {wanted.shape}{hint}")
    wrong = ~np.isclose(answer, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        entry = f"{what}{list(first) if first else ''}"
        count = f" ({int(wrong.sum())} of {wrong.size} entries are off)" if answer.ndim else ""
        raise NotRight(
            f"{entry} is {answer[first]:.6g}, and should be {wanted[first]:.6g}{count}{hint}"
        )


def _keep(answer: Answer) -> None:
    """Keep an answer in the notebook, unseen, for the table of grades."""
    name = hashlib.sha256(str(answer).encode()).hexdigest()[:8]
    keep(f"probebook:answer:{name}", "text/plain", str(answer))


def _short(value: Any) -> str:
    text = value.__name__ if inspect.isroutine(value) else repr(value)
    shape = tuple(getattr(value, "shape", ()))
    return f"array of shape {shape}" if shape and len(text) > 40 else " ".join(text.split())[:60]
