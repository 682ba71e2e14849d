"""What this book finds in the papers: verdicts on their claims, and numbers that do not add up.

The words stand in `book/verdicts.yaml` and `book/discrepancies.yaml`; the runs give the numbers.

    collect().claims[0].evidence[0].numbers
"""

from __future__ import annotations

import ast
import json
from functools import cache
from operator import ge, gt, le, lt, ne
from string import Formatter
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from probebook.base import UserError, read_yaml
from probebook_book.templates import render
from probebook_runs.archive import archived, manifests
from probebook_runs.pages import Page, home
from probebook_runs.store import book_run, hidden_outputs, tables

Kind = Literal["printed or released numbers", "real text", "generated text"]
Outcome = Literal["holds", "partly", "open", "not"]
Method = Literal["arithmetic", "released", "run"]
Status = Literal["stands", "gone", "read"]
Row = str | int | tuple[str | int, ...]  # its id, or its ids
Stored = dict[str, tuple[str, str, Row, str]]  # name → run, table, row, metric
Entry = TypeVar("Entry", bound=BaseModel)
BOOK_RUN = "this book's run"
NOT_STORED = (BOOK_RUN, "the printed numbers", "the released code")  # runs that are not stored
VERDICTS: dict[Outcome, str] = {
    "holds": "holds here",
    "partly": "holds in part",
    "open": "open here",
    "not": "does not hold here",
}
METHODS: dict[Method, str] = {
    "arithmetic": "Arithmetic on printed numbers",
    "released": "Released code or outputs",
    "run": "A run of this book",
}
OPERATORS = {"!=": ne, "<": lt, ">": gt, "<=": le, ">=": ge}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)


class Number(_Strict):
    """A number or word of a finding's text, and what computes it: a cell of the page (counted from
    1, code cells only) in the book's run, or a table, of a stored run where there is one."""

    name: str
    value: float | str
    cell: int | None = None
    table: str | None = None
    run: str | None = None


class Evidence(_Strict):
    """What one kind of evidence says of a claim: the text, the page, and the runs in which the
    claim holds, fails or stays open.

    A run is a stored run of the page, one of NOT_STORED, or, with `sweep`, a model of that stored
    sweep of the page; brackets behind it say which part of it. In the text, `{name:.2f}` is a
    number that the page quotes, or one of `stored`."""

    kind: Kind
    text: str
    page: str
    sweep: str = ""
    holds: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    numbers: list[Number] = []
    stored: Stored = Field({}, exclude=True)

    @property
    def runs(self) -> dict[str, tuple[str, ...]]:
        """The runs by outcome: holds, fails, open; as far as there are any."""
        by_outcome = {"holds": self.holds, "fails": self.fails, "open": self.open}
        return {outcome: runs for outcome, runs in by_outcome.items() if runs}

    @property
    def models(self) -> list[str]:
        """The models of the stored runs on real text."""
        if self.kind != "real text":
            return []
        names = [run.split(" (")[0] for runs in self.runs.values() for run in runs]
        stored = [manifests().get(f"{self.page}/{name}", {}) for name in names]
        models = [
            value
            for parameters in (manifest.get("parameters", {}) for manifest in stored)
            for key in ("model", "models", "encoder", "encoders")
            if key in parameters
            for value in np.atleast_1d(parameters[key])[:1]
        ]
        return list(dict.fromkeys(models))

    def resolve(self) -> Evidence:
        """The same with its numbers in the text, and listed. UserError: one is missing."""
        text = " ".join(fill(self, self.text).split())
        return self.model_copy(update={"text": text, "numbers": _numbers(self, self.text)})


class Claim(_Strict):
    """A claim of a paper, where the paper makes it, and this book's verdict (`status`); the
    evidence nearest to the paper comes first."""

    paper: int = 0
    place: str
    claim: str
    verdict: Outcome = Field(serialization_alias="status")
    evidence: list[Evidence]


class Paper(_Strict):
    """A paper: its question, the answer in a few sentences, and its claims."""

    paper: int
    chapter: str
    title: str
    cite: str
    question: str
    verdict: Outcome
    answer: str
    claims: list[Claim]


class Front(_Strict):
    """A discrepancy on the first screen of the audit page: its place there, and two sentences."""

    place: int
    title: str
    printed: str
    follows: str


class Discrepancy(_Strict):
    """What a paper prints, what follows instead, and the section of a page that recomputes it.

    - `stands`: comparisons of two numbers, such as "{printed:.2f} != {here:.2f}"
    - `status`: "stands" if all of them are right on the numbers of the book's run, "gone" if one is
      not, "read" if it rests on reading code and there is nothing to compare
    - `front`: what the audit page says of it first, if it is one of the strongest"""

    paper: int
    place: str
    what: str
    printed: str
    follows: str = Field(serialization_alias="recomputed")
    stands: tuple[str, ...] = ()
    status: Status = "read"
    how: Method = Field(serialization_alias="kind")
    page: str
    section: str
    numbers: list[Number] = []
    stored: Stored = Field({}, exclude=True)
    front: Front | None = Field(None, exclude=True)

    def resolve(self) -> Discrepancy:
        """The same with its numbers in the texts, and listed, and with its status. UserError: a
        number is missing, or a comparison has another form."""
        quoting = (self.place, self.printed, self.follows, *self.stands)
        place, printed, follows, *stands = (fill(self, text) for text in quoting)
        return self.model_copy(
            update={
                "place": place,
                "printed": printed,
                "follows": follows,
                "stands": tuple(stands),
                "status": _status(stands),
                "numbers": _numbers(self, *quoting),
            }
        )


class Findings(_Strict):
    """All findings of a book's run of a profile."""

    version: Literal["1.0"]
    profile: str
    claims: list[Claim]
    discrepancies: list[Discrepancy]


def collect() -> Findings:
    """All claims and discrepancies with the numbers of the book's runs.

    UserError: a page's run is not finished, or lacks a number."""
    claims = [
        claim.model_copy(
            update={"paper": paper.paper, "evidence": [e.resolve() for e in claim.evidence]}
        )
        for paper in verdicts()
        for claim in paper.claims
    ]
    entries = [entry.resolve() for entry in discrepancy_entries()]
    profile = book_run(entries[0].page).profile
    return Findings(version="1.0", profile=profile, claims=claims, discrepancies=entries)


def schema() -> str:
    """The JSON schema of `Findings`; `book/findings.schema.json` keeps it."""
    schema = Findings.model_json_schema(mode="serialization")
    return json.dumps(schema, indent=1, ensure_ascii=False)


def verdicts() -> list[Paper]:
    """The papers, in order."""
    return _read("verdicts.yaml", Paper)


def discrepancy_entries() -> list[Discrepancy]:
    """All of them, as written. UserError: a page has no such section."""
    entries = _read("discrepancies.yaml", Discrepancy)
    for entry in entries:
        if f"\n## {entry.section}\n" not in Page(entry.page).source:
            raise UserError(f"discrepancies.yaml: {entry.page} has no section {entry.section!r}")
    return entries


def discrepancies() -> pd.DataFrame:
    """One row for each discrepancy, with the numbers of this book's runs.

    UserError: a page lacks a number or the section, or its run is not finished."""
    return pd.DataFrame(
        entry.resolve().model_dump(exclude={"stands", "numbers"}, by_alias=False)
        for entry in discrepancy_entries()
    )


def verdict_table() -> str:
    """One row per paper as HTML: its question, what became of its claims, the kinds of evidence."""
    return render("papers.html.j2", papers=verdicts())


def claims(paper: int) -> str:
    """A paper's claims as HTML: each with its verdict, and what each kind of evidence says.

    The evidence nearest to the paper stands first."""
    [entry] = [entry for entry in verdicts() if entry.paper == paper]
    return render("claims.html.j2", claims=entry.claims, verdicts=VERDICTS, fill=fill, Page=Page)


def strongest() -> str:
    """The strongest discrepancies as HTML: what is printed, what follows, the section."""
    entries = [entry for entry in discrepancy_entries() if entry.front]
    return render("strongest.html.j2", entries=entries, methods=METHODS, fill=fill)


def discrepancy_table(paper: int) -> str:
    """The discrepancies of a paper as a folded HTML table; each row links to the section."""
    entries = [entry.resolve() for entry in discrepancy_entries() if entry.paper == paper]
    return render("discrepancies.html.j2", paper=paper, entries=entries)


def _read(name: str, kind: type[Entry]) -> list[Entry]:
    try:
        return [kind(**entry) for entry in read_yaml(home() / "book" / name)]
    except ValidationError as e:
        raise UserError(f"{name}: {e.errors()[0]['loc']}: {e.errors()[0]['msg']}") from None


def _status(comparisons: list[str]) -> Status:
    """Whether all comparisons of two numbers are right. UserError: one has another form."""
    right = []
    for comparison in comparisons:
        try:
            left, operator, right_side = comparison.replace(",", "").split(" ")
            right.append(OPERATORS[operator](float(left), float(right_side)))
        except (ValueError, KeyError):
            raise UserError(
                f"{comparison!r}: two numbers, and one of {', '.join(OPERATORS)} between them"
            ) from None
    if not right:
        return "read"
    return "stands" if all(right) else "gone"


# the numbers that texts quote


def fill(finding: Evidence | Discrepancy, text: str) -> str:
    """A text of a finding with its numbers. UserError: the page does not have one of them."""
    try:
        return text.format_map(_values(finding))
    except KeyError as e:
        raise UserError(f"{finding.page} puts no number {e} into its text: {text!r}") from None


def _values(finding: Evidence | Discrepancy) -> dict[str, float | str]:
    """The numbers and words that its texts may quote, by name."""
    stored = {name: stored_value(finding.page, *at) for name, at in finding.stored.items()}
    return quoted(finding.page) | stored


def _numbers(finding: Evidence | Discrepancy, *texts: str) -> list[Number]:
    """The numbers that the texts quote, in their order, each once."""
    values, numbers = _values(finding), {}
    for name in (name for text in texts for _, name, _, _ in Formatter().parse(text) if name):
        cell = table = run = None
        if name in finding.stored:
            run, table, _, _ = finding.stored[name]
        else:
            _, cell = values_and_cells(finding.page)[name]
        stored = None if run in NOT_STORED else run
        numbers[name] = Number(name=name, value=values[name], cell=cell, table=table, run=stored)
    return list(numbers.values())


def quoted(page: str) -> dict[str, float | str]:
    """Numbers and words that a page's text quotes, by name without colons, from the book's run.

    UserError: the run is not finished."""
    return {name: value for name, (value, _) in values_and_cells(page).items()}


@cache
def values_and_cells(page: str) -> dict[str, tuple[float | str, int]]:
    """The same, each with the code cell of the page, counted from 1, that computes it."""
    notebook = book_run(page).read()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return {
        name.replace(":", ""): (_value(text), number)
        for number, cell in enumerate(code, 1)
        for name, text in hidden_outputs(type(notebook)(cells=[cell]))
        if not name.startswith("probebook:")
    }


def _value(text: str) -> float | str:
    return float(text) if text in ("nan", "inf", "-inf") else ast.literal_eval(text)


def stored_value(page: str, run: str, table: str, row: Row, metric: str) -> float:
    """A number of a table of a stored run of a page, or of this book's run.

    UserError: there is no such run, table, row or metric."""
    values = _book_table(page, table) if run == BOOK_RUN else archived(page, table).get(run)
    if values is None or row not in values.index or metric not in values:
        raise UserError(f"{page} has no {metric!r} of {row!r} in table {table!r} of {run}")
    return float(values.loc[row, metric])


@cache
def _book_table(page: str, table: str) -> pd.DataFrame | None:
    """A table of the book's run with its ids as the index; None: there is none of that name."""
    long = tables(book_run(page).read()).get(table)
    if long is None:
        return None
    ids = [column for column in long if column not in ("metric", "value")]
    return long.pivot(index=ids, columns="metric", values="value")
