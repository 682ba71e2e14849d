"""The `paper` profile's code path on a tiny random BERT: chapter 1's pages with 200 lines in the
full corpus's format, chapter 2's on a small review world, the audit on natural sentences. `make
test` runs one page for each way of reading data, `make verify` all."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
import transformers as hf
import yaml

from conftest import KEPT
from probebook.base import ROOT
from probebook.corpora.agreement.lexicon import load_lexicon
from probebook.models import load
from probebook_runs.execute import run_all
from probebook_runs.pages import find, pages
from probebook_runs.store import plan

PROFILES = {
    name: yaml.safe_load((ROOT / f"notebooks/profiles/{name}.yaml").read_text())
    for name in ("smoke", "paper")
}
REAL = os.environ.get("PROBEBOOK_DATA")
# the others need no more
SCORED = ["2_concept_effects/02_black_boxes", "2_concept_effects/04_scoreboard"]
AUDIT = "7_your_model/01_audit"
EACH_WAY = [
    "1_causal_probing/01_agreement_and_embeddings",
    "1_causal_probing/08_true_counterfactual",
    "2_concept_effects/04_scoreboard",
    AUDIT,
]
NAMES = [*(page.name for page in pages() if page.name[:2] == "1_"), *SCORED, AUDIT]


def _corpus(folder: Path) -> None:
    """ "The dogs near the house are here ." and the like, half of them with an attractor, 50 of each
    number each."""
    nouns = load_lexicon().nouns
    rng, people = random.Random(0), [noun for noun in nouns if noun.kind == "person"]
    places, lines = [noun for noun in nouns if noun.kind == "spot"], []
    for subject, (number, other) in itertools.islice(
        zip(itertools.cycle(people), itertools.cycle(itertools.product((0, 1), (0, 1)))), 100
    ):
        words, tags = ["The", subject.form(number)], ["DT", ("NN", "NNS")[number]]
        ends = [], ["near", "the", rng.choice(places).form(other)]
        for end, end_tags in zip(ends, ([], ["IN", "DT", ("NN", "NNS")[other]])):
            verb = rng.choice([("is", "are"), ("has", "have")])[number]
            at = len(words) + len(end)
            lines.append(
                [
                    "_",
                    " ".join([*words, *end, verb, rng.choice(["old", "new", "good", "bad"]), "."]),
                    " ".join([*tags, *end_tags, ("VBZ", "VBP")[number], "JJ", "."]),
                    verb,
                    ("VBZ", "VBP")[number],
                    2,
                    at + 1,
                    0,
                ]
            )
    table = io.StringIO(newline="")
    out = csv.writer(table, delimiter="\t")
    out.writerow(
        "sentence orig_sentence pos_sentence verb verb_pos subj_index verb_index "
        "n_intervening".split()
    )
    out.writerows(lines)
    packed = gzip.compress(table.getvalue().encode(), mtime=0)  # the same bytes at any time
    (folder / "agr_50_mostcommon_10K.tsv.gz").write_bytes(packed)
    assert len(lines) == 200


@pytest.fixture(scope="module")
def world() -> tuple[str, dict]:
    """A model's folder, and the environment in which the corpus is found: always the same bytes at
    the same place, so that finished runs are found again."""
    folder = KEPT / "paper"
    for made in ("bert", "agreement"):
        shutil.rmtree(folder / made, ignore_errors=True)
    tokenizer = load("pocket-agreement").tokenizer
    torch.manual_seed(0)
    net = hf.BertForMaskedLM(
        hf.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=128,
            initializer_range=0.3,
        )
    )
    net.save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    (folder / "agreement").mkdir(parents=True)
    _corpus(folder / "agreement")
    if REAL:
        for path in (Path(REAL) / "agreement").iterdir():
            (folder / "agreement" / path.name).symlink_to(path)
    return str(folder / "bert"), {
        "PROBEBOOK_DATA": str(folder),
        "PROBEBOOK_CACHE": str(folder / "cache"),
    }


@pytest.fixture(scope="module")
def failed(world, forks, request) -> list[str]:
    """The pages that are asked for are run, several at a time; names of those that failed, of which
    stderr says why."""
    model, env = world
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.module is request.module
    ]
    runs = [plan(find(name), "paper", sizes) for name in names if (sizes := _sizes(name, model))]
    with pytest.MonkeyPatch.context() as patch:
        for key, value in env.items():
            patch.setenv(key, value)
        return [run.page.name for run in run_all(runs, server=forks)]


def _sizes(name: str, model: str) -> dict:
    """What is smaller than in the paper; nothing: the page's data are not there."""
    paper, sizes, types = PROFILES["paper"][name], PROFILES["smoke"][name], find(name).types
    if name == AUDIT:  # "natural" is "prose" and two collections of others
        return sizes | {"model": model} | ({} if REAL else {"data": "prose", "n": 4000})
    if name in SCORED:
        data = {"data": "reviews"} if "data" in types else {}
        return sizes | data | ({"models": [model]} if "models" in types else {"model": model})
    if paper["data"] == "syneval" and not REAL:
        return {}
    judges = {"fewest": 0} if "fewest" in types else {}  # a random model knows nothing
    return sizes | judges | {"n": 200 if paper["data"] == "lgd" else 2000, "model": model}


@pytest.mark.parametrize(
    "name",
    [name if name in EACH_WAY else pytest.param(name, marks=pytest.mark.verify) for name in NAMES],
)
def test_page_runs_in_the_paper_profile(world, failed, name):
    paper = PROFILES["paper"][name]
    assert "bert-base-uncased" in paper.get("models", paper.get("model"))
    assert paper.get("data", "cebab") in (
        ["cebab"] if name in SCORED else ["natural"] if name == AUDIT else ["lgd", "syneval"]
    )
    if not _sizes(name, world[0]):
        pytest.skip("PROBEBOOK_DATA is not set: no crossed templates")
    assert name not in failed
