"""The way to build the book without jupyter-book; `benchmarks/plain_sphinx.py` (make verify) takes
it and compares the books."""

from __future__ import annotations

import pytest
from plain_sphinx import BROKEN, compared, facts

from probebook.base import ROOT, UserError, read_yaml
from probebook_book.plain_sphinx import conf

# what jupyter-book says besides: of its own, of LaTeX, and what Sphinx and myst-nb say unasked
ITS_OWN = {"use_jupyterbook_latex", "latex_engine", "comments_config"}
ITS_EXTENSIONS = {"jupyter_book", "sphinx_jupyterbook_latex"}
IGNORED = {"_build", "Thumbs.db", ".DS_Store", "**.ipynb_checkpoints"}
PAGE = """<nav class="bd-links"><a href="b.html">b</a></nav><article class="bd-article">
<section id="new"><span id="old"></span><h1>A</h1>
<a href="{link}">there</a><img src="x.png" alt="x">
<figcaption>Fig. 1</figcaption><span class="math">\\(x\\)</span></section></article>"""
INDEX = 'Search.setIndex({"docnames":["a"],"titles":["A"],"terms":{"word":0}})'


def test_conf_says_what_jupyter_book_says():
    import jupyter_book.cli.main  # noqa: F401  (its modules import each other)
    from jupyter_book.config import get_final_config

    given, _ = get_final_config(
        user_yaml=ROOT / "_config.yml",
        sourcedir=ROOT,
        cli_config={
            "latex_individualpages": False,
            "external_toc_path": "_toc.yml",
            "nb_execution_mode": "off",
        },
    )
    ours: dict = {"__file__": str(ROOT / "conf.py")}
    exec(conf(read_yaml(ROOT / "_config.yml")), ours)
    theirs = {name: value for name, value in given.items() if value and name not in ITS_OWN}
    options = _said(theirs.pop("html_theme_options"))
    del options["analytics"]
    assert _said(ours["html_theme_options"]) == options
    assert ours["extensions"] == [
        name for name in theirs.pop("extensions") if name not in ITS_EXTENSIONS
    ]
    assert {*ours["exclude_patterns"], *IGNORED} == set(theirs.pop("exclude_patterns"))
    assert {name: ours.get(name) for name in theirs} == theirs
    assert str(ROOT / "book" / "_ext") in ours["sys"].path


def _said(options: dict) -> dict:
    """Options that are not empty."""
    return {
        name: _said(value) if isinstance(value, dict) else value
        for name, value in options.items()
        if value
    }


def test_an_unknown_name_is_one_line():
    with pytest.raises(UserError, match="^_config.yml: html.colour has no name in Sphinx [^\n]+$"):
        conf({"title": "T", "html": {"favicon": "x", "colour": "red"}})


@pytest.mark.parametrize(
    ("changed", "differ"),
    [
        ({}, []),
        ({"link": "a.html#new"}, []),
        ({"link": "gone.html"}, ["links", "broken links"]),
        ({"link": "a.html#gone"}, ["links", "broken links"]),
        ({"alt": ""}, ["images"]),
        ({"Fig.": "Figure"}, ["text", "figures and tables with captions"]),
        ({"old": "older"}, ["links", "broken links", "anchors"]),
        ({"<h1>A": "<h1>B"}, ["text", "headings", "links"]),
    ],
)
def test_the_comparison_sees_what_differs(tmp_path, changed, differ):
    """Negative controls: one thing of a page is changed. A heading may be linked by each of its
    ids."""
    link = changed.get("link", "a.html#old")
    page = PAGE.replace('alt="x"', f'alt="{changed.get("alt", "x")}"')
    for old, new in changed.items():
        if old not in ("link", "alt"):
            page = page.replace(old, new)
    for folder, text in (
        ("first", PAGE.format(link="a.html#old")),
        ("second", page.format(link=link)),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.html").write_text(text)
        (tmp_path / folder / "searchindex.js").write_text(INDEX)
    first, second = facts(tmp_path / "first"), facts(tmp_path / "second")
    table = compared(first, second)
    assert table[table["differ in"] > 0].what.tolist() == differ
    assert ("broken links" in differ) == any(
        target == BROKEN for links in second["links"].values() for _, target in links
    )
