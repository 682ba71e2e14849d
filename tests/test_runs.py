"""Runs of pages: what is refused before a kernel starts, what a run leaves behind, when it is run
again."""

from __future__ import annotations

import os
import shutil
from textwrap import dedent

import jupytext
import nbformat
import pandas as pd
import papermill
import pytest
import yaml
from bs4 import BeautifulSoup

from conftest import HEADER, PARAMETERS
from probebook.base import UserError
from probebook_book import build
from probebook_runs import archive, pages, store
from probebook_runs.execute import kernel_environment, run_all
from probebook_runs.model_checks import check_models
from probebook_runs.page import write_table
from probebook_runs.pages import Page, find
from probebook_runs.plain import paired_notebook
from probebook_runs.records import read_record
from probebook_runs.results import compare, runs
from probebook_runs.schema import declared, from_file, from_text, types_in
from probebook_runs.store import plan, results, run_table

RECORDS = """
    import pandas as pd
    table = pd.DataFrame({"method": ["a", "b"], "score": [eps, 2 * eps], "items": [n, 2 * n]})
    write_table(table, "scores", ids=["method"])
    write_table(pd.DataFrame({"loss": [.5]}), "fit")
    """
OLDER = (
    '{"schema_version":1,"page":"1_demo/01_first","run":"0123456789abcdef0123",'
    '"profile":"pocket","parameters":{"n":7},"changed":["n"],"seed":0,'
    '"device":"a processor, 2 threads","threads":2,"versions":{"python":"3.11.7"},"data":{},'
    '"seconds":4.2,"finished":"2026-11-01 10:00","commit":"32848bd","files":{},"sha256":'
    '"9d577f1e53136d38ce96e56d3ebd45589caaa0f6c457ed98f9259b4aecb9b744"}'
)
LAYERS = "model: ModelName = 'm'\nlayers: list[Layer] = [0]\nlayer: Layer | None = -1"
WIDER = """
    share: Annotated[float, Field(ge=0, le=1)] = 0.5  # a range of its own
    few: Count | None = None  # None: all
    rates: list[float] = [0.1]  # of learning
    names: list[str] = []  # plain words
    word: str = ""  # any
    kinds: list[Literal["on", "none"]] | None = None  # None: both
    level: Literal[1, 2, "all"] = 1  # number or word
    """


def values(*assignments):
    page = find("1_demo/01")
    return plan(page, values=from_text(assignments)).values


def test_declared_parameters(tiny):
    tiny()
    found = find("1").parameters
    assert [(p.name, p.kind, p.default, p.comment) for p in found[:3]] == [
        ("n", "Count", 5, "rows"),
        ("eps", "Strength", 0.1, "step size"),
        ("rule", "Literal['mean', 'last']", "mean", "how pieces are joined"),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("eps=1e-3", 0.001),
        ("eps=2", 2.0),
        ("n=7", 7),
        ("sizes=[3, 4]", [3, 4]),
        ("fast=true", True),
        ("rule=last", "last"),
        ("word=on", "on"),
        ("word=1e-3", "1e-3"),
        ("rates=[1e-3, 2]", [0.001, 2.0]),
        ("names=[true, 1e-3]", ["true", "1e-3"]),
        ("few=None", None),
        ("few=null", None),
        ("few=none", None),
        ("few=3", 3),
        ("kinds=[on, none]", ["on", "none"]),
        ("level=2", 2),
        ("kinds=none", None),
        ("share=1", 1.0),
    ],
)
def test_values_are_read_in_their_types(tiny, text, value):
    tiny(parameters=PARAMETERS + WIDER)
    got = values(text)[text.partition("=")[0]]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "epsilon=1",
            "unknown parameter 'epsilon' of 1_demo/01_first: did you mean eps? it has n, eps, rule, "
            "sizes, fast",
        ),
        ("xyzzy=1", "unknown parameter 'xyzzy' of 1_demo/01_first: it has n, eps"),
        ("n=none", "valid integer"),
        ("n=many", "n = 'many' of 1_demo/01_first: should be a valid integer"),
        ("n=0", "greater than or equal to 1"),
        ("n=2.5", "valid integer"),
        ("n=true", "valid integer"),
        ("n=", "valid integer"),
        ("eps=-0.1", "equal to 0"),
        ("eps=inf", "finite"),
        ("eps=nan", "finite"),
        ("rule=first", "'mean' or 'last'"),
        ("sizes=3", "valid list"),
        ("sizes=[1, 0]", "item 2 should be"),
        ("sizes=[1, [2", "valid list"),
        ("share=2", "less than or equal to 1"),
        ("share=-1", "equal to 0"),
        ("few=0", "equal to 1"),
        ("level=3", "should be 1, 2 or 'all'"),
        ("fast=perhaps", "boolean"),
        ("n", "name=value"),
    ],
)
def test_bad_values_are_refused_in_one_line(tiny, text, says):
    tiny(parameters=PARAMETERS + WIDER)
    with pytest.raises(UserError, match="^[^\n]+$") as e:
        values(text)
    assert says in str(e.value)


def test_a_file_of_parameters_says_what_it_says(tiny, tmp_path):
    """YAML's own reader makes `yes` true, a date a date and `007` seven, and of nothing None."""
    tiny(parameters=PARAMETERS + WIDER)
    for text in ("yes", "2026-11-26", "007", "1e3", "off", "''"):
        (tmp_path / "values.yaml").write_text(f"word: {text}\nn: 7\nsizes: [3, 4]\nfast: yes")
        values = plan(find("1_demo"), values=from_file(tmp_path / "values.yaml")).values
        assert values["word"] == text.strip("'")
        assert (values["n"], values["sizes"], values["fast"]) == (7, [3, 4], True)
    (tmp_path / "values.yaml").write_text("# nothing yet\n")
    assert from_file(tmp_path / "values.yaml") == {}


def test_values_of_a_yaml_file_are_read_in_their_types(tiny):
    """YAML reads `1e-3` as text, and papermill's command line everything that it does not know."""
    tiny(parameters=PARAMETERS + WIDER)
    given = yaml.safe_load(
        "{eps: 1e-3, rates: [1e-3, 2], few: null, fast: true, n: '7', sizes: '[3, 4]'}"
    )
    assert plan(find("1_demo"), values=given).changed == {
        "n": 7,
        "eps": 0.001,
        "sizes": [3, 4],
        "fast": True,
        "rates": [0.001, 2.0],
    }
    for bad in (
        {"n": True},
        {"sizes": [True]},
        {"few": True},
        {"level": True},
        {"n": None},
        {"names": [1]},
    ):
        with pytest.raises(UserError, match="^[^\n]+$"):
            plan(find("1_demo"), values=bad)


@pytest.mark.parametrize(
    "cell",
    [
        "n = 5",
        "n: Count",
        "n: Number = 5",
        "n: Count = f(5)",
        "n: Count = 0",
        "print(1)",
        "n: print(1) = 5",
        "n: [c for c in ().__class__.__mro__][1] = 5",
        "n: Annotated[int, print(1)] = 5",
        "n: list[print(1)] = []",
        "n: Annotated[int, Field(ge=print(1))] = 5",
        "n: Annotated[int, Field(default_factory=print)] = 5",
        "n: Annotated[int, Field(colour=1)] = 5",
        "n: Literal[print(1)] = 5",
        "n: Count.__class__ = 5",
        "n: 'Count' = 5",
        "n: Literal = 5",
        "n: list = []",
    ],
)
def test_a_parameters_cell_holds_declarations_only(cell, capsys):
    with pytest.raises(UserError, match="line 1: should be `name: Type = plain value`"):
        declared(cell)
    assert capsys.readouterr().out == ""  # nothing in it was run


def test_a_parameters_comment_stands_behind_it_or_above():
    cell = "n: Count = 5  # rows\n# of each row\nm: list[Count] = [\n    1, 2]\nk: Count = 1"
    assert {p.name: p.comment for p in declared(cell)} == {"n": "rows", "m": "of each row", "k": ""}


def test_a_kernels_cells_declare_the_types_of_parameters():
    """The last declaration counts; what is no parameter, or did not run, does not."""
    cells = [
        "n: int = 1",
        "n = 2",
        "size: Frame = 3\nk: list[int] = [4]",
        "m: None | None",
        "k: int =",
        "n: bool",
    ]
    assert types_in(cells) == {"n": bool, "k": list[int]}


@pytest.mark.parametrize("layer", [-5, -1, 0, 4])
def test_layers_of_a_model_are_accepted(monkeypatch, layer):
    monkeypatch.setattr("probebook_runs.model_checks.pocket_depth", lambda name: 4)
    types = {p.name: p.type for p in declared(LAYERS)}
    assert check_models(types, {"model": "m", "layers": [1, layer], "layer": layer}) is None
    assert check_models(types, {"model": "m", "layers": [], "layer": None}) is None


@pytest.mark.parametrize(("layers", "layer"), [([0, 99], 0), ([0], 99), ([0], -6), ([5], 0)])
def test_a_layer_beyond_the_model_is_refused(monkeypatch, layers, layer):
    monkeypatch.setattr("probebook_runs.model_checks.pocket_depth", lambda name: 4)
    types = {p.name: p.type for p in declared(LAYERS)}
    with pytest.raises(UserError, match=r"layers? -?\d+: m has layers 0 … 4 \(or −1 … −5\)"):
        check_models(types, {"model": "m", "layers": layers, "layer": layer})


def test_unknown_page_and_profile(tiny):
    home = tiny()
    tiny(name="1_demo/02_second")
    with pytest.raises(UserError, match="several pages begin with '1_demo'"):
        find("1_demo")
    with pytest.raises(
        UserError, match="no page begins with '9': there are 1_demo/01_first, 1_demo/02_sec"
    ):
        find("9")
    with pytest.raises(UserError, match="expected smoke, pocket, real, paper"):
        plan(find("1_demo/01"), "huge")
    (home / "notebooks/profiles").mkdir()
    (home / "notebooks/profiles/smoke.yaml").write_text("1_demo/01_first: {n: 2}\n")
    assert plan(find("1_demo/01"), "smoke", {"eps": 1}).changed == {"n": 2, "eps": 1.0}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "1_demo/01_first:\n9_none: {n: 2}\n  {n: 3}\n",
            r"smoke.yaml, line 3: did not find expected key",
        ),
        (
            "1_demo/01_first: 2\n",
            r"profile smoke: 1_demo/01_first: should be \{parameter: value, …\}, not 2",
        ),
        ("9_none: {n: 2}\n", "profile smoke: no page '9_none'"),
    ],
)
def test_a_profile_that_cannot_be_read_is_one_line(tiny, text, says):
    folder = tiny() / "notebooks" / "profiles"
    folder.mkdir()
    (folder / "smoke.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=says) as error:
        plan(find("1_demo"), "smoke")
    assert "\n" not in str(error.value)


def test_a_page_without_its_header_is_one_line(tiny):
    path = tiny("1") / "notebooks" / "1_demo" / "01_first.md"
    path.write_text(path.read_text().partition("---\n# A page")[2], encoding="utf-8")
    with pytest.raises(
        UserError, match="01_first.md has no kernelspec: begin it with the header of another page"
    ):
        plan(find("1_demo"), "smoke")


def test_imports_are_found_in_statements_of_every_kind():
    source = """
import probebook.base as base, numpy
from probebook import probes
def late():
    with open("a"):
        from ..models import load
try:
    import probebook.figures
except ImportError:
    import probebook.hub
else:
    import probebook.corpora
finally:
    import probebook.measures
match base:
    case 1:
        import probebook.explainers
    case 2: import probebook.tables  # and nobody will import this
from probebook.devices import (  # (or elsewhere)
    place_states,  # :)
    WORTH)
from probebook.hub import \\
    check_folder
"Nothing is taken from"
import probebook.probes
%pip install anything
"""
    found = set(pages._imports(dedent(source), "probebook.probes"))
    names = "base probes figures hub corpora measures explainers models models.load tables".split()
    names += ["devices", "devices.place_states", "devices.WORTH", "hub.check_folder"]
    assert found == {"probebook", *(f"probebook.{name}" for name in names)}


def test_a_notebook_is_kept_until_the_page_changes(tiny, tmp_path, monkeypatch):
    """What jupytext reads is kept; a file of the cache that was cut short is written again."""
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    tiny("1")
    cells, notebook = find("1_demo").code, find("1_demo").notebook
    assert cells[1:] == [(["parameters"], dedent(PARAMETERS).strip()), ([], "1")]
    (kept,) = (tmp_path / "cache").rglob("*.json")
    monkeypatch.setattr(jupytext, "reads", None)
    assert find("1_demo").code == cells
    assert find("1_demo").notebook == notebook
    monkeypatch.undo()
    monkeypatch.setenv("PROBEBOOK_HOME", str(tmp_path))
    monkeypatch.setenv("PROBEBOOK_CACHE", str(tmp_path / "cache"))
    kept.write_text(kept.read_text()[:-9])
    assert find("1_demo").code == cells
    tiny("2")
    assert find("1_demo").code[2:] == [([], "2")]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("kernelspec: {name: python3}\ntitle: [", "while parsing"),
        ("only words", "'only words' is not of type 'object'"),
        ("title: x", "has no kernelspec"),
    ],
)
def test_a_header_that_cannot_be_read_is_one_line(tiny, header, says):
    path = tiny() / "notebooks" / "1_demo" / "01_first.md"
    path.write_text(f"---\n{header}\n---\n# A page\n", encoding="utf-8")
    with pytest.raises(UserError, match=says) as error:
        _ = find("1_demo").parameters
    assert "\n" not in str(error.value)


def test_tags_that_are_no_list_are_refused(tiny):
    path = tiny("1") / "notebooks" / "1_demo" / "01_first.md"
    path.write_text(path.read_text().replace("[parameters]", "parameters"), encoding="utf-8")
    with pytest.raises(
        UserError, match="header or cell options: 'parameters' is not of type 'array'"
    ):
        _ = find("1_demo").parameters


def test_a_page_without_heading_is_one_line(tiny):
    path = tiny("1") / "notebooks" / "1_demo" / "01_first.md"
    assert find("1_demo").title == "A page"
    path.write_text(path.read_text().replace("# A page", "A page"), encoding="utf-8")
    with pytest.raises(
        UserError, match="01_first.md has no heading: its first cell begins with one, # Title"
    ):
        _ = find("1_demo").title


def test_a_run_is_recorded_reused_and_stored(tiny):
    home = tiny("start(globals())", RECORDS)
    run = plan(find("1_demo"), values={"n": 7})
    assert run_all([run]) == []
    assert {p.name for p in run.folder.iterdir()} == {
        "notebook.ipynb",
        "metrics.parquet",
        "record.json",
    }
    assert [p.name for p in run.folder.parent.iterdir()] == [run.id]
    assert not run.partial.exists()
    written = run.path.stat().st_mtime_ns
    assert run_all([run]) == []
    assert run.path.stat().st_mtime_ns == written

    # the page shows what it ran with
    assert any("n = 7" in cell.source for cell in run.read().cells)
    long = results(run.read())
    assert list(long.columns) == ["table", "method", "metric", "value"]
    scores = long[long.table == "scores"].set_index(["metric", "method"])["value"]
    assert scores.to_dict() == {
        ("score", "a"): 0.1,
        ("score", "b"): 0.2,
        ("items", "a"): 7,
        ("items", "b"): 14,
    }
    assert long[long.table == "fit"].value.tolist() == [0.5]
    assert str(home) not in run.path.read_text(encoding="utf-8")

    folder = archive.add(run, "seven")
    assert sorted(p.name for p in folder.iterdir()) == ["fit.csv", "manifest.json", "scores.csv"]
    table = archive.archived("1_demo/01_first", "scores")["seven"]
    assert table.loc["b", "items"] == 14
    assert table.index.name == "method"
    assert archive.archived("1_demo/02", "fit") == {}
    manifest = archive.manifests()["1_demo/01_first/seven"]
    assert manifest["parameters"]["n"] == 7
    assert manifest["seed"] == 0
    assert manifest["versions"]["torch"]
    # its own record does not make it another run
    assert run.id == plan(find("1_demo"), values={"n": 7}).id
    assert len(run_table()) == 0  # n = 7 is no run of the profile
    with pytest.raises(UserError, match="probebook run 1_demo/01_first -p n=8"):
        plan(find("1_demo"), values={"n": 8}).read()


def test_what_makes_another_run(tiny, tmp_path, monkeypatch):
    """The id changes with page, parameter, data, folder and every module the page reaches, and with
    nothing else."""

    def new_id(**given):
        return plan(find("1_demo"), values=given).id

    library = shutil.copytree(pages.LIBRARY, tmp_path / "lib")
    data = tmp_path / "other"
    (data / "published").mkdir(parents=True)
    monkeypatch.setattr(pages, "LIBRARY", library)
    monkeypatch.setattr(store, "DATA", data)
    cell = "from probebook.measures import reliability"
    parameters = "model: ModelName = 'm'\nn: Count = 5"
    tiny(cell, parameters=parameters)
    first = new_id()
    assert new_id() == new_id(n=5) == first != new_id(n=6)

    names = pages.modules(find("1_demo"))
    assert {
        "probebook",
        "probebook.base",
        "probebook.measures",
        "probebook.measures.reliability",
        "probebook_runs.page",
    } <= set(names)
    assert not {"probebook_cli", "probebook_runs.execute", "probebook.measures.sample_size"} & set(
        names
    )
    for name, same in [
        ("probebook_cli/__init__", True),
        ("probebook/measures/sample_size", True),
        ("probebook/base", False),
        ("probebook/measures/reliability", False),
    ]:
        path = library / f"{name}.py"
        text = path.read_text()
        path.write_text(text + "\n# changed\n")
        assert (new_id() == first) == same, name
        path.write_text(text)
    tiny(cell + "\n# changed", parameters=parameters)
    assert new_id() != first
    tiny(cell, parameters=parameters)
    assert new_id() == first
    (data / "published" / "table.csv").write_text("a\n1\n")
    assert new_id() != first

    home = tiny(cell + '\nshown = "2_more/01_other", "a_sweep"', parameters=parameters)
    tiny("1", name="2_more/01_other")
    for name, same in [
        ("2_more/01_other/stored/manifest.json", False),
        ("2_more/01_other/stored/scores.csv", False),
        ("sweeps/a_sweep.csv", False),
        ("3_third/01_unread/stored/manifest.json", True),
        ("sweeps/another.csv", True),
    ]:
        path, before = home / "data" / "records" / name, new_id()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        assert (new_id() == before) == same, name

    model = tmp_path / "model"
    model.mkdir()
    before = new_id(model=str(model))
    (model / "weights").write_text("1")
    assert new_id(model=str(model)) != before


def test_another_precision_is_another_run_and_its_record_says_so(tiny, monkeypatch):
    tiny("import pandas as pd", "write_table(pd.DataFrame({'score': [n]}), 'scores')")
    usual = plan(find("1_demo"))
    monkeypatch.setenv("PROBEBOOK_DTYPE", "float32")
    assert plan(find("1_demo")) == usual and plan(find("1_demo")).id == usual.id
    monkeypatch.setenv("PROBEBOOK_DTYPE", "bfloat16")
    half = plan(find("1_demo"))
    assert half.id != usual.id
    assert half.command == "PROBEBOOK_DTYPE=bfloat16 probebook run 1_demo/01_first"
    assert run_all([half]) == []
    record = read_record(half.folder)
    assert record.dtype == "bfloat16"
    other = record.model_copy(update={"dtype": "float32"}).sealed()
    assert compare(record, other)["rest"].values.tolist() == [["dtype", "bfloat16", "float32"]]
    assert runs().device.tolist() == [f"{record.device}, bfloat16"]
    assert other.hardware == record.device
    monkeypatch.setenv("PROBEBOOK_DTYPE", "half")
    with pytest.raises(UserError, match="'half' is not a valid precision: expected float32, bf"):
        plan(find("1_demo"))


def test_a_record_of_before_there_was_a_precision_is_whole(tmp_path):
    (tmp_path / "record.json").write_text(OLDER)
    record = read_record(tmp_path)
    assert record.dtype == "float32"
    (tmp_path / "record.json").write_text(record.model_dump_json())
    assert read_record(tmp_path) == record
    (tmp_path / "record.json").write_text(OLDER.replace("{", '{"dtype":"bfloat16",', 1))
    assert read_record(tmp_path) is None


@pytest.mark.parametrize("name", ["gpu", "cuda0", "cuda:", "CPU", "cuda:0 "])
def test_a_device_that_there_is_not_is_refused_before_a_kernel_starts(tiny, monkeypatch, name):
    tiny("n")
    monkeypatch.setenv("PROBEBOOK_DEVICE", name)
    with pytest.raises(UserError, match=f"^{name!r} is not a valid device: expected cpu, cuda"):
        run_all([run := plan(find("1_demo"))])
    assert not run.partial.exists()


def test_a_failing_page_is_named_and_leaves_only_a_partial(tiny, capfd):
    tiny("'fine'", "1 / 0", "'never'")
    tiny("'fine'", name="1_demo/02_second")
    bad, good = (plan(page) for page in pages.pages())
    assert run_all([bad, good]) == [bad]
    err = capfd.readouterr().err
    assert "1_demo/01_first: failed at cell 4 of 5: ZeroDivisionError: division by zero" in err
    assert bad.partial.exists()
    assert good.finished
    assert not bad.folder.exists()
    assert not bad.finished
    assert run_all([bad]) == [bad]


def test_a_failing_assertion_says_by_how_much(tiny, capfd):
    tiny("start(globals())\nlow = .93", "assert low < .91, 'the text says: below'")
    [page] = pages.pages()
    run_all([plan(page)])
    assert (
        "AssertionError: the text says: below: 0.93 < 0.91 does not hold" in capfd.readouterr().err
    )


def test_a_partial_is_written_seldom_and_has_all_that_ran(tiny, monkeypatch):
    """Not once a cell; what a failing page had shown, and its error, are there all the same."""
    tiny(*(f"print({i})" for i in range(20)), "1 / 0")
    run, written = plan(find("1_demo")), []
    write = nbformat.write
    monkeypatch.setattr(nbformat, "write", lambda *given: written.append(given) or write(*given))
    assert run_all([run]) == [run]
    shown = [out for cell in nbformat.read(run.partial, 4).cells for out in cell.get("outputs", [])]
    printed = "".join(out.text for out in shown if out.get("name") == "stdout")
    assert printed.endswith("".join(f"{i}\n" for i in range(20)))  # a line may come in two parts
    assert shown[-1].ename == "ZeroDivisionError"
    assert len(written) < 6


@pytest.mark.parametrize(
    ("end", "says"),
    [("import os; os._exit(0)", "the kernel died"), ("import sys; sys.exit(0)", "ended itself")],
)
def test_a_page_that_ends_early_has_failed(tiny, capfd, end, says):
    tiny(end, "'never'")
    run = plan(find("1_demo"))
    assert run_all([run]) == [run]
    assert not run.finished
    assert says in capfd.readouterr().err


def test_numbers_for_the_text_are_kept_as_the_role_reads_them(tiny):
    """`in_text` leaves what `glue` of myst_nb would, whose role quotes it."""
    tiny(
        "import numpy as np\nfrom probebook_runs import in_text\n"
        "given = dict(n=1234567, share=1 / 3, small=1e-300, nan=float('nan'), yes=True,\n"
        "             single=np.float32(.1), count=np.int64(3), sure=np.bool_(True),\n"
        "             words='\"ü\" isn\\'t\\na\\u2028line', long='word ' * 99)",
        "in_text(**given)",
        "from myst_nb import glue\nfor name, value in given.items():\n"
        "    glue(name, getattr(value, 'item', lambda: value)(), display=False)",
    )
    run = plan(find("1_demo"))
    assert run_all([run]) == []
    *_, ours, theirs = run.read().cells
    assert len(ours.outputs) == 10
    assert ours.outputs == theirs.outputs


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"epsilon": 1.0}, "unknown parameter 'epsilon'"),
        ({"n": "many"}, "should be a valid integer"),
        ({"n": 0}, "equal to 1"),
        ({"few": 0}, "equal to 1"),
        ({"eps": "1e-3", "n": "7", "sizes": "[3, 4]", "few": "None"}, None),
    ],
)
def test_plain_papermill_is_checked_by_the_page(tiny, tmp_path, given, error):
    parameters = f"{PARAMETERS}few: Count | None = 3  # None: all\n"
    tiny("start(globals())", "print(n + 1, eps * 1000, sizes, few)", parameters=parameters)
    nbformat.write(find("1_demo").notebook, tmp_path / "page.ipynb")
    arguments = (str(tmp_path / "page.ipynb"), str(tmp_path / "out.ipynb"), given)
    if error:
        with pytest.raises(papermill.PapermillExecutionError, match=error):
            papermill.execute_notebook(*arguments, progress_bar=False)
    else:
        cells = papermill.execute_notebook(*arguments, progress_bar=False).cells
        assert cells[-1].outputs[0].text == "8 1.0 [3, 4] None\n"


def test_records_are_numbers_with_named_ids():
    import pandas as pd

    table = pd.DataFrame({"method": ["a"], "score": [1.0]})
    with pytest.raises(UserError, match="no column 'name'; the table has method, score"):
        write_table(table, "t", ids=["name"])
    with pytest.raises(UserError, match="column 'method' holds no numbers"):
        write_table(table, "t")
    with pytest.raises(UserError, match="'metric' cannot be an id"):
        write_table(table.rename(columns={"method": "metric"}), "t", ids=["metric"])


def test_a_table_name_is_used_once(tiny, capfd):
    tiny(
        "import pandas as pd\nfor _ in range(2):\n"
        "    write_table(pd.DataFrame({'x': [1]}), 'twice')"
    )
    run = plan(find("1_demo"))
    assert run_all([run]) == [run]
    assert not run.finished
    assert "a page wrote 'twice' twice: give each table its own name" in capfd.readouterr().err


def test_pairs_agree():
    """The notebook beside each page is what `probebook pair` writes."""
    for page in pages.pages():
        beside = page.path.with_suffix(".ipynb").read_text(encoding="utf-8")
        assert beside == paired_notebook(page), f"{page.name}: probebook pair"


def test_a_pair_depends_on_the_page_only(tiny):
    tiny("1", "1", "2")
    page = find("1_demo")
    assert build.pair(page)
    assert not build.pair(Page(page.name))
    notebook = nbformat.read(page.path.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids)) == 7
    assert ids[0] == "install"
    tiny("2", "1")  # cells keep their ids when others come and go
    assert {cell.id for cell in Page(page.name).notebook.cells} <= set(ids)


def test_build(tiny, capfd):
    """A book holds executed pages and no hidden output; nothing changed, nothing done; a failure or
    warning fails."""
    home = tiny("start(globals())", RECORDS, "'shown'")
    (home / "_toc.yml").write_text(
        "{format: jb-book, root: notebooks/1_demo/01_first, chapters: [file: book/runs]}"
    )
    (home / "_config.yml").write_text(
        "{title: T, only_build_toc_files: true, exclude_patterns: [notebooks/*/*.ipynb]}"
    )
    (home / "book").mkdir()
    numbered = "---\nmystnb: {table: {caption: All runs, name: tab-runs}}\n---\n"
    code = "from probebook_runs import run_table\n\nrun_table()\n"
    table = f"{HEADER}```{{code-cell}}\n{numbered}{code}```\n"
    (home / "book" / "runs.md").write_text(table)
    build.pair(find("1_demo"))
    sources = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}

    index = build.build()
    assert index == home / "_build/book/index.html"
    assert index.exists()
    text = BeautifulSoup(
        (home / "_build/book/notebooks/1_demo/01_first.html").read_bytes(), "html.parser"
    ).article.text
    assert text.count("'shown'") == 2
    assert "method,metric,value" not in text
    assert "transformers" not in text
    table_shown = BeautifulSoup(
        (home / "_build/book/book/runs.html").read_bytes(), "html.parser"
    ).table
    head, row = (
        [cell.text for cell in line.find_all(["th", "td"])] for line in table_shown.find_all("tr")
    )
    row = dict(zip(head, row))
    assert (row["run"], row["seed"]) == (plan(find("1_demo")).id[:8], "0")
    assert "torch" in row["versions"]
    assert {"profile", "parameters", "seconds", "device", "finished", "commit"} <= set(row)
    assert sources == {
        p: p.read_bytes() for p in home.rglob("*") if p.is_file() and "_build" not in p.parts
    }
    compiled = home / "book" / "_ext" / "__pycache__" / "glue.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.touch()  # no source: an import left it
    written = index.stat().st_ctime_ns  # a copy keeps the time of its content
    capfd.readouterr()
    assert build.build() == index
    assert index.stat().st_ctime_ns == written
    assert capfd.readouterr().err == ""

    (home / "book" / "runs.md").write_text(table + "\n[a link](nowhere.md)\n")
    assert build.build() is None
    assert not index.exists()
    assert build.build() is None  # the same warning, not lost by the second build
    (home / "book" / "runs.md").write_text(table)
    assert build.build() == index
    tiny("1 / 0")
    assert build.build() is None
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_given_number_of_threads_holds_for_all_libraries(monkeypatch):
    names = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    for name in names:
        monkeypatch.delenv(name, raising=False)
    with kernel_environment(4, "smoke"):
        assert [os.environ[name] for name in names] == ["4"] * 3
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with kernel_environment(4, "smoke"):
        assert [os.environ[name] for name in names] == ["1"] * 3
    assert "MKL_NUM_THREADS" not in os.environ


NAMING = """source: Source = 'plain'
encoders: list[Encoder] = []
model: ModelName | None = None
own: FilePath = ''
raw: DataFolder = ''
sweep: Sweep = 'first'
plain: str = ''"""


@pytest.mark.parametrize(
    "file, given",
    [
        ("mine-dev.json", {"source": "coqa:{}/mine-dev.json"}),
        ("mine-train.json", {"source": "coqa:{}/mine-dev.json"}),
        ("folder/task.txt", {"source": "{}/folder"}),
        ("folder/weights", {"encoders": ["any mean", "{}/folder cls"]}),
        ("folder/weights", {"encoders": ["corrupted-200:{}/folder cls"]}),
        ("folder/weights", {"model": "{}/folder"}),
        ("folder/weights", {"encoders": ["random:{}/folder"]}),
        ("glove.txt", {"encoders": ["{}/glove.txt mean"]}),
        ("glove.txt", {"encoders": ["{}/glove.txt-50 mean"]}),
        ("mine.csv", {"own": "{}/mine.csv"}),
        ("outputs/a.csv", {"raw": "outputs"}),
        ("mine.csv", {"sweep": "{}/mine.csv"}),
        ("data/records/sweeps/first.csv", {}),
    ],
)
def test_files_that_a_parameter_names_make_another_run(tiny, monkeypatch, file, given):
    folder = tiny(parameters=NAMING)
    monkeypatch.setenv("PROBEBOOK_DATA", str(folder))

    def fill(value):
        many = isinstance(value, list)
        return [part.format(folder) for part in value] if many else value.format(folder)

    given, path = {name: fill(value) for name, value in given.items()}, folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1")
    before = plan(find("1_demo"), values=given).id
    assert plan(find("1_demo"), values=given).id == before
    # another value, but no file
    assert plan(find("1_demo"), values=given | {"plain": str(path)}).id != before
    path.write_text("22")
    assert plan(find("1_demo"), values=given).id != before


def test_a_text_names_no_file_and_a_path_may_be_too_long(tiny):
    folder = tiny(parameters=NAMING)
    (folder / "a.txt").write_text("1")
    before = plan(find("1_demo"), values={"plain": str(folder / "a.txt")}).id
    (folder / "a.txt").write_text("22")
    assert plan(find("1_demo"), values={"plain": str(folder / "a.txt")}).id == before
    assert plan(find("1_demo"), values={"source": "x" * 5_000}).id


def test_a_page_that_changes_while_it_runs_has_not_finished(tiny, capfd, monkeypatch):
    home = tiny("open('notebooks/1_demo/01_first.md', 'a').write('more')")
    run = plan(find("1_demo"))
    monkeypatch.chdir(home)
    assert run_all([run]) == [run]
    assert not run.finished
    assert "the page, the code or the data have changed meanwhile" in capfd.readouterr().err


def test_git_is_not_needed(tiny, monkeypatch, tmp_path):
    tiny("1")
    run = plan(find("1_demo"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert run_all([run]) == []
    assert read_record(run.folder).commit == ""


def test_ids_that_look_like_nothing_are_kept(tiny):
    tiny(
        "import pandas as pd",
        "table = pd.DataFrame({'answer': ['None', 'NA', 'null'], 'x': [1, None, 3]})",
        "write_table(table, 't', ids=['answer'])",
    )
    run = plan(find("1_demo"))
    assert run_all([run]) == []
    assert pd.read_parquet(run.folder / "metrics.parquet").answer.tolist() == ["None", "NA", "null"]
