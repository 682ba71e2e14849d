"""Texts of data sets in the built book, in headless Chromium: they look as they are written, and
nothing in them runs."""

from __future__ import annotations

import shutil

import pytest

from conftest import KEPT
from probebook.base import ROOT
from probebook_book import build
from probebook_runs import warm
from test_browser import WAITING, _settled, browser, pytestmark  # noqa: F401

TEXTS = [
    "1 <script>window.pwned = 1</script> b",
    "2 <img src=x onerror='window.pwned=2'> b",
    "3 <b>bold</b> &amp; &lt;i&gt; b",
    "4 ```{raw} html <b id='extra'></b> ```",
    "```{raw} html",
    ":::{div} extra",
    "7 {glue:text}`secret` and {ref}`here` b",
    "8 a [link](javascript:window.pwned=3) b",
    "9 costs $5 and $x^2$ or \\(y\\) or $\\nosuch$ b",
    "10 </td></table></pre></script><h1>big</h1> b",
    "<a href='javascript:window.pwned=4'>11</a>",
    "12 **strong** _word_ `code` b",
    '13" onmouseover="window.pwned=5" b',
]
PREPARE = f"""
import matplotlib.pyplot as plt
import pandas as pd

from probebook import figures, tables
from probebook_runs import in_text

texts = {TEXTS!r}
frame = pd.DataFrame({{"text": texts, "n": range(len(texts))}})
"""
SHOWN = [
    "frame",
    "frame.set_index('text')",
    "frame.set_index('text').T",
    "frame.style",
    "tables.wrap_text_columns(frame)",
    "frame.style.format(precision=3).hide()",
    "frame.set_index('text').style.format('{:.1f}')",
    "frame.set_index('text').T.style",
    "frame[:1].style.set_caption(' '.join(texts))",
    "print(*texts)",
    "texts",
    "frame.text",
    "figures.slider(lambda text: plt.figure(), texts, texts[0])",
]
DRAWN = """
figure, ax = plt.subplots()
ax.set(title=" ".join(texts[:8]), xlabel=texts[9])
ax.bar(texts[:8], range(8), label=texts[10])
ax.legend();
"""
STRAIGHT = str.maketrans("“”‘’", "\"\"''")  # the book curls the quotes of its prose
QUOTED = "in_text(**{f't{i}': text for i, text in enumerate(texts)})"
SEEN = """
return [...document.querySelectorAll('article .cell_output')].map(e => e.textContent)
"""
EXTRA = """
const kinds = ['script:not([type])', 'img[src$="x"]', 'a[href^="javascript"]', '[onerror]',
  '[onmouseover]', 'b', '#extra', 'div.extra', 'i:not([class])'].map(kind => 'article ' + kind);
const marks = ['h1', 'strong', 'em', 'code', 'mjx-container'];
const parsed = ['.cell_output', 'p'].flatMap(
  place => marks.map(kind => `article ${place} ${kind}`));
const found = document.querySelectorAll([...kinds, ...parsed].join(', '));
return [window.pwned, ...[...found].map(e => e.outerHTML.slice(0, 99))].filter(x => x);
"""


@pytest.fixture
def book_folder():
    """Kept, so that its pages are not run again."""
    return KEPT / "escape"


@pytest.fixture
def book(tiny, monkeypatch):
    """A small book as the project configures it: a page of texts, two that do not escape them."""
    monkeypatch.setattr(warm, "FEW", 0)
    monkeypatch.setattr(warm, "LIBRARIES", ("ipykernel.kernelapp", "matplotlib.pyplot", "pandas"))
    tiny("start(globals())", PREPARE, *SHOWN, DRAWN, QUOTED, parameters="")
    tiny(PREPARE, "frame.style", name="1_demo/02_styled", parameters="")
    home = tiny(
        PREPARE,
        "from IPython.display import HTML",
        "HTML(texts[2])",
        name="1_demo/03_raw",
        parameters="",
    )
    page = home / "notebooks/1_demo/01_first.md"
    quotes = "".join(f"\nQ{i} {{glue:text}}`t{i}`\n" for i in range(len(TEXTS)))
    page.write_text(page.read_text(encoding="utf-8") + quotes, encoding="utf-8")
    (home / "_toc.yml").write_text(
        "{format: jb-book, root: notebooks/1_demo/01_first, chapters: "
        "[file: notebooks/1_demo/02_styled, file: notebooks/1_demo/03_raw]}"
    )
    shutil.copy(ROOT / "_config.yml", home)
    for folder in ("_static", "_ext"):
        shutil.copytree(ROOT / "book" / folder, home / "book" / folder, dirs_exist_ok=True)
    shutil.copy(ROOT / "book/references.bib", home / "book")
    index = build.build()
    assert index
    return index.parent / "notebooks/1_demo"


def test_text_of_data_sets_is_seen_as_it_is_written(browser, book):  # noqa: F811
    browser.get((book / "01_first.html").as_uri())
    assert _settled(browser, WAITING, 15) == []
    assert browser.execute_script(EXTRA) == []
    outputs = browser.execute_script(SEEN)
    assert len(outputs) == len(SHOWN) + 1
    for code, output in zip(SHOWN[:-1], outputs):
        unseen = [
            text
            for text in TEXTS
            if text not in " ".join(output.split()) and repr(text)[1:-1] not in output
        ]
        assert not unseen, code
    assert outputs[-1].strip() == ""
    assert browser.find_elements("css selector", ".cell_output img")
    lines = [p.text.translate(STRAIGHT) for p in browser.find_elements("css selector", "article p")]
    quoted = [line for line in lines if line[:1] == "Q"]
    assert quoted == [f"Q{i} {text}" for i, text in enumerate(TEXTS)]
    for page, says in (("02_styled", (1, 2)), ("03_raw", ("<b>bold</b>",))):  # negative controls
        browser.get((book / f"{page}.html").as_uri())
        _settled(browser, WAITING, 2)
        assert set(says) & set(browser.execute_script(EXTRA)), page
