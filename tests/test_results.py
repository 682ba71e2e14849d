"""Results over runs: filters, pivots, formats; two runs compared; runs taken from one machine to
another."""

from __future__ import annotations

import errno
import io
import json
import random
import shutil
import time
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from bs4 import BeautifulSoup
from durations import seconds
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from probebook.base import UserError, sha256
from probebook_cli import app
from probebook_runs import archive, results
from probebook_runs.execute import run_all
from probebook_runs.pages import find
from probebook_runs.records import METRICS, NOTEBOOK, RECORD, Record, find_run, intact, read_record
from probebook_runs.store import plan

PARAMETERS = """
    model: Literal["bag_1", "50% <b>|c"] = "bag_1"
    layer: int = 0  # hidden layer
    sizes: list[Count] = [1, 2]
    fast: bool = False
    seed: int = 0
    """
CELL = """
    import pandas as pd
    scores = [layer + .1 + seed, layer + len(model) / 7]
    table = pd.DataFrame({"method": ["A_x", "B"], "score": scores, "items": [3, 4]})
    write_table(table, "scores", ids=["method"])
    norms = pd.DataFrame({"layer": [0, 1], "norm": [1.5, 2.5 + layer]})
    write_table(norms, "layers", ids=["layer"])
    """
ODD = "50% <b>|c"
RUNS = [{}, {"layer": 1}, {"layer": 1, "model": ODD}]


pytestmark = pytest.mark.xdist_group("results")  # the kept runs are made once


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "_build"


@pytest.fixture
def book(tiny, kept):
    """A small book with three finished runs of its one page, which are made once."""
    home = tiny("start(globals())", CELL, parameters=PARAMETERS)
    if not kept.exists():
        assert run_all([plan(find("1_demo"), values=values) for values in RUNS]) == []
        shutil.copytree(home / "_build", kept)
    shutil.copytree(kept, home / "_build", dirs_exist_ok=True)
    return home


def probebook(*words):
    """The command line in this process."""
    done = CliRunner().invoke(app, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def folders(home):
    return sorted((home / "_build/runs").glob("*/*/*"))


def run_of(**values):
    return plan(find("1_demo"), values=values)


def altered(run, home, digit="0", **fields):
    """A copy of a finished run under another id, its record changed and sealed again."""
    record = read_record(run.folder)
    record = record.model_copy(update={"run": digit * 20} | fields).sealed()
    folder = shutil.copytree(run.folder, home / "_build/runs" / record.page / record.run)
    (folder / RECORD).write_text(record.model_dump_json())
    return record


def flip(path, at=-40):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_one_row_a_run(book):
    table = results.runs()
    assert list(table.columns) == [
        "page",
        "run",
        "profile",
        "changed",
        "seconds",
        "device",
        "finished",
        "commit",
    ]
    assert set(table.run) == {run_of(**values).id for values in RUNS}
    assert set(table.changed) == {"", "layer=1", f"model={ODD}, layer=1"}
    assert len(pd.read_csv(io.StringIO(probebook("results").stdout))) == 3


def test_metrics_of_all_runs_with_the_parameters_that_differ(book):
    long = results.metrics("1_demo")
    assert list(long.columns) == [
        "page",
        "run",
        "model",
        "p.layer",
        "table",
        "method",
        "layer",
        "metric",
        "value",
    ]
    for values in RUNS:  # each run's rows are the run's own table
        run = run_of(**values)
        own = long[long.run == run.id]
        assert own["p.layer"].eq(run.values["layer"]).all()
        assert own.model.eq(run.values["model"]).all()
        want = pd.read_parquet(run.folder / METRICS)
        pd.testing.assert_frame_equal(
            own[list(want)].reset_index(drop=True), want, check_dtype=False
        )


@pytest.mark.parametrize(
    ("where", "rows", "runs"),
    [
        (["p.layer>=1"], 12, 2),
        (["p.layer>0", f"model={ODD}"], 6, 1),
        (["p.layer!=1"], 6, 1),
        (["layer>=1"], 3, 3),
        (["layer = 0", "p.layer<1"], 1, 1),
        (["method!=B"], 6, 3),
        (["fast=false", "sizes=[1,2]", "seed<1e-3"], 18, 3),
    ],
)
def test_conditions(book, where, rows, runs):
    long = results.metrics(where=where)
    assert (len(long), long.run.nunique()) == (rows, runs)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--where", "modl=3"],
            "no parameter or id 'modl': the nearest is 'model' of fast, layer, method, model, p.layer",
        ),
        (["--where", "model~3"], "should be NAME=VALUE"),
        (["--where", "sizes=[1,"], "nothing is left; sizes has [1, 2]"),
        (["--where", "model>3"], "> compares numbers; model has bag_1"),
        (["--where", "model=minilm"], f"nothing is left; model has bag_1, {ODD}"),
        (["--table", "score"], "no table 'score': the nearest is 'scores' of layers, scores"),
        (["--metric", "nrom"], "no metric 'nrom': the nearest is 'norm'"),
        (["--rows", "model,methd"], "no column 'methd': the nearest is 'method'"),
        (
            ["--rows", "model", "--metric", "score"],
            "values for one cell, which differ in p.layer, method: name it",
        ),
        (["--rows", "metric"], "each needs a column of its own"),
        (["--all", "-p", "layer=1"], "choose by --where"),
        (["--all", "--profile", "pocket"], "choose by --where"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(book, words, says):
    done = probebook("results", "1_demo", *words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_unknown_pages_and_an_empty_store(tiny):
    home = tiny("1")
    with pytest.raises(UserError, match="no finished run: probebook run PAGE makes one"):
        results.metrics()
    (home / "_build/runs/1_demo/01_first").mkdir(parents=True)
    assert "no finished run" in probebook("results", "--all").stderr
    assert "probebook results PAGE" in probebook("results", "-p", "n=1").stderr


def test_a_pivot_holds_what_the_pages_recorded(book):
    long = results.metrics("1_demo", ["method=B"], ["scores"], ["score"], keep=["seed"])
    assert long.seed.eq(0).all()
    table = results.pivot(long, ["model"], ["p.layer"]).set_index("model")
    assert table.loc["bag_1"].to_dict() == {"0": 5 / 7, "1": 1 + 5 / 7}
    assert table.loc[ODD, "1"] == 1 + 9 / 7
    assert pd.isna(table.loc[ODD, "0"])
    wide = results.pivot(results.metrics("1_demo", tables=["scores"]))  # a row for all that differs
    assert list(wide.columns) == ["model", "p.layer", "method", "items", "score"]
    assert len(wide) == 6
    assert wide["items"].tolist() == [3, 4] * 3


def test_formats_escape_text(book):
    words = [
        "results",
        "1_demo",
        "--table",
        "scores",
        "--metric",
        "score",
        "--rows",
        "model,method",
    ]
    words += ["--columns", "p.layer", "--format"]
    table = pd.read_csv(io.StringIO(probebook(*words, "csv").stdout))
    assert table["1"].tolist() == [1.1, 1 + 9 / 7, 1.1, 1 + 5 / 7]  # all digits
    markdown = probebook(*words, "markdown").stdout.splitlines()
    assert [cell.strip() for cell in markdown[3].strip("|").replace(r"\|", "¦").split("|")] == [
        r"50% \<b\>¦c",
        "B",
        "",
        "2.286",
    ]
    assert r"A\_x" in markdown[2]
    assert len(markdown) == 6
    latex = probebook(*words, "latex").stdout
    assert r"50\% \ensuremath{<}b\ensuremath{>}\textbar{}c" in latex
    assert r"bag\_1" in latex
    assert r"A\_x" in latex
    assert [latex.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]


def test_markdown_means_itself():
    """What a Markdown parser with tables makes of a hostile cell is its text."""
    cell = r"<script>x</script> a|b \| *c* _d_ `e` [f](g) &amp; {g}`h` $i$ \\"
    html = (
        MarkdownIt("commonmark")
        .enable("table")
        .render(results.show(pd.DataFrame({"x": [cell]}), "markdown"))
    )
    found = BeautifulSoup(html, "html.parser")
    assert found.td.text == cell
    assert not found.td.find(True)


def test_the_newest_of_runs_with_the_same_parameters_counts(book, capfd):
    run = run_of(layer=1)
    old = altered(run, book, finished="2001-01-01 00:00", profile="smoke")
    assert old.run not in set(results.metrics("1_demo").run)
    said = capfd.readouterr().err
    assert said == "1 older run with the same parameters left out: --all-versions keeps them\n"
    assert {old.run, run.id} <= set(results.metrics("1_demo", all_versions=True).run)
    altered(run, book, digit="1", finished="2999-01-01 00:00")
    assert run.id not in set(results.metrics("1_demo").run)


def test_a_duration_is_that_of_the_newest_run_with_a_profiles_own_values(book):
    assert seconds(find("1_demo"), "pocket") == read_record(run_of().folder).seconds
    altered(run_of(layer=1), book, seconds=66.0, finished="2999-01-01 00:00")
    assert seconds(find("1_demo"), "pocket") != 66
    altered(run_of(), book, digit="1", seconds=77.0, finished="2999-01-01 00:00")
    assert seconds(find("1_demo"), "pocket") == 77
    assert seconds(find("1_demo"), "smoke") is None


@pytest.mark.parametrize("name", [RECORD, METRICS])
@pytest.mark.parametrize(
    "harm",
    [
        flip,
        lambda path: flip(path, at=60),
        Path.unlink,
        lambda path: path.write_bytes(path.read_bytes()[:-2]),
    ],
)
def test_a_damaged_run_is_left_out_and_named(book, name, harm, capfd):
    run = run_of(layer=1)
    harm(run.folder / name)
    (run.folder.parent / "a_file").touch()
    assert set(results.metrics("1_demo").run) == {run_of(**RUNS[i]).id for i in (0, 2)}
    said = capfd.readouterr().err
    assert said == f"1_demo/01_first: run {run.id[:8]} is damaged, it is left out\n"


def test_a_run_in_another_ones_place_is_left_out(book, capfd):
    shutil.copytree(run_of().folder, run_of().folder.with_name("0" * 20))
    assert len(results.runs()) == 3
    assert "run 00000000 is damaged" in capfd.readouterr().err


def test_ids_may_have_the_names_of_columns(book):
    record = altered(run_of(), book, page="1_demo/02_other")
    path = book / "_build/runs" / record.page / record.run
    pd.DataFrame(
        {"table": "t", "run": ["x"], "page": [1], "metric": "m", "value": [1.0]}
    ).to_parquet(path / METRICS)
    record = record.model_copy(
        update={"files": record.files | {METRICS: sha256(path / METRICS)}}
    ).sealed()
    (path / RECORD).write_text(record.model_dump_json())
    row = results.metrics(where=["id.run=x"]).iloc[0]
    assert row.to_dict() == {
        "page": record.page,
        "run": record.run,
        "table": "t",
        "id.run": "x",
        "id.page": 1,
        "metric": "m",
        "value": 1,
    }


def test_ids_of_two_types_become_text(book):
    """One page's numbers beside another page's words under the same name."""
    tables = {"numbers": [3, 4], "words": ["three", "four"]}
    for digit, ids in zip("01", tables.values(), strict=True):
        record = altered(run_of(), book, digit, page=f"1_demo/0{digit}_other")
        path = book / "_build/runs" / record.page / record.run
        pd.DataFrame({"table": "t", "item": ids, "metric": "m", "value": [1.0, 2.0]}).to_parquet(
            path / METRICS
        )
        record = record.model_copy(
            update={"files": record.files | {METRICS: sha256(path / METRICS)}}
        ).sealed()
        (path / RECORD).write_text(record.model_dump_json())
    long = results.metrics(tables=["t"])
    assert long["item"].tolist() == ["3", "4", "three", "four"]
    assert long.value.tolist() == [1, 2, 1, 2]


def test_compare(book):
    a, b, odd = (run_of(**values) for values in RUNS)
    done = probebook("compare", a.id[:8], b.id)
    assert done.exit_code == 0
    assert done.stderr == ""
    parts = done.stdout.split("\n\n")
    assert parts[1].splitlines()[0] == "parameters that differ:"
    assert parts[1].split()[-3:] == ["layer", "0", "1"]
    assert "<NA>" not in parts[2]
    assert "2.5 3.5 1.0" in " ".join(parts[2].split())
    assert f"{5 / 7}" in parts[2]
    assert "same code, device, versions, data" in parts[3]

    both = results.compare(find_run(a.id), find_run(b.id))["metrics"]
    assert (
        both[["table", "metric"]].apply(tuple, axis=1).tolist()
        == [("layers", "norm")] + [("scores", "score")] * 2
    )
    assert both.a.tolist() == [2.5, 0.1, 5 / 7]
    assert both.difference.tolist() == [1.0, 1.1 - 0.1, 1 + 5 / 7 - 5 / 7]
    close = results.compare(find_run(b.id), find_run(odd.id), tolerance=0.3)["metrics"]
    assert close.empty
    assert len(results.compare(find_run(b.id), find_run(odd.id), 0.2)["metrics"]) == 1

    again = altered(a, book, digit="f", commit="other", versions={"python": "9"})
    done = probebook("compare", a.id, "ffff")
    assert done.exit_code == 0
    assert "same parameters\n\nsame metrics\n" in done.stdout
    rest = results.compare(find_run(a.id), again)["rest"].set_index("name")
    assert {"commit", *(f"{name} version" for name in read_record(a.folder).versions)} == set(
        rest.index
    )
    assert rest.b["python version"] == "9"
    assert rest.b["torch version"] == "" != rest.a["torch version"]


def test_rows_without_ids_are_compared_in_order(book):
    """A table without ids may have several rows: the n-th is compared with the n-th."""
    found = []
    for digit, values in zip("01", ([1.0, 2.0], [1.0, 4.0]), strict=True):
        record = altered(run_of(), book, digit)
        path = book / "_build/runs" / record.page / record.run
        pd.DataFrame({"table": "t", "metric": "m", "value": values}).to_parquet(path / METRICS)
        found.append(
            record.model_copy(update={"files": record.files | {METRICS: sha256(path / METRICS)}})
        )
    both = results.compare(*found)["metrics"]
    assert both[["a", "b", "difference"]].to_numpy().tolist() == [[2, 4, 2]]


def test_what_cannot_be_compared(book):
    a = run_of()
    other = altered(a, book, page="1_demo/02_second")
    altered(a, book, digit="1")
    altered(a, book, digit="2")
    shutil.copytree(a.folder, a.folder.with_name("2" * 19 + "3"))
    flip(run_of(layer=1).folder / NOTEBOOK)
    for words, says in (
        ([a.id, "0000"], "runs of two pages cannot be compared: 1_demo/01_first, 1_demo/02_second"),
        ([a.id, "222"], "four of 0-9a-f at least"),
        ([a.id, "../" + a.id], "should be a run's id"),
        ([a.id, "2222"], "several runs begin with '2222': 2222"),
        ([a.id, "eeee"], "no run begins with 'eeee'"),
        ([a.id, run_of(layer=1).id], "is damaged"),
    ):
        done = probebook("compare", *words)
        assert done.exit_code == 2
        assert done.stderr.count("\n") == 1
        assert says in done.stderr
    assert other.run == "0" * 20


def contents(home):
    return {
        path.relative_to(home / "_build/runs").as_posix(): path.read_bytes()
        for path in (home / "_build/runs").rglob("*")
        if path.is_file()
    }


@pytest.fixture
def packed(book, tmp_path):
    """The three runs as a zip file."""
    assert archive.export_runs(tmp_path / "runs.zip") == 3
    return tmp_path / "runs.zip"


@pytest.fixture
def elsewhere(packed, tmp_path, monkeypatch):
    """Another machine's book, without any run."""
    home = tmp_path / "elsewhere"
    home.mkdir()
    monkeypatch.setenv("PROBEBOOK_HOME", str(home))
    return home


def remains(home) -> list:
    """What an import has left beside the locks of runs."""
    return [
        path
        for path in (home / "_build" / "partial").rglob("*")
        if path.is_file() and path.suffix != ".lock"
    ]


def test_runs_arrive_as_they_left(book, packed, elsewhere):
    done = probebook("archive", "import", str(packed))
    assert (done.exit_code, done.stdout) == (0, "3 imported, 0 already there, 0 refused\n"), (
        done.stderr
    )
    assert contents(elsewhere) == contents(book)
    assert len(contents(elsewhere)) == 9
    assert not remains(elsewhere)
    # pages are not needed
    assert len(pd.read_csv(io.StringIO(probebook("results", "--all").stdout))) == 18
    one, damaged = folders(elsewhere)[:2]
    shutil.rmtree(one)
    flip(damaged / NOTEBOOK)
    assert archive.import_runs(packed) == {"imported": 2, "already there": 1, "refused": 0}
    assert contents(elsewhere) == contents(book)


def test_what_is_exported_can_be_chosen(book, tmp_path):
    flip(run_of(layer=1).folder / NOTEBOOK)
    done = probebook(
        "archive", "export", str(tmp_path / "a.zip"), "1_demo/01", "--where", "layer=1"
    )
    assert done.exit_code == 0
    assert done.stdout == f"1 run exported to {tmp_path / 'a.zip'}\n"
    damaged = run_of(layer=1).id[:8]
    assert done.stderr == f"1_demo/01_first: run {damaged} is damaged, it is left out\n"
    assert {name.split("/")[2] for name in zipfile.ZipFile(tmp_path / "a.zip").namelist()} == {
        run_of(**RUNS[2]).id
    }
    for pages, where, says in (
        ([], ["layr=1"], "nearest is 'layer'"),
        (["2"], [], "no run of a page '2'"),
    ):
        with pytest.raises(UserError, match=says):
            archive.export_runs(tmp_path / "b.zip", pages, where)
    assert not (tmp_path / "b.zip").exists()


RUN = "1_demo/01_first/" + "a" * 20


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (f"../{RUN}/{RECORD}", "", "is no file of a run"),
        (f"/{RUN}/{RECORD}", "", "no file of a run"),
        (f"../../{'a' * 20}/{RECORD}", "", "no file of a run"),
        (f"1_demo/../{'a' * 20}/{RECORD}", "", "no file of a run"),
        (f"1_demo/./{'a' * 20}/{RECORD}", "", "no file"),
        (f"C:/x/{'a' * 20}/{RECORD}", "", "no file"),
        (f"1_demo\\..\\..\\x/01/{'a' * 20}/{RECORD}", "", "no file"),
        (f"{RUN}/code.py", "", "no file of a run"),
        (f"{RUN}/x/{RECORD}", "", "no file"),
        (f"{RUN}/", "", "no file"),
        (f"{RUN}/{RECORD}\n", "", "no file"),
        (f"1_demo/01_first/{'z' * 20}/{RECORD}", "", "no file"),
        ("record.json", "", "no file"),
    ],
)
def test_a_hostile_archive_is_refused_whole(packed, elsewhere, name, content, says):
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    done = probebook("archive", "import", str(packed))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert "nothing was imported" in done.stderr
    assert [path.name for path in elsewhere.parent.rglob("*") if elsewhere in path.parents] == []


def repacked(packed, change):
    """The archive again, the files of its first run changed by `change`."""
    with zipfile.ZipFile(packed) as old:
        files = {name: old.read(name) for name in old.namelist()}
    first = next(iter(files)).rpartition("/")[0]
    own = {
        name.rpartition("/")[2]: files.pop(name) for name in list(files) if name.startswith(first)
    }
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in (
            {f"{first}/{name}": content for name, content in change(own).items()} | files
        ).items():
            new.writestr(name, content)


def record_with(**fields):
    def change(files):
        record = json.loads(files[RECORD]) | fields
        return files | {RECORD: json.dumps(record)}

    return change


def sealed_with(**fields):
    return lambda files: (
        files
        | {
            RECORD: Record.model_validate_json(files[RECORD])
            .model_copy(update=fields)
            .sealed()
            .model_dump_json()
        }
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda files: files | {NOTEBOOK: files[NOTEBOOK] + b" "}, "is not what its checksums say"),
        (
            lambda files: {name: files[name] for name in (NOTEBOOK, RECORD)},
            "is not what its checksums say",
        ),
        (lambda files: {name: files[name] for name in (NOTEBOOK, METRICS)}, "has no whole record"),
        (lambda files: files | {RECORD: "[]"}, "has no whole record"),
        (record_with(seconds=1e9), "has no whole record"),
        (record_with(schema_version=2, more="x"), "has a record of the newer schema 2"),
        (sealed_with(files={}), "is not what its checksums say"),
        (sealed_with(page="../x"), "is another one by its"),
        (sealed_with(files={"../../../x": "0" * 64}), "is not what its checksums say"),
        (sealed_with(run="b" * 20), "is another one by its record"),
    ],
)
def test_a_run_that_is_not_whole_is_refused_and_the_others_arrive(
    packed, elsewhere, change, says, capfd
):
    repacked(packed, change)
    assert archive.import_runs(packed) == {"imported": 2, "already there": 0, "refused": 1}
    err = capfd.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert len(folders(elsewhere)) == 2
    assert all(map(intact, folders(elsewhere)))
    assert not remains(elsewhere)
    assert probebook("archive", "import", str(packed)).exit_code == 1


def test_a_size_that_lies_unpacks_no_more_than_it_says(packed, elsewhere, capfd):
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{RUN}/{NOTEBOOK}", bytes(2**20))
        file.getinfo(f"{RUN}/{NOTEBOOK}").file_size = 10
    assert archive.import_runs(packed)["refused"] == 1
    assert "run aaaaaaaa cannot be unpacked (Bad CRC-32" in capfd.readouterr().err


def test_a_broken_archive_leaves_nothing_half_written(packed, elsewhere, capfd):
    whole = packed.read_bytes()
    for size in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 30):
        packed.write_bytes(whole[:size])
        with pytest.raises(UserError, match="^[^\n]*no whole zip file[^\n]*$"):
            archive.import_runs(packed)
        assert not any(elsewhere.iterdir())
    packed.write_bytes(whole)
    flip(packed, at=600)  # in the first run's notebook
    assert archive.import_runs(packed) == {"imported": 2, "already there": 0, "refused": 1}
    assert "cannot be unpacked" in capfd.readouterr().err
    assert all(map(intact, folders(elsewhere)))
    with pytest.raises(UserError, match="No such file"):
        archive.import_runs(packed.with_name("none.zip"))


def test_whatever_bytes_change_only_true_runs_arrive(book, packed, elsewhere, capfd):
    """Of 300 archives with some bytes changed, cut or doubled each is refused, or what arrives is
    what left."""
    whole, left, arrived = packed.read_bytes(), contents(book), 0
    chance = random.Random(0)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(chance.choice([1, 2, 8])):
            at = chance.choice(
                [chance.randrange(len(whole)), len(whole) - 1 - chance.randrange(1200)]
            )
            content[at : at + chance.choice([0, 1, 1, 1, 2])] = chance.randbytes(1)
        packed.write_bytes(content)
        try:
            arrived += archive.import_runs(packed)["imported"]
        except UserError as e:
            assert "\n" not in str(e)
        assert contents(elsewhere).items() <= left.items()
        assert all(map(intact, folders(elsewhere)))
        assert not remains(elsewhere)
        shutil.rmtree(elsewhere / "_build", ignore_errors=True)
    assert 30 < arrived < 870  # both ways were taken


def test_a_full_disk_ends_an_import_in_one_line(packed, elsewhere, monkeypatch):
    copy, done = shutil.copyfileobj, []

    def full(source, target):
        done.append(copy(source, target))
        if len(done) == 5:  # in the second run
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(UserError, match="^[^\n]*runs.zip: No space left on device$"):
        archive.import_runs(packed)
    assert len(folders(elsewhere)) == 1
    assert not remains(elsewhere)
    assert archive.import_runs(packed) == {"imported": 2, "already there": 1, "refused": 0}


def test_a_thousand_runs_are_read_more_quickly_than_file_by_file(book, capfd):
    run = run_of()
    record = read_record(run.folder)
    for i in range(997):
        folder = shutil.copytree(run.folder, run.folder.with_name(f"{i:020x}"))
        values = record.parameters | {"seed": i + 1}
        other = record.model_copy(update={"run": folder.name, "parameters": values}).sealed()
        (folder / RECORD).write_text(other.model_dump_json(indent=1))

    def read():
        """Parse each record and read each table by themselves, without any check."""
        for folder in run.folder.parent.iterdir():
            json.loads((folder / RECORD).read_bytes())
            pq.read_table(folder / METRICS)

    def pivot():
        table = results.metrics("1_demo", ["seed>=1"], ["scores"], ["score"])
        return results.pivot(table, ["seed"], ["method"])

    def taken(call):
        began = time.process_time()
        call()
        return time.process_time() - began

    ratios = [taken(pivot) / taken(read) for _ in range(3)]
    assert len(pivot()) == 997
    assert len(results.runs()) == 1000
    with capfd.disabled():
        print(f"\n1,000 runs: {min(ratios):.2f} times as long as file by file")
    assert min(ratios) < 0.7
