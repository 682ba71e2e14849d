"""The built book's files: links lead somewhere, pictures have words. The sources: spelling,
README's table."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from pydoc import locate
from typing import get_args
from urllib.parse import unquote, urldefrag, urlparse

import numpy as np
import pytest
from bs4 import BeautifulSoup
from PIL import Image
from pydantic import ValidationError
from scipy.stats import spearmanr
from sphinx.util.inventory import InventoryFile

from probebook.base import ROOT
from probebook.corpora.published import published
from probebook_book import check, findings
from probebook_book.effects import BOOK_RUN, stored_value
from probebook_book.findings import strongest, verdicts
from probebook_book.rule import SCOPES, WORDS
from probebook_runs.archive import archived, manifests, sweep_table
from probebook_runs.pages import _imports, pages


def test_every_link_resolves(parsed):
    """Links inside the book lead to a file and a place in it; the others have an https address."""
    ids = {path: {tag["id"] for tag in page.find_all(id=True)} for path, page in parsed.items()}
    broken = []
    for path, page in parsed.items():
        for tag in page.find_all("a", href=True):
            link, place = urldefrag(tag["href"])
            if urlparse(link).scheme:
                if not link.startswith(("https://", "mailto:", "data:text/csv")):
                    broken.append(f"{path.name}: {link}")
                continue
            target = (path.parent / unquote(link)).resolve() if link else path
            places = ids.get(target, {unquote(place)})
            if not target.is_file() or (place and unquote(place) not in places):
                broken.append(f"{path.name}: {tag['href']}")
    assert not sorted(set(broken))


def test_open_tables_are_few_and_numbered_and_folds_are_named(parsed):
    """At most five tables of a page are open; each has a number, a caption and ten rows at most,
    and the text cites it. No fold of code has the default name."""
    wrong = []
    for path, page in parsed.items():
        if "notebooks" not in path.parts:
            continue
        shown = [one for one in page.select("article table") if not one.find_parent("details")]
        cited = {link.text.strip() for link in page.select("a.reference")}
        exercises = page.find("section", id="exercises")
        shown = [one for one in shown if exercises not in one.parents]
        if len(shown) > 5:
            wrong.append(f"{path.stem}: {len(shown)} open tables")
        for table in shown:
            number = (table.find_parent("figure") or table).select_one(".caption-number")
            rows = len(table.select("tbody tr"))
            if not number or not number.text.startswith("Table"):
                wrong.append(f"{path.stem}: no number: {table.text[:60]!r}")
            elif number.text.strip() not in cited:
                wrong.append(f"{path.stem}: {number.text} is not cited")
            if rows > 10:
                wrong.append(f"{path.stem}: {rows} rows: {table.text[:60]!r}")
        names = {fold.text.strip() for fold in page.select("details.hide summary .collapsed")}
        wrong += [f"{path.stem}: {name}" for name in names if name.startswith("Show code")]
    assert not wrong


def test_a_page_says_how_it_was_computed_and_a_copy_that_is_not_pocket_says_so(parsed):
    for path, page in parsed.items():
        if "notebooks" in path.parts:
            stamp = page.select_one("article .stamp").text
            assert re.search(r"Computed on 2\d{3}-.* UTC in [\d.]+ minutes: profile smoke", stamp)
            assert "profile smoke" in page.select_one(".bd-header-announcement").text


def test_every_picture_has_words(parsed):
    """Each picture has a text in its place: a figure three words or more, not a file's name.

    Only ornaments may have none."""
    bare = []
    for path, page in parsed.items():
        for image in page.find_all("img"):
            words = image.get("alt")
            in_text = image.find_parent("article") is not None
            if words is None:
                bare.append(f"{path.name}: {image.get('src', '')[-40:]}: no text")
            elif in_text and (len(words.split()) < 3 or words.endswith((".png", ".svg"))):
                bare.append(f"{path.name}: {image.get('src', '')[-40:]}: {words!r}")
    assert not bare


def test_every_figure_keeps_its_room(parsed):
    """Its width and height stand in the page, and are the file's."""
    figures = {
        path: page.select("article img[src*='_images/'][src$='.png']")
        for path, page in parsed.items()
    }
    unlike = [
        f"{path.name}: {image['src'][-40:]}"
        for path, images in figures.items()
        for image in images
        if (image.get("width"), image.get("height")) != _sides(path.parent / image["src"])
    ]
    assert sum(map(len, figures.values())) > 100
    assert not unlike


def _sides(path: Path) -> tuple[str, str]:
    with Image.open(path) as image:
        return tuple(map(str, image.size))


def test_every_term_has_its_definition(parsed):
    """Each link to the glossary is described on its page; each page of a chapter has such links."""
    linked = {path: page.select("a:has(> .std-term)") for path, page in parsed.items()}
    undefined = []
    for path, links in linked.items():
        for link in links:
            definition = parsed[path].find(id=link.get("aria-describedby", "-"))
            if definition is None or not definition.text.strip():
                undefined.append(f"{path.name}: {link.text}")
    assert not undefined
    without = [
        path.name for path, links in linked.items() if "notebooks" in path.parts and not links
    ]
    assert not without


def test_the_index_can_be_reached(parsed):
    pages = {path.name: page for path, page in parsed.items()}
    assert pages["references.html"].find("a", href="../genindex.html")
    entries = pages["genindex.html"].select(".genindextable a")
    words = {entry.text for entry in entries}
    assert {"selectivity", "INLP", "CEBaB", "pocket-english", "bootstrap"} <= words


def test_what_pages_import_is_in_the_reference(built_book):
    """Every function, class and module that a page takes from the library, except for exercises."""
    with open(built_book / "objects.inv", "rb") as file:
        kinds = InventoryFile.load(file, "", lambda base, name: name)
    described = {name for kind, names in kinds.items() if kind.startswith("py:") for name in names}
    code = "\n".join(
        cell.source for page in pages() for cell in page.notebook.cells if cell.cell_type == "code"
    )
    taken = {
        name: locate(name)
        for name in _imports(code, "")
        if not name.startswith(("probebook_runs.labs", "probebook_chapters.checks"))
    }
    missing = {
        name
        for name, thing in taken.items()
        if _has_an_entry(thing) and not {name, _own_name(thing)} & described
    }
    assert len(taken) > 100
    assert not missing


def _has_an_entry(thing) -> bool:
    """Functions, classes and modules have one; packages and constants need none."""
    if inspect.ismodule(thing):
        return not hasattr(thing, "__path__")
    return inspect.isroutine(thing) or inspect.isclass(thing)


def _own_name(thing) -> str:
    return thing.__name__ if inspect.ismodule(thing) else f"{thing.__module__}.{thing.__qualname__}"


def test_spelling():
    """Common slips, in the prose, the pages and the code."""
    places = [
        "book",
        "notebooks",
        "lib/probebook",
        "tests",
        "benchmarks",
        "README.md",
        "CONTRIBUTING.md",
    ]
    # old prose is quoted; the report holds pictures as text
    skip = "--skip=*.ipynb,*.bib,*.js,*.svg,*/offline/*,*_read.tsv,*/gemma_audit.html"
    command = [sys.executable, "-m", "codespell_lib", skip, *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


LINES = [
    pytest.param(line, id=f"{paper.paper} {claim.claim} {line.kind}")
    for paper in verdicts()
    for claim in paper.claims
    for line in claim.evidence
]


def test_readme_has_the_findings_of_the_front_page(parsed):
    """Its table of papers is that of the front page, whose numbers are those of stored runs and of
    arithmetic, so that every profile has the same."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("\n## What became of the papers\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")][2:]
    said = [[_words(re.sub(r"<br>|[*]", " ", cell)) for cell in row] for row in rows]
    [front] = [page for path, page in parsed.items() if path.name == "introduction.html"]
    table = front.find(id="what-became-of-five-papers").find("table")
    shown = [
        [_words(cell.get_text(" ")) for cell in row.find_all("td")]
        for row in table.select("tbody tr")
    ]
    assert len(said) == 5
    assert said == shown


def _words(text: str) -> list[str]:
    """Its words, without the spaces that markup leaves before signs."""
    return re.sub(r"\s+(?=[.,:])", "", text).replace("’", "'").split()


def test_no_model_of_the_papers_was_run():
    """What the front page says without a fold."""
    models = {
        str(model).lower()
        for manifest in manifests().values()
        for key in ("model", "models", "encoder", "encoders", "lms")
        for model in np.atleast_1d(manifest["parameters"].get(key, []))
    }
    assert "minilm" in models
    theirs = re.compile(r"(?<!pocket-)\b(bert|roberta|xlnet|gpt-?[23]|bart|ul2|infersent)")
    assert not [model for model in models if theirs.search(model)]
    introduction = (ROOT / "book" / "introduction.md").read_text(encoding="utf-8")
    assert "**None of the pretrained ones.** No stored run of this book uses" in introduction


@pytest.mark.parametrize(
    ("url", "person", "sent_to"),
    [
        ("https://example.org/book/", {}, "https://example.org/book/issues"),
        ("", {"email": "someone@example.org"}, "mailto:someone@example.org"),
        ("", {}, None),
    ],
)
def test_a_correction_goes_to_the_address_that_the_copy_names(url, person, sent_to, monkeypatch):
    files = {
        "_config.yml": {"repository": {"url": url}},
        "CITATION.cff": {"authors": [{"name": "The authors"} | person]},
    }
    monkeypatch.setattr(findings, "read_yaml", lambda path: files[path.name])
    link = BeautifulSoup(findings.corrections(), "html.parser").find("a")
    assert (link and link["href"]) == sent_to


def opener_of(paper) -> str:
    return (ROOT / "book" / f"paper_{paper.paper}.md").read_text(encoding="utf-8")


PAPERS = pytest.mark.parametrize("paper", verdicts(), ids=lambda paper: paper.paper)


def plain(text: str) -> str:
    """Text without what typesetting adds."""
    return text.replace("\xa0", " ").replace("’", "'").replace("*", "")


@PAPERS
def test_the_openers_box_is_the_answer(paper):
    """The question, the answer, and last the kinds of its evidence."""
    box = re.search(r":::\{div\} claim\n(.*?)\n:::", opener_of(paper), re.DOTALL)[1]
    assert box.split() == f"{paper.question} {paper.answer}".split()
    text, _, evidence = paper.answer.partition(" Evidence: ")
    named = set(re.findall(r"\*\*(.+?)\*\*", evidence))
    assert named
    assert named <= {line.kind for claim in paper.claims for line in claim.evidence}
    assert "**" not in text


@PAPERS
def test_the_opener_has_every_claim_with_its_verdict_and_effects(paper, parsed):
    """A row with the claim, one of the rule's words, and the first effect of the nearest line; in a
    fold all effects of all lines."""
    assert f"HTML(claims({paper.paper}))" in opener_of(paper)
    [page] = [page for path, page in parsed.items() if path.match(f"book/paper_{paper.paper}.html")]
    rows = page.find(id="what-became-of-the-claims").select("table > tbody > tr")
    assert len(rows) == 2 * len(paper.claims)
    words = "|".join(word for _, *both in WORDS for word in both)
    for head, fold, claim in zip(rows[::2], rows[1::2], paper.claims):
        stated, verdict, effect = (plain(cell.get_text()) for cell in head.find_all("td"))
        assert stated == plain(f"{claim.claim} ({claim.place})")
        nearest = claim.evidence[0]
        assert re.fullmatch(f"({words}) {SCOPES[nearest.kind]}", verdict)
        assert plain(nearest.effects[0].what) in effect
        shown = plain(fold.find("details").get_text())
        for line in claim.evidence:
            assert line.kind in shown.lower()
            assert all(plain(effect.what) in shown for effect in line.effects)
        assert shown.count("Run: ") == sum(len(line.effects) for line in claim.evidence)
        assert not re.search(r"Run: |real-|_real", head.get_text())


def test_no_share_in_the_evidence_is_above_one(parsed):
    """A count that is printed as a share would be."""
    boxes = {
        path.name: page.find(id="what-became-of-the-claims")
        for path, page in parsed.items()
        if path.match("book/paper_?.html")
    }
    shares = {
        name: [float(share) for share in re.findall(r"([\d.]+)\s?%", box.get_text())]
        for name, box in boxes.items()
    }
    assert len(shares) == 5
    assert any(shares.values())
    assert not {name: found for name, found in shares.items() if max(found, default=0) > 100}


def test_the_audit_opens_with_the_five_strongest(monkeypatch):
    """Arithmetic first; none of their numbers is typed; each links to its section."""
    monkeypatch.setattr(findings, "fill", lambda finding, text: text)
    marked = sorted(
        (entry for entry in findings.discrepancy_entries() if entry.front),
        key=lambda entry: entry.front.place,
    )
    assert [entry.front.place for entry in marked] == [1, 2, 3, 4, 5]
    kinds = [get_args(findings.Method).index(entry.how) for entry in marked]
    assert kinds == sorted(kinds)
    typed = [
        re.sub(r"\{[^}]*\}|Table \d+", "", f"{entry.front.printed} {entry.front.follows}")
        for entry in marked
    ]
    assert not [text for text in typed if re.search(r"\d", text)]
    items = BeautifulSoup(strongest(), "html.parser").find_all("li")
    assert [item.find("a").text for item in items] == [entry.section for entry in marked]
    audit = (ROOT / "book" / "audit.md").read_text(encoding="utf-8")
    assert audit.index("HTML(strongest())") < audit.index("HTML(discrepancy_table(1))")


@PAPERS
def test_evidence_is_nearest_first_and_none_of_its_numbers_is_typed(paper):
    """By the rules of `probebook check`: the kinds in their order, numbers of runs in sentences."""
    for claim in paper.claims:
        assert [*check.claim_faults(claim)] == [], claim.claim


@PAPERS
def test_models_that_others_trained_come_before_the_pocket_models(paper):
    for claim in paper.claims:
        lines = [line for line in claim.evidence if line.kind == "real text"]
        pocket = [any(model.startswith("pocket") for model in line.models) for line in lines]
        assert pocket == sorted(pocket), claim.claim


def test_only_three_kinds_of_evidence():
    entry = verdicts()[0].claims[0].evidence[0].model_dump()
    with pytest.raises(ValidationError, match="kind"):
        findings.Evidence(**entry | {"kind": "pocket runs"})


@pytest.mark.parametrize("line", LINES)
def test_evidence_names_its_runs_and_models(line):
    """Its runs are stored runs of the page, sweeps of its chapter, or the book's run; the models of
    a line on real text are those of its stored runs."""
    stored = {
        name.removeprefix(f"{line.page}/"): manifest["parameters"]
        for name, manifest in manifests().items()
        if name.startswith(f"{line.page}/")
    }
    places = [at for effect in line.effects for at in (effect.at, effect.minus) if at]
    runs = {run for run, *_ in [*places, *line.stored.values()]} - {BOOK_RUN}
    for sweep in runs - {*stored}:
        [page] = set(sweep_table(sweep).page)
        assert page.split("/")[0] == line.page.split("/")[0]
    assert bool(line.models) == (line.kind == "real text")
    if line.kind == "real text":
        given = [stored[run] for run in runs & {*stored} if {"model", "models"} & {*stored[run]}]
        named = [model.lower().replace(" ", "-") for model in line.models if given]
        assert not [model for model in named if model not in str(given).lower()]


@pytest.mark.parametrize("line", LINES)
def test_the_evidences_numbers_of_stored_runs_are_there(line):
    for place in line.stored.values():
        if place[0] != BOOK_RUN:  # that run is made with the book
            assert np.isfinite(stored_value(line.page, *place))


def test_rows_of_paper_4_that_are_shown():
    """The sentence's numbers: rows regenerated in the stored run, rows in print."""
    page = "4_underspecification/05_audit"
    found = archived(page, "regenerated")["real-released"]
    printed = published("underspecification_table3").set_index(["texts", "model"])
    beside = found.join(printed.loc["winogender", ["tpr", "tnr"]])
    inside = [
        beside[rate].between(beside[f"{rate} least"] - 0.0006, beside[f"{rate} most"] + 0.0006)
        for rate in ("tpr", "tnr")
    ]
    [answer] = [paper.answer for paper in verdicts() if paper.paper == 4]
    assert f"the {len(printed)} rows" in answer
    assert f"table, {(inside[0] & inside[1]).sum()} can be regenerated" in answer


def test_the_order_of_paper_2_in_the_stored_runs():
    """ρ and its interval follow from a run's errors and Table 10; no order is called the reverse.

    Only runs with a table of penalties fit INLP as printed."""
    page = "2_concept_effects/04_scoreboard"
    board, orders = archived(page, "board"), archived(page, "agreement")
    printed = published("concept_effects_table10").set_index(
        ["task", "model", "distance", "explainer"]
    )
    as_printed = archived(page, "penalties")
    assert as_printed
    for run in as_printed:
        for (task, distance), row in orders[run].iterrows():
            theirs = printed.error.sort_index().loc[task, "BERT", distance]
            ours = board[run].error.xs((task, distance), level=["task", "distance"])
            rho = spearmanr(ours[theirs.index], theirs).statistic
            half = 1.959964 * np.sqrt((1 + rho**2 / 2) / 5)
            ends = np.tanh(np.arctanh(rho) + np.array([-half, half]))
            assert row[["BERT", "BERT low", "BERT high"]].tolist() == pytest.approx(
                [rho, *ends], abs=1e-7
            )
            assert row["BERT high"] > 0
