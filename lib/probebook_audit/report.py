"""The report of an audit (`probebook audit`): from a run of page 7/01 to files that need no book.

write(run, Path("report"))      # report.html, report.json, tables/*.csv, edits/*.safetensors"""

from __future__ import annotations

import html
import json
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import probebook_audit as audit
from probebook.base import UserError
from probebook_audit import labelled
from probebook_audit.report_page import page as page_of
from probebook_audit.report_pairs import Items, Part, Scores
from probebook_runs.model_checks import check_models
from probebook_runs.pages import find
from probebook_runs.records import read_record
from probebook_runs.schema import from_text
from probebook_runs.store import Run, kept_files, plan, tables

PAGE = "7_your_model/01_audit"


class Figure(Part):
    """A number with its 95 % interval over seeds and groups (None: it has no interval)."""

    value: float
    low: float | None = None
    high: float | None = None


class Answer(Part):
    """One of the report's questions: `word` is the verdict, `sentence` says it, `control` what the
    figure is compared with. None: nothing was measured."""

    question: str
    asked: str
    word: str
    sentence: str
    figure: Figure | None
    control: str
    control_figure: Figure | None


class EditFound(Part):
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


class Check(Part):
    """A line of the reporting checklist."""

    item: str
    done: bool
    where: str


class Report(Part):
    """`report.json`. A later version may add fields; it does not change the meaning of these."""

    version: Literal["1.0"]
    model: str
    data: str
    verdict: str
    sentence: str
    answers: list[Answer]
    edits: list[EditFound]
    items: Items
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


def planned(
    model: str,
    data: str,
    asked: Mapping[str, Any],
    at: str | None,
    n: int | None,
    states: Path | None,
    probe: Path | None,
    profile: str,
    more: Mapping[str, Any],
    assignments: Sequence[str] = (),
) -> Run:
    """The run of the page that answers for these data. What would stop it is refused here.

    `asked`: columns, as `corpora.labelled.read` names them; `more`: other parameters, None: the
    page's own; `assignments` "name=value" go before. UserError: bad input, in one line."""
    if data not in labelled.BUILT_IN:
        data = str(Path(data).resolve())
        most = audit.fitting_items(str(states)) if states and not n else None
        more = {**more, "n": n or most or "none"} | ({"stream": True} if most else {})
    elif n:
        more = {**more, "n": n}
    values: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
    values |= {"data": data, **asked} | ({"model": model} if model else {})
    values |= {
        name: str(path.resolve()) for name, path in (("states", states), ("probe", probe)) if path
    }
    values |= {"at": at or "[MASK]"} | from_text(assignments)
    found = plan(find(PAGE), profile, values)
    if at is None or not found.finished:
        given = found.values
        items = labelled.read(
            data,
            *(
                given[name]
                for name in ("text", "label", "keep", "pair", "group", "words", "spot", "n", "seed")
            ),
        )
        if at is None and not states:
            values["at"] = audit.usual_place(items)
            found = plan(find(PAGE), profile, values)
        if not found.finished:
            check_models(found.page.types, found.values)
            audit.check(
                items,
                model,
                found.values["at"],
                found.values["states"],
                found.values["probe"],
                found.values["stream"],
            )
            layers = 1 if states else len(found.values["layers"])
            audit.check_draws(layers, len(found.values["methods"]), found.values["draws"])
    return found


def check_folder(out: Path) -> None:
    """UserError if a report cannot be written to this folder: it holds something else."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: give a folder")
    if out.exists() and any(out.iterdir()) and not (out / "report.json").exists():
        raise UserError(f"{out} holds other files: give a new folder, or that of an older report")


def write(run: Run, out: Path) -> Path:
    """Write the report of a finished run; the folder gets its name when all of it is written.

    Returns the path of `report.html`."""
    check_folder(out)
    notebook = run.read()
    frames, files = tables(notebook), kept_files(notebook)
    report = _report(run, frames, [*files])
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as folder:
        new = Path(folder, "new")
        for name in ("tables", "edits"):
            (new / name).mkdir(parents=True)
        for name, frame in frames.items():
            _named(frame, report).to_csv(new / "tables" / f"{name}.csv", index=False)
        for name, content in files.items():
            (new / "edits" / name).write_bytes(content)
        text = report.model_dump_json(indent=1)
        (new / "report.json").write_text(text + "\n", encoding="utf-8")
        shown = page_of(report.model_dump(), _pictures(notebook), frames)
        (new / "report.html").write_text(shown, encoding="utf-8")
        if out.exists():
            out.rename(Path(folder, "old"))
        new.rename(out)
        shutil.rmtree(Path(folder, "old"), ignore_errors=True)
    return out / "report.html"


def _report(run: Run, frames: Mapping[str, pd.DataFrame], files: Sequence[str]) -> Report:
    record = read_record(run.folder)
    assert record is not None  # the run has just been read
    known = run.values
    about = dict(zip(frames["about"].what, frames["about"].value))
    concept = next(name.removeprefix("concept: ") for name in about if name.startswith("concept: "))
    answers = _answers(frames["answers"], concept, int(about["items"]))
    edits = _edits(frames.get("edits"), files)
    end = frames["answers"][frames["answers"].question == "change"].fillna("").iloc[0]
    final = str(end.word)
    model = known["states"] or known["model"]
    return Report(
        version="1.0",
        model=model,
        data=known["data"],
        verdict=final,
        sentence=audit.sentence({"question": "verdict", "word": final, "what": end.what}),
        answers=answers,
        edits=edits,
        items=_items(frames),
        checklist=_checklist(answers, known, frames["judges"].property.notna().any()),
        methods=_methods(known, about, concept, model),
        seeds=known["seeds"],
        parameters=known,
        page=PAGE,
        run=record.run,
        finished=record.finished,
        seconds=record.seconds,
        device=record.hardware,
        versions=record.versions,
    )


def _wide(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """A table as it was before `tidy`: ids, then a column for each figure."""
    ids = [column for column in frame if column not in (name, "metric", "value")]
    filled = frame.fillna(dict.fromkeys(ids, ""))
    wide = filled.pivot_table(index=ids, columns=name, values="value", sort=False, dropna=True)
    return wide.reset_index().rename_axis(columns=None)


def _answers(frame: pd.DataFrame, concept: str, items: int) -> list[Answer]:
    texts = ["question", "word", "what", "control"]
    rows = {row["question"]: row for row in _wide(frame, "figure").to_dict("records")}
    found = []
    for question, asked in audit.QUESTIONS.items():
        if question not in rows:
            continue
        row: dict[str, Any] = {str(name): value for name, value in rows[question].items()}
        said = audit.sentence(row, concept, items)
        known = {
            name: float(value)
            for name, value in row.items()
            if name not in texts and isinstance(value, float) and not math.isnan(value)
        }
        figure = (
            Figure(value=known["value"], low=known.get("low"), high=known.get("high"))
            if "value" in known
            else None
        )
        control = Figure(value=known["control_value"]) if "control_value" in known else None
        found.append(
            Answer(
                question=question,
                asked=asked,
                word=str(row["word"]),
                sentence=said,
                figure=figure,
                control=str(row["control"]),
                control_figure=control,
            )
        )
    return found


def _edits(frame: pd.DataFrame | None, files: Sequence[str]) -> list[EditFound]:
    if frame is None:
        return []
    wide, found = _wide(frame, "figure"), []
    for (layer, method), rows in wide.groupby(["layer", "method"], sort=False):
        figures = {
            row.measure: Figure(value=row.value, low=row.low, high=row.high)
            for row in rows.itertuples()
        }
        first, name = rows.iloc[0], f"layer{int(layer)}_{method}.safetensors"
        found.append(
            EditFound(
                layer=int(layer),
                method=str(method),
                symbol=first.symbol,
                word=first.word,
                strength=float(first.strength),
                flips=first.symbol != "rank",
                figures=figures,
                file=f"edits/{name}" if name in files else "",
            )
        )
    return found


def _items(frames: Mapping[str, pd.DataFrame]) -> Items:
    who = frames["tested"].astype({"group": str, "label": str, "item": str})
    place = dict(zip(who.value.astype(int), range(len(who))))
    scores = []
    long = frames["items"]
    for (kind, name, layer, measure), rows in long.groupby(
        ["kind", "name", "layer", "measure"], sort=False
    ):
        values: list[float | None] = [None] * len(who)
        for row, value in zip(rows.row, rows.value):
            values[place[int(row)]] = float(value)
        scores.append(
            Scores(kind=kind, name=str(name), layer=int(layer), measure=str(measure), values=values)
        )
    return Items(id=[*who.item], group=[*who.group], label=[*who.label], scores=scores)


def _named(frame: pd.DataFrame, report: Report) -> pd.DataFrame:
    """A table for CSV, one figure in a row; items by their ids, with group and label."""
    frame = frame.drop(columns=["metric"])
    if "row" not in frame or "kind" not in frame:
        return frame
    order = {row: i for i, row in enumerate(dict.fromkeys(frame.row))}
    place = frame.row.map(order)
    about = {
        name: [getattr(report.items, name)[i] for i in place] for name in ("id", "group", "label")
    }
    return pd.DataFrame(
        about | {name: frame[name] for name in ("kind", "name", "layer", "measure", "value")}
    ).rename(columns={"id": "item"})


def _methods(known: Mapping, about: Mapping, concept: str, model: str) -> str:
    """A paragraph for a paper, with every parameter that a figure depends on."""
    place = (
        "states saved elsewhere"
        if known["states"]
        else f"the states at {known['at']}, layer {', '.join(map(str, known['layers']))}"
    )
    streamed = (
        f" Not all states fit in memory: LEACE and MeanShift learned from "
        f"{about['streamed states']:,.0f} further states as well, read block by block. So "
        "did a linear discriminant, which was the probe where it was right more often "
        "than a logistic regression of the items above on those that choose strengths. "
        "Everything else, and every other method, learned from the items above alone."
        if about["streamed states"]
        else ""
    )
    return (
        f"We audited {concept} in {model} on {known['data']} ({about['items']:,.0f} items in "
        f"{about['groups']:,.0f} groups, {about['classes']:.0f} classes), reading {place} "
        f"({about['dimensions']:.0f} dimensions). {about['test items']:,.0f} test items from "
        "groups that nothing was fitted on were the same for every seed; each of "
        f"{known['seeds']} seeds divided the other groups into 45 % for judges, 40 % for probes "
        "and edits and 15 % to choose strengths. Judges were a linear probe (inverse penalty .1) "
        "and a perceptron (64 units, Adam, rate .001, 12 epochs), trained on items in which the "
        f"concept does not go with what should stay; a judge needed {known['fewest']} of them and "
        "the lower end of its interval above the best answer without states. Edits were "
        f"{', '.join(known['methods'])}, at the doses {', '.join(map(str, known['doses']))} (times "
        "1 for MeanShift and AffineSteering, 2 for AlterRep, and the mean distance of states from "
        f"their mean for attacks) and the ranks {', '.join(map(str, known['ranks']))} (INLP); the "
        "strength was the most reliable on validation items. Controls were four random rotations "
        "of each edit's moves, which keep their lengths (of states wider than 1,024: random "
        "directions), and fits on shuffled labels. Completeness, "
        "selectivity and reliability follow Canby et al. (2024), with the least favourable judge "
        "and property. 95 % intervals cover seeds and groups (bootstrap of groups, Student's t "
        f"over seeds, {known['draws']:,} draws); families of comparisons were corrected by Holm. "
        f"An edit counted if its reliability was surely at least {known['least']}.{streamed}"
    )


def _checklist(answers: Sequence[Answer], known: Mapping, named: bool) -> list[Check]:
    word = {one.question: one.word for one in answers}
    done = {
        "The test groups were not used in any fit": True,
        "Enough data to tell the probe from its best control": word["data"] == "enough",
        "Probe compared with majority and bag of words": not known["states"] or bool(known["text"]),
        "Probe compared with a random-weights twin": not known["states"],
        "Judges examined on uncorrelated items": word["judges"] in ("usable", "usable in part"),
        "Properties that should stay were named": bool(named),
        "Edits compared with random edits and shuffled labels over doses": word["edits"]
        in ("some", "none"),
        "Compared with rewritten texts": word["pairs"] != "not asked",
        "The model's behaviour was measured": word["behaviour"] != "not asked",
        "Other sources of the label were tried": word["shortcut"] != "not asked",
    }
    where = [
        "methods",
        "data",
        "readable",
        "readable",
        "judges",
        "cost",
        "edits",
        "pairs",
        "behaviour",
        "shortcut",
    ]
    return [
        Check(item=item, done=yes, where=place) for (item, yes), place in zip(done.items(), where)
    ]


def _pictures(notebook: Any) -> list[tuple[str, str, str]]:
    """The page's figures: (image as a data address, caption, text for who does not see it)."""
    found = []
    for cell in notebook.cells:
        about = cell.get("metadata", {}).get("mystnb", {})
        for output in cell.get("outputs", []):
            image = output.get("data", {}).get("image/png")
            if image and about:
                caption = about.get("figure", {}).get("caption", "").replace("**", "")
                found.append(
                    (
                        f"data:image/png;base64,{''.join(image.split())}",
                        html.escape(caption.strip()),
                        html.escape(about.get("image", {}).get("alt", "")),
                    )
                )
    return found
