"""Slides, handouts and solutions, made from the pages of the built book."""
from __future__ import annotations

import re

import pytest

from conftest import probebook
from probebook.labs.exercises import exercises
from probebook.publish import pdf
from probebook.publish.course import mistakes, quiz
from probebook.runs.pages import Page, find, pages

NAMES = [page.name for page in pages()]


@pytest.fixture(scope="module")
def course(built_book, tmp_path_factory):
    """The material of chapters 2 and 6, from the smoke profile's runs."""
    out = tmp_path_factory.mktemp("course")
    done = probebook("course", str(out), "2", "6", env={"PROBEBOOK_PROFILE": "smoke"})
    assert done.returncode == 0, done.stderr[-2000:]
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


def test_a_deck_has_the_pages_titles_claims_and_pictures_and_needs_no_network(course):
    text = (course / "2" / "slides.html").read_text(encoding="utf-8")
    chapter = [page for page in pages() if page.name.startswith("2_")]
    for page in chapter:
        assert re.search(rf"<h2[^>]*>{re.escape(page.title.replace('’', '’'))}", text)
    assert text.count("data:image/png") >= len(chapter)
    assert text.count("What we learned") == len(chapter)
    assert "{glue" not in text
    assert "{term}" not in text
    loaded = re.findall(r"""<(?:script|link|img)[^>]+(?:src|href)=["']([^"']+)""", text)
    assert loaded
    for address in loaded:
        assert address.startswith("data:") or (course / "2" / address).resolve().is_file()


def test_the_handout_is_one_page(course):
    if not pdf.chromium():
        pytest.skip("no Chromium")
    from pypdf import PdfReader
    for chapter in ("2", "6"):
        assert len(PdfReader(course / chapter / "handout.pdf").pages) == 1


def test_the_instructors_page_has_what_the_book_leaves_out(course, built_book):
    text = (course / "2" / "instructor.html").read_text(encoding="utf-8")
    page = find("2_concept_effects/03")
    for exercise in exercises(page.notebook):
        assert exercise.title in text
    shown = (built_book / "notebooks" / f"{page.name}.html").read_text(encoding="utf-8")
    answer = "are not told the wanted label"
    assert answer in text
    assert answer not in shown


def test_usual_mistakes_are_those_of_the_check():
    said = mistakes(find("1_causal_probing/01"), "check.majority_ze(answer, ze, test)")
    assert said == ["count test sentences only, and of these only the ones with an attractor"]
    assert mistakes(find("1_causal_probing/01"), "check.no_such(answer)") == []


def test_a_chapter_that_is_none_is_refused(tmp_path):
    done = probebook("course", str(tmp_path), "9")
    assert done.returncode == 2
    assert "no chapter '9': there are 1, 2, 3, 4, 5, 6" in done.stderr
