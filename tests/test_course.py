"""Slides, handouts and solutions, made from the pages of the built book."""

from __future__ import annotations

import html
import re
import zipfile
from xml.etree import ElementTree

import pytest
from markupsafe import escape

from conftest import probebook
from probebook.base import ROOT, UserError, read_yaml
from probebook_book import course as courses
from probebook_book import lectures, pdf, quizzes
from probebook_book.course import mistakes, typeset
from probebook_book.lectures import definitions, equations, excerpt, quiz
from probebook_book.quizzes import platform_html
from probebook_book.templates import render
from probebook_runs.labs.exercises import exercises
from probebook_runs.pages import Page, find, pages

NAMES = [page.name for page in pages()]
CHAPTERS = list(pdf.chapters())
LECTURES = read_yaml(ROOT / "book" / "lectures.yaml")


@pytest.fixture(scope="module")
def course(built_book, tmp_path_factory):
    """The material of all chapters, from the smoke profile's runs, by the command of the book's
    page on grading."""
    out = tmp_path_factory.mktemp("course")
    done = probebook("course", str(out), env={"PROBEBOOK_PROFILE": "smoke"})
    assert done.returncode == 0, done.stderr[-2000:]
    files = courses.FILES if pdf.chromium() else [f for f in courses.FILES if "pdf" not in f]
    assert done.stdout.split() == [
        *(str(out / name) for name in quizzes.NAMES),
        *(str(out / chapter / file) for chapter in CHAPTERS for file in files),
    ]
    assert {path.name for path in out.iterdir()} == {"offline", *quizzes.NAMES, *CHAPTERS}
    return out


@pytest.mark.parametrize("name", NAMES)
def test_every_page_has_slides_and_a_quiz(name):
    page = Page(name)
    tagged = [tags for tags, _ in page.code if "slide" in tags]
    assert 1 <= len(tagged) <= 6
    assert all("remove-cell" not in tags and "hide-cell" not in tags for tags in tagged)
    assert len(quiz(page)) == 2
    for question in quiz(page):
        assert question.text
        assert len(question.options) >= 3
        kinds = [comment.partition(":")[0] for comment in question.options.values()]
        assert sorted(kinds) == ["Not quite"] * (len(kinds) - 1) + ["Right"]


def of_chapter(chapter: str) -> list[Page]:
    return [page for page in pages() if page.name.startswith(f"{chapter}_")]


def words_of(path) -> str:
    """The text of an HTML page, without code and formulas."""
    text = re.sub(
        r"<(script|style|pre|code)\b.*?</\1>|<[^>]+>", "", path.read_text("utf-8"), flags=re.S
    )
    return html.unescape(re.sub(r"\$\$.+?\$\$|\$[^$]+\$", "", text, flags=re.S))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_a_lecture_names_stands_on_the_pages(chapter):
    plan, of_it = LECTURES[int(chapter)], of_chapter(chapter)
    assert set(plan["terms"]) <= set(definitions())
    assert set(plan["equations"]) <= set(equations())
    assert all(excerpt(passage) for passage in plan["passages"])
    assert 2 <= len(excerpt(plan["code"]).splitlines()) <= 4
    named = {
        cell.metadata.mystnb.figure.name
        for page in of_it
        for cell in page.notebook.cells
        if "slide" in cell.metadata.get("tags", []) and "figure" in cell.metadata.get("mystnb", {})
    }
    assert plan["figure"] in named
    assert set(plan["blanks"]) == {page.name for page in of_it}
    for page in of_it:
        assert lectures.claim(page, plan["blanks"][page.name], "____").count("____") >= 1


def test_what_a_lecture_lacks_is_named():
    page = find("1_causal_probing/03")
    with pytest.raises(UserError, match="no line of 1_causal_probing/03.* begins 'x = no'"):
        excerpt(LECTURES[1]["code"] | {"begins": "x = no"})
    with pytest.raises(UserError, match="'no such words' is not in the claim of 1_causal"):
        lectures.claim(page, ["no such words"], "{}")
    with pytest.raises(UserError, match="refers to 'eq-none', which no page has"):
        lectures.plain("{eq}`eq-none`", page)
    shown = {"title": "A", "pages": [page], "definitions": {}, "equations": {}}
    for lecture, said in ({"passages": [], "terms": ["probe"]}, "'probe'"), ({}, "'passages'"):
        with pytest.raises(UserError, match=f"^deck.html.j2: 'dict object' has no .* {said}$"):
            render("deck.html.j2", courses.FILTERS, lecture=lecture, **shown)


def test_references_are_in_words():
    page = find("1_causal_probing/03")
    assert equations()["eq-first-selectivity"][:2] == (page, 2)
    assert lectures.plain("{eq}`eq-first-selectivity`", page) == "equation 2"
    assert lectures.plain("{eq}`eq-reliability`", page) == "equation 4 of “Notation”"
    said = lectures.plain("{numref}`fig-strength` and {numref}`Fig. %s <fig-strength>`", page)
    assert re.fullmatch(r"(the figure “[A-Z][^”.:]+”) and \1", said)


def test_quotes_are_curly_but_not_in_code_tags_and_formulas():
    page = (
        """<p title='a'>"No", it's <em>"his"</em> <code>'x'</code> $f'(x)$, &quot;yes&quot;</p>"""
    )
    assert typeset(page) == (
        "<p title='a'>“No”, it’s <em>“his”</em> <code>'x'</code> $f'(x)$, “yes”</p>"
    )


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_deck_is_a_lecture(course, chapter):
    """With terms, equations, lines of code, and notes for the speaker at each figure and question;
    each page's title, pictures and lesson."""
    text = (course / chapter / "slides.html").read_text(encoding="utf-8")
    plan, of_it = LECTURES[int(chapter)], of_chapter(chapter)
    assert re.findall(r"<dt>([^<]*)</dt>", text) == [
        typeset(str(escape(term))) for term in plan["terms"]
    ]
    for label in plan["equations"]:
        assert f"$$ {equations()[label][2]} $$" in html.unescape(text)
    assert html.escape(excerpt(plan["code"]).splitlines()[0], quote=True) in text
    for page in of_it:
        assert f"<h2>{typeset(str(escape(page.title)))}</h2>" in text
    figures = text.count("<figure>")
    assert len(of_it) <= figures <= text.count("data:image/png") + 2
    assert text.count('class="notes"') >= figures + 3 * len(of_it)
    assert text.count("<h3>What we learned</h3>") == len(of_it)
    assert text.count('class="fragment"') == 2 * len(of_it)


def test_the_first_deck_begins_with_its_sentence(course):
    text = words_of(course / "1" / "slides.html")
    assert "The keys to the cabinet ___ on the table" in text
    for term in ("probe", "completeness", "selectivity", "reliability", "attractor", "INLP"):
        assert lectures.definitions()[term].split(".")[0].replace("*", "")[:40] in text


@pytest.mark.parametrize("file", ["slides.html", "handout.html", "instructor.html"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_material_is_typeset(course, chapter, file):
    text = words_of(course / chapter / file)
    assert "¶" not in text
    assert not re.search(r"""\w'\w|["]""", text)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_handouts_blanks_are_filled_in_on_the_instructors_page(course, chapter):
    handout = (course / chapter / "handout.html").read_text(encoding="utf-8")
    instructor = words_of(course / chapter / "instructor.html")
    phrases = [phrase for page in LECTURES[int(chapter)]["blanks"].values() for phrase in page]
    assert handout.count('class="blank"') == len(phrases)
    assert handout.count("data:image/png") == 1
    assert handout.count("$$ ") == len(LECTURES[int(chapter)]["equations"])
    for phrase in phrases:
        assert typeset(phrase) in instructor


def read_gift(text: str) -> dict[str, tuple[str, list[tuple[str, str, bool]]]]:
    """Name, question and answers (text, comment, whether it is right) of GIFT in the form [html]."""
    plain = re.compile(r"\\(.)")
    found = {}
    for block in re.findall(r"^::(.*?)^}$", text, re.M | re.S):
        name, question, answers = re.fullmatch(
            r"((?:\\.|[^:])*)::\[html\]((?:\\.|[^{])*) \{\n(.*)", block, re.S
        ).groups()
        listed = re.findall(r"^([=~])((?:\\.|[^#\\])*)#(.*)$", answers, re.M)
        found[plain.sub(r"\1", name)] = (
            plain.sub(r"\1", question),
            [
                (plain.sub(r"\1", answer), plain.sub(r"\1", comment), sign == "=")
                for sign, answer, comment in listed
            ],
        )
    return found


def read_qti(path) -> dict[str, tuple[str, list[tuple[str, str, bool]]]]:
    """The same of a zip file of QTI 1.2, which its manifest lists."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        manifest = ElementTree.fromstring(archive.read("imsmanifest.xml"))
        files = [file.get("href") for file in manifest.iterfind(".//{*}file")]
        assert sorted([*files, "imsmanifest.xml"]) == sorted(archive.namelist())
        for file in files:
            for item in ElementTree.fromstring(archive.read(file)).iterfind(".//{*}item"):
                said = {
                    one.get("ident"): one.findtext(".//{*}mattext")
                    for one in item.iterfind("{*}itemfeedback")
                }
                right = [
                    one.findtext(".//{*}varequal")
                    for one in item.iterfind(".//{*}respcondition")
                    if one.findtext("{*}setvar") == "100"
                ]
                linked = {
                    one.findtext(".//{*}varequal"): one.find("{*}displayfeedback").get("linkrefid")
                    for one in item.iterfind(".//{*}respcondition")
                }
                found[item.get("title")] = (
                    item.findtext("{*}presentation//{*}mattext"),
                    [
                        (
                            label.findtext(".//{*}mattext"),
                            said[linked[label.get("ident")]],
                            label.get("ident") in right,
                        )
                        for label in item.iterfind(".//{*}response_label")
                    ],
                )
    return found


def test_the_quizzes_of_all_pages_are_read_back_from_both_exports(tmp_path):
    """Questions, options, the right one, and what is said to whoever chooses it."""
    gift, qti = quizzes.write(tmp_path)
    asked = {
        question.name: (
            platform_html(question.text),
            [
                (platform_html(option), platform_html(why), why.startswith("Right:"))
                for option, why in question.options.items()
            ],
        )
        for page in pages()
        for question in quiz(page)
    }
    assert len(asked) == 2 * len(pages())
    assert any("\\(" in question for question, _ in asked.values())
    assert read_gift(gift.read_text(encoding="utf-8")) == asked
    assert read_qti(qti) == asked


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
        assert typeset(exercise.title) in text
    written = sum(exercise.kind == "interpretation" for exercise in asked)
    assert text.count("Rubric:") == text.count("<blockquote>") == written
    assert "first selectivity" not in text


def test_a_chapter_that_cannot_be_made_stops_no_other_and_leaves_nothing(tmp_path, monkeypatch):
    def texts(number, files):
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
    made = made[len(quizzes.NAMES) :]
    assert [path.parent.name for path in made[::2]] == [c for c in CHAPTERS if c != "2"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "offline",
        *quizzes.NAMES,
        *CHAPTERS,
    } - {"2"}

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
