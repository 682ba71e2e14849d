"""The command line: `probebook COMMAND --help`."""
from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from probebook.base import DATA, UserError, written_whole


class Commands(TyperGroup):
    """Turns bad input, and a disk that fails, into one line and exit status 2."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except UserError as e:
            typer.echo(f"probebook: {e}", err=True)
            raise typer.Exit(2) from None
        except OSError as e:
            if e.errno == errno.EPIPE:                          # typer's own
                raise
            typer.echo(f"probebook: {e.filename or ''}: {e.strerror or e}", err=True)
            raise typer.Exit(2) from None


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  rich_markup_mode=None,                        # a third of a second for boxes round the help
                  help="Run, re-run and read the pages of Probebook.")
records_app = typer.Typer(no_args_is_help=True, help="Stored runs in data/records/; runs as a zip file.")
data_app = typer.Typer(no_args_is_help=True, help="Data files: where they come from, whether they are right.")
models_app = typer.Typer(no_args_is_help=True, help="The shipped pocket models.")
lab_app = typer.Typer(no_args_is_help=True, help="The exercises: students' notebooks, and their grading.")
app.add_typer(records_app, name="records")
app.add_typer(data_app, name="data")
app.add_typer(models_app, name="models")
app.add_typer(lab_app, name="lab")

PageName = Annotated[str, typer.Argument(metavar="PAGE", help="a page's name or its beginning: 1_causal_probing/03")]
Assignments = Annotated[list[str], typer.Option("-p", metavar="NAME=VALUE", help="a parameter of the page; repeatable")]
Profile = Annotated[str, typer.Option(help="smoke, pocket, real or paper")]
ValuesFile = Annotated[Path | None, typer.Option("-f", metavar="FILE.yaml", help="parameters; -p goes before")]
TimeLimit = Annotated[str | None, typer.Option(help="end a page that takes longer: 90 (seconds), 30min, 2h")]
MemoryLimit = Annotated[str | None, typer.Option(help="end a page whose kernel takes more: 800MB, 6GiB")]
Where = Annotated[list[str], typer.Option(metavar="NAME=VALUE", help="parameter or id; also != < <= > >=; repeatable")]
RunId = Annotated[str, typer.Argument(help="a run's id or its beginning, four digits at least")]
Force = Annotated[bool, typer.Option("--force", help="run again even if a finished run is there")]


def _plan(page: str, assignments: Sequence[str], profile: str, file: Path | None = None):
    from probebook.runs.pages import find
    from probebook.runs.schema import from_file, from_text
    from probebook.runs.store import plan
    found = find(page)
    return plan(found, profile, (from_file(file) if file else {}) | from_text(assignments))


@app.command()
def run(page: PageName, p: Assignments = (), f: ValuesFile = None, profile: Profile = "pocket", force: Force = False,
        time_limit: TimeLimit = None, memory_limit: MemoryLimit = None,
        out: Annotated[Path | None, typer.Option(help="copy the executed notebook to this file")] = None,
        store: Annotated[bool, typer.Option("--store", help="keep its tables in data/records/PAGE/NAME")] = False,
        name: Annotated[str | None, typer.Option(help="NAME of the stored run, else the profile's")] = None) -> None:
    """Run a page with other parameters; a finished run with the same ones is reused. Prints the notebook's path."""
    from probebook.runs.kernels import limits
    from probebook.runs.schema import check_layers
    planned, within = _plan(page, p, profile, f), limits(time_limit, memory_limit)
    if force or not planned.folder.exists():
        check_layers(planned.page.types, planned.values)
    from probebook.runs import archive
    from probebook.runs.execute import run_all
    if run_all([planned], force, within):
        raise typer.Exit(1)
    if out:
        with written_whole(out) as part:
            shutil.copyfile(planned.path, part)
    if store:
        typer.echo(archive.add(planned, name or profile))
    typer.echo(out or planned.path)


@app.command()
def sweep(file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="page, profile, grid, list, seeds …")],
          dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would run, and how long")] = False,
          workers: Annotated[int | None, typer.Option(min=1, help="runs at a time; one a GPU, else one a core")] = None,
          scheduler: Annotated[str | None, typer.Option(metavar="tcp://HOST:PORT", help="a Dask cluster, in place of "
                               "workers here; needs a folder that all of it shares")] = None,
          time_limit: TimeLimit = None, memory_limit: MemoryLimit = None) -> None:
    """Run a page with many sets of parameters; what is finished is kept, what fails is listed at the end."""
    from probebook.runs.kernels import limits
    from probebook.runs.sweep_file import checked
    if workers and scheduler:
        raise UserError("--workers is for this machine: give it or --scheduler")
    checked(file)                                               # what is refused is so before Dask is loaded
    within = limits(time_limit, memory_limit)
    from probebook.runs import sweep as sweeps
    if dry_run:
        typer.echo(sweeps.forecast(file, workers))
    elif sweeps.sweep(file, workers, scheduler, within):
        raise typer.Exit(1)


@app.command()
def params(page: PageName) -> None:
    """List a page's parameters: name, type, default, meaning."""
    from probebook.runs.pages import find
    rows = [(p.name, p.kind, repr(p.default), p.comment) for p in find(page).parameters]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(text.ljust(min(width, 40)) for text, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def build(profile: Profile = "pocket", force: Force = False) -> None:
    """Run all pages of a profile, build the book from them and print the path of its index.html."""
    from probebook.publish.build import build as build_book
    index = build_book(profile, force)
    if index is None:
        raise typer.Exit(1)
    typer.echo(index)


@app.command()
def pdf(out: Annotated[Path, typer.Argument(metavar="[OUT]", help="folder")] = Path("_build/pdf")) -> None:
    """Print the built book to PDF, a file a chapter (needs Chromium). Prints the paths."""
    from probebook.publish.pdf import write
    for path in write(out):
        typer.echo(path)


@app.command()
def results(page: Annotated[str | None, typer.Argument(metavar="[PAGE]", help="a page's name or its beginning")] = None,
            p: Assignments = (),
            profile: Annotated[str | None, typer.Option(help="of the one run: smoke, pocket, real or paper")] = None,
            form: Annotated[Literal["csv", "markdown", "latex"], typer.Option("--format")] = "csv",
            every: Annotated[bool, typer.Option("--all", help="over all runs; so does each option below")] = False,
            where: Where = (),
            table: Annotated[list[str], typer.Option(metavar="NAME", help="only this table; repeatable")] = (),
            metric: Annotated[list[str], typer.Option(metavar="NAME", help="only this metric; repeatable")] = (),
            rows: Annotated[str, typer.Option(metavar="A,B", help="columns whose values become rows")] = "",
            columns: Annotated[str, typer.Option(metavar="C,D", help="and columns, if not metric")] = "",
            all_versions: Annotated[bool, typer.Option("--all-versions", help="older code's as well")] = False) -> None:
    """Print what the finished run of PAGE recorded: table, ids, metric, value. Over all runs with --all or a filter.

    Without PAGE or any filter: list the finished runs.
    """
    if every or where or table or metric or rows or columns or all_versions:
        if p or profile:
            raise UserError("-p and --profile name one run; over all runs choose by --where NAME=VALUE")
        from probebook.runs import results as over
        rows, columns = ([name.strip() for name in names.split(",") if name.strip()] for names in (rows, columns))
        frame = over.metrics(page or "", where, table, metric, [*rows, *columns], all_versions)
        typer.echo(over.show(over.pivot(frame, rows, columns) if rows or columns else frame, form), nl=False)
        return
    if not page and (p or profile):
        raise UserError("-p and --profile name a run of a page: probebook results PAGE -p NAME=VALUE")
    from probebook.runs.records import csv_text, table_rows
    names, values = _plan(page, p, profile or "pocket").metrics() if page else table_rows()
    if form == "csv":                                           # so much is said without pandas
        typer.echo(csv_text(names, values), nl=False)
        return
    import pandas as pd

    from probebook.runs.results import show
    typer.echo(show(pd.DataFrame(values, columns=names), form), nl=False)


@app.command()
def compare(a: RunId, b: RunId,
            tolerance: Annotated[float, typer.Option(min=0, help="metrics this close are the same; relative above 1")]
            = 0.0) -> None:
    """Print how two runs of a page differ: parameters, metrics, code, device, versions, data."""
    from probebook.runs.records import find_run
    first, second = find_run(a), find_run(b)
    from probebook.runs import results as over
    differ = over.compare(first, second, tolerance)
    typer.echo(f"{first.page}: a is {first.run}, b is {second.run}")
    for name, what in (("parameters", "parameters"), ("metrics", "metrics"), ("rest", "code, device, versions, data")):
        text = differ[name].astype("string").fillna("").to_string(index=False)
        typer.echo(f"\n{what} that differ:\n{text}" if len(differ[name]) else f"\nsame {what}")


@app.command("sample-size")
def sample_size(acc_a: Annotated[float | None, typer.Option(help="accuracy of A on a pilot, a share")] = None,
                acc_b: Annotated[float | None, typer.Option(help="accuracy of B")] = None,
                pilot_a: Annotated[Path | None, typer.Option(help="CSV: prediction,label or 0/1 a seed")] = None,
                pilot_b: Annotated[Path | None, typer.Option(help="the same items, for B")] = None,
                dim: Annotated[int, typer.Option(help="width of the states, the wider one's")] = 768) -> None:
    """How many training items tell A from B: from two accuracies, or from two files of what they got right."""
    from probebook.measures import pilots
    from probebook.measures import sample_size as size
    if pilot_a and pilot_b and acc_a is acc_b is None:
        lines = size.verdict(*pilots.read(pilot_a, pilot_b), dim=dim).lines()
    elif None not in (acc_a, acc_b) and not pilot_a and not pilot_b:
        lines = size.of_accuracies(acc_a, acc_b, dim)
    else:
        raise UserError("give --acc-a and --acc-b, or --pilot-a and --pilot-b")
    for name, value in lines.items():
        typer.echo(f"{name:<46}{value}")


@app.command()
def pair() -> None:
    """Write the .ipynb beside each page's .md; the .md is the source, always."""
    from probebook.publish.build import pair as write
    from probebook.runs.pages import pages
    for page in pages():
        if write(page):
            typer.echo(page.path.with_suffix(".ipynb"))


@records_app.command("list")
def records_list() -> None:
    """List stored runs: page and name, when it finished, its device."""
    from probebook.runs.archive import manifests
    for name, manifest in manifests().items():
        typer.echo(f"{name}  {manifest['finished']}  {manifest.get('device', '')}")


@records_app.command("show")
def records_show(name: Annotated[str, typer.Argument(metavar="PAGE/NAME")]) -> None:
    """Print a stored run: its manifest, then each table as CSV."""
    from probebook.runs.archive import folder
    for path in [folder(name) / "manifest.json", *sorted(folder(name).glob("*.csv"))]:
        typer.echo(f"# {path.name}\n{path.read_text(encoding='utf-8')}")


@records_app.command("export")
def records_export(file: Annotated[Path, typer.Argument(metavar="FILE.zip")],
                   pages: Annotated[list[str], typer.Argument(metavar="[PAGE]…", help="names or beginnings")] = (),
                   where: Where = ()) -> None:
    """Write finished runs into one zip file, to take them to another machine."""
    from probebook.runs import archive
    count = archive.export_runs(file, pages, where)
    typer.echo(f"{count} run{'s' * (count != 1)} exported to {file}")


@records_app.command("import")
def records_import(file: Annotated[Path, typer.Argument(metavar="FILE.zip")]) -> None:
    """Add the runs of a zip file to this book's. They count as runs made here: take them from those you trust."""
    from probebook.runs import archive
    counts = archive.import_runs(file)
    typer.echo(", ".join(f"{count} {what}" for what, count in counts.items()))
    if counts["refused"]:
        raise typer.Exit(1)


@data_app.command("list")
def data_list() -> None:
    """List the registered files: name, licence, what it is."""
    from probebook.corpora.fetch import entries
    for name, entry in entries().items():
        typer.echo(f"{name}  {entry.licence}  {entry.description}")


@data_app.command("get")
def data_get(names: Annotated[list[str], typer.Argument(metavar="NAME…")]) -> None:
    """Find or download files and print their paths."""
    from probebook.corpora.fetch import fetch
    for name in names:
        typer.echo(fetch(name))


@data_app.command("check")
def data_check() -> None:
    """Print where each file was found and whether its checksum is right."""
    from probebook.corpora.fetch import check
    typer.echo(check().to_string(index=False))


@models_app.command("list")
def models_list() -> None:
    """List the shipped models."""
    for path in sorted((DATA / "models").glob("*/*.safetensors")):
        size = sum(file.stat().st_size for file in path.parent.iterdir()) / 1e6
        typer.echo(f"{path.parent.name}  {size:.1f} MB  {path.parent.relative_to(DATA.parent)}")


@models_app.command("card")
def models_card(name: str) -> None:
    """Measure a shipped model and write its card (README.md, card.json) beside the weights. Prints the folder."""
    from probebook.hub import check_shipped
    check_shipped(name)
    from probebook.publish import cards
    typer.echo(cards.write(name))


@models_app.command("train")
def models_train(name: str,
                 steps: Annotated[int | None, typer.Option(min=1, help="instead of the recipe's")] = None,
                 out: Annotated[Path | None, typer.Option(help="instead of data/models/NAME")] = None) -> None:
    """Train a pocket model again from the text; a killed training goes on where it stopped. Prints the folder."""
    from probebook.hub import check_recipe
    check_recipe(name)
    from probebook.models.training import recipes
    typer.echo(recipes.train(name, steps=steps, out=out))


@lab_app.command("student")
def lab_student(out: Annotated[Path, typer.Argument(metavar="OUT", help="folder for the notebooks")],
                names: Annotated[list[str], typer.Argument(metavar="[PAGE]…", help="or beginnings")] = ()) -> None:
    """Write pages as students' notebooks: exercises with stubs and checks, no solutions. Prints their paths."""
    from probebook.labs.student import write
    from probebook.runs.pages import find, pages
    chosen = [page for page in pages() if not names or any(page.name.startswith(name) for name in names)]
    for name in names:
        if not any(page.name.startswith(name) for page in chosen):
            find(name)                                          # says which pages there are
    for path in write(out, chosen):
        typer.echo(path)


@lab_app.command("grade")
def lab_grade(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="notebooks, in it or deeper")],
              out: Annotated[Path, typer.Option(help="OUT.csv and OUT.html are written")] = Path("grades"),
              profile: Profile = "smoke",
              workers: Annotated[int, typer.Option(min=1, help="submissions at a time")] = 2,
              time_limit: TimeLimit = "10min", memory_limit: MemoryLimit = "4GiB") -> None:
    """Run the checks of every submission, each in a process of its own, and write a table. Prints its two paths."""
    from probebook.labs.sandbox import submissions
    from probebook.runs.kernels import limits
    from probebook.runs.pages import profile_values
    submissions(folder)
    profile_values(profile)
    within = limits(time_limit, memory_limit)
    from probebook.labs.grade import grade
    grade(folder, out, profile, workers, within)
    for suffix in (".csv", ".html"):
        typer.echo(out.with_suffix(suffix))
