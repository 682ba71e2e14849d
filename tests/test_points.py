"""Points of a class as Moodle and Canvas import them."""

from __future__ import annotations

import pandas as pd
import pytest

from conftest import probebook
from probebook.base import UserError
from probebook_runs.labs.points import earned, write

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Essay (77)
    Points Possible,,,,,10
"Doe, Jane",11,s11,jdoe,A,9
"O'Brien, Ann",12,s12,aobrien,A,8
"Roe, Max",13,s13,maxroe,B,7
"Student, Test",14,,x,A,
"""
MOODLE = """First name,Last name,ID number,Email address,Groups
Jane,Doe,s11,jdoe@uni.edu,A
Ann,O'Brien,s12,aobrien@uni.edu,A
Max,Roe,s13,maxroe@uni.edu,B
"""
GRADES = """submission,student,page,exercise,title,outcome,message,answer,minutes,points
x,{jane},1_causal_probing/03_first,1,Predict,predicted,,1,,2
x,{jane},1_causal_probing/03_first,2,Raw weights,wrong,"no, 3",,,0
x,{jane},1_causal_probing/03_first,3,Say why,to read,,"Two
lines",,{read}
y,{ann},1_causal_probing/03_first,1,Predict,predicted,,1,,2
y,{ann},1_causal_probing/03_first,2,Raw weights,passed,,,,2
y,{ann},1_causal_probing/03_first,3,Say why,not done,,,,0
z,unreadable,,0,,error,no notebook,,,0
"""
NAMES = {"jane": "doejane", "ann": "Ann O'Brien", "read": "1"}
COLUMNS = ["1.3.1 Predict", "1.3.2 Raw weights", "1.3.3 Say why", "Total"]


def files(tmp_path, people: str, **names: str):
    (tmp_path / "class.csv").write_text(people)
    (tmp_path / "grades.csv").write_text(GRADES.format(**NAMES | names))
    return tmp_path / "grades.csv", tmp_path / "class.csv", tmp_path / "points.csv"


def test_a_written_answer_has_no_points_until_somebody_read_it():
    assert list(earned(pd.Series(["passed", "predicted", "wrong", "missing"]))) == [2, 2, 0, 0]
    assert earned(pd.Series(["to read"])).isna().all()


def test_canvas_gets_its_own_columns_and_the_possible_points(tmp_path):
    *given, out = files(tmp_path, CANVAS)
    assert write(*given, out) == []
    table = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert list(table) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *COLUMNS]
    assert table.to_numpy().tolist() == [
        ["    Points Possible", "", "", "", "", "2", "2", "2", "6"],
        ["Doe, Jane", "11", "s11", "jdoe", "A", "2", "0", "1", "3"],
        ["O'Brien, Ann", "12", "s12", "aobrien", "A", "2", "2", "0", "4"],
        ["Roe, Max", "13", "s13", "maxroe", "B", "", "", "", ""],
    ]


def test_moodle_gets_its_own_columns_and_unread_answers_are_named(tmp_path):
    *given, out = files(tmp_path, MOODLE, read="", jane="jdoe")
    assert write(*given, out) == ["jdoe: 1 without points"]
    table = pd.read_csv(out, dtype=str, keep_default_na=False)
    head = ["First name", "Last name", "ID number", "Email address", "Groups"]
    assert list(table) == [*head, *COLUMNS]
    assert table[COLUMNS].to_numpy().tolist() == [
        ["2", "0", "", ""],
        ["2", "2", "0", "4"],
        ["", "", "", ""],
    ]


@pytest.mark.parametrize(
    ("people", "names", "message"),
    [
        (MOODLE, {"jane": "Eve"}, "class.csv has 0 students called 'Eve', not 1"),
        (
            MOODLE.replace("Ann,O'Brien", "Jane,Doe"),
            {},
            "class.csv has 2 students called 'doejane', not 1",
        ),
        (MOODLE, {"read": "3"}, "grades.csv: points should be 0, 1 or 2, not '3' for doejane"),
    ],
)
def test_what_cannot_be_matched_is_one_line(tmp_path, people, names, message):
    *given, out = files(tmp_path, people, **names)
    with pytest.raises(UserError, match=message):
        write(*given, out)
    assert not out.exists()


def test_the_command_says_what_it_wrote_and_what_is_no_table_of_grades(tmp_path):
    grades, people, out = map(str, files(tmp_path, CANVAS, read=""))
    done = probebook("lab", "points", grades, people, "--out", out)
    assert (done.returncode, done.stdout) == (0, f"{out}\n")
    assert "doejane: 1 without points" in done.stderr
    refused = probebook("lab", "points", people, people)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"probebook: {people}: it has no column student: give the CSV of lab grade\n"
    )
