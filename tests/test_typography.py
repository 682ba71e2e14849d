"""Numbers and formulas as print sets them."""

import sys

import pytest

from probebook.base import ROOT

sys.path.append(str(ROOT / "book" / "_ext"))
from typography import typeset  # noqa: E402

FORMULA = '<span class="math notranslate nohighlight">\\(h - 1\\)</span>'


@pytest.mark.parametrize(
    "written, printed",
    [
        ("<td>-0.25</td>", "<td>−0.25</td>"),
        ("<td>-0.000</td><td>-.0</td><td>-0</td>", "<td>0.000</td><td>.0</td><td>0</td>"),
        ("<td>-0.0001</td><td>-10</td><td>-0.5</td>", "<td>−0.0001</td><td>−10</td><td>−0.5</td>"),
        ("it is -0.000.", "it is 0.000."),
        ("<td>+0.000</td><td>+0.5</td><td>+0</td>", "<td>0.000</td><td>+0.5</td><td>0</td>"),
        ("[-.03, -0.00]", "[−.03, 0.00]"),
        ("2026-11-22, CC-0, gpt-2, x−0, − a", "2026-11-22, CC-0, gpt-2, x−0, − a"),
        ("<span>12</span> % of 3 % (4%)", "<span>12</span>\u00a0% of 3\u00a0% (4\u00a0%)"),
        (
            "in Table 3 and § 4.1, et al. (± 2)",
            "in Table\u00a03 and §\u00a04.1, et\u00a0al. (±\u00a02)",
        ),
        ("at α = 16, h = <b>3</b>, x = y", "at α\u00a0=\u00a016, h\u00a0=\u00a0<b>3</b>, x = y"),
        (
            "a p-value ≤ .05 and &lt; .02",
            'a <span class="together">p-value</span>\u00a0≤\u00a0.05 and\u00a0&lt;\u00a0.02',
        ),
        ("the probe's 2 × 3 · 1e-03", "the probe’s 2\u00a0×\u00a03\u00a0· 1e−03"),
        ("from R-LACE on", 'from <span class="together">R-LACE</span> on'),
        ("(WikiText-2)", '(<span class="together">WikiText-2</span>)'),
        (f"at {FORMULA} = .5 or", f'at <span class="together">{FORMULA}\u00a0=\u00a0.5</span> or'),
        (f"so {FORMULA}, or", f'so <span class="together">{FORMULA},</span> or'),
        (f"so ({FORMULA}) or", f'so <span class="together">({FORMULA})</span> or'),
    ],
)
def test_text_is_set(written, printed):
    assert typeset(written) == printed


def test_columns_of_numbers_are_marked():
    """Those of a table that a cell wrote, with their heads; a column with any word is not."""
    rows = [("-1.5", "1,024", "yes"), ("+0.25", "–", "3 of 4"), ("12", "", "7")]
    body = "".join(
        f'<td id="T_1_row{i}_col{j}" class="data row{i} col{j}" >{text}</td>'
        for i, row in enumerate(rows)
        for j, text in enumerate(row)
    )
    head = "".join(
        f'<th id="T_1_level0_col{j}" class="col_heading level0 col{j}" >h</th>' for j in range(3)
    )
    table = typeset(f'<table id="T_1">{head}{body}</table>')
    assert [table.count(f'col{j} number"') for j in range(3)] == [4, 4, 0]
    assert ">−1.5</td>" in table
    assert "number" not in typeset(f"<table>{head}{body}</table>")


@pytest.mark.parametrize(
    "kept",
    [
        "<pre>x = -1 % 2 <span>-0.0</span></pre>",
        '<code class="a"><span>-3 %</span></code>',
        "<script>a = -0.0</script>",
        '<div class="math notranslate nohighlight"><span class="eqno">(1)</span>\\[-1 % -0.0\\]</div>',
        FORMULA,
        '<dt class="sig sig-object py"><em>axis=-1</em></dt>',
        '<img alt="from -1 to -0.0" />',
    ],
)
def test_code_and_formulas_stay_as_they_are(kept):
    assert typeset(kept) == kept
