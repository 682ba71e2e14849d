"""Verdicts follow from effects by the printed rule, and from nothing else."""

from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from probebook.base import UserError
from probebook_book import effects, findings
from probebook_book.effects import BOOK_RUN, Effect
from probebook_book.findings import Claim, Evidence, rule_table, verdicts
from probebook_book.rule import (
    SCOPES,
    outcome,
    outcome_of_count,
    p_value,
    verdict,
)

PRINTED, REAL, GENERATED = SCOPES
OUTCOMES = ("confirms", "contradicts", "undecided")
SETS = [*chain.from_iterable(combinations(OUTCOMES, n) for n in (1, 2, 3))]


@pytest.mark.parametrize(
    ("outcomes", "word", "generated"),
    [
        (("confirms",), "confirmed", "shown"),
        (("contradicts",), "contradicted", "not reproduced"),
        (("undecided",), "undecided", "undecided"),
        (("confirms", "undecided"), "partly confirmed", "partly shown"),
        (("contradicts", "undecided"), "partly contradicted", "not reproduced"),
        (("confirms", "contradicts"), "mixed", "mixed"),
        (OUTCOMES, "mixed", "mixed"),
    ],
)
def test_the_word_of_a_line(outcomes, word, generated):
    """Every set of outcomes has one; how often each occurs, and in which order, does not matter."""
    assert verdict(PRINTED, outcomes) == f"{word} on the paper's own numbers"
    assert verdict(REAL, outcomes[::-1] * 3) == f"{word} on real text"
    assert verdict(GENERATED, outcomes) == f"{generated} in generated text"


@pytest.mark.parametrize("outcomes", SETS)
def test_generated_text_never_contradicts(outcomes):
    assert "contradicted" not in verdict(GENERATED, outcomes)
    assert "confirmed" not in verdict(GENERATED, outcomes)


def test_the_page_prints_the_rule_that_is_used():
    rows = BeautifulSoup(rule_table(), "html.parser").select("tbody tr")
    assert len(rows) == len(SETS)
    for outcomes, *words in ([cell.text for cell in row.find_all("td")] for row in rows):
        for kind, word in zip(SCOPES, words, strict=True):
            assert verdict(kind, outcomes.split(" and ")) == f"{word} {SCOPES[kind]}"


@pytest.mark.parametrize(
    ("value", "low", "high", "side", "says"),
    [
        (2, 1, 3, "> 0", "confirms"),
        (-2, -3, -1, "> 0", "contradicts"),
        (2, -1, 5, "> 0", "undecided"),
        (-2, -5, 1, "> 0", "undecided"),
        (2, 1, 3, "< 4", "confirms"),
        (2, 1, 3, "< .5", "contradicts"),
        (2, 1, 3, "< 2.5", "undecided"),
        (2, 1, 3, "= 0", "contradicts"),  # equality can be refuted
        (0, -1, 1, "= 0", "undecided"),  # but an interval never shows it
        (0, 0, 0, "= 0", "confirms"),  # an exact number does
        (0.4, 0.4, 0.4, "= 0", "contradicts"),
        (0, 0, 0, "> 0", "contradicts"),
        (0, 0, 0.1, "< .5", "confirms"),  # a share of none, Wilson's interval
        (1, 0.9, 1, "< .5", "contradicts"),
        (np.nan, np.nan, np.nan, "> 0", "undecided"),
        (1, np.nan, np.nan, "> 0", "undecided"),
    ],
)
def test_an_effect_says_where_its_interval_lies(value, low, high, side, says):
    p = p_value(value, low, high, float(side[1:]))
    assert outcome((value, low, high), side, p) == says


def test_neither_p_nor_the_interval_decides_alone():
    assert outcome((0.2, -0.1, 0.4), "> 0", 0.02) == "undecided"
    assert outcome((0.2, 0.1, 0.4), "> 0", 0.06) == "undecided"
    assert outcome((0.2, 0.1, 0.4), "> 0", 0.02) == "confirms"


def test_p_is_below_five_per_cent_where_the_interval_excludes_the_threshold():
    rng = np.random.default_rng(0)
    for value, less, more, threshold in rng.exponential(size=(1000, 4)):
        low, high = value - less, value + more
        p = p_value(value, low, high, threshold)
        assert (p < 0.05) == (not low <= threshold <= high)
    assert p_value(1.96, 0, 3.92, 0) == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize(
    ("hits", "says"),
    [(5, ["confirms"]), (0, ["contradicts"]), (4, ["confirms", "contradicts"])],
)
def test_counts_say_all_none_or_some(hits, says):
    assert outcome_of_count(hits, 5) == says


def test_what_counts_leave_open_contradicts_nothing():
    assert outcome_of_count(2, 11, 4) == ["confirms", "contradicts", "undecided"]
    assert outcome_of_count(2, 11, 0) == ["confirms", "undecided"]
    assert outcome_of_count(0, 3, 0) == ["undecided"]


# from tables to verdicts


@pytest.fixture
def table(monkeypatch) -> pd.DataFrame:
    """What every table of a run holds: three rows, their intervals and p."""
    rows = {"a": (1.0, 0.5, 1.5, 0.01), "b": (0.2, -0.1, 0.5, 0.2), "c": (0.3, 0.1, 0.5, 0.03)}
    frame = pd.DataFrame(rows, index=["here", "low", "high", "p"]).T.rename_axis("row")
    monkeypatch.setattr(effects, "_table", lambda page, run, name: frame)
    monkeypatch.setattr(findings, "values_and_cells", lambda page: {"n": (3, 1), "of": (4, 1)})
    return frame


def line(*found: dict, kind=REAL, **more) -> Evidence:
    return Evidence(kind=kind, text="So it is.", page="1_a/01", effects=list(found), **more)


def row(name: str, claim: str = "> 0", **more) -> dict:
    return {"what": name, "claim": claim, "at": (BOOK_RUN, "table", name), **more}


def test_a_changed_number_turns_the_verdict(table):
    claim = Claim(place="§ 1", claim="It is more", evidence=[line(row("a"))])
    assert claim.resolve().status == "confirmed on real text"
    table.loc["a"] = (-1.0, -1.5, -0.5, 0.01)
    assert claim.resolve().status == "contradicted on real text"
    table.loc["a"] = (0.1, -0.5, 0.7, 0.9)
    assert claim.resolve().status == "undecided on real text"


def test_the_nearest_line_decides(table):
    far, near = line(row("a"), kind=GENERATED), line(row("b"))
    claim = Claim(place="§ 1", claim="It is more", evidence=[near, far]).resolve()
    assert claim.status == "undecided on real text"
    assert [one.word for one in claim.evidence] == [claim.status, "shown in generated text"]


def test_the_family_is_corrected_as_a_whole(table):
    """p = .03 passes alone, not as one of three; .01 passes as the least of three."""
    assert line(row("c")).resolve().effects[0].outcomes == ["confirms"]
    alone = line(row("a"), row("c")).resolve().effects
    assert [one.p for one in alone] == pytest.approx([0.02, 0.03])
    family = line(row("a"), row("c"), family={"row": ["a", "b", "c"]}).resolve().effects
    assert [one.p for one in family] == pytest.approx([0.03, 0.06])
    assert [one.outcomes for one in family] == [["confirms"], ["undecided"]]


def test_of_several_rows_the_least_or_the_largest_counts(table):
    rows = (BOOK_RUN, "table", {"row": ["a", "b"]})
    least = line({"what": "all", "claim": "> 0", "at": rows}).resolve().effects[0]
    assert (least.value, least.low, least.high) == (0.2, -0.1, 0.5)
    largest = line({"what": "all", "claim": "< 2", "at": rows}).resolve().effects[0]
    assert (largest.value, largest.low, largest.high) == (1.0, 0.5, 1.5)


def test_a_difference_of_two_rows_adds_their_errors_as_squares(table):
    found = line(row("a", minus=(BOOK_RUN, "table", "c"))).resolve().effects[0]
    half = np.hypot(0.5, 0.2)
    assert (found.value, found.low, found.high) == pytest.approx((0.7, 0.7 - half, 0.7 + half))


def test_values_by_seed_have_students_interval(monkeypatch):
    """Of two methods the better counts for "<": the least distance from the threshold."""
    index = pd.MultiIndex.from_product([range(5), ["x", "y"]], names=["seed", "method"])
    values = np.column_stack([[0.1, 0.2, 0.3, 0.2, 0.2], [0.5, 0.6, 0.7, 0.6, 0.6]]).ravel()
    frame = pd.DataFrame({"score": values}, index=index)
    monkeypatch.setattr(effects, "_table", lambda page, run, name: frame)
    at = ("sweep", "best", {"method": ["x", "y"]})
    found = Effect(what="largest", claim="< .8", at=at, numbers=["score"]).measure("1_a/01", {})
    assert found.value == pytest.approx(0.6)
    assert found.low < 0.6 < found.high < 0.8
    assert found.high == pytest.approx(0.6 + 2.776 * np.sqrt(0.005 / 5), abs=1e-3)
    one = ("sweep", "best", {"method": "x"})
    less = Effect(what="x less y", claim="< 0", at=one, minus=("s", "b", {"method": "y"}))
    less = less.model_copy(update={"numbers": ("score",)}).measure("1_a/01", {})
    assert less.value == pytest.approx(-0.4)


def test_counts_names_and_readings(table):
    counts = {"what": "cases", "claim": "all", "numbers": ["n", "of"]}
    read = {"what": "the code", "read": "contradicts", "why": "it was read"}
    resolved = line(counts, kind=PRINTED).resolve()
    assert (resolved.word, resolved.effects[0].shown) == (
        "mixed on the paper's own numbers",
        "3 of 4",
    )
    assert line(read, kind=PRINTED).resolve().word == "contradicted on the paper's own numbers"


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        (row("z"), "no row 'z'"),
        (row("a", numbers=["score"]), "no number 'score'"),
        ({"what": "x", "claim": "> 0", "numbers": ["nothing"]}, "no number 'nothing'"),
    ],
)
def test_a_number_that_is_missing_is_named(table, effect, message):
    with pytest.raises(UserError, match=message):
        line(effect).resolve()


@pytest.mark.parametrize(
    ("value", "low", "high", "form", "shown"),
    [
        (-0.001, -0.2, 0.1, "+.2f", "+0.00 (−0.20 to +0.10)"),
        (0.4, 0.4, 0.4, ".0%", "40 %"),
    ],
)
def test_how_an_effect_is_printed(value, low, high, form, shown):
    assert Effect(what="x", value=value, low=low, high=high, form=form).shown == shown


# the claims of the papers


def test_no_verdict_is_typed_and_a_reading_has_its_reason():
    for paper in verdicts():
        for claim in paper.claims:
            assert not claim.status
            for one in claim.evidence:
                assert one.effects
                assert not any(effect.outcomes or effect.p for effect in one.effects)
                assert all(bool(effect.read) == bool(effect.why) for effect in one.effects)


def test_every_claim_computes(built_book, monkeypatch):
    """On the runs of the smoke profile: each has one of the rule's words, in the scope of its nearest
    line, and the sentences of the front page are true of the effects that they quote."""
    monkeypatch.setenv("PROBEBOOK_PROFILE", "smoke")
    resolved = [paper.resolve() for paper in verdicts()]
    for paper in resolved:
        for claim in paper.claims:
            scopes = [SCOPES[one.kind] for one in claim.evidence]
            assert claim.status.endswith(scopes[0])
            assert all(one.word.endswith(scope) for one, scope in zip(claim.evidence, scopes))
            if scopes[0] == SCOPES[GENERATED]:
                assert "contradicted" not in claim.status
    quoted = {
        effect.key: effect.outcomes
        for paper in resolved
        for claim in paper.claims
        for one in claim.evidence
        for effect in one.effects
        if effect.key
    }
    said = dict.fromkeys(("lead", "slope", "lower"), ["confirms"])
    said |= dict.fromkeys(("strangers", "times", "bert"), ["contradicts"])
    assert {key: quoted[key] for key in said} == said
