"""What this book found in the papers.

The words stand in `book/discrepancies.yaml` and `book/verdicts.yaml`; the runs give the numbers."""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Sequence
from functools import cache
from operator import ge, gt, le, lt, ne
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from probebook.base import UserError, read_yaml
from probebook_runs.archive import archived, manifests
from probebook_runs.pages import Page, home
from probebook_runs.store import book_run, hidden_outputs, tables

Kind = Literal["printed or released numbers", "real text", "generated text"]
Outcome = Literal["holds", "partly", "open", "not"]
How = Literal["arithmetic", "released", "run"]
Standing = Literal["stands", "gone", "read"]
Row = str | int | tuple[str | int, ...]  # its id, or its ids
WORDS = ("this book's run", "the printed numbers", "the released code")  # runs that are not stored
SAID: dict[Outcome, str] = {  # the verdicts, wherever they stand
    "holds": "holds here",
    "partly": "holds in part",
    "open": "open here",
    "not": "does not hold here",
}
OPERATORS = {"!=": ne, "<": lt, ">": gt, "<=": le, ">=": ge}
KINDS: dict[How, str] = {
    "arithmetic": "Arithmetic on printed numbers",
    "released": "Released code or outputs",
    "run": "A run of this book",
}


class Finding(BaseModel):
    """Texts about a page, with places for numbers.

    `{name:.2f}` is a number that the page quotes in its own text. `stored` names further numbers:
    a stored run or this book's run, table, row (a list where the table has several ids), metric."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    page: str
    stored: dict[str, tuple[str, str, Row, str]] = {}

    def filled(self, text: str) -> str:
        """A text with its numbers. UserError: the page does not have one of them."""
        try:
            return text.format_map(self.numbers())
        except KeyError as e:
            raise UserError(f"{self.page} puts no number {e} into its text: {text!r}") from None

    def numbers(self) -> dict[str, float | str]:
        """The numbers and words that its texts may quote, by name."""
        stored = {name: _stored(self.page, *place) for name, place in self.stored.items()}
        return quoted(self.page) | stored


class Front(BaseModel):
    """A discrepancy on the first screen of the audit page: its place there, and two sentences."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    place: int
    title: str
    printed: str
    follows: str


class Discrepancy(Finding):
    """What a paper prints, what follows instead, and the section of a page that recomputes it.

    - `stands`: comparisons of two numbers, such as "{printed:.2f} != {here:.2f}"
    - `front`: what the audit page says of it first, if it is one of the strongest"""

    paper: int
    place: str
    what: str
    printed: str
    follows: str
    how: How
    section: str
    stands: tuple[str, ...] = ()
    front: Front | None = None

    @property
    def status(self) -> Standing:
        """Whether all comparisons are right on the numbers of the book's run, or one is not
        ("gone"); "read" if there are none: it was found by reading code. UserError: one has another
        form."""
        held = []
        for comparison in self.stands:
            try:
                left, operator, right = self.filled(comparison).replace(",", "").split(" ")
                held.append(OPERATORS[operator](float(left), float(right)))
            except (ValueError, KeyError):
                raise UserError(
                    f"{comparison!r}: two numbers, and one of {', '.join(OPERATORS)} between them"
                ) from None
        if not held:
            return "read"
        return "stands" if all(held) else "gone"


class Evidence(Finding):
    """What was found of a claim on one kind of evidence, and the runs in which the claim holds,
    fails or stays open.

    A run is a stored run of the page, one of WORDS, or, with `sweep`, a model of that stored sweep
    of the page; brackets behind it say which part of it."""

    kind: Kind
    evidence: str
    sweep: str = ""
    holds: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def runs(self) -> dict[str, tuple[str, ...]]:
        """The runs by what the claim does in them: holds, fails, open; as far as there are any."""
        found = {"holds": self.holds, "fails": self.fails, "open": self.open}
        return {said: names for said, names in found.items() if names}

    @property
    def said(self) -> str:
        """The kind of evidence, of real text with the models, and the runs, in Markdown."""
        runs = [f"{said} in {_in_a_row(names)}" for said, names in self.runs.items()]
        return f"**{self.kind}**{self._models()}: {'; '.join(runs)}"

    def _models(self) -> str:
        if self.sweep:
            return f" (sweep {self.sweep})"
        if self.kind != "real text":
            return ""
        about = manifests()
        names = [name.split(" (")[0] for names in self.runs.values() for name in names]
        found = [
            about[f"{self.page}/{name}"]["parameters"]
            for name in names
            if f"{self.page}/{name}" in about
        ]
        keys = ("model", "models", "encoder", "encoders")
        models = [
            value
            for parameters in found
            for key in keys
            if key in parameters
            for value in np.atleast_1d(parameters[key])[:1]
        ]
        return f" ({', '.join(dict.fromkeys(models))})"


class Claim(Evidence):
    """A claim of a paper, whether it holds here, and on what evidence.

    `place`: where the paper makes it. Its own evidence is the nearest to the paper; `further` has
    what lies further off."""

    claim: str
    place: str
    verdict: Outcome
    further: list[Evidence] = []

    @property
    def lines(self) -> list[Evidence]:
        """All of its evidence, nearest first."""
        return [self, *self.further]


class Verdict(BaseModel):
    """A paper: its question, the answer in a few sentences, and its claims."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    paper: int
    chapter: str
    title: str
    cite: str
    question: str
    verdict: Outcome
    answer: str
    claims: list[Claim]


def discrepancies(paper: int | None = None) -> pd.DataFrame:
    """One row for each discrepancy of a paper, or of all, with the numbers of this book's runs.

    UserError: a page lacks a number or the section, or its run is not finished."""
    rows = []
    for entry in discrepancy_entries():
        if paper in (None, entry.paper):
            filled = ("place", "printed", "follows")
            texts = {part: entry.filled(getattr(entry, part)) for part in filled}
            rows.append(
                entry.model_dump(exclude={"stored", "stands", "front"})
                | texts
                | {"status": entry.status}
            )
    return pd.DataFrame(rows)


def verdicts() -> list[Verdict]:
    """The papers, in order."""
    return _read("verdicts.yaml", Verdict)


def claims(paper: int) -> str:
    """A paper's claims as HTML: each with its verdict, and what was seen on which evidence.

    The evidence nearest to the paper stands first."""
    [verdict] = [verdict for verdict in verdicts() if verdict.paper == paper]
    items = []
    for claim in verdict.claims:
        seen = "".join(f"<p>{_shown(line)}</p>" for line in claim.lines)
        items.append(
            f"<li><p><strong>{html.escape(claim.claim)}</strong>: "
            f"<em>{SAID[claim.verdict]}</em>.</p>{seen}</li>"
        )
    return f"<ol>{''.join(items)}</ol>"


def readme_tables() -> str:
    """The README's two tables in Markdown: the papers, and their claims with kinds and runs."""
    papers = ["| paper | verdict | question and answer |", "|---|---|---|"]
    rows = ["| claim | verdict | evidence, nearest to the paper first |", "|---|---|---|"]
    for paper in verdicts():
        papers.append(
            f"| {paper.paper} · {paper.title} | {SAID[paper.verdict]} "
            f"| *{paper.question}* {paper.answer.strip()} |"
        )
        rows += [
            f"| {paper.paper} · {claim.claim} | {SAID[claim.verdict]} "
            f"| {' · '.join(line.said for line in claim.lines)} |"
            for claim in paper.claims
        ]
    return "\n".join([*papers, "", *rows])


def strongest() -> str:
    """The strongest discrepancies as HTML: what is printed, what follows, the section."""
    marked = [(entry.front, entry) for entry in discrepancy_entries() if entry.front]
    items = []
    for front, entry in sorted(marked, key=lambda pair: pair[0].place):
        title, *said = (
            html.escape(entry.filled(text)) for text in (front.title, front.printed, front.follows)
        )
        items.append(
            f"<li><p><strong>{title}</strong> {' '.join(said)}<br>"
            f"<small>Paper {entry.paper}, {html.escape(entry.filled(entry.place))}. "
            f"{KINDS[entry.how]}: {_section_link(entry.page, entry.section)}"
            "</small></p></li>"
        )
    return f"<ol>{''.join(items)}</ol>"


def discrepancy_table(paper: int) -> str:
    """The discrepancies of a paper as a folded HTML table; each row links to the section."""
    rows = []
    for row in discrepancies(paper).itertuples():
        gone = "No longer so with the numbers of this run. " if row.status == "gone" else ""
        texts = map(html.escape, (row.place, gone + row.what, row.printed, row.follows, row.how))
        rows.append([*texts, _section_link(row.page, row.section)])
    head = ("where", "what", "printed", "what follows", "kind", "recomputed in")
    return (
        f"<details><summary>All {len(rows)} points of paper {paper}</summary>"
        f"{html_table(head, rows)}</details>"
    )


def _in_a_row(names: Sequence[str]) -> str:
    """Names in a row, "and" before the last."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _shown(line: Evidence) -> str:
    """What was seen on one kind of evidence, as HTML."""
    seen = re.sub(r"\*(.+?)\*", r"<em>\1</em>", html.escape(line.filled(line.evidence)))
    kind, _, rest = html.escape(line.said.removeprefix("**"), quote=False).partition("**")
    return (
        f"{seen}<br><small>Evidence: <strong>{kind}</strong>{rest}. "
        f"Page: {page_link(line.page, Page(line.page).title)}</small>"
    )


def discrepancy_entries() -> list[Discrepancy]:
    """All of them. UserError: a page has no such section."""
    found = _read("discrepancies.yaml", Discrepancy)
    for entry in found:
        if f"\n## {entry.section}\n" not in Page(entry.page).source:
            raise UserError(f"discrepancies.yaml: {entry.page} has no section {entry.section!r}")
    return found


def _section_link(page: str, section: str) -> str:
    """A link from a file of `book/` to a section of a page."""
    from docutils.nodes import make_id

    return page_link(page, section, make_id(section))


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
    return (
        f'<table class="table wrapped"><thead><tr>{columns}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def page_link(page: str, text: str, anchor: str = "") -> str:
    """A link from a file of `book/` to a page, of `book/` too."""
    own = page.removeprefix("book/")
    path = own if own != page else f"../notebooks/{page}"
    return f'<a href="{path}.html{anchor and "#"}{anchor}">{html.escape(text)}</a>'


@cache
def quoted(page: str) -> dict[str, float | str]:
    """Numbers and words that a page's text quotes, by name without colons, from the book's run.

    UserError: the run is not finished."""
    return {
        name.replace(":", ""): _value(text)
        for name, text in hidden_outputs(book_run(page).read())
        if not name.startswith("probebook:")
    }


def _value(text: str) -> float | str:
    return float(text) if text in ("nan", "inf", "-inf") else ast.literal_eval(text)


def _stored(page: str, run: str, table: str, row: Row, metric: str) -> float:
    found = _own(page, table) if run == WORDS[0] else archived(page, table).get(run)
    if found is None or row not in found.index or metric not in found:
        raise UserError(f"{page} has no {metric!r} of {row!r} in table {table!r} of {run}")
    return float(found.loc[row, metric])


@cache
def _own(page: str, table: str) -> pd.DataFrame | None:
    """A table of the book's run with its ids as the index; None: there is none of that name."""
    found = tables(book_run(page).read()).get(table)
    if found is None:
        return None
    ids = [column for column in found if column not in ("metric", "value")]
    return found.pivot(index=ids, columns="metric", values="value")
