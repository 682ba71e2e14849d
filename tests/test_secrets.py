"""Keys: what hides them in a notebook, and what refuses them as a parameter."""

from __future__ import annotations

import html
import json
from urllib.parse import quote

import nbformat
import pytest
from nbformat import v4

from conftest import probebook
from probebook.base import UserError
from probebook_runs.execute import run_all
from probebook_runs.pages import find
from probebook_runs.secrets import hide_secrets
from probebook_runs.store import plan

KEY = 'sk-0123"<&>/é\\456789'


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", KEY)
    # no secret: TOKEN is not how its name ends
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "parallelism")
    monkeypatch.setenv("SHORT_TOKEN", "the")


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        json.dumps(KEY),
        json.dumps(KEY, ensure_ascii=False),
        repr(KEY),
        html.escape(KEY),
        quote(KEY),
        quote(KEY, safe=""),
    ],
)
def test_a_key_is_hidden_however_it_is_written(form):
    assert hide_secrets(f"the key is {form}.").count("***SOME_API_KEY***") == 1
    assert "0123" not in hide_secrets(form)
    assert "456789" not in hide_secrets(form)


def test_other_text_is_left_alone():
    text = "the parallelism of https://host/v1?q=a@b, me@example.org and http://127.0.0.1:8000/v1"
    assert hide_secrets(text) == text
    assert hide_secrets({"n": 1, "x": [None, 0.5, True]}) == {"n": 1, "x": [None, 0.5, True]}


def test_the_user_of_an_address_is_hidden():
    assert hide_secrets("at https://me:pa@ss@host:80/v1 and") == "at https://***@host:80/v1 and"


def test_a_longer_key_goes_first(monkeypatch):
    monkeypatch.setenv("OTHER_TOKEN", "abcdefgh")
    monkeypatch.setenv("LONGER_TOKEN", "abcdefgh12345")
    assert hide_secrets("abcdefgh12345 abcdefgh") == "***LONGER_TOKEN*** ***OTHER_TOKEN***"


def test_a_notebook_keeps_its_shape_and_loses_its_keys():
    outputs = [
        v4.new_output("stream", text=f"{KEY}\n"),
        v4.new_output(
            "execute_result",
            data={
                "text/html": f"<td>{html.escape(KEY)}</td>",
                "application/json": {"key": [KEY]},
                "text/csv": f"a\n{KEY}\n",
            },
        ),
        v4.new_output(
            "error", ename="E", evalue=repr(KEY), traceback=["line", f"\x1b[31m{KEY}\x1b[0m"]
        ),
    ]
    cell = v4.new_code_cell(f"print({KEY!r})", outputs=outputs)
    notebook = v4.new_notebook(cells=[cell], metadata={"probebook": {"parameters": {"x": KEY}}})
    hidden = hide_secrets(notebook)
    text = nbformat.writes(hidden)
    nbformat.validate(hidden)
    assert "0123" not in text
    assert text.count("***SOME_API_KEY***") == 8
    assert "0123" in nbformat.writes(notebook)
    assert hidden.cells[0].outputs[1].output_type == "execute_result"  # attributes as before


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (KEY, "holds the value of SOME_API_KEY"),
        (f"Bearer {KEY}", "holds the value of SOME_API_KEY"),
        ("https://me:pass@host/v1", "without user and password"),
        ("http://me@host", "without user and password"),
    ],
)
def test_a_key_is_no_parameter(tiny, value, says):
    home = tiny(parameters="server: str | None = None\nnames: list[str] = []\nn: int = 1")
    for given in ({"server": value}, {"names": ["a", value]}, {"n": value}):
        with pytest.raises(UserError, match=says) as e:
            plan(find("1_demo"), values=given)
        assert "\n" not in str(e.value)
        assert "0123" not in str(e.value)
        assert "pass@" not in str(e.value)
    done = probebook("run", "1_demo", "-p", f"server={value}")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "0123" not in done.stderr
    assert not (home / "_build").exists()


def test_plain_papermill_is_refused_in_the_page(tiny, monkeypatch):
    from probebook_runs.page import start

    page = {"In": ["server: str = ''"], "server": KEY}
    with pytest.raises(UserError, match="holds the value of SOME_API_KEY"):
        start(page)
    page["server"] = "http://127.0.0.1:8000/v1"
    start(page)


@pytest.mark.parametrize("end", ["'fine'", "raise ValueError(key)"])
def test_what_a_page_shows_of_a_key_is_nowhere_kept(tiny, capfd, end):
    home = tiny(
        "import os, pandas as pd",
        "key = os.environ['SOME_API_KEY']; print(key); display(key)",
        "write_table(pd.DataFrame({'word': [key], 'x': [1]}), 't', ids=['word'])",
        end,
    )
    failed = run_all([plan(find("1_demo"))])
    assert bool(failed) == (end != "'fine'")
    assert "sk-0123" not in capfd.readouterr().err
    files = [path for path in (home / "_build").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"sk-0123" in path.read_bytes()]
