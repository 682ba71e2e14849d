"""`probebook check`: each rule finds what breaks it, and nothing on a page that keeps all."""

from __future__ import annotations

import re

import pytest

from conftest import probebook
from probebook_book import check
from probebook_book.findings import Evidence, verdicts
from probebook_runs.pages import find

QUESTION = """**{}.** Which?

```{{dropdown}} a · This.
Right: it is.
```

```{{dropdown}} b · That.
Not quite: it is not.
```

```{{dropdown}} c · None.
Not quite: it is not.
```
"""
EXERCISE = """```{{admonition}} {number} · {kind} (easy, 2 minutes)
:class: exercise
How?
```

```{{dropdown}} Hint
So.
```

```{{code-cell}}
:tags: [{tags}]
answer_{number} = 3  # SOLUTION
```

```{{code-cell}}
:tags: [check]
print(answer_{number})
```
"""
FIRST, SECOND, THIRD = (
    EXERCISE.format(number=number, kind=kind, tags=f"exercise, {kind}")
    for number, kind in enumerate(("prediction", "code", "interpretation"), 1)
)
PAGE = f"""---
file_format: mystnb
kernelspec: {{display_name: Python 3, language: python, name: python3}}
---

# Does it work?

:::{{div}} needs
You need: nothing.
:::

:::{{div}} claim
It works. Evidence: **generated text**.
:::

{FIRST}
```{{code-cell}}
---
mystnb:
  figure:
    caption: It works.
---
x = 1
glue("x", 1)
```

```{{code-cell}}
:tags: [remove-cell]
in_text(y=1)
```

Words before the exercises.

## What we learned

It works.

## Check yourself

{QUESTION.format(1)}
{QUESTION.format(2)}
## Exercises

{SECOND}
{THIRD}"""
CODE, HIDDEN = "x = 1\n", "in_text(y=1)"
NUMBER = "{glue:text}`x`"
BROKEN = [  # what stands in place of what, and the fault
    ("# Does it work?", "# It works", ":cell 1: its title is no question: 'It works'"),
    ("## What we learned", "## Summary", ": its last sections should be What we learned, "),
    ("{div} needs", "{div} others", ": it has no box with what to have read"),
    ("Words", f"Words {NUMBER * 4}", ":cell 6: 4 numbers in 'Words "),
    ("Words", f"{NUMBER * 3} w\n\n" * 5 + NUMBER, ": 16 numbers in its text, at most 15"),
    ("{div} claim", "{div} box", ": it should have one claim box"),
    ("It works. Evidence", "word " * 60 + "Evidence", ":cell 1: 63 words in its claim box"),
    ("It works. E", f"{NUMBER} {NUMBER} {NUMBER} E", ":cell 1: 3 numbers in its claim box"),
    ("**generated text**", "**text**", ":cell 1: its claim box names no kind of evidence"),
    ("Words", "word " * 1500, " words before its exercises, at most 1500"),
    (QUESTION.format(2), "", ": 1 questions in Check yourself, not 2"),
    ("Right:", "Not quite:", ": question 1: 0 of its answers are right"),
    ("Not quite: it", "It", ": question 1: it needs 3 answers that open Right: or Not quite:"),
    ("3  # SOLUTION", "3", ", exercise 1: nothing of its cell is marked as solution"),
    (SECOND, "", ", exercise 2: its cell should follow an admonition"),
    (SECOND + "\n" + THIRD, SECOND, ": no exercise asks for interpretation"),
    ("exercise, code", "exercise, prediction", ": no exercise asks for code"),
    ("{dropdown} Hint", "{dropdown} Advice", ": each exercise needs a fold with a hint"),
    ("Words", "```{dropdown} Solution\n3\n```\n\nWords", ": it shows a solution"),
    ("mystnb:\n  figure:\n    caption: It works.", "tags: []", ":cell 2: its prediction"),
    (CODE, "x = 1\n" * 41, ":cell 4: 42 lines in 'x = 1', at most 40"),
    (CODE, f'x = "{"a" * 80}"\n', ":cell 4: a line of 86 characters: 'x = "),
    (CODE, "x = '1'\n", ":cell 4: its code is not laid out: probebook check --fix"),
    (CODE, 't = x.groupby("a").b.idxmax()\n', ":cell 4: it picks a group's leader by its label"),
    ('glue("x", 1)', 'glue("x", 1 if x else 2)', ":cell 4: words of the text are chosen"),
    (HIDDEN, "\n".join([HIDDEN] * 11), ":cell 5: 11 lines in a hidden cell, at most 10"),
    (HIDDEN, "assert True", ":cell 5: a hidden cell asserts"),
    (HIDDEN, "in_text(y=x.mean())", ":cell 5: a hidden cell calls mean"),
]


@pytest.fixture
def page(tmp_path, monkeypatch):
    """`page(old, new)` is the page of a small book, with `new` in place of the first `old`."""
    monkeypatch.setenv("PROBEBOOK_HOME", str(tmp_path))
    path = tmp_path / "notebooks" / "1_demo" / "01_first.md"
    path.parent.mkdir(parents=True)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "rubrics.yaml").write_text(
        "1_demo/01_first: {full: All., partial: Half., wrong: None.}\n"
    )

    def written(old: str = "", new: str = ""):
        assert old in PAGE
        path.write_text(PAGE.replace(old, new, 1), encoding="utf-8")
        return find("1_demo/01")

    return written


def test_a_page_that_keeps_all_rules_has_no_fault(page):
    assert check.check([page()]) == []


@pytest.mark.parametrize("old, new, fault", BROKEN, ids=[fault for *_, fault in BROKEN])
def test_each_rule_finds_what_breaks_it(page, old, new, fault):
    lines = check.check([page(old, new)])
    assert sum(fault in line for line in lines) == 1, lines


def test_visible_code_needs_no_name_of_a_hidden_cell(page):
    assert check.check([page(HIDDEN, "answer_0 = 1")]) == []
    [line] = check.check([page(f"{HIDDEN}\n```", "z = 1\n```\n\n```{code-cell}\nprint(z)\n```")])
    assert line == "1_demo/01_first:cell 5: visible code needs z of a hidden cell"


def test_code_is_laid_out_and_the_rest_stays(page):
    before = page(CODE, "x = {'a':1,\n  'b': 2}\n%time x\n")
    assert check.check([before]) == []  # a cell with a line of IPython stays as it is
    operator = f"x = (\n    {'a' * 40}\n    != {'b' * 40}\n)\n"
    assert check.check([page(CODE, operator)]) == []
    before = page(CODE, "x = {'a':1,\n  'b': 2}\n")
    assert check.check([before], fix=True) == []
    assert before.path.read_text() == PAGE.replace(CODE, 'x = {"a": 1, "b": 2}\n', 1)
    broken = page(CODE, "x = = 1\n")
    [line] = check.check([broken], fix=True)
    assert line == "1_demo/01_first:cell 4: its code cannot be parsed: 'x = = 1'"
    assert broken.path.read_text() == broken.source


def test_the_command_prints_all_faults(page, tmp_path):
    path = page("# Does it work?", "# It works\n\n{glue:text}`x`, `4`").path
    path.write_text(path.read_text().replace("**generated text**", "**text**"))
    done = probebook("check", str(path.relative_to(tmp_path)))
    assert done.returncode == 1
    assert re.findall(r"^1_demo/01_first:cell 1: its (title|claim)", done.stdout, re.M) == [
        "claim",
        "title",
    ]
    page()
    assert probebook("check", "1_demo").returncode == 0


def test_without_ruff_it_says_so_in_one_line(page, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(check.UserError, match="^ruff, .* is not installed: pip install ruff$"):
        check.check([page()])


@pytest.mark.parametrize(
    "text, fault",
    [
        ("It is {a} to {b}.", ""),
        ("It is 5 %.", "a number is typed"),
        ("it is so.", "no sentence"),
        ("It is {a}, {b}, {c} and {d}.", "4 numbers, at most 3"),
        ("The mlp is right.", "names of columns: mlp"),
    ],
)
def test_evidence_is_told_in_sentences_with_few_numbers(text, fault):
    line = Evidence(page="1_demo/01_first", kind="real text", text=text, effects=[])
    faults = [*check.evidence_faults(line)]
    assert len(faults) == bool(fault)
    assert not fault or fault in faults[0]


def test_rules_of_papers_find_what_breaks_them():
    paper = verdicts()[0]
    claim = next(one for paper in verdicts() for one in paper.claims if len(one.evidence) > 1)
    assert [*check.claim_faults(claim)] == []
    turned = claim.model_copy(update={"evidence": claim.evidence[::-1]})
    assert [*check.claim_faults(turned)] == [
        "its evidence should come in the order printed or released numbers, real text, "
        "generated text"
    ]
    opener = (
        "\n## Published beside ours\npublished( figures.versus_published( "
        f"{{doc}}`../notebooks/{paper.chapter}/01`\n\n## What to read\n"
        "- **To understand**: {doc}`a`\n- **To check the paper**: {doc}`b`\n- **To use it**: {doc}`c`"
    )
    assert [*check.opener_faults(paper, opener)] == []
    for old, new, fault in (
        ("published(", "", "Published beside ours lacks published("),
        ("To use it", "Else", "should have the items To understand"),
        ("{doc}`b`", "b", "links to no page under To check the paper"),
        ("\n## P", f":::{{div}} claim\n{'w ' * 61}\n:::\n\n## P", "61 words in its claim box"),
    ):
        [line] = check.opener_faults(paper, opener.replace(old, new, 1))
        assert fault in line
