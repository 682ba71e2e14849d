"""Minutes of pages, and the paths through the book."""

import re
from operator import itemgetter

import pytest
from nbformat import v4

from probebook_audit import QUESTIONS
from probebook_book import reading, syllabus
from probebook_runs.pages import Page

HEADER = "---\nkernelspec: {display_name: Python 3, language: python, name: python3}\n---\n"
FIGURE = "---\nmystnb:\n  figure:\n    caption: c\n---\ndraw()\n"
TABLE = FIGURE.replace("figure", "table")


def page(tmp_path, monkeypatch, text):
    monkeypatch.setenv("PROBEBOOK_HOME", str(tmp_path))
    (tmp_path / "notebooks/1_demo").mkdir(parents=True)
    amount = Page("1_demo/01")
    amount.path.write_text(HEADER + text, encoding="utf-8")
    return amount


def test_what_is_counted(tmp_path, monkeypatch):
    text = (
        "# A title\n\nfour words of text {term}`probe`\n\n"
        "```{dropdown} Fold\nmany words here\n```\n\n"
        "```{code-cell} ipython3\na = 1\nb = 2\n```\n\n"
        "```{code-cell} ipython3\n:tags: [hide-input]\n\nc = 3\n```\n\n"
        f"```{{code-cell}} ipython3\n{FIGURE}```\n\n"
        f"```{{code-cell}} ipython3\n{TABLE}```\n\n"
        "## Exercises\n\nnot counted\n\n```{code-cell} ipython3\nd = 4\n```\n"
    )
    amount = reading.amount(page(tmp_path, monkeypatch, text))
    assert amount == reading.Amount(words=7, lines=4, figures=1, tables=1)


def test_minutes_add_up():
    assert reading.Amount(words=1050, lines=150, figures=4, tables=2).minutes == 10 + 10 + 6 + 4


def executed(tag: str, html: str):
    output = v4.new_output("display_data", {"text/html": html})
    cell = v4.new_code_cell(outputs=[output], metadata={"tags": [tag]})
    return v4.new_notebook(cells=[v4.new_markdown_cell("few " * 285), cell])


def test_the_times_stand_at_the_head_of_the_box():
    text = ":::{div} needs\nRead first: nothing.\n:::"
    lines = reading.add_times(text, executed("hide-input", ""), 200).splitlines()
    assert lines[0] == ":::{div} needs"
    assert lines[1].startswith("**3 minutes to read**, about 0 more")
    assert "runs in 3 minutes." in lines[1]
    assert lines[2:] == ["", "Read first: nothing.", ":::"]
    assert reading.add_times("no box", executed("check", ""), 200) == "no box"


@pytest.mark.parametrize(
    ("tag", "html", "folds"),
    [
        ("hide-input", "<table>", ["code"]),
        ("hide-cell", "<table>", ["numbers"]),
        ("hide-output", "<div><table>", ["numbers"]),
        ("hide-cell", "<img>", []),
        ("check", "<table>", []),
    ],
)
def test_a_page_gets_switches_for_the_folds_that_it_has(tag, html, folds):
    text = reading.add_times(":::{div} needs\n:::", executed(tag, html), 60)
    assert re.findall(r'data-folds="(.*?)"', text) == folds


TITLE = itemgetter("title")


@pytest.mark.parametrize("path", syllabus.plan()["paths"], ids=TITLE)
def test_a_path_names_pages_once(path):
    names = [syllabus.page_of(name).name for name in path["pages"]]
    assert len(set(names)) == len(names)
    assert all(syllabus.page_of(name).path.exists() for name in names)


def test_the_sum_of_a_path_is_that_of_its_pages():
    for row in re.findall(r"<tr><td>.*?</tr>", syllabus.paths()):
        minutes = [int(one) for one in re.findall(r"\((\d+)\)", row)]
        assert int(re.search(r"<td>(\d+)</td></tr>", row)[1]) == sum(minutes) > 60


@pytest.mark.parametrize("week", syllabus.plan()["weeks"], ids=TITLE)
def test_a_week_has_core_pages_of_at_most_1500_words_and_says_what_each_page_teaches(week):
    assert all(reading.amount(syllabus.page_of(name)).words <= 1500 for name in week["core"])
    names = [*week["core"], week["lab"], *week["optional"]]
    assert len(set(names)) == len(names)
    notebooks = [name for name in names if not name.startswith("book/")]
    for name in names:
        page = syllabus.page_of(name)
        assert page.name.removeprefix("book/") in syllabus.table()
        assert len(syllabus.learning_outcomes(page)) >= 2 or name not in notebooks
    assert syllabus.outcomes(week["title"]).count("<tr>") == len(notebooks) + 1
    assert "{" not in syllabus.outcomes(week["title"])


@pytest.mark.parametrize("week", syllabus.plan()["weeks"], ids=TITLE)
def test_the_total_of_a_week_is_that_of_its_core_pages_and_its_lab(week):
    needed = [syllabus.page_of(name) for name in (*week["core"], week["lab"])]
    read = sum(map(syllabus.reading_minutes, needed))
    done = sum(map(reading.exercise_minutes, needed))
    [row] = [row for row in syllabus.table().split("<tr>") if week["title"] in row]
    assert f"<td>{read + done}: {read} to read, {done} for exercises</td>" in row


def test_every_paper_is_obligatory_and_pages_of_tables_have_minutes_of_their_own():
    weeks = syllabus.plan()["weeks"]
    pages = {name for week in weeks for name in (*week["core"], week["lab"])}
    assert {name[0] for name in pages if not name.startswith("book/")} == set("123457")
    assert syllabus.reading_minutes(syllabus.page_of("book/audit")) == 15
    assert all(syllabus.page_of(name).path.exists() for name in syllabus.plan()["minutes"])


def test_the_projects_rubric_is_that_of_the_audits_questions():
    text = syllabus.page_of("book/syllabus").source
    rows = re.findall(r"^\| (\d+)\. (.+?) \| .+ \| .+ \| .+ \|$", text, re.M)
    assert [question for _, question in rows] == list(QUESTIONS.values())
    assert [int(number) for number, _ in rows] == [*range(1, 11)]
