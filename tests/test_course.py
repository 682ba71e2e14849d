"""Slides, handouts and solutions, made from the pages of the built book."""

from __future__ import annotations

import html
import re

import pytest

from conftest import probebook
from probebook.base import UserError
from probebook_book import course as courses
from probebook_book import pdf
from probebook_book.course import mistakes, quiz
from probebook_runs.labs.exercises import exercises
from probebook_runs.pages import Page, find, pages

NAMES = [page.name for page in pages()]
CHAPTERS = list(pdf.chapters())


@pytest.fixture(scope="module")
def course(built_book, tmp_path_factory):
    """The material of all chapters, from the smoke profile's runs, by the command of the book's
    page on grading."""
    out = tmp_path_factory.mktemp("course")
    done = probebook("course", str(out), env={"PROBEBOOK_PROFILE": "smoke"})
    assert done.returncode == 0, done.stderr[-2000:]
    files = courses.FILES if pdf.chromium() else [f for f in courses.FILES if "pdf" not in f]
    assert done.stdout.split() == [
        str(out / chapter / file) for chapter in CHAPTERS for file in files
    ]
    assert {path.name for path in out.iterdir()} == {"offline", *CHAPTERS}
    return out


@pytest.mark.parametrize("name", NAMES)
def test_every_page_has_slides_and_a_quiz(name):
    page = Page(name)
    tagged = [tags for tags, _ in page.code if "slide" in tags]
    assert 1 <= len(tagged) <= 6
    assert all("remove-cell" not in tags and "hide-cell" not in tags for tags in tagged)
    assert len(quiz(page)) == 2
    for question, answers, right in quiz(page):
        assert question
        assert len(answers) >= 3
        assert re.match(r"\*\*[a-d]\*\* · Right:", right)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_deck_has_the_pages_titles_claims_and_pictures_and_needs_no_network(course, chapter):
    text = (course / chapter / "slides.html").read_text(encoding="utf-8")
    of_chapter = [page for page in pages() if page.name.startswith(f"{chapter}_")]
    for page in of_chapter:
        assert re.search(rf"<h2[^>]*>{re.escape(page.title.replace('’', '’'))}", text)
    assert text.count("data:image/png") >= len(of_chapter)
    assert text.count("What we learned") == len(of_chapter)


@pytest.mark.parametrize("file", ["slides.html", "handout.html", "instructor.html"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_is_loaded_from_elsewhere_and_no_mark_is_left(course, chapter, file):
    text = (course / chapter / file).read_text(encoding="utf-8")
    assert not re.search(r"\{(?:glue|term|doc|eq|numref|cite)\b", text)
    assert not re.search(r"url\((?!data:)|@import", text)
    loaded = re.findall(r"""<(?:script|link|img)[^>]+(?:src|href)=["']([^"']+)""", text)
    assert loaded
    for address in loaded:
        assert address.startswith("data:") or (course / chapter / address).resolve().is_file()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_handout_is_one_page(course, chapter):
    if not pdf.chromium():
        pytest.skip("no Chromium")
    from pypdf import PdfReader

    assert len(PdfReader(course / chapter / "handout.pdf").pages) == 1


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_instructors_page_has_every_exercise_and_a_rubric_for_each_written_answer(
    course, chapter
):
    text = html.unescape((course / chapter / "instructor.html").read_text(encoding="utf-8"))
    asked = [
        exercise
        for page in pages()
        if page.name.startswith(f"{chapter}_")
        for exercise in exercises(page.notebook)
    ]
    for exercise in asked:
        assert exercise.title in text
    written = sum(exercise.kind == "interpretation" for exercise in asked)
    assert text.count("Rubric:") == text.count("<blockquote>") == written


def test_a_chapter_that_cannot_be_made_stops_no_other_and_leaves_nothing(tmp_path, monkeypatch):
    def texts(files):
        if "book/paper_2" in files:
            raise UserError("no finished run")
        return dict.fromkeys(courses.FILES[:2], "new")

    def not_printed(*_):
        raise UserError("could not be printed")

    monkeypatch.setattr(courses, "_texts", texts)
    monkeypatch.setattr(pdf, "chromium", lambda: None)
    made = []
    with pytest.raises(UserError, match="^chapter 2 is not written: no finished run$"):
        for path in courses.write(tmp_path):
            made.append(path)
    assert [path.parent.name for path in made[::2]] == [c for c in CHAPTERS if c != "2"]
    assert {path.name for path in tmp_path.iterdir()} == {"offline", *CHAPTERS} - {"2"}

    (tmp_path / "1" / "slides.html").write_text("old")
    monkeypatch.setattr(pdf, "chromium", lambda: "chromium")
    monkeypatch.setattr(pdf, "print_page", not_printed)
    with pytest.raises(UserError, match="^chapter 1 is not written: could not be printed$"):
        list(courses.write(tmp_path, ("1",)))
    assert (tmp_path / "1" / "slides.html").read_text() == "old"


def test_the_built_book_folds_in_the_solution_that_the_instructor_has(course, built_book):
    text = (course / "2" / "instructor.html").read_text(encoding="utf-8")
    page = find("2_concept_effects/03")
    shown = (built_book / "notebooks" / f"{page.name}.html").read_text(encoding="utf-8")
    answer = "are not told the wanted label"
    assert answer in text
    before, _, after = shown.partition(answer)
    fold = before.rpartition("<details")[2]
    assert after
    assert "A solution (try first)" in fold
    assert "</details>" not in fold
    assert "open" not in fold.partition(">")[0]


def test_usual_mistakes_are_those_of_the_check():
    hints = mistakes(find("1_causal_probing/01"), "check.majority_ze(answer, ze, test)")
    assert hints == ["count test sentences only, and of these only the ones with an attractor"]
    assert mistakes(find("1_causal_probing/01"), "check.no_such(answer)") == []


def test_a_chapter_that_is_none_is_refused(tmp_path):
    done = probebook("course", str(tmp_path), "9")
    assert done.returncode == 2
    assert "no chapter '9': there are 1, 2, 3, 4, 5, 6" in done.stderr
