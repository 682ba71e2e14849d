"""The checker of a page's submissions: a process that runs the page's own cells, and its checks on
what submissions gave: python -m probebook_runs.labs.checker PAGE PARAMETERS.

No code of a submission runs here. A check runs twice, both times with the page's own values and
with inputs drawn from a seed that the checker alone knows: first on the page's solution, to record
the calls it makes of the student's function; then with what a submission's process gave for these
calls and for the other answers, as plain data."""

from __future__ import annotations

import ast
import functools
import json
import os
import secrets
import subprocess
import symtable
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from probebook.base import UserError
from probebook_runs.labs import expect
from probebook_runs.labs.attempt import quiet, shell
from probebook_runs.labs.exercises import Exercise, exercises, solution
from probebook_runs.labs.values import decode, encode
from probebook_runs.pages import Page, parameterize

ACCEPTED = {"prediction": "predicted", "interpretation": "to read", "code": "passed"}
LONGEST = 20_000  # characters of a message or an answer


class Checker:
    """Check a page's submissions in a process, which starts when first asked and ends with the last
    of them. Several threads may use it. UserError: the page does not run here."""

    def __init__(self, page: str, parameters: str, submissions: int):
        self.words = [page, parameters]
        self.left = submissions
        self.process: Any = None  # its Popen
        self.lock = threading.Lock()

    def finish_one(self) -> None:
        """Note that a submission is done. The last one ends the process."""
        with self.lock:
            self.left -= 1
            if not self.left:
                self.end()

    def end(self) -> None:
        """End the process, if there is one."""
        if self.process:
            try:
                self.process.communicate(timeout=5)  # its input ends, and so does it
            except subprocess.TimeoutExpired:  # it still runs the page
                self.process.kill()
                self.process.communicate()
            self.process = None

    def asks(self) -> tuple[int, list[dict]]:
        """Draw a seed; return it, and what each check asks for with it: names, and calls."""
        seed = secrets.randbits(60)
        return seed, self._ask({"seed": seed})

    def outcomes(self, seed: int, given: dict[str, str]) -> list[tuple[str, str, str] | None]:
        """Outcome, message and answer of each exercise; None where nothing was given.

        `given`: the lines that `attempt` wrote, by the exercise's number."""
        return self._ask({"seed": seed, "given": given})

    def _ask(self, question: dict) -> Any:
        with self.lock:
            if not self.process or self.process.poll() is not None:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", __name__, *self.words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            try:
                self.process.stdin.write(json.dumps(question) + "\n")
                self.process.stdin.flush()
                answer = json.loads(self.process.stdout.readline() or '{"error": "it ended"}')
            except OSError:
                answer = {"error": "it ended"}
        if isinstance(answer, dict):
            raise UserError(f"cannot be judged: {answer['error']}")
        return answer


def main(name: str, parameters: str) -> None:
    """Run the page, then answer each line of the input with one line: what checks ask for, or
    outcomes."""
    replies, page = os.fdopen(os.dup(1), "w"), Page(name)
    quiet()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        checks: list[Check] = []
        answer: Any
        for line in sys.stdin:
            question = json.loads(line)
            try:
                checks = checks or list(_checks(page, json.loads(parameters)))
                seed, given = question["seed"], question.get("given")
                if given is None:
                    answer = [one.asks(seed) for one in checks]
                else:
                    lines = [given.get(str(one.exercise.number)) for one in checks]
                    answer = [one.outcome(seed, line) for one, line in zip(checks, lines)]
            except Exception as e:
                answer = {"error": str(e) or type(e).__name__}
            print(json.dumps(answer), file=replies, flush=True)
        os.chdir("/")


def _checks(page: Page, parameters: dict[str, Any]) -> Iterator[Check]:
    """The page's checks, each in the state of the page where it stands.

    UserError: a cell of the page fails."""
    check_run, check_names = shell()  # first: the page's is the one that stays `__main__`
    run, names = shell()
    checked = {page.notebook.cells[e.cell + 1].id: e for e in exercises(page.notebook)}
    notebook = parameterize(page.notebook, parameters)
    answer = ""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if cell.id in checked:
            names_in = (n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name))
            asked = sorted(_bound(answer) & {*names_in})
            yield Check(checked[cell.id], cell.source, asked, dict(names), check_run, check_names)
        elif error := run(solution(cell.source), "exercise" in cell.metadata.get("tags", [])):
            line = cell.source.partition("\n")[0]
            raise UserError(
                f"the page itself does not run here: {type(error).__name__}: {error}, "
                f"in its cell {line!r}"
            )
        answer = cell.source


def _bound(source: str) -> set[str]:
    """The names that a cell gives values or functions."""
    return {
        name.get_name()
        for name in symtable.symtable(source, "cell", "exec").get_symbols()
        if name.is_assigned() and not name.is_imported()
    }


@dataclass(frozen=True)
class Check:
    """A check of an exercise, with the page's values where it stands. `run`, `namespace`: the shell
    in which checks run (see `attempt.shell`)."""

    exercise: Exercise
    source: str
    asked: list[str]  # names that the answer binds and the check reads
    names: dict[str, Any]  # the page's values
    run: Callable[[str], BaseException | None]
    namespace: dict[str, Any]

    def _run(self, seed: int, answers: dict[str, Any]) -> None:
        expect.SEED = seed
        self.namespace.update(self.names | answers)
        if error := self.run(self.source):
            raise error

    def asks(self, seed: int) -> dict[str, Any]:
        """The number, the names, and the calls that the check makes of the solution's functions."""
        calls: list[tuple[str, list]] = []

        def record(name: str, answer: Any) -> Any:
            if not callable(answer):
                return answer

            @functools.wraps(answer)
            def call(*arguments: Any) -> Any:
                calls.append((name, [*map(encode, arguments)]))
                return answer(*arguments)

            return call

        self._run(seed, {name: record(name, self.names[name]) for name in self.asked})
        return {"check": self.exercise.number, "asked": self.asked, "calls": calls}

    def outcome(self, seed: int, line: str | None) -> tuple[str, str, str] | None:
        """Outcome, message and answer, from the line that a submission's process wrote."""
        if line is None:
            return None
        problem, answers = "", {}
        try:
            given = json.loads(line)
            problem, answers = str(given["raised"]), self._answers(given)
            if missing := [name for name in self.asked if name not in answers]:
                problem = problem or f"NameError: name {missing[0]!r} is not defined"
            else:
                self._run(seed, answers)
        except expect.NotRight as e:
            kind = "not done" if isinstance(e, expect.NotDone) else "wrong"
            return kind, str(e)[:LONGEST], ""
        except Exception as e:  # whatever was given, the checker goes on
            problem = problem or f"{type(e).__name__}: {e}"
        if problem:
            return "error", problem[:300], ""
        kind = self.exercise.kind
        text = "" if kind == "code" else "".join(str(answers[name]) for name in self.asked)
        return ACCEPTED[kind], "", text[:LONGEST]

    def _answers(self, given: dict) -> dict[str, Any]:
        """The answers as plain data; a function gives what was given for its calls, in order."""
        results, values = iter(given["results"]), given["values"]

        def replay(function: Callable) -> Callable:
            @functools.wraps(function)
            def call(*_: Any) -> Any:
                result = next(results)
                if "raises" in result:
                    name, _, message = result["raises"].partition(": ")
                    raise type(name, (Exception,), {})(message)
                return decode(result["gives"])

            return call

        return {
            name: replay(self.names[name]) if callable(self.names[name]) else decode(values[name])
            for name in self.asked
            if name in values
        }


if __name__ == "__main__":
    main(*sys.argv[1:])
