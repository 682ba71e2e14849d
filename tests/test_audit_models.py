"""`probebook audit` of every architecture: it ends with a report, or is refused in one line before
a kernel starts."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
import transformers as hf
from typer.testing import CliRunner

import probebook_audit as audit
import zoo
from probebook.base import UserError
from probebook.models import load
from probebook_audit import labelled, report
from probebook_cli import app

NOUNS = (
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
PLACES = {"door": "inside", "table": "inside", "road": "outside", "hills": "outside"}
SIZES = (2, ["LEACE", "MeanShift"], [1], [1], 0, 400)  # seeds, methods, doses, ranks, …
# column of the texts, --at, whether it can choose words there
READ = {
    "at the blank": ("text", "[MASK]", {"masked", "causal", "seq2seq"}),
    "at a word": ("text", "last word", {"masked", "causal", "seq2seq"}),
    "the mean": ("plain", "mean", set()),
    "what was said so far": ("open", "last", {"causal"}),
}


def table():
    """Sentences whose label, the kind of place, even a random model's state at that word knows."""
    rows = [
        (f"The {noun} near the {place} [MASK] {rest}.", kind, place, rest, noun)
        for noun in NOUNS
        for place, kind in PLACES.items()
        for rest in ("here", "there")
    ]
    found = pd.DataFrame(rows, columns=["text", "kind", "place", "rest", "noun"])
    found["plain"] = found.text.str.replace("[MASK]", "is")
    found["open"] = found.text.str.split(r" \[MASK\]").str[0]
    for name, (one, other) in {
        "door": ("door", "road"),
        "table": ("table", "hills"),
        "road": ("road", "door"),
        "hills": ("hills", "table"),
    }.items():
        here = found.place == name
        found.loc[here, "pair"] = found.text[here].str.replace(one, other)
    return found


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    table().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def folders():
    return zoo.kept()


def measured(texts, model, column, at, words, pair="", layers=(1, -1)):
    """The findings at some layers, and the cases, without a kernel; refused as the command is."""
    spot = "place" if at.endswith(" word") else ""
    data = labelled.read(str(texts), column, "kind", ["rest"], pair, "noun", words, spot)
    audit.check(data, model, at)
    found = audit.cases(data, model, layers, at)
    return audit.conclude([audit.measure(case, *SIZES) for case in found]), found


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[] if name in ("gpt2", "llama", "t5", "bart", "xlnet") else [pytest.mark.verify],
        )
        for name in zoo.ZOO
    ],
)
def test_an_audit_ends_or_is_refused_in_one_line(texts, folders, name, read):
    column, at, chooses = READ[read]
    kind = load(folders[name]).kind
    words = ["is", "are"] if kind in chooses else []
    found, cases = measured(texts, folders[name], column, at, words)
    assert [*found.answers.question] == [*audit.QUESTIONS]
    assert (cases[0].probs is not None) == bool(words)
    if words:  # it chooses as it does without any edit
        h, rows = cases[0].h[:9], torch.arange(9)
        assert torch.allclose(
            cases[0].probs(h, rows), cases[1].probs(cases[1].h[:9], rows), atol=1e-4
        )
    if kind in chooses or at == "mean":
        return
    with pytest.raises(UserError, match=r"no\s\[MASK\]: put one") as e:
        measured(texts, folders[name], column, at, ["is", "are"])
    assert "\n" not in str(e.value)


def test_edits_of_an_encoder_decoder_are_judged_by_what_its_decoder_says(texts, folders):
    """The label is known at the place's word, so edits are judged there, and rewriting is too."""
    found, _ = measured(texts, folders["t5"], "text", "last word", ["is", "are"], "", (1,))
    words = dict(zip(found.answers.question, found.answers.word))
    assert words["judges"] not in {"none", "too few", "not examined"}
    assert words["behaviour"] == "moves"


def test_the_last_layer_is_that_of_the_part_which_is_read(texts, tmp_path):
    """An encoder of three blocks and a decoder of one: layer -1 is 3 at a word, 1 at the blank."""
    special, words, _ = zoo.ZOO["bart"]
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=words(), model_max_length=512, **special
    )
    net = hf.BartForConditionalGeneration(
        hf.BartConfig(
            vocab_size=len(tokenizer),
            d_model=48,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=2,
            forced_eos_token_id=None,
            init_std=0.3,
            encoder_layers=3,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_position_embeddings=512,
        )
    )
    net.save_pretrained(tmp_path / "bart")
    tokenizer.save_pretrained(tmp_path / "bart")
    for at, last in (("last word", 3), ("[MASK]", 1)):
        _, (case,) = measured(texts, str(tmp_path / "bart"), "text", at, [], layers=(-1,))
        assert case.layer == last


def without_blank(folder, name, made):
    """The model of a folder with a tokenizer that has no token for a blank."""
    load(folder).net.save_pretrained(made)
    special, words, _ = zoo.ZOO[name]
    tokens = {what: token for what, token in special.items() if what != "mask_token"}
    if name == "t5":
        words = lambda: zoo._unigram(
            dict(pad="<pad>", eos="</s>", unk_token="<unk>"),
            last="</s>",
        )
    hf.PreTrainedTokenizerFast(
        tokenizer_object=words(), model_max_length=512, **tokens
    ).save_pretrained(made)
    return str(made)


@pytest.mark.parametrize("name", ["bert", "bart", "t5"])
def test_a_tokenizer_without_a_blank(texts, folders, tmp_path, name):
    model = without_blank(folders[name], name, tmp_path / name)
    refused = {
        ("text", "[MASK]", ()): "has no mask token, so no state at [MASK]",
        ("plain", "last", ("is", "are")): "has no mask token, so it chooses no words",
    }
    for (column, at, words), said in refused.items():
        flags = [flag for word in [",".join(words)] if word for flag in ("--words", word)]
        done = CliRunner().invoke(
            app,
            [
                "audit",
                model,
                str(texts),
                "--text",
                column,
                "--label",
                "kind",
                "--group",
                "noun",
                "--at",
                at,
                *flags,
                "--profile",
                "smoke",
                "--out",
                str(tmp_path / "report"),
            ],
        )
        assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
        assert said in done.output
        assert not (tmp_path / "report").exists()
    found, _ = measured(texts, model, "plain", "mean", [], layers=(-1,))
    assert len(found.answers) == len(audit.QUESTIONS)


@pytest.mark.parametrize("name", ["gpt2", "opt", "xlnet", "t5"])
def test_a_model_without_cls_at_the_beginning(texts, folders, tmp_path, name):
    done = CliRunner().invoke(
        app,
        [
            "audit",
            folders[name],
            str(texts),
            "--text",
            "plain",
            "--label",
            "kind",
            "--group",
            "noun",
            "--at",
            "[CLS]",
            "--profile",
            "smoke",
            "--out",
            str(tmp_path / "report"),
        ],
    )
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert "has no [CLS] at the beginning" in done.output


def test_too_few_draws_for_so_many_comparisons_are_refused_at_once(texts, tmp_path):
    done = CliRunner().invoke(
        app,
        [
            "audit",
            "pocket-english",
            str(texts),
            "--text",
            "text",
            "--label",
            "kind",
            "--group",
            "noun",
            "--layers",
            "1,2,3",
            "--profile",
            "smoke",
            "-p",
            "draws=100",
            "--out",
            str(tmp_path / "report"),
        ],
    )
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert "draws=359" in done.output
    assert audit.check_draws(9, 359) is None


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "t5" else [pytest.mark.verify]) for name in zoo.ZOO],
)
def test_the_command_writes_a_report(texts, folders, tmp_path, name):
    done = CliRunner().invoke(
        app,
        [
            "audit",
            folders[name],
            str(texts),
            "--text",
            "text",
            "--label",
            "kind",
            "--group",
            "noun",
            "--keep",
            "rest",
            "--pair",
            "pair",
            "--words",
            "is,are",
            "--profile",
            "smoke",
            "-p",
            "n_judged=40",
            "--out",
            str(tmp_path / "report"),
        ],
    )
    assert done.exit_code == 0, done.output
    read = report.Report.model_validate_json((tmp_path / "report" / "report.json").read_bytes())
    assert len(read.answers) == len(audit.QUESTIONS)


def prepared(table, folder, model, at="mean", too_long="refuse", **columns):
    """The data of a table as a model reads them."""
    path = folder / "data.csv"
    table.to_csv(path, index=False)
    names = {"text": "plain", "label": "kind", "group": "noun"} | columns
    return audit.prepare_texts(labelled.read(str(path), **names), model, at, too_long)


def long_table(words=600):
    """Rows 6 and 8 have more words than any model reads: before the sentence, and behind it."""
    found = table()
    found.loc[5, ["plain", "text"]] = "so " * words + found.loc[5, ["plain", "text"]]
    found.loc[7, ["plain", "text"]] += " so" * words
    return found


def test_a_text_that_is_too_long_is_refused_by_its_row(folders, tmp_path):
    with pytest.raises(UserError) as e:
        prepared(long_table(), tmp_path, folders["bert"])
    said = str(e.value)
    assert "data.csv, row 6: 6" in said
    assert "reads at most 512, and 1 more texts are too long" in said
    assert said.endswith("shorten them, or give --too-long cut or --too-long drop")
    done = CliRunner().invoke(
        app,
        ["audit", folders["bert"], str(tmp_path / "data.csv"), "--text", "plain", "--label"]
        + ["kind", "--profile", "smoke", "--out", str(tmp_path / "report")],
    )
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert "row 6" in done.output


def test_texts_that_are_too_long_are_dropped_and_counted(folders, tmp_path):
    whole = long_table()
    data = prepared(whole, tmp_path, folders["bert"], too_long="drop", keep=["rest"])
    assert "Left out, with more than 512 tokens: 2 of 128 items." in data.notes
    assert [*data.rows] == [row for row in range(128) if row not in (5, 7)]
    assert data.text == [whole.plain[row] for row in data.rows]
    assert [data.classes[z] for z in data.z] == [whole.kind[row] for row in data.rows]
    assert len(data.id) == len(data.keep["rest"]) == len(data.group) == 126
    assert {*data.group} == {*range(len(NOUNS))}
    (case,) = audit.cases(data, folders["bert"], [2, -1], "mean")  # two names of one layer
    assert len(case.h) == 126


@pytest.mark.parametrize(
    "name, at",
    [
        ("bert", "mean"),
        ("bert", "[MASK]"),
        ("bert", "last word"),
        ("gpt2", "last"),
        ("gpt2", "[MASK]"),
    ],
)
def test_texts_that_are_too_long_are_cut_and_keep_what_is_read(folders, tmp_path, name, at):
    whole, column = long_table(), "text" if at == "[MASK]" else "plain"
    data = prepared(
        whole, tmp_path, folders[name], at, "cut", text=column, pair="pair", spot="rest"
    )
    model, limit = load(folders[name]), 512
    lengths = [len(model.tokenizer(model.as_read(text))["input_ids"]) for text in data.text]
    sentence, noise = f" {table()[column][5]}", 3  # tokens of a sentence's and of a word's
    front, back = data.text[5], data.text[7]
    assert limit - noise < lengths[5] <= limit
    keeps_front = front.endswith(sentence.strip()[-20:])
    if at == "mean":
        assert whole.plain[5].startswith(front)
        assert not keeps_front
    else:  # what leads up to the place is kept
        assert whole[column][5].find(front) > 0
        assert "[MASK]" in front if at == "[MASK]" else whole.rest[5] in front
    if (name, at) == ("gpt2", "[MASK]"):  # which reads nothing behind the blank
        assert back == whole.text[7]
    elif at == "last":
        assert back.endswith(" so so")
        assert not back.startswith("The")
    else:
        assert whole[column][7].startswith(back)
        assert limit - noise < lengths[7] <= limit
    (note,) = (note for note in data.notes if note.startswith("Cut"))
    several = 1 if (name, at) == ("gpt2", "[MASK]") else 2
    assert note == f"Cut to 512 tokens: {several} of 256 texts."
    audit.cases(data, folders[name], [1], at)


def test_a_text_is_cut_where_no_word_ends(tmp_path):
    found = table()
    found.loc[5, "plain"] = "a-" * 1500
    data = prepared(found, tmp_path, "pocket-english", too_long="cut")
    assert 0 < len(data.text[5]) < 3000


def test_which_token_was_read_and_what_was_unknown_is_noted(folders, tmp_path):
    data = prepared(table(), tmp_path, folders["bert"], "last word", spot="place")
    assert data.notes[-1] == "Read in the first texts: 'door', 'door', 'table'."
    found = table()
    found["plain"] += " 猫 猫"
    data = prepared(found, tmp_path, folders["bert"], "last")
    assert data.notes[-1] == "Read in the first texts: '[UNK]', '[UNK]', '[UNK]'."
    (said,) = (note for note in data.notes if note.startswith("Unknown"))
    assert said.startswith("Unknown to the model's tokenizer: 256 of 1,")
    found["plain"] = [f"猫 在 {one}" for one in found.plain.str[:7] + found.index.astype(str)]
    found["plain"] = "猫在房子里睡觉" * 2 + found.plain
    with pytest.raises(UserError, match="does not know .*give a model of the language and script"):
        prepared(found, tmp_path, folders["bert"])


def test_a_place_that_a_text_lacks_is_said_with_its_row(folders, tmp_path):
    found = table()
    found.loc[9, "pair"] = "The moon is here."
    with pytest.raises(UserError, match="row 10, rewritten text: '.*' is not in the text 'The moo"):
        prepared(found, tmp_path, folders["bert"], "last word", pair="pair", spot="rest")
    found.loc[3, "text"] = "The moon is here."
    with pytest.raises(UserError, match=r"row 4: \[MASK\] is not in the text 'The moon"):
        prepared(found, tmp_path, folders["bert"], "[MASK]", text="text")
    with pytest.raises(UserError, match="--too-long trim is not valid: expected refuse, cut, drop"):
        prepared(table(), tmp_path, folders["bert"], too_long="trim")
