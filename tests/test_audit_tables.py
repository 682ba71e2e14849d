"""What people bring to an audit: each table is read as it is meant, or refused in one line."""

from __future__ import annotations

import json
import unicodedata
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import probebook_audit as audit
from probebook.base import UserError
from probebook.corpora.words import find_word
from probebook_audit import labelled, report
from probebook_audit.questions import shortcut
from probebook_cli import app

N = 200
TEXTS = [f"The {'dog' if i % 2 else 'dogs'} of house {i} [MASK] here." for i in range(N)]
TABLE = pd.DataFrame({"text": TEXTS, "label": ["one", "many"] * (N // 2)})
ROWS = "".join(f"{text}\t{label}\n" for text, label in TABLE.itertuples(index=False))


def write(path, table):
    """A table as CSV, TSV, JSON lines or Parquet, by the file's name."""
    {
        ".csv": lambda: table.to_csv(path, index=False),
        ".tsv": lambda: table.to_csv(path, index=False, sep="\t"),
        ".jsonl": lambda: table.to_json(path, orient="records", lines=True),
        ".parquet": lambda: table.to_parquet(path),
    }[path.suffix]()
    return path


def read(path, **columns):
    return labelled.read(str(path), **({"text": "text", "label": "label"} | columns))


def refused(path, **columns):
    with pytest.raises(UserError) as e:
        read(path, **columns)
    assert "\n" not in str(e.value)
    return str(e.value)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
@pytest.mark.parametrize("column", ["messages", "tokens", "tags", "text"])
def test_cells_that_hold_several_things_are_refused_by_row(tmp_path, name, column):
    table = TABLE.assign(
        messages=[[{"role": "user", "content": one}] for one in TEXTS],
        tokens=[one.split() for one in TEXTS],
        tags=[[one, "en"] for one in TABLE.label],
    )
    path = write(tmp_path / name, table)
    if column == "text":  # one that begins with a bracket is a text
        table = TABLE.assign(text=["[MASK] [1] " + one for one in TEXTS])
        assert read(write(path, table)).text[0].startswith("[MASK] [1]")
        return
    given = {"text": column} if column == "tokens" else {"label": column}
    assert f"column '{column}': row 1 holds a list" in refused(path, **given)


def test_quotation_marks_in_tsv_are_parts_of_texts(tmp_path):
    """Two that open a text, and another that closes one: no row is merged."""
    path = tmp_path / "q.tsv"
    lines = ROWS.splitlines()
    lines[9], lines[15] = '"' + lines[9], '"' + lines[15]
    lines[20] = lines[20].replace("\t", '"\t')
    path.write_text("text\tlabel\n" + "\n".join(lines))
    data = read(path)
    assert data.text[9] == '"' + TEXTS[9] and data.text[20] == TEXTS[20] + '"'
    assert len(data.text) == N and data.notes == ("Quotation marks are parts of the texts.",)


def test_tsv_with_quoted_cells_is_read_without_the_marks(tmp_path):
    said = [f'He said: "{one}"\n\tAnd left.' for one in TEXTS]
    data = read(write(tmp_path / "q.tsv", TABLE.assign(text=said)))
    assert data.text == said and data.notes == ()


@pytest.mark.parametrize(
    ("rows", "right"),
    [
        ('"a cat,one\nx,many\n"b,one\n', "line 4: a quotation mark is not closed"),
        ('"a \\"cat\\" b",one\n', "line 2: a quotation mark"),
        ("a,b,one\n", "line 2: 3 cells, the header has 2"),
        ("a\nb,one\n", "line 2: 1 cells, the header has 2"),
    ],
)
def test_csv_that_would_merge_or_split_rows_is_refused(tmp_path, rows, right):
    path = tmp_path / "t.csv"
    path.write_text("text,label\n" + rows)
    assert right in refused(path)


@pytest.mark.parametrize(
    ("name", "encoding", "first", "separator"),
    [
        ("T.CSV", "utf-8", "", ","),
        ("t.csv", "utf-8-sig", "", ","),
        ("t.csv", "utf-16", "", "\t"),
        ("t.csv", "utf-8", "sep=;\r\n", ";"),
        ("t.csv", "utf-8", "", ";"),
        ("t.TSV", "utf-8-sig", "", "\t"),
    ],
)
def test_what_spreadsheets_write(tmp_path, name, encoding, first, separator):
    path = tmp_path / name
    rows = "text\tlabel\n" + ROWS.replace("dog", "Hündchen")
    path.write_text(first + rows.replace("\t", separator), encoding=encoding)
    data = read(path)
    assert data.text == [one.replace("dog", "Hündchen") for one in TEXTS]
    usual = "\t" if name.endswith("TSV") else ","
    told = () if separator == usual else (f"The columns are separated by {separator!r}.",)
    assert data.notes == told


def test_other_encodings_and_columns_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\nabc,one\ncafé,one\n", encoding="latin-1")
    assert "line 3, is not UTF-8: save the file as UTF-8" in refused(path)
    path.write_text("text,label,text\na,one,b\n")
    assert "two columns 'text': rename one" in refused(path)


def test_json_lines_with_a_byte_order_mark_and_parquet_with_an_index(tmp_path):
    lines = TABLE.assign(label=TABLE.label == "one").to_json(orient="records", lines=True)
    (tmp_path / "t.jsonl").write_text(lines, encoding="utf-8-sig")
    assert read(tmp_path / "t.jsonl").classes == ["False", "True"]
    TABLE.set_index("text").to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").text == TEXTS


def test_labels_are_those_that_are_meant(tmp_path):
    path = tmp_path / "t.csv"

    def classes(*names):
        return read(write(path, TABLE.assign(label=[*names] * (N // len(names))))).classes

    assert classes("NA", "None") == ["NA", "None"]
    assert classes(" is", "is", "are", "are\u00a0") == ["are", "is"]
    assert classes("na\u00efve", "nai\u0308ve", "tea", "tea") == ["naïve", "tea"]
    assert classes("1.0", "0", "1", "0") == ["0", "1"]
    assert classes("1", "inf") == ["1", "inf"]
    write(path, TABLE.assign(label=["Plural", "plural"] * (N // 2)))
    assert "'Plural' and 'plural': write a class in one way" in refused(path)
    write(path, TABLE.assign(label=["0,5", "1,5"] * (N // 2)))
    assert "0,5 is not a valid class" in refused(path)
    score = [f"{i},{i % 7}" for i in range(N)]
    data = read(write(path, TABLE.assign(score=score)), keep=["score"])
    assert data.known["score"].tolist() == [float(one.replace(",", ".")) for one in score]


@pytest.mark.parametrize(
    "copy",
    [
        lambda one: one + " ",
        lambda one: one.replace(" ", "\u00a0"),
        lambda one: one.upper(),
        lambda one: unicodedata.normalize("NFD", one),
        lambda one: "\u200b" + one,
    ],
)
def test_copies_that_look_alike_are_one_group(tmp_path, copy):
    half = TABLE.head(N // 2).assign(text=[one.replace("o", "ö") for one in TEXTS[: N // 2]])
    both = pd.concat([half, half.assign(text=half.text.map(copy))])
    data = read(write(tmp_path / "t.parquet", both.reset_index(drop=True)))
    assert (data.group[: N // 2] == data.group[N // 2 :]).all() and len({*data.group}) == N // 2
    assert data.notes == ("Merged with others, since they share a text: 100 of 200 items.",)


def test_items_without_a_label_a_group_or_a_word_are_counted(tmp_path):
    table = TABLE.assign(group=[f"g{i % 40}" for i in range(N)], verb="is", other="are")
    table.loc[::5, "label"], table.loc[1::5, "group"], table.loc[2::5, "other"] = None, None, None
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        data = read(write(tmp_path / name, table), group="group", words=["verb", "other"])
        assert data.notes == (
            "Left out, without a label: 40 of 200 items.",
            "Left out of the model's choice, without a word: 40 of 160 items.",
            "Each a group of its own, without a given one: 40 of 160 items.",
        )
        assert data.words.count(["is", ""]) == 40
        assert len({*data.group}) == 40 + 24 and data.size == N
    table.loc[6, "text"] = "\u200b"
    assert "row 7 has no text" in refused(write(tmp_path / "t.csv", table))


def test_a_rewritten_text_that_equals_its_text_is_none(tmp_path):
    pair = [one.replace("dog", "cat") if i >= 30 else f" {one} " for i, one in enumerate(TEXTS)]
    data = read(write(tmp_path / "t.csv", TABLE.assign(pair=pair)), pair="pair")
    assert data.pair == ["" if i < 30 else one for i, one in enumerate(pair)]
    assert data.notes == ("Left out, since they equal their texts: 30 rewritten texts.",)
    write(tmp_path / "t.csv", TABLE.assign(pair=TEXTS))
    assert "no row has a rewritten text that differs" in refused(tmp_path / "t.csv", pair="pair")


@pytest.mark.parametrize(
    ("text", "word", "found"),
    [
        ("concat the cat", "cat", "cat"),
        ("concat", "cat", None),
        ("猫在房子里睡觉", "房子", "房子"),
        ("在GPT里", "gpt", "GPT"),
        ("แมวนอนหลับ", "นอน", "นอน"),
        (unicodedata.normalize("NFD", "Un café noir"), "café", "cafe\u0301"),
        ("Un café noir", unicodedata.normalize("NFD", "café"), "café"),
        (unicodedata.normalize("NFD", "Un café noir"), "cafe", None),
        ("New\u00a0York is", "new york", "New\u00a0York"),
        ("a", "", None),
    ],
)
def test_a_word_is_found_in_any_script_and_form(text, word, found):
    place = find_word(text, word)
    assert (place and text[slice(*place)]) == found


def test_the_word_that_is_read_is_spelt_as_in_its_text(tmp_path):
    table = TABLE.assign(text=[f"猫在New\u00a0York睡觉{i}" for i in range(N)], spot="new york")
    data = read(write(tmp_path / "t.csv", table), spot="spot")
    assert {*data.spot} == {"New\u00a0York"}
    table.loc[3, "spot"] = "狗"
    assert "row 4: '狗' is not in the text" in refused(
        write(tmp_path / "t.csv", table), spot="spot"
    )


def rules(texts, z):
    """Shares in which each source's rule is right, on a quarter of the texts."""
    test = np.arange(0, len(z), 4)
    case = audit.Case(
        torch.randn(len(z), 3),
        torch.tensor(z),
        2,
        {},
        np.arange(len(z)),
        torch.from_numpy(test),
        texts,
    )
    rest = SimpleNamespace(fit=torch.from_numpy(np.setdiff1d(np.arange(len(z)), test)))
    return shortcut.rule_hits(case, [rest])[0].mean()


@pytest.mark.parametrize(
    ("letters", "names", "name"),
    [
        ("一二三四五六七八九十百千", ("猫", "狗"), "the string '狗'"),
        ("あいうえおかきくけこ", ("ねこ", "いぬ"), "the string 'いぬ'"),
        ("กขคงจฉชซ", ("แมว", "หมา"), "the string 'มว'"),
        ("가나다라마바사아자차", ("고양이", "멍멍이"), "the string '고'"),
        ("कखगघचछजझ", (" बिल्ली ", " कुत्ता "), "the word 'कुत्ता'"),
        ("abcdefghijkl", (" cat ", " dog "), "the word 'cat'"),
    ],
)
def test_a_label_given_by_one_word_is_seen_in_any_script(letters, names, name):
    draws = np.random.default_rng(0)
    z = draws.integers(0, 2, 240)
    texts = ["".join(draws.choice([*letters], 9)) + names[one] for one in z]
    texts = [one + "".join(draws.choice([*letters], 9)) for one in texts]
    right = rules(texts, z)
    assert right["bag of words"] == 1
    single = [one for one in right.index if one.startswith("the ")]
    assert len(single) == 1 and right[single[0]] == 1
    assert single[0].split()[1] == name.split()[1]


@pytest.mark.parametrize(
    ("held", "right"),
    [
        ({"h": torch.zeros(3 * N, 4)}, "h has 600 rows, "),
        ({"h": torch.zeros(N, 4), "pair": torch.zeros(N - 1, 4)}, "pair has 199 rows, "),
        ({"x": torch.zeros(N), "y": torch.zeros(N)}, "holds x [200], y [200]: name the states"),
        ({"h": torch.zeros(N, 3, 2, 4)}, "h has the shape [200, 3, 2, 4]: [rows, columns] is"),
    ],
)
def test_states_that_do_not_fit_the_rows_are_refused(tmp_path, held, right):
    data = read(write(tmp_path / "t.csv", TABLE))
    save_file(held, tmp_path / "s.safetensors")
    with pytest.raises(UserError) as e:
        audit.from_states(data, str(tmp_path / "s.safetensors"))
    assert right in str(e.value) and "\n" not in str(e.value)


@pytest.mark.usefixtures("kernels")
def test_states_alone_give_a_report_and_notes_stand_in_all_of_it(tmp_path):
    """Neither texts nor what should stay; what was left out is in HTML, JSON and methods."""
    h, z = torch.randn(400, 8, generator=torch.manual_seed(0)), torch.arange(400) % 2
    h[:, 0] += 6 * z
    save_file({"h": h}, tmp_path / "s.safetensors")
    label = [["one", "many"][one] if i >= 40 else "" for i, one in enumerate(z)]
    pd.DataFrame({"label": label}).to_csv(tmp_path / "t.csv", index=False)
    done = CliRunner().invoke(
        app,
        ["audit", str(tmp_path / "t.csv"), "--states", str(tmp_path / "s.safetensors")]
        + ["--label", "label", "--profile", "smoke", "--out", str(tmp_path / "r")],
    )
    assert done.exit_code == 0, done.output
    found = report.Report.model_validate_json((tmp_path / "r" / "report.json").read_bytes())
    note = "Left out, without a label: 40 of 400 items."
    assert found.notes == [note] and found.methods.endswith(note)
    assert f"<li>{note}</li>" in (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert pd.read_csv(tmp_path / "r" / "tables" / "notes.csv").note.tolist() == [note]
    assert {one.question: one.word for one in found.answers}["readable"] == "readable"
    assert json.loads((tmp_path / "r" / "report.json").read_text())["notes"] == [note]
