"""What this book finds in the papers: verdicts on their claims, and numbers that do not add up.

The words stand in `book/verdicts.yaml` and `book/discrepancies.yaml`; the runs give the numbers,
and `rule` the verdicts.

    collect().claims[0].status, collect().claims[0].evidence[0].effects
"""

from __future__ import annotations

import ast
import json
from functools import cache
from operator import ge, gt, le, lt, ne
from string import Formatter
from typing import Literal, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from probebook.base import UserError, read_yaml
from probebook.measures.intervals import holm
from probebook_book.effects import BOOK_RUN, Effect, Row, Rows, column, stored_value
from probebook_book.rule import SCOPES, WORDS, Kind, outcome, verdict
from probebook_book.templates import render
from probebook_runs.pages import Page, home
from probebook_runs.store import book_run, hidden_outputs

Method = Literal["arithmetic", "released", "run"]
Status = Literal["stands", "gone", "read"]
Stored = dict[str, tuple[str, str, Row | Rows, str]]  # name → run, table, row, metric
Entry = TypeVar("Entry", bound=BaseModel)
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
    """What one kind of evidence says of a claim: the text, the page, the effects that decide, and
    the models (real text).

    In the text, `{name:.2f}` is a number that the page quotes, or one of `stored`. The effects are
    a family, whose p are corrected (Holm); `family` selects the rows of their table that belong to
    it, too."""

    kind: Kind
    text: str
    page: str
    effects: list[Effect]
    models: tuple[str, ...] = ()
    word: str = ""
    numbers: list[Number] = []
    stored: Stored = Field({}, exclude=True)
    family: Rows | None = Field(None, exclude=True)

    def resolve(self) -> Evidence:
        """The same with its numbers in the text, and listed, its effects measured, and its word.
        UserError: a number is missing."""
        text = " ".join(fill(self, self.text).split())
        values = _values(self)
        effects = self._judge([effect.measure(self.page, values) for effect in self.effects])
        word = verdict(self.kind, [name for effect in effects for name in effect.outcomes])
        update = {"text": text, "numbers": _numbers(self, self.text), "effects": effects}
        return self.model_copy(update=update | {"word": word})

    def _judge(self, effects: list[Effect]) -> list[Effect]:
        """The effects with p corrected by Holm's method, and their outcomes."""
        raw = {i: effect.p for i, effect in enumerate(effects) if effect.p is not None}
        p = dict(zip(raw, holm([*raw.values()]))) if len(raw) > 1 else raw
        if self.family:
            rows = [effect.at for effect in effects if effect.at]  # all are, in one table
            members = column(self.page, (*rows[0][:2], self.family), "p")
            corrected = dict(zip(members.index, holm(members)))
            p = {i: corrected[row] for i, (_, _, row) in enumerate(rows)}
        judged = []
        for i, effect in enumerate(effects):
            said = effect.outcomes
            if not said:
                assert effect.value is not None and effect.low is not None
                assert effect.high is not None  # a number has ends, which may be itself
                ends = (effect.value, effect.low, effect.high)
                said = [outcome(ends, effect.claim, p.get(i))]
            judged.append(effect.model_copy(update={"p": p.get(i), "outcomes": said}))
        return judged


class Claim(_Strict):
    """A claim of a paper, where the paper makes it, and this book's verdict (`status`), which is
    that of the evidence nearest to the paper; this comes first."""

    paper: int = 0
    place: str
    claim: str
    status: str = ""
    evidence: list[Evidence]
    key: str = Field("", exclude=True)

    def resolve(self) -> Claim:
        """The same with its evidence and its verdict. UserError: a number is missing."""
        evidence = [line.resolve() for line in self.evidence]
        return self.model_copy(update={"evidence": evidence, "status": evidence[0].word})


class Paper(_Strict):
    """A paper: its question, the answer in a few sentences, one finding for the front page, and its
    claims. The finding quotes claims and effects by their keys: `{lead.value:.2f}`."""

    paper: int
    chapter: str
    title: str
    cite: str
    question: str
    answer: str
    finding: str
    claims: list[Claim]

    def resolve(self) -> Paper:
        """The same with its claims' verdicts and the numbers in its finding. UserError: a number
        is missing."""
        claims = [claim.model_copy(update={"paper": self.paper}).resolve() for claim in self.claims]
        effects = [effect for claim in claims for line in claim.evidence for effect in line.effects]
        keyed: list[Claim | Effect] = [*claims, *effects]
        names = {one.key: one for one in keyed if one.key}
        finding = " ".join(self.finding.format_map(names).split())
        return self.model_copy(update={"claims": claims, "finding": finding})


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

    version: Literal["2.0"]
    profile: str
    claims: list[Claim]
    discrepancies: list[Discrepancy]


def collect() -> Findings:
    """All claims and discrepancies with the numbers of the book's runs.

    UserError: a page's run is not finished, or lacks a number."""
    claims = [claim for paper in verdicts() for claim in paper.resolve().claims]
    entries = [entry.resolve() for entry in discrepancy_entries()]
    profile = book_run(entries[0].page).profile
    return Findings(version="2.0", profile=profile, claims=claims, discrepancies=entries)


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
    """One row per paper as HTML: its question, and what this book finds."""
    return render("papers.html.j2", papers=[paper.resolve() for paper in verdicts()])


def claims(paper: int) -> str:
    """A paper's claims as an HTML table: each with its verdict, its first effect, and
    a fold with what each kind of evidence says and the runs."""
    [entry] = [entry.resolve() for entry in verdicts() if entry.paper == paper]
    return render("claims.html.j2", claims=entry.claims, Page=Page)


def rule_table() -> str:
    """What a line's effects say, and the word it gets by the kind of its evidence, as HTML."""
    return render("rule.html.j2", words=WORDS, scopes=SCOPES, verdict=verdict)


def corrections() -> str:
    """Where to send a correction, as HTML: the repository's issues, the contact of CITATION.cff, or
    whoever published the copy."""
    config, citation = (read_yaml(home() / name) for name in ("_config.yml", "CITATION.cff"))
    people = [*citation.get("contact", []), *citation["authors"]]
    contact = next((f"mailto:{one['email']}" for one in people if "email" in one), "")
    url = config.get("repository", {}).get("url")
    issues = f"{url.rstrip('/')}/issues" if url else ""
    return render("corrections.html.j2", issues=issues, contact=contact)


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
        stored = None if run == BOOK_RUN else run
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
