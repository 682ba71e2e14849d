"""What learning platforms export: whose a notebook is, which attempt counts, what is no hand-in;
and class lists as platforms and spreadsheets write them."""

from __future__ import annotations

import io
import json
import os
import zipfile

import pandas as pd
import pytest

from probebook.base import UserError
from probebook_runs.labs.exercises import answers
from probebook_runs.labs.hand_ins import MOST, HandIn, collect, read_notebook
from probebook_runs.labs.people import by_key, students


def put(folder, *paths: str) -> None:
    for i, path in enumerate(paths):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"{}")
        os.utime(file, (1_700_000_000 + i, 1_700_000_000 + i))


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def hand_in(path: str) -> HandIn:
    return HandIn(path, b"", "", (2026, 1, 1))


# what is a hand-in


def test_hidden_files_and_copies_of_editors_are_no_hand_ins(tmp_path):
    put(
        tmp_path,
        "Doe Jane_123_assignsubmission_file_/x.ipynb",
        "Doe Jane_123_assignsubmission_file_/.virtual_documents/x.ipynb",
        "Doe Jane_123_assignsubmission_file_/.ipynb_checkpoints/x-checkpoint.ipynb",
        "__MACOSX/Doe Jane_123_assignsubmission_file_/._x.ipynb",
        "Doe Max_124_assignsubmission_file_/X.IPYNB",
        "Doe Max_124_assignsubmission_file_/notes.pdf",
        "saved by a browser.ipynb.txt",
    )
    found, others = collect(tmp_path)
    assert [one.name for one in found] == [
        "Doe Jane_123_assignsubmission_file_/x",
        "Doe Max_124_assignsubmission_file_/X",
        "saved by a browser",
    ]
    assert len(others) == 4


def test_zip_files_are_read_where_they_are_and_lead_nowhere_else(tmp_path):
    inner = zipped({"lab/x.ipynb": b"{}", "__MACOSX/lab/._x.ipynb": b"\0"})
    names = {"../../Müller Max_1_assignsubmission_file_/x.ipynb": b"{}", "/etc/y.ipynb": b"{}"}
    (tmp_path / "submissions.zip").write_bytes(
        zipped(names | {"doejane_1_2_lab.zip": inner, "windows\\z.ipynb": b"{}"})
    )
    for place in tmp_path, tmp_path / "submissions.zip":
        assert [one.path.removeprefix("submissions.zip/") for one in collect(place)[0]] == [
            "Müller Max_1_assignsubmission_file_/x.ipynb",
            "etc/y.ipynb",
            "doejane_1_2_lab.zip/lab/x.ipynb",
            "windows/z.ipynb",
        ]
    assert [path.name for path in tmp_path.iterdir()] == ["submissions.zip"]


def test_a_zip_file_of_macos_that_does_not_say_it_is_utf_8_is_read_as_such(tmp_path):
    whole = zipped({"M?ller Max_1_assignsubmission_file_/x.ipynb": b"{}"})
    (tmp_path / "a.zip").write_bytes(whole.replace(b"M?ller", "Mül".encode() + b"er"))
    assert collect(tmp_path)[0][0].student == "Müler Max"


def test_zip_files_that_cannot_be_read_are_hand_ins_with_a_problem(tmp_path, monkeypatch):
    content = zipped({"x.ipynb": b"{}" * 100_000})
    bomb = zipped({f"{i}.ipynb": b"" for i in range(5)})
    for _ in range(4):
        bomb = zipped({"deeper.zip": bomb})
    (tmp_path / "ada.zip").write_bytes(content[:-40])
    (tmp_path / "bob.zip").write_bytes(bomb)
    (tmp_path / "cyd.zip").write_bytes(content)
    monkeypatch.setattr("probebook_runs.labs.hand_ins.MOST", 5 << 16)
    found, _ = collect(tmp_path)
    assert [one.problem for one in found] == [
        "cannot be read: File is not a zip file",
        "cannot be read: it lies too deep in other zip files",
        "cannot be read: zip files may hold 0.0 GB in all",
    ]
    assert MOST == 1 << 30


# whose it is, and which attempt counts


@pytest.mark.parametrize(
    ("older", "newer", "student"),
    [
        ("doejane_LATE_11_21_x.ipynb", "doejane_11_22_x-1.ipynb", "doejane"),  # Canvas
        (
            "Doe Jane_12_assignsubmission_file_/x.ipynb",
            "Doe Jane_12_assignsubmission_file_/final.ipynb",
            "Doe Jane",
        ),
        ("Doe Jane_12_assignsubmission_file_x.ipynb", "Doe Jane_12_assignsubmission_file_y.ipynb", "Doe Jane"),
        (
            "Lab 1_jdoe_attempt_2026-09-30-22-38-06_x.ipynb",
            "Lab 1_jdoe_attempt_2026-10-01-08-00-00_x.ipynb",
            "jdoe",
        ),  # Blackboard
        ("jdoe_attempt_2026-09-30-22-38-06_x.ipynb", "jdoe_attempt_2026-10-01-08-00-00_x.ipynb", "jdoe"),  # nbgrader
        ("jdoe+ps1+2026-09-30 22:38:06 UTC/x.ipynb", "jdoe+ps1+2026-10-01 08:00:00 UTC/x.ipynb", "jdoe"),
        (
            "12-34 - Jane Doe - Sep 30, 2026 1138 AM/x.ipynb",
            "12-34 - Jane Doe - Oct 1, 2026 138 AM/x.ipynb",
            "Jane Doe",
        ),  # Brightspace
        (
            "12-34 - Anne-Marie Doe- 30 September, 2026 938 PM - x.ipynb",
            "12-34 - Anne-Marie Doe- 30 September, 2026 1038 PM - x.ipynb",
            "Anne-Marie Doe",
        ),
        ("Doe, Jane(jdoe)/x.ipynb", "Doe, Jane(jdoe)/y.ipynb", "Doe, Jane"),  # Sakai
        ("Jane Doe/Lab 1/Version 9/x.ipynb", "Jane Doe/Lab 1/Version 10/x.ipynb", "Jane Doe"),  # Teams
        ("jdoe/x.ipynb", "jdoe/x (1).ipynb", "jdoe"),
        ("jdoe/lab/x.ipynb", "jdoe/lab/x_final.ipynb", "jdoe"),
        ("submissions.zip/jdoe/x.ipynb", "jdoe/x.ipynb", "jdoe"),
    ],
)  # fmt: skip
def test_attempts_of_a_student_are_known_and_the_newest_counts(older, newer, student, tmp_path):
    first, second = (HandIn(path, b"", "", (2026, 1, i)) for i, path in enumerate((older, newer)))
    assert first.student == second.student == student
    assert first.series({older, newer}) == second.series({older, newer})
    assert first.age < second.age
    first, second = (HandIn(f"Lab 1/{path}", b"", "", (2026, 1, 1)) for path in (older, newer))
    assert first.series({first.path, second.path}) == second.series({first.path, second.path})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.ipynb", "x (1).ipynb"),  # as a browser saves what two students called x
        ("week1/ann.ipynb", "week1/anna.ipynb"),
        ("week1/student_1.ipynb", "week1/student_2.ipynb"),
        ("week1/ada/x.ipynb", "week1/bob/x.ipynb"),
        ("ada.zip/x.ipynb", "bob.zip/x.ipynb"),
        ("hw_1_3_ada.ipynb", "hw_1_3_bob.ipynb"),  # no ids of Canvas: these are never the same
        (
            "Doe Jane_12_assignsubmission_file_/x.ipynb",
            "Doe Jane_13_assignsubmission_file_/x.ipynb",
        ),
        ("doejane_11_21_x.ipynb", "doejane_12_22_x.ipynb"),
        ("a_doe_attempt_2026-09-30-22-38-06_x.ipynb", "b_doe_attempt_2026-10-01-08-00-00_x.ipynb"),
    ],
)
def test_notebooks_of_different_students_are_never_attempts_of_one(one, other):
    assert hand_in(one).series({one, other}) != hand_in(other).series({one, other})


def class_of(*rows: tuple[str, str, str]) -> dict[str, set[str]]:
    return by_key(pd.DataFrame(rows, columns=["student", "name", "ids"]))


@pytest.mark.parametrize(
    "path",
    [
        "muller-max/x.ipynb",
        "Müller Max_12_assignsubmission_file_/x.ipynb",
        "Mu\u0308ller Max_12_assignsubmission_file_/x.ipynb",  # as macOS writes it
        "müllermax_LATE_1_2_x.ipynb",
        "Lab_1_mmueller_attempt_2026-09-30-22-38-06_x.ipynb",
        "12-34 - Max Müller - Sep 30, 2026 1138 AM/x.ipynb",
        "Somebody, Else(mmueller)/x.ipynb",
        "someone_4711_9_x.ipynb",
        "Max Müller - Copy of x.ipynb",
        "submissions.zip/week 1/MMUELLER/lab/x.ipynb",
        "home/m.mueller@uni.edu/x.ipynb",
        "Max Müller.zip/x.ipynb",
    ],
)
def test_platforms_names_lead_to_the_student(path):
    people = class_of(
        ("muller-max", "Müller, Max", "4711; mmueller; m.mueller@uni.edu"),
        ("o-brien-ann", "O'Brien, Ann", ""),
        ("王伟", "王伟", ""),
    )
    assert hand_in(path).owner(people) == "muller-max"
    assert hand_in("Ann OBrien_7_assignsubmission_file_/x.ipynb").owner(people) == "o-brien-ann"
    assert hand_in("王伟_7_assignsubmission_file_/x.ipynb").owner(people) == "王伟"


def test_a_name_of_nobody_or_of_two_is_refused():
    people = class_of(("jane-doe", "Jane Doe", "jd1"), ("jane-doe-2", "Jane Doe", "jd2"))
    with pytest.raises(UserError, match="handed out to 'Jo': put the notebook into a folder"):
        hand_in("Jo_7_assignsubmission_file_/jane-doe.ipynb").owner(people)
    with pytest.raises(UserError, match="'Jane Doe' may be jane-doe or jane-doe-2: put"):
        hand_in("Jane Doe_7_assignsubmission_file_/x.ipynb").owner(people)
    assert hand_in("jane-doe-2/x.ipynb").owner(people) == "jane-doe-2"
    assert hand_in("jane-doe/x.ipynb").owner(people) == "jane-doe"
    assert hand_in("jd1/x.ipynb").owner(people) == "jane-doe"


# class lists

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (12)
    Points Possible,,,,,10
"Doe, Jane",11,s11,jdoe,A,
"O'Brien, Ann",12,s12,aobrien,A,
"Student, Test",13,,x,A,
"""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("name\nJane Doe\nMüller\nO'Brien\njane@uni.edu\n王伟\n", ["jane-doe", "muller", "o-brien", "jane-uni-edu", "王伟"]),
        (CANVAS, ["doe-jane", "o-brien-ann"]),
        ("First name;Last name;Email address\nJane;Doe;j@uni.edu\n;;\n", ["jane-doe"]),  # Moodle
        ("Vorname\tNachname\tE-Mail-Adresse\nMax\tMüller\tm@uni.edu\n", ["max-muller"]),
        ("Identifier,Full name,Email address\nParticipant 7,Jane Doe,j@uni.edu\n", ["jane-doe"]),
        ("OrgDefinedId,Username,Last Name,First Name,End-of-Line Indicator\n#7,#jdoe,Doe,Jane,#\n", ["jane-doe"]),
        ("id,first_name,last_name,email\njdoe,,,\naobrien,Ann,O'Brien,\n", ["jdoe", "ann-o-brien"]),  # nbgrader
        ("Name,SID,Email\nNull,7,n@uni.edu\nNA,8,a@uni.edu\n", ["null", "na"]),  # Gradescope
        ("sep=;\nName;x\n\"Doe; Jane\";1\n", ["doe-jane"]),
        ("name\nJane Doe\nJANE DOE\n../../etc\n--\n", ["jane-doe", "jane-doe-2", "etc", "student"]),
        ("name,e-mail\nJane Doe,a@uni.edu\nJane Doe,b@uni.edu\n", ["jane-doe", "jane-doe-2"]),
        ("E-mail\njane@uni.edu\n", ["jane-uni-edu"]),
        ("name\nDoe, Jane\n", ["doe-jane"]),
        ("Name;Vorname\nMüller;Max\n", ["muller-max"]),
        ("Name,Surname\nJane,Doe\nJane,Roe\n", ["jane-doe", "jane-roe"]),
    ],
    ids=range(15),
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_name_is_a_name_and_folders_are_slugs(tmp_path, content, expected, encoding, end):
    if encoding == "cp1252":
        content = content.replace("王伟", "Ångström")
        expected = ["angstrom" if name == "王伟" else name for name in expected]
    (tmp_path / "class.csv").write_bytes(content.replace("\n", end).encode(encoding))
    people = students(tmp_path / "class.csv")
    assert list(people.index) == expected
    assert list(people.seed) == [*range(1001, 1001 + len(expected))]


def test_a_class_list_says_whom_it_took_and_what_else_names_them(tmp_path, capsys):
    (tmp_path / "class.csv").write_text(CANVAS)
    people = students(tmp_path / "class.csv")
    assert list(people.name) == ["Doe, Jane", "O'Brien, Ann"]
    assert people.ids["doe-jane"] == "11; s11; jdoe"
    said = capsys.readouterr().err.splitlines()
    assert said == [f"{tmp_path}/class.csv: 2 students; left out: Points Possible, Student, Test"]


# a notebook's cells


def notebook(*cells: dict, minor: int = 4) -> bytes:
    text = {"metadata": {}, "nbformat": 4, "nbformat_minor": minor, "cells": list(cells)}
    return json.dumps(text).encode()


def cell(source: str | list[str], **more) -> dict:
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": []} | more


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("# exercise 2 of 1_a/01\r\nx = 1\r\n", "x = 1"),
        ("# exercise 2 of 1_a/01 \nx = 1", "x = 1"),
        ("\n\n# exercise 2 of 1_a/01\n\nx = 1", "x = 1"),
        ("#exercise 2 of 1_a/01\nx = 1", "x = 1"),
        ("#@title My answer { display-mode: \"form\" }\n# exercise 2 of 1_a/01\nx = 1", "x = 1"),
        ("%%time\n# exercise 2 of 1_a/01\nx = 1", "x = 1"),
        ("#@title A\n%%time\n# exercise 2 of 1_a/01\n%matplotlib inline\n!pip install y\nx = 1", "x = 1"),
        ("# exercise 2 of 1_a/01\n%time x = 1", "x = 1"),
        ("import y\n# my work\n    # exercise 2 of 1_a/01\nx = 1", "import y\nx = 1"),
    ],
)  # fmt: skip
def test_the_line_that_names_an_exercise_is_found_wherever_it_stands(source, read):
    [only] = read_notebook(notebook(cell(source))).cells
    [(number, code)] = answers(only)
    lines = [line for line in code.splitlines() if line.partition("#")[0].strip()]
    assert (number, "\n".join(lines)) == (2, read)


def test_a_cells_own_id_counts_and_merged_cells_hold_several_answers():
    own = cell("x = 1", id="exercise-2")
    colab = cell("x = 1", metadata={"id": "exercise-3"})
    merged = cell("# exercise 1 of a/01\nx = 1\n# exercise 2 of a/01\ny = 2", id="exercise-1")
    copied = cell("# exercise 2 of a/01\nx = 1", id="exercise-1")
    bare = cell(["x\n", "y"])
    text = {"cell_type": "markdown", "source": "# exercise 1 of a/01\n", "metadata": {}}
    content = notebook(own, colab, merged, copied, bare, text)
    read = read_notebook(b"\xef\xbb\xbf" + content)
    assert [answers(one) for one in read.cells] == [
        [(2, "x = 1")],
        [(3, "x = 1")],
        [(1, "# exercise 1 of a/01\nx = 1\n"), (2, "# exercise 2 of a/01\ny = 2")],
        [(1, "# exercise 2 of a/01\nx = 1")],
        [],
        [],
    ]
    assert read.cells[4].source == "x\ny"
