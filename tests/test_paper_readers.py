"""Chapter 5's readers as the paper trains them, on files in CoQA's format: tiny BERT, RoBERTa and XLNet."""
import io
import json
import re

import pandas as pd
import pytest

import tiny_encoders
from conftest import probebook
from probebook.base import UserError
from probebook.corpora import stories
from probebook.experiments import semantic_faithfulness as experiment


def as_coqa(table) -> dict:
    """Generated stories as a file of CoQA has them: the annotated span is that of the rationale's sentences."""
    def answer(turn, row):
        start, end = (row.rationale[0][0], row.rationale[-1][1]) if row.rationale else (-1, -1)
        return {"span_start": start, "span_end": end, "span_text": row.story[start:end] if row.rationale else "unknown",
                "input_text": row.answer, "turn_id": turn}
    return {"version": "1.0", "data": [
        {"id": str(i), "story": part.story.iloc[0],
         "questions": [{"input_text": text, "turn_id": turn} for turn, text in enumerate(part.question, 1)],
         "answers": [answer(turn, row) for turn, row in enumerate(part.itertuples(), 1)]}
        for i, part in table.groupby("story_id")]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of the encoders, and a source: a file to ask about, beside one to train on."""
    folder = tmp_path_factory.mktemp("paper")
    told = {part: stories.generate(4, seed, length=(4, 6)) for part, seed in (("dev", 5), ("train", 6))}
    for part, table in told.items():
        (folder / f"small-{part}.json").write_text(json.dumps(as_coqa(table)))
    words = {word for table in told.values() for text in (*table.story, *table.question)
             for word in re.findall(r"\w+", text.lower())}
    return tiny_encoders.save(folder, sorted(words)), f"coqa:{folder}/small-dev.json", told


def test_a_coqa_file_of_generated_stories_is_read_as_they_are(made):
    read, table = experiment.questions(made[1]), made[2]["dev"]
    assert (read[["story", "question", "answer", "gold"]].to_numpy()
            == table[["story", "question", "answer", "gold"]].to_numpy()).all()
    assert (read.history.map(len) == table.turn).all()
    one = table.rationale.map(len) == 1
    assert one.sum() > 10 and read.rationale[one.to_numpy()].tolist() == table.rationale[one].tolist()


@pytest.mark.parametrize("name, heads, lr", [("bert", "tagging", 3e-5), ("roberta", "tagging", 1e-5),
                                             ("xlnet", "typed", 3e-5)])
def test_the_papers_recipes(made, name, heads, lr):
    recipe = experiment.recipe(made[0][name])
    assert (recipe.heads, recipe.lr, recipe.optimizer, recipe.embeddings) == (heads, lr, "adamw", True)
    assert (recipe.max_length, recipe.stride, recipe.context, recipe.epochs, recipe.tagging) == (512, 128, 64, 1, 5)


@pytest.mark.parametrize("source, where", [
    ("stories", "stories"), ("coqa:dev", "coqa:train"), ("hotpotqa:dev_100", "hotpotqa:train_100"),
    ("coqa:train", "coqa:train"), ("coqa:dev/my-dev.json", "coqa:dev/my-train.json")])
def test_readers_are_trained_on_other_stories_than_they_are_asked_about(source, where):
    assert experiment.trained(source) == where


def test_a_file_without_a_training_part_is_refused():
    with pytest.raises(UserError, match="…train… beside it"):
        experiment.trained("coqa:dev/my.json")


@pytest.mark.parametrize("name", ["bert", "roberta", "xlnet"])
def test_table_4_is_made_on_a_file_of_coqas_format(made, name):
    words = ["5_semantic_faithfulness/02_deletion", "-p", f"encoder={made[0][name]}", "-p", f"source={made[1]}",
             "-p", "train=4", "-p", "n=4", "-p", "n_again=3", "-p", "regimes=[ot, ot-matched, ibt]"]
    done = probebook("run", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    table = pd.read_csv(io.StringIO(probebook("results", *words).stdout)).query("table == 'table4'")
    assert {*table.reader} >= {"ot", "ot-matched", "ibt"} and {*table.version} == {"OS", "TS", "TS-R", "TS-R+Aug"}


@pytest.mark.parametrize("page", ["01_stories_and_models", "03_inside", "04_negation", "05_predicate_argument"])
def test_other_pages_run_on_an_encoder_of_ones_own(made, page):
    more = {"01_stories_and_models": ["n=4", "regimes=[ot, ibt]"], "03_inside": ["n=4", "regimes=[ot, ibt]"],
            "04_negation": ["n=300", "per_kind=16", "regimes=[ot, ibt]"],
            "05_predicate_argument": ["n=12", "draws=50", "regimes=[ot, ibt]"]}[page]
    words = [f"encoder={made[0]['bert']}", f"source={made[1]}", "train=4", *more]
    done = probebook("run", f"5_semantic_faithfulness/{page}", *(part for word in words for part in ("-p", word)))
    assert done.returncode == 0, done.stderr[-3000:]
