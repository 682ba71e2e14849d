"""A monitor's audit from files to files: `probebook audit MODEL TRAIN --test OTHER --monitor`."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers

from probebook.base import UserError
from probebook_audit import labelled
from probebook_audit.from_model import cases, default_place, prepare_texts
from probebook_audit.monitor import AREA, TRAIN, WORDS, MonitorResult, from_cases, measure
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
) -> Path:
    """Fit a monitor on one file, judge it on others, and write `report.html`, `report.json` and
    `tables/`. Returns the path of `report.html`.

    Args:
        model: Its name or folder.
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

    Raises:
        UserError: Bad input, in one line; nothing is written."""
    started = time.monotonic()
    if not 0 < fpr < 0.5:
        raise UserError(f"--fpr {fpr:g} is not a valid false-alarm rate: expected 0 to 0.5, as .01")
    check_folder(out)
    data, file = labelled.read_together([train, *tests], dict(columns), n)
    at = at or default_place(data)
    before = data.rows
    data = prepare_texts(data, model, at, too_long)
    part = np.where(file == train, TRAIN, file)[np.isin(before, data.rows)]
    texts = from_cases(data, cases(data, model, layers, at), part, positive)
    result = measure(texts, seeds, fpr)
    known = {"text at": at, "seeds": seeds, "fpr": fpr, "layers": [*layers], **columns}
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    versions["transformers"] = transformers.__version__
    report = {
        "version": "1.0",
        "model": model,
        "train": train,
        "tests": [*tests],
        "verdicts": _records(result.verdicts),
        "layers": {int(layer): int(count) for layer, count in result.layers.items()},
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
    areas = scores[scores.measure == AREA].pivot(index="reader", columns="test", values="shown")
    order = scores[scores.measure == AREA].groupby("reader").value.mean().sort_values()[::-1]
    at_work = scores[scores.measure != AREA].pivot(
        index=["measure", "reader"], columns="test", values="shown"
    )
    matched = result.matched.assign(shown=_intervals(result.matched))
    matched = matched.rename(columns={"shown": "AUROC of the probe there", "items": "texts left"})
    tables = {
        "areas": areas.loc[order.index, [*scores.test.unique()]].reset_index(),
        "at_work": at_work[[*scores.test.unique()]].reset_index(),
        "matched": matched[["test", "nuisance", "rule", "texts left", "AUROC of the probe there"]],
    }
    return (
        environment()
        .get_template("monitor.html.j2")
        .render(
            title=f"A monitor on {report['model']}",
            report=report,
            tones=WORDS["tones"],
            tables=[
                {**WORDS["tables"][name], "heads": [*table], "rows": table.round(2).to_numpy()}
                for name, table in tables.items()
                if len(table)
            ],
        )
    )


def _intervals(table: pd.DataFrame) -> pd.Series:
    ends = zip(table.value, table.low, table.high)
    return pd.Series(
        ["–" if a != a else f"{a:.2f} ({low:.2f} to {high:.2f})" for a, low, high in ends],
        index=table.index,
        dtype=object,
    )
