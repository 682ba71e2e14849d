"""How the pages read: evidence visible, few numbers in prose, one shape."""

import ast
import re

import pytest

from probebook_book.reading import FOLD
from probebook_runs.pages import Page, pages

NAMES = [page.name for page in pages()]
GLUE = re.compile(r"\{glue(?::\w+)?\}`")
KINDS = ["**generated text**", "**real text**", "**printed or released numbers**"]
STATISTICS = {
    "mean",
    "std",
    "var",
    "sem",
    "median",
    "quantile",
    "corr",
    "corrcoef",
    "fit",
    "rate",
    "bootstrap",
    "contrasts",
    "holm",
    "groupby",
}


def texts(name: str) -> list[str]:
    """The page's text cells, up to its exercises."""
    source = Page(name).notebook.cells
    before = []
    for cell in source:
        if cell.cell_type == "markdown":
            text, found, _ = cell.source.partition("\n## Exercises")
            before.append(text)
            if found or text.startswith("## Exercises"):
                break
    return before


def all_text(name: str) -> str:
    return "\n\n".join(
        cell.source for cell in Page(name).notebook.cells if cell.cell_type == "markdown"
    )


def claim(name: str) -> str:
    return re.search(r":::\{div\} claim\n(.*?)\n:::", all_text(name), re.S)[1]


def prose(name: str) -> str:
    """The text outside folds, without formulas and markup."""
    text = FOLD.sub("", "\n\n".join(texts(name)))
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$", " x ", text, flags=re.S)
    return re.sub(r"\{[\w:]+\}`[^`]*`|[`:{}|#*-]", " w ", text)


def words(text: str) -> int:
    return len(re.findall(r"[A-Za-z]\S*", re.sub(r"\bw\b(?:\s+w\b)*", "w", text)))


@pytest.mark.parametrize("name", NAMES)
def test_its_shape(name):
    headings = re.findall(r"^## (.+)$", all_text(name), re.M)
    last = [
        heading
        for heading in headings
        if heading in ("What we learned", "Check yourself", "Exercises")
    ]
    assert last == ["What we learned", "Check yourself", "Exercises"]
    assert Page(name).title.endswith("?")
    assert ":::{div} needs" in all_text(name)


@pytest.mark.parametrize("name", NAMES)
def test_few_numbers_in_prose(name):
    assert len(GLUE.findall(all_text(name))) <= 15
    for paragraph in all_text(name).split("\n\n"):
        assert len(GLUE.findall(paragraph)) <= 3, paragraph


@pytest.mark.parametrize("name", NAMES)
def test_a_short_claim_with_its_evidence(name):
    assert len(claim(name).split()) <= 60
    assert len(GLUE.findall(claim(name))) <= 2
    assert any(kind in claim(name) for kind in KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_words_before_the_exercises(name):
    print(
        f"{name}: {words(prose(name))} words, {len(GLUE.findall(all_text(name)))} glued numbers, "
        f"claim {len(claim(name).split())} words"
    )
    assert words(prose(name)) <= 1500


@pytest.mark.parametrize("name", NAMES)
def test_two_questions_with_one_right_answer_each(name):
    part = re.search(r"^## Check yourself\n(.*?)(?=^## )", all_text(name) + "\n## ", re.S | re.M)[1]
    questions = re.split(r"^\*\*\d\.\*\*", part, flags=re.M)[1:]
    assert len(questions) == 2
    for question in questions:
        answers = re.findall(r"\{dropdown\}.*?\n(Right:|Not quite:)", question)
        assert len(answers) == question.count("{dropdown}") >= 3
        assert answers.count("Right:") == 1


@pytest.mark.parametrize("name", NAMES)
def test_no_evidence_is_hidden(name):
    code = Page(name).code
    for i, (tags, source) in enumerate(code):
        if "remove-cell" not in tags:
            continue
        tree, nodes = ast.parse(source), list(ast.walk(ast.parse(source)))
        assert len(source.splitlines()) <= 10, source
        assert not any(
            isinstance(node, ast.Assert | ast.FunctionDef | ast.IfExp | ast.If) for node in nodes
        ), source
        called = {
            getattr(node.func, "attr", getattr(node.func, "id", ""))
            for node in nodes
            if isinstance(node, ast.Call)
        }
        assert not called & (STATISTICS | {"write_table"}), source
        kept = {
            name.id
            for statement in tree.body
            for name in ast.walk(statement)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        later = {
            node.id
            for tags, other in code[i + 1 :]
            if "remove-cell" not in tags
            for node in ast.walk(ast.parse(other))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        again = {
            node.id
            for tags, other in code
            if "remove-cell" not in tags
            for node in ast.walk(ast.parse(other))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        assert not (kept & later) - again, f"visible code needs {kept & later}"


@pytest.mark.parametrize("name", NAMES)
def test_cells_hold_one_idea(name):
    for tags, source in Page(name).code:
        if "parameters" not in tags and "exercise" not in tags:
            assert len(source.splitlines()) <= 25, source


@pytest.mark.parametrize("name", NAMES)
def test_no_word_is_chosen_for_the_text(name):
    for _, source in Page(name).code:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("glue", "in_text"):
                chosen = [part for part in ast.walk(node) if isinstance(part, ast.IfExp)]
                assert not chosen, ast.unparse(node)
