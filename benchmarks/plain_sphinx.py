"""The book by plain Sphinx against the book by jupyter-book, page by page.

    .venv/bin/python benchmarks/plain_sphinx.py

Builds the sources that were staged for the book in `_build/book` once more, without jupyter-book
and with the newest packages (`probebook_book.plain_sphinx`), and prints what the two books have
and in how many pages they differ. No page is run. Ends with 1 if they differ in what EXPECTED does
not name. Takes three minutes of a core; Chromium, if there is one, searches and draws the widgets.
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pandas as pd
from bs4 import BeautifulSoup, Tag

from probebook.base import UserError
from probebook_book.pdf import chromium
from probebook_book.plain_sphinx import build
from probebook_runs.pages import home

EXPECTED = {
    "addresses of headings": "a heading with a label now has the label as its address; the one of "
    "before leads there too (anchors)",
    "words of the search index": "Sphinx 9 cuts words down in another way and leaves out many "
    "numbers; what a search finds is compared below",
}
SEARCHED = ("completeness", "counterfactual probability", "LEACE")
VIEW = "application/vnd.jupyter.widget-view+json"
SECONDS = 20  # by the page's own clock, until it is searched or drawn
BROKEN = "leads nowhere"
Facts = dict[str, dict[str, list]]  # what → page → what the page has of it


def facts(book: Path) -> Facts:
    """What the pages of a built book have, in their order. White space is left out of texts, since
    newer versions set less of it around formulas."""
    paths = sorted(path for path in book.rglob("*.html") if "_static" not in path.parts)
    pages = {
        path.relative_to(book).as_posix(): BeautifulSoup(path.read_bytes(), "html.parser")
        for path in paths
    }
    ids = {name: {tag["id"]: tag for tag in page.find_all(id=True)} for name, page in pages.items()}
    found: Facts = {"pages": {"": list(pages)}}
    for name, page in pages.items():
        article = page.select_one("article.bd-article") or Tag(name="article")
        headings = article.find_all(re.compile("^h[1-6]$"))
        links = [_target(link["href"], name, ids, book) for link in article.select("a[href]")]
        for what, items in {
            "text": [_text(article)],
            "headings": [(tag.name, _text(tag)) for tag in headings],
            "addresses of headings": [tag.parent.get("id") for tag in headings],
            "links": links,
            "broken links": [link for link in links if link[1] == BROKEN],
            "links of the side bar": [tag["href"] for tag in page.select("nav.bd-links a[href]")],
            "images": [
                (posixpath.basename(tag["src"]), tag.get("alt"))
                for tag in article.select("img[src]")
            ],
            "figures and tables with captions": [
                _text(tag) for tag in article.find_all(["figcaption", "caption"])
            ],
            "formulas": [_text(tag) for tag in article.select("span.math, div.math")],
            "widgets": [tag.string for tag in article.find_all("script", type=VIEW)],
            "anchors": sorted(tag["id"] for tag in article.find_all(id=True)),
        }.items():
            found.setdefault(what, {})[name] = items
    return found | _search(book)


def _text(tag: Tag) -> str:
    return "".join(tag.get_text().split())


def _target(href: str, page: str, ids: dict[str, dict[str, Tag]], book: Path) -> tuple[str, str]:
    """Where a link leads: a page and the heading or the id there. Headings have several ids."""
    url = urlsplit(href)
    if url.scheme:
        return href, ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(url.path)))
    path = path if url.path else page
    if path not in ids or not url.fragment:
        return path, "" if (book / path).exists() else BROKEN
    place = ids[path].get(unquote(url.fragment))
    if place is None:
        return f"{path}#{url.fragment}", BROKEN
    section = place.parent if place.name == "span" and not place.get_text() else place
    heading = section.find(re.compile("^h[1-6]$")) if section.name == "section" else None
    return path, _text(heading) if heading else url.fragment


def _search(book: Path) -> Facts:
    """Documents, titles and words of the search index."""
    text = (book / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    return {
        "documents of the search index": {"": index["docnames"]},
        "titles of the search index": {"": index["titles"]},
        "words of the search index": {word: [pages] for word, pages in index["terms"].items()},
    }


def compared(first: Facts, second: Facts) -> pd.DataFrame:
    """A row for each kind of thing: how many each book has, in how many pages they differ, the
    first difference. The second book may have more anchors."""
    rows = []
    for what, ours in first.items():
        theirs = second[what]
        differ = [
            (name, ours.get(name, []), theirs.get(name, []))
            for name in dict.fromkeys([*ours, *theirs])
            if (
                set(ours.get(name, [])) - set(theirs.get(name, []))
                if what == "anchors"
                else ours.get(name) != theirs.get(name)
            )
        ]
        rows.append(
            {
                "what": what,
                "jupyter-book": sum(map(len, ours.values())),
                "plain Sphinx": sum(map(len, theirs.values())),
                "differ in": len(differ),
                "first": _first(*differ[0]) if differ else "",
            }
        )
    return pd.DataFrame(rows)


def _first(page: str, ours: list, theirs: list) -> str:
    """The first things that one of two lists has and the other has not."""

    def only(some: list, others: list) -> Hashable:
        return next((str(item)[:60] for item in some if item not in others), "-")

    return f"{page}: {only(ours, theirs)} | {only(theirs, ours)}"


def seen(first: Path, second: Path) -> Iterator[tuple[Facts, Facts]]:
    """The pages that a search finds in both books (Sphinx 9 leads to a place within them), and how
    many widgets the second draws of those that its pages have."""
    for words in SEARCHED:
        hits = [
            sorted(
                {
                    tag["href"].partition("#")[0]
                    for tag in _shown(book / "search.html", f"?q={quote(words)}").select(
                        "#search-results li > a"
                    )
                }
            )
            for book in (first, second)
        ]
        yield {f"hits for {words}": {"": hits[0]}}, {f"hits for {words}": {"": hits[1]}}
    pages = {
        path.relative_to(second).as_posix(): path
        for path in sorted(second.rglob("*.html"))
        if VIEW in path.read_text(encoding="utf-8", errors="ignore")
    }
    shown = {name: _shown(path).find_all("script", type=VIEW) for name, path in pages.items()}
    drawn = {
        name: [view for view in views if view.parent.select_one(".widget-subarea > *")]
        for name, views in shown.items()
    }
    yield {"widgets drawn": shown}, {"widgets drawn": drawn}


def _shown(page: Path, query: str = "") -> BeautifulSoup:
    """A page as it is after its scripts have run."""
    with tempfile.TemporaryDirectory(prefix="probebook-") as profile:
        command = [
            chromium(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--dump-dom",
            f"--user-data-dir={profile}",
            f"--virtual-time-budget={SECONDS * 1000}",
            page.as_uri() + query,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return BeautifulSoup(done.stdout, "html.parser")


def main() -> None:
    folder, book = home() / "_build" / "plain", home() / "_build" / "book"
    try:
        plain = build(home() / "_build" / "book_source", folder).parent
    except UserError as error:
        sys.exit(str(error))
    first, second = facts(book), facts(plain)
    for ours, theirs in seen(book, plain) if chromium() else ():
        first, second = first | ours, second | theirs
    table = compared(first, second)
    versions = (folder / "versions.txt").read_text().split()
    print("by", ", ".join(v for v in versions if re.match("(?i)sphinx|myst|docutils|pydata", v)))
    print(
        table.assign(
            expected=table.what.map(EXPECTED).where(table["differ in"] > 0, "").fillna("")
        ).to_markdown(index=False)
    )
    if not chromium():
        print("no Chromium: nothing was searched or drawn")
    wrong = table[(table["differ in"] > 0) & ~table.what.isin(EXPECTED)].what.tolist()
    broken = sum(map(len, second["broken links"].values()))
    if wrong or broken:
        sys.exit(f"the books differ in {', '.join(wrong) or 'nothing'}; {broken} broken links")


if __name__ == "__main__":
    main()
