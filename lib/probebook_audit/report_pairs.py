"""Two reports of `probebook audit` on the same items, compared item by item."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from probebook.base import UserError, check_readable
from probebook.measures.paired import compare, compare_family, format_family

LEFT = {"far": ("way left", "way"), "error": ("effect left", "effect")}
WHOLE = ("far", "way", "error", "effect", "rewriting")  # which no two models have in common


class ReportPart(BaseModel):
    """What every part of a report has in common: no other fields, and no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Scores(ReportPart):
    """One score of every judged item, in the order of `Items.id`: the mean over the seeds, None
    where an item has no such score.

    `kind`: "probe" or "edit"; `name`: which probe or method; `measure`: "right" (1: the probe is
    right), "complete: JUDGE", "kept: JUDGE: PROPERTY", "far", "way", "error", "effect", "follows",
    "moved", "rewriting"."""

    kind: Literal["probe", "edit"]
    name: str
    layer: int
    measure: str
    values: list[float | None]


class Items(ReportPart):
    """The judged items: the same id names the same item in every report on these data. `group`:
    items of one group are not independent."""

    id: list[str]
    group: list[str]
    label: list[str]
    scores: list[Scores]


class Scored(BaseModel):
    """What a comparison needs of a `report.json`; its other fields are left alone."""

    version: Literal["1.0"]
    model: str
    data: str
    items: Items

    def table(self) -> pd.DataFrame:
        """Items × (kind, name, layer, measure), with NaN where there is no score."""
        columns = pd.MultiIndex.from_tuples(
            [(s.kind, s.name, s.layer, s.measure) for s in self.items.scores],
            names=["kind", "name", "layer", "measure"],
        )
        values = np.array([s.values for s in self.items.scores], float).T
        return pd.DataFrame(values, pd.Index(self.items.id, name="item"), columns)

    def comparable(self, items: pd.Index) -> pd.DataFrame:
        """The scores of some items that can be compared with another model's.

        A distance counts in mean lengths of the way that rewriting the text goes, since states of
        two models have no common scale, nor do effects on their choices: the mean of "way left" is
        1 − closeness, that of "effect left" 1 − explained. What no edit changes stands once, for
        the model: how far rewriting moves its choice."""
        scores = self.table().loc[items]
        for name in [*scores]:
            left, whole = LEFT.get(name[-1], ("", ""))
            if left and (*name[:-1], whole) in scores:
                scores[*name[:-1], left] = scores[name] / scores[*name[:-1], whole].mean()
            if name[-1] == "rewriting":
                scores["model", "", name[2], "rewriting"] = scores[name]
        return scores[[name for name in scores if name[0] == "model" or name[-1] not in WHOLE]]


def read(path: str | Path) -> Scored:
    """A report from its file or folder. UserError: it is none, or does not hold together."""
    path = Path(path) / "report.json" if Path(path).is_dir() else Path(path)
    try:
        report = Scored.model_validate_json(check_readable(path).read_bytes())
        items = report.items
        columns: list[list] = [items.id, items.group, items.label]
        columns += [one.values for one in items.scores]
        if len({*map(len, columns)}) > 1 or len({*items.id}) < len(items.id):
            raise UserError(f"{path}: its items do not hold together; run the audit again")
        if not items.scores or not items.id:
            raise UserError(f"{path}: this audit scored no items")
    except OSError as e:
        raise UserError(f"{path}: {e.strerror}; give the report.json of an audit") from None
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path} is not a valid report.json of probebook audit ({where}: "
            f"{first['msg']}); two logs are compared by probebook paired RUN_A RUN_B"
        ) from None
    return report


def compare_reports(a: Scored, b: Scored) -> tuple[pd.DataFrame, int]:
    """Compare every score that both reports have (`comparable`) on their common items; says also
    how many those are.

    Items of one group count together (`paired.compare`). If each report has one layer, the
    two are compared, else equal layers are. Columns: kind, name, layer, measure, and those of
    `compare_family`. Of "way left" and "effect left" higher is worse. UserError: no common item or
    score, or items with other labels."""
    about = [
        pd.DataFrame({"group": one.items.group, "label": one.items.label}, one.items.id)
        for one in (a, b)
    ]
    common = about[0].index.intersection(about[1].index, sort=False)
    scores = [a.comparable(common), b.comparable(common)]
    layers = [one.columns.get_level_values("layer").unique() for one in scores]
    if all(len(one) == 1 for one in layers):  # the last layer of a deeper model, say
        scores[1] = scores[1].rename(columns={layers[1][0]: layers[0][0]}, level="layer")
    names = scores[0].columns.intersection(scores[1].columns, sort=False)
    if common.empty or names.empty:
        raise UserError(
            f"the reports share no {'item' if common.empty else 'score'}: audit both "
            "models on the same data, with the same methods and layers"
        )
    other = int((about[0].label[common] != about[1].label[common]).sum())
    if other:
        raise UserError(
            f"{other:,} of {len(common):,} common items have other labels in the two "
            "reports: compare audits of the same property"
        )
    group = about[0].group[common].to_numpy()
    x, y = (one[names].to_numpy() for one in scores)
    scored = np.isfinite(x) & np.isfinite(y)
    kept = [i for i, rows in enumerate(scored.T) if len({*group[rows]}) > 1]
    if not kept:
        raise UserError("no score is there for two common items of different groups")
    compared = [
        compare(x[rows, i], y[rows, i], group[rows]) for i in kept for rows in [scored[:, i]]
    ]
    return compare_family(compared, names[kept]).reset_index(), len(common)


def format_comparison(a: Scored, b: Scored) -> str:
    """The comparison as text: what A and B are, a row for each score, what the columns mean.

    UserError: as `compare_reports`."""
    table, items = compare_reports(a, b)
    rows = format_family(table, "kind", "name", "layer", "measure")
    return (
        f"A is {a.model} on {a.data}, B is {b.model} on {b.data}; {items:,} items in both, of "
        f"{len(a.items.id):,} and {len(b.items.id):,}\n\n{rows}\nway left, effect left: of what "
        "rewriting the text does to state and choice, 1 without an edit; higher is worse"
    )
