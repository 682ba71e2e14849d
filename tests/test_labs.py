"""Exercises: their shape on every page, stubs, checks, students' notebooks, and grading of hostile
submissions."""

from __future__ import annotations

import ast
import dis
import json
import os
import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import CodeType

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from conftest import digest_of, once, probebook
from probebook.base import ROOT, UserError, read_yaml
from probebook.corpora.stories.facts import Fact
from probebook.models.training.finetune import Head
from probebook_runs.execute import kernel_environment
from probebook_runs.kernels import Limits
from probebook_runs.labs import expect, sandbox, variants
from probebook_runs.labs import grade as grading
from probebook_runs.labs.checker import ACCEPTED
from probebook_runs.labs.exercises import (
    book_edition,
    exercises,
    model_answer,
    shown_solution,
    solution,
    stub,
)
from probebook_runs.labs.grade import by_exercise, grade, graft, minutes
from probebook_runs.labs.hand_ins import collect
from probebook_runs.labs.people import students
from probebook_runs.labs.student import edition, write
from probebook_runs.labs.values import decode, encode
from probebook_runs.pages import Page, find, pages
from probebook_runs.plain import markdown
from probebook_runs.store import plan
from probebook_runs.warm import ForkServer

FORKS = grading._forks
NAMES = [page.name for page in pages()]
LISTS = read_yaml(ROOT / "notebooks" / "variants.yaml")
CELLS = Path(__file__).with_name("cells.py")
PAGE = """---
file_format: mystnb
kernelspec: {display_name: Python 3, language: python, name: python3}
---
# A page

```{code-cell}
from probebook_runs.labs import expect

def check_double(f):
    expect.same_function(f, lambda x: 2 * x, [(1,), (2.5,), (expect.draws().random(),)])
```

```{code-cell}
:tags: [parameters]
n: int = 3  # a number
```

```{admonition} 1 · Predict (easy, 2 minutes)
:class: exercise
How many?
```

```{code-cell}
:tags: [exercise, prediction]
guess = 3  # SOLUTION
```

```{code-cell}
:tags: [check]
expect.prediction(guess, (0, 10))
```

```{admonition} 2 · Double (medium, 5 minutes)
:class: exercise
Write it; see {cite:t}`known2020` and {doc}`/book/notation`.
```

```{dropdown} Hint
Add.
```

```{code-cell}
:tags: [exercise]
def double(x):
    \"\"\"Twice x.\"\"\"
    return x + x  # SOLUTION
```

```{code-cell}
:tags: [check]
check_double(double)
```

```{admonition} 3 · Say why (hard, 10 minutes)
:class: exercise
In words.
```

```{code-cell}
:tags: [exercise, interpretation]
answer = (  # SOLUTION
    "Because twice a number is that number added to itself.")
```

```{code-cell}
:tags: [check]
expect.interpretation(answer, ["number"], words=5)
```
"""


@pytest.fixture
def submissions_are_forks(forks, monkeypatch):
    """Of the tests' own server, without a sandbox."""
    if sandbox.missing():
        monkeypatch.setattr(grading, "_forks", lambda submissions: nullcontext(forks))


@pytest.fixture
def lab(tmp_path, kernels, submissions_are_forks, monkeypatch):
    """A book of one page with three exercises; `lab(answers)` is a student's notebook of it."""
    home = tmp_path / "home"
    (home / "notebooks" / "1_demo").mkdir(parents=True)
    (home / "book").mkdir()
    (home / "_config.yml").write_text('repository: {url: ""}\n')
    (home / "book" / "references.bib").write_text(
        "@article{known2020, author={Known, Ada}, title={T}, year={2020}}"
    )
    (home / "notebooks" / "1_demo" / "01_first.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.setenv("PROBEBOOK_HOME", str(home))

    def submission(answers: dict[int, str], more: dict[int, str] | None = None):
        notebook = nbformat.reads(edition(find("1_demo/01")), as_version=4)
        cells = []
        for cell in notebook.cells:
            found = re.match(r"# exercise (\d) of 1_demo/01_first\n", cell.source)
            number = int(found[1]) if found else 0
            if number in (more or {}):
                cells.append(nbformat.v4.new_code_cell(more[number]))
            if number in answers:
                cell.source = found[0] + answers[number]
            cells.append(cell)
        notebook.cells = cells
        return notebook

    return submission


RIGHT = {
    1: "guess = 4",
    2: "def double(x):\n    return 2 * x",
    3: 'answer = "a number and itself make twice that number"',
}


@pytest.fixture
def own_processes(lab, monkeypatch):
    """Submissions are started as a teacher's are."""
    monkeypatch.setattr(grading, "_forks", FORKS)


def graded(tmp_path, limits=Limits(120, 2 << 30), **submissions) -> pd.DataFrame:  # noqa: B008
    folder = tmp_path / "handed in"
    folder.mkdir()
    for name, notebook in submissions.items():
        text = notebook if isinstance(notebook, str) else nbformat.writes(notebook)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")
    return grade(folder, tmp_path / "grades", "smoke", 2, limits)


# every page


def crossed(cells: list) -> dict[str, set[str]]:
    """Cells that read what an exercise or a check binds, with these names."""
    of_students = set().union(*(_names(cell.source)[0] for cell in cells if _of_exercise(cell)))
    read = {
        cell.source: _names(cell.source)[1] & of_students
        for cell in cells
        if not _of_exercise(cell)
    }
    return {source: names for source, names in read.items() if names}


def needed(cells: list) -> list:
    """The exercises, their checks, and the cells that bind what these read, directly or not."""
    kept, wanted = [], set()
    for cell in reversed(cells):
        bound, read = _names(cell.source)
        if _of_exercise(cell) or bound & wanted:
            kept.append(cell)
            wanted |= read
    return kept[::-1]


def _of_exercise(cell) -> bool:
    return bool({"exercise", "check"} & set(cell.metadata.get("tags", [])))


def _names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds, or into whose items it writes, and those that it reads before it
    binds them. A function reads where it stands."""
    bound, read = set(), set()

    def go_through(code, outermost: bool):
        for step in dis.get_instructions(code):
            if isinstance(step.argval, CodeType):
                go_through(step.argval, False)
            elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in bound:
                read.add(step.argval)
            elif (step.opname == "STORE_NAME" and outermost) or step.opname == "STORE_GLOBAL":
                bound.add(step.argval)

    go_through(compile(source, "cell", "exec"), True)
    written = {
        _root(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return bound | written, read


def _root(node: ast.expr) -> str:
    """`table` of `table.x["y"]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _code(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_hangs_on_an_exercise(name):
    """So a student's page, without solutions, runs to its end, as the page itself (test_pages)."""
    assert crossed(_code(find(name).notebook)) == {}


@pytest.mark.parametrize(
    ("exercise", "cell", "names"),
    [
        ("a = 1", "print(a)", {"a"}),
        ("def a(): pass", "b = [a() for _ in c]", {"a"}),
        ("import a.b as c", "c.d()", {"c"}),
        ("for a in b: pass", "def f():\n    return a", {"a"}),
        ("a, *b = c", "b = a + 1", {"a"}),
        ("a = 1", "a += 1", {"a"}),
        ("with a as b: pass", "f'{b:.2f}'", {"b"}),
        ("a = [b for b in c]", "b.c", set()),
        ("a.b[0].c = 1", "print(a)", {"a"}),
        ("a['b'] += 1", "a['c']", {"a"}),
        ("a = 1", "for a in b:\n    print(a)", set()),
        ("def f(a):\n    b = a", "a + b", set()),
    ],
)
def test_a_cell_that_hangs_on_an_exercise_is_found(exercise, cell, names):
    exercise, cell = map(nbformat.v4.new_code_cell, (exercise, cell))
    for exercise.metadata.tags in (["exercise"], ["check"]):
        assert set().union(*crossed([cell, exercise]).values()) == names
        assert needed([cell, exercise]) == [exercise]


def _student_page(name: str) -> tuple:
    """A page's notebook with what its student's edition holds, and how many exercises that has."""
    text = edition(find(name))
    assert "SOLUTION" not in text
    notebook, present = graft(find(name), nbformat.reads(text, as_version=4))
    assert len(present) == len(exercises(find(name).notebook))
    assert "SOLUTION" not in nbformat.writes(notebook)
    return notebook, len(present)


def _ran(
    name: str, notebook, server: ForkServer, folder: Path, given: dict | None = None
) -> list[tuple[list[str], str]]:
    """Tags and error of each code cell, run as a kernel is: in a fork of a process that has the
    libraries and has computed nothing."""
    path, out = folder / "page.ipynb", folder / "errors.json"
    values = plan(find(name), "smoke", given).changed
    nbformat.write(parameterize_notebook(load_notebook_node(notebook), values), path)
    with kernel_environment(1, "smoke"):
        environment = os.environ | {"MPLBACKEND": "agg"}
    server.fork(
        [sys.executable, "-m", CELLS.stem, str(path), str(out)], environment, str(CELLS.parent)
    ).wait()
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        *((name, "/01_" in name) for name in NAMES),
        *(
            pytest.param(name, True, marks=pytest.mark.verify)
            for name in NAMES
            if "/01_" not in name
        ),
    ],
)
def test_checks_reject_the_stubs(name, whole, forks, tmp_path):
    """On the whole student's page, to its end, of the first page of each chapter; of the others in
    the state that the cells make which they need. The solutions are accepted where the page runs
    (test_pages)."""
    notebook, count = _student_page(name)
    if not whole:
        notebook.cells = needed(_code(notebook))

    def check():
        ran = _ran(name, notebook, forks, tmp_path)
        others = [error for tags, error in ran if not {"exercise", "check"} & set(tags)]
        assert [error for error in others if error] == []
        checked = [error for tags, error in ran if "check" in tags]
        assert [error.split(":")[0] for error in checked] == ["NotDone"] * count

    cells = [cell.source for cell in notebook.cells]
    checks = digest_of(ROOT / "lib/probebook_runs/labs", Path(__file__), CELLS)
    once([plan(find(name), "smoke").id, cells, checks], check)


QUICK = ["3_data_requirements/01_from_bounds_to_n", "6_across_papers/01_sweep_report"]


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.verify) for name in NAMES if name not in QUICK),
    ],
)
@pytest.mark.usefixtures("submissions_are_forks")
def test_grading_a_page_of_the_book(name, tmp_path):
    """A notebook in which nothing is filled in, and one that holds the book's solutions, on inputs
    that nobody has seen before."""
    (tmp_path / "handed in").mkdir()
    [path] = write(tmp_path / "handed in", [find(name)])
    solved, asked = nbformat.read(path, as_version=4), exercises(find(name).notebook)
    answers = [find(name).notebook.cells[exercise.cell].source for exercise in asked]
    for exercise, answer in zip(asked, answers):
        first = f"# exercise {exercise.number} of {name}\n"
        cell = next(cell for cell in solved.cells if cell.source.startswith(first))
        cell.source = first + solution(answer)
    nbformat.write(solved, path.with_name("solved.ipynb"))
    table = grade(tmp_path / "handed in", tmp_path / "grades", "smoke", 1, Limits(600))
    wanted = ["not done"] * len(asked) + [ACCEPTED[exercise.kind] for exercise in asked]
    assert list(table.outcome) == wanted, table.to_string()


def test_the_sample_submission_has_the_outcomes_that_the_book_prints(tmp_path):
    """Graded as a teacher does, in processes of their own."""
    sample, student = ROOT / "book" / "sample_submission.ipynb", tmp_path / "handed in" / "doe-jane"
    student.mkdir(parents=True)
    shutil.copy(sample, student)
    table = grade(tmp_path / "handed in", tmp_path / "grades", "smoke", 1, Limits(600))
    text = (ROOT / "book" / "grading.md").read_text(encoding="utf-8")
    printed = re.findall(r"^\| ([1-4]) \| .+ \| ([a-z ]+).* \| (\d)", text, re.M)
    assert [(int(number), word) for number, word, _ in printed] == [
        *table[["exercise", "outcome"]].itertuples(index=False, name=None)
    ]
    assert list(table.student.unique()) == ["doe-jane"]
    read = pd.read_csv(tmp_path / "grades.csv", keep_default_na=False, dtype=str)
    assert list(read.points) == ["2", "2", "0", ""]  # the last one is for a person to give


# stubs


@pytest.mark.parametrize("name", NAMES)
def test_the_book_has_a_solution_of_every_exercise_and_students_have_none(name):
    """A written answer is a text of thirty words at least; a page may compute something before it,
    as 4/01 does."""
    page = find(name)
    asked = exercises(page.notebook)
    shown = [cell.source for cell in book_edition(page.notebook).cells]
    folds = [source for source in shown if "{dropdown} A solution (try first)\n" in source]
    assert len(folds) == len(asked)
    for exercise, fold in zip(asked, folds):
        solved = shown_solution(exercise.kind, page.notebook.cells[exercise.cell].source)
        assert solved in fold
        assert "SOLUTION" not in fold
        if exercise.kind == "interpretation":
            assert len(solved.rpartition("> ")[2].split()) >= 30
            assert solved.rpartition("> ")[2] not in edition(page)


def test_a_model_answer_is_the_last_text_below_its_code():
    source = 'zeros = [abs(-1)]\nsaid = "One."\nanswer = (\n    "Two "\n    "words.")\nn = 1'
    assert model_answer(source) == (
        "```python\nzeros = [abs(-1)]\nsaid = 'One.'\nn = 1\n```\n\n> Two words."
    )
    with pytest.raises(UserError, match="should assign a text: 'n = 1'"):
        model_answer("n = 1")


def test_marks_become_stubs():
    source = (
        "x = [1,  # SOLUTION\n     2]\ndef f(a):\n    'Text.'\n    # BEGIN SOLUTION\n"
        "    b = a\n    return b\n    # END SOLUTION\nprint(x)"
    )
    solved = "x = [1,\n     2]\ndef f(a):\n    'Text.'\n    b = a\n    return b\nprint(x)"
    assert stub(source) == "x = ...\ndef f(a):\n    'Text.'\n    ...\nprint(x)"
    assert solution(source) == solved
    assert stub("a = b = 1  # SOLUTION") == "a = b = ..."
    assert stub("print(2)  # SOLUTION") == "..."
    assert stub("a = max(\n    1,\n    b,  # SOLUTION\n)") == "a = ..."
    assert stub("x = f(\n    1,  # SOLUTION\n    2,\n)\ny = 3") == "x = ...\ny = 3"


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            "(easy, 2 minutes)",
            "(simple, 2 minutes)",
            "exercise 1: its cell should follow an admonition",
        ),
        (
            ":tags: [check]\ncheck_double",
            ":tags: [other]\ncheck_double",
            "exercise 2: a code cell tagged check",
        ),
        ("guess = 3  # SOLUTION", "guess = 3", "exercise 1: nothing of its cell is marked"),
        (
            ":tags: [exercise, interpretation]",
            ":tags: []",
            "3 exercises are announced, 2 have a cell",
        ),
    ],
)
def test_a_misshapen_exercise_is_named(lab, tmp_path, old, new, message):
    path = tmp_path / "home" / "notebooks" / "1_demo" / "01_first.md"
    path.write_text(PAGE.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)):
        exercises(find("1_demo/01").notebook, "1_demo/01_first")


def test_the_book_folds_the_solution_in_below_stub_and_check(lab):
    """The check's output is left out: above it stands a stub that nobody filled."""
    shown = book_edition(find("1_demo/01").notebook).cells
    starts = [i for i, cell in enumerate(shown) if cell.get("id", "").startswith("stub-")]
    stubs, checks, folds = ([shown[i + k] for i in starts] for k in range(3))
    assert [cell.source.count("...") for cell in stubs] == [1, 1, 1]
    assert all("remove-output" in cell.metadata.tags for cell in checks)
    assert [cell.source for cell in folds] == [
        "````{dropdown} A solution (try first)\n```python\nguess = 3\n```\n````",
        "````{dropdown} A solution (try first)\n```python\ndef double(x):\n"
        '    """Twice x."""\n    return x + x\n```\n````',
        "````{dropdown} A solution (try first)\n"
        "> Because twice a number is that number added to itself.\n````",
    ]
    assert not any("SOLUTION" in cell.source for cell in shown)


# checks


def message_of(check, *given, **named) -> str:
    with pytest.raises(expect.NotRight) as caught:
        check(*given, **named)
    return str(caught.value)


def test_checks_say_what_is_wrong(capsys):
    message = message_of(expect.close, [1.0, 3.0], [1.0, 2.0], "x")
    assert message == "x[1] is 3, and should be 2 (1 of 2 entries are off)"
    assert "shape (2,), not (3,)" in message_of(expect.close, [1, 2], [1, 2, 3], "x")
    assert (
        message_of(expect.close, 0.3, 0.2, "x", why="a sign?")
        == "x is 0.3, and should be 0.2: a sign?"
    )
    assert "made of numbers, not str" in message_of(expect.close, "two", 2, "x")
    same, inverse = _named("sqrt", lambda x: x), _named("f", lambda x: 1 / x)
    assert "sqrt(4) is 4" in message_of(expect.same_function, same, np.sqrt, [(1,), (4,)])
    message = message_of(expect.same_function, inverse, abs, [(0,)], why="a sign?")
    assert message == "f(0) raises ZeroDivisionError: division by zero"
    message = message_of(expect.choice, "b", "a", {"b": "that is the control"})
    assert message == "your answer is 'b': that is the control"
    assert "one of 'a', 'b'" in message_of(expect.choice, "c", "a", {"b": ""})
    assert all(
        "from 0 to 1" in message_of(expect.prediction, found, (0, 1)) for found in (2, True, "a")
    )
    assert "one of 'x', 'y'" in message_of(expect.prediction, "z", ["x", "y"])
    assert "3 words" in message_of(expect.interpretation, "far too short")
    message = message_of(expect.interpretation, "word " * 30, ["ceiling|yardstick"])
    assert "nothing of ceiling or yardstick" in message
    assert capsys.readouterr().out == ""


def test_checks_accept_what_is_right(capsys):
    expect.close(np.float32(0.1), 0.1, "x")
    expect.same_function(np.sqrt, lambda x: x**0.5, [(2.0,)])
    expect.choice("a", "a", {"b": ""})
    expect.prediction(0, (0, 1))
    expect.interpretation("word " * 30)
    assert capsys.readouterr().out.count("✓") == 5


def test_a_reference_solution_checks_a_function(capsys):
    @expect.reference_solution(lambda draw: [(draw.normal(size=3),), (np.ones(2),)], why="squares")
    def check(x: np.ndarray) -> np.ndarray:
        """The squares."""
        return x**2

    def in_place(x):
        x *= x
        return x

    check(in_place)  # a change of the arguments is the student's matter
    assert capsys.readouterr().out == "✓ in_place\n"
    assert check.__doc__ == "The squares."
    assert message_of(check, _named("f", lambda x: 2 * x)).endswith(
        "(3 of 3 entries are off): squares"
    )


def test_entries_of_a_series_come_in_the_checks_order():
    wanted = pd.Series({"a": 1.0, "b": 2.0})
    pd.testing.assert_series_equal(expect.entries(wanted[["b", "a"]], wanted, "x", "name"), wanted)
    assert "a Series indexed by name, not list" in message_of(
        expect.entries, [1], wanted, "x", "name"
    )
    message = message_of(expect.entries, wanted[:1], wanted, "x", "name")
    assert message.startswith("x should have one entry for each name, and no other; its index is a")


@pytest.mark.parametrize("empty", [..., None])
def test_checks_reject_what_is_not_done(empty):
    for check, rest in (
        (expect.close, (1, "x")),
        (expect.choice, ("a", {})),
        (expect.prediction, (["a"],)),
        (expect.interpretation, ()),
    ):
        with pytest.raises(expect.NotDone):
            check(empty, *rest)
    with pytest.raises(expect.NotDone, match="put 20 words or more"):
        expect.interpretation(empty)
    with pytest.raises(expect.NotDone, match="f"):
        expect.same_function(_named("f", lambda x: empty), abs, [(1,)])


def _named(name, f):
    f.__name__ = name
    return f


# students' notebooks


def test_student_notebooks_hold_no_solution(lab):
    text = edition(find("1_demo/01"))
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert "x + x" not in text
    assert "SOLUTION" not in text
    assert "added to itself" not in text
    assert notebook.cells[0].metadata.tags[0] == "install"
    texts = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "**Exercise 2 · Double (medium, 5 minutes)**" in texts
    assert "Known (2020)" in texts
    assert "“notation”" in texts
    assert "<details><summary>Hint</summary>" in texts
    assert "{" not in texts


def test_an_unknown_citation_is_named(lab, tmp_path):
    path = tmp_path / "home" / "notebooks" / "1_demo" / "01_first.md"
    path.write_text(PAGE.replace("known2020", "nobody2020"), encoding="utf-8")
    with pytest.raises(
        UserError, match="'nobody2020' is cited, and book/references.bib has no such entry"
    ):
        edition(find("1_demo/01"))


def test_numbers_links_and_equations_in_plain_markdown():
    source = (
        "$$\na = b\n$$ (eq-one)\n\nBy {eq}`eq-one` {glue:text}`x:+.1f` and {glue:text}`w`, "
        "as {doc}`02_oracle_probes`, {doc}`there <../2_concept_effects/03_explainers>`, "
        "{doc}`/book/audit` and {numref}`fig-one-pair` say."
    )
    assert markdown(source, {"x": 0.25, "w": "few"}, "1_causal_probing/01_agreement") == (
        "$$\na = b\n\\tag{one}\n$$\n\nBy the equation “one” +0.2 and few, as "
        f"[{find('1_causal_probing/02').title}](../1_causal_probing/02_oracle_probes.ipynb), "
        "[there](../2_concept_effects/03_explainers.ipynb), "
        f"[{Page('book/audit').title}](../../book/audit.md) and the figure “one pair” say."
    )


def test_text_becomes_plain_markdown():
    source = (
        ":::{div} claim\nOne {glue:text}`x:.2f`.\n:::\n\n"
        "````{dropdown} Hint\n```python\nx = {}\n```\n````\n"
        "{doc}`a page <b>`, a {term}`probe`, **{term}`oracles <oracle probe>`**\n\n"
        "```{index} single: edit\n```\nText."
    )
    assert markdown(source) == (
        "> One ….\n\n<details><summary>Hint</summary>\n\n```python\nx = {}\n```\n\n</details>\n"
        "a page, a probe, **oracles**\n\n\nText."
    )


def test_lab_student_writes_the_pages_asked_for(tmp_path):
    done = probebook("lab", "student", str(tmp_path / "out"), "1_causal_probing/03")
    path = tmp_path / "out" / "1_causal_probing" / "03_first_interventions.ipynb"
    assert done.stdout.split("\n")[:-1] == [str(path)]
    assert path.exists()
    done = probebook("lab", "student", str(tmp_path / "out"), "9_none")
    assert done.returncode == 2
    assert "no page begins with '9_none'" in done.stderr
    assert done.stderr.count("\n") == 1


# grading


def test_grades_right_wrong_and_empty(lab, tmp_path):
    wrong = {1: "guess = 99", 2: "def double(x):\n    return x", 3: "answer = undefined"}
    table = graded(tmp_path, ada=lab(RIGHT), bob=lab(wrong), cyd=lab({}))
    table = table.set_index(["submission", "exercise"])
    assert list(table.loc["ada"].outcome) == ["predicted", "passed", "to read"]
    assert list(table.loc["ada"].answer) == ["4", "", "a number and itself make twice that number"]
    assert list(table.loc["bob"].outcome) == ["wrong", "wrong", "error"]
    assert table.loc[("bob", 2), "message"] == "double(1) is 1, and should be 2"
    assert "NameError" in table.loc[("bob", 3), "message"]
    assert list(table.loc["cyd"].outcome) == ["not done"] * 3
    kept = pd.read_csv(tmp_path / "grades.csv")
    assert len(kept) == 9
    assert (kept.title == ["Predict", "Double", "Say why"] * 3).all()
    assert "<td>double(1) is 1, and should be 2</td>" in (tmp_path / "grades.html").read_text()


def _changed(notebook, change) -> nbformat.NotebookNode:
    """A notebook whose cells with answers an editor, or a student, has changed."""
    for cell in notebook.cells:
        if cell.source.startswith("# exercise"):
            cell.source = change(cell.source)
    return notebook


def test_solved_exercises_are_graded_as_solved_whatever_the_editor_made_of_them(lab, tmp_path):
    """Cells saved by VS Code on Windows, with a form of Colab, a magic, or blanks at the mark."""
    changes = {
        "crlf": lambda source: source.replace("\n", "\r\n"),
        "title": lambda source: f'#@title My answer {{ display-mode: "form" }}\n{source}',
        "time": lambda source: f"%%time\n{source}",
        "both": lambda source: f"#@title A\n%%capture\n%matplotlib inline\n{source}",
        "blank": lambda source: source.replace("\n", " \n", 1),
        "empty": lambda source: f"\n{source.replace(chr(10), chr(10) * 3, 1)}",
        "unmarked": lambda source: source.partition("\n")[2],  # the cell's own id counts
    }
    submissions = {name: _changed(lab(RIGHT), change) for name, change in changes.items()}
    colab = lab(RIGHT)
    for cell in colab.cells:
        cell.metadata["id"] = cell.pop("id")
    colab.nbformat_minor = 0
    table = graded(tmp_path, **submissions, colab=colab)
    outcomes = table.groupby("submission").outcome.agg(list)
    assert dict(outcomes) == dict.fromkeys(
        [*changes, "colab"], ["predicted", "passed", "to read"]
    ), table.to_string()


def test_a_stub_is_no_answer_and_merged_and_split_cells_are_read(lab, tmp_path):
    """A stub copied below the answer or left above it; an answer in two cells, or two in one."""
    below, above, twice, merged, emptied = (lab(RIGHT) for _ in range(5))
    new = nbformat.v4.new_code_cell
    at = next(i for i, c in enumerate(below.cells) if "exercise 2 of" in c.source)
    answer, stub_cell = below.cells[at].source, lab({}).cells[at].source
    below.cells[at + 1 : at + 1] = [new(stub_cell)]
    above.cells[at].source = stub_cell
    above.cells.append(new(answer))
    helper = "# exercise 2 of 1_demo/01_first\ndef helper(x):\n    return 2 * x"
    twice.cells[at].source = helper
    twice.cells.insert(at + 1, new(answer.replace("2 * x", "helper(x)")))
    last = next(c for c in merged.cells if "exercise 3 of" in c.source)
    last.source = f"{merged.cells.pop(at).source}\n{last.source}"
    emptied.cells[at].source = ""
    table = graded(tmp_path, below=below, above=above, twice=twice, merged=merged, emptied=emptied)
    outcomes = dict(table[table.exercise == 2].set_index("submission").outcome)
    assert outcomes.pop("emptied") == "not done"
    assert set(outcomes.values()) == {"passed"}, outcomes
    assert set(table[table.exercise == 3].outcome) == {"to read"}


def test_of_several_attempts_the_newest_counts_and_the_others_are_named(lab, tmp_path, capsys):
    wrong = lab(RIGHT | {2: "def double(x):\n    return x"})
    table = graded(
        tmp_path,
        **{
            "doejane_LATE_11_21_x": wrong,
            "doejane_LATE_11_22_x-1": lab(RIGHT),
            "mullermax_12_23_x": lab({}),
            ".virtual_documents/x": wrong,
            "__MACOSX/._x": "no notebook",
        },
    )
    assert list(table.student) == ["doejane"] * 3 + ["mullermax"] * 3
    assert list(table.outcome) == ["predicted", "passed", "to read"] + ["not done"] * 3
    said = (
        "notebooks: 2; students: 2\n"
        "doejane, 1_demo/01_first: of 2 attempts the newest counts, doejane_LATE_11_22_x-1; "
        "left out: doejane_LATE_11_21_x\n"
        "left out, hidden: 2 (.virtual_documents/x.ipynb, __MACOSX/._x.ipynb)\n"
    )
    assert said in capsys.readouterr().err
    page = (tmp_path / "grades.html").read_text()
    assert all(line in page for line in said.splitlines())


@pytest.mark.parametrize("out", ["grades", "spring.csv"])
def test_the_command_prints_the_files_that_it_writes(lab, tmp_path, out):
    (tmp_path / "handed in").mkdir()
    nbformat.write(lab(RIGHT), tmp_path / "handed in" / "ada.ipynb")
    done = probebook("lab", "grade", str(tmp_path / "handed in"), "--out", str(tmp_path / out))
    stem = out.removesuffix(".csv")
    names = [f"{stem}.csv", f"{stem}_exercises.csv", f"{stem}.html"]
    assert done.stdout.split("\n")[:-1] == [str(tmp_path / name) for name in names]
    assert all((tmp_path / name).stat().st_size for name in names)
    assert "1/1 ada: 3 of 3" in done.stderr


def test_a_row_for_each_exercise_of_all_submissions(lab, tmp_path):
    slips = {1: "guess = 4", 2: "def double(x):\n    return x"}
    half = lab(RIGHT)
    half.cells = [cell for cell in half.cells if "exercise 3" not in cell.source]
    table = graded(tmp_path, ada=lab(RIGHT), bob=lab(slips), cyd=lab(slips), dee=half)
    summary = by_exercise(table).set_index("exercise")
    assert list(summary["handed in"]) == [4, 4, 3]
    assert list(summary["right, %"]) == [100, 50, 33.3]
    assert summary["wrong answers"][2] == "2 × double(1) is 1, and should be 2"
    assert summary["wrong answers"][1] == ""
    kept = pd.read_csv(tmp_path / "grades_exercises.csv")
    assert list(kept.title) == ["Predict", "Double", "Say why"]


def test_the_table_of_exercises_has_shares_frequent_mistakes_and_minutes(lab):
    """Of six notebooks; one lacks the exercise, and one was not reached."""
    wrong = ["too low"] * 3 + ["too high"] * 2 + ["a text"] + ["none"]
    rows = (
        [("wrong", message, None) for message in wrong]
        + [("error", "too high", 9)]
        + [("passed", "", minutes) for minutes in (2, 4, 6)]
        + [("not reached", "its time limit", None), ("missing", "its cell", None)]
    )
    table = pd.DataFrame(
        [("1_demo/01_first", 2, "Double", *row) for row in rows],
        columns=["page", "exercise", "title", "outcome", "message", "minutes"],
    )
    [row] = by_exercise(table).to_dict("records")
    assert row["handed in"] == 12
    assert row["right, %"] == 25
    assert row["wrong answers"] == "3 × too low; 3 × too high; 1 × a text"
    assert row["minutes"] == 5
    assert row["rubric"] == ""


def test_there_are_rubrics_of_pages_only():
    assert list(read_yaml(ROOT / "book" / "rubrics.yaml")) == NAMES


def test_a_rubric_is_shown_with_the_grades(lab, tmp_path):
    path = tmp_path / "home" / "book" / "rubrics.yaml"
    path.write_text("1_demo/01_first: {full: All of it., partial: Half., wrong: <none>}\n")
    table = graded(tmp_path, ada=lab(RIGHT))
    text = "2 points: All of it.\n1 point: Half.\n0 points: <none>"
    assert dict(zip(table.exercise, by_exercise(table).rubric)) == {1: "", 2: "", 3: text}
    assert text.replace("<none>", "&lt;none&gt;") in (tmp_path / "grades.html").read_text()
    path.write_text("1_demo/01_first: {full: All of it.}\n")
    with pytest.raises(UserError, match="1_demo/01_first should have full, partial, wrong"):
        by_exercise(table)


def test_minutes_are_counted_from_the_cell_before_to_the_check(lab):
    notebook = lab(RIGHT)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert minutes(notebook) == {}
    first = next(i for i, cell in enumerate(cells) if "exercise 1" in cell.source)
    ran = {
        first - 1: "10:00:00",
        first: "10:03:00",
        first + 1: "10:03:30",  # predict
        first + 2: "10:09:00",
        first + 3: "10:09:01",
    }  # double
    for i, time in ran.items():
        cells[i].metadata["execution"] = {"iopub.execute_input": f"2026-01-01T{time}.000000Z"}
    assert minutes(notebook) == {1: 3.5, 2: 5.5}
    for odd in ({"iopub.execute_input": "yesterday"}, {"iopub.execute_input": [1]}, 7):
        cells[first + 4].metadata["execution"] = odd
        assert minutes(notebook) == {1: 3.5, 2: 5.5}
    cells[first + 4].metadata["execution"] = {"iopub.execute_input": "2026-01-01T09:00:00"}
    assert minutes(notebook) == {1: 3.5, 2: 5.5}  # without a time zone


# what a page's one figure depends on, by what differs between students
VARIED = {
    "seed": "100. + 10 * seed",
    "layer": "50. - 7 * layer",
    "corpus": "{'plain': 3., 'odd': 5.}[corpus]",
}


def varied(kind: str) -> str:
    """The page with a table, and an exercise whose answer is a number of it."""
    return (
        PAGE.replace(
            "n: int = 3",
            """seed: int = 0  # of draws
layer: Layer = -1  # that is read
corpus: Literal["plain", "odd"] = "plain"  # that is read
n: int = 3""",
        )
        .replace(
            "from probebook_runs.labs import expect",
            """from typing import Literal
import pandas as pd
from probebook_runs.labs import expect
from probebook_runs import Layer, write_table""",
        )
        .replace(
            "```{admonition} 1",
            f"""```{{code-cell}}
drawn = pd.DataFrame({{"of": ["same", "own"], "sum": [7., {VARIED[kind]}]}})
write_table(drawn, "drawn", ids=["of"])
```

```{{admonition}} 1""",
            1,
        )
        + """
```{admonition} 4 · Read a number (easy, 2 minutes)
:class: exercise
From the table.
```

```{code-cell}
:tags: [exercise]
read = drawn["sum"][1]  # SOLUTION
```

```{code-cell}
:tags: [check]
expect.close(read, drawn["sum"][1], "read")
```
"""
    )


@pytest.mark.parametrize("kind", VARIED)
def test_a_students_own_numbers_pass_and_those_of_another_variant_fail(kind, lab, tmp_path):
    home = tmp_path / "home"
    (home / "notebooks/1_demo/01_first.md").write_text(varied(kind), encoding="utf-8")
    (home / "notebooks/variants.yaml").write_text(
        "1_demo/01_first: {layer: [-1, 3], corpus: [plain, odd]}\n"
    )
    (tmp_path / "class.csv").write_text(
        "Student;seed\nAda Byron;5\nO'Brien, Bob;60\nCyd;7\nDee;8\n", encoding="utf-16"
    )
    out, folder = tmp_path / "labs", tmp_path / "back"
    paths = variants.write(out, [find("1_demo/01")], tmp_path / "class.csv", "pocket")
    folders = ["ada-byron", "o-brien-bob", "cyd", "dee"]
    assert [path.relative_to(out).parts[0] for path in paths] == [*folders, "variants.csv"]
    given = variants.read(out / "variants.csv")
    assert list(given.name) == ["Ada Byron", "O'Brien, Bob", "Cyd", "Dee"]
    assert list(given.parameters)[:2] == [
        {"seed": 5, "layer": -1, "corpus": "plain"},
        {"seed": 60, "layer": 3, "corpus": "odd"},
    ]
    assert list(given.row) == ["of = own"] * 4  # the other figure is everybody's
    ada, bob, _, dee = given.value

    def answering(student: str, own: str, read: str) -> nbformat.NotebookNode:
        notebook = nbformat.read(out / student / "1_demo/01_first.ipynb", as_version=4)
        for cell in notebook.cells:
            cell.source = cell.source.replace("own_figure = ...", f"own_figure = {own}")
            cell.source = cell.source.replace("\nread = ...", f"\nread = {read}")
        return notebook

    text = nbformat.writes(answering("o-brien-bob", "...", "..."))
    assert "seed = 60" in text
    assert '`seed = 60` and `layer = 3` and `corpus = \\"odd\\"`' in text
    assert kind != "seed" or f"{bob:.0f}" not in text
    for name, notebook in {
        "Byron Ada_7_assignsubmission_file_/01": answering("ada-byron", ada * 1.01, ada),
        "o-brien-bob/01": answering("o-brien-bob", bob, bob),
        "cyd_LATE_1_2_copied": answering("cyd", bob, bob),
        "cyd_LATE_1_1_copied": answering("cyd", "...", "..."),
        "Lab_dee_attempt_2026-01-02-03-04-05_code": answering("dee", "drawn['sum'][1]", dee),
        "eve/01": answering("ada-byron", ada, ada),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, folder / f"{name}.ipynb")
    table = grade(folder, tmp_path / "grades", "smoke", 2, Limits(120, 2 << 30), given)
    outcomes = table[table.exercise >= 4].groupby("student").outcome.agg(list)
    assert dict(outcomes) == {
        "ada-byron": ["passed", "passed"],
        "o-brien-bob": ["passed", "passed"],
        "cyd": ["wrong", "wrong"],
        "dee": ["passed", "wrong"],
    }
    own = table[table.title == "Your own run"].set_index("student")
    assert own.message["cyd"].endswith("this one is right for o-brien-bob")
    assert "not code" in own.message["dee"]
    assert table.message[table.student == "eve"].item().startswith("no variant of this page")


@pytest.mark.parametrize("seed", [4, 23])
def test_the_page_on_sample_size_holds_with_the_seeds_of_a_class(seed, forks, tmp_path):
    """The median of few pilots need not grow at each step of their size; over all sizes it does."""
    page = find("3_data_requirements/01")
    ran = _ran(page.name, page.notebook, forks, tmp_path, {"seed": seed})
    assert [error for _, error in ran if error] == []
    assert sum("check" in tags for tags, _ in ran) == len(exercises(page.notebook))


@pytest.mark.parametrize("name", LISTS)
def test_what_differs_between_students_is_possible(name):
    """The first value is the page's own; no value comes twice, and no other is like it."""
    page = find(name)
    assert page.name == name
    for parameter, values in LISTS[name].items():
        assert len(set(map(str, values))) == len(values) > 1
        own = plan(page).values[parameter]
        assert values[0] == own or set(values[0]) < set(own)
    for own in variants.student_parameters(page, dict(zip("abcd", range(4)))).values():
        plan(page, "smoke", own)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (None, "missing"),
        ("", "not done"),
        ("own_figure = ...", "not done"),
        ("own_figure = -2.51", "passed"),
        ("own_figure = 7", "wrong"),
        ("own_figure = True", "wrong"),
        ("own_figure = table.value[0]", "wrong"),
        ("own_figure = (", "wrong"),
        (f"own_figure = {'9' * 400}", "wrong"),
        (f"own_figure = {'(' * 10_000}1{')' * 10_000}", "wrong"),
    ],
    ids=range(10),
)
def test_whatever_stands_in_the_cell_of_ones_own_figure_has_an_outcome(text, outcome):
    cells = [] if text is None else [nbformat.v4.new_code_cell(f"# exercise 4 of a/01\n{text}")]
    answers = pd.DataFrame({"student": ["ada", "bob"], "value": [-2.5, 7.0]})
    submitted = nbformat.v4.new_notebook(cells=cells)
    assert variants.check_own_figure(submitted, 4, "ada", answers)[0] == outcome


def test_a_file_that_is_not_the_list_of_variants_is_refused(tmp_path):
    path = tmp_path / "variants.csv"
    for text, message in (
        ("a,b\n1,2\n", "its columns should be student, name"),
        (",".join(variants.COLUMNS) + "\na,A,,b,smoke,seed 3,t,r,m,1\n", "Expecting"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            variants.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who\nada\n", "a column name"),
        ("name\nada\nada\n", "another student"),
        ("name,seed\nada,1\nbob,1\n", "a seed of their own"),
        ("PK\x03\x04", "is a workbook: save its sheet as CSV"),
        ("", "its columns are none"),
        ("name,mail\nDoe, Jane,j@uni.edu\n", "has more values than the 2 columns"),
        ("name,seed\nada,1\nbob,01\n", "a seed of their own"),
        ("name,seed\nada,x\n", "a seed of their own"),
        ("name\n", "a seed of their own"),
    ],
)
def test_a_list_of_students_that_is_none_is_refused(tmp_path, text, message):
    (tmp_path / "class.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        students(tmp_path / "class.csv")


def test_an_answer_that_does_not_run_is_an_error_of_its_own(lab, tmp_path):
    """The message is the answer's own error, unless the check has something to say about it."""
    slip = {2: "def double(x):\n    return 2 x"}
    loud = {2: "def double(x):\n    return x\ndouble(None + 1)"}
    table = graded(tmp_path, slip=lab(slip), loud=lab(loud)).set_index(["submission", "exercise"])
    assert table.outcome["slip", 2] == "error"
    assert table.message["slip", 2].startswith("SyntaxError")
    assert table.outcome["loud", 2] == "wrong"
    assert table.message["loud", 2] == "double(1) is 1, and should be 2"


def test_a_students_own_cells_run_and_the_pages_cells_are_the_pages(lab, tmp_path):
    own = lab(
        RIGHT | {2: "def double(x):\n    return helper(x)"},
        more={2: "def helper(x):\n    return 2 * x"},
    )
    bent = lab({2: "def double(x):\n    return 0"})
    for cell in bent.cells:
        if cell.source == "check_double(double)":
            cell.source = "pass"
        cell.source = re.sub(r"expect\.same_function\(.*\)", "pass", cell.source)
    cut = lab(RIGHT)
    cut.cells = [cell for cell in cut.cells if "exercise 2" not in cell.source]
    stripped = lab(RIGHT)  # as an editor that keeps neither ids nor metadata
    stripped.metadata = {}
    stripped.cells = [
        nbformat.v4.new_code_cell(c.source) for c in stripped.cells if c.cell_type == "code"
    ]
    table = graded(tmp_path, own=own, bent=bent, cut=cut, stripped=stripped)
    table = table.set_index(["submission", "exercise"])
    assert table.outcome["own", 2] == "passed"
    assert table.outcome["bent", 2] == "wrong"
    assert table.outcome["cut", 2] == "missing"
    assert table.outcome["cut", 3] == "to read"
    assert list(table.loc["stripped"].outcome) == ["predicted", "passed", "to read"]


STUB = "def double(x):\n    ...\n"
TRUE = "lambda *given, **named: True"
# what a submission may do to be passed with nothing done: code of exercise 2
ATTACKS = {
    "check": f"{STUB}check_double = print",
    "checks": f"{STUB}from probebook_runs.labs import expect\nexpect.same_function = {TRUE}",
    "module": f"{STUB}import sys, types\nfrom probebook_chapters import checks\n"
    f"fake = types.SimpleNamespace(same_function={TRUE}, prediction={TRUE}, "
    f"interpretation={TRUE})\nexpect = checks.expect = fake\n"
    "sys.modules['probebook_runs.labs.expect'] = fake",
    "compare": f"{STUB}from probebook_runs.labs import expect\nexpect._compare = {TRUE}",
    "numpy": "def double(x):\n    return 0\nimport numpy as np\n"
    f"np.isclose = np.allclose = np.testing.assert_allclose = {TRUE}\n"
    "class All(np.ndarray):\n    __invert__ = lambda self: np.array(False)\n"
    "np.isclose = lambda *given, **named: np.array(0.).view(All)",
    "errors": f"{STUB}get_ipython().set_custom_exc((BaseException,), {TRUE})",
    "kernel": f"{STUB}from IPython.core.interactiveshell import InteractiveShell\n"
    f"InteractiveShell.showtraceback = InteractiveShell._showtraceback = {TRUE}",
    "class": f"{STUB}from probebook_runs.labs import expect\n"
    "class Quiet(BaseException): pass\n"
    "def silent(*given, **named): return given[0]\n"
    "expect.given = silent\nexpect.numbers = lambda *given: __import__('numpy').zeros(1)",
    "equal": "class Equal:\n    __eq__ = __le__ = __ge__ = lambda self, other: True\n"
    "    __hash__ = lambda self: 0\n    __array__ = lambda self, *_, **__: All()\n"
    "import numpy as np\nclass All(np.ndarray):\n"
    "    __new__ = lambda of: np.zeros(()).view(of)\n"
    "    __array_ufunc__ = lambda self, *_, **__: np.array(True)\n"
    "    __array_function__ = lambda self, *_, **__: np.array(True)\n"
    "def double(x):\n    return Equal()",
    "number": "class Number(float):\n    __eq__ = __sub__ = __rsub__ = lambda self, other: True\n"
    "    __hash__ = lambda self: 0\ndef double(x):\n    return Number(0)",
    "pickle": "import os\nclass Command:\n    def __reduce__(self):\n"
    "        return os.system, ('touch forged',)\ndef double(x):\n    return Command()",
    "caller": "import inspect\ndef double(x):\n    for frame in inspect.stack():\n"
    "        if 'wanted' in frame.frame.f_locals:\n"
    "            return frame.frame.f_locals['wanted'](x)",
    "learnt": "def double(x):\n    return {1: 2, 2.5: 5.}.get(x, 1.)",
    "seeded": "import numpy as np\nseen = {1: 2, 2.5: 5.}\n"
    "x = np.random.default_rng(0).random()\nseen[x] = 2 * x\n"
    "def double(x):\n    return seen.get(x, 1.)",
    "file": f"{STUB}import json, os\nfor number in 1, 2, 3:\n"
    "    line = {'check': number, 'raised': '', 'values': {},\n"
    "            'results': [{'gives': 0}] * 9}\n"
    "    open('given.jsonl', 'a').write(json.dumps(line) + chr(10))\nos._exit(0)",
    "nonsense": f"{STUB}import os\nlines = ['[' * 10**6, '{{\"check\": 2}}', '3', chr(0), "
    '\'{"check": 2, "raised": "", "values": {}, "results": [7, {}]}\']\n'
    "open('given.jsonl', 'a').write(chr(10).join(lines))\nos._exit(0)",
    "link": f"{STUB}import os\nos.path.exists('given.jsonl') and os.remove('given.jsonl')\n"
    "os.symlink('/dev/zero', 'given.jsonl')\nos._exit(0)",
    "notebook": f"""{STUB}import nbformat, os
if os.path.exists('submission.ipynb'):
    done = nbformat.read('submission.ipynb', 4)
    for cell in done.cells:
        cell['execution_count'] = 1
    nbformat.write(done, 'done.ipynb')
os._exit(0)""",
}


@pytest.mark.usefixtures("own_processes")
def test_no_attack_is_passed(lab, tmp_path):
    """Nothing is done in these, and the verdict is not formed where they run."""
    table = graded(tmp_path, **{name: lab({2: code}) for name, code in ATTACKS.items()})
    outcomes = table[table.exercise == 2].set_index("submission").outcome
    assert set(outcomes) <= {"wrong", "error", "not done", "not reached"}, dict(outcomes)
    assert not list(tmp_path.rglob("forged"))
    others = table[table.exercise != 2]
    assert set(others.outcome) <= {"not done", "not reached", "error"}, others.to_string()


def test_answers_of_odd_classes_are_read_as_plain_ones(lab, tmp_path):
    code = {
        1: "class Possible(int):\n    __le__ = __ge__ = lambda self, other: True\n"
        "guess = Possible(99)",
        3: "class Long(str):\n    def split(self, *_):\n        return ['word'] * 99\n"
        "    def lower(self):\n        return self\n"
        "    __contains__ = lambda self, other: True\nanswer = Long('no')",
    }
    table = graded(tmp_path, eve=lab(code)).set_index("exercise")
    assert table.message[1] == "prediction is 99: it should be a number from 0 to 10"
    assert table.message[3].startswith("your answer has 1 words")


def test_what_a_check_hands_over_arrives_as_it_was():
    """Records too, with their methods; from a submission they are tuples, whatever they say."""
    fact = Fact("gave", 1, {"who": "Tom", "what": "the ring"})
    [row] = pd.DataFrame({"n": [3], "facts": [[fact]]}).itertuples()
    head = Head(*torch.randn(4, 1, 1, dtype=torch.float64).unbind())
    sent = json.loads(json.dumps([*map(encode, (fact, row, head, np.float32([1.5, 2])))]))
    came, of_row, of_head, floats = decode(sent, records=True)
    assert came == fact and type(came) is Fact and of_row == row and of_row.facts[0] == fact
    state = torch.ones(1, 1, dtype=torch.float64)
    assert torch.equal(of_head(state), head(state)) and floats.dtype == np.float32
    assert decode(sent[0]) == tuple(fact) and type(decode(sent[0])) is tuple
    assert type(decode(sent[2])) is tuple
    with pytest.raises(ValueError, match="no array of 'object0'"):
        decode({"is": "array", "dtype": "object0", "shape": [0], "of": []}, records=True)


def test_files_that_are_no_submissions(lab, tmp_path):
    cell = nbformat.v4.new_code_cell("# exercise 1 of ../../etc/passwd\nx")
    foreign = nbformat.v4.new_notebook(cells=[cell])
    table = graded(tmp_path, broken="{not json", foreign=foreign, empty=nbformat.v4.new_notebook())
    assert list(table.outcome) == ["error"] * 3
    assert table.message.str.contains("no page of this book").sum() == 2
    with pytest.raises(UserError, match="no notebooks"):
        collect(tmp_path / "nowhere")


def test_names_of_files_are_anything(lab, tmp_path):
    names = ["Zoë Ångström/名前 (1)", "a/b/c/renamed copy", "- =1+1"]
    table = graded(tmp_path, **{name: lab({1: f"guess = {i}"}) for i, name in enumerate(names)})
    found = table[table.exercise == 1].set_index("submission")
    assert dict(found.answer) == dict(zip(names, "012"))
    assert (found.outcome == "predicted").all()


def test_hostile_text_stays_text(lab, tmp_path):
    answer = '=HYPERLINK("x") <script>alert(1)</script> this is a number and it is long enough'
    unpaired = "answer = 'number ' * 30 + chr(0xd800) + chr(0)"
    table = graded(tmp_path, eve=lab({3: f"answer = {answer!r}"}), sam=lab({3: unpaired}))
    assert list(table.outcome[table.exercise == 3]) == ["to read", "error"]
    assert "<script>" not in (tmp_path / "grades.html").read_text()
    assert pd.read_csv(tmp_path / "grades.csv").answer.dropna().tolist() == ["'" + answer]


def test_limits_end_a_submission_and_keep_what_it_reached(lab, tmp_path):
    hangs = lab(RIGHT | {2: "import time\nwhile True:\n    time.sleep(1)"})
    eats = lab(RIGHT | {2: "x = bytearray(3_000_000_000)\nimport time\ntime.sleep(60)"})
    table = graded(tmp_path, Limits(12, 1_500_000_000), hangs=hangs, eats=eats)
    table = table.set_index(["submission", "exercise"])
    assert table.outcome["hangs", 1] == table.outcome["eats", 1] == "predicted"
    assert table.outcome["hangs", 2] == "not reached"
    assert "12 s, its time limit" in table.message["hangs", 2]
    assert table.outcome["eats", 3] == "not reached"
    assert "of memory, its limit is 1.50 GB" in table.message["eats", 3]


@pytest.mark.usefixtures("own_processes")
def test_a_submission_has_no_keys_and_its_own_folder(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-not-to-be-seen")
    code = (
        "import os\nfrom pathlib import Path\nassert 'SOME_API_KEY' not in os.environ\n"
        "assert Path.home() == Path.cwd()\n"
    )
    table = graded(tmp_path, ada=lab(RIGHT | {1: f"{code}guess = 1"})).set_index("exercise")
    assert list(table.outcome) == ["predicted", "passed", "to read"]


@pytest.mark.skipif(
    bool(sandbox.missing()), reason="bubblewrap is not there, or does not work here"
)
def test_a_submission_in_bubblewrap_sees_no_others_and_no_network(lab, tmp_path):
    folder = tmp_path / "handed in"
    probes = {
        "others": f"import os\nguess = len(os.listdir({str(folder)!r}))",
        "writes": "from pathlib import Path\ntry:\n"
        f"    Path({str(ROOT)!r}, 'written').write_text('x')\n"
        "    guess = 9\nexcept OSError:\n    guess = 0",
        "network": "import socket\ntry:\n"
        "    socket.create_connection(('192.0.2.1', 80), 2)\n    guess = 9\n"
        "except OSError as e:\n    guess = 0 if e.errno in (101, 113) else 8",
        "processes": "import psutil\nguess = 0 if len(psutil.pids()) < 8 else 9",
    }
    table = graded(tmp_path, **{name: lab({1: code}) for name, code in probes.items()})
    answers = table[table.exercise == 1].set_index("submission").answer
    assert dict(answers) == dict.fromkeys(probes, "0")
    assert not (ROOT / "written").exists()


@pytest.mark.usefixtures("own_processes")
def test_without_bubblewrap_it_is_said(lab, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    sandbox.missing.cache_clear()
    try:
        graded(tmp_path, ada=lab(RIGHT))
        warning = "bubblewrap is not installed: submissions run with your rights"
        assert warning in capsys.readouterr().err
    finally:
        sandbox.missing.cache_clear()
