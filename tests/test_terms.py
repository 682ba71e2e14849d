"""Definitions beside terms: every page that links to a term has its definition, without links, also
after a partial build."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bs4 import BeautifulSoup

from probebook.base import ROOT

GLOSSARY = """# Glossary

:::{glossary}
state
  A vector $h$, as the [page](page.md) says.

noun
verb
  A word.
:::
"""


@pytest.fixture
def site(tmp_path):
    """A glossary and two pages; `site(page=text)` changes a file and returns the built pages."""
    files = {
        "conf.py": f"import sys; sys.path.append({str(ROOT / 'book' / '_ext')!r})\n"
        "html_theme = 'basic'\n"
        "extensions = ['myst_parser', 'terms']\n"
        "myst_enable_extensions = ['colon_fence', 'dollarmath']",
        "index.md": "# Start\n\n```{toctree}\nglossary\npage\n```\n"
        "A {term}`noun`, {term}`nouns <noun>`, [a page](page.md).",
        "page.md": "# Page\n\nThe {term}`state` after a {term}`verb`.",
        "glossary.md": GLOSSARY,
    }

    def build(**changed: str) -> dict[str, BeautifulSoup]:
        for name, text in (files | {f"{name}.md": text for name, text in changed.items()}).items():
            path = tmp_path / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
                files[name] = text
        command = [
            sys.executable,
            "-B",
            "-m",
            "sphinx",
            "-qW",
            str(tmp_path),
            str(tmp_path / "out"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return {
            path.stem: BeautifulSoup(path.read_text(), "html.parser")
            for path in (tmp_path / "out").glob("*.html")
        }

    return build


def tips(page: BeautifulSoup) -> dict[str, str]:
    return {tip["id"]: tip.get_text().strip() for tip in page.find_all(role="tooltip")}


def test_links_are_described_once_for_each_term(site):
    pages = site()
    described = [
        link.get("aria-describedby") for link in pages["index"].select(".body a:has(> .std-term)")
    ]
    assert described == ["tip-term-noun"] * 2
    assert tips(pages["index"]) == {"tip-term-noun": "A word."}
    assert tips(pages["page"]) == {
        "tip-term-state": r"A vector \(h\), as the page says.",
        "tip-term-verb": "A word.",
    }
    for page in pages.values():
        assert all(
            tip.has_attr("hidden") and not tip.find("a") for tip in page.find_all(role="tooltip")
        )
    assert not tips(pages["glossary"])
    assert pages["index"].find("a", string="a page").get("aria-describedby") is None


def test_formulas_are_typeset_where_a_definition_has_one(site):
    def typeset(page: BeautifulSoup) -> bool:
        return any("mathjax" in script.get("src", "").lower() for script in page.find_all("script"))

    assert typeset(site()["page"])
    assert not typeset(site(page="# Page\n\nA {term}`verb` alone.")["page"])


def test_a_part_of_the_book_built_again_has_all_definitions(site):
    site()
    pages = site(page="# Page\n\nThe {term}`state` anew.")
    assert set(tips(pages["page"])) == {"tip-term-state"}
    assert set(tips(pages["index"])) == {"tip-term-noun"}
    pages = site(glossary=GLOSSARY.replace("A word.", "A word of a kind."))
    assert tips(pages["index"]) == {"tip-term-noun": "A word of a kind."}
