"""`probebook audit`: bad input in one line, the report of a real run, and worlds whose truth is
known."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from types import SimpleNamespace

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
from probebook_audit.questions import edit_scores, shortcut
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
    "a label for each group": (
        texts(
            noun=[f"n{i % 12}" for i in range(128)],
            number=["many" if i % 12 < 6 else "one" for i in range(128)],
        ),
        FULL,
        "12 groups are too few: seed 0 would fit on 0 items",
    ),
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
    items = pd.DataFrame({"text": ["a", "b", "a", "c"] * 10, "pair": ["x", "c", "", "y"] * 10})
    group = labelled._groups(items, [*items.text], [*items.pair], [])
    assert len({*group}) == 2  # a; b, whose rewritten text is c
    assert group[1] == group[3] != group[0]


@pytest.mark.parametrize("wrong", ["NaN", "rows", "no key", "pair", "no file"])
def test_bad_states_in_one_line(tmp_path, wrong):
    h = torch.randn(128, 8)
    held = {"h": h}
    if wrong == "NaN":
        h[3, 2] = torch.nan
    if wrong == "rows":
        held = {"h": h[:100]}
    if wrong == "no key":
        held = {"x": h, "y": h.clone()}
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
        "no key": "x [128, 8], y [128, 8]: name the states [128, columns] by --states-key",
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


def test_a_figure_without_data_is_left_out(written):
    """The doses are drawn if an edit was judged; without rewritten texts nothing is near to them."""
    found = report.Report.model_validate_json((written / "report.json").read_bytes())
    shown = (written / "report.html").read_text(encoding="utf-8")
    assert shown.count("<img") == shown.count("over the dose</h2>") == bool(found.edits)


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
        "complete": 0.7,
        "kept": 0.6,
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


def test_the_sentence_for_a_paper_says_both_sides():
    """Reliability, and how far the states lie from those of rewritten texts: reader's case."""
    row = {"question": "paper", "word": "forces the choice", "what": "FGSM", "control": "farther"}
    row |= {"value": 0.9, "low": 0.88, "high": 0.91}
    row |= {"closeness value": -0.2, "closeness low": -0.28, "closeness high": -0.12}
    sentence = audit.sentence(row, "number", 10)
    assert "reliability of 0.90, 0.88 to 0.91" in sentence
    assert "farther from those of the rewritten texts" in sentence
    assert "(by 20 %, 12 to 28 %)" in sentence
    for word in verdict.WORDS["nearer"]:
        assert "{" not in audit.sentence(row | {"control": word}, "number", 10)


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
    assert verdict.decide(sound) is audit.Verdict.PASSES
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
        parts = audit.case.split_groups(case.group, case.test, seed)
        held = [set(data.group[rows.numpy()]) for rows in parts.values()]
        assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])
        assert sum(map(len, parts.values())) + len(test) == len(data.z)


@pytest.mark.usefixtures("kernels")
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


SOURCED = [kind for kind, one in planted.KINDS.items() if one.source]
OFTEN = ("unused", "shortcut", "few", "xor", "length", "three lengths", "author", "used")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[] if k in OFTEN else [pytest.mark.verify]) for k in planted.KINDS],
)
def test_a_planted_world_gets_its_verdict(kind):
    found = audit.audit_planted(kind, [3]).iloc[0]
    assert found.verdict in planted.KINDS[kind].fits
    assert found.named == bool(planted.KINDS[kind].source)
    if kind == "used":
        assert found.low <= found.truth <= found.high


@pytest.mark.parametrize("kind", ["author", "position"])
def test_few_items_and_seeds_do_not_hide_a_shortcut(kind):
    """Test groups of one label each, and trainings that disagree on which label is commonest."""
    found = audit.audit_planted(kind, [100], n=1200, trainings=3).iloc[0]
    assert found.verdict in planted.KINDS[kind].fits and found.named


HEAVY = np.random.default_rng(0).standard_t(2, (2000, 24))


@pytest.mark.verify
@pytest.mark.parametrize("kind", ["absent", "unused", "length", "used"])
@pytest.mark.parametrize("settings", [{"base": HEAVY}, {"rare": 0.05}], ids=["tails", "rare"])
def test_heavy_tails_and_rare_classes_get_their_verdict(kind, settings):
    """In four worlds of five at least: of a class of 5 % the test holds two dozen items."""
    found = audit.audit_planted(kind, range(5), **settings).verdict
    assert found.isin(planted.KINDS[kind].fits).sum() >= 4, [*found]


def rules(kind, n=600):
    """Shares in which each source's rule is right in a planted world, fitted on half of it."""
    case = audit.from_planted(planted.world(kind, n, 1))
    half = SimpleNamespace(fit=torch.from_numpy(np.setdiff1d(np.arange(n), case.test.numpy())))
    return shortcut.rule_hits(case, [half])[0].mean()


@pytest.mark.parametrize("kind", SOURCED)
def test_the_rule_of_each_source_finds_its_border(kind):
    right = rules(kind)[planted.KINDS[kind].source]
    assert right > (0.85 if kind == "shortcut" else 0.95)


def test_a_rule_finds_nothing_where_nothing_is():
    """The texts' length gives the label; marks, capitals and words do not."""
    right = rules("length")
    others = right.drop(["number of words", "number of characters"])
    assert others.max() < 0.65


def test_columns_that_no_judge_can_read_are_sources():
    table = texts(
        author=[f"a{i % 40}" for i in range(128)],
        score=np.linspace(0, 1, 128),
    )
    with tempfile.TemporaryDirectory() as folder:
        table.to_csv(f"{folder}/t.csv", index=False)
        read = labelled.read(
            f"{folder}/t.csv", "text", "number", ["place", "author", "score"], group="noun"
        )
    assert [*read.keep] == ["place"]
    assert [*read.known] == ["position in the file", "author", "score"]
    assert read.known["author"].dtype.kind == "i" and len({*read.known["author"]}) == 40
    assert (read.known["score"] == table.score).all()
    assert shortcut.count_sources(read) == 1 + 3 + 6


@pytest.fixture(scope="module")
def used():
    """A planted, used concept, measured at three doses."""
    case = audit.from_planted(planted.world("used", 2000, 3))
    return audit.measure(case, 3, ["MeanShift"], [1, 2, 4], [1], 150, 200)


def words(result):
    return dict(zip(result.answers.question, result.answers.word))


def test_the_smallest_of_nearly_equal_doses_is_chosen(used):
    """MeanShift goes all the way at dose 1; at dose 2 it overshoots, and judges like it better."""
    result = audit.conclude([used], 0.5, 2000)
    curve = result.doses[result.doses.kind == "edit"].set_index("strength")
    assert used.strength == {"MeanShift": 1}
    assert curve.closeness[1] > 0.85 and curve["closeness high"][2] < 0.2
    assert curve.complete.is_monotonic_increasing
    assert words(result)["pairs"] == "nearer" and result.verdict == "passes"


def test_an_edit_that_leads_away_forces_the_choice(used):
    far = audit.measure(used.case, 3, ["MeanShift"], [4], [1], 150, 200)
    result = audit.conclude([far], 0.5, 2000)
    assert result.verdict == "forces the choice"
    assert {*result.edits.word} == {"forces the choice"}
    paper = audit.sentence(result.answers.set_index("question", drop=False).loc["paper"].to_dict())
    assert "farther from those of the rewritten texts than the unedited ones (by" in paper


def test_the_same_state_is_a_line_and_no_error(used):
    case = replace(used.case, partner=used.case.h, true=used.case.probs(used.case.h, None))
    layer = audit.measure(case, 3, ["MeanShift"], [1, 2], [1], 150, 200)
    result = audit.conclude([layer], 0.5, 2000)
    assert words(result)["pairs"] == "same state" and words(result)["behaviour"] == "unused"
    assert not {"closeness", "explained"} & {*result.edits.measure}
    for row in result.answers.to_dict("records"):
        assert audit.sentence(row, "it", 2000)


def test_items_whose_choice_is_unknown_are_counted(used):
    def probs(h, rows):
        return used.case.probs(h, rows).masked_fill(rows[:, None] % 3 == 0, torch.nan)

    layer = audit.measure(replace(used.case, probs=probs), 3, ["MeanShift"], [1], [1], 150, 200)
    result = audit.conclude([layer], 0.5, 2000, ["A note."])
    test = used.case.test
    assert [*result.notes.note] == [
        "A note.",
        "Left out of the model's choice, without words of one token: "
        f"{(test % 3 == 0).sum():,} of {len(test):,} test items.",
    ]


def test_every_interval_holds_the_value_beside_it():
    """Three classes, in which the seeds' rules disagree: the reviewer's case."""
    case = audit.from_planted(planted.world("three lengths", 900, 2))
    layer = audit.measure(case, 3, ["MeanShift"], [1], [1], 50, 400)
    sources = shortcut.shortcut_table(layer)
    assert (sources["rule low"] <= sources.rule).all()
    assert (sources.rule <= sources["rule high"]).all()
    assert sources.set_index("source").beats[["number of words", "number of characters"]].all()


@pytest.mark.parametrize(
    ("share", "data", "judges"), [(0.95, "nearly", "usable"), (0.1,) + 2 * ("too few",)]
)
def test_near_the_border_an_audit_goes_on(used, share, data, judges):
    """With 95 % of the training items that judges need; with a tenth it names that reason."""
    trained = int(used.judges.trained.min())
    fewest = int(trained / share)
    layer = audit.measure(used.case, 3, ["MeanShift"], [1], [1], fewest, 200)
    result = audit.conclude([layer], 0.5, 2000)
    assert words(result)["data"] == data and words(result)["judges"] == judges
    assert result.verdict == ("passes" if share > 0.9 else "not enough data")
    said = audit.sentence(result.answers.set_index("question", drop=False).loc["judges"].to_dict())
    assert (f"need {fewest:,}" in said) == (judges == "too few")


def test_each_no_names_the_reason_that_held(used):
    """Random labels: no edit beats both controls; the reason is the control and the score."""
    leads = pd.DataFrame(
        {("random", "reliability"): [0.2, 0.1], ("shuffled", "reliability"): [0.01, -0.1]}
    )
    answer = edit_scores.answer_edits(used, [], "MeanShift", leads) | {"question": "edits"}
    assert audit.sentence(answer) == (
        "None: even the reliability of MeanShift is not significantly above that of fits on "
        "shuffled labels."
    )


def test_a_category_that_was_never_seen_says_nothing():
    """A name for each item gives no label, and no item in which the probe could be told from it."""
    case = audit.from_planted(planted.world("used", 400, 1))
    case = replace(case, known={"name": np.arange(400)})
    layer = audit.measure(case, 2, ["LEACE"], [1], [1], 50, 200)
    sources = shortcut.shortcut_table(layer).set_index("source")
    assert sources.rule["name"] == sources.usual["name"] and sources.conflicts["name"] == 0
    assert sources.rule["other"] == pytest.approx(0.5, abs=0.12)
    assert not sources.beats.any()


def test_the_strength_of_a_planted_concept_is_that_of_very_many_items():
    world = planted.world("used", 200_000, seed=1)
    first, second = (
        1 / (1 + np.exp(-(h @ (world.head[1] - world.head[0])))) for h in (world.h, world.pair)
    )
    assert np.abs(first - second).mean() == pytest.approx(world.moved, abs=2e-3)


@pytest.mark.verify
def test_the_audit_is_calibrated():
    """200 worlds in which nothing may pass, 100 with a used concept."""
    nulls = [kind for kind in planted.KINDS if kind != planted.USED]
    silent = pd.concat([audit.audit_planted(kind, range(500, 512)) for kind in nulls])
    assert len(silent) >= 200 and silent.verdict.eq("passes").mean() <= 0.05
    assert silent[silent.kind.isin(SOURCED)].named.mean() >= 0.95
    found = audit.audit_planted(planted.USED, range(500, 600))
    assert found.verdict.eq("passes").mean() >= 0.95
    assert ((found.low <= found.truth) & (found.truth <= found.high)).mean() >= 0.9
