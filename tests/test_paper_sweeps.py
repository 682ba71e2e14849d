"""The sweeps at the papers' own scale: each file is read without any model, asks for what is
printed, and is run on tiny random models with the full shape of its grid (`make verify`; one point
for each way that no other test takes in `make test`)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers as hf
import yaml

import stand_ins
from probebook.base import DATA, ROOT, UserError
from probebook.hub import model_sizes
from probebook_runs import cost
from probebook_runs.execute import run_all
from probebook_runs.model_checks import check_models
from probebook_runs.pages import find
from probebook_runs.store import plan
from probebook_runs.sweep import forecast
from probebook_runs.sweep_file import checked, load

FOLDER = ROOT / "notebooks" / "sweeps" / "paper"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
RUNS = {
    "1_table2": 1,
    "1_table3": 1,
    "2_table4": 1,
    "2_table8": 3,
    "2_table8_inclusive": 3,
    "2_table10": 4 * 3,
    "3_table2": 1,
    "3_table3": 1,
    "3_table5": 1,
    "3_table6": 1,
    "3_figure3": 4 * 2,
    "4_figure3": 7 + 2,
    "4_table3": 7 + 2,
    "5_table4": 6,
    "5_table5": 6,
    "5_table6": 2 * 2,
    "5_table7": 6,
    "5_table9": 6,
    "5_table10": 6 * 2,
    "5_table12": 6,
}
NAMES = {
    "BERT": "bert-base-uncased",
    "RoBERTa": "roberta-base",
    "GPT-2": "gpt2",
    "BERT-base": "bert-base-uncased",
    "BERT-large": "bert-large-uncased",
    "RoBERTa-base": "roberta-base",
    "RoBERTa-large": "roberta-large",
    "XLNet-base": "xlnet-base-cased",
    "XLNet-large": "xlnet-large-cased",
    "BART-base": "facebook/bart-base",
    "BART-large": "facebook/bart-large",
    "UL2-20B-gen": "google/ul2",
    "Flan-UL2-20B": "google/flan-ul2",
}
NO_LONGER_SERVED = ["GPT-3", "GPT-3.5-SFT", "GPT-3.5-RLHF"]


def values(name: str) -> list[dict]:
    return [run.values for _, run in checked(FILES[name])]


def printed(name: str) -> pd.DataFrame:
    return pd.read_csv(DATA / "published" / f"{name}.csv")


def test_there_is_a_file_for_each_line_of_the_list():
    assert FILES.keys() == RUNS.keys()
    listed = re.findall(r"^\| `(.*?)\.yaml`", (FOLDER / "README.txt").read_text(), re.M)
    assert sorted(listed) == sorted(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_file_is_read_without_its_models(name, monkeypatch):
    monkeypatch.setattr("probebook.hub.is_local", lambda model: pytest.fail(f"asks for {model}"))
    runs = [run for _, run in checked(FILES[name])]
    points = {str(run.values) for run in runs}
    assert len(points) == len(runs) == RUNS[name]
    assert {run.profile for run in runs} == {"paper"}


@pytest.mark.parametrize("name", RUNS)
def test_a_dry_run_tells_hours_and_memory(name):
    said = forecast(FILES[name])
    assert re.search(r"\noperations of all runs: .*; memory of the largest: .* GB", said)
    assert re.search(r"\nabout [\d,]+\.\d hours on .+", said)


def test_table_3_of_paper_1_has_the_papers_strengths():
    [run] = values("1_table3")
    assert (len(run["epsilons"]), run["epsilons"][0], run["epsilons"][-1]) == (29, 0.005, 5)
    assert run["ranks"] == [*range(41)]
    assert (run["widths"], run["queries"], run["steps"]) == ([64, 256, 512, 1024], 5000, 40)
    assert run["game_steps"] == 75_000


def test_tables_of_paper_2_have_the_papers_models_tasks_and_seeds():
    ten = printed("concept_effects_table10")
    asked = {
        ("LSTM" if run["lstm"] else run["model"], task)
        for run in values("2_table10")
        for task in run["tasks"]
    }
    assert asked == {(NAMES.get(model, model), task) for model, task in zip(ten.model, ten.task)}
    eight = printed("concept_effects_table8").query("task != 'ABSA'")
    for name in ("2_table8", "2_table8_inclusive"):
        asked = {
            (model, task)
            for run in values(name)
            for task in run["tasks"]
            for model in [*run["models"], *["LSTM"] * run["lstm"]]
        }
        assert asked == {(NAMES.get(m, m), task) for m, task in zip(eight.model, eight.task)}
        assert {run["absa"] for run in values(name)} == {"all"}
    trained = {run["train"] for run in values("2_table8") + values("2_table8_inclusive")}
    assert trained == {f"train_{half}" for half in eight.train}
    for name in ("2_table4", "2_table8", "2_table8_inclusive", "2_table10"):
        assert {run["pooling"] for run in values(name)} == {"token"}
        assert all(run["seeds"] == [42, 66, 77, 88, 99] for run in values(name))


@pytest.mark.parametrize(
    "name, table",
    [
        ("3_table2", 2),
        ("3_table2", 4),
        ("3_table3", 3),
        ("3_table5", 5),
        ("3_table5", 7),
        ("3_table6", 6),
    ],
)
def test_tables_of_paper_3_have_the_papers_sizes(name, table):
    [run], lines = values(name), printed(f"data_requirements_table{table}")
    assert [*lines.task.unique()] == run["tasks"]
    classes = 6 if run["tasks"] == ["sentence_length"] else 2
    assert [size * classes // 4 for size in run["sizes"]] == [*lines.test_items]
    assert run["per_class"] == max(run["sizes"])
    assert run["seeds"] == 5


def test_tables_of_paper_4_have_the_papers_open_models():
    three = printed("underspecification_table3")
    open_ = {NAMES[model] for model in three.model.unique() if model not in NO_LONGER_SERVED}
    assert {run["model"] for run in values("4_table3")} == open_
    assert set(printed("underspecification_slopes").model) < {
        run["model"] for run in values("4_figure3")
    }
    assert open_ == {
        model for run in values("4_figure3") for model in (run["model"], run["left_to_right"])
    } - {"pocket-english-gpt"}


@pytest.mark.parametrize("table", [4, 5, 7, 8, 9, 10, 12])
def test_tables_of_paper_5_have_the_papers_models(table):
    lines = printed(f"semantic_faithfulness_table{table}")
    wanted = {NAMES[model] for model in lines.model}
    runs = values(f"5_table{7 if table == 8 else table}")  # a run makes both
    assert {run["encoder"] for run in runs} == wanted
    assert all(run["regimes"] == ["ot", "ibt"] for run in runs)
    if "dataset" in lines:
        assert {run["source"].split(":")[0] for run in runs} == {*lines.dataset.str.lower()}


def test_a_layer_that_a_model_of_a_paper_lacks_is_refused_without_the_model():
    types = find("1_causal_probing/03").types
    good = {"model": "bert-base-uncased", "layer": 12}
    assert check_models(types, good) is None
    with pytest.raises(UserError, match="layer 13: bert-base-uncased has layers 0 … 12"):
        check_models(types, good | {"layer": 13})


FOUR = {"num_attention_heads": 4}
CONFIGS = {
    "BertForMaskedLM": lambda n, d: hf.BertConfig(
        num_hidden_layers=n, hidden_size=d, intermediate_size=4 * d, **FOUR
    ),
    "RobertaForMaskedLM": lambda n, d: hf.RobertaConfig(
        num_hidden_layers=n, hidden_size=d, intermediate_size=4 * d, **FOUR
    ),
    "GPT2LMHeadModel": lambda n, d: hf.GPT2Config(n_layer=n, n_embd=d, n_head=4),
    "XLNetLMHeadModel": lambda n, d: hf.XLNetConfig(n_layer=n, d_model=d, d_inner=4 * d, n_head=4),
    "BartForConditionalGeneration": lambda n, d: hf.BartConfig(
        encoder_layers=n, decoder_layers=n, d_model=d, encoder_ffn_dim=4 * d, decoder_ffn_dim=4 * d
    ),
    "T5ForConditionalGeneration": lambda n, d: hf.T5Config(
        num_layers=n,
        d_model=d,
        d_ff=4 * d,
        d_kv=d // 16,
        num_heads=16,
        feed_forward_proj="gated-gelu",
    ),
}
SIZES = pd.read_csv(DATA / "model_sizes.csv")


@pytest.mark.parametrize(
    "row",
    [row for row in SIZES.to_dict("records") if not row["model"].startswith("pocket-")],
    ids=lambda row: row["model"],
)
def test_a_models_blocks_have_the_parameters_of_their_shape(row):
    with torch.device("meta"):
        net = getattr(hf, row["architecture"])(
            CONFIGS[row["architecture"]](row["layers"], row["width"])
        )
    inside = [
        p.numel()
        for name, p in net.named_parameters()
        if re.search(r"\.(layer|layers|h|block)\.\d", name)
    ]
    assert sum(inside) == row["in_blocks"] < row["parameters"]


def test_every_model_of_the_sweeps_has_a_stand_in_and_a_size():
    assert {*stand_ins.MODELS} == {name for name in SIZES.model if "pocket" not in name}


def test_a_cost_grows_with_what_it_counts():
    of = {"model": "bert-base-uncased", "seeds": [1, 2, 3], "epochs": 5}
    work = {"of": "model", "tokens": 1e6, "times": ["seeds", "epochs", 0.5]}
    once = cost.Work(work="forward", of="model", tokens=1e6).operations(of)
    assert once == 2e6 * model_sizes()["bert-base-uncased"].in_blocks
    assert cost.Work(work="forward", **work).operations(of) == 7.5 * once
    assert cost.Work(work="training", **work).operations(of) == 3 * 7.5 * once
    both = {"models": ["bert-base-uncased", "bert-base-uncased"]}
    assert cost.Work(work="forward", of="models", tokens=1e6).operations(both) == 2 * once
    assert cost.Work(work="probes", of=100, tokens=50).operations({}) == 6 * 100 * 50


def test_a_cost_in_hours_is_operations_over_speed(monkeypatch):
    monkeypatch.setattr(cost, "throughput", lambda: {"fast": {"probes": 2.0}, "none": {}})
    found = cost.estimate([cost.Work(work="probes", of=600, tokens=2)], [{}, {}])
    assert found.hours() == {"fast": 2 * 6 * 600 * 2 / 2 / 3600}
    assert found.states == 4 * 3 * 2 * 768


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"work": "thinking", "of": 1, "tokens": 1}, "cost.0.work: Input should be 'forward'"),
        ({"work": "probes", "of": 1, "token": 1}, "no key 'cost.0.token', tokens perhaps"),
        ({"work": "probes", "of": "mode", "tokens": 1}, "cost: of = 'mode': a number"),
        (
            {"work": "probes", "of": 1, "tokens": 1, "times": ["sed"]},
            "cost: times = 'sed': a number",
        ),
    ],
)
def test_a_bad_cost_is_refused_in_one_line(tmp_path, line, says):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({"page": "1_causal_probing/03", "cost": [line]}))
    with pytest.raises(UserError, match="^[^\n]+$") as e:
        checked(path)
    assert says in str(e.value)


def test_a_model_of_unknown_size_has_no_estimate():
    work = cost.Work(work="forward", of="model", tokens=1)
    assert cost.lines([work], [{"model": "my/own"}]) == [
        "cost: no estimate, my/own is not in data/model_sizes.csv"
    ]


# with stand-ins

SMALL = {
    "1_causal_probing": {
        "n": 200,
        "widths": [8, 16, 24, 32],
        "steps": 3,
        "queries": 5,
        "game_steps": 100,
    },
    "1_causal_probing/06_reliability": {"fewest": 0},
    "2_concept_effects": {
        "data": "reviews",
        "n": 120,
        "epochs": 1,
        "batch": 16,
        "lr": 1e-3,
        "unlearning": 1,
        "absa_epochs": 1,
    },
    "3_data_requirements": {"pilot": 16, "pilots": 2},
    "4_underspecification": {"shuffles": 20, "draws": 20, "range_of": 4},
    "5_semantic_faithfulness": {
        "n": 4,
        "n_again": 3,
        "train": 4,
        "draws": 50,
        "spoken": 4,
        "server": None,
    },
    "5_semantic_faithfulness/03_inside": {"n": 12},
    "5_semantic_faithfulness/06_prompting": {"n": 12},
    "5_semantic_faithfulness/04_negation": {"n": 300, "per_kind": 16},
}
PER_CLASS = {128: 8, 512: 16, 2048: 32, 8192: 64, 32768: 128}
# of the chapters that no other test runs like this
IN_SHORT = {
    "3_table3": (0, {"sizes": [8, 16], "per_class": 16, "batches": [16, 64]}),
    "4_table3": (4, {"texts": ["simplified"], "range_of": 2}),
}
REAL = os.environ.get("PROBEBOOK_DATA")


@pytest.fixture(scope="module")
def world() -> dict[str, str]:
    """Names in the files → what stands in for them."""
    folder = ROOT / "_build" / "tests" / "paper_sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    words = stand_ins.write_data(folder)
    made = stand_ins.save_models(folder / "models", words)
    made |= {
        "glove.840B.300d.txt": str(folder / "glove.txt"),
        "SentEval/pooled": str(folder / "senteval"),
        "corrupted-200": "corrupted-2",
    }
    for name in ("coqa", "hotpotqa"):
        made |= {
            f"{name}:{part}": f"{name}:{folder}/{name}-{part}.json" for part in ("dev", "train")
        }
    for name in ("winogender", "wikitext2"):
        if REAL and not (folder / name).exists():
            (folder / name).symlink_to(Path(REAL) / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBEBOOK_DATA", str(folder))
        patch.setenv("PROBEBOOK_CACHE", str(folder / "cache"))
        yield made


def small(page: str, given: dict, made: dict[str, str]) -> dict:
    """The values of a run with stand-ins for its models and texts, and small sizes."""

    def replaced(value):
        if isinstance(value, list):
            return [replaced(item) for item in value]
        if not isinstance(value, str):
            return value
        for name in sorted(made, key=len, reverse=True):
            value = re.sub(rf"(?<![\w/-]){re.escape(name)}(?![\w-])", made[name], value)
        return value

    sizes = SMALL[page.split("/")[0]] | SMALL.get(page, {})
    values = {name: replaced(value) for name, value in given.items()}
    values |= {name: value for name, value in sizes.items() if name in given}
    if "sizes" in given:
        values["sizes"] = [PER_CLASS[size] for size in given["sizes"]]
        values["per_class"] = max(values["sizes"])
    if "n_prompted" in given:
        values["n_prompted"] = 1
    if not REAL:  # Winogender, and twins' WikiText-2
        values |= {"texts": ["persons"]} if "texts" in given else {}
        values |= {"source": "plain"} if "sizes" in given else {}
    return {name: value for name, value in values.items() if name in given}


def planned(name: str, made: dict[str, str]) -> list:
    """The runs of a file on stand-ins."""
    page = find(load(FILES[name]).page)
    return [plan(page, values=small(page.name, given, made)) for given in values(name)]


@pytest.mark.parametrize("name", IN_SHORT)
def test_a_point_runs_on_stand_ins(world, forks, name):
    at, shorter = IN_SHORT[name]
    point = planned(name, world)[at]
    if not REAL:
        shorter = {key: value for key, value in shorter.items() if key != "texts"}
    assert run_all([plan(point.page, values=point.values | shorter)], server=forks) == []


@pytest.mark.verify
@pytest.mark.parametrize("name", RUNS)
def test_a_file_runs_on_stand_ins_with_its_full_shape(world, forks, name):
    runs = planned(name, world)
    assert len({run.id for run in runs}) == RUNS[name]
    assert run_all(runs, server=forks) == []
