"""The house as `CONTRIBUTING.md` draws it: its rooms, their sizes, the six journeys through
them."""

from __future__ import annotations

import ast
import re
import sys
import threading
from importlib import import_module

import pytest

from probebook.base import ROOT

LIBRARY = ROOT / "lib" / "probebook"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## The house\n")[2]
ROOMS = dict(re.findall(r"^\| `(\w+)/` \| ([\d,]+) \|", TEXT, re.MULTILINE))
JOURNEYS = {
    title: re.findall(r"`([\w.]+)`", steps)
    for title, steps in re.findall(
        r"^\d\. \*\*([^*]+)\*\*: (.+?)(?=\n\d\. |\n\n)", TEXT, re.MULTILINE | re.DOTALL
    )
}
PACKAGES = sorted(path.parent for path in LIBRARY.rglob("__init__.py") if path.parent != LIBRARY)
PUBLIC = re.compile(r"__init__|__call__|[a-z]\w*")


@pytest.mark.parametrize(
    "room",
    sorted(p for p in LIBRARY.iterdir() if (p / "__init__.py").exists()),
    ids=lambda path: path.name,
)
def test_a_room_has_the_lines_that_the_map_says(room):
    """A room may shrink; one that grows says so in the map."""
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in room.rglob("*.py"))
    said = int(ROOMS[room.name].replace(",", ""))
    assert lines <= said
    assert lines > 0.9 * said


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_a_room_opens_with_its_purpose_and_one_use(package):
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    assert text
    assert re.search(r"^    \S|`[^`]+\(", text, re.MULTILINE), "a line of use"
    assert not (package / "README.md").exists()


@pytest.mark.parametrize(
    "path", sorted(LIBRARY.rglob("*.py")), ids=lambda path: path.relative_to(LIBRARY).as_posix()
)
def test_public_functions_are_typed(path):
    assert not list(_untyped(ast.parse(path.read_text(encoding="utf-8")).body))


def _untyped(body, of_class=False):
    """Names of public functions and methods that lack the type of an argument or of their
    result."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _untyped(node.body, True)
        if isinstance(node, ast.FunctionDef) and PUBLIC.fullmatch(node.name):
            given = node.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            static = any(getattr(mark, "id", "") == "staticmethod" for mark in node.decorator_list)
            named = arguments[of_class and not static :]
            if any(argument.annotation is None for argument in named):
                yield node.name
            elif node.returns is None and node.name != "__init__":
                yield node.name


def test_there_are_six_journeys():
    assert list(JOURNEYS) == [
        "A model",
        "A sentence",
        "A run",
        "A submission",
        "A pair of reviews",
        "A story",
    ]
    assert min(map(len, JOURNEYS.values())) >= 5


@pytest.fixture
def called(monkeypatch):
    """Calls a function and returns the names of the library's functions that ran, in order."""

    def trace(function):
        names = []

        def note(frame, event, _):
            if event == "call":
                module = frame.f_globals.get("__name__", "")
                if module.startswith("probebook."):
                    names.append(f"{module[10:]}.{frame.f_code.co_qualname}")

        threading.setprofile(note)
        sys.setprofile(note)
        try:
            function()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return names

    return trace


def unreached(names, journey):
    """The first function of a journey that does not run after those before it; empty: all do."""
    for step in journey:
        ends = (step.rsplit(".", n)[0] for n in (1, 2))
        module = next(name for name in ends if _exists(name))
        target = import_module(f"probebook.{module}")
        for part in step.removeprefix(f"{module}.").split("."):
            target = getattr(target, part)
        full = f"{target.__module__.removeprefix('probebook.')}.{target.__qualname__}"
        if full not in names:
            return step
        names = names[names.index(full) + 1 :]
    return ""


def _exists(module):
    path = LIBRARY.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_a_model(called, monkeypatch, tmp_path):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    from probebook.models import embed, loading

    loading._loaded.cache_clear()  # another test may have loaded it
    names = called(lambda: embed(["The key is [MASK]."], "pocket-english"))
    assert unreached(names, JOURNEYS["A model"]) == ""


def test_a_sentence(called, monkeypatch, tmp_path):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    from probebook.experiments import causal_probing as experiment
    from probebook.interventions import INLP

    def journey():
        s = experiment.prepare("pocket-agreement", "generated", 400)
        oracles = experiment.oracles(s, layers=(1,), widths=(16,), lrs=(1e-2,))
        rows, test = s.parts["intervention"], s.parts["test"]
        edit = INLP(max_rank=2).fit(s.h[rows], s.zc[rows])
        experiment.judge(s, oracles, edit.at(rank=1)(s.h[test]), test)

    assert unreached(called(journey), JOURNEYS["A sentence"]) == ""


def test_a_run(called, tiny):
    tiny("1")
    from typer.testing import CliRunner

    from probebook.cli import app

    names = called(lambda: CliRunner().invoke(app, ["run", "1_demo", "-p", "n=3"]))
    assert unreached(names, JOURNEYS["A run"]) == ""


def test_a_submission(called, tmp_path):
    from probebook.labs import grade, sandbox, student
    from probebook.runs.kernels import Limits
    from probebook.runs.pages import find

    def journey():
        student.write(tmp_path / "handed_in", [find("3_data_requirements/01")])
        folder = tmp_path / "handed_in"
        paths = sandbox.submissions(folder)
        grade.grade(paths, folder, tmp_path / "grades", "smoke", 1, Limits(seconds=1))

    assert unreached(called(journey), JOURNEYS["A submission"]) == ""


def test_a_pair_of_reviews(called, monkeypatch, tmp_path):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    from probebook.experiments import concept_effects as experiment
    from probebook.explainers import SLearner

    def journey():
        s = experiment.prepare("reviews", n=120)
        box = experiment.black_boxes(s, "pocket-english", [0], frozen=True, epochs=1, at="mean")[0]
        found = SLearner().fit(s.train, box).effect(s.parts["test"].questions)
        experiment.errors(experiment.true_effects(box, s), {"S-Learner": found})

    assert unreached(called(journey), JOURNEYS["A pair of reviews"]) == ""


def test_a_story(called, monkeypatch, tmp_path):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    from probebook.experiments import semantic_faithfulness as experiment

    def journey():
        table = experiment.questions("stories", 2)
        experiment.answers(experiment.readers(["ot"]), {"OS": table})

    assert unreached(called(journey), JOURNEYS["A story"]) == ""


def test_journeys_can_fail(called):
    names = called(lambda: import_module("probebook.base").plain_name("x"))
    assert unreached(names, ["base.plain_name"]) == ""
    assert unreached(names, ["base.plain_name", "base.sha256"]) == "base.sha256"
