"""A form that says how many items a comparison needs; it works in a built page, without a kernel.

    HTML(calculator(script, look, {"acc_a": .8, "acc_b": .75, "dim": 768}))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

ANSWERS = {
    "verdict": "Verdict",
    "cared": "Training items, for a difference of 2 points",
    "train": "Training items, for the pilot’s difference [95 %]",
    "test": "Test items, for the pilot’s difference",
    "paper": "Training items, by the paper’s bound",
    "correct": "Training items, by the bound, all probes counted",
    "items": "Items in the pilot",
    "delta": "Accuracy of A minus accuracy of B, points [95 %]",
    "only": "Items that only A, only B gets right, %",
    "power": "Power of McNemar’s test on the pilot, %",
}
TITLES = {"accuracies": "Two accuracies", "files": "Two files"}
FIELDS = ("acc_a", "acc_b", "dim", "items", "differ")  # of an example, in this order
SHARES = ("acc_a", "acc_b", "differ")  # these are typed in percent
WHOLE = 'type="number" step="1" min="1"'
PERCENT = 'type="number" step="any" min="0" max="100"'
FILE = 'type="file" accept=".csv,text/csv"'


def calculator(
    script: str,
    look: str,
    values: Mapping[str, float],
    examples: Mapping[str, Sequence[float]] | None = None,
    forms: Sequence[str] = ("accuracies",),
    answers: Sequence[str] = tuple(ANSWERS),
) -> str:
    """HTML of one form or two, filled in and answered as soon as the page opens.

    - `script`, `look`: texts of `arithmetic.js` with `sample_size.js`, and of `sample_size.html`,
      all of `book/_static/`
    - `values`: what the fields hold at first: acc_a, acc_b, dim, items, differ; shares, which the
      form shows in percent
    - `examples`: name → values in the order of `FIELDS`; they can be chosen from a list
    - `forms`: "accuracies" asks for numbers, "files" for two files of predictions
    - `answers`: the lines of the answer, keys of `ANSWERS` in their order"""
    width = _field(
        "Width of the states", "dim", "a whole number, at least 1", f"{WHOLE} required", values
    )
    inside = {
        "accuracies": _list_of(examples or {})
        + _field(
            "Accuracy of A, %",
            "acc_a",
            "a number between 0 and 100, such as 71",
            f"{PERCENT} required",
            values,
        )
        + _field(
            "Accuracy of B, %",
            "acc_b",
            "a number between 0 and 100, such as 68",
            f"{PERCENT} required",
            values,
        )
        + _field(
            "Items on which they disagree, %, if known",
            "differ",
            "a number between 0 and 100, or nothing",
            PERCENT,
            values,
        )
        + _field(
            "Items in the pilot, if known", "items", "a whole number, or nothing", WHOLE, values
        )
        + width,
        "files": "".join(
            _field(f"Predictions of {x.upper()} (CSV)", f"file_{x}", "a CSV file", FILE, {})
            for x in "ab"
        )
        + width,
    }
    lines = "".join(f'<dt>{ANSWERS[key]}</dt><dd class="{key}"></dd>' for key in answers)
    shown = "".join(
        f"""<form class="sample-size" data-from="{form}" novalidate
 data-lm-suppress-shortcuts="true">
<fieldset><legend>{TITLES[form]}</legend>{inside[form]}<button>Compute</button></fieldset>
<p role="alert"></p><dl aria-live="polite" hidden>{lines}</dl></form>"""
        for form in forms
    )
    return f"{shown}<script>{script}</script>{look}"


def _field(label: str, name: str, should: str, more: str, values: Mapping[str, float]) -> str:
    value = _shown(name, values[name]) if name in values else ""
    return f'<label>{label} <input name="{name}" title="{should}" value="{value}" {more}></label>'


def _shown(name: str, value: float) -> str:
    return f"{100 * value:.10g}" if name in SHARES else f"{value}"


def _list_of(examples: Mapping[str, Sequence[float]]) -> str:
    if not examples:
        return ""
    options = "".join(
        f'<option value="{" ".join(map(_shown, FIELDS, values))}'
        f'{" " * (len(FIELDS) - len(values))}">{escape(name)}</option>'
        for name, values in examples.items()
    )
    return f'<label>Example <select name="example">{options}</select></label>'
