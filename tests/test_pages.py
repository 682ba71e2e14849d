"""Every page of the book, run headless at its smallest; and the shape that pages have."""

import os
import re

import nbformat
import pandas as pd
import pytest

from conftest import contents
from probebook.base import ROOT
from probebook_runs.execute import run_all
from probebook_runs.pages import find, pages, profile_values
from probebook_runs.plain import quotes, stored_numbers
from probebook_runs.records import METRICS
from probebook_runs.store import plan

NAMES = [page.name for page in pages()]


@pytest.mark.parametrize("name", NAMES)
def test_page_runs_and_keeps_its_tables(built_book, name):
    """The run that the built book shows."""
    run = plan(find(name), "smoke")
    assert run.finished
    table = pd.read_parquet(run.folder / METRICS)
    assert table["table"].nunique() >= 2, "a page records two tables or more"
    assert table["value"].notna().all()
    assert table["value"].between(-5.0, 1e6).where(table.metric != "items", table.value > 0).all()


@pytest.mark.skipif(
    "PROBEBOOK_DATA" not in os.environ, reason="PROBEBOOK_DATA is not set: no real sentences"
)
def test_a_page_runs_on_real_sentences(forks):
    page = find("1_causal_probing/03_first_interventions")
    run = plan(page, "smoke", {"data": "natural", "n": 1200})
    assert run_all([run], server=forks) == []
    table = pd.read_parquet(run.folder / METRICS)
    best = table[table.table == "best"].pivot(index="method", columns="metric", values="value")
    assert set(best.index) == {"INLP", "AlterRep", "FGSM"}
    assert best.reliability.between(0.05, 1).all()


@pytest.mark.parametrize(("metric", "printed"), [("completeness", "0.89"), ("strength", "–")])
def test_the_sweep_report_sets_another_score_beside_its_own_published_value(forks, metric, printed):
    run = plan(find("6_across_papers/01"), "smoke", {"metric": metric})
    assert run_all([run], server=forks) == []
    [cell] = [cell for cell in run.read().cells if "side.loc[methods]" in cell.source]
    shown = re.search(r">FGSM</th>\s*<td[^>]*>([^<]*)", cell.outputs[-1].data["text/html"])
    assert shown[1] == printed


@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_the_notebook_is_plain_markdown(name):
    """No role and no directive of MyST, no number that is missing, no link that leads nowhere."""
    texts = "\n\n".join(cell.source for cell in beside(name).cells if cell.cell_type == "markdown")
    prose = re.sub(r"```.*?```", "", texts, flags=re.S)
    assert re.findall(r"\{[a-z:]+\}`|^(?:```|:::)\{.*", texts, re.M) == []
    numbers = stored_numbers(name)
    assert [
        one
        for cell in find(name).notebook.cells
        if cell.cell_type == "markdown"
        for one in quotes(cell.source)
        if one not in numbers
    ] == []
    targets = re.findall(r"\]\(([^)\s]+\.(?:ipynb|md))\)", prose)
    assert [one for one in targets if not (find(name).path.parent / one).exists()] == []


def beside(name):
    """The notebook beside a page."""
    return nbformat.read(find(name).path.with_suffix(".ipynb"), as_version=4)


@pytest.mark.parametrize("profile", ["smoke", "real", "paper"])
def test_every_page_has_values_in_each_profile(profile):
    values = profile_values(profile)
    missing = [name for name in NAMES if name not in values]
    assert not missing, f"add to notebooks/profiles/{profile}.yaml: {missing}"


def test_the_table_of_contents_has_every_page():
    written = [
        path.relative_to(ROOT).with_suffix("").as_posix()
        for folder in ("book", "notebooks")
        for path in (ROOT / folder).rglob("*.md")
        if "_static" not in path.parts
    ]
    assert sorted(contents()) == sorted(written), "each page once in _toc.yml"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, values in profile_values("paper").items()
        if "SentEval" in values.get("source", "")
    ],
)
def test_the_paper_profile_asks_no_more_items_than_senteval_has(name):
    """Of a class, in train and a quarter as many in dev and test: SentEval's own parts, or pooled
    and divided anew as 4:1:1."""
    values = profile_values("paper")[name]
    parts = {
        "SentEval/data/probing": (100_000, 10_000, 10_000),
        "SentEval/pooled": (80_000, 20_000, 20_000),
    }[values["source"]]
    classes = 6 if "sentence_length" in values.get("tasks", []) else 2
    room = min(parts[0], 4 * parts[1], 4 * parts[2]) // classes
    asked = [values.get("per_class", 0), values.get("items", 0), *values.get("sizes", [])]
    assert max(asked) <= room
