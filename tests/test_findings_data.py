"""Findings as data: they follow the schema, name what computes them, and turn with the figures."""

import json

import jsonschema
import pytest

from conftest import HOME, probebook
from probebook.base import ROOT, UserError
from probebook_book import findings
from probebook_book.findings import discrepancy_entries, discrepancy_table, schema, verdicts
from probebook_runs.pages import Page
from probebook_runs.store import book_run

SCHEMA = ROOT / "book" / "findings.schema.json"
ALTERREP = discrepancy_entries()[0]


@pytest.fixture(scope="module")
def printed(built_book) -> dict:
    """What the command prints of the smoke profile's runs."""
    done = probebook("findings", "--profile", "smoke", env={"PROBEBOOK_HOME": str(HOME)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_schema_in_the_book_is_that_of_the_command():
    assert SCHEMA.read_text(encoding="utf-8").rstrip() == schema(), (
        "probebook findings --format schema > book/findings.schema.json; another version, if a "
        "reader of the old one would break"
    )


def test_what_the_command_prints_follows_the_schema(printed):
    jsonschema.validate(printed, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert printed["profile"] == "smoke"


def test_every_claim_and_discrepancy_is_printed_in_order(printed):
    claims = [claim for paper in verdicts() for claim in paper.claims]
    assert [c["claim"] for c in printed["claims"]] == [c.claim for c in claims]
    assert [c["status"] for c in printed["claims"]] == [
        c["evidence"][0]["word"] for c in printed["claims"]
    ]
    assert [[line["kind"] for line in c["evidence"]] for c in printed["claims"]] == [
        [line.kind for line in c.evidence] for c in claims
    ]
    assert [d["what"] for d in printed["discrepancies"]] == [e.what for e in discrepancy_entries()]


def test_every_effect_has_a_number_or_a_reason_and_says_something(printed):
    for claim in printed["claims"]:
        for line in claim["evidence"]:
            for effect in line["effects"]:
                assert effect["outcomes"], effect["what"]
                assert (effect["value"] is None) == bool(effect["why"]), effect["what"]
                counted, exact = effect["of"] is not None, effect["low"] == effect["high"]
                assert (effect["p"] is None) == (counted or exact), effect["what"]


def test_every_discrepancy_stands_on_the_books_runs(printed):
    """Only what quotes no number at all has nothing to compare."""
    for entry in printed["discrepancies"]:
        assert entry["status"] == ("stands" if entry["numbers"] else "read"), entry["what"]


def test_the_cell_of_a_number_puts_it_into_the_text(printed, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_PROFILE", "smoke")
    evidence = [line for claim in printed["claims"] for line in claim["evidence"]]
    for line in [*evidence, *printed["discrepancies"]]:
        cells = [cell for cell in book_run(line["page"]).read().cells if cell.cell_type == "code"]
        for number in line["numbers"]:
            if number["cell"]:
                names = [
                    output.metadata.get("scrapbook", {}).get("name", "").replace(":", "")
                    for output in cells[number["cell"] - 1].outputs
                    if "metadata" in output
                ]
                assert number["name"] in names


def test_a_changed_published_figure_turns_its_status(monkeypatch):
    """If the row had been printed as equation 4 gives it, nothing would be left to find."""
    numbers = {"alter_published": (0.8346, 1), "alter_recomputed": (0.87905, 1)}
    monkeypatch.setattr(findings, "values_and_cells", lambda page: numbers)
    assert ALTERREP.resolve().status == "stands"
    numbers["alter_published"] = (0.8790, 1)
    assert ALTERREP.resolve().status == "gone"


def test_the_audit_page_says_what_is_gone(monkeypatch):
    monkeypatch.setattr(findings, "discrepancy_entries", lambda: [ALTERREP])
    numbers = {"alter_published": (0.8346, 1), "alter_recomputed": (0.87905, 1)}
    monkeypatch.setattr(findings, "values_and_cells", lambda page: numbers)
    assert "No longer so" not in discrepancy_table(1)
    numbers["alter_published"] = (0.8790, 1)
    assert "No longer so" in discrepancy_table(1)


@pytest.mark.parametrize("comparison", ["1 = 1", "1 != two", "1 !=", "{alter_published} 1"])
def test_a_comparison_of_another_form_is_refused(comparison, monkeypatch):
    numbers = {"alter_published": (0.8, 1), "alter_recomputed": (0.8, 1)}
    monkeypatch.setattr(findings, "values_and_cells", lambda page: numbers)
    entry = ALTERREP.model_copy(update={"stands": (comparison,)})
    with pytest.raises(UserError, match="two numbers"):
        entry.resolve()


def test_every_page_of_a_finding_exists():
    assert all(Page(entry.page).path.exists() for entry in discrepancy_entries())
