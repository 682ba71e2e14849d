"""What this book found in the papers.

The words stand in `book/discrepancies.yaml` and `book/verdicts.yaml`; the runs give the numbers."""
from __future__ import annotations

import ast
import html
from collections.abc import Sequence
from functools import cache
from typing import Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from probebook.base import UserError, read_yaml
from probebook.runs.archive import archived
from probebook.runs.pages import Page, home
from probebook.runs.store import book_run, hidden_outputs


Kind = Literal["printed or released numbers", "real text", "generated text"]
Outcome = Literal["reproduced", "partly", "not"]


class Finding(BaseModel):
    """Texts about a page, with places for numbers.

    `{name:.2f}` is a number that the page quotes in its own text. `stored` names further numbers,
    of stored runs: run, table, row (a list where the table has several ids), metric."""
    model_config = ConfigDict(extra="forbid", frozen=True)
    page: str
    stored: dict[str, tuple[str, str, str | tuple[str, ...], str]] = {}

    def filled(self, text: str) -> str:
        """A text with its numbers. UserError: the page does not have one of them."""
        numbers = dict(quoted(self.page))
        numbers |= {name: _stored(self.page, *place) for name, place in self.stored.items()}
        try:
            return text.format_map(numbers)
        except KeyError as e:
            raise UserError(f"{self.page} puts no number {e} into its text: {text!r}") from None


class Discrepancy(Finding):
    """What a paper prints, what follows instead, and the section of a page that recomputes it."""
    paper: int
    place: str
    what: str
    printed: str
    follows: str
    how: Literal["arithmetic", "released", "run"]
    section: str


class Evidence(Finding):
    """What was found of a claim on one kind of evidence, and the runs in which the claim holds,
    fails or stays open.

    A run is a stored run of the page, "printed", "released", or "this book": the page's own run."""
    kind: Kind
    evidence: str
    holds: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


class Claim(Evidence):
    """A claim of a paper, whether it was reproduced, and on what evidence.

    Its own evidence is the nearest to the paper; `further` has what lies further off."""
    claim: str
    verdict: Outcome
    further: list[Evidence] = []

    @property
    def lines(self) -> list[Evidence]:
        """All of its evidence, nearest first."""
        return [self, *self.further]


class Verdict(BaseModel):
    """A paper: its question, its claims, and the verdict in a sentence."""
    model_config = ConfigDict(extra="forbid", frozen=True)
    paper: int
    chapter: str
    title: str
    cite: str
    question: str
    verdict: Outcome
    sentence: str
    claims: list[Claim]


def discrepancies(paper: int | None = None) -> pd.DataFrame:
    """One row for each discrepancy of a paper, or of all, with the numbers of this book's runs.

    UserError: a page lacks a number or the section, or its run is not finished."""
    rows = []
    for entry in _read("discrepancies.yaml", Discrepancy):
        if paper not in (None, entry.paper):
            continue
        if f"\n## {entry.section}\n" not in Page(entry.page).source:
            raise UserError(f"discrepancies.yaml: {entry.page} has no section {entry.section!r}")
        filled = ("place", "printed", "follows")
        texts = {part: entry.filled(getattr(entry, part)) for part in filled}
        rows.append(entry.model_dump(exclude={"stored"}) | texts)
    return pd.DataFrame(rows)


def verdicts() -> list[Verdict]:
    """The papers, in order."""
    return _read("verdicts.yaml", Verdict)


def claims(paper: int) -> str:
    """The verdict on a paper as HTML: its sentence, and a table of its claims.

    A row for each kind of evidence, nearest first: claim, verdict, kind, evidence with its numbers,
    runs, page."""
    [verdict] = [verdict for verdict in verdicts() if verdict.paper == paper]
    rows = []
    for claim in verdict.claims:
        for line in claim.lines:
            first = line is claim
            texts = (claim.claim if first else "", claim.verdict if first else "", line.kind,
                     line.filled(line.evidence))
            runs = "; ".join(f"{said} in {', '.join(names)}" for said, names in where(line))
            rows.append([*map(html.escape, texts), html.escape(runs),
                         page_link(line.page, Page(line.page).title)])
    head = ("claim", "here", "kind of evidence", "evidence", "runs", "page")
    return f"<p>{html.escape(verdict.sentence)}</p>{html_table(head, rows)}"


def where(line: Evidence) -> list[tuple[str, tuple[str, ...]]]:
    """In which runs the claim holds, fails and is open, as far as there are any."""
    runs = {"holds": line.holds, "fails": line.fails, "open": line.open}
    return [(said, names) for said, names in runs.items() if names]


def readme_tables() -> str:
    """The README's tables in Markdown: a row for each paper, and one for each claim.

    The second has the evidence nearest to the paper first, and the runs behind it."""
    papers = ["| paper | here | nearest evidence | in a sentence |", "|---|---|---|---|"]
    rows = ["| claim | here | evidence, nearest first |", "|---|---|---|"]
    for paper in verdicts():
        kinds = ", ".join(dict.fromkeys(claim.kind for claim in paper.claims))
        papers.append(f"| {paper.paper} · {paper.title} | {paper.verdict} | {kinds} "
                      f"| {paper.sentence} |")
        for claim in paper.claims:
            lines = "; ".join(f"**{line.kind}**: " + ", ".join(
                f"{said} in {', '.join(names)}" for said, names in where(line))
                for line in claim.lines)
            rows.append(f"| {paper.paper} · {claim.claim} | {claim.verdict} | {lines} |")
    return "\n".join([*papers, "", *rows])


def discrepancy_table(paper: int) -> str:
    """The discrepancies of a paper as an HTML table; each row links to the section."""
    from docutils.nodes import make_id
    rows = []
    for row in discrepancies(paper).itertuples():
        texts = map(html.escape, (row.place, row.what, row.printed, row.follows, row.how))
        rows.append([*texts, page_link(row.page, row.section, make_id(row.section))])
    return html_table(("where", "what", "printed", "what follows", "how", "recomputed in"), rows)


def _read(name: str, kind: type[BaseModel]) -> list:
    try:
        return [kind(**entry) for entry in read_yaml(home() / "book" / name)]
    except ValidationError as e:
        raise UserError(f"{name}: {e.errors()[0]['loc']}: {e.errors()[0]['msg']}") from None


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of sentences; the cells of its rows are HTML."""
    columns = "".join(f"<th scope=col>{name}</th>" for name in head)
    lines = ["".join(f"<td>{cell}</td>" for cell in cells) for cells in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (f'<table class="table wrapped"><thead><tr>{columns}</tr></thead>'
            f"<tbody>{body}</tbody></table>")


def page_link(page: str, text: str, anchor: str = "") -> str:
    """A link from a file of `book/` to a page."""
    return f'<a href="../notebooks/{page}.html{anchor and "#"}{anchor}">{html.escape(text)}</a>'


@cache
def quoted(page: str) -> dict[str, float | str]:
    """Numbers and words that a page's text quotes, by name without colons, from the book's run.

    UserError: the run is not finished."""
    return {name.replace(":", ""): _value(text)
            for name, text in hidden_outputs(book_run(page).read())
            if not name.startswith("probebook:")}


def _value(text: str) -> float | str:
    return float(text) if text in ("nan", "inf", "-inf") else ast.literal_eval(text)


def _stored(page: str, run: str, table: str, row: str | tuple[str, ...],
            metric: str) -> float:
    found = archived(page, table).get(run)
    if found is None or row not in found.index or metric not in found:
        raise UserError(f"discrepancies.yaml: no stored {page}/{run} with {metric!r} of {row!r} in "
                        f"table {table!r}")
    return float(found.loc[row, metric])
