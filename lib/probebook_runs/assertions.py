"""What an assertion on a page compared: its message ends with the values that did not agree."""

from __future__ import annotations

import ast
import operator
import reprlib
from collections.abc import Callable
from typing import TypeGuard

SIGNS: dict[type[ast.cmpop], tuple[str, Callable]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
HOLDS = dict(SIGNS.values())


class Measured(ast.NodeTransformer):
    """`assert a < b, "why"` and `assert (a < b).all(), "why"` fail with "why: .93 < .91 does not
    hold", and `assert f(x), "why"` with "why: f(x) is false of …".

    The values are computed again, only after a failure. A page has `explain_comparison` and
    `explain_test` among its names, after an underscore.
    """

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        tests, why = node.test.values if is_and(node.test) else [node.test], node.msg
        told = [ast.Assert(test, _message(test, why or ast.Constant("it"))) for test in tests]
        return [ast.fix_missing_locations(ast.copy_location(one, node)) for one in told]


def is_and(test: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _message(test: ast.expr, why: ast.expr) -> ast.expr:
    """The call that says by how much a test failed."""
    inner = all_of(test)
    if isinstance(inner, ast.Compare) and {type(op) for op in inner.ops} <= {*SIGNS}:
        signs: list[ast.expr] = [ast.Constant(SIGNS[type(op)][0]) for op in inner.ops]
        values = inner.left, *inner.comparators
        return _call("_explain_comparison", why, ast.List(signs, ast.Load()), *values)
    negated = inner.operand if isinstance(inner, ast.UnaryOp) else inner
    operands = []
    if isinstance(negated, ast.Call) and isinstance(negated.func, ast.Attribute):
        operands = [arg for arg in negated.args if not isinstance(arg, ast.Starred)]
        operands = operands or [negated.func.value]
    return _call("_explain_test", why, ast.Constant(ast.unparse(test)), *operands)


def _call(name: str, *values: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [*values], [])


def all_of(test: ast.expr) -> ast.expr:
    """The comparison in `(a < b).all()`; any other expression itself."""
    match test:
        case ast.Call(ast.Attribute(value, "all")):
            return all_of(value)
    return test


def explain_comparison(why: str, signs: list[str], *values: object) -> str:
    """One line: why a comparison should hold, and the first values for which it does not."""
    for sign, left, right in zip(signs, values, values[1:]):
        if wrong := _first_wrong(sign, left, right):
            return f"{why}: {wrong}"
    return why


def explain_test(why: str, source: str, *operands: object) -> str:
    """One line: why a test should hold, what was tested, and of what."""
    of = f" of {', '.join(map(_short, operands))}" if operands else ""
    return f"{why}: {source} is false{of}"


def _first_wrong(sign: str, left: object, right: object) -> str:
    """ "a < b does not hold", for the first elements where it does not; "" where it does."""
    import numpy as np

    whole = f"{_short(left)} {sign} {_short(right)} does not hold"
    if not (hasattr(left, "shape") or hasattr(right, "shape")):
        return "" if HOLDS[sign](left, right) else whole
    try:
        a, b = np.broadcast_arrays(np.asarray(left), np.asarray(right))
        wrong = ~np.asarray(HOLDS[sign](a, b), dtype=bool)
    except (TypeError, ValueError):  # of shapes or types that do not go together
        return whole
    if not wrong.any():
        return ""
    others = f", nor do {wrong.sum() - 1:,} others of {wrong.size:,}" if wrong.sum() > 1 else ""
    return f"{_short(a[wrong][0])} {sign} {_short(b[wrong][0])} does not hold{others}"


def _short(value: object) -> str:
    """A number to four digits, anything else in at most a few words."""
    try:
        return f"{value:.4g}"
    except (TypeError, ValueError):
        return reprlib.repr(value)
