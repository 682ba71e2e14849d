"""Every page with a model of every architecture, in smoke: it runs to its end, ends early in one
line that says why, or is refused before a kernel starts. `make test` runs a few, `make verify`
all."""

import re
from functools import cache

import pytest

import zoo
from probebook.base import UserError, must_agree
from probebook.hub import kind
from probebook_runs.archive import matrix_table
from probebook_runs.execute import ended_early, execute
from probebook_runs.model_checks import check_models, named_models
from probebook_runs.pages import find, pages
from probebook_runs.schema import Fits
from probebook_runs.store import plan

NAMES = [page.name for page in pages()]
PAGES = [page.name for page in pages() if zoo.takes(page)]
KINDS = {"t5": "seq2seq", "bart": "seq2seq"} | dict.fromkeys(
    ["gpt2", "gpt_neox", "opt", "llama", "qwen"], "causal"
)
FEW = {
    "1_causal_probing/01_agreement_and_embeddings": "llama",
    "1_causal_probing/02_oracle_probes": "bart",
    "1_causal_probing/07_layers": "xlnet",
    "1_causal_probing/09_audit": "t5",
    "2_concept_effects/03_explainers": "albert",
    "3_data_requirements/05_description_length": "bart",
    "4_underspecification/03_detection": "opt",
    "5_semantic_faithfulness/02_deletion": "deberta",
}


@pytest.fixture(scope="module")
def folders():
    return zoo.kept()


@cache
def fitting(name) -> Fits:
    """What the page's own model has to be."""
    page = find(name)
    return next(fits for _, fits, _ in named_models(page.types, plan(page, "smoke").values))


def can_read(fits, folder, model, page):
    """Kinds as the page declares them; XLNet is one that 5/01 cannot use."""
    return (not fits.kinds or kind(folder) in fits.kinds) and (
        (model, page) != ("xlnet", "5_semantic_faithfulness/01_stories_and_models")
    )


@pytest.mark.parametrize("name", zoo.ZOO)
def test_the_kind_of_a_model_is_read_from_its_configuration(folders, name):
    assert kind(folders[name]) == KINDS.get(name, "masked")


def test_a_reader_is_of_its_encoders_kind():
    assert kind("pocket-stories") == kind("pocket-english") == "masked"
    assert kind("pocket-english-gpt") == "causal"


@pytest.mark.parametrize("name", PAGES)
def test_a_model_that_does_not_fit_is_refused_in_a_line_that_names_pages_that_it_fits(
    folders, name
):
    page = find(name)
    fits = fitting(name)
    for model, folder in folders.items():
        values = plan(page, "smoke", zoo.values(page, folder)).values
        if can_read(fits, folder, model, name):
            assert check_models(page.types, values) is None
            continue
        with pytest.raises(UserError) as error:
            check_models(page.types, values)
        line = str(error.value)
        assert "\n" not in line
        assert fits.words in line
        named = line.partition("It fits ")[2].split(", ")
        assert named, model
        for short in named:
            chapter, first, last = re.fullmatch(r"(\d)/(\d\d)(?:–(\d\d))?", short).groups()
            for number in range(int(first), int(last or first) + 1):
                [other] = [
                    one
                    for one in NAMES
                    if one.startswith(f"{chapter}_")
                    and one.split("/")[1].startswith(f"{number:02}")
                ]
                assert can_read(fitting(other), folder, model, other)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        pytest.param(name, model, marks=[] if FEW.get(name) == model else [pytest.mark.verify])
        for name in PAGES
        for model in zoo.ZOO
    ],
)
def test_a_page_runs_with_a_model_of_every_architecture(folders, forks, name, model):
    what, why, _ = zoo.outcome(find(name), folders[model], forks)
    assert what in ("runs", "ends early", "refused"), why
    assert "\n" not in why


def test_the_book_shows_what_became_of_every_page_with_every_architecture():
    """benchmarks/matrix.py has seen each, and none failed."""
    found = matrix_table()
    cells = [*zip(found.page, found.architecture)]
    assert sorted(cells) == sorted((name, model) for name in PAGES for model in zoo.ZOO)
    assert set(found.outcome) <= {"runs", "ends early", "refused"}


def test_a_page_ends_early_where_no_oracle_can_judge(folders, forks):
    run = plan(find("1_causal_probing/03"), "smoke", {"model": folders["bert"]})
    execute(run, server=forks)
    assert ended_early(run.read()).startswith("no usable judge: number of the ")
    left = [cell for cell in run.read().cells if cell.cell_type == "code"]
    assert not any(output.output_type == "error" for cell in left for output in cell.outputs)
    assert not left[-1].outputs


def test_what_differs_says_by_how_much():
    assert must_agree([1, float("nan")], [1 + 1e-9, float("nan")], "equal") is None
    with pytest.raises(AssertionError, match=r"^sums: 1 of 2 values differ, by up to 0\.5 "):
        must_agree([1, 2], [1, 2.5], "sums")
