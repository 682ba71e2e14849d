"""The report of an audit (`probebook audit`): from a run of page 7/01 to files that need no book.

write_report(run, Path("report"))   # report.html, report.json, tables/*.csv, edits/*"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from jinja2 import Environment, FileSystemLoader

from probebook.base import UserError, read_yaml
from probebook.hub import config, kind
from probebook.interventions.export import save_vectors, steering_vector
from probebook.interventions.serialization import load
from probebook.models.loading import depth
from probebook_audit import labelled
from probebook_audit.fitting import METHODS, STREAMED, check_methods
from probebook_audit.from_files import fitting_items
from probebook_audit.from_model import check, default_place
from probebook_audit.measuring import check_draws
from probebook_audit.questions.shortcut import count_sources
from probebook_audit.report_pairs import Items, ReportPart, Scores
from probebook_audit.result import IDS, AuditResult
from probebook_audit.verdict import QUESTIONS, percent, sentence, tone
from probebook_runs.model_checks import check_models
from probebook_runs.pages import find
from probebook_runs.records import read_record
from probebook_runs.schema import from_text
from probebook_runs.store import Run, kept_files, plan, tables

PAGE = "7_your_model/01_audit"
WORDS = read_yaml(Path(__file__).with_name("report.yaml"))
SHOWN = ("complete", "kept", "reliability", "closeness", "explained")  # measures of an edit


class Figure(ReportPart):
    """A number with its 95 % interval over seeds and groups (None: it has no interval)."""

    value: float
    low: float | None = None
    high: float | None = None


class Answer(ReportPart):
    """One of the report's questions: `word` is the verdict, `sentence` says it, `control` what the
    figure is compared with. None: nothing was measured."""

    question: str
    asked: str
    word: str
    sentence: str
    figure: Figure | None
    control: str
    control_figure: Figure | None


class EditFound(ReportPart):
    """A method at a layer, at the strength chosen on the validation items. `figures`: name →
    number (complete, kept, reliability, lead over random edits, lead over shuffled labels,
    closeness, explained …); `file`: the fitted edit of the first seed."""

    layer: int
    method: str
    symbol: str
    strength: float
    flips: bool
    word: str
    figures: dict[str, Figure]
    file: str


class Check(ReportPart):
    """A line of the reporting checklist."""

    item: str
    done: bool
    where: str


class Report(ReportPart):
    """`report.json`. A later version may add fields; it does not change the meaning of these."""

    version: Literal["1.0"]
    model: str
    data: str
    verdict: str
    sentence: str
    answers: list[Answer]
    edits: list[EditFound]
    items: Items
    notes: list[str] = []
    methods: str
    checklist: list[Check]
    seeds: int
    parameters: dict
    page: str
    run: str
    finished: str
    seconds: float
    device: str
    versions: dict[str, str]


def schema() -> str:
    """The JSON schema of `Report`; `book/report.schema.json` keeps it."""
    return json.dumps(Report.model_json_schema(), indent=1, ensure_ascii=False)


def plan_audit(
    model: str,
    data: str,
    columns: Mapping[str, Any],
    at: str | None,
    n: int | None,
    states: Path | None,
    probe: Path | None,
    profile: str,
    more: Mapping[str, Any],
    assignments: Sequence[str] = (),
) -> Run:
    """The run of the page that answers for these data. What would stop it is refused here.

    `columns`: as `labelled.read` names them; `more`: other parameters, None: the page's own;
    `assignments` "name=value" go before. UserError: bad input, in one line."""
    if data not in labelled.BUILT_IN:
        data = str(Path(data).resolve())
        most = fitting_items(str(states), more.get("states_key") or "") if states else None
        more = {**more, "n": n or most or "none"} | ({"stream": True} if most and not n else {})
    elif n:
        more = {**more, "n": n}
    values: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
    values |= {"data": data, **columns} | ({"model": model} if model else {})
    saved = {"states": states, "probe": probe}
    values |= {name: str(path.resolve()) for name, path in saved.items() if path}
    values |= {"at": at or "[MASK]"} | from_text(assignments)
    run = plan(find(PAGE), profile, values)
    if at is None or not run.finished:
        items = labelled.read(data, **{name: run.values[name] for name in (*columns, "n", "seed")})
        if at is None and not states:
            values["at"] = default_place(items)
            run = plan(find(PAGE), profile, values)
        if not run.finished:
            check_models(run.page.types, run.values)
            check_methods(run.values["methods"])
            names = ["at", "states", "probe", "stream", "seeds", "n_judged", "too_long"]
            names += ["states_key", "states_layer"]
            check(items, model, *(run.values[name] for name in names))
            layers = 1 if states else len(run.values["layers"])
            comparisons = layers * max(3, len(run.values["methods"]))
            check_draws(max(comparisons, count_sources(items)), run.values["draws"])
    return run


def check_folder(out: Path) -> None:
    """UserError if a report cannot be written to this folder: it holds something else."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: give a folder")
    if out.exists() and any(out.iterdir()) and not (out / "report.json").exists():
        raise UserError(f"{out} holds other files: give a new folder, or that of an older report")


def write_report(run: Run, out: Path) -> Path:
    """Write the report of a finished run; the folder gets its name when all of it is written.

    Returns the path of `report.html`."""
    notebook = run.read()
    frames, files = tables(notebook), kept_files(notebook)
    result = AuditResult.from_long(frames)
    report = _report(run, frames, result, [*files])
    with new_report(out) as new:
        (new / "edits").mkdir()
        for name, frame in frames.items():
            table = _name_items(frame, frames["tested"]) if name == "items" else frame
            table.drop(columns="metric").to_csv(new / "tables" / f"{name}.csv", index=False)
        for name, content in files.items():
            (new / "edits" / name).write_bytes(content)
        _write_vectors(run.values, report.edits, frames["tested"].label.nunique(), new)
        text = report.model_dump_json(indent=1)
        (new / "report.json").write_text(text + "\n", encoding="utf-8")
        page = render(report, result, _pictures(notebook))
        (new / "report.html").write_text(page, encoding="utf-8")
    return out.resolve() / "report.html"


@contextmanager
def new_report(out: Path) -> Iterator[Path]:
    """A folder with a folder `tables`; it gets its name, `out`, when all of it is written."""
    check_folder(out)
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        new = Path(folder, "new")
        (new / "tables").mkdir(parents=True)
        yield new
        if out.exists():
            out.rename(Path(folder, "old"))
        new.rename(out)
        shutil.rmtree(Path(folder, "old"), ignore_errors=True)


def _write_vectors(
    known: Mapping[str, Any], edits: Sequence[EditFound], classes: int, folder: Path
) -> None:
    """Write the shift of a causal model's states to the second of two classes for other programs,
    too, where these can add it: not among the embeddings, nor after the last block."""
    if known["states"] or classes != 2 or kind(known["model"]) != "causal":
        return
    for edit in edits:
        if edit.method == "MeanShift" and edit.file and 0 < edit.layer < depth(known["model"]):
            vectors = {edit.layer: steering_vector(load(folder / edit.file))}
            path = (folder / edit.file).with_suffix("")
            save_vectors(vectors, f"{path}.vector.safetensors")
            if edit.layer > 1 and find_spec("gguf"):
                save_vectors(vectors, f"{path}.gguf", config(known["model"]).model_type)


def _report(
    run: Run, frames: Mapping[str, pd.DataFrame], result: AuditResult, files: Sequence[str]
) -> Report:
    record = read_record(run.folder)
    assert record is not None  # the run has just been read
    known = run.values
    about = dict(zip(frames["about"].what, frames["about"].value))
    concept = next(name.removeprefix("concept: ") for name in about if name.startswith("concept: "))
    answers = [
        _answer(row, concept, int(about["items"])) for row in result.answers.to_dict("records")
    ]
    end = result.answers.set_index("question").loc["change"]
    model = known["states"] or known["model"]
    given = {
        "texts": not known["states"] or known["text"],
        "model": not known["states"],
        "properties": (result.judges.property != "").any(),
    }
    return Report(
        version="1.0",
        model=model,
        data=known["data"],
        verdict=result.verdict,
        sentence=sentence({"question": "verdict", "word": end.word, "what": end.what}),
        answers=answers,
        edits=_edits(result.edits, files),
        items=_items(frames["items"], frames["tested"]),
        checklist=_checklist(answers, {name for name, there in given.items() if there}),
        notes=[*result.notes.note],
        methods=" ".join([_methods(known, about, concept, model), *result.notes.note]),
        seeds=known["seeds"],
        parameters=known,
        page=PAGE,
        run=record.run,
        finished=record.finished,
        seconds=record.seconds,
        device=record.hardware,
        versions=record.versions,
    )


def _answer(row: Mapping[str, Any], concept: str, items: int) -> Answer:
    names = ("value", "low", "high", "control_value")
    numbers = {name: float(row[name]) for name in names if pd.notna(row.get(name))}
    control = numbers.pop("control_value", None)
    return Answer(
        **{name: row[name] for name in ("question", "word", "control")},
        asked=QUESTIONS[row["question"]],
        sentence=sentence(row, concept, items),
        figure=Figure(**numbers) if "value" in numbers else None,
        control_figure=None if control is None else Figure(value=control),
    )


def _edits(table: pd.DataFrame, files: Sequence[str]) -> list[EditFound]:
    edits = []
    for (layer, method), rows in table.groupby(["layer", "method"], sort=False):
        ends = rows.set_index("measure")[["value", "low", "high"]].T
        figures = {measure: Figure(**ends[measure]) for measure in ends}
        first, name = rows.iloc[0], f"layer{layer}_{method}.safetensors"
        about = first[["layer", "method", "symbol", "word", "strength"]].to_dict()
        file = f"edits/{name}" if name in files else ""
        edits.append(EditFound(**about, flips=first.symbol != "rank", figures=figures, file=file))
    return edits


def _items(table: pd.DataFrame, tested: pd.DataFrame) -> Items:
    scores = []
    names = ["kind", "name", "layer", "measure"]
    for about, rows in table.astype({"name": str}).groupby(names, sort=False):
        column = rows.set_index("row").value.reindex(tested.value.astype(int))
        values = [None if pd.isna(value) else value for value in column]
        scores.append(Scores(**dict(zip(names, about)), values=values))
    ids = tested.astype({"item": str, "group": str, "label": str})
    return Items(id=[*ids["item"]], group=[*ids.group], label=[*ids.label], scores=scores)


def _name_items(items: pd.DataFrame, tested: pd.DataFrame) -> pd.DataFrame:
    """Scores of single items with the item's name, group and label in place of its row."""
    names = tested.set_index(tested.value.astype(int))[["item", "group", "label"]]
    named = names.loc[items.row].reset_index(drop=True)
    return pd.concat([named, items.drop(columns=["row", "figure"])], axis=1)


def _methods(known: Mapping, about: Mapping, concept: str, model: str) -> str:
    """A paragraph for a paper, with every parameter that a figure depends on."""
    words = WORDS["methods"]
    lists = {
        name: ", ".join(map(str, known[name])) for name in ("layers", "methods", "doses", "ranks")
    }
    numbers = {str(name).replace(" ", "_"): number for name, number in about.items()}
    table = {"natural": _natural_strengths(), "streamed": " and ".join(STREAMED)}
    known = {**known, **numbers, **lists, **table, "concept": concept, "model": model}
    place = words["files" if known["states"] else "model"].format(**known)
    parts = [words["text"], *([words["streamed"]] if known["streamed_states"] else [])]
    return " ".join(part.format(place=place, **known) for part in parts)


def _natural_strengths() -> str:
    """What dose 1 is for each method that shifts states: "1 for A and B, 2 for C"."""
    names: dict[float, list[str]] = {}
    for name, row in METHODS.items():
        if row.scale in ("s", "α"):
            names.setdefault(row.natural, []).append(name)
    return ", ".join(f"{dose:g} for {' and '.join(names[dose])}" for dose in sorted(names))


def _checklist(answers: Sequence[Answer], given: set[str]) -> list[Check]:
    """The checklist, ticked where an answer shows it; `given`: what the audit was told."""
    words = {answer.question: answer.word for answer in answers}

    def done(line: Mapping) -> bool:
        answered = "answers" not in line or words[line["where"]] in line["answers"]
        return answered and ("needs" not in line or line["needs"] in given)

    return [
        Check(item=line["item"], done=done(line), where=line["where"])
        for line in WORDS["checklist"]
    ]


def _pictures(notebook: Any) -> list[dict[str, str]]:
    """The page's figures: source (a data address), caption, and alt for who does not see it."""
    pictures = []
    for cell in notebook.cells:
        about = cell.get("metadata", {}).get("mystnb", {})
        for output in cell.get("outputs", []):
            image = output.get("data", {}).get("image/png")
            if image and about:
                caption = about.get("figure", {}).get("caption", "").replace("**", "")
                source = f"data:image/png;base64,{''.join(image.split())}"
                alt = about.get("image", {}).get("alt", "")
                pictures.append({"source": source, "caption": caption.strip(), "alt": alt})
    return pictures


def render(report: Report, result: AuditResult, pictures: Sequence[Mapping[str, str]]) -> str:
    """The report as one HTML file that needs neither a network nor a script."""
    page = environment()
    page.filters |= {"percent": percent, "interval": _interval}
    return page.get_template("report.html.j2").render(
        title=f"{report.data}, read from {report.model}",
        report=report,
        tone=tone,
        pictures=pictures,
        edit_heads=["method", "verdict", "layer", "strength", *SHOWN],
        edit_rows=map(_edit_row, report.edits),
        tables=[
            _table(title, getattr(result, name), len(IDS[name]))
            for name, title in WORDS["tables"].items()
        ],
    )


def environment() -> Environment:
    """The templates of reports. Texts are escaped."""
    folder = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=folder, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def _interval(figure: Figure) -> str:
    low, high = (
        "–" if end is None else percent(end).removesuffix(" %") for end in (figure.low, figure.high)
    )
    return f"{percent(figure.value)} ({low} to {high})"


def _edit_row(edit: EditFound) -> list[str]:
    figures = [_interval(edit.figures[name]) if name in edit.figures else "–" for name in SHOWN]
    strength = f"{edit.symbol} {edit.strength:g}"
    return [edit.method, edit.word, str(edit.layer), strength, *figures]


def _table(title: str, table: pd.DataFrame, ids: int) -> dict[str, Any]:
    """A table of the result for the template; the first `ids` columns name a row."""
    rows = [
        [str(name) or "the concept" for name in row[:ids]] + [_number(value) for value in row[ids:]]
        for row in table.itertuples(index=False, name=None)
    ]
    return {"title": title, "heads": [*table], "rows": rows}


def _number(value: float) -> str:
    if value != value:
        return "–"
    return f"{value:,.0f}" if value == round(value) and abs(value) > 1 else f"{value:.2f}"
