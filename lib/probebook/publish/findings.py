"""What this book found in the papers.

The words stand in `book/discrepancies.yaml` and `book/verdicts.yaml`; the runs give the numbers."""
from __future__ import annotations

import ast
import html
from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from probebook.base import UserError, read_yaml
from probebook.runs.archive import archived, manifests
from probebook.runs.pages import Page, home
from probebook.runs.store import book_run, hidden_outputs

Kind = Literal["printed or released numbers", "real text", "generated text"]
Outcome = Literal["reproduced", "partly", "not"]
Row = str | int | tuple[str | int, ...]     # its id, or its ids
WORDS = ("this book's run", "the printed numbers", "the released code")  # runs that are not stored


class Finding(BaseModel):
    """Texts about a page, with places for numbers.

    `{name:.2f}` is a number that the page quotes in its own text. `stored` names further numbers,
    of stored runs: run, table, row (a list where the table has several ids), metric."""
    model_config = ConfigDict(extra="forbid", frozen=True)
    page: str
    stored: dict[str, tuple[str, str, Row, str]] = {}

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
        """The kind of evidence, of real text with the models, and the runs, in a line."""
        runs = "; ".join(f"{said} in {', '.join(names)}" for said, names in self.runs.items())
        return f"{self.kind}{self._models()}: {runs}"

    def _models(self) -> str:
        if self.sweep:
            return f" (sweep {self.sweep})"
        if self.kind != "real text":
            return ""
        about = manifests()
        names = [name.split(" (")[0] for names in self.runs.values() for name in names]
        found = [about[f"{self.page}/{name}"]["parameters"] for name in names
                 if f"{self.page}/{name}" in about]
        models = [value for parameters in found for key in ("model", "encoder", "encoders")
                  if key in parameters for value in np.atleast_1d(parameters[key])[:1]]
        return f" ({', '.join(dict.fromkeys(models))})"


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

    The evidence of a claim stands nearest first, a row each: kind and runs, numbers, page."""
    [verdict] = [verdict for verdict in verdicts() if verdict.paper == paper]
    rows = []
    for claim in verdict.claims:
        for line in claim.lines:
            first = (claim.claim, claim.verdict) if line is claim else ("", "")
            texts = map(html.escape, (*first, line.said, line.filled(line.evidence)))
            rows.append([*texts, page_link(line.page, Page(line.page).title)])
    head = ("claim", "here", "kind of evidence, and runs", "evidence", "page")
    return f"<p>{html.escape(verdict.sentence)}</p>{html_table(head, rows)}"


def readme_tables() -> str:
    """The README's two tables in Markdown: the papers, and their claims with kinds and runs."""
    papers = ["| paper | here | in a sentence |", "|---|---|---|"]
    rows = ["| claim | here | kind of evidence, and runs; nearest to the paper first |",
            "|---|---|---|"]
    for paper in verdicts():
        papers.append(f"| {paper.paper} · {paper.title} | {paper.verdict} | {paper.sentence} |")
        rows += [f"| {paper.paper} · {claim.claim} | {claim.verdict} "
                 f"| {' · '.join(line.said for line in claim.lines)} |" for claim in paper.claims]
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


def _stored(page: str, run: str, table: str, row: Row, metric: str) -> float:
    found = archived(page, table).get(run)
    if found is None or row not in found.index or metric not in found:
        raise UserError(f"discrepancies.yaml: no stored {page}/{run} with {metric!r} of {row!r} in "
                        f"table {table!r}")
    return float(found.loc[row, metric])
