"""The report of an audit (`probebook audit`) as data: what `report.json` holds."""
from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """What every part of a report has in common: no other fields, and no changes."""
    model_config = ConfigDict(extra="forbid", frozen=True)


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
    number (complete, kept, reliability, lead over random, lead over shuffled, closeness, explained
    …); `file`: the fitted edit of the first seed."""
    layer: int
    method: str
    symbol: str
    strength: float
    flips: bool
    word: str
    figures: dict[str, Figure]
    file: str


class Scores(Part):
    """One score of every judged item, in the order of `Items.id`: the mean over the seeds, None
    where an item has no such score.

    `kind`: "probe" or "edit"; `name`: which probe or method; `measure`: "right" (1: the probe is
    right), "complete", "kept: PROPERTY", "closeness", "follows" …"""
    kind: Literal["probe", "edit"]
    name: str
    layer: int
    measure: str
    values: list[float | None]


class Items(Part):
    """The judged items: the same id names the same item in every report on these data. `group`:
    items of one group are not independent."""
    id: list[str]
    group: list[str]
    label: list[str]
    scores: list[Scores]


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
