"""An assertion on a page that fails says what it compared and by how much it differs."""

import ast

import numpy as np
import pandas as pd
import pytest
import torch

from probebook_runs.assertions import Measured, explain_comparison, explain_test
from probebook_runs.pages import Page, pages


def failure(source: str, **names: object) -> str:
    """The message with which a page's line fails."""
    tree = Measured().visit(ast.parse(source))
    with pytest.raises(AssertionError) as error:
        exec(
            compile(tree, "cell", "exec"),
            names | {"_explain_comparison": explain_comparison, "_explain_test": explain_test},
        )
    return str(error.value)


@pytest.mark.parametrize(
    "source, message",
    [
        ("assert a < .5, 'too large'", "too large: 0.75 < 0.5 does not hold"),
        ("assert a < .5", "it: 0.75 < 0.5 does not hold"),
        ("assert 0 < a <= .5, 'no share'", "no share: 0.75 <= 0.5 does not hold"),
        ("assert a > 0 and a == 1, 'no'", "no: 0.75 == 1 does not hold"),
        ("assert (x < 2).all(), 'rows'", "rows: 2 < 2 does not hold, nor do 1 others of 4"),
        ("assert (x.to_frame() >= [1]).all().all(), 'frame'", "frame: 0 >= 1 does not hold"),
        ("assert names == ['b'], 'leaders'", "leaders: ['a'] == ['b'] does not hold"),
        ("assert names == ['a', 'b'], 'leaders'", "leaders: ['a'] == ['a', 'b'] does not hold"),
        ("assert {1} <= {2}, 'sets'", "sets: {1} <= {2} does not hold"),
        (
            "assert t.equal(t + 1), 'same'",
            "same: t.equal(t + 1) is false of tensor([1, 2, 3, 4, 5])",
        ),
        ("assert not x.any(), 'none'", "none: not x.any() is false of"),
        ("assert flag, 'flag'", "flag: flag is false"),
    ],
)
def test_the_message_ends_with_the_values(source, message):
    assert failure(
        source, a=0.75, x=pd.Series([0, 1, 2, 3]), t=torch.arange(5), names=["a"], flag=False
    ).startswith(message)


def test_what_holds_is_computed_once():
    calls = []
    tree = Measured().visit(ast.parse("assert f() < 2 and f() == 1, g()"))
    exec(compile(tree, "cell", "exec"), {"f": lambda: calls.append(1) or 1, "g": calls.clear})
    assert calls == [1, 1]


def test_numbers_that_are_not_comparable_are_shown_all_the_same():
    assert explain_comparison("shapes", ["=="], np.zeros(2), np.ones(3)).startswith("shapes")


@pytest.mark.parametrize("name", [page.name for page in pages()])
def test_every_assertion_of_a_page_says_what_it_compares(name):
    for cell in Page(name).notebook.cells:
        for node in ast.walk(ast.parse(cell.source if cell.cell_type == "code" else "")):
            assert not isinstance(node, ast.Assert) or node.msg, ast.unparse(node)
