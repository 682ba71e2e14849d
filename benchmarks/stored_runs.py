"""Do stored runs say what the code gives? They are made once more, and compared.

    .venv/bin/python benchmarks/stored_runs.py [NAME …]

NAME: a sweep of data/records/sweeps, of which the first run is made, or a run of the archive,
PAGE/NAME in data/records; `all`: all of both. Without one: the sweeps that need neither other data
nor another model. A figure has moved if it differs by more than a hundredth of its metric's largest
value, or is no longer recorded. The new runs are kept, and nothing is replaced.
"""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pandas as pd

from probebook.base import DATA, ROOT, UserError
from probebook_runs.archive import folder, manifests
from probebook_runs.execute import PageFailed, execute
from probebook_runs.pages import find
from probebook_runs.records import plain_value
from probebook_runs.store import Run, plan
from probebook_runs.sweep_file import checked, load

FAR = 0.01  # of a metric's largest value
SWEEPS = [path.stem for path in sorted((DATA / "records" / "sweeps").glob("*.csv"))]
# these need another package, or a model that is trained first, for hours
MORE = ("first_interventions", "agreement_models", "correlations_models", "detection_models")


def sweep_file(name: str) -> Path:
    return ROOT / "notebooks" / "sweeps" / f"{name}.yaml"


OURS = [name for name in SWEEPS if load(sweep_file(name)).profile == "pocket" and name not in MORE]


def stored(name: str) -> tuple[Run, pd.DataFrame]:
    """A stored run as it would be made now, and its figures, as text: table, ids, metric, value.
    UserError: there is no such run, or what it needs is not here."""
    if name not in SWEEPS:
        where, manifest = folder(name), manifests()[name]
        page = find(manifest["page"])
        values = {k: v for k, v in manifest["parameters"].items() if k in page.types}
        tables = [_as_text(path).assign(table=path.stem) for path in sorted(where.glob("*.csv"))]
        rows = pd.concat(tables).fillna("")
        return plan(page, manifest["profile"], values), rows
    run = checked(sweep_file(name))[0][1]
    rows = _as_text(DATA / "records" / "sweeps" / f"{name}.csv")
    at = list(rows).index("table")
    for column in list(rows)[2:at]:
        value = plain_value(run.values[column.removeprefix("p.")])
        rows = rows[rows[column] == str(value)]
    return run, rows.iloc[:, at:]


def recorded(run: Run) -> pd.DataFrame:
    """What a run records, in the same form."""
    return _as_text(StringIO(run.metrics().to_csv(index=False)))


def moved(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Stored rows whose figure is another one now: their keys, `value`, `value_now` and `apart`, as
    a share of the metric's largest value (1: it is not recorded any more). Rows whose keys are not
    theirs alone are left out."""
    keys = [name for name in before if name in now and name != "value"]

    def plain(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.assign(**{name: rows[name].map(_plain) for name in keys})
        return rows[[*keys, "value"]].drop_duplicates(keys, keep=False)

    both = plain(before).merge(plain(now), "left", keys, suffixes=("", "_now"), indicator="found")
    both[["value", "value_now"]] = both[["value", "value_now"]].apply(pd.to_numeric)
    largest = both.value.abs().groupby([both.table, both.metric]).transform("max")
    gap = (both.value - both.value_now).abs() / largest.where(largest > 0, 1)
    none = both.value.isna() & both.value_now.isna() & (both.pop("found") == "both")
    both["apart"] = gap.mask(none, 0).fillna(1)
    return both[both.apart > FAR]


def _as_text(file) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def _plain(text: str) -> str:
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def main(names: list[str]) -> None:
    for name in [*SWEEPS, *manifests()] if names == ["all"] else names or OURS:
        try:
            run, before = stored(name)
            execute(run)
        except (UserError, PageFailed) as e:
            print(f"{name}: {e}", flush=True)
            continue
        far = moved(before, recorded(run))
        print(f"{name}: {len(before)} figures, {len(far)} moved", flush=True)
        if len(far):
            print(far.nlargest(10, "apart").to_string(index=False), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
