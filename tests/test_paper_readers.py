"""Chapter 5's readers as the paper trains them, on CoQA's format: tiny BERT, RoBERTa and XLNet."""

import json
import re
import shutil

import nbformat
import pandas as pd
import pytest

import tiny_encoders
from conftest import KEPT
from probebook.base import UserError
from probebook.corpora import stories
from probebook_chapters import semantic_faithfulness as experiment
from probebook_runs.execute import run_all
from probebook_runs.pages import find
from probebook_runs.records import METRICS
from probebook_runs.store import plan


def as_coqa(table, several: bool = False) -> dict:
    """Generated stories in CoQA's format: the annotated span covers the rationale's sentences.

    `several`: three more people answer, as in CoQA's development set; the second says unknown."""

    def answer(turn, row):
        start, end = (row.rationale[0][0], row.rationale[-1][1]) if row.rationale else (-1, -1)
        return {
            "span_start": start,
            "span_end": end,
            "span_text": row.story[start:end] if row.rationale else "unknown",
            "input_text": row.answer,
            "turn_id": turn,
        }

    def others(part):
        told = part, part.assign(answer="unknown"), part
        return {
            str(i): [answer(turn, row) for turn, row in enumerate(one.itertuples(), 1)]
            for i, one in enumerate(told)
        }

    return {
        "version": "1.0",
        "data": [
            {
                "id": str(i),
                "story": part.story.iloc[0],
                "questions": [
                    {"input_text": text, "turn_id": turn}
                    for turn, text in enumerate(part.question, 1)
                ],
                "answers": [answer(turn, row) for turn, row in enumerate(part.itertuples(), 1)],
            }
            | ({"additional_answers": others(part)} if several else {})
            for i, part in table.groupby("story_id")
        ],
    }


@pytest.fixture(scope="module")
def made():
    """Folders of the encoders, and a source: a file to ask about, beside one to train on. They are
    always the same, so that finished runs are found again."""
    folder = KEPT / "readers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    told = {
        part: stories.generate(4, seed, length=(4, 6)) for part, seed in (("dev", 5), ("train", 6))
    }
    for part, table in told.items():
        (folder / f"small-{part}.json").write_text(json.dumps(as_coqa(table, part == "dev")))
    words = {
        word
        for table in told.values()
        for text in (*table.story, *table.question)
        for word in re.findall(r"\w+", text.lower())
    }
    encoders = tiny_encoders.save(folder, sorted(words))
    for name, kind in NAMED.items():
        encoders[name] = str(shutil.copytree(folder / kind, folder / name))
    return encoders, f"coqa:{folder}/small-dev.json", told


def test_a_coqa_file_of_generated_stories_is_read_as_they_are(made):
    read, table = experiment.questions(made[1]), made[2]["dev"]
    assert (
        read[["story", "question", "answer", "gold"]].to_numpy()
        == table[["story", "question", "answer", "gold"]].to_numpy()
    ).all()
    assert (read.history.map(len) == table.turn).all()
    one = table.rationale.map(len) == 1
    assert one.sum() > 10
    assert (read.references == [[a, a, "unknown", a] for a in table.answer]).all()
    assert read.rationale[one.to_numpy()].tolist() == table.rationale[one].tolist()


@pytest.mark.parametrize(
    "name, heads, lr",
    [("bert", "tagging", 3e-5), ("roberta", "tagging", 1e-5), ("xlnet", "typed", 3e-5)],
)
def test_the_papers_recipes(made, name, heads, lr):
    recipe = experiment.recipe(made[0][name])
    assert (recipe.heads, recipe.lr, recipe.optimizer, recipe.embeddings) == (
        heads,
        lr,
        "adamw",
        True,
    )
    assert (recipe.max_length, recipe.stride, recipe.context, recipe.epochs, recipe.tagging) == (
        512,
        128,
        64,
        1,
        5,
    )


@pytest.mark.parametrize(
    "source, where",
    [
        ("stories", "stories"),
        ("coqa:dev", "coqa:train"),
        ("hotpotqa:dev_100", "hotpotqa:train_100"),
        ("coqa:train", "coqa:train"),
        ("coqa:dev/my-dev.json", "coqa:dev/my-train.json"),
    ],
)
def test_readers_are_trained_on_other_stories_than_they_are_asked_about(source, where):
    assert experiment.training_source(source) == where


def test_a_file_without_a_training_part_is_refused():
    with pytest.raises(UserError, match="…train… beside it"):
        experiment.training_source("coqa:dev/my.json")


PAGES = {
    "01_stories_and_models": {"n": 4, "regimes": ["ot", "ibt"]},
    "03_inside": {"n": 4, "regimes": ["ot", "ibt"]},
    "04_negation": {"n": 300, "per_kind": 16, "regimes": ["ot", "ibt"]},
    "05_predicate_argument": {"n": 12, "draws": 50, "regimes": ["ot", "ibt"]},
}
TABLE_4 = {"n": 4, "n_again": 3, "regimes": ["ot", "ot-matched", "ibt"]}
NAMED = {"roberta-base": "roberta", "xlnet-large-cased": "xlnet"}  # folders with a paper's name
# each page and each encoder here, all pairs of them in make verify
EACH = [
    ("02_deletion", "bert"),
    ("02_deletion", "xlnet"),
    ("01_stories_and_models", "bert"),
    ("03_inside", "xlnet-large-cased"),
    ("04_negation", "roberta-base"),
    ("05_predicate_argument", "roberta-base"),
]


def pairs(names, encoders) -> list:
    """Pages and encoders, as parameters of a test."""
    return [
        pytest.param(page, encoder, marks=[] if (page, encoder) in EACH else pytest.mark.verify)
        for page in names
        for encoder in encoders
    ]


ASKED = pairs(["02_deletion"], ["bert", "roberta", "xlnet"]) + pairs(PAGES, ["bert"])
OF_ONE_MODEL = pairs([page for page in PAGES if page != "01_stories_and_models"], NAMED)


@pytest.fixture(scope="module")
def runs(made, forks, request):
    """The runs that are asked for, on our own encoders, started together; failed ones are not
    finished."""
    asked = {
        (item.callspec.params["page"], item.callspec.params["encoder"])
        for item in request.session.items
        if item.module is request.module and "runs" in item.fixturenames
    }
    planned = {
        (page, encoder): plan(
            find(f"5_semantic_faithfulness/{page}"),
            values={
                "encoder": made[0][encoder],
                "source": made[1],
                "train": 4,
                **PAGES.get(page, TABLE_4),
            },
        )
        for page, encoder in sorted(asked)
    }
    run_all([*planned.values()], server=forks)
    return planned


@pytest.mark.parametrize("page, encoder", ASKED)
def test_pages_run_on_an_encoder_of_ones_own(runs, page, encoder):
    run = runs[page, encoder]
    assert run.finished
    if page == "02_deletion":
        table = pd.read_parquet(run.folder / METRICS).query("table == 'table4'")
        assert {*table.reader} >= {*TABLE_4["regimes"]}
        assert {*table.version} == {"OS", "TS", "TS-R", "TS-R+Aug"}


@pytest.mark.parametrize("page, encoder", OF_ONE_MODEL)
def test_pages_show_the_printed_row_of_the_papers_model_that_was_read(runs, page, encoder):
    run = runs[page, encoder]
    assert run.finished
    outputs = [
        str(output.data["text/html"])
        for cell in nbformat.read(run.path, as_version=4).cells
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    ]
    own = experiment.MODELS[encoder]
    *_, beside_ours = (
        html
        for html in outputs
        if [name for name in experiment.MODELS.values() if name in html] == [own]
    )
    ours = "value" if page == "04_negation" else "intervention"  # 04: all readers' range
    assert ours in beside_ours
