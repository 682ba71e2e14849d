"""What this book found in the papers, as data: every claim and every discrepancy, with the numbers
behind it and the place where each of them is computed."""

from __future__ import annotations

import json
import re
from functools import cache
from string import Formatter
from typing import Literal

from pydantic import BaseModel

from probebook_book.findings import (
    WORDS,
    Evidence,
    Finding,
    How,
    Kind,
    Outcome,
    Standing,
    discrepancy_entries,
    verdicts,
)
from probebook_runs.store import book_run, hidden_outputs


class Number(BaseModel):
    """A number or word of a finding's text, and what computes it: a cell of the page (counted from
    1, code cells only) in the book's run, or a table, of a stored run where there is one."""

    name: str
    value: float | str
    cell: int | None = None
    table: str | None = None
    run: str | None = None


class Seen(BaseModel):
    """What was found on one kind of evidence: the text with its numbers, the page, and the runs in
    which the claim holds, fails or stays open (with `sweep`: models of that stored sweep)."""

    kind: Kind
    text: str
    page: str
    sweep: str
    holds: tuple[str, ...]
    fails: tuple[str, ...]
    open: tuple[str, ...]
    numbers: list[Number]


class ClaimFound(BaseModel):
    """A claim of a paper, and this book's verdict (`status`); the evidence nearest to the paper
    comes first."""

    paper: int
    place: str
    claim: str
    status: Outcome
    evidence: list[Seen]


class DiscrepancyFound(BaseModel):
    """What a paper prints, what follows instead, and where: `status` is "stands" if the
    comparisons in `stands` are right on the numbers of the book's run, "gone" if one is not, "read"
    if it was found by reading code and there is nothing to compare."""

    paper: int
    place: str
    what: str
    printed: str
    recomputed: str
    stands: list[str]
    status: Standing
    kind: How
    page: str
    section: str
    numbers: list[Number]


class Findings(BaseModel):
    """All findings of a book's run of a profile."""

    version: Literal["1.0"]
    profile: str
    claims: list[ClaimFound]
    discrepancies: list[DiscrepancyFound]


def found() -> Findings:
    """All claims and discrepancies with the numbers of the book's runs.

    UserError: a page's run is not finished, or lacks a number."""
    claims = [
        ClaimFound(
            paper=paper.paper,
            place=claim.place,
            claim=claim.claim,
            status=claim.verdict,
            evidence=[*map(_seen, claim.lines)],
        )
        for paper in verdicts()
        for claim in paper.claims
    ]
    discrepancies = [
        DiscrepancyFound(
            paper=entry.paper,
            place=entry.filled(entry.place),
            what=entry.what,
            printed=entry.filled(entry.printed),
            recomputed=entry.filled(entry.follows),
            stands=[*map(entry.filled, entry.stands)],
            status=entry.status,
            kind=entry.how,
            page=entry.page,
            section=entry.section,
            numbers=_numbers(entry, entry.place, entry.printed, entry.follows, *entry.stands),
        )
        for entry in discrepancy_entries()
    ]
    profile = book_run(discrepancies[0].page).profile
    return Findings(version="1.0", profile=profile, claims=claims, discrepancies=discrepancies)


def schema() -> str:
    """The JSON schema of `Findings`; `book/findings.schema.json` keeps it."""
    return json.dumps(Findings.model_json_schema(), indent=1, ensure_ascii=False)


def _seen(line: Evidence) -> Seen:
    text = re.sub(r"\s+", " ", line.filled(line.evidence)).strip()
    return Seen(
        kind=line.kind,
        text=text,
        page=line.page,
        sweep=line.sweep,
        holds=line.holds,
        fails=line.fails,
        open=line.open,
        numbers=_numbers(line, line.evidence),
    )


def _numbers(of: Finding, *texts: str) -> list[Number]:
    """The numbers that the texts quote, in their order, each once."""
    names = [name for text in texts for _, name, _, _ in Formatter().parse(text) if name]
    return [_number(of, name) for name in dict.fromkeys(names)]


def _number(of: Finding, name: str) -> Number:
    value = of.numbers()[name]
    if name not in of.stored:
        return Number(name=name, value=value, cell=_cells(of.page)[name])
    run, table, _, _ = of.stored[name]
    return Number(name=name, value=value, table=table, run=None if run in WORDS else run)


@cache
def _cells(page: str) -> dict[str, int]:
    """The code cell of the page, counted from 1, that puts each number into its text."""
    notebook = book_run(page).read()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return {
        name.replace(":", ""): number
        for number, cell in enumerate(code, 1)
        for name, _ in hidden_outputs(type(notebook)(cells=[cell]))
    }
