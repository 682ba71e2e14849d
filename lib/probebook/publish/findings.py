"""What became of the papers: words from `book/discrepancies.yaml` and `book/verdicts.yaml`, numbers from the runs."""
from __future__ import annotations

import ast
import html
from collections.abc import Sequence
from functools import cache
from typing import Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from probebook.base import UserError, read_yaml
from probebook.runs.archive import stored
from probebook.runs.pages import Page, home
from probebook.runs.store import book_run, hidden_outputs


class Told(BaseModel):
    """A sentence about a page: in its texts `{name:.2f}` is a number that the page puts into its own text; `stored`
    adds names for numbers of stored runs: run, table, row, metric."""
    model_config = ConfigDict(extra="forbid", frozen=True)
    page: str
    stored: dict[str, tuple[str, str, str, str]] = {}

    def filled(self, text: str) -> str:
        """A text with its numbers. UserError: one that the page does not have."""
        numbers = quoted(self.page) | {name: _stored(self.page, *where) for name, where in self.stored.items()}
        try:
            return text.format_map(numbers)
        except KeyError as e:
            raise UserError(f"{self.page} puts no number {e} into its text: {text!r}") from None


class Discrepancy(Told):
    """One point: where it is printed, what is printed, what follows, and the section of a page that recomputes it."""
    paper: int
    place: str
    what: str
    printed: str
    follows: str
    how: Literal["arithmetic", "released", "run"]
    section: str


class Claim(Told):
    """A claim of a paper, and what became of it on a page."""
    claim: str
    verdict: Literal["reproduced", "partly", "not"]
    evidence: str


class Verdict(BaseModel):
    """A paper: its question, its claims, and what became of it in a sentence."""
    model_config = ConfigDict(extra="forbid", frozen=True)
    paper: int
    chapter: str
    title: str
    cite: str
    question: str
    verdict: Literal["reproduced", "partly", "not"]
    sentence: str
    claims: list[Claim]


def discrepancies(paper: int | None = None) -> pd.DataFrame:
    """Those of a paper, or all, one a row, with their numbers from the finished runs of this book.

    UserError: a number or a section that its page does not have."""
    rows = []
    for entry in _read("discrepancies.yaml", Discrepancy):
        if paper not in (None, entry.paper):
            continue
        if f"\n## {entry.section}\n" not in Page(entry.page).source:
            raise UserError(f"discrepancies.yaml: {entry.page} has no section {entry.section!r}")
        said = {side: entry.filled(getattr(entry, side)) for side in ("place", "printed", "follows")}
        rows.append(entry.model_dump(exclude={"stored"}) | said)
    return pd.DataFrame(rows)


def verdicts() -> list[Verdict]:
    """The papers, in order."""
    return _read("verdicts.yaml", Verdict)


def claims(paper: int) -> str:
    """The claims of a paper as an HTML table: claim, verdict, evidence with its numbers, page."""
    [about] = [v for v in verdicts() if v.paper == paper]
    rows = [(*map(html.escape, (c.claim, c.verdict, c.filled(c.evidence))), page_link(c.page, Page(c.page).title))
            for c in about.claims]
    return html_table(("claim", "here", "evidence", "page"), rows)


def discrepancy_table(paper: int) -> str:
    """Those of one paper as HTML: place, claim, printed, what follows, how, and a link to the cells."""
    from docutils.nodes import make_id
    rows = [(*map(html.escape, (row.place, row.what, row.printed, row.follows, row.how)),
             page_link(row.page, row.section, make_id(row.section))) for row in discrepancies(paper).itertuples()]
    return html_table(("where", "what", "printed", "what follows", "how", "recomputed in"), rows)


def _read(name: str, kind: type[BaseModel]) -> list:
    try:
        return [kind(**entry) for entry in read_yaml(home() / "book" / name)]
    except ValidationError as e:
        raise UserError(f"{name}: {e.errors()[0]['loc']}: {e.errors()[0]['msg']}") from None


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of sentences; the cells of its rows are HTML."""
    head = "".join(f"<th scope=col>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" for cells in rows)
    return f'<table class="table wrapped"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def page_link(page: str, text: str, anchor: str = "") -> str:
    """A link from a file of `book/` to a page."""
    return f'<a href="../notebooks/{page}.html{anchor and "#"}{anchor}">{html.escape(text)}</a>'


@cache
def quoted(page: str) -> dict:
    """Numbers and words that a page's text quotes, of the run that the book is made of, by name without colons.

    UserError: the run is not finished."""
    return {name.replace(":", ""): _value(text) for name, text in hidden_outputs(book_run(page).read())
            if not name.startswith("probebook:")}


def _value(text: str):
    return float(text) if text in ("nan", "inf", "-inf") else ast.literal_eval(text)


def _stored(page: str, run: str, table: str, row: str, metric: str) -> float:
    found = stored(page, table).get(run)
    if found is None or row not in found.index or metric not in found:
        raise UserError(f"discrepancies.yaml: no stored {page}/{run} with {metric!r} of {row!r} in table {table!r}")
    return float(found.loc[row, metric])
