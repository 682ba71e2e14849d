"""`probebook audit`: bad input in one line, the report of a real run, and worlds whose truth is
known."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from axe_core_python.selenium import Axe
from safetensors.torch import save_file
from selenium import webdriver
from typer.testing import CliRunner

import probebook_audit as audit
from probebook.base import ROOT, UserError
from probebook.interventions.serialization import load, save
from probebook.probes import LinearProbe
from probebook_audit import labelled, report, verdict
from probebook_audit.questions import readability
from probebook_chapters import planted
from probebook_cli import app
from probebook_runs.pages import find
from probebook_runs.store import library_hashes
from test_browser import CHROMIUM, DRIVER, FLAGS

MODEL = "pocket-english"
SAID = [
    f"The {noun} near the {other} [MASK] {rest}."
    for noun in (
        "dog",
        "cats",
        "king",
        "boys",
        "ship",
        "trees",
        "judge",
        "wives",
        "horse",
        "birds",
        "child",
        "stones",
        "river",
        "books",
        "friend",
        "walls",
    )
    for other in ("door", "houses", "road", "hills")
    for rest in ("here", "there")
]


def texts(**columns):
    """A table of 128 short texts, two labels, sixteen groups."""
    nouns = [one.split()[1] for one in SAID]
    table = {
        "text": SAID,
        "number": ["many" if n[-1] == "s" else "one" for n in nouns],
        "noun": nouns,
        "place": [one.split()[4] for one in SAID],
    }
    return pd.DataFrame(table | columns)


def called(tmp_path, *words, table=None, name="texts.csv", model=MODEL):
    """Exit status and last line of the command on a table; nothing must be left behind."""
    file = tmp_path / name
    if table is not None:
        {
            ".csv": lambda: table.to_csv(file, index=False),
            ".tsv": lambda: table.to_csv(file, index=False, sep="\t"),
            ".jsonl": lambda: table.to_json(file, orient="records", lines=True),
            ".parquet": lambda: table.to_parquet(file),
        }[file.suffix]()
    given = [model] * bool(model) + [str(file), *words]
    found = CliRunner().invoke(app, ["audit", *given, "--out", str(tmp_path / "report")])
    assert not (tmp_path / "report").exists() or found.exit_code == 0
    return found.exit_code, (found.stderr or found.output).strip()


FULL = ("--text", "text", "--label", "number", "--group", "noun")
BAD = {
    "a missing column": (texts(), ("--text", "txt", "--label", "number"), "did you mean text"),
    "no label": (texts(), ("--text", "text"), "--label COLUMN"),
    "one class": (texts(number="one"), FULL, "only one class"),
    "a class of five": (texts(number=["few"] * 5 + ["many"] * 123), FULL, "has 5 items"),
    "floats": (texts(number=np.linspace(0, 1, 128)), FULL, "is not a valid class"),
    "too many classes": (texts(number=[f"c{i}" for i in range(128)]), FULL, "at most 20 classes"),
    "an empty text": (texts(text=[" ", *SAID[1:]]), FULL, "row 1 has no text"),
    "one text everywhere": (texts(text=SAID[:1] * 128), FULL, "1 group of texts: at least"),
    "a position that is none": (texts(), (*FULL, "--at", "whale"), "'last word' with --spot"),
    "few groups": (texts(noun=["a", "b"] * 64), FULL, "2 groups of texts"),
    "a long text": (texts(text=[*SAID[1:], "very " * 500 + "[MASK]"]), FULL, "reads at most"),
    "no mask": (
        texts(text=[one.replace("[MASK]", "is") for one in SAID]),
        (*FULL, "--at", "[MASK]"),
        "is not in the text",
    ),
    "no such word": (
        texts(noun2=["whale"] * 128),
        (*FULL, "--at", "last word", "--spot", "noun2"),
        "'whale' is not in the text",
    ),
    "a property with one value": (texts(same="x"), (*FULL, "--keep", "same"), "two values"),
    "one word": (texts(), (*FULL, "--words", "is"), "two at least"),
    "unknown words": (texts(), (*FULL, "--words", "qwxyz,zyxwq"), "no single token"),
    "half the columns": (texts(), (*FULL, "--words", "noun,elsewhere"), "no column 'elsewhere'"),
    "unknown method": (
        texts(),
        (*FULL, "--methods", "LEACE,MAGIC"),
        "'MAGIC' is not a valid method",
    ),
    "a layer beyond": (texts(), (*FULL, "--layers", "99"), "layers 0"),
    "no data": (None, FULL, "no such file"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_in_one_line(tmp_path, what):
    table, words, said = BAD[what]
    status, line = called(tmp_path, *words, table=table)
    assert status == 2
    assert said in line and len(line.splitlines()) == 1, line
    assert len(line) < 400


@pytest.mark.parametrize("name", ["texts.csv", "texts.tsv", "texts.jsonl", "texts.parquet"])
def test_every_format_gives_the_same_items(tmp_path, name):
    called(tmp_path, table=texts(), name=name)  # writes it, and is refused
    read = labelled.read(str(tmp_path / name), "text", "number", ["place"], group="noun")
    assert (len(read.z), read.classes, read.group.max() + 1) == (128, ["many", "one"], 16)
    assert read.id == labelled.read(str(tmp_path / name), "text", "number").id


@pytest.mark.parametrize("content", ["", "\x00\x01", '{"a": 1'])
def test_a_file_of_another_form(tmp_path, content):
    file = tmp_path / "texts.jsonl"
    file.write_text(content)
    with pytest.raises(UserError) as e:
        labelled.read(str(file), "text", "label")
    assert "\n" not in str(e.value)


def test_a_file_of_ten_gigabytes(tmp_path):
    with open(tmp_path / "texts.csv", "wb") as file:
        file.truncate(10 * 10**9)  # sparse: it takes no room
    status, line = called(tmp_path, *FULL)
    assert status == 2 and "10,000 MB" in line


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "thesis.tex").write_text("mine")
    texts().to_csv(tmp_path / "texts.csv", index=False)
    found = CliRunner().invoke(
        app, ["audit", MODEL, str(tmp_path / "texts.csv"), *FULL, "--out", str(tmp_path / "report")]
    )
    assert found.exit_code == 2 and "holds other files" in found.stderr
    assert (tmp_path / "report" / "thesis.tex").read_text() == "mine"


def test_items_with_the_same_text_are_one_group():
    table = pd.DataFrame({"text": ["a", "b", "a", "c"] * 10, "pair": ["x", "c", "", "y"] * 10})
    group = labelled._join_groups([*range(40)], [*table.text], [*table.pair])
    assert len({*group}) == 2  # a; b, whose rewritten text is c
    assert group[1] == group[3] != group[0]


@pytest.mark.parametrize("wrong", ["NaN", "rows", "no h", "pair", "no file"])
def test_bad_states_in_one_line(tmp_path, wrong):
    h = torch.randn(128, 8)
    held = {"h": h}
    if wrong == "NaN":
        h[3, 2] = torch.nan
    if wrong == "rows":
        held = {"h": h[:100]}
    if wrong == "no h":
        held = {"x": h}
    if wrong == "pair":
        held = {"h": h, "pair": h[:, :4].contiguous()}
    save_file(held, tmp_path / "s.safetensors")
    if wrong == "no file":
        (tmp_path / "s.safetensors").write_bytes(b"none")
    status, line = called(
        tmp_path,
        "--label",
        "number",
        "--group",
        "noun",
        "--states",
        str(tmp_path / "s.safetensors"),
        table=texts(),
        model="",
    )
    said = {
        "NaN": "NaN",
        "rows": "100 rows",
        "no h": "no tensor 'h'",
        "pair": "columns",
        "no file": "not a valid safetensors",
    }[wrong]
    assert status == 2 and said in line and len(line.splitlines()) == 1, line


SMALL = ("--profile", "smoke")
TONES = ("good", "bad", "open")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of real texts, one of which holds HTML."""
    folder = tmp_path_factory.mktemp("audit")
    bad = "<script>alert(1)</script> The dog near the road [MASK] here."
    table = texts(text=[bad, *SAID[1:]])
    table.to_csv(folder / "texts.csv", index=False)
    found = CliRunner().invoke(
        app,
        [
            "audit",
            MODEL,
            str(folder / "texts.csv"),
            *FULL,
            "--keep",
            "place",
            "--words",
            "is,are",
            *SMALL,
            "--methods",
            "LEACE,MeanShift",
            "--out",
            str(folder / "report"),
        ],
    )
    assert found.exit_code == 0, found.output
    return folder / "report"


def test_the_report_is_whole(written):
    assert sorted(path.name for path in written.iterdir()) == [
        "edits",
        "report.html",
        "report.json",
        "tables",
    ]
    found = report.Report.model_validate_json((written / "report.json").read_bytes())
    assert [one.question for one in found.answers] == [*audit.QUESTIONS]
    n = len(found.items.id)
    assert n == len(found.items.group) == len(found.items.label)
    assert all(len(one.values) == n for one in found.items.scores)
    assert {"probe"} <= {one.kind for one in found.items.scores}
    items = pd.read_csv(written / "tables" / "items.csv")
    assert set(items.item) == set(found.items.id)
    for path in (written / "edits").iterdir():
        assert load(path)


def test_the_report_needs_no_network_and_runs_no_script(written):
    shown = (written / "report.html").read_text(encoding="utf-8")
    assert "<script" not in shown
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", shown)
    assert "http://" not in shown and "https://" not in shown
    assert "default-src 'none'" in shown


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium")
@pytest.mark.parametrize("width", [1300, 400])
def test_the_report_opens_by_a_click(written, width):
    """Nothing is wider than the screen, no picture is missing, axe finds nothing, no request."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    with webdriver.Chrome(options, webdriver.ChromeService(DRIVER)) as browser:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == 400},
        )
        browser.get((written / "report.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(
            "return [...document.images].every(i => i.complete && i.naturalWidth)"
        )
        assert browser.get_log("browser") == []
        found = Axe().run(browser)["violations"]
        assert found == [], [one["id"] for one in found]


def test_the_schema_is_kept():
    kept = (ROOT / "book" / "report.schema.json").read_text(encoding="utf-8")
    assert json.loads(kept) == json.loads(report.schema())


def test_every_word_has_a_sentence():
    row = {
        "value": 0.5,
        "control_value": 0.4,
        "have": 10.0,
        "need": 20.0,
        "control": "x",
        "what": "y",
        "low": 0.4,
        "high": 0.6,
        "rewriting value": 0.3,
    }
    for question, entry in verdict.WORDS["questions"].items():
        for word in entry.get("answers", {}):
            sentence = audit.sentence({**row, "question": question, "word": word})
            assert sentence.endswith(".") and "{" not in sentence
            assert audit.tone(question, word) in TONES
    assert [*verdict.WORDS["verdicts"]] == [*audit.Verdict]
    for word in audit.Verdict:
        for question in ("verdict", "change", "paper"):
            sentence = audit.sentence({**row, "question": question, "word": word}, "it", 10)
            assert sentence.endswith(".") and "{" not in sentence
        assert audit.tone("change", word) in TONES


def test_a_changed_word_makes_a_new_run():
    page = find("7_your_model/01_audit")
    assert "probebook_audit/verdicts.yaml" in library_hashes(page)


def test_the_verdict_is_the_first_doubt():
    """Every answer but the best raises a doubt or none at all; the first in the ladder counts."""
    sound = {
        "data": "enough",
        "readable": "readable",
        "judges": "usable",
        "edits": "some",
        "cost": "kept",
        "pairs": "nearer",
        "behaviour": "follows",
        "shortcut": "none found",
    }
    assert verdict.decide(sound) is audit.Verdict.RELIABLE
    doubted = [*verdict.DOUBTS]
    assert doubted == [*audit.Verdict][:-1]
    for place, (word, doubts) in enumerate(verdict.DOUBTS.items()):
        for question, answers in doubts.items():
            assert answers <= {*verdict.WORDS["questions"][question]["answers"]}
            for answer in answers:
                assert verdict.decide(sound | {question: answer}) is word
                later = {
                    q: min(a)
                    for doubt in doubted[:place:-1]
                    for q, a in verdict.DOUBTS[doubt].items()
                }
                assert verdict.decide(sound | later | {question: answer}) is word


def test_the_split_keeps_groups_together_and_the_test_fixed():
    data = labelled.read("agreement", n=600)
    test = audit.test_rows(data).numpy()
    inside, outside = set(data.group[test]), set(np.delete(data.group, test))
    assert not inside & outside
    assert (audit.test_rows(data).numpy() == test).all()
    case = audit.Case(
        torch.randn(len(data.z), 3),
        torch.from_numpy(data.z),
        2,
        {},
        data.group,
        torch.from_numpy(test),
    )
    for seed in (0, 1):
        parts = audit.case.split_groups(case, seed)
        held = [set(data.group[rows.numpy()]) for rows in parts.values()]
        assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])
        assert sum(map(len, parts.values())) + len(test) == len(data.z)


def test_states_saved_elsewhere_and_a_probe_of_ones_own(tmp_path):
    """No model, no texts: a planted, used concept is found, by a probe that was brought."""
    world = planted.world("used", 1000, seed=5)
    table = pd.DataFrame(
        {"label": np.where(world.label, "yes", "no"), "other": world.other, "group": world.group}
    )
    table.to_csv(tmp_path / "labels.csv", index=False)
    states = {name: torch.from_numpy(getattr(world, name)) for name in ("h", "pair", "head")}
    save_file(states, tmp_path / "s.safetensors")
    save(LinearProbe().fit(states["h"][:200], world.label[:200]), tmp_path / "probe.safetensors")
    found = CliRunner().invoke(
        app,
        [
            "audit",
            str(tmp_path / "labels.csv"),
            "--states",
            str(tmp_path / "s.safetensors"),
            "--probe",
            str(tmp_path / "probe.safetensors"),
            "--label",
            "label",
            "--keep",
            "other",
            "--group",
            "group",
            *SMALL,
            "-p",
            "n_judged=250",
            "--seeds",
            "3",
            "-p",
            "fewest=100",
            "--out",
            str(tmp_path / "report"),
        ],
    )
    assert found.exit_code == 0, found.output
    read = report.Report.model_validate_json((tmp_path / "report" / "report.json").read_bytes())
    words = {one.question: one.word for one in read.answers}
    assert words["readable"] == "readable" and words["judges"] == "usable"
    assert words["behaviour"] == "follows"
    assert not next(one.done for one in read.checklist if "bag of words" in one.item)


def test_only_the_rows_that_are_drawn_are_kept(tmp_path):
    h = torch.arange(70_000.0)[:, None].repeat(1, 3)
    save_file({"h": h}, tmp_path / "s.safetensors")
    rows = np.array([0, 5, 32_768, 69_999])
    kept = audit.from_files.read_tensor(str(tmp_path / "s.safetensors"), "h", rows)
    assert torch.equal(kept, h[rows])


def test_states_by_shards_equal_those_of_one_pass(tmp_path, monkeypatch):
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path))
    from probebook.models import embed
    from probebook.models import load as load_model

    lm = load_model(MODEL)
    by_shards = audit.from_model.embed_in_shards(SAID[:20], lm, [2, lm.depth], "mean", shard=7)
    for layer, h in by_shards.items():
        assert torch.allclose(h, embed(SAID[:20], lm, layer, "mean"), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "verdicts"),
    [
        ("absent", {"not readable", "not enough data"}),
        ("unused", {"not used"}),
        ("shortcut", {"shortcut"}),
        ("few", {"not enough data"}),
        ("used", {"reliable"}),
    ],
)
def test_a_planted_world_gets_its_verdict(kind, verdicts):
    found = audit.audit_planted(kind, [3]).iloc[0]
    assert found.verdict in verdicts
    if kind == "used":
        assert found.low <= found.truth <= found.high


@pytest.mark.parametrize("seed", [1, 5])
def test_a_rule_on_which_two_trainings_disagree_gives_no_label(seed):
    """The label is independent of the property: each training makes a rule of its own from it."""
    case = audit.from_planted(planted.world("used", 400, seed))
    layer = audit.measure(case, 2, ["LEACE"], [1], [1], 50, 200)
    right = [
        readability.shortcut_hits(case, *both)["other"].rule for both in zip(layer.fits, layer.hits)
    ]
    assert (right[0] != right[1]).mean() > 0.5
    found = readability.shortcut_table(layer).iloc[0]
    assert found.rule == pytest.approx(0.5, abs=0.1) and found["rule low"] < found.usual


def test_the_strength_of_a_planted_concept_is_that_of_very_many_items():
    world = planted.world("used", 200_000, seed=1)
    first, second = (
        1 / (1 + np.exp(-(h @ (world.head[1] - world.head[0])))) for h in (world.h, world.pair)
    )
    assert np.abs(first - second).mean() == pytest.approx(world.moved, abs=2e-3)


@pytest.mark.verify
def test_the_audit_is_calibrated():
    """200 worlds without anything reliable, 100 with a used concept."""
    nulls = [kind for kind in planted.KINDS if kind != planted.RELIABLE]
    silent = pd.concat([audit.audit_planted(kind, range(500, 529)) for kind in nulls])
    assert len(silent) >= 200 and silent.verdict.eq("reliable").mean() <= 0.05
    assert silent[silent.kind == "shortcut"].named.mean() >= 0.95
    found = audit.audit_planted(planted.RELIABLE, range(500, 600))
    assert found.verdict.eq("reliable").mean() >= 0.95
    assert ((found.low <= found.truth) & (found.truth <= found.high)).mean() >= 0.9
