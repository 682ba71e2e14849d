"""A form that says how many items a comparison needs; it works in a built page, without a kernel.

HTML(calculator(script, template, {"acc_a": .8, "acc_b": .75, "dim": 768}))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jinja2 import Environment

FIELDS = ("acc_a", "acc_b", "dim", "items", "differ")  # of an example, in this order
SHARES = ("acc_a", "acc_b", "differ")  # these are typed in percent


def calculator(
    script: str,
    template: str,
    values: Mapping[str, float],
    examples: Mapping[str, Sequence[float]] | None = None,
    forms: Sequence[str] = ("accuracies",),
    answers: Sequence[str] | None = None,
) -> str:
    """HTML of one form or two, filled in and answered as soon as the page opens.

    Args:
        script: Text of `arithmetic.js` with `sample_size.js`, both of `book/_static/`.
        template: Text of `sample_size.html`, of the same folder.
        values: What the fields hold at first: acc_a, acc_b, dim, items, differ; shares, which the
            form shows in percent.
        examples: Name → values in the order of `FIELDS`; they can be chosen from a list.
        forms: "accuracies" asks for numbers, "files" for two files of predictions.
        answers: The lines of the answer in their order, keys of the template's `lines`; None: all.
    """
    options = {
        name: " ".join(map(_field_value, FIELDS, example)) + " " * (len(FIELDS) - len(example))
        for name, example in (examples or {}).items()
    }
    page = Environment(autoescape=True, keep_trailing_newline=True).from_string(template)
    filled = {name: _field_value(name, value) for name, value in values.items()}
    return page.render(script=script, values=filled, examples=options, forms=forms, answers=answers)


def _field_value(name: str, value: float) -> str:
    return f"{100 * value:.10g}" if name in SHARES else f"{value}"
