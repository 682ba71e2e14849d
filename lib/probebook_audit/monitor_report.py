"""A monitor's audit from files to files: `probebook audit MODEL TRAIN --test OTHER --monitor`."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers

from probebook.base import UserError
from probebook_audit import labelled
from probebook_audit.from_files import IN_FOLDER, join_states
from probebook_audit.from_model import cases, default_place, prepare_texts
from probebook_audit.monitor import AREA, TRAIN, WORDS, MonitorResult, from_labelled, measure
from probebook_audit.report import check_folder, environment, new_report


def audit_monitor(
    model: str,
    train: str,
    tests: Sequence[str],
    columns: Mapping[str, Any],
    out: Path,
    at: str | None = None,
    layers: Sequence[int] = (-1,),
    positive: str = "",
    fpr: float = 0.01,
    seeds: int = 5,
    n: int | None = None,
    too_long: str = "refuse",
    states: Sequence[str] = (),
    key: str = "",
    layer: int | None = None,
) -> Path:
    """Fit a monitor on one file, judge it on others, and write `report.html`, `report.json` and
    `tables/`. Returns the path of `report.html`.

    Args:
        model: Its name or folder, "" with saved states.
        train, tests: Files of labelled texts.
        columns: text, label, keep, group, spot, as `labelled.read` names them.
        out: Folder of the report.
        at: The state to read, as of `audit.cases`; by default as in an audit of an edit.
        layers: Of which each seed chooses one.
        positive: The label that raises an alarm.
        fpr: The false-alarm rate at which the monitor is to work.
        seeds: Divisions of the training groups.
        n: Items of all files together, at most.
        too_long: What becomes of texts that the model cannot read whole: refuse, cut or drop.
        states: In place of a model: the states of each file, training first, as
            `from_files.from_states` reads them with `key` and `layer`.

    Raises:
        UserError: Bad input, in one line; nothing is written."""
    started = time.monotonic()
    if not 0 < fpr < 0.5:
        raise UserError(f"--fpr {fpr:g} is not a valid false-alarm rate: expected 0 to 0.5, as .01")
    check_folder(out)
    files = [train, *tests]
    data, ends = labelled.read_together(files, dict(columns), n)
    known = {"seeds": seeds, "fpr": fpr, **columns}
    if states:
        h, twin = {-1: join_states(data, [*ends], states, key, layer)}, {}
        folders = [IN_FOLDER.format(one) for one in states if Path(one).is_dir()]
        data = replace(data, notes=(*data.notes, *folders))
        known |= {"states": [*states], "states key": key, "states layer": layer}
    else:
        at = at or default_place(data)
        data = prepare_texts(data, model, at, too_long)
        read = cases(data, model, layers, at, most=len(data.z))
        h = {case.layer: case.h for case in read}
        twin = {case.layer: case.twin for case in read if case.twin is not None}
        known |= {"text at": at, "layers": [*layers]}
    part = np.array([TRAIN, *tests], dtype=object)[np.searchsorted(ends, data.rows, "right")]
    result = measure(from_labelled(data, part, h, twin, positive), seeds, fpr)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions["transformers"] = transformers.__version__
    report = {
        "version": "1.0",
        "model": model or states[0],
        "train": train,
        "tests": [*tests],
        "verdicts": _records(result.verdicts),
        "layers": {int(one): int(count) for one, count in result.layers.items()},
        "scores": _records(result.scores),
        "matched": _records(result.matched),
        "notes": [*result.notes],
        "parameters": known,
        "seconds": round(time.monotonic() - started, 1),
        "versions": versions,
    }
    with new_report(out) as new:
        for name in ("verdicts", "scores", "matched"):
            getattr(result, name).to_csv(new / "tables" / f"{name}.csv", index=False)
        text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)
        (new / "report.json").write_text(text + "\n", encoding="utf-8")
        (new / "report.html").write_text(_render(report, result), encoding="utf-8")
    return out.resolve() / "report.html"


def _records(table: pd.DataFrame) -> list[dict]:
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _render(report: Mapping[str, Any], result: MonitorResult) -> str:
    scores = result.scores.assign(shown=_intervals(result.scores))
    order = scores[scores.measure == AREA].groupby("reader").value.mean().sort_values()[::-1]
    wide = scores.pivot(index=["measure", "reader"], columns="test", values="shown")
    wide = wide[[*scores.test.unique()]].fillna("–")  # without AUROC: a test of one label
    matched = result.matched.assign(shown=_intervals(result.matched))
    matched = matched.rename(columns={"shown": "AUROC of the probe there", "items": "texts left"})
    tables = {
        "areas": wide.loc[AREA].loc[order.index].reset_index(),
        "at_work": wide.drop(AREA).reset_index(),
        "matched": matched[["test", "nuisance", "rule", "texts left", "AUROC of the probe there"]],
    }
    shown = [
        {**WORDS["tables"][name], "heads": [*table], "rows": table.round(2).to_numpy()}
        for name, table in tables.items()
        if len(table)
    ]
    title, page = f"A monitor on {report['model']}", environment().get_template("monitor.html.j2")
    return page.render(title=title, report=report, tones=WORDS["tones"], tables=shown)


def _intervals(table: pd.DataFrame) -> pd.Series:
    ends = zip(table.value, table.low, table.high)
    return pd.Series(
        ["–" if a != a else f"{a:.2f} ({low:.2f} to {high:.2f})" for a, low, high in ends],
        index=table.index,
        dtype=object,
    )
