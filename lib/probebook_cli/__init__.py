"""The command line: `probebook COMMAND --help`."""

# mypy: disable-error-code="valid-type,misc,attr-defined,assignment,override"
from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from probebook.base import DATA, UserError, atomic_write, check_readable

UsageError = typer.BadParameter.__bases__[0]  # typer has no public name for it


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Turns bad input, and a disk that fails, into one line and exit status 2."""
    try:
        yield
        return
    except UserError as e:
        message = str(e)
    except UsageError as e:
        if "\n" in e.format_message():  # no arguments: that is the help
            raise
        path = e.ctx.command_path if e.ctx else "probebook"
        wrong = e.format_message().replace("Value error, ", "")  # which pydantic puts there
        if re.match(r"-[\d.]", getattr(e, "option_name", "")):
            wrong += ", but a value: give -p NAME=VALUE"
        message = f"{wrong.rstrip('.')}: see {path} --help"
    except OSError as e:
        if e.errno == errno.EPIPE:  # typer's own
            raise
        message = f"{e.filename or ''}: {e.strerror or e}"
    typer.echo(f"probebook: {message}", err=True)
    raise typer.Exit(2)


class Commands(TyperGroup):
    """The commands; what is wrong with their input is said in one line."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        with _in_one_line():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:
        with _in_one_line():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # a third of a second for boxes round the help
    help="Run, re-run and read the pages of Probebook.",
)
archive_app, data_app, models_app, lab_app = (
    typer.Typer(no_args_is_help=True, help=text)
    for text in (
        "The archive: runs kept in data/records/; runs as a zip file.",
        "Data files: where they come from, whether they are right.",
        "The shipped pocket models.",
        "The exercises: students' notebooks, and their grading.",
    )
)
app.add_typer(archive_app, name="archive")
app.add_typer(data_app, name="data")
app.add_typer(models_app, name="models")
app.add_typer(lab_app, name="lab")


def _local(text: str) -> Path:
    """The path that was given. UserError: it is an address, which would become a folder here."""
    if "://" in str(text):
        raise UserError(f"{text} is an address: give a file or folder of this machine")
    return Path(text)


def _parser(kind) -> Callable[[str], Path] | None:
    return _local if kind in (Path, Path | None) else None


def _option(kind, help: str, *flags: str, **more):
    """The type of an option of the command line."""
    return Annotated[kind, typer.Option(*flags, help=help, parser=_parser(kind), **more)]


def _argument(kind, metavar: str, help: str = ""):
    """The type of an argument of the command line."""
    return Annotated[kind, typer.Argument(metavar=metavar, help=help, parser=_parser(kind))]


Texts = list[str]
PageName = _argument(str, "PAGE", "a page's name or its beginning: 1_causal_probing/03")
PageNames = _argument(Texts, "[PAGE]…", "names of pages, or their beginnings")
Assignments = _option(Texts, "a parameter of the page; repeatable", "-p", metavar="NAME=VALUE")
Profile = _option(str, "smoke, pocket, real or paper")
ValuesFile = _option(Path | None, "parameters; -p goes before", "-f", metavar="FILE.yaml")
TimeLimit = _option(str | None, "end a page that takes longer: 90 (seconds), 30min, 2h")
MemoryLimit = _option(str | None, "end a page whose kernel takes more: 800MB, 6GiB")
Jobs = _option(
    int | None, "runs at a time; else one a core, as far as memory has room", "--jobs", min=1
)
Force = _option(bool, "run again even if a finished run is there", "--force")
Numbers = _option(bool, "take the numbers in the text from the book's finished runs", "--numbers")
Where = _option(Texts, "parameter or id; also != < <= > >=; repeatable", metavar="NAME=VALUE")
Metrics = _option(Texts, "or scorer, of logs with several; repeatable: a task's first", "--metric")
Filters = _option(Texts, "of logs with several; repeatable likewise", "--filter")
Unscored = _option(float | None, "the score of a log's answers without one", "--unscored")
RunId = _argument(str, "RUN", "a run's id or its beginning, four digits at least")
ZipFile = _argument(Path, "FILE.zip")


def _listed(text: str) -> list[str]:
    """The names in "A, B"."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _plan(page: str, assignments: Sequence[str], profile: str, file: Path | None = None):
    from probebook_runs.pages import find
    from probebook_runs.schema import from_file, from_text
    from probebook_runs.store import plan

    values = (from_file(file) if file else {}) | from_text(assignments)
    return plan(find(page), profile, values)


@app.command()
def run(
    page: PageName,
    p: Assignments = (),
    f: ValuesFile = None,
    profile: Profile = "pocket",
    force: Force = False,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    out: _option(Path | None, "copy the executed notebook to this file") = None,
    archive: _option(bool, "keep its tables in data/records/PAGE/NAME", "--archive") = False,
    name: _option(str | None, "NAME in the archive, else the profile's") = None,
) -> None:
    """Run a page with other parameters and print its notebook's path.

    A finished run with the same parameters is reused.
    """
    from probebook_runs.kernels import parse_limits
    from probebook_runs.model_checks import check_models

    planned, within = _plan(page, p, profile, f), parse_limits(time_limit, memory_limit)
    if out:
        check_readable(out)  # before the page's hours
    if force or not planned.folder.exists():
        check_models(planned.page.types, planned.values)
    from probebook_runs.execute import run_all

    if run_all([planned], force, within):
        raise typer.Exit(1)
    if out:
        with atomic_write(out) as part:
            shutil.copyfile(planned.path, part)
    if archive:
        from probebook_runs.archive import add

        typer.echo(add(planned, name or profile))
    typer.echo(out or planned.path)


@app.command()
def sweep(
    file: _argument(Path, "FILE.yaml", "page, profile, grid, list, seeds …"),
    dry_run: _option(bool, "only say what would run, and how long", "--dry-run") = False,
    workers: _option(
        int | None,
        "runs at a time; else one a core, as far as memory has room",
        "--jobs",
        "--workers",
        min=1,
    ) = None,
    scheduler: _option(
        str | None,
        "a Dask cluster, in place of workers here; needs a folder that all of it shares",
        metavar="tls://HOST:PORT",
    ) = None,
    slurm: _option(
        Path | None,
        "what dask-jobqueue's SLURMCluster takes; starts --jobs "
        "of its jobs, else one; --dry-run prints a job's script",
        metavar="JOBS.yaml",
    ) = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
) -> None:
    """Run a page with many sets of parameters.

    What is finished is kept; what fails is listed at the end.
    """
    from probebook_runs.kernels import parse_limits
    from probebook_runs.sweep_file import checked

    if scheduler and (workers or slurm):
        raise UserError("--jobs and --slurm start workers: give them or --scheduler")
    checked(file)  # bad input is refused before Dask is loaded
    within = parse_limits(time_limit, memory_limit)
    from probebook_runs import sweep as sweeps

    if slurm:
        workers = workers or 1
    if dry_run:
        typer.echo(sweeps.forecast(file, workers))
        if slurm:
            from probebook_runs.workers import job_script

            typer.echo(job_script(slurm))
    elif sweeps.sweep(file, workers, scheduler, within, slurm):
        raise typer.Exit(1)


@app.command()
def params(page: PageName) -> None:
    """List a page's parameters: name, type, default, meaning."""
    from probebook_runs.pages import find

    rows = [(p.name, p.kind, repr(p.default), p.comment) for p in find(page).parameters]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [text.ljust(min(width, 40)) for text, width in zip(row, widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())


@app.command()
def build(profile: Profile = "pocket", force: Force = False, jobs: Jobs = None) -> None:
    """Run all pages of a profile, build the book from them and print the path of its index.html."""
    from probebook_book.build import build as build_book

    index = build_book(profile, force, jobs)
    if index is None:
        raise typer.Exit(1)
    typer.echo(index)


@app.command()
def course(
    out: _argument(Path, "OUT", "folder"), chapters: _argument(Texts, "[CHAPTER]…", "1 to 7") = ()
) -> None:
    """Write slides, a handout and the solutions of each chapter, from the built book's runs, and
    the quizzes of all pages for Moodle (GIFT) and Canvas (QTI 1.2)."""
    from probebook_book.course import write

    for path in write(out, tuple(chapters)):
        typer.echo(path)


@app.command()
def pdf(out: _argument(Path, "[OUT]", "folder") = Path("_build/pdf")) -> None:
    """Print the built book to PDF, a file a chapter (needs Chromium). Prints the paths."""
    from probebook_book.pdf import write

    for path in write(out):
        typer.echo(path)


@app.command()
def results(
    page: _argument(str | None, "[PAGE]", "a page's name or its beginning") = None,
    p: Assignments = (),
    profile: _option(str | None, "of the one run: smoke, pocket, real or paper") = None,
    form: _option(Literal["csv", "markdown", "latex"], "of the table", "--format") = "csv",
    every: _option(bool, "over all runs; so does each option below", "--all") = False,
    where: Where = (),
    table: _option(Texts, "only this table; repeatable", metavar="NAME") = (),
    metric: _option(Texts, "only this metric; repeatable", metavar="NAME") = (),
    rows: _option(str, "columns whose values become rows", metavar="A,B") = "",
    columns: _option(str, "and columns, if not metric", metavar="C,D") = "",
    all_versions: _option(bool, "older code's as well", "--all-versions") = False,
) -> None:
    """Print the tables of the finished run of PAGE as one: table, ids, metric, value.

    Over all runs with --all or a filter. Without PAGE or any filter: list the finished runs.
    """
    over_all = every or where or table or metric or rows or columns or all_versions
    if over_all and (p or profile):
        raise UserError("-p and --profile name one run; over all runs choose by --where NAME=VALUE")
    if not page and (p or profile):
        raise UserError(
            "-p and --profile name a run of a page: probebook results PAGE -p NAME=VALUE"
        )
    if page and not over_all:
        frame = _plan(page, p, profile or "pocket").metrics()
    from probebook_runs import results  # after the refusal of a run, which needs no tables

    if over_all:
        rows, columns = _listed(rows), _listed(columns)
        frame = results.metrics(page or "", where, table, metric, [*rows, *columns], all_versions)
        frame = results.pivot(frame, rows, columns) if rows or columns else frame
    elif not page:
        frame = results.runs()
    typer.echo(results.show(frame, form), nl=False)


@app.command()
def compare(
    a: _argument(
        str,
        "RUN",
        "a run's id or its beginning, four digits at least; or the "
        "report.json of an audit, or its folder",
    ),
    b: _argument(str, "RUN", "another"),
    tolerance: _option(float, "metrics this close are the same; relative above 1", min=0) = 0.0,
) -> None:
    """Print how two runs of a page differ: parameters, metrics, code, device, versions, data.

    Of two audits: what their scores of the same items differ by, with paired tests.
    """
    reports = [path.endswith(".json") or (Path(path) / "report.json").exists() for path in (a, b)]
    if any(reports):
        if not all(reports) or tolerance:
            raise UserError("give two reports of audits, without --tolerance, or two runs")
        from probebook_audit.report_pairs import format_comparison, read

        typer.echo(format_comparison(read(a), read(b)))
        return
    if {Path(a).suffix, Path(b).suffix} & {".eval", ".jsonl"}:
        raise UserError(f"logs are compared by probebook paired {a} {b}")
    from probebook_runs.records import find_run

    first, second = find_run(a), find_run(b)
    from probebook_runs import results

    differ = results.compare(first, second, tolerance)
    typer.echo(f"{first.page}: a is {first.run}, b is {second.run}")
    for name in ("parameters", "metrics", "rest"):
        what = "code, device, versions, data" if name == "rest" else name
        text = differ[name].astype("string").fillna("").to_string(index=False)
        typer.echo(f"\n{what} that differ:\n{text}" if len(differ[name]) else f"\nsame {what}")


@app.command()
def audit(
    model: _argument(str, "MODEL", "a model's name or folder; with --states leave it out"),
    data: _argument(
        str | None,
        "DATA",
        "CSV, TSV, JSON lines, Parquet, or a data set of the "
        "book: agreement, prose, natural, reviews, cebab",
    ) = None,
    text: _option(str, "column of the texts or messages", metavar="COLUMN") = "",
    label: _option(str, "column of the concept's label", metavar="COLUMN") = "",
    keep: _option(Texts, "column of what should stay; repeatable", metavar="COLUMN") = (),
    pair: _option(
        str, "column of the texts rewritten so that the label changes", metavar="COLUMN"
    ) = "",
    group: _option(str, "column of noun, document, author …", metavar="COLUMN") = "",
    words: _option(
        str | None,
        "what the model chooses among: words, or the columns that hold them",
        metavar="A,B…",
    ) = None,
    at: _option(
        str | None,
        "state to read: [MASK], [CLS], mean, last, first word, last word, last user, "
        "assistant mean",
        metavar="RULE",
    ) = None,
    spot: _option(str, "column of the word that is read", metavar="COLUMN") = "",
    too_long: _option(
        Literal["refuse", "cut", "drop"] | None, "texts with more tokens than the model reads"
    ) = None,
    layers: _option(str | None, "0: embeddings, -1: last", metavar="K,L…") = None,
    methods: _option(
        str | None,
        "interventions, by the names in the book's list of methods",
        metavar="A,B…",
    ) = None,
    seeds: _option(int | None, "of everything trained", min=2) = None,
    states: _option(
        Path | None,
        "saved states: safetensors, .npz, .npy, or a folder with a file for each row",
        metavar="FILE",
    ) = None,
    states_key: _option(str | None, "their name in the file, if not h", metavar="KEY") = None,
    states_layer: _option(int | None, "which one of [rows, layers, columns], from 0") = None,
    probe: _option(Path | None, "a saved probe to be judged", metavar="FILE") = None,
    n: _option(int | None, "items, at most; by default all of a file", min=1) = None,
    p: Assignments = (),
    profile: Profile = "pocket",
    force: Force = False,
    monitor: _option(bool, "audit a probe that raises alarms, on other texts", "--monitor") = False,
    test: _option(Texts, "of a monitor: texts to judge it on; repeatable", metavar="FILE") = (),
    test_states: _option(Texts, "of a monitor: saved states of each --test", metavar="FILE") = (),
    fpr: _option(float, "of a monitor: the false-alarm rate at which it works") = 0.01,
    positive: _option(str, "of a monitor: the label of an alarm, else the last") = "",
    *,
    out: _option(Path, "folder of the report"),
) -> None:
    """Say whether an edit of a model can be trusted, and write a report; print its path.

    Eight questions against controls (data, probe, judges, edits, their cost, rewritten texts,
    behaviour, shortcuts), then what would change the verdict, and the sentence for a paper. A
    finished run is reused.
    """
    if states:
        if data is not None:
            raise UserError("with --states there is no MODEL: give DATA alone")
        if layers:
            raise UserError("with --states there are no --layers: see --states-layer")
        model, data = "", model
    elif states_key or states_layer is not None:
        raise UserError("--states-key and --states-layer go with --states FILE")
    elif data is None:
        raise UserError(f"give a model and data: probebook audit {model} DATA --out {out}")
    if monitor or test or test_states:
        unused = {"--pair": pair, "--words": words, "--methods": methods, "--probe": probe, "-p": p}
        unused |= {"--profile": profile != "pocket", "--force": force}
        unused |= {"--at": at, "--spot": spot, "--too-long": too_long} if states else {}
        wrong = [name for name, value in unused.items() if value]
        if wrong or not monitor:
            raise UserError(
                "a monitor: probebook audit MODEL TRAIN --monitor --test FILE --label … --text …"
                + (f", without {wrong[0]}" if wrong else "")
            )
        if len(test_states) != (len(test) if states else 0):
            raise UserError("with --states FILE give a --test-states for each --test, in order")
        from probebook_audit.monitor_report import audit_monitor

        columns = {"text": text, "label": label, "keep": [*keep], "group": group, "spot": spot}
        depths = [int(layer) for layer in _listed(layers or "-1")]
        settings = (positive, fpr, seeds or 5, n, too_long or "refuse")
        saved = ([str(states), *test_states] if states else (), states_key or "", states_layer)
        typer.echo(audit_monitor(model, data, [*test], columns, out, at, depths, *settings, *saved))
        return
    from probebook_audit.report import check_folder, plan_audit, write_report

    check_folder(out)
    columns = {"text": text, "label": label, "keep": [*keep], "pair": pair, "group": group}
    columns |= {"words": words.split(",") if words else [], "spot": spot}
    more = {"layers": layers and f"[{layers}]", "methods": methods and f"[{methods}]"}
    more |= {"seeds": seeds, "too_long": too_long}
    more |= {"states_key": states_key, "states_layer": states_layer}
    run = plan_audit(model, data, columns, at, n, states, probe, profile, more, p)
    from probebook_runs.execute import run_all

    if run_all([run], force):
        raise typer.Exit(1)
    typer.echo(write_report(run, out))


@app.command()
def findings(format: Literal["json", "schema"] = "json", profile: Profile = "pocket") -> None:
    """Print every claim and discrepancy of the papers, with its status and numbers, as data.

    The numbers are those of the book's runs of the profile; the schema says what each field is.
    """
    from probebook_book.findings import collect, schema

    os.environ["PROBEBOOK_PROFILE"] = profile
    typer.echo(schema() if format == "schema" else collect().model_dump_json(indent=1))


@app.command()
def yardstick(
    file: _argument(
        Path, "MY_METHOD.py", "a class with fit(h, z), which gives an edit: edit(h, to=z)"
    ),
    worlds: _option(
        str, "of agreement, reviews, biographies, stories", metavar="A,B"
    ) = "agreement,reviews,biographies,stories",
    seeds: _option(int, "fresh worlds of each kind", min=1) = 3,
    seed: _option(int | None, "of the first of them, to repeat a table", min=1, max=1 << 30) = None,
    out: _option(Path | None, "write all scores to this CSV file") = None,
) -> None:
    """Judge your own edit beside the book's, in fresh worlds whose truth is known (page 6/02).

    The book's own worlds stand beside them: a method that remembers those falls in fresh ones.
    """
    if out:
        check_readable(out)
    from probebook_audit.yardstick import WORLDS, format_table, load, summarize, verdicts
    from probebook_audit.yardstick import run as run_worlds

    names = list(dict.fromkeys(_listed(worlds)))
    if not names or {*names} - {*WORLDS}:
        raise UserError(f"--worlds {worlds}: some of {','.join(WORLDS)}")
    method = load(file)
    first = seed or secrets.randbelow(1 << 30) + 1
    scores = run_worlds(
        method, file, names, range(first, first + seeds), lambda what: typer.echo(what, err=True)
    )
    table = summarize(scores, file.name)
    typer.echo(f"\n{format_table(table, first, seeds)}\n")
    for sentence in verdicts(table, file.name):
        typer.echo(sentence)
    if out:
        with atomic_write(out) as part:
            scores.to_csv(part, index=False)
        typer.echo(out)


@app.command("sample-size")
def sample_size(
    acc_a: _option(float | None, "accuracy of A on a pilot, a share") = None,
    acc_b: _option(float | None, "accuracy of B") = None,
    pilot_a: _option(
        Path | None,
        "CSV: prediction,label or 0/1 per seed; or a log: "
        "samples_*.jsonl of lm-evaluation-harness, .eval or .json of "
        "Inspect",
    ) = None,
    pilot_b: _option(Path | None, "the same items, for B") = None,
    dim: _option(int, "width of the states, the wider one's") = 768,
    metric: Metrics = (),
    filter: Filters = (),
    unscored: Unscored = None,
) -> None:
    """How many items tell A from B, from two accuracies or two pilots' files.

    Of two logs it says how far A and B differ on their common items, and how sure that is.
    """
    from probebook.measures import eval_logs, paired, pilots
    from probebook.measures import sample_size as size

    both = pilot_a and pilot_b and acc_a is acc_b is None
    logs = bool(both and (eval_logs.is_log(pilot_a) or eval_logs.is_log(pilot_b)))
    if not logs and (metric or filter or unscored is not None):
        raise UserError(
            "--metric, --filter and --unscored belong to two logs: --pilot-a and --pilot-b"
        )
    if logs:
        suite = eval_logs.read(pilot_a, pilot_b, metric, filter, unscored)
        lines = paired.compare(*suite.scores()).lines() | suite.lines()
    elif both:
        lines = size.judge_pilot(*pilots.read(pilot_a, pilot_b), dim=dim).lines()
    elif None not in (acc_a, acc_b) and not pilot_a and not pilot_b:
        lines = size.from_accuracies(acc_a, acc_b, dim)
    else:
        raise UserError("give --acc-a and --acc-b, or --pilot-a and --pilot-b")
    for name, value in lines.items():
        typer.echo(f"{name:<46}{value}")


@app.command("paired")
def paired_runs(
    a: _argument(Path, "RUN_A", "logs of lm-evaluation-harness or Inspect: one, or a folder"),
    b: _argument(Path, "RUN_B", "the other system's, on the same tasks"),
    metric: Metrics = (),
    filter: Filters = (),
    unscored: Unscored = None,
    cluster: _option(str | None, "field that dependent items share", metavar="COLUMN") = None,
    out: _option(Path | None, "FILE.json, FILE.md, or a folder for paired.json, paired.md") = None,
) -> None:
    """Compare two systems on every task that both were evaluated on, and over the tasks.

    Prints differences with 95 % intervals, p (also Holm's), power, items needed. A field is one of
    the harness's doc or of Inspect's metadata.
    """
    from probebook.measures import eval_logs, paired

    suite = eval_logs.read(a, b, metric, filter, unscored, cluster)
    forms = dict(zip((".json", ".md"), paired.format_suite(suite, str(a), str(b))))
    folder = [out / "paired.json", out / "paired.md"] if out else []
    for file in [out] if out and out.suffix in forms else folder:
        with atomic_write(file) as part:
            part.write_text(forms[file.suffix] + "\n", encoding="utf-8")
    typer.echo(forms[".md"])


@app.command()
def pair(numbers: Numbers = False) -> None:
    """Write the .ipynb beside each page's .md; the .md is the source, always."""
    from probebook_book.build import pair as write
    from probebook_book.build import store_numbers
    from probebook_runs.pages import pages

    if numbers:
        store_numbers()
    for page in pages():
        if write(page):
            typer.echo(page.path.with_suffix(".ipynb"))


@app.command()
def check(
    names: PageNames = (),
    fix: _option(bool, "lay out the code cells first, and write the pages", "--fix") = False,
) -> None:
    """Check how pages are written, and print what breaks the rules of form, a line each.

    Without PAGE: all pages, and what the papers' first pages and book/verdicts.yaml say.
    """
    from probebook_book import check as form
    from probebook_runs.pages import find, pages

    faults = form.check([find(name) for name in names] or pages(), fix)
    faults += [] if names else form.check_papers()
    for line in faults:
        typer.echo(line)
    if faults:
        raise typer.Exit(1)


@archive_app.command("list")
def archive_list() -> None:
    """List the archived runs: page and name, when it finished, its device."""
    from probebook_runs.archive import manifests

    for name, manifest in manifests().items():
        typer.echo(f"{name}  {manifest['finished']}  {manifest.get('device', '')}")


@archive_app.command("show")
def archive_show(name: _argument(str, "PAGE/NAME")) -> None:
    """Print an archived run: its manifest, then each table as CSV."""
    from probebook_runs.archive import folder

    for path in [folder(name) / "manifest.json", *sorted(folder(name).glob("*.csv"))]:
        typer.echo(f"# {path.name}\n{path.read_text(encoding='utf-8')}")


@archive_app.command("export")
def archive_export(file: ZipFile, pages: PageNames = (), where: Where = ()) -> None:
    """Write finished runs into one zip file, to take them to another machine."""
    from probebook_runs.archive import export_runs

    count = export_runs(file, pages, where)
    typer.echo(f"{count} run{'s' * (count != 1)} exported to {file}")


@archive_app.command("import")
def archive_import(file: ZipFile) -> None:
    """Add the runs of a zip file to this book's.

    They count as runs made here: take them from those you trust.
    """
    from probebook_runs.archive import import_runs

    counts = import_runs(file)
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
def data_get(names: _argument(Texts, "NAME…")) -> None:
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
    """Measure a shipped model and write its card (README.md, card.json) beside the weights. Prints
    the folder."""
    from probebook.hub import check_shipped

    check_shipped(name)
    from probebook_book import cards

    typer.echo(cards.write(name))


@models_app.command("train")
def models_train(
    name: str,
    steps: _option(int | None, "instead of the recipe's", min=1) = None,
    seed: _option(int, "another training than the shipped model's", min=0) = 0,
    out: _option(Path | None, "instead of data/models/NAME") = None,
) -> None:
    """Train a pocket model again from the text and print its folder.

    A killed training goes on where it stopped.
    """
    from probebook.hub import check_recipe

    check_recipe(name)
    from probebook_training import recipes

    typer.echo(recipes.train(name, steps=steps, out=out, seed=seed))


@lab_app.command("student")
def lab_student(
    out: _argument(Path, "OUT", "folder for the notebooks"),
    names: PageNames = (),
    seed_from: _option(
        Path | None,
        "class list with a column name (and seed): each student gets other data",
        metavar="CLASS.csv",
    ) = None,
    profile: _option(str, "of variants: smoke, pocket, real or paper") = "pocket",
    jobs: Jobs = None,
) -> None:
    """Write pages as students' notebooks: exercises with stubs and checks, no solutions.

    With --seed-from each student's notebooks are in a folder of their own, with data of their own
    and one more exercise that only these data answer; OUT/variants.csv, for you, has the answers.
    """
    from probebook_runs.pages import find, pages

    chosen = [page for page in pages() if not names or page.name.startswith(tuple(names))]
    for name in names:
        if not any(page.name.startswith(name) for page in chosen):
            find(name)  # says which pages there are
    from probebook_runs.labs import student, variants

    if seed_from:
        paths = variants.write(out, chosen, seed_from, profile, jobs)
    else:
        paths = student.write(out, chosen)
    for path in paths:
        typer.echo(path)


@lab_app.command("grade")
def lab_grade(
    folder: _argument(
        Path, "FOLDER", "notebooks, in it or deeper, also in zip files; or one of these"
    ),
    out: _option(Path, "OUT.csv, OUT_exercises.csv and OUT.html are written") = Path("grades"),
    profile: Profile = "smoke",
    workers: _option(int, "submissions at a time", min=1) = 2,
    time_limit: TimeLimit = "10min",
    memory_limit: MemoryLimit = "4GiB",
    variants: _option(
        Path | None, "what lab student --seed-from wrote", metavar="variants.csv"
    ) = None,
) -> None:
    """Run the checks of every submission, each in a process of its own, and write tables.

    A row for each exercise of each submission, and a row for each exercise of all.
    """
    from probebook_runs.kernels import parse_limits
    from probebook_runs.pages import profile_values

    within = parse_limits(time_limit, memory_limit)
    profile_values(profile)
    from probebook_runs.labs.grade import grade, output_paths
    from probebook_runs.labs.variants import read

    grade(folder, out, profile, workers, within, read(variants) if variants else None)
    for path in output_paths(out):
        typer.echo(path)


@lab_app.command("points")
def lab_points(
    grades: _argument(Path, "GRADES.csv", "what lab grade wrote, with points for written answers"),
    class_list: _argument(Path, "CLASS.csv", "class list, as Moodle or Canvas exports it"),
    out: _option(Path, "the table", metavar="FILE.csv") = Path("points.csv"),
) -> None:
    """Write the points of a class, a row for each student, as Moodle and Canvas import them."""
    from probebook_runs.labs.points import write

    for line in write(grades, class_list, out):
        typer.echo(line, err=True)
    typer.echo(out)
